//! What the state, and what is seen beside it, look like from outside: the views of `/api/v1`, and the metrics.
//!
//! Views are total: of whatever state there is they give something. Rates are those of sessions that run: what the last planning gave them, and
//! what they measured in the last second.

mod assurance;
mod class;
mod file;
mod host;
mod link;
mod load;
mod metrics;
mod path;
mod transfer;

pub(crate) use assurance::Enforced;
pub(crate) use class::{class_loads, classes};
pub(crate) use file::files;
pub(crate) use host::{agent, agents, endpoint, endpoints, role, tokens};
pub(crate) use link::{
    Bound, booked, bound, directions, hold, limit, limits, link, links, network, resource_id, standing, unknown, way_id,
};
pub(crate) use load::{Load, by_way, ways};
pub(crate) use metrics::metrics;
pub(crate) use path::{path, paths};
pub(crate) use transfer::{leg_state, transfer, transfers};

use api::rest::Time;
use ledger::Moment;

/// A moment as it goes over the wire.
pub(crate) fn time(at: Moment) -> Time {
    Time::from_unix_ms(at.0)
}

/// Texts of a rate, as people write it.
pub(crate) fn rate(bps: u64) -> String {
    units::Rate::from_bps(bps).to_string()
}
