//! The controller itself: one thread that owns the state, hears agents and clients, and decides.
//!
//! What comes is taken in turns of about [`TURN_TIME`]. A turn begins with those who only look: the state is what is durable then, and they are
//! answered at once. Then events are applied to the state and gathered; at the turn's end they are appended to the log together, with one
//! `fsync`, and only then clients are answered, agents told and listeners informed. So what was acknowledged is durable, and requests that
//! come at once share the price. If the log refuses (a full disk), nothing of the turn happened: the state is read back from the log, clients
//! are told, and the next attempt of our own is [`REFUSED_PAUSE`] later. Files that agents finish wait for each other longer ([`told`]); rates
//! are planned beside the core ([`rates`]).

mod agents;
pub(crate) mod app;
mod balance;
mod clock;
pub(crate) mod history;
mod listing;
mod live;
mod paths;
mod probing;
mod rates;
mod repair;
mod routes;
mod sampling;
mod sessions;
mod start;
mod told;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use api::agent::ToAgent;
use ledger::rates::Booked;
use ledger::{Action, Event, Moment, Rejected, Seen, SessionId, State};
use model::network::Network;
use model::shares::Shares;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::events::EventHub;
use crate::hub::{ConnectionId, Heard};
use crate::store::{FileLedger, Log, Store, StoreError};

pub(crate) use clock::Clock;
use history::History;
use listing::Listings;
use live::{Connected, Live};
pub(crate) use rates::{Planned, Question};
pub use start::StartError;
pub(crate) use start::open;
use told::Told;

/// What is taken of each queue in one turn.
const TURN_MAX: usize = 1024;
/// After so long a turn takes no more; its end, with an `fsync` or two, comes on top. Who only looks waits for as long.
const TURN_TIME: Duration = Duration::from_millis(3);
/// Requests of clients that wait for the core: those that only look, and as many others.
pub(crate) const ASKS_MAX: usize = 1024;
/// Messages of agents that wait for the core.
pub(crate) const HEARD_MAX: usize = 1024;
/// How often it is asked whose sessions give way: what waits for hours may wait for a second.
const GIVES_WAY_EACH: Duration = Duration::from_secs(1);
/// How often the core looks at what has become due.
const TICK: Duration = Duration::from_millis(100);
/// After the log refused events the core makes none of its own for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Events between two snapshots.
const SNAPSHOT_EVENTS: u64 = 10_000;
/// Time between two snapshots, if there were events.
const SNAPSHOT_TIME: Duration = Duration::from_secs(600);
/// Actions that are carried out in one turn; the rest is due in the next.
const ACTIONS_MAX: usize = 256;
/// After so long actions wait for the next turn as well.
const ACTIONS_TIME: Duration = Duration::from_millis(5);

/// What waits for the core.
pub(crate) struct Queues {
    /// What only looks at the state.
    pub(crate) looks: mpsc::Receiver<Ask>,
    /// What may change it.
    pub(crate) asks: mpsc::Receiver<Ask>,
    /// What comes of agents.
    pub(crate) heard: mpsc::Receiver<Heard>,
}

/// The other ends of [`Queues`].
pub(crate) struct Doors {
    pub(crate) looks: mpsc::Sender<Ask>,
    pub(crate) asks: mpsc::Sender<Ask>,
    pub(crate) heard: mpsc::Sender<Heard>,
}

/// The queues of a core.
pub(crate) fn queues() -> (Doors, Queues) {
    let (look, looks) = mpsc::channel(ASKS_MAX);
    let (ask, asks) = mpsc::channel(ASKS_MAX);
    let (hear, heard) = mpsc::channel(HEARD_MAX);
    (Doors { looks: look, asks: ask, heard: hear }, Queues { looks, asks, heard })
}

/// What a turn begins with, beside those who look.
enum First {
    Ask(Ask),
    Heard(Heard),
    Tick,
    /// Somebody looks, or rates are due or there.
    Other,
}

/// Something a client wants done on the core's thread.
pub(crate) type Ask = Box<dyn FnOnce(&mut Core) + Send>;
/// What is told to a client when its turn is durable, or why it is not.
type Reply = Box<dyn FnOnce(Result<(), &str>) + Send>;

/// What faces need without asking the core.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What happened.
    pub(crate) events: EventHub,
    /// Digests of the tokens of the API with their owners.
    pub(crate) tokens: RwLock<Vec<KnownToken>>,
    /// Why the store refuses to be written, if it does.
    pub(crate) trouble: Mutex<Option<String>>,
}

/// A token of the API that is good until some moment.
#[derive(Clone, Debug)]
pub(crate) struct KnownToken {
    /// Of its text.
    pub(crate) digest: [u8; 32],
    /// Until when; `None` until it is revoked.
    pub(crate) until: Option<Moment>,
    /// Whose it is.
    pub(crate) caller: crate::app::Caller,
}

/// The three stores; the first field keeps them open for us alone.
pub(crate) struct Stores {
    _store: Box<dyn Store>,
    log: Log,
    pub(crate) files: FileLedger,
    pub(crate) archive: History,
}

/// The network, its shares and what is booked of it as they are read from the state's text.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) network: Arc<Network>,
    pub(crate) shares: Arc<Shares>,
    /// What others have booked of it.
    pub(crate) booked: Arc<Booked>,
}

/// The controller.
pub(crate) struct Core {
    pub(crate) state: State,
    pub(crate) seen: Seen,
    pub(crate) stores: Stores,
    pub(crate) clock: Clock,
    pub(crate) shared: Arc<Shared>,
    /// By host.
    pub(crate) connected: BTreeMap<String, Connected>,
    hosts: BTreeMap<ConnectionId, String>,
    /// Sessions that run or begin.
    pub(crate) live: BTreeMap<SessionId, Live>,
    listings: Listings,
    /// What is found of paths once.
    known: routes::Known,
    /// Questions over paths.
    probing: probing::Probing,
    repair: repair::Repair,
    told: Told,
    /// `None` until there is a network and classes.
    pub(crate) world: Option<World>,
    pub(crate) planned: Planned,
    /// What the archive was given.
    sampling: sampling::Sampling,
    balance: balance::Balance,
    /// Numbers of leases that may be used: from, below.
    generations: (u64, u64),
    /// Of this turn.
    batch: Vec<(Moment, Event)>,
    replies: Vec<Reply>,
    outbox: VecDeque<(String, ToAgent)>,
    /// What was last said of transfers, for listeners.
    last_snapshot: (u64, Instant),
    /// When it is asked again whose sessions give way to others.
    gives_way_at: Instant,
    /// Nothing of our own before this.
    refused_until: Option<Instant>,
    /// What clients were refused, and counters that they sent.
    pub(crate) desk: app::Desk,
}

/// Sleeps until then; for ever without a time.
async fn past(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Core {
    /// Runs until told to stop; what came before that is done.
    pub(crate) async fn run(mut self, mut queues: Queues, mut stop: watch::Receiver<bool>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let wake = self.balance.due().into_iter().fold(self.rates_due(), Instant::min);
            let name_at = self.probing.name_at().filter(|_| self.refused_until.is_none());
            let first = tokio::select! {
                Some(look) = queues.looks.recv() => {
                    look(&mut self);
                    First::Other
                }
                Some(ask) = queues.asks.recv() => First::Ask(ask),
                Some(message) = queues.heard.recv() => First::Heard(message),
                _ = tick.tick() => First::Tick,
                () = tokio::time::sleep_until(wake) => First::Other,
                () = past(name_at) => First::Other,
                planned = self.planned.answer() => {
                    self.take_plan(planned);
                    First::Other
                }
                found = self.balance.answer() => {
                    self.take_better(found);
                    First::Other
                }
                _ = stop.wait_for(|stop| *stop) => break,
            };
            self.turn(first, &mut queues);
        }
        self.settle_told();
        self.commit();
        if let Err(error) = self.snapshot() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "no snapshot at the end: the next start takes longer"
            );
        }
        self.stores.archive.end();
    }

    /// Makes durable what was recorded before it runs; false if the store refuses.
    pub(crate) fn keep_set_up(&mut self) -> bool {
        self.commit();
        self.refused_until.is_none()
    }

    /// How long a link is held down the first time that it fails.
    pub(crate) fn hold_down(&mut self, first: std::time::Duration) {
        self.probing.set_hold(first);
    }

    /// A turn. Nothing is applied that is not durable when it begins.
    fn turn(&mut self, first: First, queues: &mut Queues) {
        let begun = Instant::now();
        for _ in 0..TURN_MAX {
            let Ok(look) = queues.looks.try_recv() else { break };
            look(self);
        }
        let is_tick = matches!(first, First::Tick);
        match first {
            First::Ask(ask) => self.do_ask(ask),
            First::Heard(message) => self.hear(message),
            First::Tick | First::Other => {}
        }
        // What was taken first may have been a long list: who waits for an answer to it waits for what is added here.
        for _ in 0..TURN_MAX {
            if begun.elapsed() >= TURN_TIME {
                break;
            }
            let Ok(ask) = queues.asks.try_recv() else { break };
            self.do_ask(ask);
        }
        for _ in 0..TURN_MAX {
            if begun.elapsed() >= TURN_TIME {
                break;
            }
            let Ok(message) = queues.heard.try_recv() else { break };
            self.hear(message);
        }
        if is_tick {
            self.look();
        }
        if self.probing.name_at().is_some_and(|at| at <= Instant::now()) {
            self.settle_told();
        }
        self.name_due();
        self.look_for_better();
        self.lease(is_tick);
        self.commit();
    }

    /// Does what a client asks. It may end sessions, so what was told of them comes first.
    fn do_ask(&mut self, ask: Ask) {
        self.settle_told();
        ask(self);
    }

    /// What time it is for events.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Applies an event; it is in the log when this turn ends well.
    ///
    /// # Errors
    /// If it contradicts the state.
    pub(crate) fn record(&mut self, event: Event) -> Result<(), Rejected> {
        let now = self.now();
        self.state.apply(now, &event)?;
        self.planned.touch(&event);
        self.batch.push((now, event));
        Ok(())
    }

    /// As [`Core::record`], where a contradiction is a mistake of ours: it is told in the log of the program.
    pub(crate) fn record_own(&mut self, event: Event) -> bool {
        match self.record(event) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "the state does not take an event of our own");
                false
            }
        }
    }

    /// Answers a client when this turn is durable.
    pub(crate) fn reply(&mut self, reply: impl FnOnce(Result<(), &str>) + Send + 'static) {
        self.replies.push(Box::new(reply));
    }

    /// Tells an agent something when this turn is durable.
    pub(crate) fn tell(&mut self, host: &str, message: ToAgent) {
        self.outbox.push_back((host.to_owned(), message));
    }

    /// Looks at what has become due.
    fn look(&mut self) {
        self.settle_told();
        self.expire_live();
        self.hear_of_waiting();
        self.settle_counts();
        self.sample();
        if self.refused_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.refused_until = None;
        if !self.repair() {
            return;
        }
        self.look_at_paths();
        let (begun, now) = (Instant::now(), self.now());
        let mut actions = ledger::due(&self.state, &self.seen, now);
        if self.gives_way_at <= begun {
            self.gives_way_at = begun + GIVES_WAY_EACH;
            actions.extend(ledger::gives_way(&self.state, &self.seen, now, &actions));
        }
        let begun = Instant::now();
        for Action { what, reason } in actions.into_iter().take(ACTIONS_MAX) {
            tracing::debug!(?what, %reason, "due");
            self.act(what, &reason);
            if begun.elapsed() >= ACTIONS_TIME {
                break;
            }
        }
    }

    /// Ends a turn.
    fn commit(&mut self) {
        if let Err(error) = self.append() {
            return self.refused(&error);
        }
        self.keep_planning();
        if self.told.is_empty() {
            self.repair.heard.clear();
        }
        for reply in std::mem::take(&mut self.replies) {
            reply(Ok(()));
        }
        while let Some((host, message)) = self.outbox.pop_front() {
            let Some(connected) = self.connected.get(&host) else { continue };
            if !connected.out.tell(message) {
                tracing::warn!(host, "an agent takes nothing: its connection is ended");
                self.disconnect(&host);
            }
        }
    }

    fn append(&mut self) -> Result<(), StoreError> {
        // Files are given before the log says to whom: what only the file ledger knows is found at the next start.
        self.stores.files.flush()?;
        if self.batch.is_empty() {
            return Ok(());
        }
        let events: Vec<(u64, Vec<u8>)> = self.batch.iter().map(|(at, event)| (at.0, ledger::encode(event))).collect();
        self.stores.log.append(&events)?;
        *self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let batch = std::mem::take(&mut self.batch);
        self.announce(&batch);
        let (number, at) = self.last_snapshot;
        let next = self.stores.log.next();
        if (next - number >= SNAPSHOT_EVENTS || at.elapsed() >= SNAPSHOT_TIME)
            && let Err(error) = self.snapshot()
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "no snapshot: the next start takes longer");
            self.last_snapshot = (next, Instant::now());
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), StoreError> {
        let number = self.stores.log.next() - 1;
        if number + 1 > self.last_snapshot.0 {
            self.stores.log.snapshot(number, self.state.encode())?;
        }
        self.last_snapshot = (number + 1, Instant::now());
        Ok(())
    }

    /// The log did not take this turn.
    fn refused(&mut self, error: &StoreError) {
        let text = mover::session::chain(error);
        tracing::error!(error = text, "the store refuses to be written: nothing of this moment counts");
        *self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.clone());
        self.batch.clear();
        self.stores.files.forget_unwritten();
        self.planned.keep_none();
        for reply in std::mem::take(&mut self.replies) {
            reply(Err(&text));
        }
        self.refused_until = Some(Instant::now() + REFUSED_PAUSE);
        match start::replay(&mut self.stores.log) {
            Ok(state) => self.state = state,
            // What was appended is there, so this is a disk that cannot even be read: agents go on by their leases.
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the log cannot be read back: the controller ends"
                );
                std::process::exit(1);
            }
        }
        self.resume_after_refusal();
    }
}
