//! What is to be done.

use crate::{Cause, Event, Reason, SessionId, TransferId};

/// Something to do now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// What.
    pub what: Do,
    /// Why.
    pub reason: Reason,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Do {
    /// Log this. Nothing else is needed, but for [`Event::SessionEnded`]: whichever of its two agents is connected is told that the
    /// session is over.
    Record(Event),
    /// Ask a host what is at the path of a source; log [`Event::PageListed`] for each page, then [`Event::ListingDone`], or
    /// [`Event::ListingFailed`]. It is in [`crate::Seen::listings`] meanwhile.
    List {
        /// For which transfer.
        transfer: TransferId,
        /// Which of its sources.
        source: u8,
        /// At which host.
        host: String,
    },
    /// Take so many open files of the page from the file ledger, log [`Event::SessionStarted`], then ask the agents. What goes wrong
    /// then is [`Event::SessionEnded`].
    Start(Start),
    /// Ask the driver to end a session in good order; where it is not connected, the other end, which says when it is over. It is marked in
    /// [`crate::SessionSeen::stopping`], until one of the two agents comes or goes: then it is asked again.
    Stop {
        /// Which.
        session: SessionId,
    },
    /// Mark the open files of a page as failed in the file ledger, with that cause, then log [`Event::PageFailed`].
    GiveUp {
        /// For which transfer.
        transfer: TransferId,
        /// For which of its legs.
        leg: u16,
        /// Which page.
        page: u32,
        /// Why.
        cause: Cause,
    },
}

/// A session to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its number.
    pub session: SessionId,
    /// For which transfer.
    pub transfer: TransferId,
    /// For which of its legs.
    pub leg: u16,
    /// From which page.
    pub page: u32,
    /// From which of the sources.
    pub source: u8,
    /// The host that reads.
    pub from: String,
    /// The host that writes.
    pub to: String,
    /// How many open files of the page, at most.
    pub files: u32,
    /// Bytes of them at most, but for one file that is larger.
    pub bytes_max: u64,
    /// Data streams that it may have.
    pub streams: u32,
}
