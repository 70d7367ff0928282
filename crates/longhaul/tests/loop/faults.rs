//! Programs that die in the middle: nothing acknowledged is lost, and every transfer comes to its end.

use std::time::Duration;

use crate::fleet::Fleet;
use crate::tree::{assert_same, left_behind};
use crate::world::wait_for;

fn plant(fleet: &Fleet) {
    for number in 0..40 {
        fleet.world.write(&format!("west-data/run/{}/{number}", number % 3), 700_000 + number * 10_000);
    }
}

fn assert_arrived(fleet: &Fleet, id: &str) {
    let told = fleet.end_of(id);
    assert_eq!(told["state"], "done", "{told:#}");
    assert_same(&fleet.data("west").join("run"), &fleet.data("east").join("run"));
    assert!(left_behind(&fleet.data("east")).is_empty());
}

fn wait_for_bytes(fleet: &Fleet, id: &str) {
    wait_for("bytes to move", || (fleet.json(&["transfer", "show", id])["rate_bps"].as_u64() > Some(0)).then_some(()));
}

#[test]
fn a_controller_that_is_killed_knows_what_it_said() {
    let mut fleet = Fleet::new("80 Mb/s", &["w1", "e1"]);
    plant(&fleet);
    let id = fleet.submit("west:run", "east:run", "cms", &[]);
    wait_for_bytes(&fleet, &id);
    fleet.kill_controller();
    // Agents go on by their leases.
    std::thread::sleep(Duration::from_secs(1));
    fleet.start_controller();
    assert_arrived(&fleet, &id);
    assert_eq!(fleet.stop_controller().code(), Some(0));
    let replay = ["controller", "replay", "--verify", "--json", "--state-dir"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(replay).arg(fleet.world.path("controller"));
    let told = fleet.world.run(command).expect_code(0);
    let told: serde_json::Value = serde_json::from_str(&told.out).expect("one object");
    assert_eq!(told["ok"], true, "{told}");
    assert!(told["plannings"].as_u64() > Some(0) && told["plannings_differ"] == serde_json::json!([]), "{told}");
    assert_eq!((&told["transfers"], &told["sessions"]), (&1.into(), &0.into()));
}

#[test]
fn agents_that_are_killed_come_back_and_go_on() {
    let mut fleet = Fleet::new("80 Mb/s", &["w1", "e1"]);
    plant(&fleet);
    let id = fleet.submit("west:run", "east:run", "cms", &[]);
    for host in ["w1", "e1"] {
        wait_for_bytes(&fleet, &id);
        fleet.kill_agent(host);
        std::thread::sleep(Duration::from_millis(500));
        fleet.start_agent(host);
    }
    assert_arrived(&fleet, &id);
}

#[test]
fn an_agent_that_stays_away_gives_its_files_to_the_others() {
    let mut fleet = Fleet::new("80 Mb/s", &["w1", "w2", "e1", "e2"]);
    plant(&fleet);
    let id = fleet.submit("west:run", "east:run", "cms", &[]);
    wait_for_bytes(&fleet, &id);
    fleet.kill_agent("w1");
    assert_arrived(&fleet, &id);
}
