//! What is kept for the lowest tier: as much of each floor as that tier uses.

/// Floors go down to what is used, turn by turn, since what is given back on one resource may make the lowest tier use less of another.
/// Where they go down in proportion each turn would leave as much again, so the end of that is told from the last turns.
pub(super) struct Kept {
    /// In b/s, by resource.
    pub(super) floors: Vec<u64>,
    /// By how much they went down in the last turns, the oldest first.
    drops: Vec<Vec<u64>>,
    /// The floors before a leap, until the turn after it shows whether that was too far.
    before: Option<Vec<u64>>,
    may_leap: bool,
}

/// Turns by which is seen that floors go down in proportion.
const SEEN: usize = 3;
/// How much the proportion may change from turn to turn, in parts.
const STEADY: f64 = 1.0 / 64.0;
/// So much of the way to the end is leapt, for it is not known to the last bit and must not be passed.
const LEAP: f64 = 15.0 / 16.0;
/// Smaller drops than these say nothing of a proportion, in b/s together.
const DROPS_MIN: f64 = 1024.0;

impl Kept {
    pub(super) fn new(floors: Vec<u64>) -> Kept {
        Kept { floors, drops: Vec::new(), before: None, may_leap: true }
    }

    pub(super) fn is_any(&self) -> bool {
        self.floors.iter().any(|floor| *floor > 0)
    }

    /// Gives back what the lowest tier does not use. Whether anything changed.
    pub(super) fn give_back(&mut self, used: &[u64]) -> bool {
        let floors = self.floors.iter().zip(used);
        if let Some(before) = self.before.take()
            && floors.clone().zip(&before).any(|((floor, used), before)| floor < before && *used > floor + 1)
        {
            // It would use more than what is kept now.
            (self.floors, self.may_leap) = (before, false);
            self.drops.clear();
            return true;
        }
        let drops: Vec<u64> = floors.map(|(floor, used)| floor.saturating_sub(*used)).collect();
        if drops.iter().all(|drop| *drop == 0) {
            return false;
        }
        self.floors.iter_mut().zip(&drops).for_each(|(floor, drop)| *floor -= drop);
        self.drops.push(drops);
        if self.drops.len() > SEEN {
            self.drops.remove(0);
        }
        if let Some(times) = self.still_to_come() {
            self.before = Some(self.floors.clone());
            let last = self.drops.last().expect("there are some");
            for (floor, drop) in self.floors.iter_mut().zip(last) {
                *floor = floor.saturating_sub((*drop as f64 * times * LEAP) as u64);
            }
            self.drops.clear();
        }
        true
    }

    /// How many times the last drop all drops after it would be together: a geometric series, if all of the last ones were in one
    /// proportion (Aitken's delta-squared process).
    fn still_to_come(&self) -> Option<f64> {
        let [first, second, third] = self.drops.as_slice() else { return None };
        let sum = |drops: &[u64]| drops.iter().map(|drop| *drop as f64).sum::<f64>();
        let (sums, last) = ([sum(first), sum(second)], sum(third));
        let ratio = last / sums[1];
        let is_steady = |parts: f64| (parts - ratio).abs() <= (1.0 - ratio) * STEADY;
        (self.may_leap && last >= DROPS_MIN && ratio < 1.0 && is_steady(sums[1] / sums[0]))
            .then(|| ratio / (1.0 - ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many turns until nothing is given back, and the floors then, where a floor is used as `used` says.
    fn turns(floors: &[u64], used: impl Fn(&[u64]) -> Vec<u64>) -> (usize, Vec<u64>) {
        let mut kept = Kept::new(floors.to_vec());
        let turns = (1..1000).find(|_| !kept.give_back(&used(&kept.floors))).expect("there is an end");
        (turns, kept.floors)
    }

    #[test]
    fn what_is_used_is_kept() {
        assert_eq!(turns(&[100, 200], |_| vec![150, 200]), (1, vec![100, 200]));
        assert_eq!(turns(&[100, 200], |_| vec![50, 300]), (2, vec![50, 200]));
        assert_eq!(turns(&[100], |_| vec![0]), (2, vec![0]));
    }

    #[test]
    fn what_goes_down_in_proportion_is_soon_at_its_end() {
        // To 160 Mb/s and 0, by an eleventh of what is above that at each turn: one after the other it took 197 turns.
        let used = |floors: &[u64]| vec![160_000_000 + (floors[0] - 160_000_000) * 10 / 11, floors[1] * 10 / 11];
        let (turns, floors) = turns(&[480_000_000, 20_000_000], used);
        assert!(turns < 100, "{turns}");
        assert!(floors[0] - 160_000_000 < 12 && floors[1] < 12, "{floors:?}");
    }

    #[test]
    fn a_leap_that_was_too_far_is_taken_back() {
        // It looks as if it went down to 0 and stops at 300 Mb/s.
        let used = |floors: &[u64]| vec![(floors[0] * 10 / 11).max(300_000_000)];
        assert_eq!(turns(&[600_000_000], used).1, [300_000_000]);
    }
}
