//! What has come to its end, well or not.

use crate::limits::ACTIONS_MAX;
use crate::{Action, Cause, Do, Event, Phase, Reason, Retry, State, Thing, Transfer, TransferId, What};

use super::record;

pub(super) fn endings(state: &State, found: &mut Vec<Action>) {
    let index = &state.index;
    for id in index.doomed.iter().take(ACTIONS_MAX) {
        let done = |other: &&TransferId| state.transfers.get(other).is_none_or(|other| other.ended.is_some());
        let other = state.transfers[id].after.iter().find(done);
        let reason = Reason::new(What::DependencyFailed);
        end(found, *id, Phase::Failed, other.map_or(reason.clone(), |other| reason.about(Thing::Transfer(*other))));
    }
    for id in index.hopeless.iter().take(ACTIONS_MAX) {
        let row = state.transfers[id].listing.retry.as_ref();
        end(found, *id, Phase::Failed, row.map_or(Reason::new(What::AllFailed), gave_up));
    }
    for ((id, leg), page) in index.hopeless_pages.iter().take(ACTIONS_MAX) {
        let row = state.transfers[id].legs[usize::from(*leg)].page_retries.get(page);
        let cause = row.map_or(Cause::Other, |row| row.cause);
        let what = Do::GiveUp { transfer: *id, leg: *leg, page: *page, cause };
        let reason = row.map_or(Reason::new(What::GaveUp(cause)), gave_up).about(Thing::Transfer(*id));
        found.push(Action { what, reason });
    }
    for (id, leg) in index.hopeless_legs.iter().take(ACTIONS_MAX) {
        let at = &state.transfers[id].legs[usize::from(*leg)];
        let reason = at.retry.as_ref().map_or(Reason::new(What::AllFailed), gave_up);
        let reason = reason.about(Thing::Endpoint(at.to.endpoint.clone()));
        record(found, reason.clone(), Event::LegFailed { transfer: *id, leg: *leg, reason });
    }
    for id in index.settled.iter().take(ACTIONS_MAX) {
        let (phase, reason) = outcome(&state.transfers[id]);
        end(found, *id, phase, reason);
    }
}

fn end(found: &mut Vec<Action>, transfer: TransferId, phase: Phase, reason: Reason) {
    record(found, reason.clone(), Event::Ended { transfer, phase, reason });
}

fn gave_up(row: &Retry) -> Reason {
    let times = format!("after {} attempts in a row", row.attempts);
    let words = if row.text.is_empty() { times } else { format!("{times}: {}", row.text) };
    Reason::new(What::GaveUp(row.cause)).saying(&words)
}

/// How a transfer ends of which nothing is left to do.
fn outcome(transfer: &Transfer) -> (Phase, Reason) {
    let legs = &transfer.legs;
    let given_up = legs.iter().find_map(|leg| leg.given_up.clone());
    let failed: u64 = legs.iter().map(|leg| leg.failed).sum();
    if given_up.is_none() && failed == 0 {
        return (Phase::Done, Reason::new(What::Complete));
    }
    let done: u64 = legs.iter().map(|leg| leg.done).sum();
    let (phase, what) = if done > 0 { (Phase::Partly, What::SomeFailed) } else { (Phase::Failed, What::AllFailed) };
    let untried: u64 = legs.iter().map(|leg| leg.open(&transfer.listing)).sum();
    let counts = format!("{done} files are in place, {failed} failed, {untried} were not tried");
    // A leg that was given up says more than a count.
    let reason = match given_up {
        Some(reason) => {
            let words = if reason.detail.is_empty() { counts } else { format!("{counts}; {}", reason.detail) };
            Reason { detail: String::new(), ..reason }.saying(&words)
        }
        None => Reason::new(what).saying(&counts),
    };
    (phase, reason)
}
