//! What an agent lets in: so many sessions and streams, and of strangers so many connections, for so long, with so many bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::tree::assert_same;
use crate::world::World;
use crate::{SLOW_LENGTH, SLOW_RATE};

/// A stranger is sent away within 10 s; this machine may be busy.
const SENT_AWAY: Duration = Duration::from_secs(20);
/// More than a stranger may say.
const FLOOD: usize = 64 << 20;

fn with_limits(limits: &str) -> World {
    let limits = limits.to_owned();
    let world = World::configured(|_| format!("[limits]\n{limits}\n"));
    world.write("source/slow", SLOW_LENGTH);
    world.write("other/file", 1000);
    world
}

/// While one copy runs another is told to come again later, and why; when it has ended another one is let in.
fn one_at_a_time(limits: &str, options: &str, why: &str) {
    let world = with_limits(limits);
    let options = format!("{SLOW_RATE} {options}");
    let mut first = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/first")));
    first.wait_for_progress();
    let second = world.copy("", &world.here("other/"), &world.there("rw/second")).expect_code(75);
    assert!(second.err.contains(why) && second.err.contains("try again later"), "{}", second.err);
    assert!(!world.path("rw/second").exists());
    first.end().expect_code(0);
    world.copy("", &world.here("other/"), &world.there("rw/second")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/first"));
    assert_same(&world.path("other"), &world.path("rw/second"));
}

#[test]
fn there_are_no_more_sessions_than_allowed() {
    one_at_a_time("sessions = 1", "", "this agent runs as many sessions as it may");
}

#[test]
fn there_are_no_more_streams_than_allowed() {
    one_at_a_time("streams = 2", "--streams 2", "no data stream is left in the agent's budget");
}

#[test]
fn all_sessions_together_have_one_budget_of_memory() {
    // The first takes half of what is left for itself, and so on: what is too little for a session is refused.
    let world = with_limits("memory = \"64MiB\"");
    let options = format!("{SLOW_RATE} --chunk-size 16MiB");
    let mut first = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/first")));
    first.wait_for_progress();
    let (mut refused, mut others) = (None, Vec::new());
    for number in 0..16 {
        let to = world.there(&format!("rw/other-{number}"));
        let mut other = world.start(world.copy_command(&options, &world.here("source/"), &to));
        let progress = crate::world::wait_for("a session, or its refusal", || {
            let begun = other.out().contains("\"event\":\"started\"");
            (begun || other.has_ended()).then_some(begun)
        });
        if !progress {
            refused = Some(other.end().expect_code(75));
            break;
        }
        others.push(other);
    }
    let agent = world.agent_id();
    let status = std::fs::read_to_string(format!("/proc/{agent}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the kernel tells");
    let peak_kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
    assert!(peak_kib < 96 << 10, "{peak_kib} KiB, with {} sessions", others.len() + 1);
    let refused = refused.expect("some session is one too many");
    assert!(refused.err.contains("try again later"), "{}", refused.err);
    first.end().expect_code(0);
}

/// Reads until the agent closes; gives when it did.
fn closed(mut stranger: &TcpStream, since: Instant) -> Duration {
    stranger.set_read_timeout(Some(SENT_AWAY)).expect("a socket can be set");
    let mut bytes = [0; 4096];
    loop {
        match stranger.read(&mut bytes) {
            Ok(0) => return since.elapsed(),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return since.elapsed();
            }
            Err(error) => panic!("after {:?} nobody was sent away: {error}", since.elapsed()),
        }
    }
}

fn knock(world: &World, says: &[u8]) -> TcpStream {
    let stranger = TcpStream::connect(world.address()).expect("anybody may knock");
    // It may be sent away before it has said all.
    let _ = (&stranger).write_all(says);
    stranger
}

#[test]
fn strangers_are_sent_away_and_keep_nobody_out() {
    let world = with_limits("handshakes = 4");
    let since = Instant::now();
    // Nothing at all; half of a hello of a data stream; half of a TLS record; no protocol that is known here.
    let sayings: [&[u8]; 4] = [b"", b"L", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"];
    let silent: Vec<_> = (0..64).map(|_| knock(&world, sayings[0])).collect();
    // There are places for 16 of those that say nothing and 4 of those that began: the others are closed at once.
    let is_open = |mut stranger: &TcpStream| {
        stranger.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket can be set");
        let read = stranger.read(&mut [0]);
        read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    };
    let at_once = silent.iter().filter(|stranger| !is_open(stranger));
    assert_eq!(at_once.count(), 64 - 16, "of 64 that say nothing");
    for stranger in &silent {
        closed(stranger, since);
    }
    let half: Vec<_> = (0..12).map(|number| knock(&world, sayings[1 + number % 3])).collect();
    let since = Instant::now();
    for stranger in &half {
        closed(stranger, since);
    }
    world.copy("", &world.here("other/"), &world.there("rw/after")).expect_code(0);
    assert_same(&world.path("other"), &world.path("rw/after"));
}

#[test]
fn a_stranger_cannot_say_much() {
    let world = with_limits("handshakes = 4");
    for first in [b"L", b"\x16", b"G"] {
        let mut flood = vec![0x16; FLOOD];
        flood[0] = first[0];
        let mut stranger = TcpStream::connect(world.address()).expect("anybody may knock");
        let since = Instant::now();
        // What the sockets hold is taken, no more.
        let error = stranger.write_all(&flood).expect_err("the agent does not listen to all of it");
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
        assert!(since.elapsed() < SENT_AWAY);
    }
    world.copy("", &world.here("other/"), &world.there("rw/after")).expect_code(0);
}

#[test]
fn a_copy_goes_on_while_strangers_knock() {
    let world = with_limits("handshakes = 8");
    let mut copy = world.start(world.copy_command(SLOW_RATE, &world.here("source/"), &world.there("rw/tree")));
    copy.wait_for_progress();
    let mut strangers = Vec::new();
    while !copy.has_ended() {
        strangers.push(knock(&world, b"\x16\x03\x01"));
        strangers.truncate(256);
        std::thread::sleep(Duration::from_millis(2));
    }
    copy.end().expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    drop(strangers);
    crate::world::wait_for("a place for who is no stranger", || {
        (world.copy("", &world.here("other/"), &world.there("rw/after")).code() == Some(0)).then_some(())
    });
}

#[test]
fn a_wrong_token_moves_nothing() {
    let world = with_limits("");
    let mut command = world.copy_command("", &world.here("other/"), &world.there("rw/tree"));
    command.env("LONGHAUL_TOKEN", "lh1_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let ended = world.run(command).expect_code(2);
    assert!(ended.err.contains("token"), "{}", ended.err);
    assert!(!world.path("rw/tree").exists());
}
