//! The agent's side of a controller: it connects out, says what the host has, and does what it is asked within the grants of its own
//! configuration ([`grants`]).
//!
//! ```text
//!              ┌ link ─────── connects, for ever; one task reads, one writes
//!  controller ◀┤   │ asked                                  ▲ what is to be told
//!              │ asked.rs ─▶ listing, tokens, sessions ─▶ outbox
//!              └──────────────────────────┬───────────────────
//!                                  mover::copy at the rate of the lease
//! ```
//!
//! What interfaces carry for links of the controller's network is told as well ([`count`]).
//!
//! Sessions do not need the connection: they follow their leases ([`lease`]) to the end, then hold the fall-back, and what they have to
//! tell waits in the [`outbox`]. Times are those since the boot of the host, so a host that slept knows that its leases went on.

mod asked;
pub mod cause;
pub mod count;
pub mod frame;
pub mod grants;
pub mod host;
pub mod inventory;
pub mod lease;
mod link;
pub mod listing;
mod order;
pub mod outbox;
mod probe;
mod report;
mod session;
pub mod state;
pub mod tokens;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::agent::{Cause, FromAgent, Mode, ModeSet, Probe, SESSIONS_MAX};
use mover::request::{BUFFER_SHARE, Fingerprint, Hooks, Limits};
use mover::server::{Counters, Identity, ServeLimits};
use service::StateError;
use service::stop::Stop;
use tokio::sync::{Notify, Semaphore, watch};
use units::Bytes;

use crate::behind::DoorProbes;
use crate::config::ControllerAddress;
use count::Counter;
use grants::Grants;
use inventory::Fixed;
use outbox::Outbox;
pub use probe::Probing;
use session::Driven;
use state::{Kept, StateFile};
use tokens::SessionTokens;

/// Least memory of a session that this agent drives; so much is set aside for each that there may be.
const SESSION_MEMORY_MIN: u64 = 32 << 20;
/// Most memory of one.
const SESSION_MEMORY_MAX: u64 = 256 << 20;

/// Numbers for metrics.
#[derive(Debug, Default)]
pub struct Tally {
    /// 1 while the controller has taken this agent.
    pub connected: AtomicU64,
    /// Times that it did.
    pub connections: AtomicU64,
    /// Sessions driven for it so far.
    pub sessions: AtomicU64,
    /// Sessions driven now.
    pub sessions_active: AtomicU64,
    /// Times that a lease ended and the fall-back held.
    pub fall_backs: AtomicU64,
}

/// How it stands with the connection.
#[derive(Debug, Clone, Default)]
struct Standing {
    /// The controller that took this agent, while it is connected.
    controller: Option<Fingerprint>,
    /// What it calls this host.
    host: String,
    /// Since when it is so.
    since: Duration,
    /// Why it is not connected.
    problem: Option<String>,
}

/// What is needed to be somebody's agent.
pub struct Setup<'a> {
    /// Where the controller is.
    pub address: ControllerAddress,
    /// What it may ask for.
    pub grants: Grants,
    /// Interfaces that count for links of its network.
    pub interfaces: Vec<Counter>,
    /// Programs of the configuration, for grants that allow them.
    pub hooks: Hooks,
    /// The agent's key and certificate.
    pub identity: Identity,
    /// What the host has.
    pub fixed: Fixed,
    /// The door that has the port for probes, if this agent has none of its own.
    pub door: Option<Arc<DoorProbes>>,
    /// For all copies.
    pub limits: Limits,
    /// What the mover counts.
    pub counters: Arc<Counters>,
    /// Where its state is kept.
    pub state_dir: &'a Path,
}

/// The agent's side of its controller.
pub struct Site {
    address: ControllerAddress,
    grants: Grants,
    interfaces: Arc<[Counter]>,
    hooks: Hooks,
    identity: Identity,
    fixed: Fixed,
    door: Option<Arc<DoorProbes>>,
    limits: Limits,
    counters: Arc<Counters>,
    tokens: Arc<SessionTokens>,
    tally: Arc<Tally>,
    /// Names this process: a new one has no sessions.
    process: u64,
    state: Mutex<StateFile>,
    standing: Mutex<Standing>,
    outbox: Mutex<Outbox>,
    /// Something is to be written.
    to_write: Notify,
    sessions: Mutex<BTreeMap<u64, Arc<Driven>>>,
    /// Data streams that driven sessions may have.
    streams: Arc<Semaphore>,
    /// Counts decisions of the operator that end a connection.
    dropped: watch::Sender<u64>,
    /// The paths to ask and answer over, as the controller said last.
    probes: watch::Sender<Vec<Probe>>,
}

/// What is left to sessions that others drive, and what an agent drives itself.
pub(crate) fn halves(bounds: ServeLimits) -> (ServeLimits, ServeLimits) {
    let half = |part: u64, whole: usize| if part == 0 { whole.div_ceil(2) } else { (whole / 2).max(1) };
    let of =
        |part| ServeLimits { streams: half(part, bounds.streams), memory_bytes: bounds.memory_bytes / 2, ..bounds };
    (of(0), of(1))
}

/// Sessions that an agent drives at once with this memory.
pub(crate) fn sessions_max(bounds: &ServeLimits) -> usize {
    let fit = usize::try_from(bounds.memory_bytes / SESSION_MEMORY_MIN).unwrap_or(usize::MAX);
    bounds.sessions.min(fit).clamp(1, SESSIONS_MAX)
}

impl Site {
    /// Reads what was kept. Nothing is connected yet.
    ///
    /// # Errors
    /// When the state cannot be read, or there is no randomness.
    pub fn open(setup: Setup<'_>) -> Result<Arc<Site>, StateError> {
        let state = StateFile::open(setup.state_dir)?;
        let mut process = [0; 8];
        sys::random::fill(&mut process).map_err(|source| StateError::Io {
            what: "get random bytes for",
            path: state.path(),
            fix: None,
            source,
        })?;
        let tokens = SessionTokens::default();
        tokens.stand_still(state.kept().mode == Mode::Paused);
        let share = setup.fixed.bounds.memory_bytes / setup.fixed.sessions_max.max(1) as u64;
        let memory = share.clamp(SESSION_MEMORY_MIN, SESSION_MEMORY_MAX) * BUFFER_SHARE;
        Ok(Arc::new(Site {
            address: setup.address,
            grants: setup.grants,
            interfaces: setup.interfaces.into(),
            hooks: setup.hooks,
            identity: setup.identity,
            limits: Limits { memory: Bytes::new(memory), ..setup.limits },
            counters: setup.counters,
            tokens: Arc::new(tokens),
            tally: Arc::default(),
            process: u64::from_ne_bytes(process),
            state: Mutex::new(state),
            standing: Mutex::default(),
            outbox: Mutex::default(),
            to_write: Notify::new(),
            sessions: Mutex::default(),
            streams: Arc::new(Semaphore::new(setup.fixed.bounds.streams)),
            dropped: watch::Sender::new(0),
            probes: watch::Sender::new(Vec::new()),
            fixed: setup.fixed,
            door: setup.door,
        }))
    }

    /// Begins to ask and answer over the paths that the controller names.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub fn probe(self: &Arc<Site>) -> io::Result<Probing> {
        probe::begin(self)
    }

    /// Connects and does what is asked, until told to stop; then sessions end in good order, and that is told.
    pub async fn run(self: Arc<Site>, stop: watch::Receiver<Stop>) {
        tokio::select! {
            () = link::run(self.clone(), stop) => {}
            () = count::run(self.clone()) => {}
        }
    }

    /// The tokens of prepared sessions, for the data port.
    #[must_use]
    pub fn tokens(&self) -> Arc<SessionTokens> {
        self.tokens.clone()
    }

    /// Numbers for metrics.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// What the operator decided, and why.
    #[must_use]
    pub fn mode(&self) -> ModeSet {
        let state = lock(&self.state);
        let Kept { mode, reason, .. } = state.kept();
        ModeSet { mode: *mode, reason: reason.clone() }
    }

    /// The operator decides. It holds over a restart; sessions and the controller learn of it at once.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn decide(&self, decision: ModeSet) -> Result<(), StateError> {
        let ModeSet { mode, reason } = &decision;
        lock(&self.state).change(|kept| (kept.mode, kept.reason) = (*mode, reason.clone()))?;
        tracing::info!(?mode, reason, "the operator decided");
        self.tokens.stand_still(*mode == Mode::Paused);
        for driven in lock(&self.sessions).values() {
            driven.turn.notify_one();
        }
        self.say(FromAgent::Mode(decision));
        Ok(())
    }

    /// Drops the controller: its sessions end, its tokens open nothing, its fingerprint is forgotten. Only a new enrolment token
    /// brings one back.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn forget(&self) -> Result<(), StateError> {
        lock(&self.state).change(|kept| (kept.fingerprint, kept.forgotten) = (None, true))?;
        tracing::info!("the operator dropped the controller");
        // The controller sees this host leave before it hears that a token of it is refused.
        self.dropped.send_modify(|count| *count += 1);
        self.tokens.end_all();
        for driven in lock(&self.sessions).values() {
            driven.stop(Cause::Leaving);
        }
        Ok(())
    }

    /// Tells the controller, if it is connected.
    fn say(&self, message: FromAgent) {
        if lock(&self.standing).controller.is_some() {
            lock(&self.outbox).answer(message);
            self.to_write.notify_one();
        }
    }

    /// Changes what is to be told.
    fn tell(&self, change: impl FnOnce(&mut Outbox)) {
        change(&mut lock(&self.outbox));
        self.to_write.notify_one();
    }

    /// What the operator decided.
    fn decided(&self) -> Mode {
        lock(&self.state).kept().mode
    }

    fn begun(&self, driven: &Arc<Driven>) {
        lock(&self.sessions).insert(driven.session, driven.clone());
        self.tally.sessions.fetch_add(1, Ordering::Relaxed);
        self.tally.sessions_active.fetch_add(1, Ordering::Relaxed);
    }

    fn over(&self, session: u64) {
        if lock(&self.sessions).remove(&session).is_some() {
            self.tally.sessions_active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time since the boot: it counts while the host sleeps.
fn now() -> Duration {
    sys::clock::since_boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_among_the_metrics() {
        let bounds = ServeLimits { sessions: 1, streams: 1, handshakes: 1, memory_bytes: 1, rate_bps: None };
        let tally = Arc::new(Tally::default());
        let metrics = crate::metrics::Metrics::new(Arc::default(), bounds, std::time::UNIX_EPOCH);
        let metrics = metrics.with_controller(tally.clone());
        tally.connected.store(1, Ordering::Relaxed);
        tally.fall_backs.store(3, Ordering::Relaxed);
        let text = metrics.text();
        for line in ["longhaul_controller_connected 1", "longhaul_controller_lease_fall_backs_total 3"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    #[test]
    fn both_kinds_of_sessions_share_what_the_agent_has() {
        let bounds =
            ServeLimits { sessions: 64, streams: 5, handshakes: 3, memory_bytes: 512 << 20, rate_bps: Some(7) };
        let (served, driven) = halves(bounds);
        assert_eq!((served.streams, driven.streams), (3, 2));
        assert_eq!(served.memory_bytes + driven.memory_bytes, bounds.memory_bytes);
        assert_eq!((served.rate_bps, served.sessions), (Some(7), 64));
        assert_eq!(sessions_max(&driven), 8);
        assert_eq!(sessions_max(&ServeLimits { memory_bytes: 1, ..bounds }), 1);
        assert_eq!(sessions_max(&ServeLimits { memory_bytes: 1 << 50, sessions: 4096, ..bounds }), SESSIONS_MAX);
        assert_eq!(halves(ServeLimits { streams: 1, ..bounds }).1.streams, 1);
    }
}
