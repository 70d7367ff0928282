//! What a counter of a scenario is in the statistics of a link.

use model::scenario::Counter;

use crate::stats::Stats;

/// The value now, in the base of the counter's unit; sums and means are since `since`, if there is one.
pub(super) fn value(counter: Counter, now: &Stats, since: Option<&Stats>) -> u64 {
    let begin = Stats::default();
    let since = since.unwrap_or(&begin);
    let sum = |of: fn(&Stats) -> u64| of(now).saturating_sub(of(since));
    match counter {
        Counter::ArrivedPackets => sum(|stats| stats.arrived.packets),
        Counter::ArrivedBytes => sum(|stats| stats.arrived.bytes),
        Counter::DepartedPackets => sum(|stats| stats.departed.packets),
        Counter::DepartedBytes => sum(|stats| stats.departed.bytes),
        Counter::Dropped => sum(|stats| stats.dropped.total()),
        Counter::DroppedQueue => sum(|stats| stats.dropped.queue.packets),
        Counter::DroppedLoss => sum(|stats| stats.dropped.loss.packets),
        Counter::DroppedCut => sum(|stats| stats.dropped.cut.packets),
        Counter::DroppedDelayLine => sum(|stats| stats.dropped.delay_line.packets),
        Counter::Marked => sum(|stats| stats.marked.packets),
        Counter::Corrupted => sum(|stats| stats.corrupted.packets),
        Counter::Duplicated => sum(|stats| stats.duplicated.packets),
        Counter::Rate => now.rate_bps(since),
        Counter::Utilisation => now.utilisation_ppm(since),
        Counter::QueueP50 => now.queue_bytes.p50,
        Counter::QueueP99 => now.queue_bytes.p99,
        Counter::QueueMax => now.queue_bytes.max,
        Counter::LatenessP50 => now.lateness_ns.p50,
        Counter::LatenessP99 => now.lateness_ns.p99,
        Counter::LatenessMax => now.lateness_ns.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Count;

    #[test]
    fn sums_and_means_are_since_a_time_and_distributions_are_not() {
        let count = |packets, bytes| Count { packets, bytes };
        let since = Stats { at_ns: 1_000_000_000, departed: count(2, 3_000), ..Stats::default() };
        let mut now = Stats { at_ns: 3_000_000_000, departed: count(12, 18_000), ..Stats::default() };
        now.dropped.queue = count(3, 4_500);
        now.dropped.cut = count(4, 6_000);
        now.lateness_ns.p99 = 7;
        for (counter, all, later) in [
            (Counter::DepartedPackets, 12, 10),
            (Counter::DepartedBytes, 18_000, 15_000),
            (Counter::Dropped, 7, 7),
            (Counter::DroppedQueue, 3, 3),
            (Counter::DroppedCut, 4, 4),
            (Counter::Rate, 48_000, 60_000),
            (Counter::LatenessP99, 7, 7),
        ] {
            assert_eq!((value(counter, &now, None), value(counter, &now, Some(&since))), (all, later), "{counter:?}");
        }
    }
}
