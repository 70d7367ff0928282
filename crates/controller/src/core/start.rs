//! From the stores to a core: the last snapshot, and the events after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};

use ledger::rates::Booked;
use ledger::{Cause, DecodeError, Event, Files, Moment, Rejected, Seen, SessionId, Settled, State};
use tokio::time::Instant;

use super::balance::Balance;
use super::history::History;
use super::listing::Listings;
use super::live::{Live, Step};
use super::sampling::Sampling;
use super::sessions::unpick;
use super::{Clock, Core, Planned, Shared, Stores, World};
use crate::events::EventHub;
use crate::store::{Archive, FileLedger, Keep, Log, PageId, Place, State as FileState, StoreError};

/// Numbers of told events that an earlier run may have used: what is told is not logged one by one.
const TOLD_PER_EVENT: u64 = 16;

/// Why a controller cannot start from its store.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event of the log is none.
    #[error("event {number} of the log")]
    Event {
        /// Its number.
        number: u64,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// An event does not follow from those before it.
    #[error("event {number} of the log contradicts those before it: restore a backup")]
    Contradiction {
        /// Its number.
        number: u64,
        /// How.
        #[source]
        source: Rejected,
    },
    /// The archive has no thread.
    #[error("cannot start the thread of the archive")]
    Thread(#[source] std::io::Error),
    /// A snapshot is none.
    #[error("the snapshot after event {number}")]
    Snapshot {
        /// Of which event.
        number: u64,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
}

/// Opens the stores at a place and reads the state.
///
/// # Errors
/// If they cannot be used, or are not what was written.
pub(crate) fn open(place: &Place, keep: Keep) -> Result<Core, StartError> {
    let store = crate::store::open(place)?;
    let mut log = Log::open(&*store, keep)?;
    let state = replay(&mut log)?;
    let mut files = FileLedger::open(&*store)?;
    let live = running(&state, &mut files)?;
    let archive = Archive::open(&*store)?;
    let sampling = Sampling::of(&archive.names().collect::<Vec<_>>());
    let archive = History::of(archive).map_err(StartError::Thread)?;
    let next = log.next();
    tracing::info!(
        store = %place, events = next - 1, transfers = state.transfers.len(), agents = state.agents.len(),
        sessions = state.sessions.len(), "state read"
    );
    let shared = Shared {
        events: EventHub::new(next.saturating_mul(TOLD_PER_EVENT)),
        tokens: RwLock::default(),
        trouble: Mutex::default(),
    };
    let below = state.generations_below;
    let mut core = Core {
        state,
        seen: Seen::default(),
        stores: Stores { _store: store, log, files, archive },
        clock: Clock::new(),
        shared: Arc::new(shared),
        connected: BTreeMap::new(),
        hosts: BTreeMap::new(),
        live,
        listings: Listings::default(),
        known: super::routes::Known::default(),
        probing: super::probing::Probing::default(),
        told: super::Told::default(),
        world: None,
        repair: super::repair::Repair::default(),
        planned: Planned::default(),
        sampling,
        balance: Balance::default(),
        generations: (below, below),
        batch: Vec::new(),
        replies: Vec::new(),
        outbox: std::collections::VecDeque::new(),
        last_snapshot: (next, Instant::now()),
        gives_way_at: Instant::now(),
        refused_until: None,
        desk: super::app::Desk::default(),
    };
    core.read_world();
    core.share_tokens();
    core.catch_up()?;
    core.commit();
    Ok(core)
}

/// The state as the log has it.
pub(super) fn replay(log: &mut Log) -> Result<State, StartError> {
    let reader = log.reader();
    let newest = reader.newest()?;
    let (mut state, mut next) = match newest.snapshot {
        Some(snapshot) => {
            let number = snapshot.number;
            let state = State::decode(&snapshot.bytes).map_err(|source| StartError::Snapshot { number, source })?;
            (state, number + 1)
        }
        None => (State::default(), 1),
    };
    loop {
        let events = reader.read(next, u32::MAX)?;
        let Some(last) = events.last() else { return Ok(state) };
        next = last.number + 1;
        for event in events {
            let number = event.number;
            let decoded = ledger::decode(&event.bytes).map_err(|source| StartError::Event { number, source })?;
            let applied = state.apply(Moment(event.at_ms), &decoded);
            applied.map_err(|source| StartError::Contradiction { number, source })?;
        }
    }
}

/// The sessions of a state as they are after a start: their agents will say whether they run. Files that none of them has are open.
fn running(state: &State, files: &mut FileLedger) -> Result<BTreeMap<SessionId, Live>, StoreError> {
    let mut live = BTreeMap::new();
    let mut keep: BTreeMap<PageId, Vec<u32>> = BTreeMap::new();
    for (id, session) in &state.sessions {
        let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
        let numbers = unpick(&session.pick);
        keep.entry(page).or_default().extend(&numbers);
        live.insert(*id, Live::new(Step::Running, numbers));
    }
    forget_unknown(state, files)?;
    let opened = files.reset_given(&keep)?;
    if opened > 0 {
        tracing::info!(files = opened, "files that no session has any more are open again");
    }
    Ok(live)
}

/// Files of transfers that the state does not know were put for a submission or are of a transfer that is forgotten.
fn forget_unknown(state: &State, files: &mut FileLedger) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let some = files.reader().transfers(after, crate::store::LIST_MAX)?;
        let Some(last) = some.last().copied() else { return Ok(()) };
        after = Some(last);
        for transfer in some.into_iter().filter(|id| !state.transfers.contains_key(&ledger::TransferId(*id))) {
            files.delete(transfer)?;
        }
    }
}

/// Most files of one read.
const FILES_READ: u32 = crate::store::LIST_MAX;

impl Core {
    /// The file ledger is written before the log: what it knows of the files of a session and the log does not is logged now. A session
    /// whose files are no longer given to it (a machine that lost power may forget that) is over.
    pub(super) fn catch_up(&mut self) -> Result<(), StoreError> {
        let sessions: Vec<SessionId> = self.state.sessions.keys().copied().collect();
        for id in sessions {
            let Some(session) = self.state.sessions.get(&id) else { continue };
            let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
            let numbers: BTreeSet<u32> = unpick(&session.pick).into_iter().collect();
            let (mut done, mut done_bytes, mut failed, mut open, mut bytes) = (0, 0_u64, 0, false, 0_u64);
            for file in self.stores.files.reader().files(page, 0, FILES_READ)? {
                if !numbers.contains(&file.number) {
                    continue;
                }
                bytes = bytes.saturating_add(file.size_bytes);
                match file.state {
                    FileState::Done => {
                        done += 1;
                        done_bytes = done_bytes.saturating_add(file.size_bytes);
                    }
                    FileState::Failed => failed += 1,
                    FileState::Open => open = true,
                    FileState::Given => {}
                }
            }
            // One that goes on where another ended names files that were in place before it.
            let before = u32::try_from(numbers.len()).unwrap_or(u32::MAX).saturating_sub(session.files);
            let bytes_before = bytes.saturating_sub(session.bytes);
            let transfer = self.state.transfers.get(&session.transfer);
            let is_sized = transfer.is_none_or(|transfer| transfer.files != Files::List { sized: false });
            // Of a list without sizes only the sum of its page is known.
            let done_bytes = match is_sized {
                true => done_bytes.saturating_sub(session.done_bytes).saturating_sub(bytes_before),
                false => self.bytes_done_unlogged(page)?,
            };
            let Some(session) = self.state.sessions.get(&id) else { continue };
            let settled = Settled {
                done: u32::saturating_sub(done, session.done).saturating_sub(before),
                done_bytes,
                failed: u32::saturating_sub(failed, session.failed),
                ..Settled::default()
            };
            if settled.done + settled.failed > 0 {
                self.record_own(Event::FilesSettled { session: id, settled });
            }
            if open {
                let text = "the controller's machine lost which files it had".to_owned();
                self.end_session(id, Some(Cause::Leaving), text, None);
            }
        }
        Ok(())
    }

    /// Bytes in place of a page that the log does not know of yet.
    fn bytes_done_unlogged(&mut self, page: PageId) -> Result<u64, StoreError> {
        let pages = self.stores.files.reader().pages(page.transfer, page.leg, page.page, 1)?;
        let stored = pages.first().filter(|(id, _)| *id == page).map_or(0, |(_, counts)| counts.bytes_done);
        let leg = self.state.transfers.get(&ledger::TransferId(page.transfer));
        let leg = leg.and_then(|transfer| transfer.legs.get(page.leg as usize));
        let known = leg.and_then(|leg| leg.pages.get(page.page as usize)).map_or(0, |left| left.done_bytes);
        Ok(stored.saturating_sub(known))
    }

    /// Reads network, shares and bookings from the text in the state.
    pub(crate) fn read_world(&mut self) {
        use model::bookings::Bookings;
        use model::network::Network;
        use model::shares::Shares;
        self.planned.dirty();
        self.world = None;
        let (Some(network), Some(shares)) = (&self.state.network, &self.state.shares) else { return };
        let read = Network::from_toml(&network.text, "network").and_then(|network| {
            let shares = Shares::from_toml(&shares.text, "shares", &network)?;
            let bookings = self.state.bookings.as_ref().map_or("", |bookings| &bookings.text);
            let bookings = Bookings::from_toml(bookings, "bookings", &network)?;
            let booked = Arc::new(Booked::of(&network, &shares, &bookings));
            Ok(World { network: Arc::new(network), shares: Arc::new(shares), booked })
        });
        match read {
            Ok(world) => self.world = Some(world),
            Err(error) => {
                tracing::error!(%error, "network, classes and bookings do not go together: nothing is given a rate")
            }
        }
        self.forget_routes();
    }

    /// Gives the faces the tokens that are good.
    pub(crate) fn share_tokens(&self) {
        use std::sync::PoisonError;
        let known = self.state.tokens.iter().map(|(name, token)| super::KnownToken {
            digest: token.digest.0,
            until: token.until,
            caller: crate::app::Caller { name: name.clone(), role: crate::views::role(&token.role) },
        });
        *self.shared.tokens.write().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }
}
