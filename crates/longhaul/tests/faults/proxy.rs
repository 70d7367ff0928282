//! A wire between the command and its agent that damages, delays and cuts.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use crate::Draw;

/// How often something awaited is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes carried at a time.
const PART: usize = 64 << 10;
/// What a slow stream carries at a time, and how long it rests then.
pub(crate) const SLOW_BYTES: usize = 16 << 10;
pub(crate) const SLOW_PAUSE: Duration = Duration::from_millis(125);
/// Bytes before the first record of a data stream: from who connects (hello and finish), and from who accepts.
const HELLO: u64 = 72 + 32;
const REPLY: u64 = 52;

/// What is damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    /// Bits turned over in all.
    pub(crate) bits: u32,
    /// Bytes of one stream between two of them, at most.
    pub(crate) gap: u64,
    /// Draws the places.
    pub(crate) seed: u64,
}

struct Shared {
    to: Mutex<SocketAddr>,
    damage: Damage,
    bits_left: AtomicU32,
    stalled: AtomicBool,
    /// The next data stream is slow.
    slow_next: AtomicBool,
    down: AtomicBool,
    over: AtomicBool,
    pairs: Mutex<Vec<Weak<Pair>>>,
}

/// The two halves of a connection; closed when nobody carries between them any more, so that who still sends is told.
struct Pair {
    near: TcpStream,
    far: TcpStream,
}

impl Pair {
    fn cut(&self) {
        let _ = self.near.shutdown(Shutdown::Both);
        let _ = self.far.shutdown(Shutdown::Both);
    }
}

/// The wire; cut for good when it goes.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) fn start(to: &str, damage: Damage) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket can be set");
        let shared = Arc::new(Shared {
            to: Mutex::new(to.parse().expect("an address")),
            damage,
            bits_left: damage.bits.into(),
            stalled: false.into(),
            slow_next: false.into(),
            down: false.into(),
            over: false.into(),
            pairs: Mutex::default(),
        });
        let address = listener.local_addr().expect("it is bound");
        let acceptor = std::thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Proxy { shared, address, acceptor: Some(acceptor) }
    }

    /// Without damage.
    pub(crate) fn sound(to: &str) -> Proxy {
        Proxy::start(to, Damage { bits: 0, gap: 1, seed: 0 })
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Further connections go there.
    pub(crate) fn lead_to(&self, to: &str) {
        *self.shared.to.lock().expect("no panic under the lock") = to.parse().expect("an address");
    }

    /// Bits turned over so far.
    pub(crate) fn damaged(&self) -> u32 {
        self.shared.damage.bits - self.shared.bits_left.load(Ordering::Relaxed)
    }

    /// Nothing arrives any more, and nobody is told; or it goes on.
    pub(crate) fn stall(&self, stalled: bool) {
        self.shared.stalled.store(stalled, Ordering::Relaxed);
    }

    /// The next data stream that is opened carries [`SLOW_BYTES`] at a time, with [`SLOW_PAUSE`] between, from who opened it.
    pub(crate) fn slow_next(&self) {
        self.shared.slow_next.store(true, Ordering::Relaxed);
    }

    /// Was a data stream opened since [`Proxy::slow_next`]?
    pub(crate) fn is_slow(&self) -> bool {
        !self.shared.slow_next.load(Ordering::Relaxed)
    }

    /// Every connection ends and none is to be had; or they are again.
    pub(crate) fn down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Relaxed);
        if down {
            self.cut();
        }
    }

    fn cut(&self) {
        for pair in self.shared.pairs.lock().expect("no panic under the lock").drain(..) {
            if let Some(pair) = pair.upgrade() {
                pair.cut();
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.stall(false);
        self.cut();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut streams = 0;
    while !shared.over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((socket, _)) if !shared.down.load(Ordering::Relaxed) => {
                streams += 1;
                let (shared, number) = (shared.clone(), streams);
                std::thread::spawn(move || connect(socket, &shared, number));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK),
            Err(error) => panic!("accepting: {error}"),
        }
    }
}

/// Joins one connection with its other half.
fn connect(near: TcpStream, shared: &Arc<Shared>, number: u64) {
    near.set_nonblocking(false).expect("a socket can be set");
    let to = *shared.to.lock().expect("no panic under the lock");
    let Ok(far) = TcpStream::connect(to) else { return };
    let mut first = [0];
    if !matches!(near.peek(&mut first), Ok(1)) {
        return;
    }
    let is_data = first == *b"L";
    let is_slow = is_data && shared.slow_next.swap(false, Ordering::Relaxed);
    if is_slow {
        // What waits in buffers of the wire would look as if it had arrived.
        for socket in [&near, &far] {
            sys::socket::set_receive_buffer(socket, SLOW_BYTES).expect("a socket can be set");
        }
    }
    let pair = Arc::new(Pair { near, far });
    shared.pairs.lock().expect("no panic under the lock").push(Arc::downgrade(&pair));
    for (outward, begin) in [(true, HELLO), (false, REPLY)] {
        let draw = is_data.then(|| Draw::new(shared.damage.seed + 2 * number + u64::from(outward)));
        let (pair, shared) = (pair.clone(), shared.clone());
        std::thread::spawn(move || {
            let (from, to) = if outward { (&pair.near, &pair.far) } else { (&pair.far, &pair.near) };
            let flips = draw.map(|draw| Flips::new(draw, begin, &shared));
            let pause = if is_slow && outward { SLOW_PAUSE } else { Duration::ZERO };
            if carry(from, to, &shared, flips, pause).is_err() {
                pair.cut();
            }
        });
    }
}

/// Where bits are turned over on one direction of a data stream.
struct Flips {
    draw: Draw,
    gap: u64,
    at: u64,
    next: u64,
}

impl Flips {
    fn new(mut draw: Draw, begin: u64, shared: &Shared) -> Flips {
        let gap = shared.damage.gap;
        Flips { at: 0, next: begin + draw.below(gap), gap, draw }
    }

    fn damage(&mut self, bytes: &mut [u8], left: &AtomicU32) {
        let end = self.at + bytes.len() as u64;
        while self.next < end {
            let allowed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if allowed {
                bytes[(self.next - self.at) as usize] ^= 1 << self.draw.below(8);
            }
            self.next += 1 + self.draw.below(self.gap);
        }
        self.at = end;
    }
}

fn carry(
    mut from: &TcpStream,
    mut to: &TcpStream,
    shared: &Shared,
    mut flips: Option<Flips>,
    pause: Duration,
) -> std::io::Result<()> {
    let mut part = vec![0; if pause.is_zero() { PART } else { SLOW_BYTES }];
    loop {
        let length = from.read(&mut part)?;
        while shared.stalled.load(Ordering::Relaxed) {
            sleep(LOOK);
        }
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        if let Some(flips) = &mut flips {
            flips.damage(&mut part[..length], &shared.bits_left);
        }
        to.write_all(&part[..length])?;
        sleep(pause);
    }
}
