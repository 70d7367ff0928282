//! `twin stats` for people: a line of counters for each direction, and how what is told by histograms is spread.

use std::time::Duration;

use twin::stats::{Spread, Stats};
use units::{Bytes, Rate, Span};

use super::Counted;
use crate::action::plan::table::table;

/// Bars of a share, from the least to the whole.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// All of it; what is of the time since an earlier look is so named.
pub(super) fn text(ways: &[Counted<'_>]) -> String {
    let mut lines = table(&counters(ways), [false, true, true, true, true, true, true, true, false]);
    let spreads = spreads(ways);
    if spreads.len() > 1 {
        lines.push(String::new());
        lines.extend(table(&spreads, [false, false, true, true, true, true, true, false]));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn counters(ways: &[Counted<'_>]) -> Vec<[String; 9]> {
    let rate = if ways.iter().any(|way| way.earlier.is_some()) { "rate now" } else { "mean rate" };
    let head = ["link", "packets", rate, "used", "full", "lost", "queue p99", "late p99", ""].map(str::to_owned);
    let row = |way: &Counted<'_>| {
        let (stats, begin) = (way.stats, Stats::default());
        let earlier = way.earlier.unwrap_or(&begin);
        let used = stats.utilisation_ppm(earlier) as f64 / 1e4;
        [
            way.called(),
            stats.departed.packets.to_string(),
            Rate::from_bps(stats.rate_bps(earlier)).to_string(),
            if way.has_rate() { format!("{used:.1}%") } else { "-".to_owned() },
            stats.dropped.queue.packets.to_string(),
            (stats.dropped.total() - stats.dropped.queue.packets).to_string(),
            bytes(stats.queue_bytes.p99),
            span(stats.lateness_ns.p99),
            notes(way),
        ]
    };
    [head].into_iter().chain(ways.iter().map(row)).collect()
}

fn notes(way: &Counted<'_>) -> String {
    let unplanned = way.stats.unplanned.total();
    let notes = [
        (!way.state.up, "cut".to_owned()),
        (way.stats.emulator_late, "emulator late".to_owned()),
        (!way.stats.conserved, "books do not balance".to_owned()),
        (unplanned > 0, format!("{unplanned} unplanned")),
    ];
    notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect::<Vec<_>>().join(", ")
}

fn spreads(ways: &[Counted<'_>]) -> Vec<[String; 8]> {
    let when = if ways.iter().any(|way| way.earlier.is_some()) { "since the last look" } else { "since the begin" };
    let head = [when, "", "min", "p50", "p90", "p99", "max", "each power of two"].map(str::to_owned);
    let mut rows = vec![head];
    for way in ways {
        let mut called = way.called();
        for (what, of, text) in [
            ("queue", (|stats| &stats.queue_bytes) as fn(&Stats) -> &Spread, bytes as fn(u64) -> String),
            ("late", |stats| &stats.lateness_ns, span),
            ("unread", |stats| &stats.ingress_wait_ns, span),
        ] {
            let all = of(way.stats);
            let spread = way.earlier.map_or_else(|| all.clone(), |earlier| all.since(of(earlier)));
            if spread.count() > 0 {
                let [min, p50, p90, p99, max] =
                    [spread.min(), spread.p50, spread.p90, spread.p99, spread.max].map(text);
                // The name stands before the first of its rows.
                let called = std::mem::take(&mut called);
                rows.push([called, what.to_owned(), min, p50, p90, p99, max, bars(&spread)]);
            }
        }
    }
    rows
}

/// How many values there are in each power of two, from that of the least to that of the largest; 0 stands right before the others.
fn bars(spread: &Spread) -> String {
    let octave = |value: u64| u64::BITS - value.leading_zeros();
    let values = spread.histogram.iter().filter(|(least, _)| *least > 0);
    let mut counts: Vec<u64> = Vec::new();
    let first = values.clone().next().map_or(0, |(least, _)| octave(*least));
    for (least, count) in values {
        counts.resize((octave(*least) - first + 1) as usize, 0);
        if let Some(last) = counts.last_mut() {
            *last += count;
        }
    }
    if let Some((0, count)) = spread.histogram.first() {
        counts.insert(0, *count);
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    let bar = |count: u64| match count {
        0 => ' ',
        // What is there is seen, however rare.
        count => BARS[(u128::from(count) * 8).div_ceil(u128::from(most)) as usize - 1],
    };
    counts.into_iter().map(bar).collect()
}

fn bytes(count: u64) -> String {
    Bytes::new(count).to_string()
}

fn span(nanos: u64) -> String {
    Span::new(Duration::from_nanos(nanos)).to_string()
}

#[cfg(test)]
mod tests {
    use sim::histogram::Histogram;

    use super::*;

    fn spread(values: &[(u64, u64)]) -> Spread {
        let mut histogram = Histogram::new();
        values.iter().for_each(|(value, times)| histogram.record_n(*value, *times));
        Spread::of(&histogram)
    }

    #[test]
    fn bars_are_of_powers_of_two() {
        assert_eq!(bars(&spread(&[(1000, 1), (1030, 400), (1500, 400), (2048, 100), (9000, 2)])), "▁█▁ ▁");
        assert_eq!(bars(&spread(&[(0, 8), (1500, 4)])), "█▄");
        assert_eq!(bars(&spread(&[(0, 3)])), "█");
        assert_eq!(bars(&spread(&[])), "");
    }

    #[test]
    fn a_direction_tells_its_counters_and_how_they_are_spread() {
        let stats = |at_ns, times, busy_ns| {
            let (depths, lateness) = ([(0, times), (3000, 1)], [(40_000, times), (2_000_000, 1)]);
            Stats {
                at_ns,
                busy_ns,
                conserved: true,
                queue_bytes: spread(&depths),
                lateness_ns: spread(&lateness),
                ..Stats::default()
            }
        };
        let (before, now) = (stats(1_000_000_000, 10, 0), stats(2_000_000_000, 20, 250_000_000));
        let state = super::super::tests::state();
        let way = |earlier| [Counted { link: "ab", from: "a", to: "b", way: 0, state: &state, stats: &now, earlier }];
        let expected = "\
link    packets  mean rate   used  full  lost  queue p99  late p99
ab a→b        0      0 b/s  12.5%     0     0   2.976 kB       2ms

since the begin            min     p50     p90       p99   max  each power of two
ab a→b           queue     0 B     0 B     0 B  2.976 kB  3 kB  █▁
                 late   36.8us  40.4us  40.4us       2ms   2ms  █    ▁
";
        assert_eq!(text(&way(None)), expected);
        let lately = text(&way(Some(&before)));
        assert!(lately.contains("rate now") && lately.contains("25.0%") && lately.contains("since the last look"));
        assert!(!lately.contains("2ms  █"), "the late one had come before: {lately}");
    }
}
