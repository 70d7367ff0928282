//! The least delay of a stream's path, as of late.

use std::time::Duration;

use super::BASE_KEPT;

/// Parts of the time that the least delay is kept for: the oldest is forgotten as a whole.
const PARTS: usize = 6;
const PART: Duration = Duration::from_millis(BASE_KEPT.as_millis() as u64 / PARTS as u64);

/// The least delay in each part, newest last.
#[derive(Debug)]
pub(super) struct Base {
    least_us: [u32; PARTS],
    /// When the newest part began.
    begin: Duration,
}

impl Base {
    pub(super) fn new(now: Duration, first_us: u32) -> Base {
        let mut least_us = [u32::MAX; PARTS];
        least_us[PARTS - 1] = first_us;
        Base { least_us, begin: now }
    }

    /// Takes a round trip.
    pub(super) fn see(&mut self, now: Duration, rtt_us: u32) {
        for _ in 0..PARTS {
            if now.saturating_sub(self.begin) < PART {
                break;
            }
            self.begin += PART;
            self.least_us.rotate_left(1);
            self.least_us[PARTS - 1] = u32::MAX;
        }
        if now.saturating_sub(self.begin) >= PART {
            // Longer away than anything is kept.
            self.begin = now;
        }
        let newest = &mut self.least_us[PARTS - 1];
        *newest = rtt_us.min(*newest);
    }

    /// The least of them; µs.
    pub(super) fn get_us(&self) -> u64 {
        u64::from(self.least_us.iter().copied().min().unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_kept_for_its_time_and_then_forgotten() {
        let second = Duration::from_secs;
        let mut base = Base::new(second(0), 100);
        for s in 1..60 {
            base.see(second(s), 200);
            assert_eq!(base.get_us(), 100, "after {s} s");
        }
        base.see(second(60), 200);
        assert_eq!(base.get_us(), 200);
        base.see(second(61), 150);
        assert_eq!(base.get_us(), 150);
        base.see(second(100_000), 300);
        assert_eq!(base.get_us(), 300, "after a long time away");
    }
}
