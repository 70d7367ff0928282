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
/// What a look with such a loss weighs; each second without takes one off.
const LOSS: u32 = 2;
/// Enough: two such losses within two seconds. One in ten seconds costs CUBIC nothing.
const ENOUGH: u32 = 4;

/// What all streams together show at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Segments sent again since the session's begin.
    pub retransmits: u64,
    /// Longest smoothed round trip, µs.
    pub rtt_us: u64,
    /// Least round trip, µs; 0 if it is not known.
    pub min_rtt_us: u64,
}

/// Losses that no queue explains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    before: Option<Look>,
    weight: u32,
    forgot: Duration,
}

impl Losses {
    /// Takes a look; whether the path is one that loses packets without being full.
    pub fn look(&mut self, now: Duration, look: Look) -> bool {
        let Some(before) = self.before.replace(look) else { return false };
        if now.saturating_sub(self.forgot) >= Duration::from_secs(1) {
            self.forgot = now;
            self.weight = self.weight.saturating_sub(1);
        }
        let is_far = look.min_rtt_us >= FAR_RTT.as_micros() as u64;
        // The loss is of a round trip ago: a queue that has gone since then counts too.
        let queued = [before, look]
            .iter()
            .any(|look| look.rtt_us > look.min_rtt_us + (look.min_rtt_us / QUEUE_PART).max(QUEUE_LEAST_US));
        // A stream that ends takes its count with it.
        if is_far && !queued && look.retransmits > before.retransmits {
            self.weight += LOSS;
        }
        self.weight >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each 200 ms: those that see a loss, and the round trip in ms over a least one of 100.
    fn verdict(looks: impl Iterator<Item = (bool, u64)>, min_rtt_us: u64) -> bool {
        let (mut losses, mut retransmits) = (Losses::default(), 0);
        looks.enumerate().fold(false, |verdict, (n, (lost, rtt_ms))| {
            retransmits += u64::from(lost);
            let look = Look { retransmits, rtt_us: rtt_ms * min_rtt_us / 100, min_rtt_us };
            losses.look(Duration::from_millis(200 * n as u64), look) || verdict
        })
    }

    #[test]
    fn losses_without_a_queue_are_the_path() {
        assert!(verdict((0..50).map(|n| (n % 5 == 4, 102)), 100_000), "one a second");
        assert!(verdict((0..5).map(|n| (n > 0, 110)), 20_000), "each look");
    }

    #[test]
    fn a_full_queue_drops_and_says_nothing_of_the_path() {
        assert!(!verdict((0..500).map(|n| (n % 2 == 0, 180)), 100_000));
        assert!(
            !verdict((0..500).map(|n| (n % 5 == 0, if n % 5 < 4 { 150 } else { 101 })), 100_000),
            "it drains and fills"
        );
    }

    #[test]
    fn a_rare_loss_is_no_reason() {
        assert!(!verdict((0..5000).map(|n| (n % 25 == 0, 100)), 100_000), "one in 5 s");
        assert!(!verdict((0..500).map(|_| (false, 100)), 100_000), "none");
    }

    #[test]
    fn near_at_hand_it_does_not_matter() {
        assert!(!verdict((0..500).map(|_| (true, 100)), 1_000));
    }

    #[test]
    fn a_count_that_falls_is_a_stream_that_ended() {
        let mut losses = Losses::default();
        let look = |retransmits| Look { retransmits, rtt_us: 20_000, min_rtt_us: 20_000 };
        for (n, retransmits) in [9, 5, 1, 0, 0].into_iter().enumerate() {
            assert!(!losses.look(Duration::from_millis(200 * n as u64), look(retransmits)));
        }
    }
}
