//! Who may do what: roles, and the tokens that carry them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Check, TOKEN_SECONDS_MAX, Time, Wrong, checked_name, checked_seconds};

/// What the owner of a token may do. Each role may do what those before it may.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "RoleText", try_from = "RoleText")]
pub enum Role {
    /// Looks at everything.
    Viewer,
    /// Submits transfers of one collaboration, and changes those.
    Submitter {
        /// Which.
        collaboration: String,
    },
    /// Changes transfers, endpoints, limits, modes of agents; puts counters.
    Operator,
    /// Everything.
    Admin,
}

/// The word of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleWord {
    /// Looks at everything.
    Viewer,
    /// Submits transfers of one collaboration.
    Submitter,
    /// Changes transfers, endpoints, limits, modes of agents; puts counters.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// Its word.
    #[must_use]
    pub fn word(&self) -> RoleWord {
        match self {
            Role::Viewer => RoleWord::Viewer,
            Role::Submitter { .. } => RoleWord::Submitter,
            Role::Operator => RoleWord::Operator,
            Role::Admin => RoleWord::Admin,
        }
    }

    /// Whether transfers of this collaboration may be submitted and changed.
    #[must_use]
    pub fn may_act_for(&self, collaboration: &str) -> bool {
        match self {
            Role::Viewer => false,
            Role::Submitter { collaboration: own } => own == collaboration,
            Role::Operator | Role::Admin => true,
        }
    }
}

/// A role as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RoleText {
    role: RoleWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collaboration: Option<String>,
}

impl From<Role> for RoleText {
    fn from(role: Role) -> RoleText {
        let word = role.word();
        let collaboration = match role {
            Role::Submitter { collaboration } => Some(collaboration),
            _ => None,
        };
        RoleText { role: word, collaboration }
    }
}

impl TryFrom<RoleText> for Role {
    type Error = Wrong;

    fn try_from(text: RoleText) -> Result<Role, Wrong> {
        role(text.role, text.collaboration.as_deref())
    }
}

fn role(word: RoleWord, collaboration: Option<&str>) -> Result<Role, Wrong> {
    match (word, collaboration) {
        (RoleWord::Submitter, Some(name)) => {
            checked_name("collaboration", name)?;
            Ok(Role::Submitter { collaboration: name.to_owned() })
        }
        (RoleWord::Submitter, None) => {
            Err(Wrong::new("collaboration", "a submitter is one of a collaboration: name it"))
        }
        (_, Some(_)) => Err(Wrong::new("collaboration", "only a submitter has one: leave it out")),
        (RoleWord::Viewer, None) => Ok(Role::Viewer),
        (RoleWord::Operator, None) => Ok(Role::Operator),
        (RoleWord::Admin, None) => Ok(Role::Admin),
    }
}

/// `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What it is called; no two have the same name.
    pub name: String,
    /// What it is for.
    pub role: RoleWord,
    /// Of a submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration: Option<String>,
    /// How long it is good, s; for ever if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good_seconds: Option<u64>,
}

impl TokenRequest {
    /// The role, which [`Check`] has found to be one.
    ///
    /// # Errors
    /// When role and collaboration do not go together.
    pub fn role(&self) -> Result<Role, Wrong> {
        role(self.role, self.collaboration.as_deref())
    }
}

impl Check for TokenRequest {
    fn check(&self) -> Result<(), Wrong> {
        checked_name("name", &self.name)?;
        self.role()?;
        checked_seconds("good_seconds", self.good_seconds, TOKEN_SECONDS_MAX)
    }
}

/// A token that was made. Its text is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenMade {
    /// What it is called.
    pub name: String,
    /// The token.
    pub token: String,
    /// Until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl std::fmt::Debug for TokenMade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenMade").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A token, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiToken {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub role: RoleWord,
    /// Of a submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration: Option<String>,
    /// Until when it is good; for ever if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}
