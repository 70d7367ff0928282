//! Whose turn it is to begin again with BBR.
//!
//! BBR stops for 200 ms and a round trip once it has not seen the path without a queue for 10 s (`PROBE_RTT`, draft-ietf-ccwg-bbr, section
//! 5.3.4). Streams that went over to it together stop together, and the path is idle meanwhile: 3 % of the time over 100 ms, 4 % over
//! 200 ms. A stream that begins again counts its 10 s from then. So that the streams of a session stop one after the other, each begins
//! again at another time; what one leaves, the queue and the others make up for.
//!
//! The kernel keeps the least round trip of the connection for a stream that begins again. Over a path that has become longer that would be
//! too little, so nobody begins again where the round trip says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bound::Reading;

/// The first turn comes so long after the streams went over to BBR: they find their rates first.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// In this time each has its first turn: in less than the 10 s.
const FIRST_ROUND: Duration = Duration::from_secs(7);
/// And in this each further one. Streams that see the path without a queue when others stop count from then too, and so come together again.
const ROUND: Duration = Duration::from_secs(29);
/// With a round trip of so much of the least one, BBR would have too little in flight (its window is twice rate × least round trip).
const LONG_PER_MILLE: u64 = 1_750;

/// Gives turns, from the first look on.
#[derive(Debug, Default)]
pub struct Turns {
    next: Option<Duration>,
    /// When each had its last turn.
    had: BTreeMap<u16, Duration>,
}

impl Turns {
    /// Takes a look at all streams; gives the one that is to begin again now.
    pub fn look(&mut self, now: Duration, readings: &[Reading]) -> Option<u16> {
        let next = *self.next.get_or_insert(now + FIRST_AFTER);
        if now < next || readings.len() < 2 {
            return None;
        }
        self.had.retain(|stream, _| readings.iter().any(|reading| reading.stream == *stream));
        let had = |reading: &&Reading| (self.had.get(&reading.stream).copied(), reading.stream);
        let one = readings.iter().min_by_key(had)?;
        let round = if self.had.contains_key(&one.stream) { ROUND } else { FIRST_ROUND };
        let apart = round / u32::try_from(readings.len()).unwrap_or(u32::MAX);
        // Looks that come late put nothing off, but two turns never come at once.
        self.next = Some((next + apart).max(now + apart / 2));
        self.had.insert(one.stream, now);
        let is_long = u64::from(one.rtt_us) * 1000 > u64::from(one.min_rtt_us) * LONG_PER_MILLE;
        (!is_long).then_some(one.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The streams that begin again in so many seconds of looks each 100 ms, with their times.
    fn turns(streams: u16, seconds: u64, rtt_us: u32) -> Vec<(Duration, u16)> {
        let mut turns = Turns::default();
        let looks = (0..10 * seconds).map(|n| Duration::from_millis(100 * n));
        let readings: Vec<_> =
            (0..streams).map(|stream| Reading { stream, rtt_us, min_rtt_us: 100_000, ..Reading::default() }).collect();
        looks.filter_map(|now| turns.look(now, &readings).map(|stream| (now, stream))).collect()
    }

    #[test]
    fn each_has_its_turn_within_ten_seconds_and_again_in_half_a_minute() {
        for streams in [2, 8, 16, 32] {
            let first = turns(streams, 10, 120_000);
            let mut who: Vec<_> = first.iter().map(|&(_, stream)| stream).collect();
            who.truncate(usize::from(streams));
            assert_eq!(who, (0..streams).collect::<Vec<_>>());
            assert!(first.iter().all(|&(at, _)| at >= FIRST_AFTER));
            let stops: Vec<_> = first.windows(2).map(|two| two[1].0 - two[0].0).collect();
            assert!(stops.iter().all(|&apart| apart >= Duration::from_millis(100)), "{streams}: {stops:?}");
            let all = turns(streams, 70, 120_000).len();
            assert!((2 * usize::from(streams)..4 * usize::from(streams)).contains(&all), "{streams}: {all}");
        }
    }

    #[test]
    fn one_alone_and_a_path_that_has_become_longer_go_on_as_they_are() {
        assert_eq!(turns(1, 60, 120_000), []);
        assert_eq!(turns(8, 60, 180_000), []);
    }

    #[test]
    fn a_stream_that_comes_later_is_next() {
        let mut turns = Turns::default();
        let reading = |stream| Reading { stream, rtt_us: 100_000, min_rtt_us: 100_000, ..Reading::default() };
        let (two, three) = ([reading(3), reading(4)], [reading(3), reading(4), reading(9)]);
        assert_eq!(turns.look(Duration::ZERO, &two), None);
        assert_eq!(turns.look(Duration::from_secs(2), &two), Some(3));
        assert_eq!(turns.look(Duration::from_secs(6), &two), Some(4));
        assert_eq!(turns.look(Duration::from_secs(21), &three), Some(9));
        assert_eq!(turns.look(Duration::from_secs(30), &three), Some(3));
    }
}
