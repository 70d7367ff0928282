//! When a congestion control that takes every loss for a full path is the wrong one.
//!
//! A full path has a queue: the round trip is longer than the least one when it drops. Where packets are lost while there is
//! none, something else loses them, and CUBIC over 100 ms gets 20 Mb/s a stream at a loss of 10⁻⁴ (RFC 9438, section 5). BBR
//! goes by what arrives instead.

use std::time::Duration;

/// Nearer than this a loss is made up for so quickly that it does not matter.
const FAR_RTT: Duration = Duration::from_millis(5);
/// A round trip that is longer than the least one by no more than an eighth, or by a millisecond, has met no queue.
const QUEUE_PART: u64 = 8;
const QUEUE_LEAST_US: u64 = 1_000;
/// Between two looks: a round trip, for what is looked at twice in one is seen twice, but no less and no more than this.
const LOOK_LEAST: Duration = Duration::from_millis(50);
const LOOK_MOST: Duration = Duration::from_millis(200);
/// A queue that was seen explains what is lost so much later: it drains while what it dropped is sent again.
const EXPLAINS: Duration = Duration::from_millis(200);
/// Each second takes so much off what such losses weigh, one for each stream that has met one. CUBIC bears about as many: at one in
/// 10⁵ packets 8 streams of it fill 1 Gb/s over 100 ms with 0.8 a second.
const BEARS: u32 = 2;
/// Enough: in a second, or little by little.
const ENOUGH: u32 = 5;

/// What all streams together show at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Streams that have sent segments again since the look before: each of them slows down, once.
    pub hit: u32,
    /// Longest smoothed round trip, µs.
    pub rtt_us: u64,
    /// Least round trip, µs; 0 if it is not known.
    pub min_rtt_us: u64,
}

/// Losses that no queue explains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    before: Option<(Duration, Look)>,
    queued: Option<Duration>,
    weight: u32,
    forgot: Duration,
}

impl Losses {
    /// Whether it is time for a look.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.before.is_none_or(|(at, before)| {
            let round_trip = Duration::from_micros(before.min_rtt_us);
            now.saturating_sub(at) >= round_trip.clamp(LOOK_LEAST, LOOK_MOST)
        })
    }

    /// Takes a look; whether the path is one that loses packets without being full.
    pub fn look(&mut self, now: Duration, look: Look) -> bool {
        if look.rtt_us > look.min_rtt_us + (look.min_rtt_us / QUEUE_PART).max(QUEUE_LEAST_US) {
            self.queued = Some(now);
        }
        let Some((last, _)) = self.before.replace((now, look)) else { return false };
        if now.saturating_sub(self.forgot) >= Duration::from_secs(1) {
            self.forgot = now;
            self.weight = self.weight.saturating_sub(BEARS);
        }
        let is_far = look.min_rtt_us >= FAR_RTT.as_micros() as u64;
        // The loss is of a round trip ago: a queue that was there at the last look counts however long ago that was.
        let is_explained = self.queued.is_some_and(|at| at >= last || now.saturating_sub(at) <= EXPLAINS);
        if is_far && !is_explained {
            self.weight = self.weight.saturating_add(look.hit);
        }
        self.weight >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each 200 ms: how many streams have lost something, and the round trip in ms over a least one of 100.
    fn verdict(looks: impl Iterator<Item = (u32, u64)>, min_rtt_us: u64) -> bool {
        verdict_after(looks, min_rtt_us, 200).is_some()
    }

    /// The same with a look each so many ms; gives the time of the verdict, ms.
    fn verdict_after(looks: impl Iterator<Item = (u32, u64)>, min_rtt_us: u64, each_ms: u64) -> Option<u64> {
        let mut losses = Losses::default();
        looks.zip(0..).find_map(|((hit, rtt_ms), n)| {
            let look = Look { hit, rtt_us: rtt_ms * min_rtt_us / 100, min_rtt_us };
            losses.look(Duration::from_millis(each_ms * n), look).then_some(each_ms * n)
        })
    }

    #[test]
    fn losses_without_a_queue_are_the_path() {
        assert!(verdict((0..50).map(|n| (u32::from(n % 5 < 4), 102)), 100_000), "four a second");
        assert!(verdict((0..5).map(|n| (2, 100 + n)), 20_000), "each look");
    }

    #[test]
    fn a_short_round_trip_is_looked_at_more_often_and_a_loss_is_seen_once() {
        assert_eq!(verdict_after((0..5).map(|_| (3, 105)), 20_000, 50), Some(100));
        for (rtt_ms, each_ms) in [(6, 50), (20, 50), (100, 100), (150, 150), (400, 200)] {
            let mut losses = Losses::default();
            assert!(losses.is_due(Duration::ZERO));
            losses.look(Duration::ZERO, Look { hit: 0, rtt_us: 1000 * rtt_ms, min_rtt_us: 1000 * rtt_ms });
            assert!(!losses.is_due(Duration::from_millis(each_ms - 1)), "{rtt_ms} ms");
            assert!(losses.is_due(Duration::from_millis(each_ms)), "{rtt_ms} ms");
        }
    }

    #[test]
    fn what_a_queue_dropped_is_sent_again_while_it_drains() {
        // At the end of slow start: full for 100 ms, gone 50 ms later, the last of its losses sent again after 200 ms more.
        let looks = (0..400).map(|n| match n % 80 {
            0..2 => (8, 200),
            2..6 => (8, 101),
            _ => (0, 101),
        });
        assert_eq!(verdict_after(looks, 20_000, 50), None);
    }

    #[test]
    fn a_full_queue_drops_and_says_nothing_of_the_path() {
        assert!(!verdict((0..500).map(|n| (u32::from(n % 2 == 0), 180)), 100_000));
        assert!(
            !verdict((0..500).map(|n| (u32::from(n % 5 == 0), if n % 5 < 4 { 150 } else { 101 })), 100_000),
            "it drains and fills"
        );
    }

    #[test]
    fn a_rare_loss_is_no_reason() {
        assert!(!verdict((0..5000).map(|n| (u32::from(n % 25 == 0), 100)), 100_000), "one in 5 s");
        assert!(!verdict((0..5000).map(|n| (u32::from(n % 6 == 0), 100)), 100_000), "0.8 a second");
        assert!(!verdict((0..500).map(|_| (0, 100)), 100_000), "none");
    }

    #[test]
    fn near_at_hand_it_does_not_matter() {
        assert!(!verdict((0..500).map(|_| (8, 100)), 1_000));
    }
}
