//! The addresses of the other end: which are good, and which is next.

use std::time::{Duration, Instant};

use crate::way::Way;

/// Between two attempts on an address that is bad.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Between two streams that move to an address with fewer.
const MOVE: Duration = Duration::from_millis(500);

/// One way to the other end.
#[derive(Debug)]
struct Address {
    way: Way,
    /// When it may be tried again, if it is bad.
    bad_until: Option<Instant>,
    /// Streams that are open over it.
    open: usize,
    /// Streams being opened over it.
    pending: usize,
    /// The least is liked best.
    rank: i64,
}

/// All ways to the other end; named by their places.
#[derive(Debug)]
pub(super) struct Addresses {
    all: Vec<Address>,
    moved: Instant,
    /// Streams go over the good address of the least rank alone; else over all good ones.
    in_order: bool,
}

impl Addresses {
    /// Ways to the other end, in the order of liking. They are used all, or `in_order`: the first that is good.
    pub(super) fn new(to: &[Way], in_order: bool) -> Addresses {
        let address = |(n, &way): (usize, _)| Address { way, bad_until: None, open: 0, pending: 0, rank: n as i64 };
        Addresses { all: to.iter().enumerate().map(address).collect(), moved: Instant::now(), in_order }
    }

    /// An address goes before all others; its place, if it is one of them. Others that are cut since `cut` are bad.
    pub(super) fn prefer(&mut self, to: Way, cut: Option<Instant>) -> Option<usize> {
        let first = self.all.iter().position(|a| a.way.is(&to))?;
        self.all[first].rank = self.all.iter().map(|a| a.rank).min()? - 1;
        self.all[first].bad_until = None;
        if let Some(now) = cut {
            let others = self.all.iter_mut().enumerate().filter(|(n, a)| *n != first && a.open + a.pending > 0);
            others.for_each(|(_, a)| a.bad_until = Some(now + RETRY));
        }
        Some(first)
    }

    /// The good address that is liked best.
    fn best(&self) -> Option<&Address> {
        self.all.iter().filter(|a| a.bad_until.is_none()).min_by_key(|a| a.rank)
    }

    /// Where the next stream goes, for a session that has `missing` streams less than it wants: the good address with the
    /// fewest, or a bad one whose time to be tried has come. The latter also when nothing is missing.
    pub(super) fn next(&mut self, now: Instant, missing: bool) -> Option<(usize, Way)> {
        // In order, what is liked less than what is good need not be tried.
        let least = self.best().filter(|_| self.in_order).map_or(i64::MAX, |best| best.rank);
        let due = |a: &Address| a.rank < least && a.bad_until.is_some_and(|until| until <= now) && a.pending == 0;
        let all = || self.all.iter().enumerate();
        let tried = all().find(|(_, a)| due(a)).map(|(n, _)| n);
        let good = all().filter(|(_, a)| missing && a.bad_until.is_none());
        let liking = |a: &Address| if self.in_order { (a.rank, 0) } else { (0, a.open + a.pending) };
        let n = tried.or_else(|| good.min_by_key(|(_, a)| liking(a)).map(|(n, _)| n))?;
        let address = &mut self.all[n];
        address.pending += 1;
        Some((n, address.way))
    }

    /// A stream over an address was opened: it is good.
    pub(super) fn opened(&mut self, n: usize) {
        let address = &mut self.all[n];
        address.pending -= 1;
        address.open += 1;
        address.bad_until = None;
    }

    /// A stream over an address could not be opened.
    pub(super) fn refused(&mut self, n: usize, now: Instant) {
        self.all[n].pending -= 1;
        self.all[n].bad_until = Some(now + RETRY);
    }

    /// A stream over an address is closed; the address is left alone for `pause` if that was not in good order.
    pub(super) fn closed(&mut self, n: usize, pause: Option<Duration>, now: Instant) {
        self.all[n].open -= 1;
        if let Some(pause) = pause {
            self.all[n].bad_until = Some(now + pause);
        }
    }

    /// Whether an address is bad.
    pub(super) fn is_bad(&self, n: usize) -> bool {
        self.all.get(n).is_some_and(|a| a.bad_until.is_some())
    }

    /// Whether there is an address that is good, other than `n`.
    pub(super) fn has_another(&self, n: usize) -> bool {
        self.all.iter().enumerate().any(|(m, a)| m != n && a.bad_until.is_none())
    }

    /// The address that a stream should leave for one with fewer, if it is time to: one that was dead and is alive
    /// again gets its share back.
    pub(super) fn crowded(&mut self, now: Instant) -> Option<usize> {
        let good = || self.all.iter().enumerate().filter(|(_, a)| a.bad_until.is_none());
        if now.duration_since(self.moved) < MOVE || self.all.iter().any(|a| a.pending > 0) {
            return None;
        }
        if self.in_order {
            let best = self.best()?.rank;
            let later = self.all.iter().position(|a| a.open > 0 && a.rank > best)?;
            self.moved = now;
            return Some(later);
        }
        let (most, crowd) = good().map(|(n, a)| (a.open, n)).max()?;
        let least = good().map(|(_, a)| a.open).min()?;
        if most < least + 2 {
            return None;
        }
        self.moved = now;
        Some(crowd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ways to three addresses.
    fn ways() -> Vec<Way> {
        (1..=3).map(|n| Way::to(([10, 0, 0, n], 4810).into())).collect()
    }

    fn three() -> Addresses {
        Addresses::new(&ways(), false)
    }

    #[test]
    fn in_order_the_first_good_one_is_used_and_gets_its_streams_back() {
        let (mut addresses, now) = (Addresses::new(&ways(), true), Instant::now());
        assert_eq!((0..3).map(|_| open(&mut addresses, now)).collect::<Vec<_>>(), [0, 0, 0]);
        assert!(addresses.crowded(now + MOVE).is_none());
        // The first is found dead: its streams come back over the second, and it alone is tried again.
        (0..3).for_each(|_| addresses.closed(0, Some(RETRY), now));
        assert_eq!((0..3).map(|_| open(&mut addresses, now)).collect::<Vec<_>>(), [1, 1, 1]);
        let later = now + RETRY;
        assert_eq!(addresses.next(later, false).map(|(n, ..)| n), Some(0));
        addresses.opened(0);
        assert_eq!(addresses.crowded(later + MOVE), Some(1), "back to the first");
    }

    #[test]
    fn a_path_that_is_said_to_be_cut_is_left_for_the_one_that_is_named() {
        let to = ways();
        let (mut addresses, now) = (Addresses::new(&to, true), Instant::now());
        assert_eq!(open(&mut addresses, now), 0);
        assert_eq!(addresses.prefer(to[2], Some(now)), Some(2));
        assert!(addresses.is_bad(0) && !addresses.is_bad(1));
        assert_eq!(open(&mut addresses, now), 2);
        let later = now + RETRY;
        assert!(addresses.next(later, false).is_none(), "what is liked less is not tried while the best is good");
        addresses.closed(2, Some(RETRY), later);
        assert_eq!(addresses.next(later, true).map(|(n, ..)| n), Some(0), "the next in order, whose time has come");
        assert_eq!(addresses.prefer(to[0], None), Some(0));
        assert_eq!(addresses.prefer(Way::to("192.0.2.1:1".parse().unwrap()), None), None);
    }

    #[test]
    fn paths_between_the_same_addresses_are_told_by_their_marks() {
        let marked = |dscp| Way { marks: units::Marks { dscp: Some(dscp), flow_label: None }, ..ways()[0] };
        let (mut addresses, now) = (Addresses::new(&[marked(18), marked(20)], true), Instant::now());
        assert_eq!(open(&mut addresses, now), 0);
        assert_eq!(addresses.prefer(marked(20), Some(now)), Some(1));
        assert_eq!(addresses.next(now, true), Some((1, marked(20))));
        assert_eq!(addresses.prefer(ways()[0], None), None, "none of them goes without a mark");
    }

    fn open(addresses: &mut Addresses, now: Instant) -> usize {
        let (n, ..) = addresses.next(now, true).unwrap();
        addresses.opened(n);
        n
    }

    #[test]
    fn streams_are_spread_over_good_addresses() {
        let (mut addresses, now) = (three(), Instant::now());
        assert_eq!((0..6).map(|_| open(&mut addresses, now)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        assert!(addresses.next(now, false).is_none());
    }

    #[test]
    fn a_bad_address_is_left_alone_and_tried_again_one_at_a_time() {
        let (mut addresses, now) = (three(), Instant::now());
        for _ in 0..3 {
            open(&mut addresses, now);
        }
        addresses.closed(0, Some(RETRY), now);
        assert!(addresses.is_bad(0) && addresses.has_another(0));
        assert_eq!((0..4).map(|_| open(&mut addresses, now)).collect::<Vec<_>>(), [1, 2, 1, 2]);
        // Its time comes though no stream is missing, and once only until it is known what came of it.
        let later = now + RETRY;
        assert_eq!(addresses.next(later, false).map(|(n, ..)| n), Some(0));
        assert!(addresses.next(later, false).is_none());
        addresses.refused(0, later);
        assert!(addresses.next(later, false).is_none());
        assert_eq!(addresses.next(later + RETRY, false).map(|(n, ..)| n), Some(0));
        addresses.opened(0);
        assert!(!addresses.is_bad(0));
    }

    #[test]
    fn one_that_is_back_gets_its_share() {
        let (mut addresses, now) = (three(), Instant::now());
        for _ in 0..6 {
            open(&mut addresses, now);
        }
        (0..2).for_each(|_| addresses.closed(2, None, now));
        let mut later = now;
        assert!(addresses.crowded(later).is_none(), "not at once");
        later += MOVE;
        assert_eq!(addresses.crowded(later), Some(1));
        addresses.closed(1, None, later);
        assert_eq!(open(&mut addresses, later), 2);
        later += MOVE;
        assert!(addresses.crowded(later).is_none() == (addresses.all[0].open < 3));
    }

    #[test]
    fn with_all_bad_each_is_tried() {
        let (mut addresses, now) = (three(), Instant::now());
        for n in [0, 1, 2] {
            assert_eq!(open(&mut addresses, now), n);
        }
        (0..3).for_each(|n| addresses.closed(n, Some(RETRY), now));
        assert!(addresses.next(now, true).is_none());
        assert!(!addresses.has_another(0));
        let later = now + RETRY;
        assert_eq!((0..3).filter_map(|_| addresses.next(later, true)).map(|(n, ..)| n).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
