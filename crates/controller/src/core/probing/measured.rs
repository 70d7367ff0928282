//! What questions over a path measure: round trips, and losses.

use std::collections::VecDeque;
use std::time::Duration;

use api::agent::PathNews;
use api::rest::Estimate;
use tokio::time::Instant;

/// Losses are of so long.
const LOSS_TIME: Duration = Duration::from_secs(60);
/// Counts that are closer to each other than this are one: a path that changes often is told of often.
const COUNT_EACH: Duration = Duration::from_secs(1);
/// Counts that are kept: those of [`LOSS_TIME`], and the one before.
const COUNTS_MAX: usize = 64;
/// The share of a normal distribution within so many deviations is 95 %.
const DEVIATIONS: f64 = 1.96;
const ALL_PPM: f64 = 1e6;

/// What is known of a path by what its asking agent told.
#[derive(Debug)]
pub(super) struct Measured {
    /// When it was told, and smoothed, shortest, longest, µs.
    rtt: Option<(Instant, [u64; 3])>,
    /// When it was told, questions and answers since the path was named; the oldest first.
    counts: VecDeque<(Instant, u64, u64)>,
}

impl Measured {
    /// Of a path that is named now.
    pub(super) fn since(now: Instant) -> Measured {
        Measured { rtt: None, counts: VecDeque::from([(now, 0, 0)]) }
    }

    /// What its agent told.
    pub(super) fn take(&mut self, news: &PathNews, now: Instant) {
        if news.rtt_low_us > 0 {
            let (low, high) = (news.rtt_low_us.min(news.rtt_us), news.rtt_high_us.max(news.rtt_us));
            self.rtt = Some((now, [news.rtt_us, low, high]));
        }
        // The first is where counting began, and stays until it is too old.
        let is_close = self.counts.len() > 1
            && self.counts.back().is_some_and(|(at, ..)| now.saturating_duration_since(*at) < COUNT_EACH);
        if is_close || self.counts.len() >= COUNTS_MAX {
            self.counts.pop_back();
        }
        self.counts.push_back((now, news.asked, news.answered));
        let is_old = |of: Option<&(Instant, u64, u64)>| {
            of.is_some_and(|(at, ..)| now.saturating_duration_since(*at) >= LOSS_TIME)
        };
        while is_old(self.counts.get(1)) {
            self.counts.pop_front();
        }
    }

    /// Round trip, µs.
    pub(super) fn rtt_us(&self, now: Instant) -> Option<Estimate> {
        let (at, [value, low, high]) = self.rtt?;
        Some(Estimate { value, low, high, age_ms: age_ms(at, now) })
    }

    /// Share of questions without an answer, parts per million.
    pub(super) fn loss_ppm(&self, now: Instant) -> Option<Estimate> {
        let ((_, asked_before, answered_before), (at, asked, answered)) = (self.counts.front()?, self.counts.back()?);
        let asked = asked.checked_sub(*asked_before).filter(|asked| *asked > 0)?;
        let lost = asked.saturating_sub(answered.saturating_sub(*answered_before));
        let (low, high) = interval(lost, asked);
        let ppm = |share: f64| (share * ALL_PPM).round() as u64;
        Some(Estimate {
            value: ppm(lost as f64 / asked as f64),
            low: ppm(low),
            high: ppm(high),
            age_ms: age_ms(*at, now),
        })
    }
}

fn age_ms(at: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX)
}

/// In which a share is with 95 %, of which so many were found among all (Wilson 1927, "Probable inference, the law of succession, and statistical
/// inference").
fn interval(found: u64, all: u64) -> (f64, f64) {
    let (n, p) = (all as f64, found as f64 / all as f64);
    let z2 = DEVIATIONS * DEVIATIONS;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = DEVIATIONS / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half).clamp(0.0, p), (middle + half).clamp(p, 1.0))
}

#[cfg(test)]
mod tests {
    use api::agent::PathState;

    use super::*;

    fn news(rtt_us: u64, [low, high]: [u64; 2], asked: u64, answered: u64) -> PathNews {
        let state = PathState::Answering;
        PathNews { path: 1, state, rtt_us, rtt_low_us: low, rtt_high_us: high, asked, answered }
    }

    #[tokio::test(start_paused = true)]
    async fn estimates_are_of_what_was_told_of_late() {
        let mut measured = Measured::since(Instant::now());
        assert_eq!((measured.rtt_us(Instant::now()), measured.loss_ppm(Instant::now())), (None, None));
        measured.take(&news(20_000, [19_000, 25_000], 100, 100), Instant::now());
        tokio::time::advance(Duration::from_secs(3)).await;
        let now = Instant::now();
        let rtt = Estimate { value: 20_000, low: 19_000, high: 25_000, age_ms: 3_000 };
        assert_eq!(measured.rtt_us(now), Some(rtt));
        let none = measured.loss_ppm(now).expect("a hundred were asked");
        assert_eq!((none.value, none.low, none.age_ms), (0, 0, 3_000));
        assert!((36_000..38_000).contains(&none.high), "of a hundred that all came 3.7 % might be lost: {none:?}");
        // Nothing comes any more: the round trip stays what it was, and is older.
        for n in 1..=6 {
            tokio::time::advance(Duration::from_secs(10)).await;
            measured.take(&news(20_000, [0, 0], 100 + n * 100, 100), Instant::now());
        }
        let now = Instant::now();
        assert_eq!(measured.rtt_us(now), Some(Estimate { age_ms: 63_000, ..rtt }));
        let all = measured.loss_ppm(now).expect("it is known");
        assert_eq!((all.value, all.high), (1_000_000, 1_000_000), "a minute ago it worked, which is too long ago");
        assert!((990_000..1_000_000).contains(&all.low), "{all:?}");
        // The agent began anew.
        measured.take(&news(9, [9, 9], 3, 3), now);
        assert_eq!(measured.loss_ppm(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_often_is_kept_within_bounds() {
        let mut measured = Measured::since(Instant::now());
        for n in 0..10_000 {
            tokio::time::advance(Duration::from_millis(25)).await;
            measured.take(&news(1, [1, 1], n, n), Instant::now());
            assert!(measured.counts.len() <= COUNTS_MAX);
        }
        assert!(measured.loss_ppm(Instant::now()).is_some_and(|loss| loss.value == 0 && loss.age_ms == 0));
    }

    #[test]
    fn intervals_hold_what_was_found_and_shrink() {
        for (found, all) in [(0, 1), (1, 1), (1, 2), (3, 600), (600, 600), (0, 600), (7, u64::MAX)] {
            let (low, high) = interval(found, all);
            let share = found as f64 / all as f64;
            assert!(0.0 <= low && low <= share && share <= high && high <= 1.0, "{found} of {all}: {low} {high}");
        }
        let width = |found, all| interval(found, all).1 - interval(found, all).0;
        assert!(width(10, 100) > width(100, 1_000) && width(100, 1_000) > width(1_000, 10_000));
    }
}
