//! [`Rate`]: what the network carries.

use std::time::Duration;

use crate::Bytes;
use crate::parse::Grammar;
use crate::quantity::quantity;

/// Bits per second of IP packets, with their headers.
///
/// The unit of everything that belongs to the network: a link's capacity, a high-water mark, a
/// reservation, a pacing set point, a counter of the twin. File bytes per second are a
/// [`Goodput`](crate::Goodput), a different type; only [`WireOverhead`](crate::WireOverhead) turns
/// one into the other.
///
/// Written `8 Gb/s`, `8Gbps`, `8Gbit/s`, or in bytes `1 GB/s` (the same rate).
///
/// ```
/// use units::Rate;
///
/// assert_eq!("8Gbps".parse(), Ok(Rate::gbps(8)));
/// assert_eq!("1 GB/s".parse(), Ok(Rate::gbps(8)));
/// assert_eq!(Rate::from_bps(9_412_345_678).to_string(), "9.412 Gb/s");
/// assert_eq!(format!("{:#}", Rate::from_bps(9_412_345_678)), "9412345678 b/s");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate in bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// A rate in megabits per second, at most [`Rate::MAX`].
    pub const fn mbps(mbps: u64) -> Rate {
        Rate(mbps.saturating_mul(1_000_000))
    }

    /// A rate in gigabits per second, at most [`Rate::MAX`].
    pub const fn gbps(gbps: u64) -> Rate {
        Rate(gbps.saturating_mul(1_000_000_000))
    }

    /// This rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// This rate times `numerator / denominator`, rounded down, at most [`Rate::MAX`].
    ///
    /// For shares by weight and for steps by ratio; the product is taken in 128 bits. A share of
    /// nothing is nothing: a `denominator` of 0 gives [`Rate::ZERO`].
    pub const fn scaled(self, numerator: u64, denominator: u64) -> Rate {
        if denominator == 0 {
            return Rate::ZERO;
        }
        let scaled = self.0 as u128 * numerator as u128 / denominator as u128;
        Rate(if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 })
    }

    /// The bytes of packets in flight at this rate over a round trip: bandwidth × delay.
    ///
    /// Rounded down, at most [`Bytes::MAX`]. These are bytes on the wire, for the size of buffers
    /// and queues; they are not file bytes.
    pub fn in_flight(self, rtt: Duration) -> Bytes {
        crate::goodput::bytes_in(self.0, rtt)
    }
}

pub(crate) const BIT_RATE_UNITS: &[(&str, u64)] = &[("b/s", 1), ("B/s", 8)];
pub(crate) const BIT_RATE_ALIASES: &[(&str, u64)] = &[("bps", 1), ("bit/s", 1)];

static GRAMMAR: Grammar =
    Grammar { noun: "rate", units: BIT_RATE_UNITS, aliases: BIT_RATE_ALIASES, binary: false, example: "8 Gb/s" };

quantity!(Rate, GRAMMAR);
