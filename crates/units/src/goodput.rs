//! [`Goodput`]: what of a file arrives per second.

use std::ops::Mul;
use std::time::Duration;

use crate::Bytes;
use crate::parse::Grammar;
use crate::quantity::quantity;
use crate::rate::{BIT_RATE_ALIASES, BIT_RATE_UNITS};

/// Bits per second of file bytes: no headers, no records, no retransmissions.
///
/// `Bytes / Duration` is a goodput, `Goodput * Duration` are bytes, `Bytes / Goodput` is a
/// duration. What the network carries for it is a [`Rate`](crate::Rate); only
/// [`WireOverhead`](crate::WireOverhead) turns one into the other.
///
/// Written like a rate: `8 Gb/s`, `8Gbps`, `8Gbit/s`, or in bytes `1 GB/s` (the same goodput).
///
/// ```
/// use std::time::Duration;
/// use units::{Bytes, Goodput};
///
/// let day = Duration::from_secs(24 * 3600);
/// assert_eq!(Bytes::tb(1080) / day, Goodput::gbps(100));
/// assert_eq!(Goodput::gbps(100) * day, Bytes::tb(1080));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Goodput(u64);

impl Goodput {
    /// A goodput in bits per second.
    pub const fn from_bps(bps: u64) -> Goodput {
        Goodput(bps)
    }

    /// A goodput in megabits per second, at most [`Goodput::MAX`].
    pub const fn mbps(mbps: u64) -> Goodput {
        Goodput(mbps.saturating_mul(1_000_000))
    }

    /// A goodput in gigabits per second, at most [`Goodput::MAX`].
    pub const fn gbps(gbps: u64) -> Goodput {
        Goodput(gbps.saturating_mul(1_000_000_000))
    }

    /// This goodput in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

/// The bytes that arrive in that time, rounded down, at most [`Bytes::MAX`].
impl Mul<Duration> for Goodput {
    type Output = Bytes;

    fn mul(self, time: Duration) -> Bytes {
        bytes_in(self.0, time)
    }
}

/// Whole bytes that pass in `time` at `bps` bits per second.
pub(crate) fn bytes_in(bps: u64, time: Duration) -> Bytes {
    // Seconds and the rest apart: bps × nanoseconds would need 158 bits, this needs 128.
    let of_seconds = u128::from(bps) * u128::from(time.as_secs());
    let of_rest = u128::from(bps) * u128::from(time.subsec_nanos()) / NANOS_PER_SECOND;
    let bytes = (of_seconds + of_rest) / 8;
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

pub(crate) const NANOS_PER_SECOND: u128 = 1_000_000_000;

static GRAMMAR: Grammar =
    Grammar { noun: "goodput", units: BIT_RATE_UNITS, aliases: BIT_RATE_ALIASES, binary: false, example: "8 Gb/s" };

quantity!(Goodput, GRAMMAR);
