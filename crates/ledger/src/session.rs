//! Sessions.

use serde::{Deserialize, Serialize};

use crate::{Cause, Moment, TransferId};

/// A run of a mover between two hosts for some files of a page, while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// For which transfer.
    pub transfer: TransferId,
    /// For which of its legs.
    pub leg: u16,
    /// From which page its files are.
    pub page: u32,
    /// From which of the sources: index in [`crate::Transfer::sources`].
    pub source: u8,
    /// The host that reads.
    pub from: String,
    /// The host that writes.
    pub to: String,
    /// Which of the two connects and drives; the other listens.
    pub driver: End,
    /// How many files it was given.
    pub files: u32,
    /// Their bytes, where known.
    pub bytes: u64,
    /// Which files of the page: a bit for each, that of file 0 the lowest of the first byte; at most [`crate::limits::PICK_MAX`] bytes.
    pub pick: Vec<u8>,
    /// Data streams that it may have.
    pub streams: u32,
    /// When it was given.
    pub at: Moment,
    /// Files that it finished.
    pub done: u32,
    /// Their bytes.
    pub done_bytes: u64,
    /// Files that failed.
    pub failed: u32,
    /// Files that failed and are to be tried again once it has ended.
    pub again: u32,
    /// Why the last of those failed.
    pub again_cause: Option<Cause>,
    /// Bytes that were logged as its class's usage.
    pub used_bytes: u64,
    /// When they were.
    pub used_at: Moment,
}

/// An end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    /// Where the files are read.
    Source,
    /// Where they are written.
    Destination,
}

impl Session {
    /// Files of which it has said nothing yet.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.held().saturating_sub(self.again)
    }

    /// Files that are its own until it ends: all but those that are done or failed. Files that are to be tried again stay with it, so
    /// that a file is never with two sessions of which one has not ended.
    #[must_use]
    pub const fn held(&self) -> u32 {
        self.files.saturating_sub(self.done).saturating_sub(self.failed)
    }

    /// The host that drives it.
    #[must_use]
    pub fn driver_host(&self) -> &str {
        match self.driver {
            End::Source => &self.from,
            End::Destination => &self.to,
        }
    }

    /// Whether this is one of its hosts.
    #[must_use]
    pub fn is_at(&self, host: &str) -> bool {
        self.from == host || self.to == host
    }
}
