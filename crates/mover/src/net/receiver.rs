//! Receiving threads: each serves its streams as data arrive, a record at a time.
//!
//! The payload of a record is received straight into its place in a frame, checked or opened there while it
//! is in the core's cache, and the frame goes to the writers when its parcel is complete.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::control::Arrived;
use proto::limits::{ARRIVED_PARCELS_MAX, RECORD_PAYLOAD_MAX};
use proto::record::{HEADER, HEADER_COVERED, Header, Kind};
use proto::seal::{CheckError, Protection, Sealer};
use sys::poll::{Epoll, Event, Interest, Waker};
use tokio::sync::mpsc;

use super::backlog::Backlog;
use super::kept::Kept;
use super::wake::Wake;
use super::{NetEvent, NetStats, Opened};
use crate::accept::Permit;
use crate::frame::{Frame, Part, Pool};

/// Commands in the queue of one thread.
const COMMANDS_MAX: usize = 256;
const IDLE: Duration = Duration::from_millis(200);
/// How long a stream that was given up may wait for frames to take what has come over it: the other end waits some seconds
/// for the word of what that was.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// Records of one stream before the next has its turn.
const RECORDS_PER_TURN: usize = 4;

/// What receiving threads share.
pub struct Shared {
    /// Where frames come from.
    pub pool: Pool,
    /// Complete parcels of big files.
    pub chunks: Sender<Frame>,
    /// Complete parcels of small files.
    pub batches: Sender<Frame>,
    /// How many chunks may wait; `None` for as many as there are frames.
    pub backlog: Option<Backlog>,
    /// What came of parcels whose streams have ended.
    pub kept: Kept,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Numbers.
    pub stats: NetStats,
    /// How records are protected.
    pub protection: Protection,
    /// News for the session.
    pub events: mpsc::Sender<NetEvent>,
}

impl Shared {
    /// A frame for the next parcel. With `None` the threads are woken when it is worth asking again.
    fn frame(&self, kind: Kind) -> Option<Frame> {
        let is_enough = |backlog: &Backlog| backlog.is_enough(self.chunks.len(), Instant::now());
        if kind == Kind::Chunk
            && let Some(backlog) = &self.backlog
            && is_enough(backlog)
        {
            self.pool.wait();
            // Asked again, for who took the last ones meanwhile woke nobody.
            if is_enough(backlog) {
                return None;
            }
        }
        self.pool.try_take()
    }
}

enum Command {
    Add(Opened),
    /// Close a stream that the sending end has given up.
    Abandon(u16),
    Stop,
}

/// A running receiving thread.
pub struct RecvThread {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RecvThread {
    /// Starts a thread, where those of the pool are placed, that is woken by `waker`, which the pool wakes too.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor.
    pub fn start(name: &str, shared: Arc<Shared>, waker: Waker) -> io::Result<RecvThread> {
        let (commands, inbox) = bounded(COMMANDS_MAX);
        let epoll = Epoll::new()?;
        epoll.add(&waker, u64::MAX, Interest::READ)?;
        let loop_waker = waker.clone();
        let placement = shared.pool.placement().clone();
        let run = move || {
            let streams = BTreeMap::new();
            Loop { shared, inbox, waker: loop_waker, epoll, streams, stopping: false }.run();
        };
        let thread = placement.spawn(name.to_owned(), run)?;
        Ok(RecvThread { commands, waker, thread: Some(thread) })
    }

    /// Hands a stream to the thread.
    pub fn add(&self, stream: Opened) {
        self.command(Command::Add(stream));
    }

    /// Closes a stream that the sending end has given up.
    pub fn abandon(&self, id: u16) {
        self.command(Command::Abandon(id));
    }

    fn command(&self, command: Command) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

impl Drop for RecvThread {
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

enum Turn {
    /// There may be more to receive.
    More,
    /// Nothing more has arrived.
    Dry,
    /// No frame is free.
    Starved,
    /// It is closed; `None` in good order.
    Closed(Option<String>),
}

impl Loop {
    fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(64);
        let mut starved = false;
        while !self.stopping {
            let asleep = Instant::now();
            let more = self.streams.values().any(|s| s.readable && !s.starved);
            let timeout = if more { Duration::ZERO } else { IDLE };
            if let Err(error) = self.epoll.wait(&mut events, Some(timeout)) {
                tracing::error!(%error, "waiting for sockets");
                break;
            }
            let begin = Instant::now();
            if starved {
                NetStats::add(&self.shared.stats.starved_us, (begin - asleep).as_micros() as u64);
            }
            for event in &events {
                if event.token == u64::MAX {
                    self.waker.drain();
                } else if let Some(stream) = self.streams.get_mut(&(event.token as u16)) {
                    stream.readable |= event.readable || event.error || event.hangup;
                }
            }
            while let Ok(command) = self.inbox.try_recv() {
                match command {
                    Command::Add(opened) => self.add(opened),
                    Command::Abandon(id) => self.abandon(id),
                    Command::Stop => self.stopping = true,
                }
            }
            starved = self.serve();
            NetStats::add(&self.shared.stats.busy_us, begin.elapsed().as_micros() as u64);
        }
        // The sockets are closed by the session, when it has said why: a sender takes a closed one for lost.
        for frame in std::mem::take(&mut self.streams).into_values().filter_map(|stream| stream.frame) {
            self.shared.pool.give(frame);
        }
    }

    fn add(&mut self, opened: Opened) {
        let id = opened.id;
        if let Err(error) = self.epoll.add(opened.socket.as_ref(), u64::from(id), Interest::READ.edge()) {
            let why = Some(format!("watching the socket: {error}"));
            let _ = self.shared.events.blocking_send(NetEvent::Closed { id, why, arrived: Arrived::default() });
            return;
        }
        self.streams.insert(id, Stream::new(opened, self.shared.protection));
    }

    /// Closes a stream once what the kernel has of it now is taken: that has come over the path, and need not come again.
    fn abandon(&mut self, id: u16) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.leaving.is_none()) else { return };
        // What cannot be asked has nothing.
        let bytes = sys::socket::inq(stream.socket.as_fd()).unwrap_or(0);
        stream.leaving = Some(Leaving { bytes, until: Instant::now() + LEAVE_MAX });
        stream.readable = true;
    }

    /// One turn for every stream that has something. True if one waits for a frame.
    fn serve(&mut self) -> bool {
        let mut closed = Vec::new();
        let mut starved = false;
        for (&id, stream) in &mut self.streams {
            if !stream.readable {
                continue;
            }
            stream.starved = false;
            for _ in 0..RECORDS_PER_TURN {
                if stream.leaving.as_ref().is_some_and(Leaving::is_over) {
                    // Its path is dead, or left: there is nobody to take leave of.
                    if let Err(error) = sys::socket::set_reset_on_close(&stream.socket) {
                        tracing::debug!(%error, "closing without delay");
                    }
                    closed.push((id, Some("the stream was given up".to_owned())));
                    break;
                }
                match stream.turn(&self.shared) {
                    Turn::More => continue,
                    Turn::Dry if stream.leaving.is_some() => {
                        stream.leaving = Some(Leaving { bytes: 0, until: Instant::now() });
                        continue;
                    }
                    Turn::Dry => stream.readable = false,
                    Turn::Starved => (stream.starved, starved) = (true, true),
                    Turn::Closed(why) => closed.push((id, why)),
                }
                break;
            }
        }
        for (id, why) in closed {
            if let Some(stream) = self.streams.remove(&id) {
                self.close(stream, why);
            }
        }
        starved
    }

    fn close(&self, stream: Stream, why: Option<String>) {
        let _ = self.epoll.delete(stream.socket.as_ref());
        let _ = stream.socket.shutdown(std::net::Shutdown::Both);
        let Shared { pool, kept, events, stats, .. } = self.shared.as_ref();
        if let Some(Incoming { header: Header { kind: Kind::Memory, .. }, got, .. }) = stream.incoming {
            // Nobody will check them.
            stats.test_bytes.fetch_sub(got as u64, Ordering::Relaxed);
        }
        let begun = match stream.frame {
            Some(frame) if stream.corrupt => {
                pool.give(frame);
                None
            }
            frame => frame.and_then(|frame| kept.keep(frame, pool)),
        };
        let arrived = Arrived { whole: stream.arrived.into(), begun };
        let _ = events.blocking_send(NetEvent::Closed { id: stream.id, why, arrived });
    }
}

/// A record whose payload is arriving.
struct Incoming {
    header: Header,
    covered: [u8; HEADER_COVERED],
    check: [u8; HEADER - HEADER_COVERED],
    /// Where the payload goes in the frame (or the scratch).
    start: usize,
    got: usize,
}

/// A stream that was given up and takes what the kernel had of it then.
struct Leaving {
    /// What is left of that.
    bytes: u64,
    /// It waits no longer for frames.
    until: Instant,
}

impl Leaving {
    fn is_over(&self) -> bool {
        self.bytes == 0 || Instant::now() >= self.until
    }
}

struct Stream {
    id: u16,
    socket: Arc<TcpStream>,
    /// Its place in the agent's budget, until it is gone.
    _permit: Option<Permit>,
    opener: Sealer,
    readable: bool,
    starved: bool,
    /// It was given up.
    leaving: Option<Leaving>,
    head: [u8; HEADER],
    head_got: usize,
    incoming: Option<Incoming>,
    /// Test data are received here, checked and dropped; empty until the first record of a test. Each stream
    /// has its own: a record that has arrived in part outlasts the stream's turn.
    scratch: Vec<u8>,
    /// The parcel that is being put together.
    frame: Option<Frame>,
    /// End of what is in the frame (batches).
    filled: usize,
    /// It cannot be used, and is to come again.
    corrupt: bool,
    /// Because a record of it was damaged.
    damaged: bool,
    /// The parcels that were handed on last: each of those that have not landed has a frame.
    arrived: VecDeque<u64>,
    wake: Wake,
}

impl Stream {
    fn new(opened: Opened, protection: Protection) -> Stream {
        let secret = if opened.connected { &opened.secrets.backward } else { &opened.secrets.forward };
        Stream {
            id: opened.id,
            opener: Sealer::new(protection, secret),
            socket: opened.socket,
            _permit: opened.permit,
            readable: true,
            starved: false,
            leaving: None,
            head: [0; HEADER],
            head_got: 0,
            incoming: None,
            scratch: Vec::new(),
            frame: None,
            filled: 0,
            corrupt: false,
            damaged: false,
            arrived: VecDeque::new(),
            wake: Wake::default(),
        }
    }

    /// Receives what completes a header or a payload, and what follows of the next header with it.
    fn turn(&mut self, shared: &Shared) -> Turn {
        if self.incoming.is_none() && self.head_got == HEADER {
            match self.begin(shared) {
                Ok(()) => {}
                Err(turn) => return turn,
            }
            // Nothing more will arrive for a record without payload: a hole, or the end.
            if self.incoming.as_ref().is_some_and(|i| i.header.len == 0) {
                return self.finish(shared);
            }
        }
        let received = match &mut self.incoming {
            None => sys::socket::recv(self.socket.as_fd(), &mut self.head[self.head_got..]),
            Some(incoming) => {
                let len = incoming.header.len as usize;
                let space = match &mut self.frame {
                    Some(frame) => &mut frame.buf[incoming.start + incoming.got..incoming.start + len],
                    None => &mut self.scratch[incoming.got..len],
                };
                let mut parts = [IoSliceMut::new(space), IoSliceMut::new(&mut self.head)];
                sys::socket::recvv(self.socket.as_fd(), &mut parts)
            }
        };
        let n = match received {
            Ok(0) => return Turn::Closed(Some("the other end closed the connection".to_owned())),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.wait_for_the_rest();
                return Turn::Dry;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Turn::More,
            Err(e) => return Turn::Closed(Some(e.to_string())),
        };
        if let Some(leaving) = &mut self.leaving {
            leaving.bytes = leaving.bytes.saturating_sub(n as u64);
        }
        match &mut self.incoming {
            None => self.head_got += n,
            Some(incoming) => {
                let missing = incoming.header.len as usize - incoming.got;
                incoming.got += n.min(missing);
                if incoming.header.kind == Kind::Memory {
                    NetStats::add(&shared.stats.test_bytes, n.min(missing) as u64);
                }
                self.head_got = n.saturating_sub(missing);
                if incoming.got == incoming.header.len as usize {
                    return self.finish(shared);
                }
            }
        }
        Turn::More
    }

    /// Has the kernel wake this thread when a good part of what is missing has arrived, not for every segment.
    fn wait_for_the_rest(&mut self) {
        let missing = match &self.incoming {
            None => HEADER - self.head_got,
            Some(incoming) => incoming.header.len as usize - incoming.got,
        };
        self.wake.wait_for(self.socket.as_fd(), missing);
    }

    /// A header is whole: finds a place for its payload.
    fn begin(&mut self, shared: &Shared) -> Result<(), Turn> {
        let covered: [u8; HEADER_COVERED] = self.head[..HEADER_COVERED].try_into().expect("32 bytes");
        let header = Header::decode(&covered).map_err(|e| Turn::Closed(Some(e.to_string())))?;
        let memory = matches!(header.kind, Kind::Memory | Kind::End);
        if (memory || header.is_rest()) && self.frame.is_some() {
            return Err(Turn::Closed(Some("a parcel was cut off by another kind of record".to_owned())));
        }
        if header.kind == Kind::Memory && self.scratch.is_empty() {
            self.scratch = vec![0; RECORD_PAYLOAD_MAX];
        }
        if !memory && self.frame.is_none() {
            let mut frame = shared.kept.take(&header).or_else(|| shared.frame(header.kind)).ok_or(Turn::Starved)?;
            (frame.parcel, frame.kind) = (header.parcel, header.kind);
            self.filled = frame.parts.last().map_or(0, |part| (part.start + part.len) as usize);
            // A rest of which the begin is not here is of no use: all of it is to come again.
            (self.corrupt, self.damaged) = (header.is_rest() && frame.parts.is_empty(), false);
            self.frame = Some(frame);
        }
        let start = match &self.frame {
            None => 0,
            Some(frame) => {
                if (frame.parcel, frame.kind) != (header.parcel, header.kind) {
                    return Err(Turn::Closed(Some("records of two parcels are mixed".to_owned())));
                }
                let start = match header.kind {
                    // A chunk keeps its place, so that it can be written with O_DIRECT as it stands.
                    Kind::Chunk => (header.offset % u64::from(shared.chunk_size)) as usize,
                    _ => self.filled,
                };
                // What has passed its check is not written over, least of all by what nobody has checked yet.
                if start < self.filled {
                    return Err(Turn::Closed(Some("a parcel is out of order".to_owned())));
                }
                if start + header.len as usize > frame.buf.len() {
                    return Err(Turn::Closed(Some("a parcel is longer than a chunk".to_owned())));
                }
                start
            }
        };
        let check = self.head[HEADER_COVERED..].try_into().expect("16 bytes");
        self.incoming = Some(Incoming { header, covered, check, start, got: 0 });
        self.head_got = 0;
        Ok(())
    }

    /// A payload is whole: checks it and, with the last record, hands the parcel on.
    fn finish(&mut self, shared: &Shared) -> Turn {
        let Incoming { header, covered, check, start, .. } = self.incoming.take().expect("caller has seen it");
        let len = header.len as usize;
        let payload = match &mut self.frame {
            Some(frame) => &mut frame.buf[start..start + len],
            None => &mut self.scratch[..len],
        };
        match self.opener.open(&covered, &check, payload) {
            Ok(()) => NetStats::add(&shared.stats.bytes, u64::from(header.len)),
            // Nothing of a test is sent again: damage ends the stream, and is seen in the summary.
            Err(CheckError::Payload) if header.kind == Kind::Memory => {
                return Turn::Closed(Some("a record of test data arrived damaged".to_owned()));
            }
            Err(CheckError::Payload) => (self.corrupt, self.damaged) = (true, true),
            Err(CheckError::Stream) => return Turn::Closed(Some(CheckError::Stream.to_string())),
        }
        NetStats::add(&shared.stats.records, 1);
        match header.kind {
            Kind::End => return Turn::Closed(None),
            Kind::Memory => {
                if header.is_last() {
                    NetStats::add(&shared.stats.parcels, 1);
                }
                return Turn::More;
            }
            // It has only named the place.
            Kind::Chunk | Kind::Small if header.is_rest() => return Turn::More,
            Kind::Chunk | Kind::Small => {}
        }
        self.filled = start + len;
        let frame = self.frame.as_mut().expect("data records have a frame");
        if !join(&mut frame.parts, &header, start) {
            return Turn::Closed(Some("a parcel has too many parts".to_owned()));
        }
        if header.is_last() {
            return self.hand_on(shared);
        }
        Turn::More
    }

    fn hand_on(&mut self, shared: &Shared) -> Turn {
        let frame = self.frame.take().expect("caller has seen it");
        if self.corrupt {
            let event = NetEvent::Corrupt { parcel: frame.parcel, is_damaged: self.damaged };
            shared.pool.give(frame);
            return match shared.events.blocking_send(event) {
                Ok(()) => Turn::More,
                Err(_) => Turn::Closed(None),
            };
        }
        NetStats::add(&shared.stats.parcels, 1);
        let to = if frame.kind == Kind::Chunk { &shared.chunks } else { &shared.batches };
        let parcel = frame.parcel;
        // The queue has room for every frame there is.
        match to.send(frame) {
            Ok(()) => {
                self.arrived.truncate(shared.pool.count().min(ARRIVED_PARCELS_MAX) - 1);
                self.arrived.push_front(parcel);
                Turn::More
            }
            Err(gone) => {
                shared.pool.give(gone.0);
                Turn::Closed(None)
            }
        }
    }
}

/// Most parts of a parcel: each small file of a batch may begin a new record.
const PARTS_MAX: usize = 4096;

/// Adds a record to the parts, joining it to the one before if it continues it.
fn join(parts: &mut Vec<Part>, header: &Header, start: usize) -> bool {
    if let Some(last) = parts.last_mut()
        && last.file == header.file
        && last.generation == header.generation
        && !last.file_end
        && last.offset + u64::from(last.len) == header.offset
        && (last.start + last.len) as usize == start
    {
        last.len += header.len;
        last.file_end = header.is_file_end();
        return true;
    }
    parts.push(Part {
        file: header.file,
        generation: header.generation,
        offset: header.offset,
        start: start as u32,
        len: header.len,
        file_end: header.is_file_end(),
    });
    parts.len() <= PARTS_MAX
}

#[cfg(test)]
mod tests;
