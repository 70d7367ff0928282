//! A session that this agent drives: a copy at the rate of its lease.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Name;
use api::agent::{Acknowledged, Cause, Ended, Held, Lease, Mode, Progress, Role, Run, SessionPath};
use mover::event::{Event, Summary};
use mover::request::{CopyRequest, MoveError, Steer};
use mover::way::Way;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::lease::{LeaseClock, LeaseError, Offered};
use super::order::{No, Order};
use super::report::Report;
use super::{Site, lock, now};

/// Events waiting for this task; at this number the copy waits.
const EVENTS_MAX: usize = 1024;
/// Changes waiting for the copy; at this number the next look tries again.
const STEERS_MAX: usize = 16;
/// Between two looks at the lease.
const LOOK: Duration = Duration::from_millis(50);
/// A copy says each second how it goes, and that is told at once: its rate belongs to the rate in force then. If it says nothing for so long,
/// that is told: nothing moves.
const SILENCE: Duration = Duration::from_millis(1_500);
/// How long a copy that was told to stop may take to land what is in flight.
const LANDING: Duration = Duration::from_secs(12);
/// And how long after that until it is dropped.
const DROP: Duration = Duration::from_secs(5);

/// A session as the rest of the agent sees it.
pub(super) struct Driven {
    pub(super) session: u64,
    pub(super) role: Role,
    pub(super) collaboration: String,
    pub(super) here: Name,
    pub(super) other: String,
    clock: Mutex<LeaseClock>,
    /// The rate may be another one now.
    pub(super) turn: Notify,
    /// The path that it is to go over, and how many times that was said; the one it began with until then.
    path: Mutex<(u64, Option<SessionPath>)>,
    /// Why it is to end.
    stopping: watch::Sender<Option<Cause>>,
    /// As last told.
    shown: Mutex<Progress>,
}

impl Driven {
    /// One that is about to begin. No rate is more than `most_bps`.
    pub(super) fn new(run: &Run, label: &str, most_bps: Option<u64>) -> Result<Driven, LeaseError> {
        let (from, marks) = (run.bind.first().copied(), run.marks.first().copied().unwrap_or_default());
        let first =
            run.addresses.first().map(|&to| SessionPath { session: run.session, to, from, marks, is_cut: false });
        Ok(Driven {
            session: run.session,
            role: run.role,
            collaboration: run.collaboration.clone(),
            here: run.here.clone(),
            other: label.to_owned(),
            clock: Mutex::new(LeaseClock::new(run.lease.clone(), now(), most_bps)?),
            turn: Notify::new(),
            path: Mutex::new((0, first)),
            stopping: watch::Sender::new(None),
            shown: Mutex::default(),
        })
    }

    /// Takes a lease; says what became of it.
    pub(super) fn offer(&self, lease: Lease) -> Result<Acknowledged, LeaseError> {
        let (generation, now) = (lease.generation, now());
        let mut clock = lock(&self.clock);
        let accepted = clock.offer(lease, now)? != Offered::Stale;
        self.turn.notify_one();
        Ok(Acknowledged { session: self.session, generation, accepted, rate_bps: clock.at(now).rate_bps })
    }

    /// It is to go over another path.
    pub(super) fn go_over(&self, to: SessionPath) {
        let mut path = lock(&self.path);
        if path.1.is_none_or(|path| way(&path) != way(&to)) {
            tracing::info!(session = self.session, to = %to.to, marks = %to.marks, is_cut = to.is_cut, "the session goes over another path");
            *path = (path.0 + 1, Some(to));
            self.turn.notify_one();
        }
    }

    pub(super) fn held(&self) -> Held {
        let clock = lock(&self.clock);
        Held { session: self.session, generation: clock.generation(), rate_bps: clock.at(now()).rate_bps }
    }

    pub(super) fn shown(&self) -> Progress {
        lock(&self.shown).clone()
    }

    /// Asks it to end in good order. The first cause counts.
    pub(super) fn stop(&self, cause: Cause) {
        self.stopping.send_if_modified(|stopping| {
            let is_first = stopping.is_none();
            stopping.get_or_insert(cause);
            is_first
        });
    }

    /// Whether it was asked to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.borrow().is_some()
    }

    /// The generation, the rate and whether it is the fall-back. A paused host stands still.
    pub(super) fn in_force(&self, mode: Mode) -> (u64, u64, bool) {
        let clock = lock(&self.clock);
        let force = clock.at(now());
        let rate_bps = if mode == Mode::Paused { 0 } else { force.rate_bps };
        (clock.generation(), rate_bps, force.fallen_back)
    }
}

/// Drives a session to its end, and tells it.
pub(super) async fn drive(site: Arc<Site>, driven: Arc<Driven>, order: Order) {
    let begun = Instant::now();
    let Order { mut request, names, digests, .. } = order;
    let to = match (&request.source, &request.destination) {
        (mover::request::Place::Agent(remote, _), _) | (_, mover::request::Place::Agent(remote, _)) => {
            match &remote.reach {
                mover::request::Reach::Connect(addresses) => addresses[0],
                mover::request::Reach::Accept(_) => site.fixed.bound,
            }
        }
        _ => site.fixed.bound,
    };
    let mut report = Report::new(driven.session, &names, digests, to);
    tracing::info!(session = driven.session, role = ?driven.role, here = %driven.here, other = driven.other, files = names.len(), "a session begins");
    let ended = match streams(&site, &mut request) {
        Ok(_streams) => Copying::new(&site, &driven, &mut report).run(request).await,
        Err(no) => Err(no),
    };
    if ended.is_ok() {
        report.complete();
    }
    let (cause, text) = match ended {
        Ok(()) => (None, String::new()),
        Err(No { cause, text }) => (Some(cause), text),
    };
    match cause {
        None => tracing::info!(session = driven.session, "a session ended"),
        Some(cause) => tracing::warn!(session = driven.session, ?cause, text, "a session ended early"),
    }
    let Summary { bytes_sent, files_placed, files_skipped, retransmits, bytes, ok, .. } = report.summary();
    let ended = Ended {
        session: driven.session,
        cause,
        text,
        // A summary knows the bytes of the dataset; what of it is in place was told on the way.
        bytes_done: if cause.is_none() && *ok { *bytes } else { report.bytes_done().min(*bytes) },
        bytes_sent: *bytes_sent,
        files_done: files_placed + files_skipped,
        retransmits: *retransmits,
        ran_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    site.tell(|outbox| {
        outbox.files(driven.session, report.take_files());
        outbox.ended(ended);
    });
    site.over(driven.session);
}

/// Takes data streams out of the budget of the agent; they go back when the answer is dropped.
fn streams(site: &Site, request: &mut CopyRequest) -> Result<OwnedSemaphorePermit, No> {
    let asked = usize::from(request.settings.streams_max);
    let wanted = if asked == 0 { usize::from(request.limits.streams_auto.max(1)) } else { asked };
    let none = || No::new(Cause::Busy, "no data stream is left in this host's budget: wait until a session ends");
    let taken = (1..=wanted).rev().find_map(|n| {
        let permit = site.streams.clone().try_acquire_many_owned(u32::try_from(n).ok()?).ok()?;
        Some((n, permit))
    });
    let (n, permit) = taken.ok_or_else(none)?;
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    match asked {
        0 => request.limits.streams_auto = n,
        _ => request.settings.streams_max = n,
    }
    Ok(permit)
}

/// A copy under way.
struct Copying<'a> {
    site: &'a Site,
    driven: &'a Driven,
    report: &'a mut Report,
    /// The rate that the copy was told.
    told_bps: Option<u64>,
    /// The path that it was told: how many had been said by then.
    told_path: u64,
    /// A session with the other end is open.
    is_open: bool,
    fallen_back: bool,
}

impl<'a> Copying<'a> {
    fn new(site: &'a Site, driven: &'a Driven, report: &'a mut Report) -> Copying<'a> {
        Copying { site, driven, report, told_bps: None, told_path: 0, is_open: false, fallen_back: false }
    }

    async fn run(mut self, mut request: CopyRequest) -> Result<(), No> {
        let (tell, mut events) = mpsc::channel(EVENTS_MAX);
        let (steer, changes) = mpsc::channel(STEERS_MAX);
        let (cut, cutting) = watch::channel(false);
        let (_, rate_bps, self_fallen) = self.driven.in_force(self.site.decided());
        (request.settings.rate_bps, self.told_bps, self.fallen_back) = (Some(rate_bps), Some(rate_bps), self_fallen);
        let copy = mover::copy_counted(request, tell, changes, self.site.counters.clone(), cutting);
        let mut copy = Box::pin(copy);
        let mut stopping = self.driven.stopping.subscribe();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut silence = tokio::time::interval(SILENCE);
        silence.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Until when it may take, and whether it was cut short already.
        let mut deadline: Option<(Instant, bool)> = None;
        let ended = loop {
            tokio::select! {
                ended = &mut copy => break Some(ended),
                Some(event) = events.recv() => {
                    self.hear(event, &steer);
                    if self.report.is_fresh() {
                        self.tell();
                        silence.reset();
                    }
                }
                _ = look.tick() => self.steer(&steer),
                () = self.driven.turn.notified() => self.steer(&steer),
                _ = silence.tick() => self.tell(),
                _ = stopping.wait_for(Option::is_some), if deadline.is_none() => {
                    // What was not begun needs no order.
                    let lands = self.is_open && steer.try_send(Steer::Stop).is_ok();
                    cut.send_replace(!lands);
                    deadline = Some((Instant::now() + if lands { LANDING } else { DROP }, !lands));
                }
                () = past(deadline) => {
                    if deadline.is_some_and(|(_, is_cut)| is_cut) {
                        break None;
                    }
                    cut.send_replace(true);
                    deadline = Some((Instant::now() + DROP, true));
                }
            }
        };
        while let Ok(event) = events.try_recv() {
            self.hear(event, &steer);
        }
        self.judge(ended)
    }

    fn judge(&self, ended: Option<Result<Summary, MoveError>>) -> Result<(), No> {
        let asked = *self.driven.stopping.borrow();
        match (ended, asked) {
            (Some(Ok(_)), _) => Ok(()),
            (_, Some(cause)) => Err(No::new(cause, "the session was stopped; what is finished stays")),
            (Some(Err(error)), None) => Err(No::new(super::cause::of_end(&error), &error.text)),
            (None, None) => Err(No::new(Cause::Other, "the session was dropped")),
        }
    }

    fn hear(&mut self, event: Event, steer: &mpsc::Sender<Steer>) {
        if self.report.hear(event) {
            self.is_open = true;
            // What was said in between may have gone to the session before.
            (self.told_bps, self.told_path) = (None, 0);
            self.steer(steer);
        }
    }

    /// Sets the rate that is in force, if the copy does not have it.
    fn steer(&mut self, steer: &mpsc::Sender<Steer>) {
        let (_, rate_bps, fallen_back) = self.driven.in_force(self.site.decided());
        if fallen_back && !std::mem::replace(&mut self.fallen_back, fallen_back) {
            self.site.tally.fall_backs.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(session = self.driven.session, rate_bps, "the lease has ended: the fall-back holds");
        }
        self.fallen_back = fallen_back;
        if self.told_bps != Some(rate_bps) && steer.try_send(Steer::Rate(Some(rate_bps))).is_ok() {
            self.told_bps = Some(rate_bps);
        }
        let (said, path) = *lock(&self.driven.path);
        if let Some(path) = path
            && self.told_path != said
            && steer.try_send(Steer::Path { to: way(&path), is_cut: path.is_cut }).is_ok()
        {
            self.told_path = said;
        }
    }

    /// Tells the controller how it goes, and of the files that ended since.
    fn tell(&mut self) {
        let (generation, set_bps, fallen_back) = self.driven.in_force(self.site.decided());
        let progress = Progress { generation, set_bps, fallen_back, ..self.report.take_progress() };
        *lock(&self.driven.shown) = progress.clone();
        let files = self.report.take_files();
        self.site.tell(|outbox| {
            outbox.files(self.driven.session, files);
            outbox.progress(progress);
        });
    }
}

/// The way that a path is for the mover.
fn way(path: &SessionPath) -> Way {
    Way { to: path.to, from: path.from, marks: path.marks }
}

async fn past(deadline: Option<(Instant, bool)>) {
    match deadline {
        Some((at, _)) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
