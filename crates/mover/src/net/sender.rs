//! Sending threads: each serves its streams in turn, a record at a time.
//!
//! A stream that is writable takes the next parcel from the one queue of the session, so no stream idles
//! while there is something to send. A record is checked or sealed just before it is sent, while its bytes
//! are in the core's cache.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::limits::RECORD_PAYLOAD_MAX;
use proto::record::{CHECK, FILE_END, HEADER, HEADER_COVERED, Header, Kind, LAST};
use proto::seal::{PayloadCheck, Protection, Sealer};
use sys::poll::{Epoll, Event, Interest, Waker};
use tokio::sync::mpsc;

use super::gate::Gate;
use super::test_data::TestData;
use super::{NetEvent, NetStats, Opened};
use crate::frame::{Frame, Part, Pool};

/// Commands in the queue of one thread.
const COMMANDS_MAX: usize = 256;
/// How long a thread sleeps when nothing happens; it is woken for everything that matters.
const IDLE: Duration = Duration::from_millis(200);
/// How long it sleeps when the set point allows nothing more just now.
const GATED: Duration = Duration::from_millis(1);

/// Opens a gate as far as the set point allows now.
pub type Refill = Box<dyn Fn(&Gate) + Send + Sync>;

/// What sending threads share.
pub struct Shared {
    /// Parcels ready to be sent, in order.
    pub ready: Receiver<Frame>,
    /// Where frames go when all of a parcel is with the kernel.
    pub pool: Pool,
    /// A test: its data are made as they are sent, until `finish` is set, and nothing comes from the queue.
    pub test: Option<TestData>,
    /// The set point.
    pub gate: Gate,
    /// Asks the pacer to open the gate as far as it may be now; called when a record does not pass.
    pub refill: OnceLock<Refill>,
    /// Numbers.
    pub stats: NetStats,
    /// How records are protected.
    pub protection: Protection,
    /// News for the session.
    pub events: mpsc::Sender<NetEvent>,
    /// No more parcels will come: streams end when the queue is empty.
    pub finish: AtomicBool,
}

enum Command {
    Add(Opened),
    /// End a stream in good order after the parcel that it carries.
    End(u16),
    Stop,
}

/// A running sending thread.
pub struct SendThread {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SendThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor.
    pub fn start(name: &str, shared: Arc<Shared>) -> io::Result<SendThread> {
        let (commands, inbox) = bounded(COMMANDS_MAX);
        let waker = Waker::new()?;
        let epoll = Epoll::new()?;
        epoll.add(&waker, u64::MAX, Interest::READ)?;
        let loop_waker = waker.clone();
        let run = move || {
            let streams = BTreeMap::new();
            Loop { shared, inbox, waker: loop_waker, epoll, streams, stopping: false }.run();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(SendThread { commands, waker, thread: Some(thread) })
    }

    /// Hands a stream to the thread.
    pub fn add(&self, stream: Opened) {
        self.command(Command::Add(stream));
    }

    /// Ends a stream after the parcel that it carries.
    pub fn end(&self, id: u16) {
        self.command(Command::End(id));
    }

    /// There may be something to send.
    pub fn wake(&self) {
        self.waker.wake();
    }

    fn command(&self, command: Command) {
        // The thread ends only by Stop or a failure of the OS; then nobody listens and that is fine.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

impl Drop for SendThread {
    fn drop(&mut self) {
        self.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    shared: Arc<Shared>,
    inbox: Receiver<Command>,
    waker: Waker,
    epoll: Epoll,
    streams: BTreeMap<u16, Stream>,
    stopping: bool,
}

/// Why a thread sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It does not.
    None,
    /// The set point allows nothing more just now.
    Gated,
    /// There is no parcel for a stream that could send.
    Empty,
    /// All sockets are full.
    Full,
}

impl Rest {
    fn timeout(self) -> Duration {
        match self {
            Rest::None => Duration::ZERO,
            Rest::Gated => GATED,
            Rest::Empty | Rest::Full => IDLE,
        }
    }
}

/// What a turn of a stream came to.
enum Turn {
    /// It sent something and may send more.
    More,
    /// The socket is full.
    Full,
    /// There is no parcel.
    Empty,
    /// The set point allows nothing more.
    Gated,
    /// It is closed; `None` in good order.
    Closed(Option<io::Error>),
}

impl Loop {
    fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(64);
        let mut rest = Rest::Empty;
        while !self.stopping {
            let asleep = Instant::now();
            if let Err(error) = self.epoll.wait(&mut events, Some(rest.timeout())) {
                tracing::error!(%error, "waiting for sockets");
                break;
            }
            let begin = Instant::now();
            self.account(rest, begin - asleep);
            for event in &events {
                if event.token == u64::MAX {
                    self.waker.drain();
                } else if event.hangup || event.error {
                    self.lost(event.token as u16);
                } else if let Some(stream) = self.streams.get_mut(&(event.token as u16)) {
                    stream.writable |= event.writable;
                }
            }
            while let Ok(command) = self.inbox.try_recv() {
                self.command(command);
            }
            rest = self.serve();
            NetStats::add(&self.shared.stats.busy_us, begin.elapsed().as_micros() as u64);
        }
        for (id, stream) in std::mem::take(&mut self.streams) {
            self.close(id, stream, Some(io::Error::other("stopped")));
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Add(opened) => {
                let id = opened.id;
                if let Err(error) = self.epoll.add(opened.socket.as_ref(), u64::from(id), Interest::BOTH.edge()) {
                    self.tell(NetEvent::Closed { id, why: Some(format!("watching the socket: {error}")) });
                    return;
                }
                self.streams.insert(id, Stream::new(opened, self.shared.protection));
            }
            Command::End(id) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.ending = true;
                    stream.writable = true;
                }
            }
            Command::Stop => self.stopping = true,
        }
    }

    /// Books the time asleep on what was waited for.
    fn account(&self, rest: Rest, asleep: Duration) {
        let us = asleep.as_micros() as u64;
        match rest {
            Rest::Gated => NetStats::add(&self.shared.stats.gated_us, us),
            Rest::Empty => NetStats::add(&self.shared.stats.starved_us, us),
            Rest::Full | Rest::None => {}
        }
    }

    /// Gives every stream that can send a turn, again and again, until none can. Says why.
    fn serve(&mut self) -> Rest {
        loop {
            let (mut more, mut gated, mut empty) = (false, false, self.streams.is_empty());
            let mut closed = Vec::new();
            for (&id, stream) in &mut self.streams {
                if !stream.writable {
                    continue;
                }
                match stream.turn(id, &self.shared) {
                    Turn::More => more = true,
                    Turn::Full => stream.writable = false,
                    Turn::Empty => empty = true,
                    Turn::Gated => gated = true,
                    Turn::Closed(why) => closed.push((id, why)),
                }
            }
            for (id, why) in closed {
                if let Some(stream) = self.streams.remove(&id) {
                    self.close(id, stream, why);
                }
            }
            if !more || !self.inbox.is_empty() {
                return match (more, gated, empty) {
                    (true, ..) => Rest::None,
                    (_, true, _) => Rest::Gated,
                    (.., true) => Rest::Empty,
                    _ => Rest::Full,
                };
            }
        }
    }

    /// The other end closed a stream before this one did. Nothing may be left to send that would show it, and what
    /// the stream carried may not have landed.
    fn lost(&mut self, id: u16) {
        if let Some(stream) = self.streams.remove(&id) {
            self.close(id, stream, Some(io::Error::other("the other end closed the connection")));
        }
    }

    fn close(&self, id: u16, stream: Stream, why: Option<io::Error>) {
        let _ = self.epoll.delete(stream.socket.as_ref());
        let half = if why.is_none() { std::net::Shutdown::Write } else { std::net::Shutdown::Both };
        let _ = stream.socket.shutdown(half);
        if let Load::Frame(frame) = stream.load {
            self.shared.pool.give(frame);
        }
        self.tell(NetEvent::Closed { id, why: why.map(|e| e.to_string()) });
    }

    fn tell(&self, event: NetEvent) {
        // A session that is gone does not listen any more.
        let _ = self.shared.events.blocking_send(event);
    }
}

/// The parcel that a stream carries.
enum Load {
    None,
    /// One of a copy.
    Frame(Frame),
    /// One of a test, by its number.
    Made(u64),
}

struct Stream {
    socket: Arc<TcpStream>,
    sealer: Sealer,
    writable: bool,
    ending: bool,
    /// The parcel that is being sent, the part and the byte in it where the next record begins.
    load: Load,
    part: usize,
    at: u32,
    /// The record that is being sent: its header, where its payload is, and how much of both is sent.
    head: [u8; HEADER],
    payload: std::ops::Range<usize>,
    sent: usize,
    in_record: bool,
    last: bool,
    end_sent: bool,
    /// Payload of a record of a test.
    made: Vec<u8>,
    /// Its check, if that was made with it.
    checked: Option<PayloadCheck>,
    /// Sealed payload (private protection only).
    sealed: Vec<u8>,
}

impl Stream {
    fn new(opened: Opened, protection: Protection) -> Stream {
        let secret = if opened.connected { &opened.secrets.forward } else { &opened.secrets.backward };
        let sealed = if protection == Protection::Private { vec![0; RECORD_PAYLOAD_MAX] } else { Vec::new() };
        Stream {
            sealer: Sealer::new(protection, secret),
            socket: opened.socket,
            writable: true,
            ending: false,
            load: Load::None,
            part: 0,
            at: 0,
            head: [0; HEADER],
            payload: 0..0,
            sent: 0,
            in_record: false,
            last: false,
            end_sent: false,
            made: Vec::new(),
            checked: None,
            sealed,
        }
    }

    fn turn(&mut self, id: u16, shared: &Shared) -> Turn {
        if !self.in_record {
            match self.next_record(id, shared) {
                Ok(()) => {}
                Err(turn) => return turn,
            }
        }
        let payload = match self.sealed.get(..self.payload.len()) {
            Some(sealed) => sealed,
            None => plain(&self.load, &self.made, &self.payload),
        };
        let total = HEADER + payload.len();
        let result = if self.sent < HEADER {
            sys::socket::sendv(
                self.socket.as_fd(),
                &[IoSlice::new(&self.head[self.sent..]), IoSlice::new(payload)],
                false,
            )
        } else {
            sys::socket::send(self.socket.as_fd(), &payload[self.sent - HEADER..], false)
        };
        match result {
            Ok(n) => self.sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Turn::Full,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Turn::More,
            Err(e) => return Turn::Closed(Some(e)),
        }
        if self.sent < total {
            return Turn::More;
        }
        self.in_record = false;
        if self.end_sent {
            return Turn::Closed(None);
        }
        if self.last {
            NetStats::add(&shared.stats.parcels, 1);
            if let Load::Frame(frame) = std::mem::replace(&mut self.load, Load::None) {
                shared.pool.give(frame);
            }
        }
        Turn::More
    }

    /// Makes the next record, from the parcel at hand or the next one of the queue.
    fn next_record(&mut self, id: u16, shared: &Shared) -> Result<(), Turn> {
        if matches!(self.load, Load::None) {
            self.load(id, shared)?;
            if self.end_sent {
                return Ok(());
            }
        }
        let (kind, parcel, part) = match (&self.load, &shared.test) {
            (Load::Frame(frame), _) => (frame.kind, frame.parcel, frame.parts[self.part]),
            (&Load::Made(parcel), Some(test)) => {
                let len = test.parcel_bytes();
                (Kind::Memory, parcel, Part { file: 0, generation: 0, offset: 0, start: 0, len, file_end: false })
            }
            _ => unreachable!("a parcel was loaded"),
        };
        let len = (part.len - self.at).min(shared.gate.record_bytes());
        let bytes = u64::from(len) + HEADER as u64;
        if !shared.gate.pass(bytes) {
            if let Some(refill) = shared.refill.get() {
                refill(&shared.gate);
            }
            if !shared.gate.pass(bytes) {
                return Err(Turn::Gated);
            }
        }
        let part_done = self.at + len == part.len;
        let parts = if let Load::Frame(frame) = &self.load { frame.parts.len() } else { 1 };
        self.last = part_done && self.part + 1 == parts;
        let flags = if self.last { LAST } else { 0 } | if part_done && part.file_end { FILE_END } else { 0 };
        let header = Header {
            kind,
            flags,
            generation: part.generation,
            len,
            parcel,
            file: part.file,
            offset: part.offset + u64::from(self.at),
        };
        let start = (part.start + self.at) as usize;
        self.payload = start..start + len as usize;
        if let Some(test) = &shared.test {
            self.made.resize(RECORD_PAYLOAD_MAX, 0);
            let mut check = (shared.protection == Protection::Clear).then(PayloadCheck::default);
            test.fill(parcel, self.at, &mut self.made[..len as usize], check.as_mut());
            self.payload = 0..len as usize;
            self.checked = check;
        }
        self.seal(&header);
        if part_done {
            self.part += 1;
            self.at = 0;
        } else {
            self.at += len;
        }
        NetStats::add(&shared.stats.bytes, u64::from(len));
        NetStats::add(&shared.stats.records, 1);
        Ok(())
    }

    /// Takes the next parcel.
    fn load(&mut self, id: u16, shared: &Shared) -> Result<(), Turn> {
        let finish = shared.finish.load(Ordering::Acquire);
        if self.ending || (shared.test.is_some() && finish) {
            return self.end_record();
        }
        (self.part, self.at) = (0, 0);
        if let Some(test) = &shared.test {
            self.load = Load::Made(test.take());
            return Ok(());
        }
        let Ok(frame) = shared.ready.try_recv() else {
            return if finish { self.end_record() } else { Err(Turn::Empty) };
        };
        if shared.events.blocking_send(NetEvent::Sending { parcel: frame.parcel, stream: id }).is_err() {
            shared.pool.give(frame);
            return Err(Turn::Closed(Some(io::Error::other("the session is gone"))));
        }
        self.load = Load::Frame(frame);
        Ok(())
    }

    fn end_record(&mut self) -> Result<(), Turn> {
        let end = Header { kind: Kind::End, flags: LAST, generation: 0, len: 0, parcel: 0, file: 0, offset: 0 };
        self.payload = 0..0;
        self.seal(&end);
        self.end_sent = true;
        Ok(())
    }

    fn seal(&mut self, header: &Header) {
        let covered = header.encode();
        let payload = plain(&self.load, &self.made, &self.payload);
        let check: [u8; CHECK] = match self.checked.take() {
            Some(checked) => self.sealer.seal_checked(&covered, checked),
            None => self.sealer.seal(&covered, payload, &mut self.sealed),
        };
        self.head[..HEADER_COVERED].copy_from_slice(&covered);
        self.head[HEADER_COVERED..].copy_from_slice(&check);
        self.sent = 0;
        self.in_record = true;
    }
}

/// The payload of a record before it is sealed.
fn plain<'a>(load: &'a Load, made: &'a [u8], payload: &std::ops::Range<usize>) -> &'a [u8] {
    match load {
        Load::None => &[],
        Load::Frame(frame) => &frame.buf[payload.clone()],
        Load::Made(_) => &made[payload.clone()],
    }
}
