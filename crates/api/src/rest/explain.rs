//! Why things are as they are, and what happened.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, Wrong};

/// What can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A transfer.
    Transfer,
    /// A leg of one: `t17.1`.
    Leg,
    /// A direction of a link.
    Link,
    /// A class.
    Class,
    /// A refusal, by the number in its problem.
    Refusal,
}

impl FromStr for About {
    type Err = Wrong;

    fn from_str(word: &str) -> Result<About, Wrong> {
        Ok(match word {
            "transfer" => About::Transfer,
            "leg" => About::Leg,
            "link" => About::Link,
            "class" => About::Class,
            "refusal" => About::Refusal,
            _ => return Err(Wrong::new("kind", "ask about a transfer, leg, link, class or refusal")),
        })
    }
}

/// Why something is as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What was asked about.
    pub what: About,
    /// Which one.
    pub subject: String,
    /// The answer, in words.
    pub text: String,
    /// The rate it has, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// What holds it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// Who has that, those who have most first.
    pub holders: Vec<Holder>,
    /// Until when that is so, if somebody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What would change it.
    pub remedies: Vec<Remedy>,
    /// How sure the rates are.
    pub assurance: Assurance,
}

/// Something that is limited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// What it is: a link, a mark, a host, a limit …
    pub kind: String,
    /// What there is of it, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    /// What of it is given out, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bps: Option<u64>,
}

/// Who has a part of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// A transfer, class, reservation, or `at-large`.
    pub holder: String,
    /// Of which class, if it is a transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// How much, b/s of IP packets.
    pub rate_bps: u64,
    /// How sure that is.
    #[serde(default)]
    pub assurance: Assurance,
}

/// What would change an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What to do, in words.
    pub text: String,
    /// The rate that there would be then, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
}

/// How sure a rate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assurance {
    /// A circuit or a policed class on every shared link.
    Enforced,
    /// Only Longhaul's own traffic is controlled.
    #[default]
    Edge,
    /// It is counted or estimated only.
    Estimate,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Rises by at least one from event to event.
    pub id: u64,
    /// When.
    pub at: Time,
    /// What, as one word such as `transfer_done`, `link_down`, `gap`.
    pub kind: String,
    /// To what, such as `t17`; empty for the controller itself.
    pub subject: String,
    /// In words.
    pub text: String,
}

impl Event {
    /// The word of the event that says that earlier ones are not kept any more.
    pub const GAP: &'static str = "gap";
}
