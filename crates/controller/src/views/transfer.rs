//! Transfers, their legs and sessions.

use std::collections::BTreeMap;

use api::rest::{self, Kind, Page, Problem, TransferQuery, TransferState};
use ledger::{Leg, Phase, Reason, SessionId, Standings, Thing, Transfer, TransferId};

use super::{Enforced, Load, time, ways};
use crate::app::Answer;
use crate::core::Core;

/// Transfers that one page of a list looks at; it goes on with the next page, be this one full or not.
const LOOKED_AT_MAX: usize = 20_000;

/// A transfer with all there is to say of it.
pub(crate) fn transfer(core: &Core, id: rest::TransferId) -> Answer<rest::Transfer> {
    let found = core.state.transfers.get(&TransferId(id.0));
    let standing = |id| ledger::standing(&core.state, &core.seen, core.now(), id);
    let enforced = Enforced::now(core);
    let shown = |transfer| shown(core, id, transfer, standing(TransferId(id.0)), &enforced, true);
    found.map(shown).ok_or_else(|| Problem::not_found(format!("transfer {id}")))
}

/// A page of transfers, the newest first.
pub(crate) fn transfers(core: &Core, query: &TransferQuery) -> Answer<Page<rest::Transfer>> {
    let below = match &query.cursor {
        None => u64::MAX,
        Some(cursor) => cursor.parse::<rest::TransferId>().map_err(|_| wrong_cursor())?.0,
    };
    let limit = query.limit.unwrap_or(rest::PAGE_DEFAULT);
    let is_asked = |transfer: &Transfer| {
        query.class.as_ref().is_none_or(|class| *class == transfer.class)
            && query.state.is_none_or(|asked| state(transfer.phase()) == asked)
    };
    let enforced = Enforced::now(core);
    let mut standings = Standings::new(&core.state, &core.seen, core.now());
    let mut items = Vec::new();
    let mut last = None;
    let mut older = core.state.transfers.range(..TransferId(below)).rev();
    for (id, transfer) in older.by_ref().take(LOOKED_AT_MAX) {
        last = Some(*id);
        if is_asked(transfer) {
            items.push(shown(core, rest::TransferId(id.0), transfer, standings.of(*id), &enforced, false));
            if items.len() == limit {
                break;
            }
        }
    }
    let next = older.next().and(last).map(|last| last.to_string());
    Ok(Page { items, next })
}

pub(super) fn wrong_cursor() -> Problem {
    let problem = Problem::new(Kind::Invalid, "the cursor is none that a page gave as `next`");
    Problem { field: Some("cursor".into()), ..problem.fix("begin without one") }
}

fn shown(
    core: &Core,
    id: rest::TransferId,
    transfer: &Transfer,
    standing: Option<(Phase, Reason)>,
    enforced: &Enforced,
    whole: bool,
) -> rest::Transfer {
    let (phase, reason) = standing.unwrap_or((transfer.phase(), Reason::new(ledger::What::Next)));
    let legs: Vec<rest::Leg> =
        (1..).zip(&transfer.legs).map(|(number, leg)| shown_leg(core, transfer, number, leg, &reason, whole)).collect();
    let all = transfer.legs.iter().flat_map(|leg| &leg.sessions);
    let load = Load::of_all(core, all.clone());
    let sum = |of: fn(&rest::Leg) -> u64| legs.iter().map(of).fold(0, u64::saturating_add);
    rest::Transfer {
        id,
        name: transfer.name.clone(),
        collaboration: transfer.collaboration.clone(),
        class: transfer.class.clone(),
        urgency: transfer.urgency,
        deadline: transfer.deadline.map(time),
        state: state(phase),
        reason: told(core, &reason, all),
        waits_for: reason.thing.as_ref().filter(|_| !phase.is_end() && phase != Phase::Moving).map(name),
        until: reason.until.map(time),
        sources: transfer.sources.iter().map(|source| location(core, source)).collect(),
        bytes_total: sum(|leg| leg.bytes_total),
        bytes_done: sum(|leg| leg.bytes_done),
        files_total: sum(|leg| leg.files_total),
        files_done: sum(|leg| leg.files_done),
        files_failed: sum(|leg| leg.files_failed),
        rate_bps: load.measured_bps,
        allocated_bps: load.allocated_bps,
        assurance: enforced.of_sessions(core, transfer.legs.iter().flat_map(|leg| &leg.sessions)),
        legs,
        after: transfer.after.iter().map(|other| rest::TransferId(other.0)).collect(),
        submitted_by: transfer.by.clone(),
        submitted_at: time(transfer.at),
        started_at: core.desk.started.get(&TransferId(id.0)).copied().map(time),
        ended_at: transfer.ended.as_ref().map(|ended| time(ended.at)),
    }
}

/// The reason, with what limits its sessions if they run.
fn told<'a>(core: &Core, reason: &Reason, sessions: impl Iterator<Item = &'a SessionId>) -> String {
    if reason.what != ledger::What::Moving {
        return reason.to_string();
    }
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    let mut silent = None;
    for live in sessions.filter_map(|id| core.live.get(id)) {
        if let Some(since) = live.silent() {
            // What it said last may not be so any more.
            silent = silent.max(Some(since));
            continue;
        }
        let limit = live.progress.as_ref().map_or("", |(_, progress)| progress.limit.as_str());
        if !limit.is_empty() {
            *words.entry(limit).or_default() += 1;
        }
    }
    match (words.iter().max_by_key(|(_, count)| **count), silent) {
        (Some((limit, _)), _) => format!("{reason}; limited by {limit}"),
        (None, Some(since)) => format!("{reason}; the agent has said nothing of them for {} s", since.as_secs()),
        (None, None) => reason.to_string(),
    }
}

/// What a reason is about, by its name.
fn name(thing: &Thing) -> String {
    match thing {
        Thing::Host(name) | Thing::Endpoint(name) | Thing::Class(name) | Thing::Token(name) | Thing::By(name) => {
            name.clone()
        }
        Thing::Transfer(id) => id.to_string(),
        Thing::Session(id) => id.to_string(),
        Thing::Resource(resource) => super::resource_id(resource),
    }
}

/// A place as its agents see it; beneath an endpoint that is no more, what is known of it.
fn location(core: &Core, at: &ledger::Location) -> rest::Location {
    let path = crate::core::app::absolute(&core.state, at).unwrap_or_else(|| {
        let mut path = b"/".to_vec();
        path.extend_from_slice(&at.path);
        api::Name(path)
    });
    rest::Location { endpoint: at.endpoint.clone(), path }
}

fn shown_leg(core: &Core, transfer: &Transfer, number: u32, leg: &Leg, reason: &Reason, whole: bool) -> rest::Leg {
    let load = Load::of_all(core, &leg.sessions);
    let state = leg_state(transfer, leg);
    let bytes_done = leg.done_bytes.saturating_add(under_way(core, leg));
    let sessions = if whole { leg.sessions.iter().filter_map(|id| session(core, *id)).collect() } else { Vec::new() };
    rest::Leg {
        number,
        destination: location(core, &leg.to),
        state,
        reason: leg_reason(transfer, leg, state, reason),
        // Sizes of a list are not known before its files are done.
        bytes_total: transfer.listing.bytes.max(bytes_done),
        bytes_done,
        files_total: transfer.listing.files,
        files_done: leg.done,
        files_failed: leg.failed,
        rate_bps: load.measured_bps,
        sessions,
    }
}

/// File bytes in place of files that are not done yet.
fn under_way(core: &Core, leg: &Leg) -> u64 {
    let of = |id: &SessionId| {
        let session = core.state.sessions.get(id)?;
        let (_, progress) = core.live.get(id)?.progress.as_ref()?;
        let more = progress.bytes_done.saturating_sub(session.done_bytes);
        // Where sizes are known it has no more than it was given.
        let left = session.bytes.saturating_sub(session.done_bytes);
        Some(if session.bytes > 0 { more.min(left) } else { more })
    };
    leg.sessions.iter().filter_map(of).fold(0, u64::saturating_add)
}

/// Where a leg stands: it may be done while others of its transfer move.
pub(crate) fn leg_state(transfer: &Transfer, leg: &Leg) -> TransferState {
    let listing = &transfer.listing;
    let is_settled = listing.complete && leg.is_settled(listing);
    let phase = transfer.phase();
    if is_settled && leg.given_up.is_none() && leg.failed == 0 {
        return TransferState::Done;
    }
    if is_settled || (phase.is_end() && phase != Phase::Cancelled) {
        return if leg.done > 0 { TransferState::Partly } else { TransferState::Failed };
    }
    match phase {
        Phase::Moving | Phase::Retrying | Phase::Queued if listing.complete => {
            let is_asleep = leg.retry.as_ref().is_some_and(|retry| retry.asleep);
            match (leg.sessions.is_empty(), is_asleep) {
                (false, _) => TransferState::Moving,
                (true, true) => TransferState::Retrying,
                (true, false) => TransferState::Queued,
            }
        }
        phase => self::state(phase),
    }
}

fn leg_reason(transfer: &Transfer, leg: &Leg, state: TransferState, of_transfer: &Reason) -> String {
    if let Some(given_up) = &leg.given_up {
        return given_up.to_string();
    }
    match (state, &leg.retry) {
        (TransferState::Done, _) => "all files are in place".to_owned(),
        (TransferState::Partly | TransferState::Failed, _) if transfer.listing.complete => {
            let (all, missing) = (transfer.listing.files, transfer.listing.files.saturating_sub(leg.done));
            format!("{missing} of {all} files are not in place; look at its failed files")
        }
        (TransferState::Moving, _) => match leg.sessions.len() {
            1 => "a session moves its files".to_owned(),
            many => format!("{many} sessions move its files"),
        },
        (TransferState::Retrying, Some(retry)) => {
            let words = if retry.text.is_empty() { String::new() } else { format!(" ({})", retry.text) };
            format!("{}; it is tried again at {}{words}; {}", retry.cause.words(), retry.until, retry.cause.way_out())
        }
        (TransferState::Queued, _) if transfer.phase() != Phase::Queued => "is next".to_owned(),
        _ => of_transfer.to_string(),
    }
}

fn session(core: &Core, id: SessionId) -> Option<rest::Session> {
    let session = core.state.sessions.get(&id)?;
    let load = Load::of(core, id);
    let progress = core.live.get(&id).and_then(|live| live.progress.as_ref()).map(|(_, progress)| progress);
    Some(rest::Session {
        id: id.0,
        from: session.from.clone(),
        to: session.to.clone(),
        path: ways(core, id),
        allocated_bps: load.allocated_bps,
        rate_bps: load.measured_bps,
        streams: progress.map_or(0, |progress| progress.streams),
        limit: progress.map(|progress| progress.limit.clone()).unwrap_or_default(),
        // An agent that does not know them says 0.
        rtt_us: progress.map(|progress| progress.rtt_us).filter(|rtt| *rtt > 0),
        cwnd_bytes: progress.map(|progress| progress.cwnd_bytes).filter(|bytes| *bytes > 0),
        retransmits: progress.map_or(0, |progress| progress.retransmits),
    })
}

/// The same phase in the words of the API.
pub(super) fn state(phase: Phase) -> TransferState {
    match phase {
        Phase::Waiting => TransferState::Waiting,
        Phase::Listing => TransferState::Listing,
        Phase::Queued => TransferState::Queued,
        Phase::Moving => TransferState::Moving,
        Phase::Paused => TransferState::Paused,
        Phase::Retrying => TransferState::Retrying,
        Phase::Done => TransferState::Done,
        Phase::Partly => TransferState::Partly,
        Phase::Failed => TransferState::Failed,
        Phase::Cancelled => TransferState::Cancelled,
    }
}
