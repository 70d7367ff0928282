//! What one stream tells of the path.

use std::time::Duration;

use super::Reading;
use super::base::Base;

/// A stream as it was last read.
#[derive(Debug)]
pub(super) struct Stream {
    /// The last reading with something acknowledged, but for what was sent again: that is the last one's.
    last: Reading,
    base: Base,
}

/// What happened on a stream between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// Payload acknowledged.
    pub(super) acked_bytes: u64,
    /// Acknowledgements that came.
    pub(super) acks: u32,
    /// Segments sent again.
    pub(super) resent: u32,
    /// Delay above the base, µs; `None` if nothing was acknowledged.
    pub(super) queue_us: Option<u64>,
}

impl Stream {
    pub(super) fn new(now: Duration, first: Reading) -> Stream {
        Stream { last: first, base: Base::new(now, first.rtt_us.min(first.min_rtt_us)) }
    }

    /// The path's delay without a queue, as of late; µs.
    pub(super) fn base_us(&self) -> u64 {
        self.base.get_us()
    }

    /// Takes a reading.
    pub(super) fn read(&mut self, now: Duration, reading: Reading) -> News {
        let before = std::mem::replace(&mut self.last.resent, reading.resent);
        let mut news = News {
            acked_bytes: reading.acked_bytes.saturating_sub(self.last.acked_bytes),
            acks: reading.acks.wrapping_sub(self.last.acks),
            resent: reading.resent.wrapping_sub(before),
            queue_us: None,
        };
        if news.acked_bytes > 0 {
            let rtt_us = unsmoothed(self.last.rtt_us, reading.rtt_us, news.acks);
            self.last = reading;
            self.base.see(now, rtt_us);
            news.queue_us = Some(u64::from(rtt_us).saturating_sub(self.base.get_us()));
        }
        news
    }
}

/// The mean of what went into a smoothed round trip since it was `before`: each acknowledgement replaces an eighth of it.
/// Those that the kernel took nothing from make the result lag, never overshoot.
fn unsmoothed(before: u32, after: u32, acks: u32) -> u32 {
    /// After so many a 2000th of what was before is left.
    const ACKS_MAX: u32 = 56;
    /// One, in the parts that are reckoned with.
    const ONE: i64 = 1 << 20;
    if acks >= ACKS_MAX {
        return after;
    }
    let kept = (0..acks).fold(ONE, |kept, _| kept - kept / 8);
    if kept == ONE {
        return after;
    }
    let fresh = (i64::from(after) * ONE - i64::from(before) * kept) / (ONE - kept);
    u32::try_from(fresh.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smoothed_round_trip_is_taken_apart() {
        let smooth = |before: f64, rtts: &[f64]| rtts.iter().fold(before, |srtt, rtt| srtt * 0.875 + rtt * 0.125);
        assert_eq!(unsmoothed(20_000, smooth(20_000.0, &[28_000.0]) as u32, 1), 28_000);
        assert!(unsmoothed(20_000, smooth(20_000.0, &[24_000.0; 5]) as u32, 5).abs_diff(24_000) < 5);
        assert_eq!(unsmoothed(20_000, 30_000, 100), 30_000);
        assert_eq!(unsmoothed(20_000, 30_000, 0), 30_000);
        // Two of three acknowledgements said nothing: between what was and what is.
        let lagging = unsmoothed(20_000, smooth(20_000.0, &[28_000.0]) as u32, 3);
        assert!((20_000..28_000).contains(&lagging), "{lagging}");
    }
}
