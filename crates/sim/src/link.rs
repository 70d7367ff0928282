//! One direction of a link as a machine: packets in, time in, departures out.
//!
//! A packet passes, segment by segment and in this order:
//!
//! 1. a **drop-tail queue**, bounded in bytes, segments or time at the current rate. The segment being serialised
//!    is not in the queue, so one can leave even if the queue holds nothing;
//! 2. the **serialiser**, at the exact rate;
//! 3. the **wire**: loss, corruption, duplication;
//! 4. the **delay line**: delay and jitter, in order unless reordering is asked for.
//!
//! Without a rate there is no queue, and nothing takes time to serialise. A link that has no rate either and nothing
//! that befalls single segments takes a packet as one unit: it has one delay.
//!
//! The machine is lazy: it looks at the time only when it is called, and does then all that should have been done by then,
//! each at its own time. When and how often it is polled changes how many segments leave together, and nothing else.
//! The one exception are the limits of the delay line, which what is due occupies until it is taken.

mod counters;
mod delay;
mod packets;
mod queue;
mod serialiser;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;

use model::network::Direction;

use crate::random::Random;
use delay::{DelayLine, InFlight};
use packets::Packets;
use queue::{Queue, Segment};
use serialiser::Serialiser;
use wire::{Passage, Wire};

pub use counters::{Counters, Drops, Unbalanced, Volume};
pub use delay::{DELAY_LINE_BYTES, DELAY_LINE_ENTRIES};
pub use queue::{QUEUE_BYTES, QUEUE_SEGMENTS, check_queue};

/// What the machine knows of a packet: its sizes, not its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of IP and transport headers; each segment carries them.
    pub header: u32,
    /// Bytes of payload of the whole packet.
    pub payload: u32,
    /// Payload bytes of each segment but the last; `payload` or more for a packet that is one segment.
    pub segment: u32,
    /// May be marked instead of dropped (ECN-capable transport).
    pub markable: bool,
}

impl Shape {
    /// A packet of one segment.
    #[must_use]
    pub const fn single(header: u32, payload: u32) -> Shape {
        Shape { header, payload, segment: payload, markable: false }
    }

    /// How many segments it has: at least one (also if `segment` is 0), at most 65,535; the last one has what is left.
    #[must_use]
    pub fn segments(&self) -> u16 {
        if self.segment == 0 || self.payload <= self.segment {
            return 1;
        }
        u16::try_from(self.payload.div_ceil(self.segment)).unwrap_or(u16::MAX)
    }

    /// Bytes on the wire of all segments, each with its headers.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        u64::from(self.segments()) * u64::from(self.header) + u64::from(self.payload)
    }
}

/// Lateness that is nothing special, nanoseconds.
const USUALLY_LATE: u64 = 50_000;

/// What befell the segments of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Whole,
    /// To be marked: congestion experienced (CE).
    Marked,
    /// One bit of the payload is to be changed: this one, modulo the bits of the payload. Always a single segment. If it was
    /// marked too, that is not said: its checksum does not hold, so nobody will look at the mark.
    Corrupt(u32),
}

/// Neighbouring segments of one packet that leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The caller's key of the packet.
    pub key: u64,
    /// The first segment.
    pub first: u16,
    /// How many, at least one.
    pub count: u16,
    /// What befell them, all alike.
    pub fate: Fate,
    /// When the first was due, nanoseconds.
    pub due: u64,
    /// Nothing of this packet is left in the machine: the caller may forget its bytes after this departure.
    pub last: bool,
}

/// What became of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Something of it is in the machine: the caller keeps its bytes until a [`Departure`] says `last` or an
    /// [`Output::Forget`] names it.
    Kept,
    /// Nothing of it is kept, and nothing more will be said of it.
    Dropped,
}

/// What comes out of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Segments leave.
    Departure(Departure),
    /// Nothing more will leave of the packet with this key: the rest of it was lost.
    Forget(u64),
}

/// One direction of a link.
///
/// All times are nanoseconds of one clock that does not go backwards; a time before the last one is taken as the last one.
///
/// ```
/// use std::time::Duration;
///
/// use model::network::Direction;
/// use sim::link::{Admission, Link, Output, Shape};
/// use units::Rate;
///
/// let direction = Direction { rate: Some(Rate::gbps(1)), delay: Duration::from_millis(50), ..Direction::default() };
/// let mut link = Link::new(&direction, 1);
/// assert_eq!(link.handle_packet(0, 7, Shape::single(40, 1460)), Admission::Kept);
/// // 12 µs for 1500 bytes at 1 Gb/s, and 50 ms on the way.
/// assert_eq!(link.poll_timeout(), Some(50_012_000));
/// assert_eq!(link.poll(50_011_999), None);
/// let Some(Output::Departure(departure)) = link.poll(50_012_000) else { panic!("it is due") };
/// assert_eq!((departure.key, departure.due, departure.last), (7, 50_012_000, true));
/// ```
#[derive(Clone, Debug)]
pub struct Link {
    random: Random,
    packets: Packets,
    queue: Queue,
    serialiser: Serialiser,
    wire: Wire,
    line: DelayLine,
    /// Keys of packets that were lost in the end and of which the caller does not know yet; at most one for each
    /// packet that was in the machine.
    forgotten: VecDeque<u64>,
    delay: u64,
    jitter: u64,
    reorder: bool,
    is_limited: bool,
    is_cut: bool,
    now: u64,
    counters: Counters,
}

impl Link {
    /// An idle link. The same `seed` gives the same fate to the same packets at the same times.
    #[must_use]
    pub fn new(direction: &Direction, seed: u64) -> Link {
        let mut link = Link {
            random: Random::new(seed),
            packets: Packets::default(),
            queue: Queue::new(),
            serialiser: Serialiser::new(),
            wire: Wire::new(),
            line: DelayLine::default(),
            forgotten: VecDeque::new(),
            delay: 0,
            jitter: 0,
            reorder: false,
            is_limited: false,
            is_cut: false,
            now: 0,
            counters: Counters::default(),
        };
        link.configure(direction);
        link
    }

    /// A packet arrives. `key` is the caller's and comes back with what leaves of it.
    pub fn handle_packet(&mut self, now: u64, key: u64, shape: Shape) -> Admission {
        self.advance(now);
        let segments = shape.segments();
        self.counters.arrived.add(u64::from(segments), shape.wire_bytes());
        if self.is_cut {
            self.counters.dropped.cut.add(u64::from(segments), shape.wire_bytes());
            return Admission::Dropped;
        }
        let slot = self.packets.insert(key, shape);
        if self.is_limited || !self.serialiser.is_idle() {
            (0..segments).for_each(|index| self.enqueue(slot, index, shape.markable));
        } else if self.wire.is_clean() {
            self.launch(self.now, slot, 0, segments, Fate::Whole);
        } else {
            (0..segments).for_each(|index| self.enter_wire(self.now, self.segment(slot, index, false)));
        }
        // This was the hold of this call: if it was the last one, nothing is kept and nobody needs to be told later.
        if self.packets.release(slot, 1) { Admission::Dropped } else { Admission::Kept }
    }

    /// What leaves now; to be called until it gives `None`. Nothing leaves before it is due; how much later it leaves is
    /// recorded as lateness.
    pub fn poll(&mut self, now: u64) -> Option<Output> {
        self.poll_until(now, now)
    }

    /// The same of what was due by `until`, which is not later than `now`: who takes long to carry away what leaves, and would find a
    /// segment or two more each time, comes back for all of them together.
    pub fn poll_until(&mut self, now: u64, until: u64) -> Option<Output> {
        self.advance(now);
        let until = until.min(self.now);
        if let Some(key) = self.forgotten.pop_front() {
            return Some(Output::Forget(key));
        }
        let entry = self.pop_due(until)?;
        let (first, mut count) = (entry.first, entry.count);
        while self.line.peek().is_some_and(|next| next.due <= until && continues(&entry, count, next)) {
            count += self.pop_due(until).map_or(0, |next| next.count);
        }
        let packet = self.packets.get(entry.slot);
        let (key, bytes) = (packet.key, packet.bytes(first, count));
        self.line.has_left(u64::from(count), bytes);
        self.counters.departed.add(u64::from(count), bytes);
        let last = self.packets.release(entry.slot, u32::from(count));
        Some(Output::Departure(Departure { key, first, count, fate: entry.fate, due: entry.due, last }))
    }

    /// When [`Link::poll`] is worth a call, nanoseconds; `None` if nothing is in the machine. It never comes later than
    /// something is due, but what is still being serialised may turn out lost or delayed by jitter.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        if !self.forgotten.is_empty() {
            return Some(self.now);
        }
        let launched = self.serialiser.finish().map(|finish| {
            let due = finish.saturating_add(self.delay);
            if self.reorder { due } else { self.line.floor(due) }
        });
        let flying = self.line.peek().map(|entry| entry.due);
        launched.into_iter().chain(flying).min()
    }

    /// What leaves next if nothing else happens until it is due: as [`Link::poll`] will give it if it is alone. What is still being serialised is left
    /// out.
    ///
    /// Nothing changes, but what that poll touches has been touched: on a virtual machine whose host takes away memory that was not used for a
    /// while, each part of it would take 0.1 ms to be there again just when something is due.
    #[must_use]
    pub fn preview(&mut self) -> Option<Departure> {
        let InFlight { due, slot, first, count, fate } = *self.line.peek()?;
        let last = self.packets.preview_release(slot, u32::from(count));
        // The buckets of being on time, and of being late as usual.
        for late in [0, USUALLY_LATE] {
            self.counters.lateness.record_n(late, std::hint::black_box(0));
        }
        Some(Departure { key: self.packets.get(slot).key, first, count, fate, due, last })
    }

    /// What a segment that enters the delay line now waits there at least, nanoseconds.
    #[must_use]
    pub fn delay(&self) -> u64 {
        self.delay
    }

    /// The link is another one from the next segment on. What is being serialised ends at the old rate and has the new delay
    /// and chances; what is in the delay line keeps its time; what waits stays, even if it is more than the new
    /// queue would take.
    pub fn set(&mut self, now: u64, direction: &Direction) {
        self.advance(now);
        self.configure(direction);
    }

    /// The next `count` segments that come onto the wire are lost, whatever else was set, and counted as loss.
    pub fn drop_next(&mut self, now: u64, count: u32) {
        self.advance(now);
        self.wire.doom(count);
    }

    /// The link is cut: all that is queued or in flight is lost, and all that comes until it is healed. What was due and
    /// has not been polled is lost too: poll first.
    pub fn cut(&mut self, now: u64) {
        self.advance(now);
        self.is_cut = true;
        let (queued, flying) = (self.queued(), self.line.volume());
        self.counters.dropped.cut.add(queued.segments + flying.segments, queued.bytes + flying.bytes);
        if !self.serialiser.is_idle() {
            self.serialiser.rest(self.now);
        }
        self.queue.clear();
        self.line.clear();
        self.forgotten.extend(self.packets.clear());
    }

    /// The link carries again, as if it had been idle.
    pub fn heal(&mut self, now: u64) {
        self.advance(now);
        self.is_cut = false;
    }

    /// What was counted. Segments are where they were at the last other call: to have them where they are at `now`, poll first.
    #[must_use]
    pub fn counters(&self, now: u64) -> Counters {
        let at = now.max(self.now);
        Counters {
            at,
            queued: self.queued(),
            in_flight: self.line.volume(),
            busy: self.serialiser.busy_at(at, self.queue.waiting().bytes),
            ..self.counters.clone()
        }
    }

    fn configure(&mut self, direction: &Direction) {
        self.is_limited = direction.rate.is_some();
        self.queue.configure(direction.rate, direction.queue, direction.ecn);
        self.serialiser.configure(direction.rate);
        self.wire.configure(direction.loss, direction.corrupt, direction.duplicate);
        self.delay = u64::try_from(direction.delay.as_nanos()).unwrap_or(u64::MAX);
        self.jitter = u64::try_from(direction.jitter.amount.as_nanos()).unwrap_or(u64::MAX);
        self.reorder = direction.jitter.reorder;
    }

    /// Does what should have been done by `now`, each thing at its own time.
    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        while let Some(finish) = self.serialiser.finish().filter(|finish| *finish <= self.now) {
            let Some(segment) = self.serialiser.take() else { return };
            self.enter_wire(finish, segment);
            match self.queue.pop() {
                Some(next) => self.serialiser.follow(next),
                None => self.serialiser.rest(finish),
            }
        }
    }

    fn enqueue(&mut self, slot: u32, index: u16, markable: bool) {
        let depth = self.queue.waiting().bytes;
        if self.is_limited {
            self.counters.queue_depth.record(depth);
        }
        let segment = self.segment(slot, index, markable && self.queue.marks());
        if self.serialiser.is_idle() {
            self.serialiser.begin(self.now, segment);
        } else if !self.queue.push(segment) {
            self.counters.dropped.queue.add(1, segment.bytes);
            self.packets.release(slot, 1);
            return;
        }
        if segment.marked {
            self.counters.marked.add(1, segment.bytes);
        }
    }

    /// A segment is on the wire at `at`, with its last bit.
    fn enter_wire(&mut self, at: u64, segment: Segment) {
        let Segment { slot, index, marked, bytes } = segment;
        let Passage::Through { corrupt, twice } = self.wire.pass(&mut self.random) else {
            self.counters.dropped.loss.add(1, bytes);
            self.release(slot, 1);
            return;
        };
        let fate = match corrupt {
            Some(bit) => Fate::Corrupt(bit),
            None if marked => Fate::Marked,
            None => Fate::Whole,
        };
        if corrupt.is_some() {
            self.counters.corrupted.add(1, bytes);
        }
        if twice {
            self.counters.duplicated.add(1, bytes);
            self.packets.hold(slot);
            self.launch(at, slot, index, 1, fate);
        }
        self.launch(at, slot, index, 1, fate);
    }

    /// Segments enter the delay line.
    fn launch(&mut self, at: u64, slot: u32, first: u16, count: u16, fate: Fate) {
        let jitter = if self.jitter == 0 { 0 } else { self.random.up_to(self.jitter) };
        let due = at.saturating_add(self.delay).saturating_add(jitter);
        let bytes = self.packets.get(slot).bytes(first, count);
        if !self.line.push(InFlight { due, slot, first, count, fate }, bytes, self.reorder) {
            self.counters.dropped.delay_line.add(u64::from(count), bytes);
            self.release(slot, u32::from(count));
        }
    }

    fn pop_due(&mut self, until: u64) -> Option<InFlight> {
        let entry = self.line.pop_due(until)?;
        self.counters.lateness.record_n(self.now - entry.due, u64::from(entry.count));
        Some(entry)
    }

    /// Segments of a packet are gone; if they were the last ones, the caller is told to forget it.
    fn release(&mut self, slot: u32, count: u32) {
        let key = self.packets.get(slot).key;
        if self.packets.release(slot, count) {
            self.forgotten.push_back(key);
        }
    }

    fn segment(&self, slot: u32, index: u16, marked: bool) -> Segment {
        Segment { slot, index, marked, bytes: self.packets.get(slot).bytes(index, 1) }
    }

    /// What waits or is being serialised.
    fn queued(&self) -> Volume {
        let mut queued = self.queue.waiting();
        if let Some(segment) = self.serialiser.current() {
            queued.add(1, segment.bytes);
        }
        queued
    }
}

/// Whether `next` can leave with `count` segments from `entry` on, as one piece.
fn continues(entry: &InFlight, count: u16, next: &InFlight) -> bool {
    let single = matches!(entry.fate, Fate::Corrupt(_));
    next.slot == entry.slot && next.first == entry.first + count && next.fate == entry.fate && !single
}
