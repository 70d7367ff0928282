//! A driver that loses the controller, and nobody else: what it holds is given to others when it moves nothing any more.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet::{Fleet, Ground};
use crate::tree::{assert_same, left_behind};
use crate::world::{World, wait_for};

/// Of the link between the sites; 80 % of it are given.
const RATE: &str = "20 Mb/s";
const MARK_BPS: f64 = 16e6;
/// Sums of rates that are measured for a second each, at moments of their own, are not sharper.
const NOISE: f64 = 1.25;
/// Over all of the time they are.
const NOISE_ALL: f64 = 1.03;
/// A lease, until which nothing is ended.
const LEASE: Duration = Duration::from_secs(30);
/// Some seconds more than it takes from then until the other end has ended it.
const ENDED: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(500);

/// The sessions that an agent drives, as it tells its operator.
fn sessions(fleet: &Fleet, host: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(["agent", "status", "--json", "--state-dir"]).arg(fleet.state_of(host));
    let told = fleet.world.run(command).expect_code(0).out;
    let status: Value = serde_json::from_str(told.trim()).expect("it is JSON");
    status["sessions"].as_array().expect("a list").clone()
}

fn rate(fleet: &Fleet, host: &str) -> f64 {
    sessions(fleet, host).iter().map(|of| of["rate_bps"].as_f64().expect("a number")).sum()
}

#[test]
fn a_driver_that_only_the_controller_does_not_reach_ends_and_marks_hold() {
    let fleet = Fleet::on(World::still(), RATE, &["w1", "w2", "e1"], Ground { wires: true, ..Ground::default() });
    // More than is moved until the driver is given up, at the rate of the mark.
    for number in 0..70 {
        fleet.world.write(&format!("west-data/run/{number}"), 2_000_000 + number * 1_000);
    }
    let id = fleet.submit("west:run", "east:run", "cms", &[]);
    wait_for("both to drive", || ["w1", "w2"].iter().all(|host| rate(&fleet, host) > 0.2 * MARK_BPS).then_some(()));
    fleet.wire("w1").down(true);
    let cut = Instant::now();
    let (mut sum, mut looks) = (0.0, 0);
    let mut look = || {
        let all: f64 = ["w1", "w2"].iter().map(|host| rate(&fleet, host)).sum();
        assert!(all < NOISE * MARK_BPS, "{all} b/s after {:?}", cut.elapsed());
        (sum, looks) = (sum + all, looks + 1);
        std::thread::sleep(LOOK);
    };
    while !sessions(&fleet, "w1").is_empty() {
        assert!(cut.elapsed() < ENDED, "it runs still");
        look();
    }
    assert!(cut.elapsed() > LEASE, "it was ended after {:?}", cut.elapsed());
    // What it had goes to who is left, which may have all of the mark then.
    wait_for("the other to have more", || {
        look();
        (rate(&fleet, "w2") > 0.7 * MARK_BPS).then_some(())
    });
    assert!(sum / f64::from(looks) < NOISE_ALL * MARK_BPS, "{} b/s in the mean", sum / f64::from(looks));
    assert!(sessions(&fleet, "w1").is_empty());
    fleet.wire("w1").down(false);
    let told = fleet.end_of(&id);
    assert_eq!(told["state"], "done", "{told:#}");
    assert_same(&fleet.data("west").join("run"), &fleet.data("east").join("run"));
    assert!(left_behind(&fleet.data("east")).is_empty());
}
