//! Congestion control and pacing.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

use super::raw::{get_bytes, set_bytes};

/// The pacing rate that means no limit.
pub const RATE_UNLIMITED: u64 = u64::MAX;

/// Chooses the congestion control by its kernel name, such as `bbr`; a module is loaded if the
/// process may do that.
///
/// # Errors
///
/// `NotFound` when the kernel has none of this name; `PermissionDenied` when it is not among the
/// [allowed](allowed_congestion) and the process has no CAP_NET_ADMIN.
pub fn set_congestion(fd: impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(fd, name)?)
}

/// The name of the congestion control in use.
///
/// # Errors
///
/// What the kernel says.
pub fn congestion(fd: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(fd)?)
}

/// The congestion controls this kernel has loaded.
///
/// # Errors
///
/// `NotFound` where `/proc` is not mounted.
pub fn available_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// Those among them that a process without privilege may choose.
///
/// # Errors
///
/// `NotFound` where `/proc` is not mounted.
pub fn allowed_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

fn words(path: &str) -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(path)?.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Limits the rate the kernel sends at, in bytes of TCP payload and headers per second
/// ([`RATE_UNLIMITED`]: no limit), and returns the limit it took.
///
/// The rate may change at any time. Kernels before 4.20 count in 32 bits: they get at most
/// 4 294 967 294 bytes per second (34 Gb/s).
///
/// # Errors
///
/// `Unsupported` when the kernel took neither; Multipath TCP refuses.
pub fn set_max_pacing_rate(fd: impl AsFd, bytes_per_second: u64) -> io::Result<u64> {
    let fd = fd.as_fd();
    let set = |value: &[u8]| set_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value);
    set(&bytes_per_second.to_ne_bytes())?;
    if max_pacing_rate(fd)? == bytes_per_second {
        return Ok(bytes_per_second);
    }
    // An old kernel read half of the number.
    let narrow = match bytes_per_second {
        RATE_UNLIMITED => u32::MAX,
        limited => u32::try_from(limited).unwrap_or(u32::MAX).min(u32::MAX - 1),
    };
    set(&narrow.to_ne_bytes())?;
    max_pacing_rate(fd)
}

/// The limit in force, in bytes per second, or [`RATE_UNLIMITED`].
///
/// # Errors
///
/// What the kernel says.
pub fn max_pacing_rate(fd: impl AsFd) -> io::Result<u64> {
    let mut value = [0; 8];
    match get_bytes(fd.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut value)? {
        8 => Ok(u64::from_ne_bytes(value)),
        _ => {
            let [a, b, c, d, ..] = value;
            let narrow = u32::from_ne_bytes([a, b, c, d]);
            Ok(if narrow == u32::MAX { RATE_UNLIMITED } else { u64::from(narrow) })
        }
    }
}
