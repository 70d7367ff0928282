//! What a link has counted.

use std::fmt;

use crate::histogram::Histogram;

/// Segments, and their bytes with headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// How many.
    pub segments: u64,
    /// Bytes of them as IP packets.
    pub bytes: u64,
}

impl Volume {
    pub(super) fn add(&mut self, segments: u64, bytes: u64) {
        self.segments += segments;
        self.bytes += bytes;
    }

    pub(super) fn take(&mut self, segments: u64, bytes: u64) {
        self.segments -= segments;
        self.bytes -= bytes;
    }

    fn plus(self, other: Volume) -> Volume {
        Volume { segments: self.segments + other.segments, bytes: self.bytes + other.bytes }
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments of {} bytes", self.segments, self.bytes)
    }
}

/// What was dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The queue was full.
    pub queue: Volume,
    /// Lost on the wire, as configured or asked for.
    pub loss: Volume,
    /// Queued, in flight or arriving while the link was cut.
    pub cut: Volume,
    /// The delay line had reached [`DELAY_LINE_BYTES`](super::DELAY_LINE_BYTES) or
    /// [`DELAY_LINE_ENTRIES`](super::DELAY_LINE_ENTRIES): a limit of the machine, not of the network.
    pub delay_line: Volume,
}

impl Drops {
    /// All causes together.
    #[must_use]
    pub fn total(&self) -> Volume {
        self.queue.plus(self.loss).plus(self.cut).plus(self.delay_line)
    }
}

/// A snapshot of what one direction of a link has counted since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// When the snapshot was taken, nanoseconds.
    pub at: u64,
    /// Everything that came, also what was dropped at once.
    pub arrived: Volume,
    /// Everything that left, duplicates too.
    pub departed: Volume,
    /// What was dropped.
    pub dropped: Drops,
    /// Marked (CE) when it entered the queue.
    pub marked: Volume,
    /// Had a bit changed on the wire.
    pub corrupted: Volume,
    /// Copies that the wire made.
    pub duplicated: Volume,
    /// Waiting in the queue or being serialised.
    pub queued: Volume,
    /// In the delay line.
    pub in_flight: Volume,
    /// For how long the serialiser has been busy, nanoseconds.
    pub busy: u64,
    /// Bytes that waited in the queue when a segment came; one entry for each segment that found a rate.
    pub queue_depth: Histogram,
    /// Release minus due time in nanoseconds; one entry for each segment that left.
    pub lateness: Histogram,
}

impl Counters {
    /// Whether every segment is accounted for: arrived + duplicated = departed + dropped + queued + in flight.
    ///
    /// # Errors
    ///
    /// If not, both sides.
    pub fn check(&self) -> Result<(), Unbalanced> {
        let came = self.arrived.plus(self.duplicated);
        let accounted = self.departed.plus(self.dropped.total()).plus(self.queued).plus(self.in_flight);
        if came == accounted { Ok(()) } else { Err(Unbalanced { came, accounted }) }
    }

    /// Share of the time since `earlier` in which the serialiser was busy, parts per million; 0 if no time has passed.
    #[must_use]
    pub fn utilisation_ppm(&self, earlier: &Counters) -> u32 {
        let time = self.at.saturating_sub(earlier.at);
        let busy = self.busy.saturating_sub(earlier.busy).min(time);
        if time == 0 { 0 } else { (u128::from(busy) * 1_000_000 / u128::from(time)) as u32 }
    }
}

/// A link has lost count of its segments: a fault in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbalanced {
    /// Arrived or duplicated.
    pub came: Volume,
    /// Departed, dropped, queued or in flight.
    pub accounted: Volume,
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} came, {} are accounted for", self.came, self.accounted)
    }
}

impl std::error::Error for Unbalanced {}
