//! Whether what looked like an empty queue was a full one.
//!
//! Who comes to a link that others keep full never sees it empty: the least round trip of its streams has their queue in it, no round trip
//! is much longer, and what the queue drops looks like losses of the path. BBR would then take nearly all from the others. So before
//! streams go over to it they step aside for a round trip, at an eighth of what they sent. The queue drains by what they do not send: if the
//! least round trip falls, it was the queue that dropped. What was sent last while they stood aside comes back in the round trip behind that, and
//! nothing that is sent then changes what it says: they go on as they were until it is there.
//!
//! They do so even where all round trips are the least one: in the first round trips of a session a queue that others keep full looks like that, too. Stepping
//! aside costs what a path without others has: a round trip, once.

use std::time::Duration;

use units::{Bytes, Goodput};

use super::congestion::{self, Look};

/// So much of what a stream sent is sent meanwhile: enough to see the round trip.
const PART: u64 = 8;
/// But no less than these packets a round trip.
const PACKETS_LEAST: u64 = 2;
/// No round trip is taken for longer.
const MOST: Duration = Duration::from_secs(1);
/// So much of a round trip may lack. Looks come each 50 ms: one that comes a moment before 100 ms are over would cost another 50.
const SOONER_PART: u32 = 8;

/// A session that is over within so much does not step aside. Over 100 ms that costs it 0.1 to 0.2 s, once, and so does what CUBIC loses in
/// 1.5 to 2 s at 10⁻⁴.
const PAYS_AFTER: Duration = Duration::from_millis(1500);

/// Whether a session is over before stepping aside pays, by the bytes that have not landed, once all are known, and by what the last second
/// moved. Where losses hold it to little, little is left only at its very end.
pub fn ends_soon(left: Option<u64>, goodput: Option<Goodput>) -> bool {
    left.zip(goodput).is_some_and(|(left, goodput)| Bytes::new(left) < goodput * PAYS_AFTER)
}

/// Streams that step aside, and go on to see what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// They stand aside until then,
    aside: Duration,
    /// and what they sent last has come back then.
    over: Duration,
    /// They have gone on since.
    went_on: bool,
    /// What is taken for the round trip without a queue, µs.
    least_us: u64,
}

impl Doubt {
    /// Begins with what the streams show. The least round trip was `once_us` before, µs: that it has fallen since says the same as its falling now.
    #[must_use]
    pub fn begin(now: Duration, looks: &[Look], once_us: u64) -> Doubt {
        let longest_us = looks.iter().map(|look| look.rtt_us).max().unwrap_or(0);
        let round_trip = Duration::from_micros(u64::from(longest_us)).min(MOST);
        let aside = now + round_trip - round_trip / SOONER_PART;
        Doubt { aside, over: aside + round_trip, went_on: false, least_us: least(looks).max(once_us) }
    }

    /// Whether there is something to do: to go on, or to see what came of it.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        now >= if self.went_on { self.over } else { self.aside }
    }

    /// They go on; whether they have stood aside until now.
    pub fn go_on(&mut self) -> bool {
        !std::mem::replace(&mut self.went_on, true)
    }

    /// What a stream may send meanwhile, bytes/s, by the rate that it had, its packets' size and round trip.
    #[must_use]
    pub fn rate(pacing_bytes_per_s: u64, mss_bytes: u32, rtt_us: u32) -> u64 {
        let floor = PACKETS_LEAST * u64::from(mss_bytes) * 1_000_000 / u64::from(rtt_us.max(1));
        (pacing_bytes_per_s / PART).max(floor)
    }

    /// Whether enough has been seen.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.over
    }

    /// Whether there was a queue all the time, by what the streams show now.
    #[must_use]
    pub fn was_queue(&self, looks: &[Look]) -> bool {
        congestion::has_queue(self.least_us, least(looks))
    }
}

/// The least round trip that the streams show, µs.
pub fn least(looks: &[Look]) -> u64 {
    congestion::least_rtt(looks.iter().map(|look| look.min_rtt_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_soon_if_all_is_known_and_little_is_left_at_its_pace() {
        let gigabit = Some(Goodput::gbps(1));
        assert!(ends_soon(Some(187_499_999), gigabit));
        assert!(!ends_soon(Some(187_500_000), gigabit), "a second and a half");
        assert!(!ends_soon(Some(187_499_999), Some(Goodput::mbps(100))), "15 seconds");
        assert!(!ends_soon(None, gigabit), "more may come");
        assert!(!ends_soon(Some(1), None), "in the first second nothing is known");
    }

    fn looks(rtt_us: u32, min_rtt_us: u32) -> Vec<Look> {
        (0..8).map(|stream| Look { stream, lost: 3, rtt_us, min_rtt_us }).collect()
    }

    #[test]
    fn a_least_round_trip_that_falls_was_one_with_a_queue() {
        let doubt = Doubt::begin(Duration::from_secs(3), &looks(38_000, 35_000), 0);
        assert!(doubt.was_queue(&looks(24_000, 22_000)));
        assert!(doubt.was_queue(&looks(33_000, 30_000)), "others hold the rest of it");
        assert!(!doubt.was_queue(&looks(35_000, 34_900)), "the path");
        assert!(!doubt.was_queue(&looks(35_000, 35_000)));
        // It fell before, by what others gave way.
        let doubt = Doubt::begin(Duration::from_millis(180), &looks(33_500, 33_000), 38_468);
        assert!(doubt.was_queue(&looks(33_000, 32_000)));
        // The first round trips beside others that keep 20 ms of queue full.
        let doubt = Doubt::begin(Duration::from_millis(60), &looks(39_500, 39_381), 0);
        assert!(doubt.was_queue(&looks(24_000, 20_748)));
    }

    #[test]
    fn they_stand_aside_for_a_round_trip_and_see_after_another_what_came_of_it() {
        let begin = Duration::from_secs(3);
        let after = |ms| begin + Duration::from_millis(ms);
        for (rtt_us, aside_ms, over_ms) in
            [(80_000, 70, 150), (800_000, 700, 1_500), (4_000_000, 875, 1_875), (u32::MAX, 875, 1_875)]
        {
            let mut doubt = Doubt::begin(begin, &looks(rtt_us, 20_000), 0);
            assert!(!doubt.is_due(after(aside_ms - 1)) && doubt.is_due(after(aside_ms)), "{rtt_us}");
            assert!(doubt.go_on() && !doubt.go_on(), "once");
            assert!(!doubt.is_due(after(over_ms - 1)) && !doubt.is_over(after(over_ms - 1)), "{rtt_us}");
            assert!(doubt.is_due(after(over_ms)) && doubt.is_over(after(over_ms)), "{rtt_us}");
        }
        assert!(Doubt::begin(begin, &[], 0).is_over(begin));
    }

    #[test]
    fn an_eighth_is_sent_but_two_packets_a_round_trip() {
        assert_eq!(Doubt::rate(8_000_000, 1448, 100_000), 1_000_000);
        assert_eq!(Doubt::rate(80_000, 1448, 100_000), 28_960);
        assert_eq!(Doubt::rate(0, 1448, 0), 2_896_000_000, "a round trip that is not known holds nothing");
    }
}
