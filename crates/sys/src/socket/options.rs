//! Options of a TCP socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, sockopt};

use super::raw::{get_int, set_bytes, set_int};

/// Sends small segments at once (TCP_NODELAY).
///
/// # Errors
///
/// What the kernel says, as for every option here; mostly that this is no TCP socket.
pub fn set_nodelay(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, on)?)
}

/// Whether small segments go at once.
///
/// # Errors
///
/// What the kernel says.
pub fn nodelay(fd: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::tcp_nodelay(fd)?)
}

/// The socket counts as writable only while fewer than `bytes` of it wait to be sent for the first
/// time (TCP_NOTSENT_LOWAT): what is in flight stays bounded by the window, what waits by this.
///
/// # Errors
///
/// What the kernel says.
pub fn set_notsent_lowat(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set_bytes(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes.to_ne_bytes())
}

/// The mark of [`set_notsent_lowat`], in bytes; 0 where the system's default applies.
///
/// # Errors
///
/// What the kernel says.
pub fn notsent_lowat(fd: impl AsFd) -> io::Result<u32> {
    Ok(get_int(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)? as u32)
}

/// Closing throws away what was not acknowledged and tells the peer by a reset (SO_LINGER of nothing).
///
/// # Errors
///
/// What the kernel says.
pub fn set_reset_on_close(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

/// `TCP_RTO_MAX_MS` of `linux/tcp.h`, not in `libc` yet.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// The longest that the kernel waits between two attempts to send something again (TCP_RTO_MAX_MS): without it the wait
/// doubles up to 2 minutes, and a path that was dead for a minute is found alive a minute late. At least a second.
///
/// # Errors
///
/// `Uncategorized` before Linux 6.15, which does not know it.
pub fn set_rto_max(fd: impl AsFd, longest: Duration) -> io::Result<()> {
    let ms = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX).clamp(1000, 120_000);
    set_int(fd.as_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, ms)
}

/// The socket counts as readable only when `bytes` wait (SO_RCVLOWAT); at most half the receive
/// buffer.
///
/// # Errors
///
/// What the kernel says.
pub fn set_rcvlowat(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    let value = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_int(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value)
}

/// The mark of [`set_rcvlowat`] in bytes.
///
/// # Errors
///
/// What the kernel says.
pub fn rcvlowat(fd: impl AsFd) -> io::Result<u32> {
    Ok(get_int(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT)? as u32)
}

/// How long sent data may stay unacknowledged before the connection breaks (TCP_USER_TIMEOUT);
/// zero is the system's own, many minutes.
///
/// # Errors
///
/// What the kernel says.
pub fn set_user_timeout(fd: impl AsFd, span: Duration) -> io::Result<()> {
    let ms = u32::try_from(span.as_millis()).unwrap_or(i32::MAX as u32).min(i32::MAX as u32);
    Ok(sockopt::set_tcp_user_timeout(fd, ms)?)
}

/// The span of [`set_user_timeout`].
///
/// # Errors
///
/// What the kernel says.
pub fn user_timeout(fd: impl AsFd) -> io::Result<Duration> {
    Ok(Duration::from_millis(u64::from(sockopt::tcp_user_timeout(fd)?)))
}

/// Probing of a silent connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; whole seconds, at least one.
    pub idle: Duration,
    /// Between probes; whole seconds, at least one.
    pub interval: Duration,
    /// Unanswered probes that end the connection: 1 to 127.
    pub count: u32,
}

/// Turns probing on, or off with `None`.
///
/// # Errors
///
/// `InvalidInput` for values out of range.
pub fn set_keepalive(fd: impl AsFd, keepalive: Option<Keepalive>) -> io::Result<()> {
    let fd = fd.as_fd();
    if let Some(k) = keepalive {
        sockopt::set_tcp_keepidle(fd, k.idle)?;
        sockopt::set_tcp_keepintvl(fd, k.interval)?;
        sockopt::set_tcp_keepcnt(fd, k.count)?;
    }
    Ok(sockopt::set_socket_keepalive(fd, keepalive.is_some())?)
}

/// The probing in force, or `None` when it is off.
///
/// # Errors
///
/// What the kernel says.
pub fn keepalive(fd: impl AsFd) -> io::Result<Option<Keepalive>> {
    let fd = fd.as_fd();
    if !sockopt::socket_keepalive(fd)? {
        return Ok(None);
    }
    Ok(Some(Keepalive {
        idle: sockopt::tcp_keepidle(fd)?,
        interval: sockopt::tcp_keepintvl(fd)?,
        count: sockopt::tcp_keepcnt(fd)?,
    }))
}

/// Allows binding to an address that old connections still use (SO_REUSEADDR).
///
/// # Errors
///
/// What the kernel says.
pub fn set_reuseaddr(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseaddr(fd, on)?)
}

/// Lets several listeners of one user share a port (SO_REUSEPORT).
///
/// # Errors
///
/// What the kernel says.
pub fn set_reuseport(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(fd, on)?)
}

/// Keeps an IPv6 listener from taking IPv4 connections too; before bind.
///
/// # Errors
///
/// `InvalidInput` once it is bound.
pub fn set_v6only(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_ipv6_v6only(fd, on)?)
}

/// Marks what is sent with a differentiated-services code point, 0 to 63; the two ECN bits stay the
/// kernel's. On an IPv6 socket both headers are set, for peers with an IPv4 address mapped.
///
/// # Errors
///
/// `InvalidInput` above 63.
pub fn set_dscp(fd: impl AsFd, dscp: u8) -> io::Result<()> {
    let fd = fd.as_fd();
    if dscp > 63 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "code point above 63"));
    }
    let byte = dscp << 2;
    if is_v6(fd)? {
        sockopt::set_ipv6_tclass(fd, u32::from(byte))?;
        // Only matters for mapped peers, and a socket that is v6-only may refuse.
        let _ = sockopt::set_ip_tos(fd, byte);
        return Ok(());
    }
    Ok(sockopt::set_ip_tos(fd, byte)?)
}

/// The code point of what is sent.
///
/// # Errors
///
/// What the kernel says.
pub fn dscp(fd: impl AsFd) -> io::Result<u8> {
    let fd = fd.as_fd();
    let byte = if is_v6(fd)? { sockopt::ipv6_tclass(fd)? as u8 } else { sockopt::ip_tos(fd)? };
    Ok(byte >> 2)
}

pub(super) fn is_v6(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sockopt::socket_domain(fd)? == AddressFamily::INET6)
}

/// Sends and receives by this network interface only (SO_BINDTODEVICE); an empty name undoes it.
///
/// # Errors
///
/// `ENODEV` when there is no such interface; `PermissionDenied` without CAP_NET_RAW to change an
/// existing binding; `InvalidInput` for a name over 15 bytes.
pub fn bind_to_device(fd: impl AsFd, interface: &str) -> io::Result<()> {
    if interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of an interface"));
    }
    set_bytes(fd.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())
}

/// Acknowledges at once for now (TCP_QUICKACK); the kernel turns it off again by itself.
///
/// # Errors
///
/// What the kernel says.
pub fn set_quickack(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(fd, on)?)
}

/// The largest segment in bytes (TCP_MAXSEG): the negotiated one once connected.
///
/// # Errors
///
/// What the kernel says.
pub fn mss(fd: impl AsFd) -> io::Result<u32> {
    Ok(get_int(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG)? as u32)
}

/// Bounds the largest segment, in bytes; before connecting.
///
/// # Errors
///
/// `InvalidInput` outside 88 to 32767.
pub fn set_mss(fd: impl AsFd, bytes: u16) -> io::Result<()> {
    set_int(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, i32::from(bytes))
}
