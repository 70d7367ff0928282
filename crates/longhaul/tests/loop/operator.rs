//! What the operator of a host decides holds there while the controller is away, at whichever end of a session the host is.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::fleet::Fleet;
use crate::world::wait_for;

/// Of the link between the sites; 80 % of it are given.
const RATE: &str = "20 Mb/s";
const MOVES_BPS: u64 = 8_000_000;
/// Far more than the test moves.
const LENGTH: usize = 400 << 20;
/// Longer than what is in flight takes.
const A_WHILE: Duration = Duration::from_secs(2);

/// What the agent of a host answers its operator.
fn at_host(fleet: &Fleet, host: &str, word: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(["agent", word, "--state-dir"]).arg(fleet.state_of(host));
    if word == "status" {
        command.arg("--json");
    }
    fleet.world.run(command).expect_code(0).out
}

pub(crate) fn status(fleet: &Fleet, host: &str) -> Value {
    serde_json::from_str(at_host(fleet, host, "status").trim()).expect("it is JSON")
}

/// What the source measures of the one session, b/s; it drives it.
fn rate(fleet: &Fleet) -> u64 {
    status(fleet, "w1")["sessions"][0]["rate_bps"].as_u64().expect("a session runs")
}

/// File bytes of it in place.
fn done(fleet: &Fleet) -> u64 {
    status(fleet, "w1")["sessions"][0]["bytes_done"].as_u64().expect("a session runs")
}

fn wait_until_it_moves(fleet: &Fleet) {
    wait_for("the session to move", || (rate(fleet) > MOVES_BPS).then_some(()));
}

#[test]
fn each_end_of_a_session_obeys_its_operator_with_the_controller_away() {
    let mut fleet = Fleet::new(RATE, &["w1", "e1"]);
    fs::write(fleet.data("west").join("one"), vec![7; LENGTH]).expect("a file can be written");
    fleet.submit("west:one", "east:one", "cms", &[]);
    wait_for("a session", || {
        let driven = status(&fleet, "w1")["sessions"].as_array().is_some_and(|sessions| sessions.len() == 1);
        (driven && status(&fleet, "e1")["served"] == 1).then_some(())
    });
    wait_until_it_moves(&fleet);
    fleet.kill_controller();
    // `e1` does not drive it.
    for host in ["w1", "e1"] {
        at_host(&fleet, host, "pause");
        wait_for("the session to stand still", || (rate(&fleet) == 0).then_some(()));
        let before = done(&fleet);
        std::thread::sleep(A_WHILE);
        assert_eq!(done(&fleet), before, "{host} is paused");
        at_host(&fleet, host, "resume");
        wait_until_it_moves(&fleet);
    }
    let told = at_host(&fleet, "e1", "forget");
    assert!(told.contains("is dropped"), "{told}");
    wait_for("the session to end", || {
        let ended = status(&fleet, "w1")["sessions"].as_array().is_some_and(Vec::is_empty);
        (ended && status(&fleet, "e1")["served"] == 0).then_some(())
    });
    assert!(!fleet.data("east").join("one").exists(), "what was not whole is not in place");
}
