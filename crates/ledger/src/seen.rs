//! What is known and not logged.

use std::collections::BTreeMap;

use crate::{Cause, Moment, SessionId, TransferId};

/// What is known now, beside the state. None of it is lost with a crash that the agents do not tell again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The agents that are connected, by host.
    pub agents: BTreeMap<String, AgentSeen>,
    /// The sessions of which something was heard, or that were asked to stop.
    pub sessions: BTreeMap<SessionId, SessionSeen>,
    /// The listings that run, with the host that lists.
    pub listings: BTreeMap<TransferId, String>,
}

/// A connected agent, from its inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSeen {
    /// Sessions at once, at either role.
    pub sessions_max: u32,
    /// Data streams at once.
    pub streams_max: u32,
    /// What it may be asked for; `None` if it did not say, and then all is tried.
    pub grants: Option<Vec<GrantSeen>>,
}

/// A grant of an agent's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantSeen {
    /// For whose transfers; `*` for all.
    pub collaboration: String,
    /// Beneath which directory, absolute.
    pub root: Vec<u8>,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
}

/// How a session goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSeen {
    /// When something was last heard of it.
    pub heard: Moment,
    /// When it was asked to stop; `None` if it was not, or one of its agents came or went since: it is asked again then.
    pub stopping: Option<Moment>,
    /// It was asked to for work with a better claim to its place.
    pub gives_way: bool,
    /// File bytes in place or equal since it began.
    pub bytes_done: u64,
    /// Measured of late, b/s of file bytes.
    pub goodput_bps: u64,
}

impl SessionSeen {
    /// What the end counts as of a session of which its agent says that cause.
    #[must_use]
    pub fn end(&self, said: Cause) -> Cause {
        if self.gives_way && said == Cause::Stopped { Cause::GaveWay } else { said }
    }
}

impl GrantSeen {
    /// Whether it covers that path, absolute, for that collaboration.
    #[must_use]
    pub fn covers(&self, collaboration: &str, path: &[u8], write: bool) -> bool {
        let may = if write { self.write } else { self.read };
        let whose = self.collaboration == "*" || self.collaboration == collaboration;
        let root = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        let beneath = path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        may && whose && beneath
    }
}
