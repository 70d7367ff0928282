//! What happens at which level, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Level;

/// Of what happens at one level, in this order: where a class goes on at a higher level of its own, who had all by then has stopped,
/// and who begins there begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Flow,
    Scale,
    Start,
}

/// At which level, what, and the index of whom.
pub(super) type Bend = (Level, Kind, u32);

/// What is known from the begin, which is nearly all, is sorted once and lies in order; what comes later is in a heap.
#[derive(Default)]
pub(super) struct Bends {
    /// The next one last.
    known: Vec<Bend>,
    later: BinaryHeap<Reverse<Bend>>,
}

impl Bends {
    pub(super) fn new(mut known: Vec<Bend>) -> Bends {
        known.sort_unstable_by(|one, other| other.cmp(one));
        Bends { known, later: BinaryHeap::new() }
    }

    pub(super) fn push(&mut self, bend: Bend) {
        self.later.push(Reverse(bend));
    }

    /// The next one.
    pub(super) fn peek(&self) -> Option<Bend> {
        let later = self.later.peek().map(|Reverse(bend)| *bend);
        match (self.known.last().copied(), later) {
            (Some(known), Some(later)) => Some(known.min(later)),
            (known, later) => known.or(later),
        }
    }

    /// Takes the next one off.
    pub(super) fn pop(&mut self) {
        let is_later = match (self.known.last(), self.later.peek()) {
            (Some(known), Some(Reverse(later))) => later < known,
            (known, _) => known.is_none(),
        };
        if is_later {
            self.later.pop();
        } else {
            self.known.pop();
        }
    }
}
