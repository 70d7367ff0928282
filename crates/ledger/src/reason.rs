//! Why: of a phase, of an action. Data first, a text for people from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::TEXT_MAX;
use crate::{Cause, Moment, Resource, SessionId, TransferId};

/// Why something is as it is, or is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What it is.
    pub what: What,
    /// What it is about.
    pub thing: Option<Thing>,
    /// Until when it holds, where that is known.
    pub until: Option<Moment>,
    /// In the words of who said so, at most [`TEXT_MAX`] bytes; may be empty.
    pub detail: String,
}

/// What a reason is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Thing {
    /// A host of the network, with its agent.
    Host(String),
    /// An endpoint.
    Endpoint(String),
    /// A transfer.
    Transfer(TransferId),
    /// A session.
    Session(SessionId),
    /// A class of work.
    Class(String),
    /// A link, mark or host as something that is limited.
    Resource(Resource),
    /// A token, by its name or the host that it is for.
    Token(String),
    /// A person or program, by the name of its token.
    By(String),
}

/// What a reason says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It waits for another transfer to be done.
    Dependency,
    /// What is beneath the source is being listed.
    Listing,
    /// It is the next to get something, at the next look.
    Next,
    /// No agent of the endpoint is connected.
    NoAgent,
    /// All agents of the endpoint that are connected drain or are paused.
    NoActiveAgent,
    /// No connected agent of the endpoint grants the collaboration the path.
    NoGrant,
    /// The agents of the endpoint are left aside, as sessions failed on them.
    Aside,
    /// The agents of the endpoint have as many sessions as they may.
    Full,
    /// Others of its class go before it.
    Behind,
    /// Sessions move its files.
    Moving,
    /// Its sessions are at hosts that are paused.
    HostPaused,
    /// Its sessions are at agents that are away; they go on by their leases.
    HostAway,
    /// Someone paused it.
    PausedBy,
    /// Sessions failed, and it is tried again.
    Failed(Cause),
    /// It was tried as often, or as long, as it is tried.
    GaveUp(Cause),
    /// All files are in place.
    Complete,
    /// Some files are not in place.
    SomeFailed,
    /// No file is in place.
    AllFailed,
    /// The transfer that it waited for did not get done.
    DependencyFailed,
    /// Someone cancelled it.
    CancelledBy,
    /// A host is the best for a part of the work now.
    Chosen,
    /// The pause is over.
    PauseOver,
    /// The host of the session drains.
    Draining,
    /// The agent is connected again.
    Back,
    /// The agent is not connected.
    Away,
    /// The agent was away for too long.
    AgentLost,
    /// Nobody has heard of the session for too long.
    Silent,
    /// Its time is over.
    Expired,
    /// The hold-down is over.
    HeldEnough,
    /// It is no longer of interest.
    Forgotten,
    /// Work with a better claim has no place at the hosts.
    GivesWay,
}

impl Reason {
    /// Just that.
    #[must_use]
    pub const fn new(what: What) -> Reason {
        Reason { what, thing: None, until: None, detail: String::new() }
    }

    /// About that thing.
    #[must_use]
    pub fn about(mut self, thing: Thing) -> Reason {
        self.thing = Some(thing);
        self
    }

    /// Until then.
    #[must_use]
    pub const fn until(mut self, until: Moment) -> Reason {
        self.until = Some(until);
        self
    }

    /// In these words, cut to [`TEXT_MAX`] bytes.
    #[must_use]
    pub fn saying(mut self, detail: &str) -> Reason {
        self.detail = cut(detail);
        self
    }

    /// What a person can do about it; `None` where nothing needs to be done.
    #[must_use]
    pub fn way_out(&self) -> Option<&'static str> {
        Some(match self.what {
            What::Failed(cause) | What::GaveUp(cause) => cause.way_out(),
            What::Dependency => "cancel it, or submit it without waiting",
            What::NoAgent | What::AgentLost | What::HostAway => "start the agent, or look at its way to the controller",
            What::NoActiveAgent | What::HostPaused | What::Draining => "resume a host of the endpoint",
            What::NoGrant => "add a grant to the agent's configuration",
            What::Aside => "look at the storage and the log of these hosts",
            What::Full => "wait, or let the agents have more sessions",
            What::Behind => "wait, or raise its urgency",
            What::PausedBy => "resume it",
            What::SomeFailed | What::AllFailed => "look at its failed files, then submit those again",
            What::DependencyFailed => "submit that one again, then this one",
            What::Silent => "look at the log of the agents",
            _ => return None,
        })
    }

    fn text(&self) -> String {
        let cause = |cause: Cause| cause.words();
        match self.what {
            What::Dependency => "waits for another transfer".to_owned(),
            What::Listing => "its source is being listed".to_owned(),
            What::Next => "is next".to_owned(),
            What::NoAgent => "no agent is connected".to_owned(),
            What::NoActiveAgent => "all connected agents drain or are paused".to_owned(),
            What::NoGrant => "no connected agent grants this path to the collaboration".to_owned(),
            What::Aside => "agents are left aside after failures".to_owned(),
            What::Full => "agents have as many sessions as they may".to_owned(),
            What::Behind => "others of its class go first".to_owned(),
            What::Moving => "sessions move its files".to_owned(),
            What::HostPaused => "a host of its sessions is paused".to_owned(),
            What::HostAway => "an agent of its sessions is away".to_owned(),
            What::PausedBy => "was paused".to_owned(),
            What::Failed(of) => format!("{}; it is tried again", cause(of)),
            What::GaveUp(of) => format!("{}; it is not tried again", cause(of)),
            What::Complete => "all files are in place".to_owned(),
            What::SomeFailed => "some files are not in place".to_owned(),
            What::AllFailed => "no file is in place".to_owned(),
            What::DependencyFailed => "the transfer that it waited for was not done".to_owned(),
            What::CancelledBy => "was cancelled".to_owned(),
            What::Chosen => "has room for it".to_owned(),
            What::PauseOver => "the pause is over".to_owned(),
            What::Draining => "the host drains".to_owned(),
            What::Back => "the agent is connected again".to_owned(),
            What::Away => "the agent is not connected".to_owned(),
            What::AgentLost => "the agent was away for too long".to_owned(),
            What::Silent => "nobody has heard of it for too long".to_owned(),
            What::Expired => "its time is over".to_owned(),
            What::HeldEnough => "the hold-down is over".to_owned(),
            What::Forgotten => "it is long over".to_owned(),
            What::GivesWay => "has a better claim to its place, and gets it".to_owned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(thing) = &self.thing {
            write!(f, "{thing}: ")?;
        }
        f.write_str(&self.text())?;
        if let Some(until) = self.until {
            write!(f, ", until {until}")?;
        }
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        self.way_out().map_or(Ok(()), |way_out| write!(f, "; {way_out}"))
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Host(name) => write!(f, "host `{name}`"),
            Thing::Endpoint(name) => write!(f, "endpoint `{name}`"),
            Thing::Transfer(id) => write!(f, "transfer {id}"),
            Thing::Session(id) => write!(f, "session {id}"),
            Thing::Class(name) => write!(f, "class `{name}`"),
            Thing::Resource(resource) => write!(f, "{resource}"),
            Thing::Token(name) => write!(f, "token `{name}`"),
            Thing::By(name) => write!(f, "by `{name}`"),
        }
    }
}

/// A text, cut to [`TEXT_MAX`] bytes at the end of a character.
#[must_use]
pub fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_reads_as_a_sentence() {
        let reason = Reason::new(What::Failed(Cause::NoSpace)).about(Thing::Endpoint("cern".into()));
        let reason = reason.until(Moment(1_772_344_800_000)).saying("12 GB are free");
        assert_eq!(
            reason.to_string(),
            "endpoint `cern`: there is no room at the destination; it is tried again, until 2026-03-01T06:00:00Z \
             (12 GB are free); make room at the destination"
        );
        assert_eq!(Reason::new(What::Complete).to_string(), "all files are in place");
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        let long = "ü".repeat(TEXT_MAX);
        let kept = cut(&format!("x{long}"));
        assert_eq!(kept.len(), TEXT_MAX - 1);
        assert!(long.starts_with(&kept[1..]));
    }
}
