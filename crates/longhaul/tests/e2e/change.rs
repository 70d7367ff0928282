//! What changes while a copy runs: its source, and whether its agent may go on.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::tree::assert_same;
use crate::world::{World, wait_for};
use crate::{SLOW_LENGTH, SLOW_RATE};

/// With so few buffers the end of a file has not been read when half of it has arrived.
const FEW_BUFFERS: &str = "--memory 16MiB --chunk-size 1MiB";

/// Writes one byte, which no size tells.
fn touch(path: &Path, byte: u8) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[byte], 12345).unwrap();
}

#[test]
fn a_file_that_changes_while_it_is_read_starts_again() {
    let world = World::new();
    let file = world.write("source/file", SLOW_LENGTH);
    let options = format!("{SLOW_RATE} {FEW_BUFFERS}");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    touch(&file, 1);
    let summary = copy.end().expect_code(0).summary();
    let sent = summary["bytes_sent"].as_u64().unwrap();
    assert!(sent > SLOW_LENGTH as u64 * 5 / 4, "what had been sent before the change was kept: {summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn a_file_that_never_stays_the_same_is_given_up_and_the_others_arrive() {
    let world = World::new();
    let file = world.write("source/file", SLOW_LENGTH);
    world.write("source/other", 1000);
    let options = format!("{SLOW_RATE} {FEW_BUFFERS}");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/tree")));
    let mut byte = 0u8;
    wait_for("the file to be given up", || {
        byte = byte.wrapping_add(1);
        touch(&file, byte);
        copy.has_ended().then_some(())
    });
    let ended = copy.end().expect_code(6);
    assert_eq!(ended.summary()["files_failed"], 1, "{}", ended.out);
    assert!(
        ended.events().iter().any(|event| event["path"] == "file" && event["outcome"] == "changed"),
        "{}",
        ended.out
    );
    assert!(world.path("rw/tree/other").exists() && !world.path("rw/tree/file").exists());
}

#[test]
fn an_agent_that_is_to_end_lets_what_has_arrived_be_of_use() {
    let mut world = World::new();
    world.write("source/file", SLOW_LENGTH);
    let options = format!("{SLOW_RATE} --timeout 2s");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    world.agent().signal("TERM");
    wait_for("the agent to end well", || world.agent().has_succeeded().then_some(()));
    copy.end_within(Duration::from_secs(60)).expect_code(75);
    world.restart_agent();
    let summary = world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    let sent = summary["bytes_sent"].as_u64().unwrap();
    assert!(sent < SLOW_LENGTH as u64 * 3 / 4, "half of it had arrived: {summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(!fs::exists(world.path("rw/tree/.longhaul")).unwrap());
}
