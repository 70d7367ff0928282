//! What a session could use: learnt from what it does with what it gets, so that what it leaves goes to others.
//!
//! A session that falls below its rate for 2 s is given 120 % of what it did, and no less than 10 Mb/s. The first second does not count
//! for that: it may have begun with its rate. If it used its rate before and now does not do 60 % of it, one more second is enough for a
//! first look, at 150 %. One that uses that up for two seconds asks for 2, 4, 16, 256 times as much in turn, each second, until nothing bounds it: what
//! stood still for a while on a fast path is there again within some seconds. So does one that uses a lower rate and does clearly more than it
//! did when it was bound: else a limit from outside just below the bound would keep a bound that is known to be too low.
//!
//! The planner takes it as an [`Estimate`]: what the session did, and as its high end what it is given. It is learnt anew each second, so it does
//! not expire before the session does.
//!
//! What the session says limits it is not asked: one whose socket buffers fill says that it is its rate.

use plan::estimate::Estimate;

/// For so long after a first second below its rate a session must stay there, in ms: two more reports, which come each second, more or less.
const LEAVES_AFTER: u64 = 1_700;
/// The same for one that fell far from what it did.
const FALLS_AFTER: u64 = 700;
/// Less than that of its rate is far, in percent.
const FAR_PERCENT: u64 = 60;
/// Less than that is no smaller capacity but a pause, as for a commit, in percent.
const PAUSE_PERCENT: u64 = 10;
/// What a session must use of its rate not to leave something, in percent.
pub(super) const USED_PERCENT: u64 = 90;
/// What a session is given of what it did, in percent. It must be told from one that uses what it gets: 100 / 120 is below [`USED_PERCENT`].
const ROOM_PERCENT: u64 = 120;
/// The same of what it did in the one second after a fall: TCP does not find what is left of the path at once.
const FALL_ROOM_PERCENT: u64 = 150;
/// A rate of which less than that was in force a second ago, in percent, says nothing of this second.
const KEPT_PERCENT: u64 = 95;
/// A rate is held back by the bound if it is that much of it, in percent.
const AT_BOUND_PERCENT: u64 = 95;
/// What a session did is not the most that it can if it does so much of it, in percent.
const MORE_PERCENT: u64 = 105;
/// The least that is asked for, in b/s: a session that stood still can begin again.
const LEAST_BPS: u64 = 10_000_000;
/// For so many seconds a session must use what the bound gives it before the first raise: in one it may catch up with what it had not sent.
const HELD_MIN: u32 = 2;
/// The bound is raised so many times in turn by the square of the factor before; then there is none.
const RAISES_MAX: u32 = 5;

/// What a session did in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When, in ms of any clock that does not go back.
    pub at: u64,
    /// The rate in force, b/s of IP packets.
    pub set_bps: u64,
    /// What it did, b/s of IP packets.
    pub rate_bps: u64,
}

/// What a session asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The most that it did in a second when that was less than its rate, b/s of IP packets.
    did_bps: u64,
    /// `None` if nothing bounds it.
    most_bps: Option<u64>,
    /// Since when it leaves something, and the most that it did in a second after that.
    below: Option<(u64, u64)>,
    /// It used its rate when that was last said.
    used: bool,
    /// Seconds in a row in which it used what the bound gives it.
    held: u32,
    /// How often the bound was raised since it was set.
    raises: u32,
    /// The rate that was in force before, b/s.
    set_bps: u64,
}

impl Demand {
    /// What it could use, b/s of IP packets, if it is not all that it may get: the high end is what is planned for it.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        let (did, high) = (self.did_bps, self.most_bps?);
        Some(Estimate { value: did, low: did, high, expires: None })
    }

    /// Learns; true if [`Demand::estimate`] changed.
    pub fn learn(&mut self, now: Measured) -> bool {
        let before = self.most_bps;
        let rose = is_less(self.set_bps, KEPT_PERCENT, now.set_bps);
        self.set_bps = now.set_bps;
        if !is_less(now.rate_bps, USED_PERCENT, now.set_bps) {
            self.below = None;
            self.used = true;
            self.raise(now);
        } else if !rose {
            self.held = 0;
            self.fall(now);
        }
        self.most_bps != before
    }

    /// It uses what it gets. Only what was held back by the bound itself, or does more than was thought to be its most, says that the bound is too
    /// low.
    fn raise(&mut self, now: Measured) {
        let is_too_low = |most: &u64| {
            !is_less(now.set_bps, AT_BOUND_PERCENT, *most) || !is_less(now.rate_bps, MORE_PERCENT, self.did_bps)
        };
        let Some(most) = self.most_bps.filter(is_too_low) else { return };
        self.held += 1;
        if self.held < HELD_MIN && self.raises == 0 {
            return;
        }
        self.raises += 1;
        let factor = 1_u64.checked_shl(1 << (self.raises - 1)).filter(|_| self.raises <= RAISES_MAX);
        let raised = factor.and_then(|factor| most.checked_mul(factor));
        self.most_bps = raised.filter(|most| *most < plan::share::RATE_MAX);
    }

    /// It leaves something.
    fn fall(&mut self, now: Measured) {
        let (since, best) = self.below.map_or((now.at, 0), |(at, best)| (at, best.max(now.rate_bps)));
        self.below = Some((since, best));
        let is_pause = is_less(best, PAUSE_PERCENT, now.set_bps);
        let falls = self.used && is_less(best, FAR_PERCENT, now.set_bps) && !is_pause;
        let (after, percent) = if falls { (FALLS_AFTER, FALL_ROOM_PERCENT) } else { (LEAVES_AFTER, ROOM_PERCENT) };
        if now.at.saturating_sub(since) >= after {
            let room = (u128::from(best) * u128::from(percent) / 100).min(u128::from(u64::MAX)) as u64;
            let most_bps = Some(room.max(LEAST_BPS));
            *self = Demand { did_bps: best, most_bps, set_bps: self.set_bps, ..Demand::default() };
        }
    }
}

/// Whether `part` is less than so many percent of `all`.
fn is_less(part: u64, percent: u64, all: u64) -> bool {
    u128::from(part) * 100 < u128::from(all) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = 1_000_000_000;

    fn most(demand: &Demand) -> Option<u64> {
        demand.estimate().map(|estimate| estimate.high)
    }

    /// Seconds with a set rate, of which the session can use so much.
    fn run(demand: &mut Demand, from: u64, seconds: u64, set: impl Fn(&Demand) -> u64, can: u64) -> u64 {
        for second in 0..seconds {
            let set_bps = set(demand);
            demand.learn(Measured { at: (from + second) * 1000, set_bps, rate_bps: set_bps.min(can) });
        }
        from + seconds
    }

    #[test]
    fn what_a_slow_disk_leaves_is_given_away_and_asked_for_again() {
        let mut demand = Demand::default();
        let granted = |demand: &Demand| most(demand).map_or(10 * G, |most| most.min(10 * G));
        let at = run(&mut demand, 0, 3, granted, 2 * G);
        assert_eq!(most(&demand), None, "it begins, and two seconds are no pattern");
        let at = run(&mut demand, at, 1, granted, 2 * G);
        assert_eq!(most(&demand), Some(2 * G * 12 / 10));
        // It stays there while the disk is slow.
        let at = run(&mut demand, at, 20, granted, 2 * G);
        assert_eq!(most(&demand), Some(2 * G * 12 / 10));
        // A second in which it catches up is none in which it can do more.
        let at = run(&mut demand, at, 1, granted, 100 * G);
        let at = run(&mut demand, at, 3, granted, 2 * G);
        assert_eq!(most(&demand), Some(2 * G * 12 / 10));
        run(&mut demand, at, 7, granted, 100 * G);
        assert_eq!(granted(&demand), 10 * G, "the disk is fast again");
    }

    #[test]
    fn a_sudden_fall_is_learnt_in_its_second_second() {
        let mut demand = Demand::default();
        for (second, rate_bps) in [(0, G), (1, 8 * G / 10), (2, G / 3)] {
            assert_eq!(most(&demand), None);
            demand.learn(Measured { at: second * 1000, set_bps: G, rate_bps });
        }
        assert_eq!(most(&demand), Some(G / 3 * 3 / 2), "not of the second in which it fell");
    }

    #[test]
    fn a_rate_that_rose_within_a_second_says_nothing_of_it() {
        let mut demand = Demand::default();
        for second in 0..10 {
            let set_bps = G << second;
            demand.learn(Measured { at: second * 1000, set_bps, rate_bps: set_bps / 2 });
        }
        assert_eq!(most(&demand), None);
    }

    #[test]
    fn a_bound_is_raised_though_the_rate_rises_and_falls_each_other_second() {
        let mut demand = Demand::default();
        let at = run(&mut demand, 0, 6, |_| G, G / 2);
        assert_eq!(most(&demand), Some(G * 6 / 10), "half of it with room");
        // A limit that alternates: two seconds low, and two up to the bound, of which the first has the rate only at its end.
        for round in 0..4 {
            let up = most(&demand).map_or(G, |most| most.min(G));
            for (second, set_bps, rate_bps) in [(0, G / 4, G / 4), (1, G / 4, G / 4), (2, up, up * 7 / 10), (3, up, up)]
            {
                demand.learn(Measured { at: (at + round * 4 + second) * 1000, set_bps, rate_bps });
            }
        }
        assert!(most(&demand).is_none_or(|most| most > G), "{demand:?}");
    }

    #[test]
    fn a_limit_just_below_a_bound_that_is_too_low_does_not_keep_it() {
        let mut demand = Demand::default();
        let limit = G / 100;
        // It does a little less than its rate for a while, as with many streams at a low one.
        let at = run(&mut demand, 0, 4, |_| limit, limit * 88 / 100);
        let bound = most(&demand).expect("it leaves something");
        assert!(is_less(limit, AT_BOUND_PERCENT, bound), "{bound}: the limit is what holds it");
        let at = run(&mut demand, at, 1, |_| limit, G);
        assert_eq!(most(&demand), Some(bound), "one second may be one in which it catches up");
        run(&mut demand, at, 6, |_| limit, G);
        assert_eq!(most(&demand), None);
        // One that does what it did, at a rate that is lower than its bound, may have no more.
        let mut slow = Demand::default();
        let at = run(&mut slow, 0, 4, |_| 10 * G, 2 * G);
        let bound = most(&slow);
        assert_eq!(bound, Some(2 * G * 12 / 10));
        run(&mut slow, at, 10, |_| 2 * G + G / 10, 2 * G);
        assert_eq!(most(&slow), bound);
    }

    #[test]
    fn one_that_stood_still_on_a_fast_path_is_soon_there_again() {
        let mut demand = Demand::default();
        let granted = |demand: &Demand| most(demand).map_or(100 * G, |most| most.min(100 * G));
        let at = run(&mut demand, 0, 6, granted, 0);
        assert_eq!(most(&demand), Some(LEAST_BPS));
        run(&mut demand, at, 10, granted, 200 * G);
        assert_eq!(granted(&demand), 100 * G);
    }

    #[test]
    fn a_low_share_is_no_low_demand() {
        let mut demand = Demand::default();
        run(&mut demand, 0, 60, |_| G, 100 * G);
        assert_eq!(most(&demand), None);
    }
}
