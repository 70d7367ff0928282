//! Paths between hosts: what their packets have, and how agents find them by asking each other.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A direction of a path with a name; or a usual one that is asked over, which sessions have, or had of late, or which goes over a link in
/// trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// The path's name and its way, such as `north:forward`; `usual:a,b` of the usual path between two hosts.
    pub id: String,
    /// What the file of the network calls it; not there for the usual path between its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The host where it begins.
    pub from: String,
    /// The host where it ends.
    pub to: String,
    /// The address that its packets come from; not there if sessions cannot take it, or it is a host's own and no agent of that is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_address: Option<IpAddr>,
    /// The address that they go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_address: Option<IpAddr>,
    /// The differentiated services code point that they carry, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// The IPv6 flow label that they carry, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// The directions of links that it takes, in turn, from `from` on.
    pub links: Vec<String>,
    /// Whether questions are answered.
    pub state: PathState,
    /// Sessions whose data go over it now; of a usual path in both ways.
    pub sessions: u64,
    /// Round trip, µs: smoothed, and the shortest and the longest of some 10 s; not there before the first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<Estimate>,
    /// Share of the questions of the last minute that were not answered, both ways together, in parts per million, with the interval in
    /// which the share of all packets is with 95 %; not there before enough were asked to say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ppm: Option<Estimate>,
}

/// How a path is, by the answers to questions over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// It is not asked over now, or nothing was told yet.
    Unknown,
    /// They come.
    Answering,
    /// They came, and then three in a row did not.
    Suspect,
    /// None ever came: that says nothing of links, as a filter may drop them.
    Silent,
}

/// Something that is known as well as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The best guess.
    pub value: u64,
    /// It is hardly lower.
    pub low: u64,
    /// It is hardly higher.
    pub high: u64,
    /// How old it is, ms.
    pub age_ms: u64,
}
