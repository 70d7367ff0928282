//! What an agent may give at once: who comes too late is told what is taken and to come again, and what runs goes on.

use std::process::Command;
use std::time::{Duration, Instant};

use super::tree::assert_same;
use super::world::{Running, World, events, wait_for};

/// Bytes of a file, and a rate at which its copy outlasts all that is asked meanwhile.
const LENGTH: usize = 32 << 20;
const RATE: &str = "--rate 40Mb/s";
/// How long the agent may take to say that there is no place, on a busy machine: nothing is waited for.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a place may stay taken: for a copy that was killed the agent waits a while, it may come back.
const GIVEN_BACK: Duration = Duration::from_secs(30);

/// A world whose agent has these limits, with `source/big`, whose copy is slow, and `file`.
fn limited(limits: &str) -> World {
    let world = World::configured(|_| format!("[limits]\n{limits}\n"));
    world.write("source/big", LENGTH);
    world.write("file", 10);
    world
}

fn slow(world: &World, options: &str, to: &str) -> Command {
    world.copy_command(&format!("{RATE} {options}"), &world.here("source/"), &world.there(to))
}

/// Waits until a copy has so many streams.
fn wait_for_streams(copy: &mut Running, streams: u64) {
    wait_for("its streams", || {
        assert!(!copy.has_ended(), "it ended early: {}{}", copy.out(), copy.err());
        let progress = events(&copy.out()).into_iter().rfind(|event| event["event"] == "progress")?;
        (progress["streams"].as_u64() == Some(streams)).then_some(())
    });
}

/// A small copy that comes too late: refused at once, in one line that says why, and nothing is made.
#[track_caller]
fn refused(world: &World, why: &str) {
    let begin = Instant::now();
    let ended = world.copy("", &world.here("file"), &world.there("rw/file")).expect_code(75);
    assert!(ended.err.contains(why) && ended.err.contains("try again later"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert!(begin.elapsed() < ANSWER, "{:?}", begin.elapsed());
    assert!(!world.path("rw/file").exists());
}

/// There is a place again, soon: a session ends at the agent a little later than its command.
#[track_caller]
fn gets_in(world: &World, from: &str, to: &str) {
    let begin = Instant::now();
    wait_for("a place", || {
        let copy = world.copy("", &world.here(from), &world.there(to));
        assert!(begin.elapsed() < GIVEN_BACK, "{}", copy.err);
        let is_taken = copy.code() == Some(75) && copy.err.contains("try again later");
        assert!(is_taken || copy.code() == Some(0), "{}{}", copy.out, copy.err);
        (!is_taken).then_some(())
    });
}

/// What ran goes on as if nobody had come.
#[track_caller]
fn goes_on(world: &World, copies: Vec<(Running, &str)>) {
    for (copy, to) in copies {
        copy.end().expect_code(0);
        assert_same(&world.path("source"), &world.path(to));
    }
    gets_in(world, "file", "rw/file");
}

#[test]
fn a_session_too_many_is_refused() {
    let world = limited("sessions = 1");
    let first = world.start(slow(&world, "", "rw/tree"));
    first.session();
    refused(&world, "this agent runs as many sessions as it may");
    goes_on(&world, vec![(first, "rw/tree")]);
}

#[test]
fn a_killed_copy_gives_its_session_back() {
    let world = limited("sessions = 1");
    let mut first = world.start(slow(&world, "", "rw/tree"));
    first.wait_for_progress();
    first.kill();
    gets_in(&world, "source/", "rw/tree");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn memory_for_one_session_more_is_not_taken() {
    // Each session has at least 32 MiB.
    let world = limited("memory = \"64MiB\"");
    let copies = ["rw/first", "rw/second"].map(|to| {
        let copy = world.start(slow(&world, "", to));
        copy.session();
        (copy, to)
    });
    refused(&world, "this agent has no memory left for another session");
    goes_on(&world, copies.into());
}

#[test]
fn a_stream_too_many_is_refused() {
    let world = limited("streams = 3");
    let mut first = world.start(slow(&world, "--streams 2", "rw/first"));
    wait_for_streams(&mut first, 2);
    // One is left: who wants more gets that one.
    let mut second = world.start(slow(&world, "--streams 4", "rw/second"));
    wait_for_streams(&mut second, 1);
    refused(&world, "no data stream is left in the agent's budget");
    goes_on(&world, vec![(first, "rw/first"), (second, "rw/second")]);
}
