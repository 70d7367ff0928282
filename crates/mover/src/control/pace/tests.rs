//! The pacer against simulated streams, and by hand.

mod plant;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use super::*;
use plant::{Plant, Scenario};

/// Rates evenly over the decades between two numbers of Mb/s.
fn rates(low_mbps: f64, high_mbps: f64) -> impl Strategy<Value = Rate> {
    (0.0..=1.0).prop_map(move |x| Rate::from_bps((low_mbps * 1e6 * (high_mbps / low_mbps).powf(x)) as u64))
}

fn scenarios(set_points: impl Strategy<Value = Rate>) -> impl Strategy<Value = Scenario> {
    let knobs = (set_points, 1..=16_u16, any::<u64>());
    knobs.prop_map(|(set_point, streams, seed)| Scenario::any(set_point, streams, seed))
}

/// Runs of each property; `PROPTEST_CASES` may ask for more.
const RUNS: u32 = 16;
const RUNS_MAX: u32 = 4_000;
/// The bounds are met with a probability: one run of so many may miss them,
const MISSES_ONE_IN: u32 = 500;
/// and by no more than this.
const MISSES_BY: f64 = 0.03;

/// No second has more of the set point than `most`, no 10 s on the mean less than `least`.
fn check(plant: &Plant, from_ms: u64, to_ms: u64, most: f64, least: f64) -> Result<(), String> {
    let (second_at, largest) = plant.largest_second(from_ms, to_ms);
    let (mean_at, smallest) = plant.smallest_mean(from_ms, to_ms);
    let said = format!(
        "the second from {second_at} ms has {largest:.4} of the set point, the 10 s from {mean_at} ms have {smallest:.4}"
    );
    assert!(largest <= most + MISSES_BY && smallest >= least - MISSES_BY, "{said}");
    if largest <= most && smallest >= least { Ok(()) } else { Err(said) }
}

/// The same runs every time.
fn each<S: Strategy>(cases: S, run: impl Fn(S::Value) -> Result<(), String>)
where
    S::Value: Clone,
{
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let runs = asked.clamp(RUNS, RUNS_MAX);
    let config = ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let one = |_| {
        let case = cases.new_tree(&mut runner).expect("nothing is filtered").current();
        run(case.clone()).err().map(|why| format!("{why}: {case:?}"))
    };
    let missed: Vec<String> = (0..runs).filter_map(one).collect();
    assert!(missed.len() as u32 * MISSES_ONE_IN <= runs, "{} of {runs} runs missed: {}", missed.len(), missed[0]);
}

#[test]
fn streams_that_always_send() {
    each(scenarios(rates(100.0, 400e3)), |scenario| {
        let mut plant = Plant::new(scenario.steady());
        plant.run(14_000);
        check(&plant, 0, 14_000, 1.01, 0.99)
    });
}

/// So slow that a step of pacing is a part of a second, and pacing is learned for seconds.
#[test]
fn at_low_rates() {
    each(scenarios(rates(1.0, 100.0)), |scenario| {
        let mut plant = Plant::new(scenario.steady());
        plant.run(14_000);
        check(&plant, 0, 14_000, 1.025, 0.98)
    });
}

/// Any paths, any backlog. Of 800 such runs 3 are below 99 % (the worst 98.6), none is above 100.8.
#[test]
fn streams_that_come_and_go() {
    each(scenarios(rates(100.0, 400e3)), |scenario| {
        let mut plant = Plant::new(scenario);
        plant.run(14_000);
        check(&plant, 0, 14_000, 1.01, 0.98)
    });
}

/// Up or down by a factor of up to 100.
#[test]
fn a_change_is_complete_within_200_ms() {
    each((scenarios(rates(1e3, 40e3)), rates(0.1, 10.0), 1_500..3_000_u64), |(scenario, factor, at)| {
        let to = scenario.set_point.scaled(factor.bps(), 1_000_000);
        let mut plant = Plant::new(scenario.good_for(to));
        plant.run(at);
        plant.set(to);
        plant.run(12_000);
        check(&plant, 0, at, 1.01, 0.0)?;
        check(&plant, at + 200, at + 12_000, 1.01, 0.98)
    });
}

#[test]
fn a_rate_that_never_rests() {
    let percents = prop::collection::vec(80..120_u64, 10);
    each((scenarios(rates(100.0, 400e3)), percents), |(scenario, percents)| {
        let set_point = scenario.set_point;
        let mut plant = Plant::new(scenario.good_for(set_point.scaled(5, 4)));
        for percent in percents.iter().cycle().take(70) {
            plant.set(set_point.scaled(*percent, 100));
            plant.run(200);
        }
        check(&plant, 0, 14_000, 1.025, 0.97)
    });
}

/// Whole records only, no low-water mark, counters of Linux 4.18: coarser, but not far off.
#[test]
fn without_help() {
    each(scenarios(rates(20.0, 400e3)), |scenario| {
        let mut plant = Plant::new(scenario.without_help());
        plant.run(14_000);
        check(&plant, 0, 14_000, 1.1, 0.8)
    });
}

const MTU_1500: Reading = Reading {
    stream: 0,
    sent_bytes: 0,
    retransmitted_bytes: 0,
    packets: 0,
    mss_bytes: 1448,
    header_bytes: 52,
    waiting_bytes: 0,
    backlog: true,
    rate_limited: false,
};

fn at_ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn pacer(set_point: Rate, streams: u16) -> Pacer {
    let mut pacer = Pacer::new(at_ms(0), Some(set_point)).with_fitted_records();
    (0..streams).for_each(|stream| pacer.add(Reading { stream, ..MTU_1500 }));
    pacer
}

fn paced(changes: &[Change]) -> Vec<(u16, u64)> {
    changes.iter().map(|c| (c.stream, c.pacing_bytes_per_s.expect("a set point"))).collect()
}

#[test]
fn pacing_is_of_payload() {
    // Half above, since the gate leads: 1.5 Gb/s of packets are 1448/1500 of that in payload.
    assert_eq!(paced(&pacer(Rate::gbps(1), 1).changes()), [(0, 181_000_000)]);
    let two = pacer(Rate::gbps(1), 2).changes();
    assert_eq!(paced(&two), [(0, 90_500_000), (1, 90_500_000)]);
    assert_eq!(two[0].waiting_bytes, Some(452_500), "5 ms of it");
}

#[test]
fn without_a_set_point_nothing_is_held() {
    let mut pacer = Pacer::new(at_ms(0), None);
    pacer.add(MTU_1500);
    assert_eq!(pacer.changes(), [Change { stream: 0, pacing_bytes_per_s: None, waiting_bytes: None }]);
    assert_eq!(pacer.changes(), [], "told once");
    pacer.took(at_ms(1), u64::MAX);
    assert_eq!(pacer.allowance(at_ms(2)), u64::MAX);
    pacer.set_rate(at_ms(3), Some(Rate::gbps(1)));
    assert!(pacer.allowance(at_ms(3)) < 10_000_000, "what was sent freely is no debt, what was not no credit");
    assert!(pacer.allowance(at_ms(3)) > 0);
    assert_eq!(pacer.changes().len(), 1);
    pacer.set_rate(at_ms(4), None);
    assert_eq!(pacer.changes()[0].pacing_bytes_per_s, None);
}

#[test]
fn the_time_before_the_first_stream_is_not_made_up_for() {
    let begin = |then: Duration| {
        let mut pacer = pacer(Rate::gbps(1), 0);
        // As a session does when it begins.
        pacer.allowance(at_ms(0));
        pacer.add(MTU_1500);
        pacer.allowance(then)
    };
    assert_eq!(begin(at_ms(800)), begin(at_ms(0)));
    let mut pacer = pacer(Rate::gbps(1), 1);
    let steady = pacer.allowance(at_ms(0));
    pacer.remove(0);
    pacer.add(MTU_1500);
    assert_eq!(pacer.allowance(at_ms(800)), steady, "nor while there was none");
    assert!(pacer.allowance(at_ms(1_600)) > 3 * steady, "but while there is one");
}

/// Two streams, one of which has nothing to send: what their sockets are told.
fn one_idle(set_point: Rate, busy_bytes: u64) -> (Pacer, Vec<(u16, u64)>) {
    let mut pacer = pacer(set_point, 2);
    pacer.changes();
    let busy = Reading { stream: 1, sent_bytes: busy_bytes, rate_limited: true, ..MTU_1500 };
    pacer.tick(at_ms(75), &[busy, Reading { backlog: false, ..MTU_1500 }]);
    let changes = paced(&pacer.changes());
    (pacer, changes)
}

#[test]
fn who_has_nothing_to_send_gives_its_share_and_may_begin_again_at_once() {
    let (mut pacer, changes) = one_idle(Rate::gbps(1), 4_700_000);
    // A segment sent at a low rate would hold the idle one back for long: its own stays what it was.
    assert_eq!(changes, [(1, 181_000_000)]);
    pacer.remove(1);
    assert_eq!(paced(&pacer.changes()), [(0, 181_000_000)], "and takes over when the other is gone");
}

#[test]
fn where_pacing_leads_the_idle_are_held_and_reductions_come_first() {
    let (_, changes) = one_idle(Rate::mbps(4), 18_800);
    assert_eq!((changes[0].0, changes[1].0), (0, 1));
    assert!(changes[0].1 < 20_000, "{changes:?}");
    assert!(changes[1].1 > 400_000, "{changes:?}");
}

#[test]
fn a_set_point_of_zero_closes_the_gate() {
    let mut pacer = pacer(Rate::gbps(1), 1);
    pacer.set_rate(at_ms(10), Some(Rate::ZERO));
    assert_eq!(pacer.allowance(at_ms(1_000)), 0);
    assert_eq!(paced(&pacer.changes()), [(0, 14_480)], "never 0, which is no limit");
    pacer.set_rate(at_ms(2_000), Some(Rate::gbps(1)));
    assert!(pacer.allowance(at_ms(2_010)) > 0);
}

#[test]
fn retransmissions_are_taken_off_the_allowance() {
    let allowance = |retransmitted_bytes| {
        let mut pacer = pacer(Rate::gbps(8), 1);
        pacer.allowance(at_ms(0));
        pacer.tick(at_ms(50), &[Reading { sent_bytes: 50_000_000, retransmitted_bytes, ..MTU_1500 }]);
        pacer.allowance(at_ms(50))
    };
    // Rounded to picoseconds and back.
    assert!((allowance(0) - allowance(10_000_000)).abs_diff(10_000_000) <= 1);
}

#[test]
fn short_packets_cost_their_headers() {
    let allowance = |packets| {
        let mut pacer = pacer(Rate::gbps(8), 1);
        pacer.tick(at_ms(50), &[Reading { sent_bytes: 14_480_000, packets, ..MTU_1500 }]);
        pacer.allowance(at_ms(50)) as f64
    };
    let full = allowance(10_000);
    assert_eq!(full, allowance(0), "no count: full segments are assumed");
    // Half as long: 724 bytes with 52 of header each.
    let wanted = (724.0 / 776.0) / (1448.0 / 1500.0);
    assert!((allowance(20_000) / full - wanted).abs() < 1e-4, "{}", allowance(20_000) / full);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut pacer = pacer(Rate::MAX, 3);
    let most = Reading {
        packets: u32::MAX,
        sent_bytes: u64::MAX,
        waiting_bytes: u64::MAX,
        mss_bytes: u32::MAX,
        header_bytes: u32::MAX,
        ..MTU_1500
    };
    pacer.tick(at_ms(50), &[most]);
    pacer.took(at_ms(51), u64::MAX);
    pacer.set_rate(at_ms(52), Some(Rate::from_bps(1)));
    pacer.tick(Duration::from_secs(u64::MAX / 1_000_000), &[Reading { mss_bytes: 0, header_bytes: 0, ..MTU_1500 }]);
    pacer.took(at_ms(53), u64::MAX);
    pacer.allowance(Duration::from_secs(1 << 40));
    pacer.changes();
}

#[test]
fn it_knows_when_it_was_the_limit() {
    let mut pacer = pacer(Rate::gbps(1), 1);
    let mut sent_bytes = 0;
    let mut second = |pacer: &mut Pacer, from_ms: u64, bytes_per_tick: u64| {
        for tick in 1..=20 {
            sent_bytes += bytes_per_tick;
            pacer.tick(at_ms(from_ms + tick * 50), &[Reading { sent_bytes, ..MTU_1500 }]);
        }
        pacer.held()
    };
    let full = 125_000_000 / 20 * 1448 / 1500;
    assert_eq!(second(&mut pacer, 0, full), Duration::from_secs(1));
    assert!(
        second(&mut pacer, 1_000, full * 9 / 10) < Duration::from_millis(1_200),
        "a larger shortfall has another cause"
    );
}

#[test]
fn records_fit_the_set_point() {
    assert_eq!(pacer(Rate::mbps(100), 4).record_payload_bytes(), 9_375);
    assert_eq!(pacer(Rate::mbps(1), 4).record_payload_bytes(), 4_096);
    assert_eq!(pacer(Rate::gbps(100), 4).record_payload_bytes(), RECORD_PAYLOAD_MAX);
}
