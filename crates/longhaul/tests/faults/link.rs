//! Links that fall silent or go away.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::proxy::{Proxy, SLOW_BYTES, SLOW_PAUSE};
use crate::tree::{assert_same, left_behind};
use crate::world::{World, events, wait_for};

const LENGTH: usize = 40 << 20;
/// Makes the copy last some seconds.
const RATE: &str = "--rate 100Mb/s";
/// How long a link is away that comes back: the session waits for it, if nobody says that the other end has gone.
const AWAY: Duration = Duration::from_secs(4);
/// The same where every connection is closed, which is what happens if a program is killed.
const BRIEFLY: Duration = Duration::from_millis(500);
/// How long a command may take to give up a link that stays away.
const PATIENCE: Duration = Duration::from_secs(45);

fn world() -> (World, Proxy) {
    wired(World::new())
}

fn wired(world: World) -> (World, Proxy) {
    world.write("source/big", LENGTH);
    world.write("source/small", 1_000);
    let wire = Proxy::sound(world.address());
    (world, wire)
}

#[test]
fn a_link_that_is_silent_for_a_while_is_waited_for() {
    let (world, wire) = world();
    let to = world.there_by(&wire.address(), "rw/tree");
    let mut copy = world.start(world.copy_command(RATE, &world.here("source/"), &to));
    copy.wait_for_progress();
    wire.stall(true);
    sleep(AWAY);
    wire.stall(false);
    let summary = copy.end().expect_code(0).summary();
    assert_eq!(summary["reconnects"], 0, "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn a_link_that_is_lost_briefly_costs_no_session() {
    let (world, wire) = world();
    let to = world.there_by(&wire.address(), "rw/tree");
    let mut copy = world.start(world.copy_command(RATE, &world.here("source/"), &to));
    copy.wait_for_progress();
    wire.down(true);
    sleep(BRIEFLY);
    wire.down(false);
    let ended = copy.end().expect_code(0);
    let summary = ended.summary();
    assert_eq!(summary["reconnects"], 0, "{summary}");
    assert!(summary["streams_lost"].as_u64() > Some(0), "{summary}");
    let started = events(&ended.out).iter().filter(|event| event["event"] == "started").count();
    assert_eq!(started, 1, "{}", ended.out);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
}

#[test]
fn a_slow_stream_does_not_hold_up_the_end() {
    let (world, wire) = world();
    let to = world.there_by(&wire.address(), "rw/tree");
    wire.slow_next();
    let copy = world.start(world.copy_command("--streams 4 --protect clear", &world.here("source/"), &to));
    let summary = copy.end().expect_code(0).summary();
    assert!(wire.is_slow(), "one was");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    // A parcel on it would take half a minute; some of it has gone by the time that it is left.
    let parcel = SLOW_PAUSE * u32::try_from((4 << 20) / SLOW_BYTES).expect("it fits");
    let took = Duration::from_secs_f64(summary["seconds"].as_f64().expect("a number"));
    assert!(took < parcel / 3, "{summary}");
    // It was given up of our own accord, and costs what was on its way.
    assert_eq!(summary["streams_lost"], 0, "{summary}");
    let sent = summary["bytes_sent"].as_u64().expect("a number");
    assert!(sent < LENGTH as u64 + (12 << 20), "{summary}");
}

#[test]
fn a_link_that_is_lost_is_taken_up_again() {
    let (world, wire) = world();
    let to = world.there_by(&wire.address(), "rw/tree");
    let mut copy = world.start(world.copy_command(RATE, &world.here("source/"), &to));
    copy.wait_for_progress();
    wire.down(true);
    sleep(AWAY);
    wire.down(false);
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["reconnects"].as_u64() > Some(0), "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
}

/// The agent waits for a link that the command has given up: its session makes room for the one that takes the copy up.
#[test]
fn a_session_that_only_the_agent_still_has_makes_room_for_its_copy() {
    let (world, far) = wired(World::configured(|_| "[limits]\nsessions = 1\n".to_owned()));
    let near = Proxy::sound(&far.address());
    let options = format!("{RATE} --timeout 3s");
    let to = world.there_by(&near.address(), "rw/tree");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &to));
    copy.wait_for_progress();
    // The agent is not told that anything is closed; another way to it opens later.
    far.stall(true);
    wait_for("the session to be given up", || {
        events(&copy.out()).iter().any(|event| event["event"] == "reconnect").then_some(())
    });
    near.lead_to(world.address());
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["reconnects"].as_u64() > Some(0), "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
}

fn given_up(cut: impl Fn(&Proxy, bool)) {
    let (world, wire) = world();
    let to = world.there_by(&wire.address(), "rw/tree");
    let options = format!("{RATE} --timeout 3s");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &to));
    copy.wait_for_progress();
    cut(&wire, true);
    let begin = Instant::now();
    let ended = copy.end().expect_code(75);
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    assert!(ended.err.contains("continues"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert!(!world.path("rw/tree/big").exists());
    cut(&wire, false);
    let summary = world.copy("", &world.here("source/"), &to).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(LENGTH as u64), "all was sent again: {summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn a_link_that_stays_away_is_given_up() {
    given_up(Proxy::down);
}

#[test]
fn a_link_that_stays_silent_is_given_up() {
    given_up(Proxy::stall);
}
