//! The sending half of a session's byte path: threads, streams, set point.

mod lossy;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use proto::control::{Control, Telemetry};
use proto::limits::RECORD_PAYLOAD_MAX;
use sys::socket::TcpInfo;
use tokio::sync::mpsc;
use units::Rate;

use lossy::{About, LossyPaths};

use super::auto::{Auto, Moved};
use super::streams::{Sample, Streams, Ways};
use super::{Context, NEWS_MAX, SessionError, TICK, Wire};
use crate::control::buffers::{self, UNSENT_MAX};
use crate::control::congestion;
use crate::control::doubt;
use crate::control::pace::{Pacer, Reading};
use crate::control::polite::{self, Polite};
use crate::control::read_ahead::ReadAhead;
use crate::control::stall::{Look, Watch};
use crate::control::tail::{self, Tail};
use crate::control::tuner::is_far;
use crate::frame::{Frame, Pool};
use crate::net::gate::Gate;
use crate::net::sender::{ANY, Refill, SendThread, Shared};
use crate::net::test_data::TestData;
use crate::net::tune::{self, Choice};
use crate::net::{NetEvent, NetStats, Opened};
use crate::report::{Outlook, SendSecond};
use crate::way::Way;

/// Between two readings of the sockets for the pacer.
const PACE: Duration = Duration::from_millis(50);

/// Between two looks at which streams get on.
const LOOK: Duration = Duration::from_millis(200);

/// Parcels that one stream is given alone at the end of a copy.
const TAIL_PARCELS_MAX: usize = 4;

/// Threads, streams and set point of a sending end.
pub struct Sending {
    /// Data streams.
    pub streams: Streams,
    /// News of the threads.
    pub events: mpsc::Receiver<NetEvent>,
    /// Frames.
    pub pool: Pool,
    shared: Arc<Shared>,
    ready: Sender<Frame>,
    ahead: ReadAhead,
    threads: Vec<SendThread>,
    threads_max: usize,
    paced: Arc<Mutex<Paced>>,
    paced_at: Instant,
    /// The set point that was asked for.
    asked: Option<Rate>,
    /// What giving way allows, if the session is to.
    polite: Option<Polite>,
    polite_at: Instant,
    watch: Watch,
    tail: Tail,
    watched_at: Instant,
    begin: Instant,
    /// Congestion control by name, if one was named.
    congestion: Option<String>,
    lossy: LossyPaths,
    before: Before,
    looked: Instant,
    auto: Auto,
    /// Streams over paths that are cut, given up and to be told.
    left: Vec<u16>,
    /// The set point that the driver asks for, b/s of IP packets.
    wished_bps: Option<u64>,
    /// The most that the agent of the session allows: from its begin on, and now.
    rate_max_bps: [Option<u64>; 2],
    driver: bool,
}

#[derive(Default)]
struct Before {
    busy_us: u64,
    gated_us: u64,
    starved_us: u64,
    held: Duration,
    polite: Duration,
}

impl Sending {
    /// Makes the half ready; no stream is open yet. With `test` its data are sent, without end.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn new(context: &mut Context, pool: Pool, test: Option<TestData>) -> Sending {
        let (ready, queue) = bounded(pool.count());
        let (tell, events) = mpsc::channel(NEWS_MAX);
        let mut auto = Auto::new(context);
        if test.is_some() {
            auto.begin_test();
        }
        let shared = Arc::new(Shared {
            ready: queue,
            pool: pool.clone(),
            test,
            gate: Gate::default(),
            refill: OnceLock::new(),
            stats: NetStats::default(),
            protection: context.settings.protection,
            events: tell,
            finish: AtomicBool::new(false),
            only: AtomicU32::new(ANY),
        });
        let ways = std::mem::replace(&mut context.ways, Ways::nowhere());
        let wanted = auto.first(context.settings.streams_max);
        let streams = Streams::new(ways, context.session, context.key.clone(), context.settings.clone(), wanted);
        let begin = Instant::now();
        let rate = context.settings.rate_bps.map(Rate::from_bps);
        let polite = context.settings.polite.then(|| Polite::new(Duration::ZERO));
        let pacer = Pacer::new(Duration::ZERO, lesser(rate, polite.as_ref())).with_fitted_records();
        let paced = Arc::new(Mutex::new(Paced { pacer, booked: 0 }));
        open_gate(&shared.gate, &paced, Duration::ZERO);
        let opener = paced.clone();
        let refill: Refill = Box::new(move |gate| open_gate(gate, &opener, begin.elapsed()));
        shared.refill.set(refill).unwrap_or_else(|_| unreachable!("set once"));
        let threads_max = pool.placement().cores();
        Sending {
            streams,
            events,
            pool,
            shared,
            ready,
            ahead: ReadAhead::default(),
            threads: Vec::new(),
            threads_max,
            paced,
            paced_at: begin,
            asked: rate,
            polite,
            polite_at: begin,
            watch: Watch::default(),
            tail: Tail::default(),
            watched_at: begin,
            begin,
            congestion: context.settings.congestion.clone(),
            lossy: LossyPaths::default(),
            before: Before::default(),
            looked: begin,
            auto,
            left: Vec::new(),
            wished_bps: context.settings.rate_bps,
            rate_max_bps: [context.rate_max_bps, None],
            driver: context.driver,
        }
    }

    /// Takes a stream that was opened; gives its congestion control if that is news for a far end that drives.
    ///
    /// # Errors
    /// When no thread can be had for it.
    pub async fn add(&mut self, opened: Opened, outlook: &mut Outlook) -> Result<Option<Control>, SessionError> {
        let fd = opened.socket.as_fd();
        let rtt = sys::socket::tcp_info(fd).map_or(0, |i| u64::from(i.rtt_us));
        let congestion = {
            let choice = match &self.congestion {
                Some(name) => Choice::Named(name),
                None if self.polite.is_some() => Choice::Polite,
                None if self.lossy.is_lossy(self.streams.path_of(opened.id)) => Choice::Lossy,
                None => Choice::Usual,
            };
            tune::sender(fd, choice, rtt, self.asked, self.streams.wanted)
        };
        if !is_far(Some(Duration::from_micros(rtt))) {
            self.ahead.bound();
        }
        let is_news = outlook.congestion(&congestion).await && !self.driver;
        let reading = reading(opened.id, &opened.socket, false);
        self.paced.lock().expect("no panic under the lock").pacer.add(reading);
        self.apply_pacing();
        if self.threads.len() < self.threads_max.min(usize::from(self.streams.len())) {
            let name = format!("lh-send-{}", self.threads.len());
            let thread = SendThread::start(&name, self.shared.clone());
            self.threads.push(
                thread.map_err(|error| SessionError::Os { doing: "starting a sending thread".to_owned(), error })?,
            );
        }
        let n = usize::from(opened.id) % self.threads.len();
        self.threads[n].add(opened);
        Ok(is_news.then_some(Control::Congestion(congestion)))
    }

    /// Tells of the congestion control if streams were switched; the answer is news for a far end that drives.
    pub async fn tell_congestion(&mut self, outlook: &mut Outlook) -> Option<Control> {
        let now = self.lossy.take_switched()?;
        let is_news = outlook.congestion(&now).await && !self.driver;
        is_news.then_some(Control::Congestion(now))
    }

    /// Queues a parcel for whichever stream is free first.
    pub fn send(&mut self, frame: Frame) {
        let bytes = frame.payload_bytes();
        // The queue has room for every frame there is.
        if let Err(back) = self.ready.try_send(frame) {
            self.pool.give(back.into_inner());
            return;
        }
        self.ahead.read(bytes);
        self.threads.iter().for_each(SendThread::wake);
    }

    /// A stream took a parcel of so many bytes.
    pub fn took(&mut self, stream: u16, bytes: u64) {
        self.ahead.took(bytes);
        self.streams.took(stream, bytes);
    }

    /// Whether more is to be read for the streams.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.ahead.has_room()
    }

    /// A stream is closed; `why` if not in good order.
    pub fn closed(&mut self, id: u16, why: Option<&str>) {
        self.streams.closed(id, why);
        self.paced.lock().expect("no panic under the lock").pacer.remove(id);
        self.apply_pacing();
    }

    /// A rate in b/s of IP packets was asked for, at this end (`here`) or by the other one: of the driver it is the set point, of the
    /// agent of the session the most that it allows from now on.
    pub fn set_rate(&mut self, rate_bps: Option<u64>, here: bool) {
        if self.driver == here {
            self.wished_bps = rate_bps;
        } else {
            self.rate_max_bps[1] = rate_bps;
        }
        self.asked = self.rate_max_bps.into_iter().flatten().chain(self.wished_bps).min().map(Rate::from_bps);
        self.auto.paced(self.asked);
        self.put_rate();
    }

    /// Puts the smaller of what was asked for and what giving way allows in force.
    fn put_rate(&self) {
        let now = self.begin.elapsed();
        let rate = lesser(self.asked, self.polite.as_ref());
        {
            let pacer = &mut self.paced.lock().expect("no panic under the lock").pacer;
            pacer.set_smooth(rate < self.asked || self.asked.is_none());
            pacer.set_rate(now, rate);
        }
        self.apply_pacing();
        open_gate(&self.shared.gate, &self.paced, now);
        self.threads.iter().for_each(SendThread::wake);
    }

    /// Changes the number of streams, as the user says.
    pub fn set_streams(&mut self, n: u16) {
        self.auto.fixed();
        self.have_streams(n);
    }

    /// An address goes before all others, if this end connects. Streams over others are given up, and what nobody acknowledged of them is
    /// sent again: at once if they `is_cut`, else as soon as there is one over this address.
    pub fn prefer(&mut self, to: Way, is_cut: bool) {
        tracing::debug!(to = %to.to, marks = %to.marks, is_cut, "goes over the address that goes first now");
        let elsewhere = self.streams.prefer(to, is_cut);
        self.leave(&elsewhere);
    }

    fn leave(&mut self, streams: &[u16]) {
        for &id in streams {
            if self.streams.leave(id) {
                self.threads.iter().for_each(|t| t.abandon(id));
                self.left.push(id);
            }
        }
    }

    fn have_streams(&mut self, n: u16) {
        self.streams.wanted = n.max(1);
        for id in self.streams.surplus(n) {
            self.threads.iter().for_each(|t| t.end(id));
        }
    }

    /// No more parcels will come: streams end when the queue is empty.
    pub fn finish(&self) {
        self.shared.finish.store(true, Ordering::Release);
        self.threads.iter().for_each(SendThread::wake);
    }

    /// Payload bytes handed to the kernel so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.stats.bytes.load(Ordering::Relaxed)
    }

    /// How often [`tick`](Sending::tick) wants to be called.
    #[must_use]
    pub fn beat(&self) -> Duration {
        if self.polite.is_some() { polite::LOOK } else { TICK }
    }

    /// Looks after streams and pacing. Gives the streams that are given up: the other end cannot see that. `left` are the bytes that have
    /// not landed, once all are known; `is_last` says that all parcels there are, are on streams.
    ///
    /// # Errors
    /// When no stream can be opened.
    pub fn tick(
        &mut self,
        now: Instant,
        wire: &Wire,
        left: Option<u64>,
        is_last: impl FnOnce() -> bool,
    ) -> Result<Vec<u16>, SessionError> {
        self.streams.maintain(now, wire.link.is_heard(now))?;
        let behind = self.streams.left_for();
        self.leave(&behind);
        let mut given_up = std::mem::take(&mut self.left);
        self.take_losses(left);
        if now.duration_since(self.watched_at) >= LOOK {
            self.watched_at = now;
            let infos: Vec<_> = self.streams.infos().collect();
            given_up.extend(self.watch(now, &infos, wire.link.works(now)));
            given_up.extend(self.hasten(&infos, is_last()));
            self.hold_little(&infos);
        }
        self.pace(now);
        Ok(given_up)
    }

    /// Looks after pacing alone: for streams that end.
    pub fn pace(&mut self, now: Instant) {
        self.give_way(now);
        let mut paced = self.paced.lock().expect("no panic under the lock");
        // Counters of shorter spans are too coarse to learn from.
        if paced.pacer.set_point().is_some() && now.duration_since(self.paced_at) >= PACE {
            self.paced_at = now;
            // A parcel in the queue is for any stream.
            let queued = self.shared.test.is_some() || !self.ready.is_empty();
            let readings: Vec<_> = self.streams.live().map(|(id, live)| reading(id, &live.socket, queued)).collect();
            paced.pacer.tick(self.begin.elapsed(), &readings);
            drop(paced);
            self.apply_pacing();
        }
    }

    /// Sees what other traffic leaves.
    fn give_way(&mut self, now: Instant) {
        let Some(polite) = self.polite.as_mut().filter(|_| now.duration_since(self.polite_at) >= polite::LOOK) else {
            return;
        };
        self.polite_at = now;
        let readings: Vec<_> = self.streams.live().filter_map(|(id, live)| polite_reading(id, &live.socket)).collect();
        polite.look(self.begin.elapsed(), &readings, self.asked);
        tracing::trace!(?polite, ?readings, "gives way");
        let rate = lesser(self.asked, self.polite.as_ref());
        let in_force = self.paced.lock().expect("no panic under the lock").pacer.set_point();
        if is_news(in_force, rate) {
            self.put_rate();
        }
    }

    /// Gives up streams on dead paths while another path works, and spreads streams over addresses that are good again.
    fn watch(&mut self, now: Instant, infos: &[(u16, TcpInfo)], has_path: bool) -> Vec<u16> {
        let look = |info: &TcpInfo| Look { acked: info.bytes_acked, unacked: info.unacked, timeouts: info.retransmits };
        let looks: Vec<_> = infos.iter().map(|(id, info)| (*id, look(info))).collect();
        let stalled = self.watch.look(self.begin.elapsed(), &looks);
        let works = stalled.others_get_on || has_path;
        let given_up: Vec<u16> = stalled.streams.into_iter().filter(|id| self.streams.give_up(*id, works)).collect();
        for &id in &given_up {
            self.threads.iter().for_each(|t| t.abandon(id));
        }
        if let Some(id) = self.streams.to_move(now) {
            tracing::debug!(stream = id, "moves to another address");
            self.threads.iter().for_each(|t| t.end(id));
        }
        given_up
    }

    /// Gives up streams that hold up the end.
    fn hasten(&mut self, infos: &[(u16, TcpInfo)], is_last: bool) -> Vec<u16> {
        let look = |(id, info): &(u16, TcpInfo)| {
            let us = |us| Duration::from_micros(us);
            let (rtt, busy, window_full) =
                (us(u64::from(info.rtt_us)), us(info.busy_time_us), us(info.rwnd_limited_us));
            let (acked, delivery_rate) = (info.bytes_acked, info.delivery_rate);
            let taken = self.streams.get(*id)?.taken;
            Some((*id, tail::Look { acked, taken, delivery_rate, rtt, busy, window_full }))
        };
        let looks: Vec<_> = infos.iter().filter_map(look).collect();
        let set_point =
            self.paced.lock().expect("no panic under the lock").pacer.set_point().map(|rate| rate.bps() / 8);
        let mut slow = self.tail.look(self.begin.elapsed(), &looks, is_last, set_point);
        slow.retain(|id| self.streams.leave_slow(*id));
        for &id in &slow {
            tracing::debug!(stream = id, "holds up the end; what it carries goes over another");
            self.threads.iter().for_each(|t| t.abandon(id));
        }
        // If there is more to take after all, all shall.
        let only = self.tail.only().filter(|_| self.ready.len() <= TAIL_PARCELS_MAX).map_or(ANY, u32::from);
        if self.shared.only.swap(only, Ordering::Relaxed) != only {
            self.threads.iter().for_each(SendThread::wake);
        }
        slow
    }

    /// Has the sockets of a far path hold no more than they send soon, and records be a small part of that; under a set point the pacer
    /// says how much.
    fn hold_little(&self, infos: &[(u16, TcpInfo)]) {
        if self.paced.lock().expect("no panic under the lock").pacer.set_point().is_some() {
            return;
        }
        let (mut windows, mut far) = (0, 0);
        for (id, info) in infos {
            if let Some(live) = self.streams.get(*id)
                && let Some(window_bytes) = tune::hold_what_is_sent_soon(live.socket.as_fd(), info)
            {
                windows += window_bytes;
                far += 1;
            }
        }
        // A test sends nothing again, and a record costs its header.
        let window_bytes = windows.checked_div(far).filter(|_| self.shared.test.is_none());
        self.shared.gate.fit(window_bytes.map_or(RECORD_PAYLOAD_MAX, buffers::record_payload));
    }

    /// Switches all streams of a path that turns out to lose packets without being full, and holds them together then.
    fn take_losses(&mut self, left: Option<u64>) {
        if self.congestion.is_some() || self.polite.is_some() {
            return;
        }
        let about =
            About { has_set_point: self.asked.is_some(), ends_soon: doubt::ends_soon(left, self.auto.goodput()) };
        if self.lossy.look(self.begin.elapsed(), &self.streams, about) {
            self.auto.lossy();
        }
    }

    fn apply_pacing(&self) {
        let changes = self.paced.lock().expect("no panic under the lock").pacer.changes();
        for change in changes {
            let Some(live) = self.streams.get(change.stream) else { continue };
            let rate = change.pacing_bytes_per_s.unwrap_or(u64::MAX);
            if let Err(error) = sys::socket::set_max_pacing_rate(live.socket.as_fd(), rate) {
                tracing::debug!(%error, "setting the pacing rate");
            }
            tune::hold_unsent(live.socket.as_fd(), change.waiting_bytes.unwrap_or(UNSENT_MAX));
        }
    }

    /// One second is over: looks, and tunes the number of streams by what was seen.
    pub fn second(&mut self, peer: &Telemetry, disk_busy_us: u64, outlook: &mut Outlook) -> Telemetry {
        let (sample, span) = self.look(peer, disk_busy_us, outlook);
        let Sample { streams, retransmits, rtt_us, min_rtt_us, .. } = sample;
        let seen = congestion::Second { retransmits, rtt_us, min_rtt_us, loss_ppm: sample.loss_ppm() };
        let moved = Moved { bytes: self.bytes(), span, streams, wanted: self.streams.wanted };
        if let Some(n) = self.auto.second(moved, seen, outlook.limit).filter(|_| self.streams.dials()) {
            tracing::debug!(streams = n, "number of streams");
            self.have_streams(n);
        }
        self.telemetry(outlook)
    }

    /// The last telemetry of the session, which tells of what there is of the last second.
    pub fn last(&mut self, peer: &Telemetry, disk_busy_us: u64, outlook: &mut Outlook) -> Telemetry {
        self.look(peer, disk_busy_us, outlook);
        self.telemetry(outlook)
    }

    /// Looks at everything since the last look, and says what limited it.
    fn look(&mut self, peer: &Telemetry, disk_busy_us: u64, outlook: &mut Outlook) -> (Sample, Duration) {
        let now = Instant::now();
        let span = now - std::mem::replace(&mut self.looked, now);
        let stats = &self.shared.stats;
        let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        let (held, set_point) = {
            let pacer = &self.paced.lock().expect("no panic under the lock").pacer;
            (pacer.held(), pacer.set_point())
        };
        let now = Before {
            busy_us: load(&stats.busy_us),
            gated_us: load(&stats.gated_us),
            starved_us: load(&stats.starved_us),
            held,
            polite: self.polite.as_ref().map_or(Duration::ZERO, Polite::held),
        };
        let sample = self.streams.sample();
        let threads = self.threads.len().max(1) as u64;
        let mut second = SendSecond {
            span,
            net_busy_us: (now.busy_us - self.before.busy_us) / threads,
            gated_us: (now.gated_us - self.before.gated_us) / threads,
            starved_us: (now.starved_us - self.before.starved_us) / threads,
            held: now.held.saturating_sub(self.before.held),
            polite: Duration::ZERO,
            disk_busy_us,
            outstanding: self.shared.test.is_some() || self.pool.free() < self.pool.count(),
        };
        let polite = now.polite.saturating_sub(self.before.polite);
        self.before = now;
        second.book_sleep(&sample);
        if let Some(set_point) = set_point {
            second.book_held(&sample, set_point);
        }
        if set_point < self.asked || (self.asked.is_none() && self.polite.is_some()) {
            // It is not the set point that was asked for.
            second.polite = std::mem::take(&mut second.held).max(polite);
        }
        outlook.sent(load(&stats.bytes), sample, self.streams.buffer_bytes());
        outlook.attribute(&second, &sample, peer);
        (sample, span)
    }

    fn telemetry(&self, outlook: &Outlook) -> Telemetry {
        let stats = &self.shared.stats;
        outlook.telemetry(
            stats.bytes.load(Ordering::Relaxed),
            stats.records.load(Ordering::Relaxed),
            stats.parcels.load(Ordering::Relaxed),
        )
    }
}

/// State of a stream for the pacer; `queued` if a parcel waits for whichever stream is free.
fn reading(id: u16, socket: &std::net::TcpStream, queued: bool) -> Reading {
    let info = sys::socket::tcp_info(socket.as_fd()).unwrap_or_default();
    {
        let in_flight = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
        let v6 = socket.peer_addr().is_ok_and(|a| a.is_ipv6());
        let header_bytes = if v6 { units::TCP6_HEADER_BYTES } else { units::TCP4_HEADER_BYTES };
        let limit = (info.snd_cwnd, info.pacing_rate, info.max_pacing_rate);
        Reading {
            stream: id,
            sent_bytes: info.bytes_sent,
            retransmitted_bytes: info.bytes_retrans,
            packets: info.data_segs_out,
            mss_bytes: info.snd_mss,
            waiting_bytes: u64::from(info.notsent_bytes),
            header_bytes,
            backlog: queued || info.notsent_bytes > 0 || info.unacked > 0,
            rate_limited: Reading::pacing_is_the_limit(info.notsent_bytes, in_flight, limit.0, limit.1, limit.2),
        }
    }
}

/// The smaller of the set point that was asked for and what giving way allows.
fn lesser(asked: Option<Rate>, polite: Option<&Polite>) -> Option<Rate> {
    asked.into_iter().chain(polite.map(Polite::rate)).min()
}

/// Whether a set point differs so much from the one in force that it is worth telling every socket: 1 % too much for a second are 10 ms of queue.
fn is_news(in_force: Option<Rate>, rate: Option<Rate>) -> bool {
    match (in_force, rate) {
        (Some(old), Some(new)) => new.bps().abs_diff(old.bps()) > old.bps() / 500,
        (old, new) => old != new,
    }
}

/// State of a stream for giving way; `None` if its socket does not say it.
fn polite_reading(id: u16, socket: &std::net::TcpStream) -> Option<polite::Reading> {
    let info = sys::socket::tcp_info(socket.as_fd()).ok()?;
    Some(polite::Reading {
        stream: id,
        rtt_us: info.rtt_us,
        min_rtt_us: info.min_rtt_us,
        acks: info.segs_in,
        acked_bytes: info.bytes_acked,
        resent: info.total_retrans,
    })
}

/// The pacer, and how much of what was taken it knows of.
struct Paced {
    pacer: Pacer,
    booked: u64,
}

/// Opens the gate as far as the set point allows now.
fn open_gate(gate: &Gate, paced: &Mutex<Paced>, now: Duration) {
    let mut paced = paced.lock().expect("no panic under the lock");
    let total = gate.taken();
    // What was taken while no set point was in force is no debt of a later one.
    let taken = total - std::mem::replace(&mut paced.booked, total);
    if paced.pacer.set_point().is_none() {
        return gate.allow(None);
    }
    gate.fit(paced.pacer.record_payload_bytes());
    paced.pacer.took(now, taken);
    let allowance = paced.pacer.allowance(now);
    gate.allow(Some(total.saturating_add(allowance)));
}
