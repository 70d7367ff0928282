//! The agent is killed at its N-th call that changes what is on disk, for many N: strace does it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::{Entry, assert_same, entries, left_behind};
use crate::world::{Running, World, wait_for};
use crate::{Draw, cases, is_missing};

/// Calls that change what is on disk, or make it durable; `?` for those that not every machine has.
const CALLS: &[&str] = &[
    "pwrite64",
    "pwritev,?pwritev2",
    "write",
    "?renameat,?renameat2",
    "fsync",
    "fdatasync",
    "syncfs",
    "?openat,?openat2",
    "unlinkat",
    "linkat",
    "symlinkat",
    "mkdirat",
    "ftruncate",
    "fallocate",
    "fchmod",
    "utimensat",
    "io_uring_enter",
];
/// Most calls of one kind that are tried; a session makes fewer in each of its threads.
const CALLS_MAX: u64 = 500;
const OPTIONS: &str = "--preserve all --chunk-size 256KiB";

/// Kills the agent when one of its threads makes its `n`-th of these calls from now on.
fn strike(world: &mut World, calls: &str, n: u64) -> Running {
    let agent = world.agent().id();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=KILL:when={n}"), "-p", &agent.to_string()]);
    let mut strace = world.start(strace);
    let traced = |status: &str| status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"));
    wait_for("strace to hold every thread", || {
        assert!(!strace.has_ended(), "strace cannot trace the agent");
        let threads = fs::read_dir(format!("/proc/{agent}/task")).ok()?;
        let held = |thread: std::io::Result<fs::DirEntry>| {
            thread.and_then(|thread| fs::read_to_string(thread.path().join("status"))).is_ok_and(|text| traced(&text))
        };
        threads.into_iter().all(held).then_some(())
    });
    strace
}

fn make_source(world: &World) {
    for number in 0..12 {
        world.write(&format!("source/{}/{number}", number % 3), 3_000 * number + 1);
    }
    for (name, length) in [("big", (1 << 20) + 77), ("second", 700_000)] {
        world.write(&format!("source/{name}"), length);
    }
    fs::hard_link(world.path("source/0/3"), world.path("source/again")).unwrap();
    symlink("0/3", world.path("source/link")).unwrap();
    fs::create_dir(world.path("source/empty")).unwrap();
}

/// The destination as an earlier copy left it: older, and in part.
fn make_old(world: &World) {
    let _ = fs::remove_dir_all(world.path("rw/tree"));
    for (name, length) in [("0/0", 777), ("1/4", 30_000), ("big", 400_000), ("link", 10)] {
        world.write(&format!("rw/tree/{name}"), length);
    }
}

/// Each name holds what it held before, or what it is to hold.
fn assert_old_or_new(world: &World, source: &BTreeMap<OsString, Entry>, old: &BTreeMap<OsString, Entry>, what: &str) {
    let is = |entry: &Entry, other: Option<&Entry>| {
        other.is_some_and(|other| (&entry.content, &entry.link) == (&other.content, &other.link))
    };
    for (name, entry) in entries(&world.path("rw/tree")) {
        let ours = name.to_string_lossy().contains(".longhaul");
        let whole = is(&entry, source.get(&name)) || is(&entry, old.get(&name));
        assert!(ours || whole, "{what}: {} has {} bytes, neither old nor new", name.display(), entry.content.len());
    }
}

/// Kills at each chosen call; `choose` gives the numbers that are tried of one kind of call, rising.
fn kill_at(environment: &[&str], choose: impl Fn(&str) -> Vec<u64>) {
    if is_missing(&["strace"], true) {
        return;
    }
    let mut world = World::still();
    let prefix = [&["env"], environment].concat();
    world.start_agent_under(&prefix, "127.0.0.1:0");
    let address = world.address().to_owned();
    make_source(&world);
    let source = entries(&world.path("source"));
    let mut kills = BTreeMap::new();
    for calls in CALLS {
        for n in choose(calls) {
            make_old(&world);
            let old = entries(&world.path("rw/tree"));
            let what = format!("killed at {calls} number {n}");
            let strace = strike(&mut world, calls, n);
            let command = world.copy_command(OPTIONS, &world.here("source/"), &world.there("rw/tree"));
            let mut copy = world.start(command);
            let killed = wait_for("the agent's death or the end of the copy", || {
                let killed = world.agent().has_ended();
                // A copy that fails does so for the agent's death, which strace hears of before we do.
                (killed || copy.has_succeeded()).then_some(killed)
            });
            if !killed {
                drop(strace);
                assert_same(&world.path("source"), &world.path("rw/tree"));
                if world.agent().has_ended() {
                    // Its last call was one of those after the copy's end.
                    world.start_agent_under(&prefix, &address);
                }
                break;
            }
            copy.kill();
            drop(strace);
            assert_old_or_new(&world, &source, &old, &what);
            *kills.entry(*calls).or_insert(0) += 1;
            world.start_agent_under(&prefix, &address);
            world.copy(OPTIONS, &world.here("source/"), &world.there("rw/tree")).expect_code(0);
            assert_same(&world.path("source"), &world.path("rw/tree"));
            assert!(left_behind(&world.path("rw")).is_empty(), "{what}: {:?}", left_behind(&world.path("rw")));
        }
    }
    eprintln!("killed: {kills:?}");
    for needed in ["pwrite64", "?renameat,?renameat2", "?openat,?openat2", "fdatasync"] {
        assert!(kills.contains_key(needed), "never killed at {needed}: {kills:?}");
    }
}

/// The first call, and some of those that follow.
fn some(calls: &str, few: u64) -> Vec<u64> {
    let wanted = cases(few).min(CALLS_MAX);
    if wanted > 16 {
        return (1..=CALLS_MAX).collect();
    }
    let mut draw = Draw::new(calls.len() as u64);
    let mut n = 0;
    let mut numbers = Vec::new();
    for _ in 0..wanted {
        n += 1 + draw.below(1 + 2 * numbers.len() as u64);
        numbers.push(n);
    }
    numbers
}

#[test]
fn killed_at_any_call_the_copy_continues() {
    kill_at(&["LONGHAUL_IO=posix"], |calls| some(calls, 2));
}

#[test]
fn killed_at_any_call_with_io_uring_the_copy_continues() {
    kill_at(&["-u", "LONGHAUL_IO"], |calls| some(calls, 1));
}

/// Length of a file whose copy is interrupted, and a rate that makes it last some seconds.
const SLOW_LENGTH: usize = 24 << 20;
const SLOW: &str = "--rate 60Mb/s --chunk-size 1MiB";

/// Files in a directory that have no name of their own yet.
fn temporary_files(dir: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).expect("it can be listed").map(|entry| entry.expect("it is listed").file_name());
    names.filter(|name| name.as_bytes().starts_with(b".longhaul-")).map(|name| dir.join(name)).collect()
}

#[test]
fn chunks_of_a_temporary_file_that_is_gone_are_sent_again() {
    let mut world = World::new();
    world.write("source/big", SLOW_LENGTH);
    let slow = |world: &World| world.start(world.copy_command(SLOW, &world.here("source/"), &world.there("rw/tree")));
    let copy = slow(&world);
    wait_for("chunks in the journal", || {
        let journal = fs::read(world.path("rw/tree/.longhaul/tree.journal")).ok()?;
        let (state, _) = proto::journal::replay(&journal)?;
        state.partials.values().any(|partial| partial.chunks.len() > 2).then_some(())
    });
    world.kill_agent();
    copy.kill();
    // Somebody cleans up; then the copy goes on with a new file, and is interrupted before much is in it.
    let left = temporary_files(&world.path("rw/tree"));
    assert_eq!(left.len(), 1, "{left:?}");
    fs::remove_file(&left[0]).unwrap();
    world.restart_agent();
    let copy = slow(&world);
    wait_for("a new temporary file", || left[0].exists().then_some(()));
    world.kill_agent();
    copy.kill();
    world.restart_agent();
    world.copy("--chunk-size 1MiB", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn files_of_one_name_do_not_meet_on_their_way_to_others() {
    let world = World::new();
    let files = [("one/file", "rw/first", 12 << 20), ("two/file", "rw/second", (12 << 20) + 1)];
    let copies = files.map(|(from, to, length)| {
        world.write(from, length);
        let copy = world.start(world.copy_command("--rate 30Mb/s", &world.here(from), &world.there(to)));
        wait_for("its temporary file", || (!temporary_files(&world.path("rw")).is_empty()).then_some(()));
        copy
    });
    copies.into_iter().for_each(|copy| drop(copy.end().expect_code(0)));
    for (from, to, _) in files {
        assert!(fs::read(world.path(from)).unwrap() == fs::read(world.path(to)).unwrap(), "{to} is not {from}");
    }
    assert!(left_behind(&world.path("rw")).is_empty(), "{:?}", left_behind(&world.path("rw")));
}

#[test]
fn an_abandoned_copy_leaves_nothing_to_the_next_one() {
    let world = World::new();
    world.write("source/big", SLOW_LENGTH);
    world.write("other/file", 1_000);
    let mut copy = world.start(world.copy_command(SLOW, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    copy.kill();
    world.copy("", &world.here("other/"), &world.there("rw/tree")).expect_code(0);
    assert_same(&world.path("other"), &world.path("rw/tree"));
}
