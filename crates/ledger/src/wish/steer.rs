//! Steering a transfer.

use crate::{Event, Phase, Reason, State, Thing, Transfer, TransferId, What};

use super::submit::{check_class, check_urgency};
use super::{Kind, Refusal, need, refuse};

/// Pauses a transfer: its sessions end in good order, and what is done stays done.
///
/// # Errors
/// If there is none, it has ended, or is paused.
pub fn pause(state: &State, id: TransferId, by: &str, why: &str) -> Result<Vec<Event>, Refusal> {
    let transfer = live(state, id)?;
    need(transfer.paused.is_none(), Kind::Conflict, || format!("transfer {id} is paused already"))?;
    let reason = Reason::new(What::PausedBy).about(Thing::By(by.to_owned())).saying(why);
    Ok(vec![Event::Paused { transfer: id, reason }])
}

/// Lets a paused transfer go on.
///
/// # Errors
/// If there is none, it has ended, or is not paused.
pub fn resume(state: &State, id: TransferId) -> Result<Vec<Event>, Refusal> {
    let transfer = live(state, id)?;
    need(transfer.paused.is_some(), Kind::Conflict, || format!("transfer {id} is not paused"))?;
    Ok(vec![Event::Resumed { transfer: id }])
}

/// Cancels a transfer: its sessions end, and what is in place stays there.
///
/// # Errors
/// If there is none, or it has ended.
pub fn cancel(state: &State, id: TransferId, by: &str, why: &str) -> Result<Vec<Event>, Refusal> {
    live(state, id)?;
    let reason = Reason::new(What::CancelledBy).about(Thing::By(by.to_owned())).saying(why);
    Ok(vec![Event::Ended { transfer: id, phase: Phase::Cancelled, reason }])
}

/// Puts a transfer in another class.
///
/// # Errors
/// If there is no such transfer or class, or the transfer has ended.
pub fn reclass(state: &State, id: TransferId, class: &str) -> Result<Vec<Event>, Refusal> {
    let transfer = live(state, id)?;
    check_class(state, class)?;
    let same = transfer.class == class;
    Ok(if same { Vec::new() } else { vec![Event::Reclassed { transfer: id, class: class.to_owned() }] })
}

/// Gives a transfer another urgency.
///
/// # Errors
/// If there is none, it has ended, or there is no such urgency.
pub fn set_urgency(state: &State, id: TransferId, urgency: u8) -> Result<Vec<Event>, Refusal> {
    let transfer = live(state, id)?;
    check_urgency(urgency)?;
    let same = transfer.urgency == urgency;
    Ok(if same { Vec::new() } else { vec![Event::UrgencySet { transfer: id, urgency }] })
}

fn live(state: &State, id: TransferId) -> Result<&Transfer, Refusal> {
    let Some(transfer) = state.transfers.get(&id) else {
        return refuse(Kind::Unknown, format!("there is no transfer {id}: look at `transfer ls`"));
    };
    let word = transfer.phase().word();
    need(transfer.ended.is_none(), Kind::Conflict, || format!("transfer {id} is {word}: submit a new one"))?;
    Ok(transfer)
}
