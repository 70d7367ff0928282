//! What happened, as the log keeps it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    BookingsKnown, Cause, Decision, Digest, End, Endpoint, Enrolment, Files, How, Limit, Location, Moment,
    NetworkKnown, Page, Phase, Promise, Reason, Resource, Role, SessionId, SharesKnown, TransferId,
};

/// The version of the encoding: the first byte of each event.
const VERSION: u8 = 1;

/// An outcome. New kinds are added at the end: the place of a kind is its number in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The network was set.
    NetworkSet {
        /// As accepted.
        network: NetworkKnown,
        /// Who set it.
        by: String,
    },
    /// The classes and marks were set.
    SharesSet {
        /// As accepted.
        shares: SharesKnown,
        /// Who set them.
        by: String,
    },
    /// An endpoint was added or changed.
    EndpointSet {
        /// Its name.
        name: String,
        /// What it is.
        endpoint: Endpoint,
    },
    /// An endpoint was removed.
    EndpointRemoved {
        /// Its name.
        name: String,
    },
    /// An enrolment token was made.
    EnrolmentMade {
        /// Of the token.
        token: Digest,
        /// What it is for.
        enrolment: Enrolment,
    },
    /// An enrolment token was not used in time.
    EnrolmentExpired {
        /// Of the token.
        token: Digest,
    },
    /// An agent came with a token, which is used up.
    Enrolled {
        /// Of the token.
        token: Digest,
        /// The host.
        host: String,
        /// Of its key.
        fingerprint: Digest,
    },
    /// An agent is connected again.
    AgentBack {
        /// The host.
        host: String,
    },
    /// An agent is not connected any more.
    AgentAway {
        /// The host.
        host: String,
    },
    /// Someone decided about a host.
    AgentDecided {
        /// The host.
        host: String,
        /// Whether that was its own operator, at the host; else one of the controller.
        own: bool,
        /// What they decided.
        decision: Decision,
    },
    /// An agent is no longer known. Its key opens nothing.
    AgentForgotten {
        /// The host.
        host: String,
    },
    /// An API token was made.
    TokenMade {
        /// What it is called.
        name: String,
        /// Of the token.
        digest: Digest,
        /// What its holder may do.
        role: Role,
        /// Until when.
        until: Option<Moment>,
        /// Who made it.
        by: String,
    },
    /// An API token is good for nothing any more: revoked or expired.
    TokenGone {
        /// What it was called.
        name: String,
    },
    /// A limit came from outside.
    LimitSet {
        /// On what.
        resource: Resource,
        /// Which.
        limit: Limit,
    },
    /// A limit is over, or was lifted.
    LimitLifted {
        /// On what it was.
        resource: Resource,
    },
    /// A link was found down.
    LinkDown {
        /// Which.
        link: String,
        /// How that is known.
        evidence: String,
    },
    /// Probes over a link that was down are answered: its hold-down begins.
    LinkUp {
        /// Which.
        link: String,
    },
    /// The hold-down of a link is over.
    LinkUsable {
        /// Which.
        link: String,
    },
    /// A link had no trouble for so long that its flaps are forgotten.
    LinkForgotten {
        /// Which.
        link: String,
    },
    /// Generations below this number may be used.
    GenerationsReserved {
        /// The first that may not.
        below: u64,
    },
    /// A transfer was submitted.
    Submitted {
        /// Its number.
        transfer: TransferId,
        /// What it is.
        submission: Box<Submission>,
    },
    /// A page of its files is in the file ledger. Number 0 begins anew.
    PageListed {
        /// Of which transfer.
        transfer: TransferId,
        /// Its number, from 0.
        number: u32,
        /// How much it is.
        page: Page,
    },
    /// All files of a transfer are known.
    ListingDone {
        /// Of which transfer.
        transfer: TransferId,
        /// Whether the path is a directory.
        directory: bool,
    },
    /// A listing failed.
    ListingFailed {
        /// Of which transfer.
        transfer: TransferId,
        /// Of which source.
        source: u8,
        /// Why.
        cause: Cause,
        /// In the words of the agent.
        text: String,
    },
    /// A session got files, and two hosts.
    SessionStarted {
        /// Its number: above that of all before.
        session: SessionId,
        /// For which transfer.
        transfer: TransferId,
        /// For which leg.
        leg: u16,
        /// From which page.
        page: u32,
        /// From which source.
        source: u8,
        /// The host that reads.
        from: String,
        /// The host that writes.
        to: String,
        /// Who drives it.
        driver: End,
        /// How many files.
        files: u32,
        /// Their bytes, where known.
        bytes: u64,
        /// Which files, as the file ledger has it.
        pick: Vec<u8>,
        /// Data streams that it may have.
        streams: u32,
    },
    /// Files of a session are finished, or are to be tried again after it. Completions come in batches.
    FilesSettled {
        /// Of which session.
        session: SessionId,
        /// What became of them.
        settled: Settled,
    },
    /// What a running session used was logged, at most each minute.
    SessionUsed {
        /// Which.
        session: SessionId,
        /// Bytes sent since it began.
        bytes: u64,
    },
    /// A session is over; files that it has still are open again.
    SessionEnded {
        /// Which.
        session: SessionId,
        /// How.
        outcome: Outcome,
    },
    /// The open files of a page were given up.
    PageFailed {
        /// Of which transfer.
        transfer: TransferId,
        /// On which leg.
        leg: u16,
        /// Which page.
        page: u32,
        /// How many files.
        files: u32,
        /// Why.
        cause: Cause,
    },
    /// A leg was given up.
    LegFailed {
        /// Of which transfer.
        transfer: TransferId,
        /// Which.
        leg: u16,
        /// Why.
        reason: Reason,
    },
    /// The pause before a retry is over.
    Woken {
        /// Of which transfer.
        transfer: TransferId,
        /// Of which leg; `None` for its listing.
        leg: Option<u16>,
    },
    /// A transfer has ended.
    Ended {
        /// Which.
        transfer: TransferId,
        /// How: done, partly, failed, cancelled.
        phase: Phase,
        /// Why.
        reason: Reason,
    },
    /// A transfer was paused.
    Paused {
        /// Which.
        transfer: TransferId,
        /// By whom and why.
        reason: Reason,
    },
    /// A paused transfer goes on.
    Resumed {
        /// Which.
        transfer: TransferId,
    },
    /// A transfer has another class.
    Reclassed {
        /// Which.
        transfer: TransferId,
        /// The class.
        class: String,
    },
    /// A transfer has another urgency.
    UrgencySet {
        /// Which.
        transfer: TransferId,
        /// The urgency.
        urgency: u8,
    },
    /// A transfer that ended long ago is no longer remembered.
    Forgotten {
        /// Which.
        transfer: TransferId,
    },
    /// An idempotency key is no longer kept.
    KeyExpired {
        /// Of which token.
        by: String,
        /// The key.
        key: String,
    },
    /// What others have booked was set.
    BookingsSet {
        /// As accepted.
        bookings: BookingsKnown,
        /// Who set it.
        by: String,
    },
    /// A link that was found down is to be held down for another time than usual.
    LinkHeld {
        /// Which.
        link: String,
        /// After its first good probe, ms: 1 to [`crate::limits::HOLD_MAX_MS`].
        hold_ms: u64,
    },
    /// The log before this is that of a backup. What came after the backup is lost, but agents know numbers of it: numbers of sessions and
    /// of leases go on beyond any that may have been given then.
    Restored {},
}

impl Event {
    /// Its kind in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Event::NetworkSet { .. } => "network_set",
            Event::SharesSet { .. } => "shares_set",
            Event::EndpointSet { .. } => "endpoint_set",
            Event::EndpointRemoved { .. } => "endpoint_removed",
            Event::EnrolmentMade { .. } => "enrolment_made",
            Event::EnrolmentExpired { .. } => "enrolment_expired",
            Event::Enrolled { .. } => "enrolled",
            Event::AgentBack { .. } => "agent_back",
            Event::AgentAway { .. } => "agent_away",
            Event::AgentDecided { .. } => "agent_decided",
            Event::AgentForgotten { .. } => "agent_forgotten",
            Event::TokenMade { .. } => "token_made",
            Event::TokenGone { .. } => "token_gone",
            Event::LimitSet { .. } => "limit_set",
            Event::LimitLifted { .. } => "limit_lifted",
            Event::LinkDown { .. } => "link_down",
            Event::LinkUp { .. } => "link_up",
            Event::LinkUsable { .. } => "link_usable",
            Event::LinkForgotten { .. } => "link_forgotten",
            Event::GenerationsReserved { .. } => "generations_reserved",
            Event::Submitted { .. } => "submitted",
            Event::PageListed { .. } => "page_listed",
            Event::ListingDone { .. } => "listing_done",
            Event::ListingFailed { .. } => "listing_failed",
            Event::SessionStarted { .. } => "session_started",
            Event::FilesSettled { .. } => "files_settled",
            Event::SessionUsed { .. } => "session_used",
            Event::SessionEnded { .. } => "session_ended",
            Event::PageFailed { .. } => "page_failed",
            Event::LegFailed { .. } => "leg_failed",
            Event::Woken { .. } => "woken",
            Event::Ended { .. } => "ended",
            Event::Paused { .. } => "paused",
            Event::Resumed { .. } => "resumed",
            Event::Reclassed { .. } => "reclassed",
            Event::UrgencySet { .. } => "urgency_set",
            Event::Forgotten { .. } => "forgotten",
            Event::KeyExpired { .. } => "key_expired",
            Event::BookingsSet { .. } => "bookings_set",
            Event::LinkHeld { .. } => "link_held",
            Event::Restored {} => "restored",
        }
    }
}

/// A transfer as it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub collaboration: String,
    /// Its class of work.
    pub class: String,
    /// Any of them can serve each file.
    pub sources: Vec<Location>,
    /// A leg to each.
    pub destinations: Vec<Location>,
    /// What is moved.
    pub files: Files,
    /// Within its class.
    pub urgency: u8,
    /// When it should be done.
    pub deadline: Option<Moment>,
    /// How files are copied.
    pub how: How,
    /// What it waits for.
    pub after: BTreeSet<TransferId>,
    /// Who submitted it: the name of a token.
    pub by: String,
    /// A key, by which the same request is known again, and the digest of the request.
    pub key: Option<(String, Digest)>,
    /// What is promised.
    pub promise: Option<Promise>,
}

/// What became of some files of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// In place.
    pub done: u32,
    /// Bytes of those.
    pub done_bytes: u64,
    /// Failed for good.
    pub failed: u32,
    /// Open again when the session ends, as [`crate::State::judge`] has it.
    pub again: u32,
    /// Why the last of the latter failed.
    pub again_cause: Option<Cause>,
    /// Whether any of the latter was not found at the source, so that another source is taken.
    pub not_found: bool,
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it ended early; `None` if it came to its end.
    pub cause: Option<Cause>,
    /// The host whose own fault that is, where it is known.
    pub host: Option<String>,
    /// In the words of the agent.
    pub text: String,
    /// File bytes in place since it began.
    pub bytes_done: u64,
    /// File bytes sent since it began, again included: what its class used.
    pub bytes_sent: u64,
}

/// Bytes that are no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Nothing.
    #[error("decode {what}: it is empty")]
    Empty {
        /// An event or a state.
        what: &'static str,
    },
    /// Of a later program.
    #[error("decode {what}: it has version {version}, and this program knows {known}: run a newer one")]
    Version {
        /// An event or a state.
        what: &'static str,
        /// What it has.
        version: u8,
        /// What is known.
        known: u8,
    },
    /// Not what was written.
    #[error("decode {what}: {problem}: restore a backup")]
    Damaged {
        /// An event or a state.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// The bytes of an event: a version, then postcard.
///
/// # Panics
/// Never: an event is plain data.
#[must_use]
pub fn encode(event: &Event) -> Vec<u8> {
    postcard::to_extend(event, vec![VERSION]).expect("an event is plain data")
}

/// The event of these bytes.
///
/// # Errors
/// If they are no event, are more than one, or are of a later version.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    versioned("an event", VERSION, bytes)
}

/// What was encoded, all of it.
pub(crate) fn versioned<'a, T: Deserialize<'a>>(
    what: &'static str,
    known: u8,
    bytes: &'a [u8],
) -> Result<T, DecodeError> {
    let Some((&version, rest)) = bytes.split_first() else { return Err(DecodeError::Empty { what }) };
    if version != known {
        return Err(DecodeError::Version { what, version, known });
    }
    let damaged = |problem: &str| DecodeError::Damaged { what, problem: problem.to_owned() };
    match postcard::take_from_bytes(rest) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged("bytes follow its end")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}
