//! What is set on a data stream's socket once its path is known.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use proto::control::Congestion;
use sys::socket::TcpInfo;
use units::{Bytes, Rate};

use crate::control::buffers::{Limits, Path, SHORT_PATH, SendBuffer, UNSENT_MAX, send_buffer, unsent};
use crate::control::tuner::is_far;

/// Most memory for the send buffers of one session: 400 Gb/s over 100 ms, held while a loss is repaired.
const SESSION_BUFFERS_MAX: Bytes = Bytes::gib(10);

/// Below this round trip BBR without the fq qdisc is slow.
const NO_BBR_BELOW: Duration = SHORT_PATH;

/// By what a stream's congestion control is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The user named it.
    Named(&'a str),
    /// The session gives way to others.
    Polite,
    /// The path loses packets without being full.
    Lossy,
    /// Nothing is known but the round trip.
    Usual,
}

/// Sets congestion control and send buffer of a stream that will send; gives the congestion control that the kernel uses then.
#[must_use]
pub fn sender(fd: BorrowedFd<'_>, choice: Choice<'_>, rtt_us: u64, rate: Option<Rate>, streams: u16) -> Congestion {
    let min_rtt = Some(Duration::from_micros(rtt_us));
    let chosen = congestion(fd, choice, Duration::from_micros(rtt_us));
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
    hold_unsent(fd, UNSENT_MAX);
    chosen
}

/// Sets how much of what the kernel has not sent yet a stream may hold.
pub fn hold_unsent(fd: BorrowedFd<'_>, bytes: u32) {
    if let Err(error) = sys::socket::set_notsent_lowat(fd, bytes) {
        tracing::debug!(%error, "setting the low-water mark");
    }
}

/// Sets the same by what the stream sends, if it is on a far path; gives its congestion window then, bytes.
pub fn hold_what_is_sent_soon(fd: BorrowedFd<'_>, info: &TcpInfo) -> Option<u64> {
    let rtt = Duration::from_micros(u64::from(info.rtt_us));
    let window_bytes = u64::from(info.snd_cwnd) * u64::from(info.snd_mss);
    is_far(Some(rtt)).then(|| {
        hold_unsent(fd, unsent(window_bytes, rtt));
        window_bytes
    })
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

/// Sets a stream's congestion control; gives what the kernel uses then.
pub fn congestion(fd: BorrowedFd<'_>, choice: Choice<'_>, rtt: Duration) -> Congestion {
    let in_force = || sys::socket::congestion(fd).ok();
    let because = |reason: String| Congestion { name: in_force(), reason: Some(reason), refused: false };
    let has_bbr = in_force().as_deref() == Some("bbr");
    let (name, reason) = match choice {
        Choice::Named(name) => {
            return match sys::socket::set_congestion(fd, name) {
                Ok(()) => Congestion { name: in_force(), reason: None, refused: false },
                Err(error) => {
                    let allowed = sys::socket::allowed_congestion().unwrap_or_default().join(" ");
                    let reason = format!("congestion control {name} cannot be set: {error}; allowed here: {allowed}");
                    Congestion { reason: Some(reason), refused: true, ..congestion(fd, Choice::Usual, rtt) }
                }
            };
        }
        // What it sends of its own accord delays others, and what it was held to for a while it takes for the path's rate.
        Choice::Polite if has_bbr => ("cubic", "bbr cannot give way"),
        Choice::Usual if has_bbr && rtt < NO_BBR_BELOW => {
            ("cubic", "bbr without the fq qdisc is slow on a path this short")
        }
        // Without loss its streams take as long to share a path as they lose by it; where there is loss it is taken.
        Choice::Usual if has_bbr && !is_fq() => ("cubic", "bbr without the fq qdisc is for paths that lose packets"),
        Choice::Lossy if !has_bbr => ("bbr", "the path loses packets without being full"),
        Choice::Lossy => return because("the path loses packets without being full".to_owned()),
        Choice::Polite | Choice::Usual => return because("the kernel's default".to_owned()),
    };
    match sys::socket::set_congestion(fd, name) {
        Ok(()) => because(reason.to_owned()),
        Err(error) => because(format!("the kernel's default; {reason}, but {name} cannot be set: {error}")),
    }
}

/// Has a stream of BBR begin again: it forgets what rate it had and when it last saw the path without a queue. What it is paced to at most
/// stays. A socket that is told what it has already does nothing, so it is told Reno between, which every kernel has and lets anybody have.
pub fn begin_again(fd: BorrowedFd<'_>) {
    let done = sys::socket::set_congestion(fd, "reno").and_then(|()| sys::socket::set_congestion(fd, "bbr"));
    if let Err(error) = done {
        tracing::debug!(%error, "beginning again with bbr");
    }
}

/// Whether devices get the fair queueing qdisc, which paces for BBR.
fn is_fq() -> bool {
    std::fs::read_to_string("/proc/sys/net/core/default_qdisc").is_ok_and(|name| name.trim() == "fq")
}
