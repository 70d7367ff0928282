//! Events, their fold into the state of a controller, and what follows from it.
//!
//! - [`Event`]: an outcome, as the log keeps it. Never a question that would be decided again.
//! - [`State`]: the fold of all events so far. The same events give the same bytes, on every machine.
//! - [`due`]: what is to be done now, each with its [`Reason`]; [`next_due`]: when to look again if nothing happens.
//! - [`wish`]: what a user or an operator wants, checked against the state; gives events, or a [`Refusal`].
//! - [`standing`]: the phase of a transfer, and why it is in it.
//!
//! Files are not in here: the file ledger keeps them by page. The state counts, for each leg and page, how many are open, given to a
//! session, done or failed. **The file ledger is written first, then the event.** What a crash leaves between the two is made good at
//! the start, as a session names its files ([`Session::pick`]): those of them that the file ledger calls done or failed and the session's
//! counts do not are logged as [`Event::FilesSettled`]; the others of them are given again to it; files given to no session are
//! open. Failures beyond those of the state on a page are those of [`Do::GiveUp`]: log [`Event::PageFailed`].
//! A file to be tried again stays with its session until that ends.
//!
//! Nothing here does I/O, reads a clock or spawns anything; time is an argument.

#![forbid(unsafe_code)]

mod access;
mod action;
mod cause;
pub mod cuts;
mod due;
mod event;
mod host;
mod id;
mod index;
pub mod lease;
pub mod limits;
mod outside;
pub mod rates;
mod reason;
mod seen;
mod session;
mod state;
mod transfer;
mod urgent;
mod why;
pub mod wish;

pub use access::{ApiToken, Role};
pub use action::{Action, Do, Start};
pub use cause::{Cause, Remedy, Verdict};
pub use due::{due, gives_way, next_due};
pub use event::{DecodeError, Event, Outcome, Settled, Submission, decode, encode};
pub use host::{Agent, Aside, Decision, Endpoint, Enrolment, Mode, machine};
pub use id::{Digest, Moment, SessionId, TransferId};
pub use outside::{BookingsKnown, ClassKnown, Limit, LinkTrouble, NetworkKnown, Resource, SharesKnown, Usage};
pub use reason::{Reason, Thing, What, cut};
pub use seen::{AgentSeen, GrantSeen, Seen, SessionSeen};
pub use session::{End, Session};
pub use state::{Keyed, Rejected, State, Unfinished};
pub use transfer::{
    Assurance, Ended, Files, How, Leg, Listing, Location, Page, PageLeft, Phase, Promise, Retry, Transfer,
};
pub use urgent::UrgentUsed;
pub use why::{Standings, standing};
pub use wish::Refusal;
