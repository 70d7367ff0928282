//! Whole copies with the real program: an agent, a command, and what both leave on disk.

#[path = "e2e/cache.rs"]
mod cache;
#[path = "e2e/change.rs"]
mod change;
#[path = "e2e/hooks.rs"]
mod hooks;
#[path = "e2e/limits.rs"]
mod limits;
#[path = "e2e/memory.rs"]
mod memory;
#[path = "e2e/merge.rs"]
mod merge;
#[path = "e2e/names.rs"]
mod names;
#[path = "e2e/places.rs"]
mod places;
#[path = "e2e/preserve.rs"]
mod preserve;
#[path = "e2e/relay.rs"]
mod relay;
#[path = "e2e/report.rs"]
mod report;
#[path = "e2e/ssh.rs"]
mod ssh;
#[path = "e2e/sshd.rs"]
mod sshd;
#[path = "e2e/strangers.rs"]
mod strangers;
#[path = "e2e/there.rs"]
mod there;
#[path = "e2e/throughput.rs"]
mod throughput;
#[path = "e2e/tree.rs"]
mod tree;
#[path = "e2e/world.rs"]
#[allow(dead_code, reason = "faults uses the rest")]
mod world;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use tree::{assert_same, entries, left_behind, make_awkward};
use world::{Ended, World, wait_for};

/// Length of the file that is interrupted, and a rate that makes its copy last some seconds.
const SLOW_LENGTH: usize = 48 << 20;
const SLOW_RATE: &str = "--rate 100Mb/s";

fn faithful(options: &str) {
    let world = World::new();
    let copy = |from: &OsStr, to: &OsStr| drop(world.copy(options, from, to).expect_code(0));
    tree::there_and_back(
        &world,
        "rw/tree",
        || copy(&world.here("source/"), &world.there("rw/tree")),
        || copy(&world.there("rw/tree/"), &world.here("back")),
    );
}

#[test]
fn a_tree_is_faithful_clear() {
    faithful("--protect clear");
}

#[test]
fn a_tree_is_faithful_integrity() {
    faithful("--protect integrity");
}

#[test]
fn a_tree_is_faithful_private() {
    faithful("--protect private");
}

#[test]
fn a_tree_is_faithful_with_plain_calls() {
    let world = World::new();
    make_awkward(&world, "source");
    let mut command = world.copy_command("", &world.here("source/"), &world.there("rw/tree"));
    command.env("LONGHAUL_IO", "posix");
    world.run(command).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn one_file_takes_the_name_it_is_given() {
    let world = World::new();
    let file = world.write("file", 70_000);
    world.copy("", &world.here("file"), &world.there("rw/renamed")).expect_code(0);
    assert_eq!(fs::read(world.path("rw/renamed")).unwrap(), fs::read(&file).unwrap());
    world.copy("", &world.there("rw/renamed"), &world.here("back")).expect_code(0);
    assert_eq!(fs::read(world.path("back")).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn a_slash_at_the_end_means_what_is_in_it() {
    let world = World::new();
    world.write("source/file", 10);
    world.copy("", &world.here("source"), &world.there("rw/")).expect_code(0);
    assert!(world.path("rw/source/file").exists());
    world.copy("", &world.here("source/"), &world.there("rw/")).expect_code(0);
    assert!(world.path("rw/file").exists());
}

#[test]
fn modes_do_not_go_by_the_umask() {
    let mut world = World::still();
    world.start_agent_under(&["sh", "-c", "umask 0077; exec \"$@\"", "sh"], "127.0.0.1:0");
    make_awkward(&world, "source");
    let file = world.write("source/for all", 1_000);
    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn sync_moves_only_what_differs() {
    let world = World::new();
    make_awkward(&world, "source");
    let copy = || world.copy("--sync", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert!(copy()["bytes_sent"].as_u64() > Some(0));
    assert_eq!(copy()["bytes_sent"], 0);
    world.write("source/plain", 20_000);
    assert_eq!(copy()["bytes_sent"], 20_000);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn delete_removes_what_the_source_has_not_and_a_dry_run_nothing() {
    let world = World::new();
    world.write("source/file", 10);
    world.write("source/both/own", 10);
    world.write("rw/tree/both/extra", 10);
    world.write("rw/tree/extra/file", 10);
    let before = entries(&world.path("rw/tree"));
    let copy = |options: &str| world.copy(options, &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    let ended = copy("--delete --dry-run");
    let names = |ended: &Ended| {
        let deleted = ended.events().into_iter().filter(|event| event["outcome"] == "deleted");
        deleted.filter_map(|event| event["path"].as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    let extra = BTreeSet::from(["both/extra", "extra", "extra/file"].map(str::to_owned));
    assert_eq!(names(&ended), extra, "{}", ended.out);
    let back = world.copy("--delete --dry-run", &world.there("rw/tree/"), &world.here("source")).expect_code(0);
    assert_eq!(names(&back), BTreeSet::from(["both/own".to_owned(), "file".to_owned()]), "{}", back.out);
    assert_eq!(entries(&world.path("rw/tree")), before);
    copy("");
    assert!(world.path("rw/tree/extra/file").exists());
    copy("--delete");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn what_is_excluded_stays_away() {
    let world = World::new();
    for name in ["source/a.log", "source/a.dat", "source/deep/b.log", "source/cache/c"] {
        world.write(name, 10);
    }
    let options = "--exclude *.log --exclude cache/";
    world.copy(options, &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    let names: Vec<_> = entries(&world.path("rw/tree")).into_keys().collect();
    assert_eq!(names, ["", "a.dat", "deep"]);
}

fn killed_copy_continues(push: bool) {
    let world = World::new();
    let from = if push { "source" } else { "rw/source" };
    let to = if push { "rw/tree" } else { "tree" };
    world.write(&format!("{from}/big"), SLOW_LENGTH);
    world.write(&format!("{from}/small"), 100);
    let place = |name: &str| if name.starts_with("rw") { world.there(name) } else { world.here(name) };
    let mut copy = world.start(world.copy_command(SLOW_RATE, &place(&format!("{from}/")), &place(to)));
    copy.wait_for_progress();
    copy.kill();
    assert!(!world.path(to).join("big").exists(), "a part was published");
    let summary = world.copy("", &place(&format!("{from}/")), &place(to)).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(SLOW_LENGTH as u64), "all was sent again: {summary}");
    assert_same(&world.path(from), &world.path(to));
    assert!(left_behind(&world.path(to)).is_empty(), "{:?}", left_behind(&world.path(to)));
}

#[test]
fn a_killed_push_continues() {
    killed_copy_continues(true);
}

#[test]
fn a_killed_pull_continues() {
    killed_copy_continues(false);
}

#[test]
fn a_killed_copy_of_a_file_with_a_long_hole_continues() {
    let world = World::new();
    let path = world.write("source/big", SLOW_LENGTH);
    let file = fs::File::options().write(true).open(&path).unwrap();
    let copy = |options: &str| world.copy_command(options, &world.here("source/"), &world.there("rw/tree"));
    // The hole is told at once, the data behind it take seconds.
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 100_000], 5 * SLOW_LENGTH as u64).unwrap();
    let mut first = world.start(copy(SLOW_RATE));
    first.wait_for_progress();
    first.kill();
    assert!(!world.path("rw/tree/big").exists(), "a part was published");
    world.run(copy("")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    // Once more over what is there, of which nothing is a hole: it is replaced.
    fs::write(world.path("rw/tree/big"), vec![1; 6 * SLOW_LENGTH]).unwrap();
    world.run(copy("")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
}

#[test]
fn a_copy_survives_the_death_of_its_agent() {
    let mut world = World::new();
    world.write("source/big", SLOW_LENGTH);
    let mut copy = world.start(world.copy_command(SLOW_RATE, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    world.kill_agent();
    world.restart_agent();
    // It finds the new agent by itself, or ends with "try again later" and the same command goes on.
    let ended = copy.end();
    if ended.code() != Some(0) {
        let summary = world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
        assert!(summary["bytes_sent"].as_u64() < Some(SLOW_LENGTH as u64), "all was sent again: {summary}");
        ended.expect_code(75);
    }
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
}

#[test]
fn the_second_interrupt_ends_a_copy_at_once() {
    let mut world = World::new();
    world.write("source/big", SLOW_LENGTH);
    let mut copy = world.start(world.copy_command(SLOW_RATE, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    // What is in flight cannot be finished with an agent that stands still.
    world.agent().signal("STOP");
    copy.interrupt();
    wait_for("the first to be heard", || copy.err().contains("Once more ends it at once").then_some(()));
    assert!(!copy.has_ended(), "{}", copy.err());
    copy.interrupt();
    let ended = copy.end_within(Duration::from_secs(5)).expect_code(130);
    assert!(ended.err.ends_with("interrupted\n"), "{}", ended.err);
    world.agent().signal("CONT");
    let summary = world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(SLOW_LENGTH as u64), "all was sent again: {summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn the_second_signal_ends_an_agent_at_once() {
    let mut world = World::new();
    world.write("source/big", SLOW_LENGTH);
    let mut copy = world.start(world.copy_command(SLOW_RATE, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    // The session cannot finish with a command that stands still.
    copy.signal("STOP");
    world.agent().signal("TERM");
    wait_for("the first to be heard", || world.agent().err().contains("asked to stop").then_some(()));
    assert!(!world.agent().has_ended(), "{}", world.agent().err());
    world.agent().signal("TERM");
    let begin = Instant::now();
    let status = wait_for("the agent to end", || world.agent().status());
    assert!(status.code() == Some(130) && begin.elapsed() < Duration::from_secs(5), "{status}, {:?}", begin.elapsed());
}

#[test]
fn who_may_not_write_does_not() {
    let world = World::new();
    world.write("file", 10);
    let refused = |command, code: i32, part: &str| {
        let ended = world.run(command).expect_code(code);
        assert!(ended.err.contains(part) || ended.out.contains(part), "{part}: {}{}", ended.out, ended.err);
    };
    let copy = |to: &str| world.copy_command("", &world.here("file"), &world.there(to));
    let mut wrong_token = copy("rw/file");
    wrong_token.env("LONGHAUL_TOKEN", "lh1_wrong");
    refused(wrong_token, 2, "token");
    refused(copy("outside"), 2, "cannot be written");
    refused(copy("ro/file"), 2, "cannot be written");
    refused(copy("rw/../outside"), 2, "");
    assert!(entries(&world.path("rw")).len() == 1 && entries(&world.path("ro")).len() == 1);
    assert!(!world.path("outside").exists());
}

#[test]
fn another_fingerprint_is_refused() {
    let world = World::new();
    world.write("file", 10);
    let mut command = world.command("copy", "--fingerprint");
    command.arg(format!("sha256:{}", "00".repeat(32))).arg(world.path("file")).arg(world.there("rw/file"));
    let ended = world.run(command).expect_code(1);
    assert!(ended.err.contains("fingerprint"), "{}", ended.err);
    assert!(!world.path("rw/file").exists());
}

#[test]
fn the_second_copy_into_one_place_is_told_who_is_there() {
    let world = World::new();
    world.write("source/big", SLOW_LENGTH);
    // Slow enough that the first copy outlasts the moment that the second one waits for the lock.
    let command = || world.copy_command("--rate 40Mb/s", &world.here("source/"), &world.there("rw/tree"));
    let mut first = world.start(command());
    first.wait_for_progress();
    let second = world.run(command()).expect_code(75);
    assert!(second.err.contains("is being written by"), "{}", second.err);
    first.kill();
    world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
}

#[test]
fn no_symlink_leads_out_of_a_root() {
    let world = World::new();
    world.write("outside/secret", 10);
    world.write("file", 10);
    for (link, target) in [("absolute", world.path("outside")), ("relative", "../outside".into())] {
        symlink(target, world.path("rw").join(link)).unwrap();
        let out = world.copy("", &world.there(&format!("rw/{link}/secret")), &world.here("got"));
        assert!(out.code() != Some(0) && !world.path("got").exists(), "{link}: {}{}", out.out, out.err);
        let into = world.copy("", &world.here("file"), &world.there(&format!("rw/{link}/file")));
        assert!(into.code() != Some(0) && !world.path("outside/file").exists(), "{link}: {}{}", into.out, into.err);
    }
}

#[test]
fn a_test_verifies_what_it_moves() {
    let world = World::new();
    let mut command = world.command("test throughput", "--duration 2s --streams 2 --json");
    command.arg(world.address()).args(["--fingerprint", world.fingerprint()]);
    let summary = world.run(command).expect_code(0).summary();
    assert!(summary["rate_bps"].as_u64() > Some(0) && summary["chunks_verified"].as_u64() > Some(0), "{summary}");
}
