//! Bits onto the wire, one after another, at the exact rate.

use units::Rate;

use super::queue::Segment;

/// Faster than this is as fast as this: 1 Pb/s. It keeps two remainders within a `u64`.
const RATE_MAX_BPS: u64 = 1_000_000_000_000_000;

const NS_PER_S: u128 = 1_000_000_000;

/// A time in nanoseconds and a remainder in parts of one: `part` / `whole`, where `whole` is the rate in bits per second.
/// One bit takes 10⁹ / rate ns, so the remainder is exact: nothing is rounded however long the link is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    ns: u64,
    part: u64,
    whole: u64,
}

/// How long a segment of some size takes.
#[derive(Clone, Copy, Debug)]
struct Step {
    bytes: u64,
    ns: u64,
    part: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Serialiser {
    /// Bits per second; without one nothing takes time.
    rate: Option<u64>,
    /// Segments in a row are mostly of one size: the division is kept.
    step: Option<Step>,
    current: Option<Segment>,
    /// When the current segment is out, or the last one was.
    end: Moment,
    /// Since when it has been busy without a break.
    busy_since: u64,
    /// Time of busy spells that are over, nanoseconds.
    busy: u64,
}

impl Serialiser {
    pub(super) fn new() -> Serialiser {
        let end = Moment { ns: 0, part: 0, whole: 1 };
        Serialiser { rate: None, step: None, current: None, end, busy_since: 0, busy: 0 }
    }

    /// The rate from the next segment on.
    pub(super) fn configure(&mut self, rate: Option<Rate>) {
        self.rate = rate.map(|rate| rate.bps().clamp(1, RATE_MAX_BPS));
        self.step = None;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    pub(super) fn current(&self) -> Option<&Segment> {
        self.current.as_ref()
    }

    /// When the current segment is out: the first nanosecond at which all of it is.
    pub(super) fn finish(&self) -> Option<u64> {
        self.current.is_some().then(|| self.end.rounded_up())
    }

    /// Starts with a segment at `now`, after a time with nothing to do.
    pub(super) fn begin(&mut self, now: u64, segment: Segment) {
        self.end = Moment { ns: now, part: 0, whole: 1 };
        self.busy_since = now;
        self.follow(segment);
    }

    /// Starts with a segment at the very moment at which the one before is out.
    pub(super) fn follow(&mut self, segment: Segment) {
        self.current = Some(segment);
        let Some(rate) = self.rate else { return };
        let step = match self.step {
            Some(step) if step.bytes == segment.bytes => step,
            _ => *self.step.insert(Step::of(segment.bytes, rate)),
        };
        self.end = self.end.in_parts_of(rate).plus(step);
    }

    /// The current segment is out.
    pub(super) fn take(&mut self) -> Option<Segment> {
        self.current.take()
    }

    /// Nothing follows: the busy spell is over with the last segment, or at `now` if that was cut off before.
    pub(super) fn rest(&mut self, now: u64) {
        self.current = None;
        self.busy += self.end.rounded_up().min(now).saturating_sub(self.busy_since);
        self.busy_since = u64::MAX;
    }

    /// For how long it has been busy at `now`, if `waiting` bytes follow what it is doing.
    pub(super) fn busy_at(&self, now: u64, waiting_bytes: u64) -> u64 {
        if self.is_idle() {
            return self.busy;
        }
        let rest = self.rate.map_or(0, |rate| Step::of(waiting_bytes, rate).ns);
        self.busy + self.end.ns.saturating_add(rest).min(now).saturating_sub(self.busy_since)
    }
}

impl Moment {
    fn rounded_up(self) -> u64 {
        self.ns.saturating_add(u64::from(self.part > 0))
    }

    /// The same in other parts; a part that is begun is cut off, once for each change of the rate.
    fn in_parts_of(self, whole: u64) -> Moment {
        if self.whole == whole {
            return self;
        }
        let part = u128::from(self.part) * u128::from(whole) / u128::from(self.whole);
        Moment { ns: self.ns, part: part as u64, whole }
    }

    fn plus(self, step: Step) -> Moment {
        let (mut ns, mut part) = (self.ns.saturating_add(step.ns), self.part + step.part);
        if part >= self.whole {
            part -= self.whole;
            ns = ns.saturating_add(1);
        }
        Moment { ns, part, whole: self.whole }
    }
}

impl Step {
    fn of(bytes: u64, rate: u64) -> Step {
        let bits_ns = u128::from(bytes) * 8 * NS_PER_S;
        let whole = u128::from(rate);
        let ns = u64::try_from(bits_ns / whole).unwrap_or(u64::MAX);
        Step { bytes, ns, part: (bits_ns % whole) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(bytes: u64) -> Segment {
        Segment { slot: 0, index: 0, marked: false, bytes }
    }

    fn serialiser(rate: Rate) -> Serialiser {
        let mut serialiser = Serialiser::new();
        serialiser.configure(Some(rate));
        serialiser
    }

    #[test]
    fn fifteen_hundred_bytes_at_a_gigabit_take_12_us() {
        let mut serialiser = serialiser(Rate::gbps(1));
        serialiser.begin(5, segment(1500));
        assert_eq!(serialiser.finish(), Some(12_005));
        serialiser.follow(segment(40));
        assert_eq!(serialiser.finish(), Some(12_325));
    }

    #[test]
    fn a_million_segments_at_3_gigabits_take_exactly_4_s() {
        // 1500 bytes are 12,000 bits: 4000 ns, and 1501 bytes are 12,008 bits: 4002 2/3 ns.
        let mut serialiser = serialiser(Rate::gbps(3));
        serialiser.begin(0, segment(1501));
        assert_eq!(serialiser.finish(), Some(4003));
        serialiser.follow(segment(1501));
        assert_eq!(serialiser.finish(), Some(8006), "8005 1/3");
        serialiser.follow(segment(1501));
        assert_eq!(serialiser.finish(), Some(12_008));
        (3..1_000_000).for_each(|_| serialiser.follow(segment(1501)));
        assert_eq!(serialiser.finish(), Some(4_002_666_667), "10⁶ × 4002 2/3 ns");
        (0..2_000_000).for_each(|_| serialiser.follow(segment(1501)));
        assert_eq!(serialiser.finish(), Some(12_008_000_000));
    }

    #[test]
    fn a_new_rate_holds_from_the_next_segment_on() {
        let mut serialiser = serialiser(Rate::gbps(1));
        serialiser.begin(0, segment(1500));
        serialiser.configure(Some(Rate::gbps(2)));
        assert_eq!(serialiser.finish(), Some(12_000));
        serialiser.follow(segment(1500));
        assert_eq!(serialiser.finish(), Some(18_000));
        serialiser.configure(None);
        serialiser.follow(segment(1500));
        assert_eq!(serialiser.finish(), Some(18_000), "as fast as the machine");
    }

    #[test]
    fn busy_is_what_it_worked() {
        let mut serialiser = serialiser(Rate::gbps(1));
        serialiser.begin(1000, segment(1500));
        assert_eq!(serialiser.busy_at(7000, 0), 6000);
        assert_eq!(serialiser.busy_at(20_000, 0), 12_000);
        assert_eq!(serialiser.busy_at(20_000, 1500), 19_000);
        serialiser.take();
        serialiser.rest(20_000);
        assert_eq!(serialiser.busy_at(30_000, 0), 12_000);
    }

    #[test]
    fn the_slowest_and_the_fastest_do_not_overflow() {
        let mut slow = serialiser(Rate::from_bps(0));
        slow.begin(u64::MAX - 1, segment(u64::from(u32::MAX) * 2));
        assert_eq!(slow.finish(), Some(u64::MAX));
        let mut fast = serialiser(Rate::MAX);
        fast.begin(0, segment(1));
        (0..1_000_000).for_each(|_| fast.follow(segment(1)));
        // A bit takes a millionth of a nanosecond at 1 Pb/s.
        assert_eq!(fast.finish(), Some(9));
    }
}
