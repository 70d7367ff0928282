//! What goes over `/api/v1`: requests with their checks, views, problems.
//!
//! Numbers that cross the wire have their unit in their name; rates are b/s of IP packets, sizes are file bytes, times are
//! RFC 3339. A request with a field that is not known is refused; a reader of views skips what it does not know. What is
//! asked for is checked once, by [`Check`], before anything else sees it.

mod agent;
mod explain;
mod history;
mod network;
mod path;
mod problem;
mod text;
mod token;
mod transfer;

pub use agent::{Agent, AgentState, EnrolMade, EnrolRequest, HostSession, ModeRequest};
pub use explain::{About, Assurance, Event, Explanation, Holder, Remedy, Resource};
pub use history::{
    HISTORY_SECONDS, HISTORY_SECONDS_MAX, History, HistoryQuery, POINTS_DEFAULT, POINTS_MAX, Point, SERIES_NAME_MAX,
    Series,
};
pub use network::{
    Accepted, Class, ClassMark, CounterSample, Counters, Endpoint, EndpointRequest, Limit, LimitRequest, Link,
    LinkState,
};
pub use path::{Estimate, Path, PathState};
pub use problem::{Kind, MEDIA_TYPE, Problem};
pub use text::{Location, Time, TransferId, checked_agent, checked_name};
pub use token::{ApiToken, Role, RoleWord, TokenMade, TokenRequest};
pub use transfer::{
    CHECKSUMS, File, FileState, FilesQuery, Leg, Overwrite, PatchRequest, Protect, Session, Submitted, Transfer,
    TransferQuery, TransferRequest, TransferState,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a request's body, where nothing else is said.
pub const BODY_MAX: usize = 64 << 10;
/// Bytes of the body of a submission: [`FILES_MAX`] names fit, and of a file of the network or its shares.
pub const BODY_LARGE_MAX: usize = 8 << 20;
/// Files that one submission names.
pub const FILES_MAX: usize = 10_000;
/// Sources of a transfer.
pub const SOURCES_MAX: usize = 16;
/// Destinations of a transfer.
pub const DESTINATIONS_MAX: usize = 64;
/// Transfers that a transfer waits for.
pub const AFTER_MAX: usize = 64;
/// Bytes of a path.
pub const PATH_MAX: usize = 4096;
/// Bytes of the name of a host, endpoint, class, link, token, collaboration.
pub const NAME_MAX: usize = 64;
/// Bytes of a text that people write: names of transfers, reasons.
pub const TEXT_MAX: usize = 256;
/// The greatest urgency; 0 is the usual.
pub const URGENCY_MAX: u8 = 9;
/// Data streams of a session at most.
pub const STREAMS_MAX: u16 = 1024;
/// Hosts of an endpoint.
pub const HOSTS_MAX: usize = 256;
/// Things on a page of a list, at most.
pub const PAGE_MAX: usize = 1000;
/// Things on a page of a list, if nobody says.
pub const PAGE_DEFAULT: usize = 100;
/// Samples of one message of counters.
pub const SAMPLES_MAX: usize = 500;
/// How long a token for enrolment may be good, s.
pub const ENROL_SECONDS_MAX: u64 = 7 * 86_400;
/// How long a token for enrolment is good, if nobody says, s.
pub const ENROL_SECONDS: u64 = 3600;
/// How long a limit from outside may hold, s.
pub const LIMIT_SECONDS_MAX: u64 = 30 * 86_400;
/// How long an API token may be good, s: ten years.
pub const TOKEN_SECONDS_MAX: u64 = 10 * 365 * 86_400;
/// Bytes of an `Idempotency-Key`.
pub const KEY_MAX: usize = 128;

/// A request that says itself whether it can be meant.
pub trait Check {
    /// Looks at it without knowing anything else.
    ///
    /// # Errors
    /// The field that is wrong, why, and what to write.
    fn check(&self) -> Result<(), Wrong>;
}

/// A field that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct Wrong {
    /// The field.
    pub field: String,
    /// Why, and the way out.
    pub why: String,
}

impl Wrong {
    /// This field is wrong.
    #[must_use]
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Wrong {
        Wrong { field: field.into(), why: why.into() }
    }
}

/// Some of a list, and where it goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// At most as many as asked for, in their order.
    pub items: Vec<T>,
    /// What to give as `cursor` for those after; not there at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that is whole.
    #[must_use]
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None }
    }
}

/// `limit` of a query, or [`PAGE_DEFAULT`].
fn checked_limit(limit: Option<usize>) -> Result<(), Wrong> {
    match limit {
        Some(limit) if !(1..=PAGE_MAX).contains(&limit) => {
            Err(Wrong::new("limit", format!("{limit} is not from 1 to {PAGE_MAX}: ask for the rest by `cursor`")))
        }
        _ => Ok(()),
    }
}

/// A text that people wrote: short, and on one line.
fn checked_text(field: &str, text: &str) -> Result<(), Wrong> {
    if text.len() > TEXT_MAX {
        return Err(Wrong::new(field, format!("it has {} bytes, {TEXT_MAX} are the most: say it shorter", text.len())));
    }
    if text.contains(char::is_control) {
        return Err(Wrong::new(field, "it has a control character: leave out line breaks and the like"));
    }
    Ok(())
}

/// So many seconds, and not none.
fn checked_seconds(field: &str, seconds: Option<u64>, most: u64) -> Result<(), Wrong> {
    match seconds {
        Some(seconds) if !(1..=most).contains(&seconds) => {
            Err(Wrong::new(field, format!("{seconds} is not from 1 to {most} seconds")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
