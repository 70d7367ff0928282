//! What is set on a data stream's socket once its path is known.

use std::os::fd::BorrowedFd;

/// Below this round trip a path is within a site: a computer room, or this host.
const SHORT_PATH_US: u64 = 1000;
/// Send buffer on such a path. What is in flight then stays in cache; autotuning would let megabytes queue
/// up (measured over a veth pair: one stream 38 against 24 Gb/s).
const SHORT_PATH_BUFFER: usize = 512 << 10;

/// What was chosen for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Congestion control in force.
    pub congestion: Option<String>,
    /// Why, when the user named none; or why the named one is not in force.
    pub reason: Option<String>,
    /// True if what the user named was refused.
    pub refused: bool,
}

/// Sets congestion control and send buffer of a stream that will send.
#[must_use]
pub fn sender(fd: BorrowedFd<'_>, named: Option<&str>, rtt_us: u64, _streams: u16) -> Chosen {
    let chosen = congestion(fd, named, rtt_us);
    if rtt_us < SHORT_PATH_US
        && let Err(error) = sys::socket::set_send_buffer(fd, SHORT_PATH_BUFFER)
    {
        tracing::debug!(%error, "setting the send buffer");
    }
    chosen
}

fn congestion(fd: BorrowedFd<'_>, named: Option<&str>, rtt_us: u64) -> Chosen {
    let in_force = || sys::socket::congestion(fd).ok();
    if let Some(name) = named {
        return match sys::socket::set_congestion(fd, name) {
            Ok(()) => Chosen { congestion: Some(name.to_owned()), reason: None, refused: false },
            Err(error) => {
                let allowed = sys::socket::allowed_congestion().unwrap_or_default().join(" ");
                let reason = format!("congestion control {name} cannot be set: {error}; allowed here: {allowed}");
                Chosen { congestion: in_force(), reason: Some(reason), refused: true }
            }
        };
    }
    let default = in_force();
    if default.as_deref() == Some("bbr") && rtt_us < SHORT_PATH_US {
        let reason = "bbr without the fq qdisc is slow on a path this short";
        return match sys::socket::set_congestion(fd, "cubic") {
            Ok(()) => Chosen { congestion: Some("cubic".to_owned()), reason: Some(reason.to_owned()), refused: false },
            Err(error) => {
                let reason = format!("the kernel's default; {reason}, but cubic cannot be set: {error}");
                Chosen { congestion: default, reason: Some(reason), refused: false }
            }
        };
    }
    Chosen { congestion: default, reason: Some("the kernel's default".to_owned()), refused: false }
}
