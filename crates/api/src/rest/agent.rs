//! Agents, and how they come in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Check, ENROL_SECONDS_MAX, Time, Wrong, checked_agent, checked_seconds, checked_text};
use crate::agent::{Granted, Interface, Mode};

/// An agent that was enrolled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// The host of the network.
    pub host: String,
    /// Whether it is there.
    pub state: AgentState,
    /// What was decided about it.
    pub mode: Mode,
    /// Why, in words.
    pub reason: String,
    /// Fingerprint of its own key.
    pub fingerprint: String,
    /// Version of the program; empty if it was not seen since the controller began.
    pub version: String,
    /// What it calls itself.
    pub hostname: String,
    /// When it was enrolled.
    pub enrolled_at: Time,
    /// Since when it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_since: Option<Time>,
    /// Where other agents connect to.
    pub addresses: Vec<String>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// What its site grants to this controller.
    pub grants: Vec<Granted>,
    /// Processors.
    pub cores: u32,
    /// What all its sessions together may use each way, b/s of IP packets; not there if neither its site nor its interfaces say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bps: Option<u64>,
    /// What its processors move, both ways together, b/s of IP packets; not there if its site does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_bps: Option<u64>,
    /// Sessions at once at most.
    pub sessions_max: u32,
    /// Sessions that it takes part in.
    pub sessions: Vec<HostSession>,
    /// Rates of its sessions together, sent and received, b/s of IP packets.
    pub rate_bps: u64,
}

/// A session that a host takes part in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSession {
    /// Number of the session.
    pub session: u64,
    /// For which transfer.
    pub transfer: super::TransferId,
    /// The other host.
    pub other: String,
    /// Whether this host sends.
    pub sends: bool,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
}

/// Whether an agent is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It is connected.
    Online,
    /// It is not.
    Away,
}

/// `POST /agents/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    /// For which host of the network; for an agent that shares it with others `instance@host`.
    pub host: String,
    /// How long it is good, s; [`super::ENROL_SECONDS`] if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good_seconds: Option<u64>,
}

impl Check for EnrolRequest {
    fn check(&self) -> Result<(), Wrong> {
        checked_agent("host", &self.host)?;
        checked_seconds("good_seconds", self.good_seconds, ENROL_SECONDS_MAX)
    }
}

/// A token with which a host may come in once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnrolMade {
    /// For which host.
    pub host: String,
    /// The token; it is shown this once.
    pub token: String,
    /// Until when it is good.
    pub expires_at: Time,
    /// Fingerprint of the controller, for the agent to pin.
    pub fingerprint: String,
}

impl std::fmt::Debug for EnrolMade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrolMade").field("host", &self.host).finish_non_exhaustive()
    }
}

/// `POST /agents/{host}/drain`, `pause` or `resume`, and `POST /transfers/{id}/pause`, `resume` or `cancel`; the body may be
/// left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeRequest {
    /// Why, for whoever asks later.
    #[serde(default)]
    pub reason: String,
}

impl Check for ModeRequest {
    fn check(&self) -> Result<(), Wrong> {
        checked_text("reason", &self.reason)
    }
}
