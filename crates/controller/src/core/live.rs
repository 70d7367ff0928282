//! What is known of agents and sessions while they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::agent::{Inventory, Progress};
use ledger::rates::{Better, Demand, Watch};
use ledger::{AgentSeen, GrantSeen};
use tokio::time::Instant;

use super::routes::{Moved, Route};
use crate::hub::{ConnectionId, Out};

/// So long what an agent said of how a session goes is so.
const FRESH: Duration = Duration::from_secs(3);

/// A connected agent.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(super) connection: ConnectionId,
    pub(super) out: Out,
    /// A number of its process: another one knows no tokens of this one.
    pub(super) process: u64,
    /// Version of the program.
    pub(crate) version: String,
    /// What the host has.
    pub(crate) inventory: Inventory,
    /// Links for which its counts are left aside, with why: it was told so.
    pub(crate) uncounted: BTreeMap<String, String>,
}

impl Connected {
    /// What the ledger needs of it.
    pub(super) fn seen(&self) -> AgentSeen {
        let grant = |granted: &api::agent::Granted| GrantSeen {
            collaboration: granted.collaboration.clone(),
            root: granted.root.0.clone(),
            read: granted.read,
            write: granted.write,
        };
        AgentSeen {
            sessions_max: self.inventory.sessions_max,
            streams_max: self.inventory.streams_max,
            grants: Some(self.inventory.grants.iter().map(grant).collect()),
        }
    }
}

/// How far a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The agent that listens makes a token.
    Preparing,
    /// It has made it; the driver is asked to run as soon as there is a rate.
    Ready {
        /// The token.
        token: String,
    },
    /// The driver was asked to run.
    Running,
}

/// A session that runs or begins.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(super) step: Step,
    /// Since when it is at this step.
    pub(super) since: Instant,
    /// Numbers of its files in their page, in the order of the names that the agents know.
    pub(super) numbers: Vec<u32>,
    /// The process that made its token.
    pub(super) token_of: Option<u64>,
    /// Numbers of files that failed and are tried again by another session.
    pub(super) again: BTreeSet<u32>,
    /// What was last heard of it.
    pub(crate) progress: Option<(Instant, Progress)>,
    /// What it could use.
    pub(super) demand: Demand,
    /// Whether it does what it may.
    pub(super) watch: Watch,
    /// The paths that it may take, that which it likes best first; empty until they were looked for.
    pub(super) routes: Vec<Route>,
    /// The one in use.
    pub(crate) route: Option<Route>,
    /// The last time that it went over to another one.
    pub(crate) moved: Option<Moved>,
    /// It is to go over to the path that it likes best since it has more there.
    pub(super) better: Option<Better>,
    /// When it was last found to have more elsewhere.
    pub(super) balanced: Option<Instant>,
}

impl Live {
    pub(super) fn new(step: Step, numbers: Vec<u32>) -> Live {
        Live {
            step,
            since: Instant::now(),
            numbers,
            token_of: None,
            again: BTreeSet::new(),
            progress: None,
            demand: Demand::default(),
            watch: Watch::default(),
            routes: Vec::new(),
            route: None,
            moved: None,
            better: None,
            balanced: None,
        }
    }

    /// It goes over one path at a time; else over all addresses.
    pub(super) fn is_bound(&self) -> bool {
        self.routes.iter().any(|route| matches!(route, Route::Named(_)))
    }

    /// Measured of late, b/s of IP packets; 0 if nothing was heard for 3 s.
    pub(crate) fn rate_bps(&self) -> u64 {
        self.measured_bps().unwrap_or(0)
    }

    /// The same; `None` if nothing was heard for 3 s, or ever.
    pub(crate) fn measured_bps(&self) -> Option<u64> {
        self.recent().map(|progress| progress.rate_bps)
    }

    /// Measured of late, b/s of file bytes; 0 if nothing was heard for 3 s.
    pub(super) fn goodput_bps(&self) -> u64 {
        self.recent().map_or(0, |progress| progress.goodput_bps)
    }

    /// For how long its agent has said nothing of how it goes, if that is long.
    pub(crate) fn silent(&self) -> Option<Duration> {
        self.progress.as_ref().map(|(at, _)| at.elapsed()).filter(|since| *since >= FRESH)
    }

    fn recent(&self) -> Option<&Progress> {
        self.progress.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, progress)| progress)
    }

    pub(super) fn go(&mut self, step: Step) {
        self.step = step;
        self.since = Instant::now();
    }
}
