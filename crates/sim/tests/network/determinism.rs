//! A seed replays a run; a run ends.

use std::time::Duration;

use model::network::{Direction, Jitter, Loss};
use sim::link::Shape;
use sim::net::{Action, Arrival, Node, Simulator, TooManyEvents};
use units::Rate;

use crate::constant::{Constant, Pair, Received};
use crate::{MS, SECOND, line, p};

const FULL: Shape = Shape::single(40, 1460);

fn rough() -> Direction {
    Direction {
        jitter: Jitter { amount: Duration::from_millis(3), reorder: true },
        loss: Loss::Random(p(0.1)),
        duplicate: p(0.1),
        ..line(Some(Rate::mbps(100)), Duration::from_millis(10))
    }
}

fn trace(seed: u64, stops: &[u64]) -> Vec<Received> {
    let mut pair = Pair::new(seed, &rough(), Constant::sender(FULL, MS, 1000));
    stops.iter().for_each(|stop| pair.run_until(*stop));
    pair.run_until(2 * SECOND);
    pair.received().to_vec()
}

#[test]
fn a_seed_replays_a_run() {
    let first = trace(1, &[]);
    assert!(first.len() > 900);
    assert_eq!(first, trace(1, &[]));
    assert_ne!(first, trace(2, &[]));
}

#[test]
fn stops_on_the_way_change_nothing() {
    assert_eq!(trace(1, &[]), trace(1, &[1, 3 * MS, 100 * MS + 17, 100 * MS + 17, SECOND]));
}

#[test]
fn what_happens_at_the_end_happens() {
    let mut pair = Pair::new(1, &line(None, Duration::from_millis(10)), Constant::sender(FULL, MS, 1));
    pair.run_until(10 * MS - 1);
    assert_eq!(pair.received(), []);
    pair.run_until(10 * MS);
    assert_eq!(pair.received().len(), 1);
    assert_eq!(pair.simulator.now(), 10 * MS);
}

/// Sends back what comes.
struct Mirror;

impl Node for Mirror {
    type Body = ();

    fn process(&mut self, arrival: Option<Arrival<()>>, _now: u64) -> Action<()> {
        let shape = Shape::single(40, 0);
        let sent = || Action::Send { port: 0, packet: sim::net::Packet { shape, body: () } };
        arrival.map_or(Action::Idle, |_| sent())
    }
}

/// Never has enough.
struct Endless;

impl Node for Endless {
    type Body = ();

    fn process(&mut self, _arrival: Option<Arrival<()>>, now: u64) -> Action<()> {
        Action::Wait(now)
    }
}

#[test]
fn a_simulation_without_an_end_is_stopped() {
    let mut simulator = Simulator::new(1);
    simulator.add_node(Endless);
    assert_eq!(simulator.run_until(SECOND, 1000), Err(TooManyEvents { events: 1000, now: 0 }));
}

#[test]
fn nobody_speaks_unasked() {
    let mut simulator = Simulator::new(1);
    let (a, b) = (simulator.add_node(Mirror), simulator.add_node(Mirror));
    let there = simulator.add_link(a, b, &Direction::default());
    simulator.add_link(b, a, &Direction::default());
    simulator.run_until(SECOND, 2).expect("each is asked once");
    assert_eq!(simulator.counters(there).arrived.segments, 0);
}

#[test]
fn a_cut_and_a_heal_are_seen_at_once() {
    let mut pair = Pair::new(1, &line(None, Duration::from_millis(10)), Constant::sender(FULL, MS, 100));
    pair.run_until(50 * MS);
    pair.simulator.cut(pair.link);
    pair.run_until(70 * MS);
    pair.simulator.heal(pair.link);
    pair.run_until(SECOND);
    // Sent from 0 to 40 ms: arrived by the cut. Sent from 41 to 70 ms: lost (at 70 ms the packet came before the heal).
    let numbers: Vec<u64> = pair.received().iter().map(|received| received.stamp.number).collect();
    assert_eq!(numbers, (0..=40).chain(71..100).collect::<Vec<_>>());
    assert_eq!(pair.simulator.counters(pair.link).dropped.cut.segments, 30);
}
