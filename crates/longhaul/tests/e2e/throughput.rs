//! `longhaul test throughput` beyond one direction and one number of streams.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::world::{Ended, Running, World, wait_for};

/// A test of the world's agent.
fn test(world: &World, options: &str) -> Command {
    let mut command = world.command("test throughput", &format!("--json {options}"));
    command.arg(world.address()).args(["--fingerprint", world.fingerprint()]);
    command
}

/// Rates of the interval lines so far, b/s.
fn rates(running: &Running) -> Vec<u64> {
    let lines = super::world::events(&running.out());
    lines.iter().filter(|event| event["event"] == "interval").filter_map(|line| line["rate_bps"].as_u64()).collect()
}

fn steps(summary: &Value) -> Vec<u64> {
    let steps = summary["sweep"].as_array().expect("a list");
    steps.iter().map(|step| step["streams"].as_u64().expect("a number")).collect()
}

#[test]
fn both_directions_at_once() {
    let world = World::new();
    let ended = world.run(test(&world, "--duration 2s --bidirectional --rate 200Mb/s")).expect_code(0);
    let summary = ended.summary();
    for direction in ["forward", "reverse"] {
        let is_its = |event: &Value| event["event"] == "interval" && event["direction"] == direction;
        assert!(ended.events().iter().any(is_its), "no line of {direction}: {}", ended.out);
    }
    // Each direction has the set point; two seconds hold a start each.
    for rate in [&summary["rate_bps"], &summary["reverse_rate_bps"]] {
        let rate = rate.as_u64().expect("both are told");
        assert!((140_000_000..204_000_000).contains(&rate), "{summary}");
    }
}

#[test]
fn a_sweep_ends_where_more_streams_bring_no_more() {
    let world = World::new();
    for direction in ["", " --reverse"] {
        let options = format!("--sweep --duration 1500ms --rate 100Mb/s{direction}");
        let summary = world.run(test(&world, &options)).expect_code(0).summary();
        assert_eq!((steps(&summary), summary["knee"].as_u64()), (vec![1, 2], Some(1)), "{summary}");
        // What it tells of the path is of the knee.
        assert_eq!(summary["streams"], 1, "{summary}");
    }
}

#[test]
fn a_sweep_asks_for_no_more_streams_than_the_agent_grants() {
    let world = World::configured(|_| "[limits]\nstreams = 3\n".to_owned());
    let summary = world.run(test(&world, "--sweep --duration 1s")).expect_code(0).summary();
    let steps = steps(&summary);
    assert!([1, 2, 3].starts_with(&steps) && !steps.is_empty(), "{summary}");
    // Whether the loopback goes faster with more is its own affair; what is said must fit.
    match summary["knee"].as_u64() {
        Some(knee) => assert_eq!(Some(&knee), steps.iter().rev().nth(1), "{summary}"),
        None => assert_eq!(steps, [1, 2, 3], "{summary}"),
    }
}

#[test]
fn a_sweep_is_steered_and_stopped_as_one() {
    let world = World::new();
    let mut sweep = world.start(test(&world, "--sweep --duration 3s --interval 500ms --rate 100Mb/s"));
    let id = sweep.session();
    wait_for("a line", || (!rates(&sweep).is_empty()).then_some(()));
    world.run(world.command("session set", &format!("{id} --rate 400Mb/s"))).expect_code(0);
    // The first step ends within 3 s; the second, with two streams, has the new set point from its first packet on.
    let fast = wait_for("a second step at the new rate", || {
        assert!(!sweep.has_ended(), "it ended early: {}", sweep.out());
        let lines = super::world::events(&sweep.out());
        let second = lines.iter().filter(|event| event["event"] == "started").count() > 1;
        let last = *rates(&sweep).last()?;
        (second && last > 0).then_some(last)
    });
    assert!(fast > 250_000_000, "{fast} b/s: {}", sweep.out());
    sweep.interrupt();
    let ended: Ended = sweep.end_within(Duration::from_secs(20)).expect_code(0);
    let summary = ended.summary();
    assert_eq!((steps(&summary), &summary["knee"]), (vec![1], &Value::Null), "a step that was cut short is no step");
}

/// What the set point holds back is not slow: no stream is left at the end for another that may send no more.
#[test]
fn what_a_set_point_holds_back_is_sent_once() {
    const BYTES: usize = 20_000_000;
    let world = World::new();
    world.write("file", BYTES);
    for streams in [2, 8] {
        let options = format!("--rate 40Mb/s --streams {streams} --overwrite always");
        let summary = world.copy(&options, &world.here("file"), &world.there("rw/file")).expect_code(0).summary();
        assert_eq!(summary["bytes_sent"], BYTES, "{summary}");
    }
}
