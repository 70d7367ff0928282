//! What the world around is like: the network and its classes as accepted, limits from outside, links that fail, usage.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Moment;

/// The network in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkKnown {
    /// The TOML as it was accepted.
    pub text: String,
    /// Its hosts. Kept with the text, so that the fold reads no TOML.
    pub hosts: BTreeSet<String>,
    /// Its links.
    pub links: BTreeSet<String>,
}

/// Who shares it: classes, marks, floors of traffic at large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharesKnown {
    /// The TOML as it was accepted.
    pub text: String,
    /// Its classes by name.
    pub classes: BTreeMap<String, ClassKnown>,
    /// Its marks.
    pub marks: BTreeSet<String>,
    /// After which time what a class used counts half, ms.
    pub half_life_ms: u64,
}

/// What others have booked of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingsKnown {
    /// The TOML as it was accepted.
    pub text: String,
    /// How many there are.
    pub count: u32,
}

/// What the order of work needs to know of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassKnown {
    /// 0 is served first.
    pub tier: u8,
    /// Its part beside its siblings.
    pub weight: u32,
}

/// What a limit is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    /// A link, each way.
    Link(String),
    /// A mark.
    Mark(String),
    /// All that a host sends, and all that it receives.
    Host(String),
    /// A link, one way.
    Way {
        /// The link.
        link: String,
        /// From its first end in the description to the second; else back.
        forward: bool,
    },
    /// A class of work, with those in it.
    Class(String),
}

/// A limit from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// At most, b/s of IP packets; 0 for nothing.
    pub rate_bps: u64,
    /// Until when; `None` until it is lifted.
    pub until: Option<Moment>,
    /// Who set it.
    pub by: String,
    /// Why, in their words.
    pub why: String,
}

/// A link that is down, or was of late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTrouble {
    /// Since when it is down, the last time.
    pub down: Moment,
    /// How that is known.
    pub evidence: String,
    /// Since when probes are answered again; `None` while they are not.
    pub up: Option<Moment>,
    /// Whether it is used again: the hold-down is over.
    pub usable: bool,
    /// How long it is held down after the first good probe, ms.
    pub hold_ms: u64,
    /// How many times it went down, as long as that is remembered.
    pub flaps: u32,
}

/// What a class has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes ever.
    pub total_bytes: u64,
    /// Bytes, older ones counted less by the half-life, as of the moment below.
    pub recent_bytes: u64,
    /// When that was reckoned.
    pub as_of: Moment,
    /// Bytes of urgent transfers ever.
    pub urgent_bytes: u64,
}

impl Resource {
    /// The name of the link, mark, host or class; of one way of a link `link:forward` or `link:backward`.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Resource::Link(name) | Resource::Mark(name) | Resource::Host(name) | Resource::Class(name) => {
                Cow::Borrowed(name)
            }
            Resource::Way { link, forward } => {
                Cow::Owned(format!("{link}:{}", if *forward { "forward" } else { "backward" }))
            }
        }
    }

    /// As it is written where a limit is set or lifted: `link:ana`, `link:ana:forward`, `mark:ocean`, `host:dtn1`, `class:cms`.
    #[must_use]
    pub fn written(&self) -> String {
        let kind = match self {
            Resource::Link(_) | Resource::Way { .. } => "link",
            Resource::Mark(_) => "mark",
            Resource::Host(_) => "host",
            Resource::Class(_) => "class",
        };
        format!("{kind}:{}", self.name())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Link(name) => write!(f, "link `{name}`"),
            Resource::Way { .. } => write!(f, "link `{}`", self.name()),
            Resource::Mark(name) => write!(f, "mark `{name}`"),
            Resource::Host(name) => write!(f, "host `{name}`"),
            Resource::Class(name) => write!(f, "class `{name}`"),
        }
    }
}
