//! What follows from a state and is looked for often: which transfers can do something, and when others can again.
//!
//! It is not encoded: it is made of the state, one transfer at a time as events change it, or as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Leg, Moment, Session, State, Transfer, TransferId};

/// The order of work in a class: urgency, deadline, what is nearly finished, age.
pub(crate) type Rank = (Reverse<u8>, Moment, u8, TransferId);

/// A leg of a transfer.
pub(crate) type LegId = (TransferId, u16);

/// Legs that compete for the same hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) class: String,
    /// Endpoints of the sources.
    pub(crate) from: Vec<String>,
    /// The endpoint of the destination.
    pub(crate) to: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// Transfers that have not ended.
    pub(crate) active: usize,
    /// Whose source is to be listed now.
    pub(crate) to_list: BTreeSet<(Rank, TransferId)>,
    /// Legs with open files that may be given away now.
    pub(crate) runnable: BTreeMap<Lane, BTreeSet<(Rank, LegId)>>,
    /// What pauses before a retry: legs, or listings.
    pub(crate) asleep: BTreeSet<(Moment, TransferId, Option<u16>)>,
    /// When pages may be tried again.
    pub(crate) pages_asleep: BTreeSet<(Moment, LegId, u32)>,
    /// Listings that were tried often enough.
    pub(crate) hopeless: BTreeSet<TransferId>,
    /// Legs that were.
    pub(crate) hopeless_legs: BTreeSet<LegId>,
    /// Pages that were.
    pub(crate) hopeless_pages: BTreeSet<(LegId, u32)>,
    /// Transfers of which nothing is left.
    pub(crate) settled: BTreeSet<TransferId>,
    /// Transfers that wait for one that ended without being done.
    pub(crate) doomed: BTreeSet<TransferId>,
    /// Who waits for a transfer.
    pub(crate) dependents: BTreeMap<TransferId, BTreeSet<TransferId>>,
    /// Transfers that ended, by when.
    pub(crate) ended: BTreeSet<(Moment, TransferId)>,
    /// Idempotency keys, by when they were used.
    pub(crate) keys: BTreeSet<(Moment, (String, String))>,
    /// What hosts are busy with; of those that are.
    pub(crate) busy: BTreeMap<String, Busy>,
    /// What is in the above for each transfer.
    entries: BTreeMap<TransferId, Vec<Entry>>,
}

/// What the sessions of a host take of it. A session within one host takes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) sessions: u32,
    /// Of all sessions.
    pub(crate) streams: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Active,
    ToList(Rank),
    Runnable(Lane, Rank, u16),
    Asleep(Moment, Option<u16>),
    PageAsleep(Moment, u16, u32),
    Hopeless,
    HopelessLeg(u16),
    HopelessPage(u16, u32),
    Settled,
    Doomed,
    After(TransferId),
    Ended(Moment),
}

impl Index {
    /// Of all that is in a state.
    pub(crate) fn of(state: &State) -> Index {
        let keys = state.keys.iter().map(|(key, keyed)| (keyed.at, key.clone())).collect();
        let mut index = Index { keys, ..Index::default() };
        for (id, transfer) in &state.transfers {
            index.set(*id, entries(state, *id, transfer));
        }
        state.sessions.values().for_each(|session| index.session_began(session));
        index
    }

    /// Counts a session at its hosts.
    pub(crate) fn session_began(&mut self, session: &Session) {
        for host in [&session.from, &session.to] {
            let busy = self.busy.entry(host.clone()).or_default();
            busy.sessions += 1;
            busy.streams += u64::from(session.streams);
        }
    }

    /// Counts it no more.
    pub(crate) fn session_ended(&mut self, session: &Session) {
        for host in [&session.from, &session.to] {
            let busy = self.busy.get_mut(host).expect("it was counted when it began");
            busy.sessions -= 1;
            busy.streams -= u64::from(session.streams);
            if busy.sessions == 0 {
                self.busy.remove(host);
            }
        }
    }

    fn set(&mut self, id: TransferId, entries: Vec<Entry>) {
        let before = self.entries.remove(&id).unwrap_or_default();
        if before != entries {
            before.into_iter().for_each(|entry| self.put(id, entry, false));
            entries.iter().cloned().for_each(|entry| self.put(id, entry, true));
        }
        if !entries.is_empty() {
            self.entries.insert(id, entries);
        }
    }

    fn put(&mut self, id: TransferId, entry: Entry, there: bool) {
        fn put<T: Ord>(set: &mut BTreeSet<T>, value: T, there: bool) {
            let changed = if there { set.insert(value) } else { set.remove(&value) };
            debug_assert!(changed, "an entry comes and goes once");
        }
        match entry {
            Entry::Active => self.active = if there { self.active + 1 } else { self.active - 1 },
            Entry::ToList(rank) => put(&mut self.to_list, (rank, id), there),
            Entry::Runnable(lane, rank, leg) => {
                let legs = self.runnable.entry(lane.clone()).or_default();
                put(legs, (rank, (id, leg)), there);
                if legs.is_empty() {
                    self.runnable.remove(&lane);
                }
            }
            Entry::Asleep(until, leg) => put(&mut self.asleep, (until, id, leg), there),
            Entry::PageAsleep(until, leg, page) => put(&mut self.pages_asleep, (until, (id, leg), page), there),
            Entry::Hopeless => put(&mut self.hopeless, id, there),
            Entry::HopelessLeg(leg) => put(&mut self.hopeless_legs, (id, leg), there),
            Entry::HopelessPage(leg, page) => put(&mut self.hopeless_pages, ((id, leg), page), there),
            Entry::Settled => put(&mut self.settled, id, there),
            Entry::Doomed => put(&mut self.doomed, id, there),
            Entry::Ended(at) => put(&mut self.ended, (at, id), there),
            Entry::After(other) => {
                let dependents = self.dependents.entry(other).or_default();
                put(dependents, id, there);
                if dependents.is_empty() {
                    self.dependents.remove(&other);
                }
            }
        }
    }
}

impl State {
    /// Brings the index up to date after a transfer has changed, come or gone.
    pub(crate) fn reindex(&mut self, id: TransferId) {
        let entries = self.transfers.get(&id).map_or(Vec::new(), |transfer| entries(self, id, transfer));
        self.index.set(id, entries);
    }
}

fn entries(state: &State, id: TransferId, transfer: &Transfer) -> Vec<Entry> {
    if let Some(ended) = &transfer.ended {
        return vec![Entry::Ended(ended.at)];
    }
    let mut found = vec![Entry::Active];
    found.extend(transfer.after.iter().copied().map(Entry::After));
    let ended = |other: &TransferId| state.transfers.get(other).is_none_or(|other| other.ended.is_some());
    if transfer.after.iter().any(ended) {
        found.push(Entry::Doomed);
    } else if transfer.is_settled() && transfer.after.is_empty() {
        found.push(Entry::Settled);
    } else if transfer.paused.is_none() && transfer.after.is_empty() {
        to_do(id, transfer, &mut found);
    }
    found
}

fn to_do(id: TransferId, transfer: &Transfer, found: &mut Vec<Entry>) {
    if transfer.listing.complete {
        for (number, leg) in (0..).zip(&transfer.legs) {
            leg_to_do(id, transfer, number, leg, found);
        }
        return;
    }
    found.push(match &transfer.listing.retry {
        Some(row) if row.is_spent() => Entry::Hopeless,
        Some(row) if row.asleep => Entry::Asleep(row.until, None),
        _ => Entry::ToList(rank(id, transfer, None)),
    });
}

fn leg_to_do(id: TransferId, transfer: &Transfer, number: u16, leg: &Leg, found: &mut Vec<Entry>) {
    let listing = &transfer.listing;
    if leg.given_up.is_some() || leg.open(listing) == 0 {
        return;
    }
    for (page, row) in &leg.page_retries {
        let idle = leg.pages.get(*page as usize).is_some_and(|left| left.given == 0);
        if leg.open_of(listing, *page) > 0 {
            match row.is_spent() {
                true if idle => found.push(Entry::HopelessPage(number, *page)),
                true => {}
                false => found.push(Entry::PageAsleep(row.until, number, *page)),
            }
        }
    }
    match &leg.retry {
        // While others of its sessions run, one of them may still get something done.
        Some(row) if row.is_spent() => {
            if leg.sessions.is_empty() || row.cause.remedy() == crate::Remedy::Nothing {
                found.push(Entry::HopelessLeg(number));
            }
        }
        Some(row) if row.asleep => found.push(Entry::Asleep(row.until, Some(number))),
        _ => {
            let from = transfer.sources.iter().map(|source| source.endpoint.clone()).collect();
            let lane = Lane { class: transfer.class.clone(), from, to: leg.to.endpoint.clone() };
            found.push(Entry::Runnable(lane, rank(id, transfer, Some(leg)), number));
        }
    }
}

/// Of a leg, or of a transfer that is to be listed.
fn rank(id: TransferId, transfer: &Transfer, leg: Option<&Leg>) -> Rank {
    let files = transfer.listing.files;
    let nearness = match leg {
        // The last sixteenth.
        Some(leg) if leg.open(&transfer.listing) <= files / 16 => 0,
        Some(leg) if leg.done > 0 || !leg.sessions.is_empty() => 1,
        _ => 2,
    };
    (Reverse(transfer.urgency), transfer.deadline.unwrap_or(Moment(u64::MAX)), nearness, id)
}
