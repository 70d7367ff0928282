//! What users and operators want, checked against the state: events to log, or a refusal.
//!
//! Nothing here changes a state. Events of one wish are logged together, in their order, and then applied.

mod hosts;
mod site;
mod steer;
mod submit;

use crate::limits::NAME_MAX;

pub use hosts::{decide, enrol, forget_agent, lost_at_hello, make_enrolment};
pub use site::{
    lift_limit, link_down, link_up, make_token, remove_endpoint, reserve_generations, revoke_token, set_bookings,
    set_endpoint, set_limit, set_network, set_shares,
};
pub use steer::{cancel, pause, reclass, resume, set_urgency};
pub use submit::{Accepted, submit};

/// Why a wish is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Of what kind.
    pub kind: Kind,
    /// What is wrong, with which thing, and the way out.
    pub text: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// There is no such thing.
    Unknown,
    /// The state of things is against it.
    Conflict,
    /// It makes no sense.
    Bad,
    /// A bound is reached.
    Full,
}

fn refuse<T>(kind: Kind, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind, text: text.into() })
}

fn need(holds: bool, kind: Kind, text: impl FnOnce() -> String) -> Result<(), Refusal> {
    if holds { Ok(()) } else { refuse(kind, text()) }
}

/// Whether this may be the name of something; `what` is what it is for.
fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let fits = !name.is_empty() && name.len() <= NAME_MAX && !name.contains(char::is_control);
    need(fits, Kind::Bad, || format!("{what}: write 1 to {NAME_MAX} bytes without control characters"))
}
