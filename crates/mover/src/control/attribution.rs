//! Why slow: each second of a session is put down to one thing.
//!
//! Where the flow is held back, everything before that place is full and everything after it is empty.
//! So the question is asked from the far end towards the near one, and the first place that is busy
//! while what comes before it waits is the answer. [`attribute`] has the order.

mod shares;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use proto::control::Telemetry;
use serde::{Deserialize, Serialize};

pub use shares::Shares;

/// What held a session back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nothing that was seen tells.
    #[default]
    Unknown,
    /// Reading at the source.
    SourceDisk,
    /// Processors of the source: hashing, sealing, sending.
    SourceCpu,
    /// The send buffer is smaller than bandwidth × delay.
    SenderWindow,
    /// The network loses packets.
    NetworkLoss,
    /// The network takes no more: bandwidth and congestion control.
    NetworkPath,
    /// The receive buffer is smaller than bandwidth × delay.
    ReceiverWindow,
    /// Processors of the destination: receiving, opening, verifying.
    DestinationCpu,
    /// Writing at the destination.
    DestinationDisk,
    /// The set point.
    RateLimit,
    /// Nothing is busy: an answer is awaited, for metadata, a commit, a hook.
    Latency,
    /// There is nothing to do.
    Idle,
    /// Giving way to other traffic.
    Politeness,
}

impl Limit {
    /// All of them, in the order of their codes.
    pub const ALL: [Limit; 13] = [
        Limit::Unknown,
        Limit::SourceDisk,
        Limit::SourceCpu,
        Limit::SenderWindow,
        Limit::NetworkLoss,
        Limit::NetworkPath,
        Limit::ReceiverWindow,
        Limit::DestinationCpu,
        Limit::DestinationDisk,
        Limit::RateLimit,
        Limit::Latency,
        Limit::Idle,
        Limit::Politeness,
    ];

    /// Its number in [`Telemetry::limit`]; 0 is [`Limit::Unknown`].
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The limit of a number in [`Telemetry::limit`]; what this version has no name for is unknown.
    #[must_use]
    pub fn of_code(code: u8) -> Limit {
        Limit::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }

    /// Its name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Limit::Unknown => "unknown",
            Limit::SourceDisk => "source_disk",
            Limit::SourceCpu => "source_cpu",
            Limit::SenderWindow => "sender_window",
            Limit::NetworkLoss => "network_loss",
            Limit::NetworkPath => "network_path",
            Limit::ReceiverWindow => "receiver_window",
            Limit::DestinationCpu => "destination_cpu",
            Limit::DestinationDisk => "destination_disk",
            Limit::RateLimit => "rate_limit",
            Limit::Latency => "latency",
            Limit::Idle => "idle",
            Limit::Politeness => "politeness",
        }
    }

    /// More streams could help: it is the network's, a window's or a thread's limit, each of which counts
    /// per stream.
    #[must_use]
    pub fn is_per_stream(self) -> bool {
        match self {
            Limit::SenderWindow | Limit::ReceiverWindow | Limit::NetworkLoss | Limit::NetworkPath => true,
            Limit::SourceCpu | Limit::DestinationCpu => true,
            Limit::SourceDisk | Limit::DestinationDisk | Limit::RateLimit | Limit::Latency | Limit::Idle => false,
            Limit::Politeness | Limit::Unknown => false,
        }
    }
}

/// For people: `source disk`, `destination CPU`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::SourceCpu => f.pad("source CPU"),
            Limit::DestinationCpu => f.pad("destination CPU"),
            other => f.pad(&other.name().replace('_', " ")),
        }
    }
}

/// A share in thousandths, at most 1000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMille(u16);

impl PerMille {
    /// All of it.
    pub const ALL: PerMille = PerMille(1000);

    /// That many thousandths, at most all.
    #[must_use]
    pub const fn new(thousandths: u16) -> PerMille {
        if thousandths > 1000 { PerMille::ALL } else { PerMille(thousandths) }
    }

    /// The share of `part` in `whole`, at most all; of nothing it is nothing.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> PerMille {
        let share = (u128::from(part) * 1000).checked_div(u128::from(whole)).unwrap_or(0);
        PerMille(share.min(1000) as u16)
    }

    /// The share of a part of some time.
    #[must_use]
    pub fn of_time(part: Duration, whole: Duration) -> PerMille {
        PerMille::of(part.as_micros() as u64, whole.as_micros() as u64)
    }

    /// Thousandths.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// What was seen of one second, at the source and by telemetry at the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Parcels are on their way or not yet confirmed.
    pub outstanding: bool,
    /// Bytes were acknowledged.
    pub moved: bool,
    /// Time in which the session sent what its set point allows: of [`Pacer::held`](super::pace::Pacer::held).
    pub held: PerMille,
    /// Time in which it sent what giving way leaves it: of [`Polite::held`](super::polite::Polite::held).
    pub polite: PerMille,
    /// The source.
    pub source: Source,
    /// Its sockets.
    pub tcp: Tcp,
    /// The destination.
    pub destination: Destination,
}

/// What was seen of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Source {
    /// Time in which a stream could send and no parcel was ready.
    pub empty: PerMille,
    /// Time in which its readers were busy, on the mean.
    pub readers: PerMille,
    /// Part of that in which they computed: hashes, digests.
    pub hashing: PerMille,
    /// Busy share of its busiest network thread, of one core.
    pub net: PerMille,
    /// Busy share of all cores of the host.
    pub host: PerMille,
}

/// What the kernel counted at the source, summed over streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Time with something to send (`tcpi_busy_time`).
    pub busy: Duration,
    /// Part of it held back by the receiver's window (`tcpi_rwnd_limited`).
    pub receiver_limited: Duration,
    /// Part of it held back by the send buffer (`tcpi_sndbuf_limited`).
    pub buffer_limited: Duration,
    /// Segments sent.
    pub segments: u64,
    /// Of them, lost.
    pub lost: u64,
    /// Time in which the congestion window was full, if that was sampled.
    pub window_full: Option<PerMille>,
}

/// What was seen of the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Destination {
    /// Busy share of its busiest network thread, of one core.
    pub net: PerMille,
    /// Time in which all its writers were busy.
    pub disk: PerMille,
    /// Time in which data waited for a free buffer.
    pub starved: PerMille,
    /// Busy share of all cores of the host.
    pub host: PerMille,
}

impl From<&Telemetry> for Destination {
    fn from(telemetry: &Telemetry) -> Destination {
        Destination {
            net: PerMille::new(telemetry.net_busy),
            disk: PerMille::new(telemetry.disk_busy),
            starved: PerMille::new(telemetry.starved),
            host: PerMille::new(telemetry.host_busy),
        }
    }
}

/// Half of a second makes a thing the reason for it.
const MOST: PerMille = PerMille::new(500);
/// What is less than that, but more than by chance.
const SOME: PerMille = PerMille::new(250);
/// A thread that is busy so much has no time left: the rest is lost in waking up.
const THREAD_FULL: PerMille = PerMille::new(900);
/// The same for a whole host.
const HOST_FULL: PerMille = PerMille::new(950);
/// Retransmissions from which loss, not capacity, forms the rate: at 1 in 1000 a loss-based congestion
/// control gets 39 segments per round trip (Mathis: 1.22 / √p).
const LOSS: PerMille = PerMille::new(1);

/// What held the session back in that second. The first line that is true decides:
///
/// | | seen | named |
/// |---|---|---|
/// | 1 | the set point, or what giving way leaves, was reached in most of the second | `rate_limit`, `politeness` |
/// | 2 | nothing was sent, and nothing was ready or being read | `destination_disk` if it was busy (what has arrived is made durable), `latency` while something is outstanding, else `idle` |
/// | 3 | the destination had no free buffer most of the time | `destination_disk` if it was busy, `destination_cpu` if its processors were, else `latency` |
/// | 4 | streams waited for parcels most of the time | `source_cpu` if readers computed or the host was full, `source_disk` if they read, else `latency` |
/// | 5 | the receiver's window was closed for most of the time with data | `destination_cpu` or `destination_disk` if those were busy, else `receiver_window` |
/// | 6 | the send buffer was short for most of the time with data | `source_cpu` if it could not be filled in time, else `sender_window` |
/// | 7 | a network thread, or a host, had no time left | the fuller of `destination_cpu`, `source_cpu` |
/// | 8 | the sockets had nothing to send | `unknown` |
/// | 9 | the congestion window had room and nothing was lost | `latency` |
/// | 10 | one segment in a thousand was sent again | `network_loss` |
/// | 11 | else | `network_path` |
///
/// The set point is named only when it was reached: a larger shortfall has another cause.
#[must_use]
pub fn attribute(second: &Second) -> Limit {
    let Second { source, tcp, destination, .. } = second;
    if second.held >= MOST {
        return Limit::RateLimit;
    }
    if second.polite >= MOST {
        return Limit::Politeness;
    }
    if !second.moved && source.empty >= MOST && source.readers < SOME {
        return match (destination.disk >= MOST, second.outstanding) {
            (true, _) => Limit::DestinationDisk,
            (false, true) => Limit::Latency,
            (false, false) => Limit::Idle,
        };
    }
    if destination.starved >= MOST {
        return destination.writing();
    }
    if source.empty >= MOST {
        return source.reading();
    }
    if tcp.share(tcp.receiver_limited) >= MOST {
        return destination.receiving();
    }
    if tcp.share(tcp.buffer_limited) >= MOST {
        return if source.is_full() { Limit::SourceCpu } else { Limit::SenderWindow };
    }
    match (source.is_full(), destination.is_full()) {
        (true, false) => return Limit::SourceCpu,
        (false, true) => return Limit::DestinationCpu,
        // Receiving costs more than sending, so of two equals it is the destination.
        (true, true) if source.net > destination.net => return Limit::SourceCpu,
        (true, true) => return Limit::DestinationCpu,
        (false, false) => {}
    }
    if tcp.busy.is_zero() {
        return Limit::Unknown;
    }
    let lossy = PerMille::of(tcp.lost, tcp.segments) >= LOSS;
    match (lossy, tcp.window_full) {
        (true, _) => Limit::NetworkLoss,
        (false, Some(full)) if full < SOME => Limit::Latency,
        (false, _) => Limit::NetworkPath,
    }
}

impl Source {
    fn is_full(&self) -> bool {
        self.net >= THREAD_FULL || self.host >= HOST_FULL
    }

    /// Why no parcel was ready.
    fn reading(&self) -> Limit {
        if self.host >= HOST_FULL || (self.readers >= MOST && self.hashing >= MOST) {
            Limit::SourceCpu
        } else if self.readers >= MOST {
            Limit::SourceDisk
        } else {
            Limit::Latency
        }
    }
}

impl Destination {
    fn is_full(&self) -> bool {
        self.net >= THREAD_FULL || self.host >= HOST_FULL
    }

    /// Why no buffer was free.
    fn writing(&self) -> Limit {
        if self.disk >= MOST {
            Limit::DestinationDisk
        } else if self.is_full() {
            Limit::DestinationCpu
        } else {
            Limit::Latency
        }
    }

    /// Why the window was closed.
    fn receiving(&self) -> Limit {
        if self.is_full() {
            Limit::DestinationCpu
        } else if self.starved >= SOME && self.disk >= SOME {
            Limit::DestinationDisk
        } else {
            Limit::ReceiverWindow
        }
    }
}

impl Tcp {
    /// Share of the time with something to send.
    fn share(&self, part: Duration) -> PerMille {
        PerMille::of_time(part, self.busy)
    }
}
