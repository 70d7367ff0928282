//! Sets of moments at which something may start.

use std::cmp::{max, min};

use units::Moment;

/// A set of moments: closed intervals, in order, with time between them. An interval may be a single moment.
///
/// Closed, because whoever may start until a booking must begin may start at that very moment. Intervals that touch are one:
/// `[0, 5]` and `[5, 9]` are `[0, 9]`. `[0, 5]` and `[6, 9]` stay two, since the moments between are none of either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    intervals: Vec<(Moment, Moment)>,
}

impl Starts {
    /// No moment.
    #[must_use]
    pub fn none() -> Starts {
        Starts::default()
    }

    /// All moments from `first` to `last`, with both; none if `last` is before `first`.
    #[must_use]
    pub fn between(first: Moment, last: Moment) -> Starts {
        Starts { intervals: if first <= last { vec![(first, last)] } else { Vec::new() } }
    }

    /// The intervals, in order.
    #[must_use]
    pub fn intervals(&self) -> &[(Moment, Moment)] {
        &self.intervals
    }

    /// The first moment.
    #[must_use]
    pub fn first(&self) -> Option<Moment> {
        self.intervals.first().map(|interval| interval.0)
    }

    /// Whether there is no moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether a moment is one of them. O(log n).
    #[must_use]
    pub fn contains(&self, moment: Moment) -> bool {
        let after = self.intervals.partition_point(|interval| interval.0 <= moment);
        after.checked_sub(1).is_some_and(|at| moment <= self.intervals[at].1)
    }

    /// The moments of either. O(n).
    #[must_use]
    pub fn union(&self, other: &Starts) -> Starts {
        let mut all = [self.intervals(), other.intervals()].concat();
        // Two runs that are in order: the stable sort merges them.
        all.sort();
        let mut union = Starts { intervals: Vec::with_capacity(all.len()) };
        all.into_iter().for_each(|(first, last)| union.push(first, last));
        union
    }

    /// The moments of both. O(n).
    #[must_use]
    pub fn common(&self, other: &Starts) -> Starts {
        let mut common = Starts::none();
        let (mut left, mut right) = (self.intervals.as_slice(), other.intervals.as_slice());
        while let ([one, rest_of_left @ ..], [two, rest_of_right @ ..]) = (left, right) {
            let (first, last) = (max(one.0, two.0), min(one.1, two.1));
            if first <= last {
                common.push(first, last);
            }
            if one.1 <= two.1 {
                left = rest_of_left;
            } else {
                right = rest_of_right;
            }
        }
        common
    }

    /// Whether all moments of both others are in this set. O(n), and nothing is allocated.
    pub(crate) fn has_common(&self, one: &Starts, other: &Starts) -> bool {
        let (mut left, mut right) = (one.intervals.as_slice(), other.intervals.as_slice());
        let mut own = self.intervals.as_slice();
        while let ([a, rest_of_left @ ..], [b, rest_of_right @ ..]) = (left, right) {
            let (first, last) = (max(a.0, b.0), min(a.1, b.1));
            if first <= last {
                while own.first().is_some_and(|own| own.1 < first) {
                    own = &own[1..];
                }
                if own.first().is_none_or(|own| own.0 > first || own.1 < last) {
                    return false;
                }
            }
            if a.1 <= b.1 {
                left = rest_of_left;
            } else {
                right = rest_of_right;
            }
        }
        true
    }

    /// Adds an interval that begins no earlier than all that there are.
    pub(crate) fn push(&mut self, first: Moment, last: Moment) {
        match self.intervals.last_mut() {
            Some(before) if first <= before.1 => before.1 = max(before.1, last),
            _ => self.intervals.push((first, last)),
        }
    }
}

#[test]
fn intervals_that_touch_are_one_and_single_moments_count() {
    let starts = |intervals: &[(Moment, Moment)]| Starts { intervals: intervals.to_vec() };
    let a = starts(&[(0, 5), (8, 8), (20, 30)]);
    let b = starts(&[(5, 6), (8, 9), (12, 12), (30, 40)]);
    assert_eq!(a.union(&b), starts(&[(0, 6), (8, 9), (12, 12), (20, 40)]));
    assert_eq!(a.union(&b), b.union(&a));
    assert_eq!(a.common(&b), starts(&[(5, 5), (8, 8), (30, 30)]));
    assert_eq!(a.common(&b), b.common(&a));
    assert!(a.has_common(&a, &b) && a.common(&b).has_common(&b, &a) && a.has_common(&a, &a));
    assert!(!starts(&[(0, 5), (8, 8)]).has_common(&a, &b) && !starts(&[(0, 4), (7, 40)]).has_common(&a, &b));
    assert!(a.contains(8) && !a.contains(9) && !a.contains(-1));
    assert_eq!(Starts::between(3, 2), Starts::none());
}
