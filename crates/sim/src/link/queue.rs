//! The drop-tail queue before the serialiser.

use std::collections::VecDeque;

use model::network::{Direction, QueueLimit};
use units::{Bytes, Rate, Span};

use super::counters::Volume;

/// The most that waits. [`check_queue`] says whether a limit is above it.
pub const QUEUE_BYTES: u64 = 1 << 30;
/// The most segments that wait.
pub const QUEUE_SEGMENTS: u64 = 1 << 22;

/// Without a limit of its own, a queue holds this much of the rate ...
const DEFAULT_TIME_NS: u128 = 100_000_000;
/// ... or this much, if it is more.
const DEFAULT_BYTES: u64 = 256 << 10;

/// Whether a direction's queue can be as long as it is described: a link that is made all the same drops above [`QUEUE_BYTES`] and
/// [`QUEUE_SEGMENTS`].
///
/// # Errors
/// In one line, how long the queue would be and how long it may be.
pub fn check_queue(direction: &Direction) -> Result<(), String> {
    let (Some(rate), Some(limit)) = (direction.rate, direction.queue) else { return Ok(()) };
    let has = match (limit, volume(rate, limit)) {
        (QueueLimit::Packets(packets), _) if u64::from(packets) > QUEUE_SEGMENTS => format!("of {packets} packets"),
        (QueueLimit::Bytes(bytes), _) if bytes.get() > QUEUE_BYTES => format!("of {bytes:#}"),
        (QueueLimit::Time(time), has) if has.bytes > QUEUE_BYTES => {
            format!("of {:#} at {rate} ({})", Span::new(time), Bytes::new(has.bytes))
        }
        _ => return Ok(()),
    };
    let most = Bytes::new(QUEUE_BYTES);
    Err(format!("a queue {has} is more than an emulated link holds: {most:#}, {QUEUE_SEGMENTS} packets at most"))
}

/// A segment on its way through queue and serialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) slot: u32,
    pub(super) index: u16,
    pub(super) marked: bool,
    /// Bytes on the wire. A segment is at most one packet of an emulated network; sizes are checked at the entrance.
    pub(super) bytes: u64,
}

/// Neighbouring segments of one packet, all of the same size.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Segment,
    count: u16,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    runs: VecDeque<Run>,
    waiting: Volume,
    limit: Volume,
    /// Marks begin above this.
    mark_above: Option<Volume>,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue { runs: VecDeque::new(), waiting: Volume::default(), limit: most(), mark_above: None }
    }

    /// Limits from now on; what already waits stays, even if it is too much.
    pub(super) fn configure(&mut self, rate: Option<Rate>, limit: Option<QueueLimit>, ecn: Option<QueueLimit>) {
        let Some(rate) = rate else {
            (self.limit, self.mark_above) = (most(), None);
            return;
        };
        let default = || Volume { bytes: carried(rate, DEFAULT_TIME_NS).max(DEFAULT_BYTES), ..most() };
        let limit = limit.map_or_else(default, |limit| volume(rate, limit));
        self.limit = Volume { segments: limit.segments.min(QUEUE_SEGMENTS), bytes: limit.bytes.min(QUEUE_BYTES) };
        self.mark_above = ecn.map(|threshold| volume(rate, threshold));
    }

    pub(super) fn waiting(&self) -> Volume {
        self.waiting
    }

    /// Whether a packet that comes now, and may be marked, is.
    pub(super) fn marks(&self) -> bool {
        let above =
            |threshold: Volume| self.waiting.segments > threshold.segments || self.waiting.bytes > threshold.bytes;
        self.mark_above.is_some_and(above)
    }

    /// Puts a segment at the end. False if there is no room: it is dropped.
    pub(super) fn push(&mut self, segment: Segment) -> bool {
        if self.waiting.segments >= self.limit.segments
            || self.waiting.bytes.saturating_add(segment.bytes) > self.limit.bytes
        {
            return false;
        }
        self.waiting.add(1, segment.bytes);
        match self.runs.back_mut().filter(|run| run.is_followed_by(segment)) {
            Some(run) => run.count += 1,
            None => self.runs.push_back(Run { first: segment, count: 1 }),
        }
        true
    }

    /// Takes the segment at the front.
    pub(super) fn pop(&mut self) -> Option<Segment> {
        let run = self.runs.front_mut()?;
        let segment = run.first;
        run.first.index += 1;
        run.count -= 1;
        if run.count == 0 {
            self.runs.pop_front();
        }
        self.waiting.take(1, segment.bytes);
        Some(segment)
    }

    /// Drops everything; the caller has counted it.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.waiting = Volume::default();
    }
}

impl Run {
    fn is_followed_by(&self, segment: Segment) -> bool {
        let next = Segment { index: self.first.index.wrapping_add(self.count), ..self.first };
        next == segment
    }
}

fn most() -> Volume {
    Volume { segments: QUEUE_SEGMENTS, bytes: QUEUE_BYTES }
}

fn volume(rate: Rate, limit: QueueLimit) -> Volume {
    let no_limit = Volume { segments: u64::MAX, bytes: u64::MAX };
    match limit {
        QueueLimit::Bytes(bytes) => Volume { bytes: bytes.get(), ..no_limit },
        QueueLimit::Packets(segments) => Volume { segments: u64::from(segments), ..no_limit },
        QueueLimit::Time(time) => Volume { bytes: carried(rate, time.as_nanos()), ..no_limit },
    }
}

/// Bytes that `rate` carries in a time, rounded down.
fn carried(rate: Rate, ns: u128) -> u64 {
    let bits_ns = u128::from(rate.bps()).saturating_mul(ns);
    u64::try_from(bits_ns / 8_000_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn segment(index: u16, bytes: u64) -> Segment {
        Segment { slot: 0, index, marked: false, bytes }
    }

    fn queue(rate: Rate, limit: QueueLimit) -> Queue {
        let mut queue = Queue::new();
        queue.configure(Some(rate), Some(limit), None);
        queue
    }

    #[test]
    fn bytes_are_limited_to_the_byte() {
        let mut queue = queue(Rate::gbps(1), QueueLimit::Bytes(Bytes::new(3000)));
        assert!(queue.push(segment(0, 1500)));
        assert!(!queue.push(segment(1, 1501)));
        assert!(queue.push(segment(1, 1500)));
        assert!(!queue.push(segment(2, 1)));
        assert_eq!(queue.waiting(), Volume { segments: 2, bytes: 3000 });
    }

    #[test]
    fn packets_are_limited_whatever_their_size() {
        let mut queue = queue(Rate::gbps(1), QueueLimit::Packets(2));
        assert!(queue.push(segment(0, 9000)));
        assert!(queue.push(segment(1, 9000)));
        assert!(!queue.push(segment(2, 1)));
    }

    #[test]
    fn time_is_what_the_rate_carries_in_it() {
        // 12 µs at 1 Gb/s are 1500 bytes.
        let mut queue = queue(Rate::gbps(1), QueueLimit::Time(Duration::from_nanos(12_000)));
        assert!(queue.push(segment(0, 1500)));
        assert!(!queue.push(segment(1, 1)));
        queue.configure(Some(Rate::gbps(2)), Some(QueueLimit::Time(Duration::from_nanos(12_000))), None);
        assert!(queue.push(segment(1, 1500)));
        assert!(!queue.push(segment(2, 1)));
    }

    #[test]
    fn without_a_limit_it_is_100_ms_or_256_kib() {
        let limit_at = |rate| {
            let mut queue = Queue::new();
            queue.configure(Some(rate), None, None);
            queue.limit.bytes
        };
        assert_eq!(limit_at(Rate::gbps(1)), 12_500_000);
        assert_eq!(limit_at(Rate::mbps(10)), 256 << 10);
        assert_eq!(limit_at(Rate::gbps(400)), QUEUE_BYTES);
    }

    #[test]
    fn a_queue_that_would_be_cut_is_told() {
        let direction = |gbps, queue| Direction { rate: Some(Rate::gbps(gbps)), queue, ..Direction::default() };
        let told = |gbps, limit| check_queue(&direction(gbps, Some(limit)));
        let second = Duration::from_secs(1);
        for (gbps, longest, longer) in [
            (1, QueueLimit::Bytes(Bytes::gib(1)), QueueLimit::Bytes(Bytes::new((1 << 30) + 1))),
            (1, QueueLimit::Packets(1 << 22), QueueLimit::Packets((1 << 22) + 1)),
            (8, QueueLimit::Time(second), QueueLimit::Time(second * 2)),
        ] {
            assert_eq!(told(gbps, longest), Ok(()));
            assert!(
                told(gbps, longer).unwrap_err().contains("more than an emulated link holds: 1 GiB, 4194304 packets")
            );
        }
        let why = told(8, QueueLimit::Time(second * 2)).unwrap_err();
        assert!(why.starts_with("a queue of 2s at 8 Gb/s (2 GB) is more"), "{why}");
        assert_eq!(check_queue(&direction(400, None)), Ok(()), "nobody said how long it is to be");
    }

    #[test]
    fn runs_come_out_as_they_went_in() {
        let mut queue = queue(Rate::gbps(1), QueueLimit::Packets(10));
        let mut other = segment(3, 1500);
        other.marked = true;
        let all = [segment(0, 1500), segment(1, 1500), segment(2, 700), other, segment(9, 1500)];
        assert!(all.iter().all(|segment| queue.push(*segment)));
        assert_eq!(queue.runs.len(), 4);
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out, all);
        assert_eq!(queue.waiting(), Volume::default());
    }

    #[test]
    fn marks_begin_above_the_threshold() {
        let mut queue = Queue::new();
        queue.configure(Some(Rate::gbps(1)), None, Some(QueueLimit::Packets(1)));
        assert!(!queue.marks());
        queue.push(segment(0, 1500));
        assert!(!queue.marks(), "one waits, which is the threshold");
        queue.push(segment(1, 1500));
        assert!(queue.marks());
    }
}
