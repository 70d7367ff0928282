//! Marks: up to which rate a link, or a class on it, may be filled.
//!
//! A flexible mark leaves room for traffic at large, by an estimate of it that somebody gives: `clamp(share · capacity − at large −
//! margin, least, most)`. It falls at once and rises slowly, so that traffic that comes back soon finds its room. An estimate
//! that is out of date counts as the worst: the mark falls to its least. Where the mark is, and since when, is a state that the caller keeps
//! and gives again.
//!
//! Of the estimate the low end counts. What lies between it and the high end may be our own, not yet told by those who sent it: were that
//! taken for traffic at large, each session that begins would push its own mark down. The margin is there for the rest.

use std::time::Duration;

use crate::estimate::Estimate;

/// A share of all, in parts per million.
pub const ALL_PPM: u32 = 1_000_000;
/// How fast a flexible mark rises: by so much of the capacity in each [`RISE_PERIOD`], in parts per million.
pub const RISE_PPM: u32 = 20_000;
/// See [`RISE_PPM`].
pub const RISE_PERIOD: Duration = Duration::from_secs(10);

/// A mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A rate, in b/s.
    Rate(u64),
    /// A share of the capacity, in parts per million.
    Share(u32),
    /// By what traffic at large leaves.
    Flexible(Flexible),
}

/// A mark that leaves room for traffic at large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flexible {
    /// The share of the capacity that is filled with all traffic, in parts per million.
    pub share_ppm: u32,
    /// What is left free beside that, in b/s.
    pub margin: u64,
    /// The lowest that it falls to, in b/s.
    pub least: u64,
    /// The highest that it rises to, in b/s.
    pub most: u64,
}

/// Where a flexible mark was, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// In b/s.
    pub mark: u64,
    /// Since it was there.
    pub elapsed: Duration,
}

impl Mark {
    /// Where the mark is now, in b/s: for a capacity in b/s, an estimate of traffic at large in b/s (none is one of nothing) and where it was,
    /// if it was anywhere.
    #[must_use]
    pub fn now(&self, capacity: u64, estimate: Option<Estimate>, last: Option<State>) -> u64 {
        match self {
            Mark::Rate(rate) => *rate,
            Mark::Share(ppm) => share_of(capacity, *ppm),
            Mark::Flexible(flexible) => flexible.now(capacity, estimate, last),
        }
    }
}

impl Flexible {
    fn now(&self, capacity: u64, estimate: Option<Estimate>, last: Option<State>) -> u64 {
        let at_large = match estimate {
            None => 0,
            Some(estimate) if !estimate.is_valid() => u64::MAX,
            Some(estimate) => estimate.low,
        };
        let free = share_of(capacity, self.share_ppm).saturating_sub(at_large).saturating_sub(self.margin);
        let due = free.min(self.most).max(self.least);
        let Some(State { mark, elapsed }) = last else { return due };
        due.min(mark.saturating_add(risen(capacity, elapsed)))
    }
}

/// How far a mark rises in a time, in b/s.
fn risen(capacity: u64, elapsed: Duration) -> u64 {
    let whole = u128::from(capacity) * u128::from(RISE_PPM);
    let per = u128::from(ALL_PPM) * RISE_PERIOD.as_nanos();
    u64::try_from(whole.saturating_mul(elapsed.as_nanos()) / per).unwrap_or(u64::MAX)
}

fn share_of(capacity: u64, ppm: u32) -> u64 {
    let share = u128::from(capacity) * u128::from(ppm) / u128::from(ALL_PPM);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: u64 = 1_000_000_000;

    fn flexible() -> Mark {
        let (margin, least, most) = (GIGABIT, 5 * GIGABIT, 60 * GIGABIT);
        Mark::Flexible(Flexible { share_ppm: 900_000, margin, least, most })
    }

    #[test]
    fn it_leaves_room_for_traffic_at_large() {
        let with =
            |at_large: u64| flexible().now(100 * GIGABIT, Some(Estimate::exact(at_large * GIGABIT)), None) / GIGABIT;
        assert_eq!([with(0), with(40), with(80), with(1000)], [60, 49, 9, 5]);
        assert_eq!(flexible().now(50 * GIGABIT, None, None), 44 * GIGABIT);
        assert_eq!(flexible().now(u64::MAX, None, None), 60 * GIGABIT);
    }

    #[test]
    fn it_falls_at_once_and_rises_slowly() {
        let from =
            |mark: u64, seconds: u64| Some(State { mark: mark * GIGABIT, elapsed: Duration::from_secs(seconds) });
        let estimate = |at_large: u64| Some(Estimate::exact(at_large * GIGABIT));
        let now = |at_large, last| flexible().now(100 * GIGABIT, estimate(at_large), last) / GIGABIT;
        assert_eq!(now(80, from(49, 0)), 9);
        assert_eq!(
            [now(40, from(9, 0)), now(40, from(9, 10)), now(40, from(9, 100)), now(40, from(9, 10_000))],
            [9, 11, 29, 49]
        );
    }

    #[test]
    fn an_old_estimate_is_the_worst() {
        let old = Some(Estimate::expired());
        assert_eq!(flexible().now(100 * GIGABIT, old, None), 5 * GIGABIT);
        assert_eq!(Mark::Rate(7).now(GIGABIT, old, None), 7);
        assert_eq!(Mark::Share(250_000).now(GIGABIT, old, None), GIGABIT / 4);
    }
}
