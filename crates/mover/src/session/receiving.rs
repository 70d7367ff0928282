//! The receiving half of a session's byte path: threads and streams.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use proto::control::Telemetry;
use sys::poll::Waker;
use tokio::sync::mpsc;
use units::Rate;

use super::auto::{Auto, Moved};
use super::streams::{Streams, Ways};
use super::{Context, NEWS_MAX, SessionError, Wire};
use crate::control::attribution::Limit;
use crate::control::congestion;
use crate::frame::{Frame, Pool};
use crate::net::backlog::Backlog;
use crate::net::kept::Kept;
use crate::net::receiver::{RecvThread, Shared};
use crate::net::{NetEvent, NetStats, Opened};
use crate::numa::Placement;
use crate::report::{LOOK_MIN, Load, Outlook};
use crate::way::Way;

/// Threads and streams of a receiving end.
pub struct Receiving {
    /// Data streams.
    pub streams: Streams,
    /// News of the threads.
    pub events: mpsc::Receiver<NetEvent>,
    shared: Arc<Shared>,
    threads: Vec<RecvThread>,
    wakers: Vec<Waker>,
    before: (u64, u64),
    looked: Instant,
    auto: Auto,
}

/// Where complete parcels go.
pub struct Queues {
    /// Parcels of big files.
    pub chunks: Sender<Frame>,
    /// Parcels of small files.
    pub batches: Sender<Frame>,
    /// How many chunks may wait; `None` for as many as there are frames.
    pub backlog: Option<Backlog>,
}

/// Wakers for as many receiving threads as there are cores for them; the pool wakes them when frames come back.
///
/// # Errors
/// When no descriptor is left.
pub fn wakers(placement: &Placement) -> io::Result<Vec<Waker>> {
    (0..placement.cores()).map(|_| Waker::new()).collect()
}

impl Receiving {
    /// Makes the half ready; no stream is open yet.
    #[must_use]
    pub fn new(context: &mut Context, pool: Pool, wakers: Vec<Waker>, queues: Queues) -> Receiving {
        let (tell, events) = mpsc::channel(NEWS_MAX);
        let shared = Arc::new(Shared {
            kept: Kept::new(&pool),
            pool,
            chunks: queues.chunks,
            batches: queues.batches,
            backlog: queues.backlog,
            chunk_size: context.settings.chunk_size,
            stats: NetStats::default(),
            protection: context.settings.protection,
            events: tell,
        });
        let auto = Auto::new(context);
        let ways = std::mem::replace(&mut context.ways, Ways::nowhere());
        let wanted = auto.first(context.settings.streams_max);
        let streams = Streams::new(ways, context.session, context.key.clone(), context.settings.clone(), wanted);
        let looked = Instant::now();
        Receiving { streams, events, shared, threads: Vec::new(), wakers, before: (0, 0), looked, auto }
    }

    /// What is received are a test's data.
    pub fn begin_test(&mut self) {
        self.auto.begin_test();
    }

    /// Takes a stream that was opened.
    ///
    /// # Errors
    /// When no thread can be had for it.
    pub fn add(&mut self, opened: Opened) -> Result<(), SessionError> {
        let n = self.threads.len();
        if n < self.wakers.len().min(usize::from(self.streams.len())) {
            let thread = RecvThread::start(&format!("lh-recv-{n}"), self.shared.clone(), self.wakers[n].clone());
            self.threads.push(
                thread.map_err(|error| SessionError::Os { doing: "starting a receiving thread".to_owned(), error })?,
            );
        }
        let n = usize::from(opened.id) % self.threads.len();
        self.threads[n].add(opened);
        Ok(())
    }

    /// A stream is closed; `why` if not in good order.
    pub fn closed(&mut self, id: u16, why: Option<&str>) {
        self.streams.closed(id, why);
    }

    /// A parcel has landed: if what came of it over another stream waits for a rest, none will come.
    pub fn forget(&self, parcel: u64) {
        self.shared.kept.forget(parcel, &self.shared.pool);
    }

    /// Lets go of what came of parcels whose streams have ended, as far as nothing in them is expected any more, by index of
    /// the file and generation.
    pub fn release(&self, is_expected: impl Fn(u64, u8) -> bool) {
        self.shared.kept.release(is_expected, &self.shared.pool);
    }

    /// Payload bytes verified so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.stats.bytes.load(Ordering::Relaxed)
    }

    /// Parcels verified so far.
    #[must_use]
    pub fn parcels(&self) -> u64 {
        self.shared.stats.parcels.load(Ordering::Relaxed)
    }

    /// Looks after streams.
    ///
    /// # Errors
    /// When no stream can be opened.
    pub fn tick(&mut self, now: Instant, wire: &Wire) -> Result<(), SessionError> {
        self.streams.maintain(now, wire.link.is_heard(now))?;
        let behind = self.streams.left_for();
        self.leave(&behind);
        Ok(())
    }

    /// The sending end has given a stream up, which nothing on its dead path would tell.
    pub fn abandon(&mut self, id: u16) {
        // The other end's word; a number that is not open is none of ours.
        if self.streams.give_up(id, true) {
            self.threads.iter().for_each(|t| t.abandon(id));
        }
    }

    /// An address goes before all others, if this end connects; streams over others are closed, and what was on its way over them is
    /// sent again: at once if they `is_cut`, else as soon as there is one over this address.
    pub fn prefer(&mut self, to: Way, is_cut: bool) {
        let elsewhere = self.streams.prefer(to, is_cut);
        self.leave(&elsewhere);
    }

    fn leave(&mut self, streams: &[u16]) {
        for &id in streams {
            if self.streams.leave(id) {
                self.threads.iter().for_each(|t| t.abandon(id));
            }
        }
    }

    /// Another set point was asked for, b/s of IP packets, or none.
    pub fn paced(&mut self, rate_bps: Option<u64>) {
        self.auto.paced(rate_bps.map(Rate::from_bps));
    }

    /// Changes the number of streams, as the user says. Ending surplus ones is the sender's part.
    pub fn set_streams(&mut self, n: u16) {
        self.auto.fixed();
        self.streams.wanted = n.max(1);
    }

    /// The number of streams to have from now on, if it changes; the sender, whose last telemetry this is, must hear of it.
    pub fn tune(&mut self, span: Duration, outlook: &Outlook, sender: &Telemetry) -> Option<u16> {
        let bytes = self.bytes();
        if outlook.is_lossy() {
            self.auto.lossy();
        }
        let Telemetry { retransmits, rtt_us, min_rtt_us, loss_ppm, .. } = *sender;
        let seen = congestion::Second { retransmits, rtt_us, min_rtt_us, loss_ppm };
        let moved = Moved { bytes, span, streams: outlook.sample.streams, wanted: self.streams.wanted };
        let n = self.auto.second(moved, seen, Limit::of_code(sender.limit)).filter(|_| self.streams.dials())?;
        self.streams.wanted = n;
        Some(n)
    }

    /// Of a test: payload bytes that have arrived, the begin of records too of which the rest is still to come. Those are up to
    /// 4 MiB with sixteen streams, which is much of a short test or a slow one. What a stream that is lost held of a record goes again.
    pub fn arrived(&self) -> u64 {
        // In this order, for what a thread takes meanwhile is missed and not counted twice.
        let taken = self.shared.stats.test_bytes.load(Ordering::Relaxed);
        taken + self.streams.unread()
    }

    /// Of a test: a look that counts what has [arrived](Receiving::arrived).
    pub fn count(&mut self, outlook: &mut Outlook) -> Telemetry {
        let bytes = self.arrived();
        Telemetry { bytes, ..self.look(0, outlook) }
    }

    /// Ends the threads, which closes the writers' queues, and takes the last sample. The sockets stay open until
    /// what is returned is dropped.
    pub fn end(mut self, outlook: &mut Outlook) -> Streams {
        let sample = self.streams.sample();
        outlook.received(self.bytes(), sample, self.streams.buffer_bytes());
        let Receiving { streams, .. } = self;
        streams
    }

    /// One second is over, or the last one not quite: telemetry for the other end. `disk_busy_us` is for how long the
    /// writers were busy since the last look, on the mean.
    pub fn look(&mut self, disk_busy_us: u64, outlook: &mut Outlook) -> Telemetry {
        let now = Instant::now();
        let span = now - std::mem::replace(&mut self.looked, now);
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let stats = &self.shared.stats;
        let (busy, starved) = (load(&stats.busy_us), load(&stats.starved_us));
        let threads = self.threads.len().max(1) as u64;
        let per_mille = |us: u64| (us * 1000 / (span.as_micros() as u64).max(1)).min(1000) as u16;
        if span >= LOOK_MIN {
            outlook.load = Load {
                net: per_mille((busy - self.before.0) / threads),
                disk: per_mille(disk_busy_us),
                starved: per_mille((starved - self.before.1) / threads),
            };
            self.before = (busy, starved);
        }
        let sample = self.streams.sample();
        outlook.received(load(&stats.bytes), sample, self.streams.buffer_bytes());
        outlook.telemetry(load(&stats.bytes), load(&stats.records), load(&stats.parcels))
    }
}
