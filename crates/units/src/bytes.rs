//! [`Bytes`]: how much.

use std::ops::Div;
use std::time::Duration;

use crate::Goodput;
use crate::goodput::NANOS_PER_SECOND;
use crate::parse::Grammar;
use crate::quantity::quantity;

/// A number of bytes.
///
/// Written `2 TB`, `2TiB`, `512 MiB`, `0 B`. `{}` prints decimal prefixes; `{:#}` prints the exact
/// value with whichever prefix makes it short (`512 MiB`, `2 TB`, `1234567 B`).
///
/// ```
/// use units::Bytes;
///
/// assert_eq!("512 MiB".parse(), Ok(Bytes::mib(512)));
/// assert_eq!(Bytes::mib(512).to_string(), "536.9 MB");
/// assert_eq!(format!("{:#}", Bytes::mib(512)), "512 MiB");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// That many bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// That many KiB (2¹⁰ bytes), at most [`Bytes::MAX`].
    pub const fn kib(kib: u64) -> Bytes {
        Bytes(kib.saturating_mul(1 << 10))
    }

    /// That many MiB (2²⁰ bytes), at most [`Bytes::MAX`].
    pub const fn mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(1 << 20))
    }

    /// That many GiB (2³⁰ bytes), at most [`Bytes::MAX`].
    pub const fn gib(gib: u64) -> Bytes {
        Bytes(gib.saturating_mul(1 << 30))
    }

    /// That many terabytes (10¹² bytes), at most [`Bytes::MAX`].
    pub const fn tb(tb: u64) -> Bytes {
        Bytes(tb.saturating_mul(1_000_000_000_000))
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// These bytes over that time, rounded down; `None` in no time at all, or above
    /// [`Goodput::MAX`].
    pub fn checked_over(self, time: Duration) -> Option<Goodput> {
        let bits = u128::from(self.0) * 8 * NANOS_PER_SECOND;
        let bps = bits.checked_div(time.as_nanos())?;
        u64::try_from(bps).ok().map(Goodput::from_bps)
    }

    /// The time these bytes take, rounded up to the nanosecond; `None` when they never arrive, or
    /// after [`Duration::MAX`].
    pub fn checked_time_at(self, goodput: Goodput) -> Option<Duration> {
        if self.0 == 0 {
            return Some(Duration::ZERO);
        }
        if goodput.bps() == 0 {
            return None;
        }
        let bits = u128::from(self.0) * 8 * NANOS_PER_SECOND;
        let nanos = bits.div_ceil(u128::from(goodput.bps()));
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
        Some(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
    }
}

/// The goodput of these bytes over that time, rounded down.
///
/// Something in no time is [`Goodput::MAX`], nothing in no time is [`Goodput::ZERO`].
impl Div<Duration> for Bytes {
    type Output = Goodput;

    fn div(self, time: Duration) -> Goodput {
        if self.0 == 0 {
            return Goodput::ZERO;
        }
        self.checked_over(time).unwrap_or(Goodput::MAX)
    }
}

/// The time these bytes take at that goodput, rounded up to the nanosecond.
///
/// Something at no goodput takes [`Duration::MAX`], nothing takes no time.
impl Div<Goodput> for Bytes {
    type Output = Duration;

    fn div(self, goodput: Goodput) -> Duration {
        self.checked_time_at(goodput).unwrap_or(Duration::MAX)
    }
}

static GRAMMAR: Grammar = Grammar { noun: "size", units: &[("B", 1)], aliases: &[], binary: true, example: "512 MiB" };

quantity!(Bytes, GRAMMAR);
