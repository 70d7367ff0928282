//! Who may use the API.

use serde::{Deserialize, Serialize};

use crate::{Digest, Moment, State};

/// A token of the API, known by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// Of the token.
    pub digest: Digest,
    /// What its holder may do.
    pub role: Role,
    /// Until when; `None` until it is revoked.
    pub until: Option<Moment>,
    /// Who made it.
    pub by: String,
    /// When.
    pub made: Moment,
}

/// What the holder of a token may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// See everything, change nothing.
    Viewer,
    /// That, and submit and steer transfers of one collaboration.
    Submitter {
        /// Which.
        collaboration: String,
    },
    /// That for all, and limits, hosts, classes, the network.
    Operator,
    /// Everything, tokens too.
    Admin,
}

impl State {
    /// The token of that digest and its name, if it is good now.
    #[must_use]
    pub fn token(&self, digest: Digest, now: Moment) -> Option<(&str, &ApiToken)> {
        let good = |token: &ApiToken| token.digest == digest && token.until.is_none_or(|until| until > now);
        self.tokens.iter().find(|(_, token)| good(token)).map(|(name, token)| (name.as_str(), token))
    }
}
