//! Programs that die in the middle: nothing acknowledged is lost, and every transfer comes to its end.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, Ground};
use crate::rest::{Reply, Rest};
use crate::tree::{assert_same, left_behind};
use crate::world::{World, wait_for};
use crate::{is_missing, run, tried};

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

/// A small disk of memory; it goes with this.
struct Small(std::path::PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        tried(&format!("umount -l {}", self.0.display()), &[]);
    }
}

#[test]
fn a_controller_whose_disk_is_full_says_so_and_goes_on() {
    if is_missing(&["mount"], true) {
        return;
    }
    let world = World::still();
    let disk = Small(world.path("disk"));
    fs::create_dir(&disk.0).expect("a directory can be made");
    run(&format!("mount -t tmpfs -o size=16m,mode=700 tmpfs {}", disk.0.display()), &[]);
    let ground = Ground { controller: Some(disk.0.join("controller")), ..Ground::default() };
    let fleet = Fleet::on(world, "1 Gb/s", &["w1", "e1"], ground);
    // It goes before the world in which it is mounted.
    let disk = disk;
    fs::write(fleet.data("west").join("one"), "content").expect("a file can be written");
    let known = fleet.submit("west:one", "east:first", "cms", &[]);
    assert_eq!(fleet.end_of(&known)["state"], "done");
    let ballast = disk.0.join("ballast");
    let mut file = fs::File::create(&ballast).expect("there is room");
    while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
    drop(file);
    let rest = Rest::new(&fleet.address, &fleet.fingerprint, &fleet.token);
    // What is left in the pages that the store has may take some more.
    let body = |number: usize| {
        let to = format!("{}-{number}", fleet.place("east:copy"));
        json!({ "sources": [fleet.place("west:one")], "destination": to, "class": "cms", "collaboration": "cms" })
    };
    let refused =
        (0..2_000).find_map(|number| match rest.post("/transfers", Some(&body(number)), Some(&format!("k{number}"))) {
            Reply::Said(201, _) | Reply::Said(429, _) => None,
            reply => Some((number, reply)),
        });
    let (number, reply) = refused.expect("16 MB are full some time");
    let Reply::Said(507, told) = &reply else { panic!("{reply:?}") };
    assert_eq!(told["type"], "store_full");
    assert!(told["detail"].as_str().is_some_and(|text| text.contains("nothing was changed")), "{told:#}");
    for path in ["/transfers", "/links", "/classes", "/agents"] {
        assert!(matches!(rest.get(path), Reply::Said(200, _)), "reading {path} goes on");
    }
    assert_eq!(fleet.json(&["transfer", "show", &known])["state"], "done");
    fs::remove_file(&ballast).expect("it is ours");
    wait_for("the same request to be taken", || {
        matches!(rest.post("/transfers", Some(&body(number)), Some(&format!("k{number}"))), Reply::Said(201, _))
            .then_some(())
    });
}
