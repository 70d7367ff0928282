//! The delay line: what is in flight.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use super::Fate;
use super::counters::Volume;

/// The most bytes in flight in one direction of a link: 10 Gb/s over 850 ms, 100 Gb/s over 85 ms. What comes beyond it is
/// dropped and counted apart, as a limit of the machine.
pub const DELAY_LINE_BYTES: u64 = 1 << 30;
/// The most entries (segments, or packets where a packet is a unit) in flight in one direction of a link.
pub const DELAY_LINE_ENTRIES: usize = 1 << 22;

/// Neighbouring segments of one packet that are due together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) due: u64,
    pub(super) slot: u32,
    pub(super) first: u16,
    pub(super) count: u16,
    pub(super) fate: Fate,
}

/// What overtakes is in a heap, what keeps its order in a plain queue; a live change may leave entries in both.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayLine {
    in_order: VecDeque<Numbered>,
    overtaking: BinaryHeap<Reverse<Numbered>>,
    /// Entries so far: what is due together leaves in the order it came.
    number: u64,
    /// The latest due time given so far.
    latest: u64,
    volume: Volume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    number: u64,
    entry: InFlight,
}

impl DelayLine {
    /// Takes in `entry`, of `bytes` bytes. Unless it may overtake, it is due no earlier than all before it. False if the line
    /// is full: it is dropped.
    pub(super) fn push(&mut self, mut entry: InFlight, bytes: u64, may_overtake: bool) -> bool {
        let entries = self.in_order.len() + self.overtaking.len();
        if entries >= DELAY_LINE_ENTRIES || self.volume.bytes.saturating_add(bytes) > DELAY_LINE_BYTES {
            return false;
        }
        if !may_overtake {
            entry.due = self.floor(entry.due);
        }
        self.latest = self.latest.max(entry.due);
        self.volume.add(u64::from(entry.count), bytes);
        let numbered = Numbered { number: self.number, entry };
        self.number += 1;
        if may_overtake {
            self.overtaking.push(Reverse(numbered));
        } else {
            self.in_order.push_back(numbered);
        }
        true
    }

    /// `due`, or later if something before is due later.
    pub(super) fn floor(&self, due: u64) -> u64 {
        due.max(self.latest)
    }

    /// What leaves next.
    pub(super) fn peek(&self) -> Option<&InFlight> {
        match (self.in_order.front(), self.overtaking.peek()) {
            (Some(a), Some(Reverse(b))) => Some(&a.min(b).entry),
            (Some(a), None) => Some(&a.entry),
            (None, Some(Reverse(b))) => Some(&b.entry),
            (None, None) => None,
        }
    }

    /// Takes out what leaves next, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<InFlight> {
        let overtakes = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(a), Some(Reverse(b))) => b < a,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if overtakes {
            let first = self.overtaking.peek_mut()?;
            return (first.0.entry.due <= now).then(|| PeekMut::pop(first).0.entry);
        }
        self.in_order.front().filter(|first| first.entry.due <= now)?;
        self.in_order.pop_front().map(|first| first.entry)
    }

    /// What was taken out had these `bytes`.
    pub(super) fn has_left(&mut self, segments: u64, bytes: u64) {
        self.volume.take(segments, bytes);
    }

    pub(super) fn volume(&self) -> Volume {
        self.volume
    }

    /// Drops everything; the caller has counted it. What comes now need not wait for what is gone.
    pub(super) fn clear(&mut self) {
        self.in_order.clear();
        self.overtaking.clear();
        self.volume = Volume::default();
        self.latest = 0;
    }
}

impl Ord for Numbered {
    fn cmp(&self, other: &Numbered) -> Ordering {
        (self.entry.due, self.number).cmp(&(other.entry.due, other.number))
    }
}

impl PartialOrd for Numbered {
    fn partial_cmp(&self, other: &Numbered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(due: u64, first: u16) -> InFlight {
        InFlight { due, slot: 0, first, count: 1, fate: Fate::Whole }
    }

    fn order(line: &mut DelayLine) -> Vec<(u64, u16)> {
        std::iter::from_fn(|| line.pop_due(u64::MAX)).map(|entry| (entry.due, entry.first)).collect()
    }

    #[test]
    fn in_order_a_segment_waits_for_the_one_before() {
        let mut line = DelayLine::default();
        assert!([(50, 0), (30, 1), (60, 2)].iter().all(|(due, first)| line.push(entry(*due, *first), 1, false)));
        assert_eq!(order(&mut line), [(50, 0), (50, 1), (60, 2)]);
    }

    #[test]
    fn overtaking_they_leave_by_time_then_by_order() {
        let mut line = DelayLine::default();
        let all = [(50, 0), (30, 1), (50, 2), (30, 3)];
        assert!(all.iter().all(|(due, first)| line.push(entry(*due, *first), 1, true)));
        assert_eq!(order(&mut line), [(30, 1), (30, 3), (50, 0), (50, 2)]);
    }

    #[test]
    fn a_change_of_order_keeps_what_is_in_the_line() {
        let mut line = DelayLine::default();
        line.push(entry(50, 0), 1, false);
        line.push(entry(40, 1), 1, true);
        line.push(entry(45, 2), 1, true);
        line.push(entry(10, 3), 1, false);
        assert_eq!(line.peek().map(|entry| entry.first), Some(1));
        assert_eq!(order(&mut line), [(40, 1), (45, 2), (50, 0), (50, 3)]);
    }

    #[test]
    fn nothing_waits_for_what_is_gone() {
        let mut line = DelayLine::default();
        line.push(entry(50, 0), 1, false);
        line.clear();
        line.push(entry(30, 1), 1, false);
        assert_eq!(order(&mut line), [(30, 1)]);
    }

    #[test]
    fn the_line_is_full_at_its_bytes_and_at_its_entries() {
        let mut line = DelayLine::default();
        assert!(line.push(entry(1, 0), DELAY_LINE_BYTES, false));
        assert!(!line.push(entry(1, 1), 1, false));
        line.clear();
        assert!((0..DELAY_LINE_ENTRIES).all(|_| line.push(entry(1, 0), 1, false)));
        assert!(!line.push(entry(1, 1), 1, false));
    }
}
