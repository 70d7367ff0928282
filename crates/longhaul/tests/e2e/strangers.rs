//! Who has proved nothing yet costs the agent little: few places, few seconds, few bytes; and who belongs gets through.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use mover::link;
use proto::control::{Control, Hello, VERSION_MAX, VERSION_MIN};
use tokio::io::AsyncWriteExt;

use super::world::{World, wait_for};

/// How long a connection may take to prove itself, which the documents promise, and what a busy machine adds.
const PROVE: Duration = Duration::from_secs(10);
const LATE: Duration = Duration::from_secs(5);
/// How long the agent may take to close a connection that cannot be what it waits for.
const AT_ONCE: Duration = Duration::from_secs(3);
/// Places of the agent here, and connections that say nothing for each of them.
const HANDSHAKES: usize = 4;
const SILENT: usize = 4 * HANDSHAKES;
/// Most that is taken of an endless stranger. Nearly all of it waits in socket buffers of the kernel: the stranger's is kept
/// small, and the agent's grows only where it reads.
const TAKEN_MAX: usize = 1 << 20;
/// Bytes that a stranger writes at a time, and of its socket's buffer.
const PART: usize = 16 << 10;
/// First bytes of a TLS record of that length that begins a hello of 16 MiB.
const LONG_HELLO: [u8; 9] = [22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];

fn world() -> World {
    let world = World::configured(|_| format!("[limits]\nhandshakes = {HANDSHAKES}\n"));
    world.write("file", 1 << 20);
    world
}

fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).expect("the agent listens")
}

/// Whether the agent has closed it; what it says before that is of no account.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket can be set");
    let closed = loop {
        match stream.read(&mut [0; 1 << 10]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != ErrorKind::WouldBlock,
        }
    };
    stream.set_nonblocking(false).expect("a socket can be set");
    closed
}

/// Connections that each say this much, and are then held by the stranger.
fn hold(world: &World, connections: usize, said: &[u8]) -> Vec<TcpStream> {
    let say = |_| {
        let mut stream = connect(world.address());
        // One too many may be closed by now.
        let _ = stream.write_all(said);
        stream
    };
    (0..connections).map(say).collect()
}

/// Connects until that many are held; gives how many were missing.
fn fill(world: &World, held: &mut Vec<TcpStream>, places: usize, said: &[u8]) -> usize {
    held.retain_mut(|stream| !is_closed(stream));
    let missing = places - held.len();
    held.extend(hold(world, missing, said));
    missing
}

fn still_open(held: &mut [TcpStream]) -> usize {
    held.iter_mut().map(is_closed).filter(|closed| !closed).count()
}

/// Of many that come at once only `places` are held, the others closed at once, and all in the end.
fn holds(said: &[u8], places: usize) {
    let world = world();
    let begin = Instant::now();
    let mut held = hold(&world, places + 20, said);
    wait_for("those too many to be closed", || (still_open(&mut held) <= places).then_some(()));
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    sleep(Duration::from_millis(500));
    assert_eq!(still_open(&mut held), places, "after {:?}", begin.elapsed());
    wait_for("the others to be closed", || (still_open(&mut held) == 0).then_some(()));
    assert!(begin.elapsed() < PROVE + LATE, "{:?}", begin.elapsed());
    copy(&world);
}

/// A good copy.
#[track_caller]
fn copy(world: &World) {
    let _ = std::fs::remove_file(world.path("rw/file"));
    world.copy("--streams 2", &world.here("file"), &world.there("rw/file")).expect_code(0);
    assert!(std::fs::read(world.path("rw/file")).unwrap() == std::fs::read(world.path("file")).unwrap());
}

#[test]
fn who_says_nothing_is_one_of_few() {
    holds(&[], SILENT);
}

#[test]
fn who_says_too_little_is_one_of_few() {
    holds(&LONG_HELLO[..1], HANDSHAKES);
    holds(b"LHD1", HANDSHAKES);
}

#[test]
fn who_says_a_byte_now_and_then_is_closed_in_time() {
    let world = world();
    let mut stream = connect(world.address());
    let begin = Instant::now();
    let mut said = LONG_HELLO.into_iter().chain(std::iter::repeat(0));
    while !is_closed(&mut stream) {
        assert!(begin.elapsed() < PROVE + LATE, "{:?}", begin.elapsed());
        let _ = stream.write_all(&[said.next().expect("it has no end")]);
        sleep(Duration::from_millis(100));
    }
    assert!(begin.elapsed() > PROVE / 2, "a slow one has its time: {:?}", begin.elapsed());
}

#[test]
fn strangers_in_all_the_places_keep_nobody_out() {
    let world = world();
    let (mut silent, mut slow) = (Vec::new(), Vec::new());
    // One that has not been heard yet is a silent one, and may take the place of another.
    wait_for("all places to be taken", || {
        let missing = [fill(&world, &mut silent, SILENT, &[]), fill(&world, &mut slow, HANDSHAKES, &LONG_HELLO[..1])];
        (missing == [0, 0]).then_some(())
    });
    copy(&world);
    // Some had to go for it, those that came first.
    let (silent, slow) = (still_open(&mut silent), still_open(&mut slow));
    assert!((1..SILENT).contains(&silent) && slow < HANDSHAKES, "{silent} silent ones and {slow} slow ones are left");
}

/// Writes until the agent has closed: the first part, and then the other again and again. Gives how much that was, and how
/// long it took.
fn pour(mut stream: TcpStream, first: &[u8], then: &[u8]) -> (usize, Duration) {
    let (begin, mut taken) = (Instant::now(), 0);
    sys::socket::set_send_buffer(&stream, PART).expect("a socket can be set");
    stream.set_write_timeout(Some(PROVE + LATE)).expect("a socket can be set");
    let mut part = first;
    while stream.write_all(part).is_ok() {
        taken += part.len();
        assert!(taken < TAKEN_MAX, "{taken} bytes and no end, {:?}", begin.elapsed());
        part = then;
    }
    (taken, begin.elapsed())
}

/// A part that begins so.
fn part(head: &[u8]) -> Vec<u8> {
    let mut part = vec![0; 5 + PART];
    part[..head.len()].copy_from_slice(head);
    part
}

#[test]
fn who_never_ends_is_cut_off() {
    let world = world();
    let kinds = [
        ("garbage", part(&[0xa5; PART]), part(&[0xa5; PART])),
        ("web", b"GET / HTTP/1.1\r\n".to_vec(), b"Host: a\r\n".repeat(100)),
        ("no session", part(b"LHD1"), part(&[])),
        ("hello", part(&LONG_HELLO), part(&LONG_HELLO[..5])),
    ];
    for (kind, first, then) in kinds {
        let (taken, took) = pour(connect(world.address()), &first, &then);
        eprintln!("{kind}: {taken} bytes, {took:?}");
        assert!(took < AT_ONCE, "{kind}: {took:?}");
    }
    copy(&world);
}

/// The same behind TLS, which anybody can speak: what is poured after `first`.
fn pour_in_tls(world: &World, first: &[u8]) -> (usize, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let config = mover::tls::client(Arc::new(|_| Ok(())), Arc::default(), &[mover::tls::ALPN], None).unwrap();
        let stream = connect(world.address());
        sys::socket::set_send_buffer(&stream, PART).expect("a socket can be set");
        stream.set_nonblocking(true).expect("a socket can be set");
        let stream = tokio::net::TcpStream::from_std(stream).expect("it is non-blocking");
        let name = mover::tls::server_name(None);
        let mut stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.expect("TLS");
        let begin = Instant::now();
        let mut taken = 0;
        let pouring = async {
            let mut part = first.to_vec();
            while stream.write_all(&part).await.is_ok() {
                taken += part.len();
                assert!(taken < TAKEN_MAX, "{taken} bytes and no end");
                part = vec![0xa5; PART];
            }
        };
        tokio::time::timeout(PROVE + LATE, pouring).await.expect("it is closed");
        (taken, begin.elapsed())
    })
}

#[test]
fn who_never_ends_behind_tls_is_cut_off() {
    let world = world();
    let hello = Hello {
        versions: (VERSION_MIN, VERSION_MAX),
        token: "lh1_wrong".to_owned(),
        program: "stranger".to_owned(),
        reverse: false,
    };
    let mut wrong_token = Vec::new();
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(link::write(&mut wrong_token, &Control::Hello(hello)))
        .expect("it is in memory");
    let kinds = [("long frame", vec![0xff; 8]), ("zeros", vec![0; 8]), ("wrong token", wrong_token)];
    for (kind, first) in kinds {
        let (taken, took) = pour_in_tls(&world, &first);
        eprintln!("{kind}: {taken} bytes, {took:?}");
        assert!(took < AT_ONCE, "{kind}: {took:?}");
    }
    copy(&world);
}

/// Says that strangers are to go, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn copies_go_through_a_crowd_of_strangers() {
    /// Fewer than there are places: what a copy needs is left.
    const STRANGERS: usize = HANDSHAKES / 2;
    const CROWD_MIN: u32 = 10;
    let world = world();
    let address = world.address();
    let (is_over, turned_away) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..STRANGERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    pour(connect(address), &[0xa5; 1 << 10], &[0xa5; 1 << 10]);
                    turned_away.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        (0..3).for_each(|_| copy(&world));
        for (from, to) in [(world.here("file"), world.there("rw/new")), (world.there("rw/file"), world.here("new"))] {
            let mut wrong = world.copy_command("", &from, &to);
            wrong.env("LONGHAUL_TOKEN", "lh1_wrong");
            let ended = world.run(wrong).expect_code(2);
            assert!(ended.err.contains("token"), "{}", ended.err);
        }
        assert!(!world.path("rw/new").exists() && !world.path("new").exists(), "something was moved");
        let away = turned_away.load(Ordering::Relaxed);
        assert!(away > CROWD_MIN, "{away} strangers are no crowd");
    });
}
