//! What is set on a data stream's socket once its path is known.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use proto::control::Congestion;
use units::{Bytes, Rate};

use crate::control::buffers::{Limits, Path, SHORT_PATH, SendBuffer, send_buffer};

/// Most memory for the send buffers of one session: 400 Gb/s over 100 ms, held while a loss is repaired.
const SESSION_BUFFERS_MAX: Bytes = Bytes::gib(10);

/// Bytes that a stream holds at most which the kernel has not sent yet. They wait for nothing there: what is decided later
/// (another rate, another path) does not reach them, and when the stream's path dies they go over another one again. It is 0.3 ms
/// of 25 Gb/s, in which a thread has its turn.
pub const UNSENT_MAX: u32 = 1 << 20;

/// Sets congestion control and send buffer of a stream that will send, and gives way if `polite`; gives the congestion
/// control that the kernel uses then.
#[must_use]
pub fn sender(
    fd: BorrowedFd<'_>,
    named: Option<&str>,
    polite: bool,
    rtt_us: u64,
    rate: Option<Rate>,
    streams: u16,
) -> Congestion {
    let min_rtt = Some(Duration::from_micros(rtt_us));
    let no_bbr = if polite {
        // What it sends of its own accord delays others, and what it was held to for a while it takes for the path's rate.
        Some("bbr cannot give way")
    } else {
        min_rtt.filter(|rtt| *rtt < SHORT_PATH).map(|_| "bbr without the fq qdisc is slow on a path this short")
    };
    let chosen = congestion(fd, named, no_bbr);
    let limits = Limits {
        grown_max: Bytes::new(setting("/proc/sys/net/ipv4/tcp_wmem")),
        asked_max: Bytes::new(setting("/proc/sys/net/core/wmem_max")).max(privileged()),
        session_max: SESSION_BUFFERS_MAX,
    };
    if let SendBuffer::Bytes(bytes) = send_buffer(&Path { min_rtt, rate, streams }, &limits)
        && let Err(error) = sys::socket::set_send_buffer(fd, bytes.get() as usize)
    {
        tracing::debug!(%error, "setting the send buffer");
    }
    if let Err(error) = sys::socket::set_notsent_lowat(fd, UNSENT_MAX) {
        tracing::debug!(%error, "setting the low-water mark");
    }
    chosen
}

/// The last number of a kernel setting; 0 if it cannot be read.
fn setting(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Root may ask for any size.
fn privileged() -> Bytes {
    if sys::process::euid() == 0 { Bytes::MAX } else { Bytes::ZERO }
}

fn congestion(fd: BorrowedFd<'_>, named: Option<&str>, no_bbr: Option<&str>) -> Congestion {
    let in_force = || sys::socket::congestion(fd).ok();
    let because = |reason: String| Congestion { name: in_force(), reason: Some(reason), refused: false };
    if let Some(name) = named {
        return match sys::socket::set_congestion(fd, name) {
            Ok(()) => Congestion { name: in_force(), reason: None, refused: false },
            Err(error) => {
                let allowed = sys::socket::allowed_congestion().unwrap_or_default().join(" ");
                let reason = format!("congestion control {name} cannot be set: {error}; allowed here: {allowed}");
                Congestion { reason: Some(reason), refused: true, ..congestion(fd, None, no_bbr) }
            }
        };
    }
    if let (Some("bbr"), Some(reason)) = (in_force().as_deref(), no_bbr) {
        return match sys::socket::set_congestion(fd, "cubic") {
            Ok(()) => because(reason.to_owned()),
            Err(error) => because(format!("the kernel's default; {reason}, but cubic cannot be set: {error}")),
        };
    }
    because("the kernel's default".to_owned())
}
