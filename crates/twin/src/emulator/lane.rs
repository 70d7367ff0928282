//! One thread of the emulator: its links, and the loop that carries their packets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use model::network::Direction;
use sim::histogram::Histogram;
use sim::link::{Admission, Counters, Departure, Link, Output};
use sys::poll::{EVENTS_MAX, Epoll, Event, Interest, Waker};
use sys::tun::{Stamps, Tun};

use super::outlet::Outlet;
use super::pace::{Came, Pace};
use super::rehearsal::Rehearsal;
use super::ring::Ring;
use super::store::Store;
use crate::packet;

/// Departures in a row before the devices are looked at again.
const RELEASE_BATCH: usize = 32;
/// Packets read from one device in a row: what is due must not wait long for what comes in.
const READ_BATCH: usize = 8;
/// Pieces that left in the last step, of each 0.1 ms, from which on datagrams are joined: 160,000 packets a second. Below the thread has the time to write each, and they are
/// counted and captured at the other end one by one.
const JOINED_FROM: u32 = 16;
/// Longest sleep: nothing depends on it.
const SLEEP_MAX: u64 = 10_000_000_000;
/// Number of the waker among the devices.
const WAKER: u64 = u64::MAX;

/// One direction of a link.
pub(super) struct Half {
    /// The device where its packets are read, in the namespace that they come from.
    pub(super) from: Arc<Tun>,
    /// The device where they are written; the other direction reads there.
    pub(super) to: Outlet,
    /// The machine.
    pub(super) link: Link,
}

/// What happened outside the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unplanned {
    /// Packets that were not read for want of memory.
    pub no_memory: u64,
    /// Packets that are not IP, or not as long as they say.
    pub malformed: u64,
    /// Pieces that the device at the other end did not take (it is down).
    pub refused: u64,
    /// Packets, super-packets as one, that the kernel dropped before they could be read: more came than wait in a device.
    pub tx_dropped: u64,
}

/// What one direction has to tell.
#[derive(Clone, Debug)]
pub struct Told {
    /// Nanoseconds since the emulator began.
    pub at: u64,
    /// The machine's counters.
    pub counters: Counters,
    /// What happened outside it.
    pub unplanned: Unplanned,
    /// How much earlier packets may have come than the machine was told, nanoseconds; one entry for each that was read.
    pub ingress_wait: Histogram,
}

/// What a lane is asked; a direction is named by its place in the lane.
pub(super) enum Command {
    /// Change a direction from the next segment on.
    Set(usize, Box<Direction>),
    /// Lose so many segments.
    Drop(usize, u32),
    /// Let nothing through any more; what is on the way is lost.
    Cut(usize),
    /// Let packets through again.
    Heal(usize),
    /// Tell of a direction.
    Tell(usize, SyncSender<Told>),
    /// End.
    Stop,
}

/// A thread's directions of links.
pub(super) struct Lane {
    halves: Vec<Half>,
    unplanned: Vec<Unplanned>,
    rings: Vec<Ring>,
    ingress_waits: Vec<Histogram>,
    /// When each half has something to release, as far as it stands in `due`.
    scheduled: Vec<Option<u64>>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Devices that may have something to read, in turn.
    readable: VecDeque<usize>,
    is_readable: Vec<bool>,
    store: Store,
    /// Halves with packets that wait to be written.
    waiting: Vec<usize>,
    /// Headers of a piece.
    scratch: Vec<u8>,
    epoll: Epoll,
    waker: Waker,
    commands: Receiver<Command>,
    /// When the emulator began, by CLOCK_MONOTONIC, with which the kernel stamps packets.
    begin: Duration,
    /// Of what comes into the devices, where the kernel can do that.
    stamps: Option<Stamps>,
    /// Where the kernel lets it have a host of its own.
    rehearsal: Option<Rehearsal>,
    pace: Pace,
    /// Least delay of the links.
    delay: u64,
    /// The step that is under way: what was due by then leaves in it. What falls due while it is carried away waits for the next one: a
    /// packet takes as long to write as a segment or two take at 5 Gb/s, and each of those would leave as a packet of its own.
    until: Option<u64>,
    /// Bytes that left in it,
    step: u64,
    /// and pieces.
    pieces: u32,
    /// The last step had [`JOINED_FROM`] of them.
    joins: bool,
    /// When the packets came that are about to be read.
    came: Came,
}

impl Lane {
    /// A lane of the given halves, to be commanded through `commands` and the waker that is given.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn new(
        halves: Vec<Half>,
        waker: Waker,
        commands: Receiver<Command>,
        begin: Duration,
    ) -> io::Result<Lane> {
        let epoll = Epoll::new()?;
        epoll.add(&waker, WAKER, Interest::READ)?;
        for (n, half) in halves.iter().enumerate() {
            epoll.add(&*half.from, n as u64, Interest::READ.edge())?;
        }
        let stamps = stamping(&halves).inspect_err(|error| {
            tracing::warn!(
                "the kernel cannot stamp packets ({error}): round trips of idle links are less exact, up to 0.1 ms"
            );
        });
        let rehearsal = Rehearsal::new().inspect_err(|error| {
            tracing::warn!("no host to rehearse with ({error}): round trips of idle links may be 0.5 ms too long");
        });
        let count = halves.len();
        let delay = least_delay(&halves);
        Ok(Lane {
            halves,
            unplanned: vec![Unplanned::default(); count],
            rings: vec![Ring::default(); count],
            ingress_waits: vec![Histogram::new(); count],
            scheduled: vec![None; count],
            due: BinaryHeap::new(),
            readable: VecDeque::with_capacity(count),
            is_readable: vec![false; count],
            store: Store::default(),
            waiting: Vec::new(),
            scratch: Vec::with_capacity(packet::MAX_LEN),
            epoll,
            waker,
            commands,
            begin,
            stamps: stamps.ok(),
            rehearsal: rehearsal.ok(),
            pace: Pace::default(),
            delay,
            until: None,
            step: 0,
            pieces: 0,
            joins: false,
            came: Came::default(),
        })
    }

    fn since_begin(&self, at: Duration) -> u64 {
        at.saturating_sub(self.begin).as_nanos() as u64
    }

    fn now(&self) -> u64 {
        self.since_begin(sys::clock::monotonic())
    }

    /// Carries packets until it is told to stop.
    ///
    /// # Errors
    /// When waiting fails, which only a fault of this program explains.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            if self.is_time() {
                self.release();
            }
            self.read();
            self.sleep(&mut events)?;
            for event in &events {
                if event.token == WAKER {
                    self.waker.drain();
                    while let Ok(command) = self.commands.try_recv() {
                        if !self.obey(command) {
                            return Ok(());
                        }
                    }
                } else {
                    let n = event.token as usize;
                    if !std::mem::replace(&mut self.is_readable[n], true) {
                        self.rings[n].fills(self.came.earliest);
                        self.readable.push_back(n);
                    }
                }
            }
        }
    }

    /// Whether something is to be released now.
    fn is_time(&self) -> bool {
        self.until.is_some() || self.due.peek().is_some_and(|&Reverse((due, _))| self.pace.release(due) <= self.now())
    }

    /// Sleeps until something is to be released or comes, if nothing is there already. Where a device has more to read there may be no events without a look.
    fn sleep(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let begin = self.now();
        if !self.readable.is_empty()
            && let Some(came) = self.pace.turn(begin)
        {
            self.came = came;
            return Ok(());
        }
        if let Some(stamps) = &self.stamps {
            stamps.arm();
        }
        let due = self.due.peek().map(|&Reverse((due, _))| due);
        let mut span = match due {
            _ if !self.readable.is_empty() => 0,
            Some(due) => self.pace.until(begin, due).saturating_sub(begin).min(SLEEP_MAX),
            None => SLEEP_MAX,
        };
        if span > 0
            && let Some(next) = self.rehearse(begin, due)
        {
            span = span.min(next - begin);
        }
        if self.pace.is_deaf(begin, span, self.delay) {
            std::thread::sleep(Duration::from_nanos(span));
            self.epoll.wait_exactly(events, Duration::ZERO)?;
            self.came = self.pace.woken_deaf(begin, span, self.now(), self.first(), self.last());
            return Ok(());
        }
        if let Some(rest) = self.pace.rest(begin) {
            std::thread::sleep(Duration::from_nanos(rest));
            span = if span > 0 { span.max(rest) } else { 0 };
        }
        let left = if span > 0 { (begin + span).saturating_sub(self.now()) } else { 0 };
        self.epoll.wait_exactly(events, Duration::from_nanos(left))?;
        let end = self.now();
        self.came = self.pace.woken(begin, span, end, !events.is_empty(), self.first());
        Ok(())
    }

    /// Rehearses if it is time for that; when it is to be the next time, later than `now`.
    fn rehearse(&mut self, now: u64, due: Option<u64>) -> Option<u64> {
        let released = self.pace.last_release();
        if self.rehearsal.as_ref()?.next(now, released, due)? == now {
            self.rehearse_release();
            self.rehearsal.as_mut()?.play(now);
        }
        self.rehearsal.as_ref()?.next(now, released, due)
    }

    /// Does with what leaves next all that is done before it is written, so that what this takes in memory is at hand then.
    fn rehearse_release(&mut self) {
        let Some(&Reverse((_, n))) = self.due.peek() else { return };
        let Some(Departure { key, first, count, fate, .. }) = self.halves[n].link.preview() else { return };
        if let Ok(cut) = packet::cut(self.store.get(key), first, count, fate, &mut self.scratch) {
            black_box(cut.payload.first());
        }
    }

    /// When the first packet of a sleep came, if there was one and the kernel can say it.
    fn first(&self) -> Option<u64> {
        self.stamps.as_ref().and_then(Stamps::first).map(|at| self.since_begin(at))
    }

    /// When the last packet came, if the kernel can say it.
    fn last(&self) -> Option<u64> {
        self.stamps.as_ref().and_then(Stamps::last).map(|at| self.since_begin(at))
    }

    /// For when a packet is taken to have come that has just been read.
    fn found(&self) -> u64 {
        let last = self.last();
        self.came.found(self.now(), last)
    }

    /// Releases some of what is due, in the order in which it is due. Whether there may be more.
    fn release(&mut self) -> bool {
        let is_more = self.release_some();
        for n in self.waiting.drain(..) {
            self.halves[n].to.flush();
        }
        is_more
    }

    /// The same; datagrams may wait to be written with others.
    fn release_some(&mut self) -> bool {
        for _ in 0..RELEASE_BATCH {
            let now = self.now();
            let until = *self.until.get_or_insert(now);
            let Some(&Reverse((due, n))) = self.due.peek().filter(|Reverse((due, _))| *due <= until) else {
                if self.step > 0 {
                    self.pace.released(until, std::mem::take(&mut self.step), self.delay);
                    self.joins = self.pace.is_rate(std::mem::take(&mut self.pieces), JOINED_FROM);
                }
                self.until = None;
                return false;
            };
            self.due.pop();
            // A change of the link may have scheduled it anew.
            if self.scheduled[n] != Some(due) {
                continue;
            }
            self.scheduled[n] = None;
            match self.halves[n].link.poll_until(now, until) {
                Some(Output::Departure(departure)) => {
                    self.write(n, &departure);
                    if departure.last {
                        self.store.forget(departure.key);
                    }
                }
                Some(Output::Forget(key)) => self.store.forget(key),
                None => {}
            }
            self.schedule(n);
        }
        true
    }

    fn write(&mut self, n: usize, departure: &Departure) {
        let Departure { key, first, count, fate, .. } = *departure;
        match packet::cut(self.store.get(key), first, count, fate, &mut self.scratch) {
            Ok(cut) => {
                self.step += (cut.head.len() + cut.payload.len()) as u64;
                self.pieces += 1;
                if self.halves[n].to.write(cut, self.joins) && self.waiting.last() != Some(&n) {
                    self.waiting.push(n);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a piece was not cut");
                self.unplanned[n].malformed += 1;
            }
        }
    }

    fn schedule(&mut self, n: usize) {
        let next = self.halves[n].link.poll_timeout();
        if next != self.scheduled[n] {
            self.scheduled[n] = next;
            self.due.extend(next.map(|due| Reverse((due, n))));
        }
    }

    /// Reads some packets from each device that has any, until something is due.
    fn read(&mut self) {
        for _ in 0..self.readable.len() {
            let Some(n) = self.readable.pop_front() else { return };
            if self.read_some(n) {
                self.readable.push_back(n);
            } else {
                self.is_readable[n] = false;
            }
            self.schedule(n);
            if self.is_time() {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn read_some(&mut self, n: usize) -> bool {
        let count = (0..READ_BATCH).take_while(|_| self.read_one(n)).count();
        let at = self.found();
        let waited = self.rings[n].read(count as u32, at);
        self.ingress_waits[n].record_n(waited, count as u64);
        count == READ_BATCH
    }

    /// Whether there was one.
    fn read_one(&mut self, n: usize) -> bool {
        let half = &mut self.halves[n];
        let Some(space) = self.store.space() else {
            // Read into nothing, so that the device goes on.
            let mut scratch = [0; 64];
            let is_read = half.from.read(&mut scratch).is_ok();
            self.unplanned[n].no_memory += u64::from(is_read);
            return is_read;
        };
        let Ok(len) = half.from.read(space) else { return false };
        let Ok(shape) = packet::shape(self.store.fresh(len)) else {
            self.unplanned[n].malformed += 1;
            return true;
        };
        let key = self.store.keep(len);
        // Since the look others were released and read, and the host may have run somebody else: this one may have come just now.
        let at = self.found();
        if self.halves[n].link.handle_packet(at, key, shape) == Admission::Dropped {
            self.store.forget(key);
        }
        true
    }

    /// Whether to go on.
    fn obey(&mut self, command: Command) -> bool {
        // A change, or an account, comes after what was due before it.
        let now = self.now();
        self.until = Some(now);
        while self.release() {}
        let n = match command {
            Command::Set(n, direction) => {
                self.halves[n].link.set(now, &direction);
                self.delay = least_delay(&self.halves);
                n
            }
            Command::Drop(n, count) => {
                self.halves[n].link.drop_next(now, count);
                n
            }
            Command::Cut(n) => {
                self.halves[n].link.cut(now);
                n
            }
            Command::Heal(n) => {
                self.halves[n].link.heal(now);
                n
            }
            Command::Tell(n, reply) => {
                let counters = self.halves[n].link.counters(now);
                // Who asked may have gone.
                let ingress_wait = self.ingress_waits[n].clone();
                let unplanned = Unplanned { refused: self.halves[n].to.refused(), ..self.unplanned[n] };
                let _ = reply.send(Told { at: now, counters, unplanned, ingress_wait });
                n
            }
            Command::Stop => return false,
        };
        self.schedule(n);
        true
    }
}

/// Least delay of the links, nanoseconds.
fn least_delay(halves: &[Half]) -> u64 {
    halves.iter().map(|half| half.link.delay()).min().unwrap_or(0)
}

/// # Errors
/// When the kernel cannot do it.
fn stamping(halves: &[Half]) -> io::Result<Stamps> {
    let stamps = Stamps::new()?;
    halves.iter().try_for_each(|half| stamps.watch(&half.from))?;
    Ok(stamps)
}
