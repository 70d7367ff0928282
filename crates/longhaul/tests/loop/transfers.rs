//! Transfers from their submission to their end.

use std::fs;

use serde_json::json;

use crate::fleet::Fleet;
use crate::tree::{assert_same, left_behind};

const HOSTS: &[&str] = &["w1", "e1"];

#[test]
fn a_directory_arrives_faithful() {
    let fleet = Fleet::new("10 Gb/s", HOSTS);
    crate::tree::make_awkward(&fleet.world, "west-data/run7");
    let id = fleet.submit("west:run7", "east:copy", "cms", &[]);
    let told = fleet.end_of(&id);
    assert_eq!(told["state"], "done", "{told:#}");
    assert_same(&fleet.data("west").join("run7"), &fleet.data("east").join("copy"));
    assert!(left_behind(&fleet.data("east")).is_empty());
    assert_eq!(told["files_failed"], 0);
    assert_eq!(told["bytes_done"], told["bytes_total"]);
}

#[test]
fn a_file_and_a_list_of_files_arrive() {
    let fleet = Fleet::new("10 Gb/s", HOSTS);
    for (name, length) in [("run/a", 3_000_000), ("run/b", 10), ("run/c", 0), ("run/not", 5)] {
        fleet.world.write(&format!("west-data/{name}"), length);
    }
    let one = fleet.submit("west:run/a", "east:renamed", "cms", &["--checksum", "sha256"]);
    let list = fleet.world.path("list");
    fs::write(&list, "a\nb\nc\n").expect("a file can be written");
    let some = fleet.submit("west:run", "east:some", "atlas", &["--files-from", list.to_str().expect("a path")]);
    for (id, bytes) in [(&one, 3_000_000), (&some, 3_000_010)] {
        let told = fleet.end_of(id);
        assert_eq!(told["state"], "done", "{told:#}");
        assert_eq!((&told["bytes_done"], &told["bytes_total"]), (&json!(bytes), &json!(bytes)), "{told:#}");
    }
    let same = |from: &str, to: &str| {
        let read = |site: &str, name: &str| fs::read(fleet.data(site).join(name)).expect("it is there");
        assert_eq!(read("west", from), read("east", to), "{from}");
    };
    same("run/a", "renamed");
    ["a", "b", "c"].iter().for_each(|name| same(&format!("run/{name}"), &format!("some/{name}")));
    assert!(!fleet.data("east").join("some/not").exists());
    let files = fleet.json(&["transfer", "files", &one]);
    let digest = files["files"][0]["digest"].as_str().expect("one was asked for");
    assert_eq!(digest.len(), 64, "{files}");
}

#[test]
fn what_is_not_there_is_told() {
    let fleet = Fleet::new("10 Gb/s", HOSTS);
    let id = fleet.submit("west:nothing", "east:copy", "cms", &[]);
    let told = fleet.end_of(&id);
    assert_eq!(told["state"], "failed", "{told:#}");
    assert!(told["reason"].as_str().expect("a text").contains("no such file"), "{told:#}");
    let outside = fleet.ask(&[
        "transfer",
        "submit",
        "west:/etc/passwd",
        "east:/tmp/x",
        "--class",
        "cms",
        "--collaboration",
        "cms",
    ]);
    assert_ne!(outside.code(), Some(0));
    assert!(outside.err.contains("beneath"), "{}", outside.err);
}

#[test]
fn a_transfer_is_paused_resumed_and_cancelled() {
    let fleet = Fleet::new("50 Mb/s", HOSTS);
    fleet.world.write("west-data/big", 20 << 20);
    let id = fleet.submit("west:big", "east:big", "cms", &[]);
    crate::world::wait_for("bytes to move", || {
        (fleet.json(&["transfer", "show", &id])["rate_bps"].as_u64() > Some(0)).then_some(())
    });
    fleet.ask(&["transfer", "pause", &id, "--reason", "lunch"]).expect_code(0);
    let told = crate::world::wait_for("it to stand still", || {
        let told = fleet.json(&["transfer", "show", &id]);
        (told["state"] == "paused" && told["rate_bps"] == 0).then_some(told)
    });
    assert!(told["reason"].as_str().expect("a text").contains("lunch"), "{told:#}");
    fleet.ask(&["transfer", "resume", &id]).expect_code(0);
    assert_eq!(fleet.end_of(&id)["state"], "done");
    let second = fleet.submit("west:big", "east:second", "cms", &[]);
    fleet.ask(&["transfer", "cancel", &second]).expect_code(0);
    assert_eq!(fleet.end_of(&second)["state"], "cancelled");
}
