//! Giving way on a simulated bottleneck, and by hand.

mod plant;

use proptest::prelude::*;

use super::*;
use plant::{Flow, Plant};

/// Paths: b/s, delay in ms, drop-tail queue in ms.
const PATHS: [(f64, u64, f64); 6] =
    [(20e6, 40, 40.0), (100e6, 20, 20.0), (100e6, 20, 100.0), (100e6, 100, 100.0), (1e9, 2, 20.0), (10e9, 100, 50.0)];

#[test]
fn an_idle_link_is_filled_and_its_queue_stays_short() {
    for (rate_bps, base_ms, queue_ms) in PATHS {
        let mut plant = Plant::new(rate_bps, base_ms, queue_ms);
        let session = plant.add_polite();
        plant.run_s(70);
        let share = plant.share(session, 15, 70);
        assert!(share >= 0.95, "{share:.3} of {rate_bps:.0} over {base_ms} ms");
        // Where a round trip holds thousands of packets it needs longer, for it begins with 32.
        let with_start = plant.share(session, 0, 30);
        assert!(
            with_start >= 0.9 || rate_bps > 100e6,
            "{with_start:.3} with the start, {rate_bps:.0} over {base_ms} ms"
        );
        let queue_ms = plant.mean_queue_ms(15, 70);
        assert!(queue_ms < 8.0, "{queue_ms:.1} ms of queue at {rate_bps:.0} over {base_ms} ms");
    }
}

#[test]
fn one_early_loss_does_not_end_the_start() {
    for (rate_bps, base_ms, queue_ms) in [(100e6, 100, 100.0), (1e9, 100, 100.0), (100e6, 20, 20.0)] {
        let mut plant = Plant::new(rate_bps, base_ms, queue_ms);
        let session = plant.add_polite();
        plant.run_s(1);
        plant.loss = 1.0;
        plant.run_ms(3);
        plant.loss = 0.0;
        plant.run_s(29);
        let share = plant.share(session, 5, 30);
        assert!(share >= 0.9, "{share:.3} of {rate_bps:.0} over {base_ms} ms");
    }
}

/// What a flow gets alone and beside a session, both over the same seconds.
fn alone_and_beside(path: (f64, u64, f64), session_first: bool) -> (f64, f64) {
    let share = |polite: bool| {
        let mut plant = Plant::new(path.0, path.1, path.2);
        if polite && session_first {
            plant.add_polite();
        }
        plant.run_s(15);
        let flow = plant.add(Flow::cubic());
        plant.run_s(10);
        if polite && !session_first {
            plant.add_polite();
        }
        plant.run_s(30);
        if session_first { plant.share(flow, 15, 45) } else { plant.share(flow, 25, 55) }
    };
    (share(false), share(true))
}

#[test]
fn a_flow_that_comes_gets_what_it_would_get_alone() {
    for path in PATHS.into_iter().filter(|path| path.0 < 5e9) {
        let (alone, beside) = alone_and_beside(path, true);
        assert!(beside >= 0.9 * alone, "{beside:.3} of {alone:.3} on {path:?}");
    }
}

#[test]
fn a_flow_that_is_there_keeps_what_it_has() {
    for path in PATHS.into_iter().filter(|path| path.0 < 5e9) {
        let (alone, beside) = alone_and_beside(path, false);
        assert!(beside >= 0.9 * alone, "{beside:.3} of {alone:.3} on {path:?}");
    }
}

#[test]
fn two_sessions_share_and_fill_the_link() {
    let mut plant = Plant::new(100e6, 20, 50.0);
    let first = plant.add_polite();
    plant.run_s(15);
    let second = plant.add_polite();
    plant.run_s(165);
    let (one, other) = (plant.share(first, 60, 180), plant.share(second, 60, 180));
    assert!(one + other >= 0.9, "{one:.3} and {other:.3}");
    assert!(one.min(other) >= 0.25, "{one:.3} and {other:.3}");
}

#[test]
fn a_path_that_becomes_longer_is_known_after_a_minute() {
    let mut plant = Plant::new(100e6, 20, 50.0);
    let session = plant.add_polite();
    plant.run_s(20);
    plant.base_ms = 50;
    plant.run_s(100);
    let kept_s = BASE_KEPT.as_secs();
    assert!(plant.share(session, 25, 20 + kept_s - 12) < 0.05, "taken for a queue");
    let share = plant.share(session, 20 + kept_s + 10, 120);
    assert!(share >= 0.9, "{share:.3} when the minute and the new start are over");
}

#[test]
fn a_path_that_becomes_shorter_is_known_at_once() {
    let mut plant = Plant::new(100e6, 50, 50.0);
    let session = plant.add_polite();
    plant.run_s(20);
    plant.base_ms = 20;
    plant.run_s(10);
    assert!(plant.share(session, 21, 30) >= 0.9);
    assert!(plant.mean_queue_ms(22, 30) < 8.0);
}

#[test]
fn delayed_acknowledgements_are_no_queue() {
    for every in [3, 7, 50] {
        let mut plant = Plant::new(100e6, 20, 50.0);
        let session = plant.add_polite();
        plant.session(session).delayed_every = every;
        plant.run_s(40);
        let share = plant.share(session, 15, 40);
        assert!(share >= 0.8, "{share:.3} with one in {every} delayed");
    }
}

#[test]
fn losses_hold_it_back() {
    let share = |loss: f64| {
        let mut plant = Plant::new(100e6, 20, 50.0);
        plant.loss = loss;
        let session = plant.add_polite();
        plant.run_s(60);
        plant.share(session, 10, 60)
    };
    // The plant rolls for pieces of at least a millisecond: so many in a second.
    let shares = [share(1e-4), share(1e-3), share(1e-2)];
    assert!(shares.is_sorted_by(|more, less| more > less), "{shares:?}");
    assert!(shares[2] < 0.5, "{shares:?}");
}

#[test]
fn what_the_disk_does_not_give_is_not_allowed_for_later() {
    let mut plant = Plant::new(100e6, 20, 50.0);
    let session = plant.add_polite();
    plant.session(session).source_bps = 10e6;
    plant.run_s(30);
    let rate = plant.session(session).polite.rate();
    assert!(rate < Rate::mbps(20), "{rate}");
    let held = plant.session(session).polite.held();
    assert!(held < Duration::from_secs(10), "the disk was the limit, not for {held:?} giving way");
}

#[test]
fn a_link_that_is_free_again_is_filled_again() {
    let mut plant = Plant::new(100e6, 20, 20.0);
    let session = plant.add_polite();
    let flow = plant.add(Flow::cubic());
    plant.run_s(30);
    let Flow::Cubic(_) = plant.flows[flow] else { unreachable!("it was added as one") };
    plant.flows[flow] = Flow::polite(30_000);
    plant.session(flow).source_bps = 0.0;
    plant.run_s(20);
    let share = plant.share(session, 40, 50);
    assert!(share >= 0.9, "{share:.3}");
    assert!(plant.session(session).polite.held() > Duration::from_secs(30));
}

#[test]
fn without_streams_it_waits_at_its_first_rate() {
    let mut polite = Polite::new(Duration::ZERO);
    let first = polite.rate();
    polite.look(Duration::from_secs(9), &[], None);
    assert_eq!((polite.rate(), polite.held()), (first, Duration::ZERO));
}

proptest! {
    #[test]
    fn whatever_is_read_some_rate_is_left(
        looks in prop::collection::vec(
            (0..2_000_000_u64, prop::collection::vec((0..4_u16, any::<(u32, u32, u32, u64, u32)>()), 0..4)),
            1..60,
        ),
        most in prop::option::of(any::<u64>()),
    ) {
        let mut now = Duration::ZERO;
        let mut polite = Polite::new(now);
        for (after_us, streams) in looks {
            now += Duration::from_micros(after_us);
            let reading = |(stream, (rtt_us, min_rtt_us, acks, acked_bytes, resent))| {
                Reading { stream, rtt_us, min_rtt_us, acks, acked_bytes, resent }
            };
            let readings: Vec<_> = streams.into_iter().map(reading).collect();
            polite.look(now, &readings, most.map(Rate::from_bps));
            prop_assert!(polite.rate() >= RATE_MIN);
        }
    }
}
