//! What urgent transfers of a class used, by day, for as long as a budget takes to come back: what is used of a budget follows from it, whatever
//! the budget is. The fold does not know it, and it may be changed.

use std::collections::VecDeque;
use std::time::Duration;

use plan::usage::{BUDGET_PERIOD, budget_left};
use serde::{Deserialize, Serialize};

use crate::Moment;

/// What is put together, ms.
const DAY_MS: u64 = 86_400_000;
/// Days that are kept at most: those of [`BUDGET_PERIOD`], and that which has begun.
pub(crate) const DAYS_MAX: usize = BUDGET_PERIOD.as_secs() as usize / 86_400 + 1;

/// What urgent transfers of a class used of late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrgentUsed {
    /// The oldest first.
    days: VecDeque<Day>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    /// Of its last bytes.
    last: Moment,
    bytes: u64,
}

impl UrgentUsed {
    /// Adds what was used until then.
    pub fn add(&mut self, at: Moment, bytes: u64) {
        let day = |of: Moment| of.0 / DAY_MS;
        match self.days.back_mut() {
            // Of times that go back the last day takes all.
            Some(is) if day(at) <= day(is.last) => {
                (is.last, is.bytes) = (is.last.max(at), is.bytes.saturating_add(bytes));
            }
            _ => self.days.push_back(Day { last: at, bytes }),
        }
        let first = day(at).saturating_sub(DAYS_MAX as u64 - 1);
        while self.days.front().is_some_and(|of| day(of.last) < first) || self.days.len() > DAYS_MAX {
            self.days.pop_front();
        }
    }

    /// How many bytes of a budget are used, as of the moment that is told; from then on it comes back. Whatever began a day without
    /// any of it left drew on none; what overdrew it on a day has to come back too. `None` if nothing was used.
    #[must_use]
    pub fn of(&self, budget: u64) -> Option<(u64, Moment)> {
        let mut is: Option<(u64, Moment)> = None;
        for day in &self.days {
            let used = is.map_or(0, |(used, at)| drawn(budget, used, Duration::from_millis(day.last.ms_since(at))));
            let drew = if used < budget { day.bytes } else { 0 };
            is = Some((used.saturating_add(drew), day.last));
        }
        is
    }

    /// Whether it is one that [`UrgentUsed::add`] makes.
    pub(crate) fn is_right(&self) -> bool {
        self.days.len() <= DAYS_MAX && self.days.iter().map(|day| day.last).is_sorted()
    }
}

/// What of so much is still used after a time. What is beyond the budget comes back at the same pace.
fn drawn(budget: u64, used: u64, elapsed: Duration) -> u64 {
    used.saturating_sub(budget_left(budget, budget, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: u64 = 1_000_000_000_000;

    #[test]
    fn what_is_used_of_a_budget_comes_back_evenly() {
        let mut used = UrgentUsed::default();
        assert_eq!(used.of(30 * TB), None);
        let day = |n: u64| Moment(n * DAY_MS);
        used.add(day(100), 4 * TB);
        used.add(day(100).after_ms(DAY_MS / 2), 6 * TB);
        assert_eq!(used.of(30 * TB), Some((10 * TB, day(100).after_ms(DAY_MS / 2))), "one day");
        used.add(day(105).after_ms(DAY_MS / 2), TB);
        assert_eq!(used.of(30 * TB).expect("it is used").0, 6 * TB, "5 TB came back, one was used");
        assert_eq!(used.of(300 * TB).expect("it is used").0, TB, "of ten times the budget all came back");
        assert_eq!(used.of(0).expect("it is used").0, 0);
    }

    #[test]
    fn a_budget_that_is_used_up_is_drawn_on_by_nothing_until_it_is_back() {
        let mut used = UrgentUsed::default();
        for day in 0..4 {
            used.add(Moment(day * DAY_MS), 50 * TB);
        }
        // Of 75 TB come back 2.5 TB a day: after two days 97.5 TB are used, so the next two draw on nothing.
        assert_eq!(used.of(75 * TB), Some((92_500_000_000_000, Moment(3 * DAY_MS))));
        used.add(Moment(11 * DAY_MS), TB);
        assert_eq!(used.of(75 * TB), Some((73_500_000_000_000, Moment(11 * DAY_MS))), "there is some again");
    }

    #[test]
    fn days_are_kept_for_as_long_as_a_budget_takes_to_come_back() {
        let mut used = UrgentUsed::default();
        for hour in 0..24 * 100 {
            used.add(Moment(hour * DAY_MS / 24), 1);
            assert!(used.is_right());
        }
        assert_eq!(used.days.len(), DAYS_MAX);
        used.add(Moment(1), 7);
        assert_eq!(used.days.back().map(|day| day.bytes), Some(24 + 7), "of a clock that goes back nothing is lost");
        used.add(Moment(DAY_MS * 1_000), 1);
        assert_eq!(used.days.len(), 1);
    }
}
