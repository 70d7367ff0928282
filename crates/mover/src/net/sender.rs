//! Sending threads: each serves its streams in turn, a record at a time.
//!
//! A stream that is writable takes the next parcel from the one queue of the session, so no stream idles
//! while there is something to send. A record is checked or sealed just before it is sent, while its bytes
//! are in the core's cache.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::control::Arrived;
use proto::seal::Protection;
use sys::poll::{Epoll, Event, Interest, Waker};
use tokio::sync::mpsc;

use self::stream::Stream;
use super::gate::Gate;
use super::test_data::TestData;
use super::{NetEvent, NetStats, Opened};
use crate::frame::{Frame, Pool};

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
    /// The one stream that takes parcels, by its number; [`ANY`] for whichever is free first.
    pub only: AtomicU32,
}

/// No stream's number.
pub const ANY: u32 = u32::MAX;

impl Shared {
    fn may_take(&self, stream: u16) -> bool {
        let only = self.only.load(Ordering::Relaxed);
        only == ANY || only == u32::from(stream) || self.finish.load(Ordering::Relaxed)
    }
}

enum Command {
    Add(Opened),
    /// End a stream in good order after the parcel that it carries.
    End(u16),
    /// Give a stream up: nothing comes back on it.
    Abandon(u16),
    Stop,
}

/// A running sending thread.
pub struct SendThread {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SendThread {
    /// Starts a thread, where those of the pool are placed.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor.
    pub fn start(name: &str, shared: Arc<Shared>) -> io::Result<SendThread> {
        let (commands, inbox) = bounded(COMMANDS_MAX);
        let waker = Waker::new()?;
        let epoll = Epoll::new()?;
        epoll.add(&waker, u64::MAX, Interest::READ)?;
        let loop_waker = waker.clone();
        let placement = shared.pool.placement().clone();
        let run = move || {
            let streams = BTreeMap::new();
            Loop { shared, inbox, waker: loop_waker, epoll, streams, first: 0, stopping: false }.run();
        };
        let thread = placement.spawn(name.to_owned(), run)?;
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

    /// Gives a stream up on which nothing comes back; what it carried is to be sent again.
    pub fn abandon(&self, id: u16) {
        self.command(Command::Abandon(id));
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
    /// Whose turn is first, or that of the next there is: the one that the set point held back first. It often lets a single record
    /// pass at a time, and if all went to the first stream, the kernel would hold 64 KiB of it, which are sent at its share, while
    /// others run dry (10 Mb/s with 6 streams: 9.4).
    first: u16,
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
                    self.tell(NetEvent::Closed {
                        id,
                        why: Some(format!("watching the socket: {error}")),
                        arrived: Arrived::default(),
                    });
                    return;
                }
                self.streams.insert(id, Stream::new(opened, &self.shared));
            }
            Command::End(id) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.ending = true;
                    stream.writable = true;
                }
            }
            Command::Abandon(id) => {
                if let Some(stream) = self.streams.remove(&id) {
                    // What the kernel holds of it is of no use to anybody.
                    if let Err(error) = sys::socket::set_reset_on_close(&stream.socket) {
                        tracing::debug!(%error, "closing without delay");
                    }
                    self.close(id, stream, Some(io::Error::other("nothing came back on its path")));
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
            let (mut more, mut empty) = (false, self.streams.is_empty());
            let mut closed = Vec::new();
            let mut held = None;
            for half in
                [(Bound::Included(self.first), Bound::Unbounded), (Bound::Unbounded, Bound::Excluded(self.first))]
            {
                for (&id, stream) in self.streams.range_mut(half) {
                    if !stream.writable {
                        continue;
                    }
                    match stream.turn(id, &self.shared) {
                        Turn::More => more = true,
                        Turn::Full => stream.writable = false,
                        Turn::Empty => empty = true,
                        Turn::Gated => held = held.or(Some(id)),
                        Turn::Closed(why) => closed.push((id, why)),
                    }
                }
            }
            self.first = held.unwrap_or(self.first);
            for (id, why) in closed {
                if let Some(stream) = self.streams.remove(&id) {
                    self.close(id, stream, why);
                }
            }
            if !more || !self.inbox.is_empty() {
                return match (more, held, empty) {
                    (true, ..) => Rest::None,
                    (_, Some(_), _) => Rest::Gated,
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
        if let Some(frame) = stream.into_frame() {
            self.shared.pool.give(frame);
        }
        self.tell(NetEvent::Closed { id, why: why.map(|e| e.to_string()), arrived: Arrived::default() });
    }

    fn tell(&self, event: NetEvent) {
        // A session that is gone does not listen any more.
        let _ = self.shared.events.blocking_send(event);
    }
}
