//! What a lease says at a moment: a schedule, its end, the rate that holds after it. Time is an argument.

use std::time::Duration;

use api::agent::{Lease, STEPS_MAX};

/// Why a lease makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// It has no rate to begin with.
    #[error("a lease has a rate from 0 ms on: its first step begins there")]
    NoFirst,
    /// Its steps do not come one after the other.
    #[error("the steps of a lease rise in time: each begins later than the one before")]
    Order,
    /// Too many.
    #[error("a lease has at most {STEPS_MAX} steps")]
    Long,
}

/// What became of a lease that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is in force from now on.
    Accepted,
    /// It is the one in force, which goes on as it was: durations begin when it came for the first time.
    Repeated,
    /// A newer one is in force.
    Stale,
}

/// What is in force at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce {
    /// b/s of IP packets; 0 stands still.
    pub rate_bps: u64,
    /// The lease has ended: this is its fall-back.
    pub fallen_back: bool,
}

/// The lease of a session, cut to what the host grants.
///
/// ```text
///  received        rates[1].after     length
///  |  rates[0]     |  rates[1]  …     |  fall-back, for ever
/// ```
#[derive(Debug, Clone)]
pub struct LeaseClock {
    lease: Lease,
    received: Duration,
    most_bps: Option<u64>,
}

/// Checks a lease as it came.
///
/// # Errors
/// When it is no schedule.
pub fn check(lease: &Lease) -> Result<(), LeaseError> {
    if lease.rates.len() > STEPS_MAX {
        return Err(LeaseError::Long);
    }
    if lease.rates.first().is_none_or(|step| step.after_ms != 0) {
        return Err(LeaseError::NoFirst);
    }
    let rises = lease.rates.windows(2).all(|pair| pair[0].after_ms < pair[1].after_ms);
    if rises { Ok(()) } else { Err(LeaseError::Order) }
}

impl LeaseClock {
    /// A first lease, received at `now` by a clock that never goes back and does not stop while the host sleeps. No rate is
    /// more than `most_bps`.
    ///
    /// # Errors
    /// When it is no schedule.
    pub fn new(lease: Lease, now: Duration, most_bps: Option<u64>) -> Result<LeaseClock, LeaseError> {
        check(&lease)?;
        Ok(LeaseClock { lease, received: now, most_bps })
    }

    /// Takes a lease that came at `now`, unless it is older than the one in force.
    ///
    /// # Errors
    /// When it is no schedule; then the one in force stays.
    pub fn offer(&mut self, lease: Lease, now: Duration) -> Result<Offered, LeaseError> {
        check(&lease)?;
        Ok(match lease.generation.cmp(&self.lease.generation) {
            std::cmp::Ordering::Less => Offered::Stale,
            std::cmp::Ordering::Equal => Offered::Repeated,
            std::cmp::Ordering::Greater => {
                (self.lease, self.received) = (lease, now);
                Offered::Accepted
            }
        })
    }

    /// Of the lease in force.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lease.generation
    }

    /// What is in force at `now`.
    #[must_use]
    pub fn at(&self, now: Duration) -> InForce {
        let passed = now.saturating_sub(self.received);
        let fallen_back = passed >= Duration::from_millis(self.lease.length_ms);
        let begun = |after_ms: u64| Duration::from_millis(after_ms) <= passed;
        let rate_bps = if fallen_back {
            self.lease.fall_back_bps
        } else {
            // The first step begins at once.
            self.lease.rates.iter().rev().find(|step| begun(step.after_ms)).map_or(0, |step| step.rate_bps)
        };
        InForce { rate_bps: self.most_bps.map_or(rate_bps, |most| rate_bps.min(most)), fallen_back }
    }
}

#[cfg(test)]
mod tests {
    use api::agent::Step;
    use proptest::prelude::*;

    use super::*;

    fn lease(generation: u64, steps: &[(u64, u64)], length_ms: u64, fall_back_bps: u64) -> Lease {
        let rates = steps.iter().map(|&(after_ms, rate_bps)| Step { after_ms, rate_bps }).collect();
        Lease { generation, rates, length_ms, fall_back_bps }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_schedule_is_followed_and_then_the_fall_back_holds() {
        let clock = LeaseClock::new(lease(1, &[(0, 100), (50, 200)], 80, 10), ms(1000), Some(150)).unwrap();
        let at = |now| (clock.at(ms(now)).rate_bps, clock.at(ms(now)).fallen_back);
        assert_eq!(at(1000), (100, false));
        assert_eq!(at(1049), (100, false));
        assert_eq!(at(1050), (150, false), "cut to what is granted");
        assert_eq!(at(1079), (150, false));
        assert_eq!(at(1080), (10, true));
        assert_eq!(at(u64::MAX / 2), (10, true));
        assert_eq!(at(0), (100, false), "a clock of before counts as now");
    }

    #[test]
    fn what_is_no_schedule_is_refused_and_changes_nothing() {
        let good = lease(5, &[(0, 100)], 80, 10);
        let mut clock = LeaseClock::new(good.clone(), ms(0), None).unwrap();
        let many: Vec<(u64, u64)> = (0..=STEPS_MAX as u64).map(|n| (n, 1)).collect();
        for (steps, error) in [
            (&[][..], LeaseError::NoFirst),
            (&[(1, 1)], LeaseError::NoFirst),
            (&[(0, 1), (5, 1), (5, 2)], LeaseError::Order),
            (&[(0, 1), (5, 1), (4, 2)], LeaseError::Order),
            (&many, LeaseError::Long),
        ] {
            let bad = lease(9, steps, 80, 10);
            assert_eq!(LeaseClock::new(bad.clone(), ms(0), None).unwrap_err(), error);
            assert_eq!(clock.offer(bad, ms(1)).unwrap_err(), error);
            assert_eq!(clock.generation(), 5);
        }
    }

    fn any_lease() -> impl Strategy<Value = Lease> {
        let steps = proptest::collection::btree_map(1..50_u64, 0..20_u64, 0..4);
        (1..5_u64, 0..20_u64, steps, 0..60_u64, 0..20_u64).prop_map(|(generation, first, rest, length, fall_back)| {
            let steps: Vec<(u64, u64)> = std::iter::once((0, first)).chain(rest).collect();
            lease(generation, &steps, length, fall_back)
        })
    }

    proptest! {
        /// Against a model: the newest generation that came first counts, millisecond by millisecond.
        #[test]
        fn the_newest_counts(offers in proptest::collection::vec((0..30_u64, any_lease()), 1..12), most in proptest::option::of(0..20_u64)) {
            let mut now = 0;
            let mut clock: Option<LeaseClock> = None;
            let mut model: Option<(Lease, u64)> = None;
            for (pause, lease) in offers {
                now += pause;
                let expected = match &model {
                    Some((held, _)) if lease.generation < held.generation => Offered::Stale,
                    Some((held, _)) if lease.generation == held.generation => Offered::Repeated,
                    _ => Offered::Accepted,
                };
                match &mut clock {
                    Some(clock) => prop_assert_eq!(clock.offer(lease.clone(), ms(now)).unwrap(), expected),
                    None => clock = Some(LeaseClock::new(lease.clone(), ms(now), most).unwrap()),
                }
                if expected == Offered::Accepted {
                    model = Some((lease, now));
                }
                let (held, since) = model.as_ref().unwrap();
                for later in now..now + 120 {
                    let passed = later - since;
                    let mut rate = held.fall_back_bps;
                    if passed < held.length_ms {
                        rate = held.rates.iter().rfind(|s| s.after_ms <= passed).unwrap().rate_bps;
                    }
                    let rate_bps = most.map_or(rate, |most| rate.min(most));
                    let fallen_back = passed >= held.length_ms;
                    prop_assert_eq!(clock.as_ref().unwrap().at(ms(later)), InForce { rate_bps, fallen_back });
                }
            }
        }
    }
}
