//! Steering transfers: pause, resume, cancel, another class or urgency.

use api::rest::{PatchRequest, Transfer, TransferId};
use ledger::wish;

use crate::app::{Answer, Steer};
use crate::core::Core;
use crate::views;

/// Pauses, resumes or cancels. Doing it again changes nothing.
pub(super) fn steer(core: &mut Core, by: &str, id: TransferId, how: Steer, reason: &str) -> Answer<Transfer> {
    let number = ledger::TransferId(id.0);
    if !is_so(core, number, how) {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        core.wish(move |state, _| match how {
            Steer::Pause => wish::pause(state, number, &by, &reason),
            Steer::Resume => wish::resume(state, number),
            Steer::Cancel => wish::cancel(state, number, &by, &reason),
        })?;
    }
    views::transfer(core, id)
}

/// Whether it is as it is to be.
fn is_so(core: &Core, id: ledger::TransferId, how: Steer) -> bool {
    core.state.transfers.get(&id).is_some_and(|transfer| match how {
        Steer::Pause => transfer.paused.is_some(),
        Steer::Resume => transfer.paused.is_none() && transfer.ended.is_none(),
        Steer::Cancel => transfer.phase() == ledger::Phase::Cancelled,
    })
}

/// Gives a transfer another class, another urgency, or both; or neither, if one of them is refused.
pub(super) fn patch(core: &mut Core, id: TransferId, request: PatchRequest) -> Answer<Transfer> {
    let number = ledger::TransferId(id.0);
    core.wish(move |state, _| {
        let mut events = Vec::new();
        if let Some(class) = &request.class {
            events.extend(wish::reclass(state, number, class)?);
        }
        if let Some(urgency) = request.urgency {
            events.extend(wish::set_urgency(state, number, urgency)?);
        }
        Ok(events)
    })?;
    views::transfer(core, id)
}
