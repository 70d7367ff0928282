//! What a session could use: learnt from what it does with what it gets, so that what it leaves goes to others.
//!
//! A session that stays below its rate for 2 s and says that something else limits it is given 130 % of what it
//! did, and no less than 10 Mb/s. The first of these seconds does not count for that: it may have begun with its rate. One that
//! uses that up asks for twice as much each second, until nothing bounds it.

/// For so long after a first second below its rate a session must stay there, in ms.
const LEAVES_AFTER: u64 = 2_000;
/// What a session must use of its rate not to leave something, in percent.
pub(super) const USED_PERCENT: u64 = 90;
/// What a session is given of what it did, in percent.
const ROOM_PERCENT: u64 = 130;
/// The least that is asked for, in b/s: a session that stood still can begin again.
const LEAST_BPS: u64 = 10_000_000;

/// What a session did in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When, in ms of any clock that does not go back.
    pub at: u64,
    /// The rate in force, b/s of IP packets.
    pub set_bps: u64,
    /// What it did, b/s of IP packets.
    pub rate_bps: u64,
    /// Whether it says that the rate in force limits it.
    pub by_rate: bool,
}

/// What a session asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// `None` if nothing bounds it.
    most_bps: Option<u64>,
    /// Since when it leaves something, and the most that it did in a second after that.
    below: Option<(u64, u64)>,
}

impl Demand {
    /// What it could use at most, b/s of IP packets.
    #[must_use]
    pub fn most_bps(&self) -> Option<u64> {
        self.most_bps
    }

    /// Learns; true if [`Demand::most_bps`] changed.
    pub fn learn(&mut self, now: Measured) -> bool {
        let before = self.most_bps;
        if now.by_rate || now.rate_bps.saturating_mul(100) >= now.set_bps.saturating_mul(USED_PERCENT) {
            self.below = None;
            // Only what was held back by the bound itself says that the bound is too low.
            let at_bound = |most: u64| now.set_bps.saturating_mul(100) >= most.saturating_mul(95);
            self.most_bps = match self.most_bps {
                Some(most) if at_bound(most) => most.checked_mul(2).filter(|most| *most < plan::share::RATE_MAX),
                most => most,
            };
            return self.most_bps != before;
        }
        let (since, best) = self.below.map_or((now.at, 0), |(at, best)| (at, best.max(now.rate_bps)));
        self.below = Some((since, best));
        if now.at.saturating_sub(since) >= LEAVES_AFTER {
            let room = (u128::from(best) * u128::from(ROOM_PERCENT) / 100).min(u128::from(u64::MAX)) as u64;
            self.most_bps = Some(room.max(LEAST_BPS));
            self.below = None;
        }
        self.most_bps != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = 1_000_000_000;

    /// Seconds with a set rate, of which the session can use so much.
    fn run(demand: &mut Demand, from: u64, seconds: u64, set: impl Fn(&Demand) -> u64, can: u64) -> u64 {
        for second in 0..seconds {
            let set_bps = set(demand);
            let rate_bps = set_bps.min(can);
            demand.learn(Measured { at: (from + second) * 1000, set_bps, rate_bps, by_rate: rate_bps == set_bps });
        }
        from + seconds
    }

    #[test]
    fn what_a_slow_disk_leaves_is_given_away_and_asked_for_again() {
        let mut demand = Demand::default();
        let granted = |demand: &Demand| demand.most_bps().map_or(10 * G, |most| most.min(10 * G));
        let at = run(&mut demand, 0, 2, granted, 2 * G);
        assert_eq!(demand.most_bps(), None, "two seconds are no pattern");
        let at = run(&mut demand, at, 3, granted, 2 * G);
        assert_eq!(demand.most_bps(), Some(2 * G * 13 / 10));
        // It stays there while the disk is slow.
        let at = run(&mut demand, at, 20, granted, 2 * G);
        assert_eq!(demand.most_bps(), Some(2 * G * 13 / 10));
        run(&mut demand, at, 20, granted, 100 * G);
        assert_eq!(granted(&demand), 10 * G, "the disk is fast again");
    }

    #[test]
    fn a_sudden_fall_is_learnt_in_three_seconds() {
        let mut demand = Demand::default();
        for (second, rate_bps) in [(0, G), (1, 8 * G / 10), (2, G / 3), (3, G / 3)] {
            assert_eq!(demand.most_bps(), None);
            demand.learn(Measured { at: second * 1000, set_bps: G, rate_bps, by_rate: false });
        }
        assert_eq!(demand.most_bps(), Some(G / 3 * 13 / 10), "not of the second in which it fell");
    }

    #[test]
    fn one_that_stood_still_can_begin_again() {
        let mut demand = Demand::default();
        let granted = |demand: &Demand| demand.most_bps().unwrap_or(G);
        let at = run(&mut demand, 0, 5, granted, 0);
        assert_eq!(demand.most_bps(), Some(LEAST_BPS));
        run(&mut demand, at, 30, granted, G);
        assert!(granted(&demand) >= G);
    }

    #[test]
    fn a_low_share_is_no_low_demand() {
        let mut demand = Demand::default();
        run(&mut demand, 0, 60, |_| G, 100 * G);
        assert_eq!(demand.most_bps(), None);
    }
}
