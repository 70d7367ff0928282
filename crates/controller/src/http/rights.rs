//! Who may do what: one table.

use api::rest::RoleWord;

/// A thing that can be asked for. The routes ([`super::routes`]) are made of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Looks: lists, views, explanations, events.
    Look,
    /// Reads the metrics.
    Metrics,
    /// Submits transfers, and changes those of its collaboration.
    Transfer,
    /// Puts counters.
    Count,
    /// Changes endpoints, limits and bookings, agents' modes.
    Operate,
    /// Lets agents in and throws them out.
    Enrol,
    /// Changes the network, classes and marks.
    Govern,
    /// Makes, lists and removes tokens.
    Tokens,
}

impl Deed {
    /// All of them.
    pub const ALL: [Deed; 8] = [
        Deed::Look,
        Deed::Metrics,
        Deed::Transfer,
        Deed::Count,
        Deed::Operate,
        Deed::Enrol,
        Deed::Govern,
        Deed::Tokens,
    ];

    /// The least role that may do it. Roles are in order: each may do what those before it may.
    #[must_use]
    pub fn least(self) -> RoleWord {
        match self {
            Deed::Look | Deed::Metrics => RoleWord::Viewer,
            Deed::Transfer => RoleWord::Submitter,
            Deed::Count | Deed::Operate => RoleWord::Operator,
            Deed::Enrol | Deed::Govern | Deed::Tokens => RoleWord::Admin,
        }
    }

    /// Whether a role may do it.
    #[must_use]
    pub fn allows(self, role: RoleWord) -> bool {
        role >= self.least()
    }
}
