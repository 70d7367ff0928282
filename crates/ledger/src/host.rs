//! Endpoints, and the agents that see them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Cause, Digest, Moment};

/// The host of the network at which an agent is. An agent is called as its host is, or, where several share a host, `instance@host`: rates, links and
/// limits are then those of the host for all of them together.
#[must_use]
pub fn machine(agent: &str) -> &str {
    agent.rsplit_once('@').map_or(agent, |(_, host)| host)
}

/// A storage with the hosts that see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Names of agents, each at its [`machine`].
    pub hosts: BTreeSet<String>,
    /// Where it is at each of them: an absolute path.
    pub root: Vec<u8>,
}

/// The agent of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Of its key.
    pub fingerprint: Digest,
    /// When it came.
    pub enrolled: Moment,
    /// Since when it is not connected; `None` while it is.
    pub away: Option<Moment>,
    /// What its own operator decided, at the host.
    pub own: Decision,
    /// What an operator of the controller decided.
    pub ours: Decision,
}

/// What someone decided about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What.
    pub mode: Mode,
    /// Why, in their words.
    pub reason: String,
}

/// What a host does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It takes part.
    #[default]
    Active,
    /// Its sessions stand still and it takes nothing new.
    Paused,
    /// Its sessions end in good order and it takes nothing new.
    Draining,
}

/// A token with which an agent may enrol, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// As which host.
    pub host: String,
    /// Until when.
    pub until: Moment,
    /// Who made it.
    pub by: String,
}

/// A host on which sessions failed for its own cause: others are taken first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// Why the last failed.
    pub cause: Cause,
    /// How many times in a row.
    pub failures: u32,
    /// When the last did.
    pub at: Moment,
    /// Until when nothing is given to it.
    pub until: Moment,
}

impl Agent {
    /// The stricter of what both operators decided.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.own.mode.max(self.ours.mode)
    }
}
