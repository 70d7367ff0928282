//! What one direction of a link has to tell, as it travels and as it is shown.

mod spread;

use serde::{Deserialize, Serialize};
use sim::link::Volume;

use crate::emulator::Told;
pub use spread::Spread;

/// So many packets must have been read before the bound of how long they may have waited is judged. It is wide for the first that a host
/// says by itself when a link comes up: an idle link was called late for one of those.
const WAITED_MIN: u64 = 100;
/// A run whose packets left later than this, at the 99th percentile, is not one to publish numbers from.
pub const LATE_NS: u64 = 1_000_000;

/// Counters of one direction since it came up. Packets are segments: what a super-packet is cut into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Nanoseconds since the emulator began.
    pub at_ns: u64,
    /// What came.
    pub arrived: Count,
    /// What left, duplicates too.
    pub departed: Count,
    /// What was dropped, by cause.
    pub dropped: Dropped,
    /// Marked (CE).
    pub marked: Count,
    /// Had a bit changed.
    pub corrupted: Count,
    /// Copies made.
    pub duplicated: Count,
    /// In the queue.
    pub queued: Count,
    /// On the way.
    pub in_flight: Count,
    /// How long the link was busy sending.
    pub busy_ns: u64,
    /// Bytes in the queue, as arriving packets found it.
    pub queue_bytes: Spread,
    /// Release minus due time.
    pub lateness_ns: Spread,
    /// Packets that left later than [`LATE_NS`]: what a program that looks twice needs to tell of the time between.
    pub late_packets: u64,
    /// How much earlier packets (super-packets as one) may have come than the link was told: a bound of what they waited before they were
    /// read, which lateness does not have.
    pub ingress_wait_ns: Spread,
    /// Those of them that may have waited longer than [`LATE_NS`].
    pub ingress_late: u64,
    /// Nothing is lost from the books: arrived + duplicated = departed + dropped + queued + in flight.
    pub conserved: bool,
    /// Packets left later than is good for numbers to publish, or may have waited longer before they were read ([`LATE_NS`] at the
    /// 99th percentile).
    pub emulator_late: bool,
    /// What happened outside the link: all zero in a run to be trusted.
    pub unplanned: UnplannedCounts,
}

/// Packets and their bytes with IP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Drops by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The queue was full.
    pub queue: Count,
    /// Lost on the wire, as set.
    pub loss: Count,
    /// The link was cut.
    pub cut: Count,
    /// More was on the way than the emulator holds.
    pub delay_line: Count,
}

/// See [`crate::emulator::Unplanned`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnplannedCounts {
    /// For want of memory.
    pub no_memory: u64,
    /// Not IP.
    pub malformed: u64,
    /// Not taken by the device at the other end.
    pub refused: u64,
    /// Dropped by the kernel before the emulator could read them.
    pub tx_dropped: u64,
}

impl Stats {
    /// Of what an emulator told.
    #[must_use]
    pub fn of(told: &Told) -> Stats {
        let c = &told.counters;
        let [lateness_ns, ingress_wait_ns] = [&c.lateness, &told.ingress_wait].map(Spread::of);
        Stats {
            at_ns: told.at,
            arrived: c.arrived.into(),
            departed: c.departed.into(),
            dropped: Dropped {
                queue: c.dropped.queue.into(),
                loss: c.dropped.loss.into(),
                cut: c.dropped.cut.into(),
                delay_line: c.dropped.delay_line.into(),
            },
            marked: c.marked.into(),
            corrupted: c.corrupted.into(),
            duplicated: c.duplicated.into(),
            queued: c.queued.into(),
            in_flight: c.in_flight.into(),
            busy_ns: c.busy,
            queue_bytes: Spread::of(&c.queue_depth),
            late_packets: c.lateness.count_above(LATE_NS),
            conserved: c.check().is_ok(),
            emulator_late: lateness_ns.p99 > LATE_NS
                || (ingress_wait_ns.count() >= WAITED_MIN && ingress_wait_ns.p99 > LATE_NS),
            lateness_ns,
            ingress_wait_ns,
            ingress_late: told.ingress_wait.count_above(LATE_NS),
            unplanned: UnplannedCounts {
                no_memory: told.unplanned.no_memory,
                malformed: told.unplanned.malformed,
                refused: told.unplanned.refused,
                tx_dropped: told.unplanned.tx_dropped,
            },
        }
    }

    /// Rate at which packets left since `earlier`, bits per second.
    #[must_use]
    pub fn rate_bps(&self, earlier: &Stats) -> u64 {
        per_second(self.departed.bytes.saturating_sub(earlier.departed.bytes) * 8, self.at_ns, earlier.at_ns)
    }

    /// Share of the time since `earlier` in which the link was busy, parts per million.
    #[must_use]
    pub fn utilisation_ppm(&self, earlier: &Stats) -> u64 {
        per_second(self.busy_ns.saturating_sub(earlier.busy_ns) / 1000, self.at_ns, earlier.at_ns).min(1_000_000)
    }
}

impl UnplannedCounts {
    /// All causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.no_memory + self.malformed + self.refused + self.tx_dropped
    }
}

impl Dropped {
    /// All causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.queue, self.loss, self.cut, self.delay_line].iter().map(|count| count.packets).sum()
    }
}

fn per_second(amount: u64, at_ns: u64, earlier_ns: u64) -> u64 {
    let time = u128::from(at_ns.saturating_sub(earlier_ns)).max(1);
    u64::try_from(u128::from(amount) * 1_000_000_000 / time).unwrap_or(u64::MAX)
}

impl From<Volume> for Count {
    fn from(volume: Volume) -> Count {
        Count { packets: volume.segments, bytes: volume.bytes }
    }
}

#[cfg(test)]
mod tests {
    use sim::histogram::Histogram;
    use sim::link::Counters;

    use super::*;
    use crate::emulator::Unplanned;

    #[test]
    fn one_packet_in_a_hundred_may_be_late_and_not_two() {
        let told = |late: [u64; 2], waited: [u64; 2]| {
            let histogram = |[some, rest]: [u64; 2]| {
                let mut histogram = Histogram::new();
                histogram.record_n(50_000, rest);
                histogram.record_n(2 * LATE_NS, some);
                histogram
            };
            let counters = Counters { lateness: histogram(late), ..Counters::default() };
            Stats::of(&Told { at: 0, counters, unplanned: Unplanned::default(), ingress_wait: histogram(waited) })
        };
        for (late, waited, is_late) in
            [([1, 99], [1, 99], false), ([2, 98], [0, 100], true), ([0, 100], [2, 98], true), ([0, 0], [0, 0], false)]
        {
            let stats = told(late, waited);
            assert_eq!(stats.emulator_late, is_late, "{late:?} {waited:?}");
            assert_eq!([stats.late_packets, stats.ingress_late], [late[0], waited[0]]);
        }
    }

    #[test]
    fn one_packet_at_the_begin_makes_no_late_emulator() {
        let mut ingress_wait = Histogram::new();
        ingress_wait.record_n(6 * LATE_NS, WAITED_MIN - 1);
        let told = |ingress_wait: &Histogram| Told {
            at: 0,
            counters: Counters::default(),
            unplanned: Unplanned::default(),
            ingress_wait: ingress_wait.clone(),
        };
        assert!(!Stats::of(&told(&ingress_wait)).emulator_late);
        ingress_wait.record(6 * LATE_NS);
        assert!(Stats::of(&told(&ingress_wait)).emulator_late);
    }

    #[test]
    fn rates_are_over_the_time_between() {
        let earlier = Stats { at_ns: 1_000_000_000, ..Stats::default() };
        let now = Stats {
            at_ns: 1_500_000_000,
            departed: Count { packets: 1, bytes: 1_000_000 },
            busy_ns: 250_000_000,
            ..Stats::default()
        };
        assert_eq!(now.rate_bps(&earlier), 16_000_000);
        assert_eq!(now.utilisation_ppm(&earlier), 500_000);
        assert_eq!(Stats::default().rate_bps(&now), 0);
    }
}
