//! What a controller keeps, in three stores, never one file: the [`Log`] of events, whose fold is the state; the [`FileLedger`], pages of
//! names with a state per file; the [`Archive`] of samples, which may be lost.
//!
//! A [`Store`] is a database that holds all three: a directory of SQLite files, or PostgreSQL. It gives rows ([`rows`]); what they mean
//! and whether they are whole (each has a checksum) is decided here, the same for both. Nothing here knows what an event says.
//!
//! All calls block: use them from threads, never from an async task.

mod archive;
mod backup;
mod error;
mod files;
mod log;
mod place;
mod postgres;
pub mod rows;
mod sqlite;
mod sum;
mod verify;

use std::fmt;

pub use archive::{
    ARCHIVE_BYTES_MAX, Answer, Archive, PENDING_MAX, PLANNINGS_MAX, POINTS_MAX, Point, RING_SAMPLES, SERIES_MAX,
    SERIES_NAME_MAX,
};
pub use backup::{Copied, backup, restore};
pub use error::{Part, Result, StoreError};
pub use files::{
    CACHE_BYTES, DIGEST_BYTES_MAX, DIGEST_ROWS_MAX, FailedFile, FileLedger, FileRow, Given, LIST_MAX, LedgerReader,
    NAME_BYTES_MAX, NewFile, NewPage, Order, Outcome, PAGE_FILES_MAX, PUT_FILES_MAX, SETTLE_FILES_MAX, Settled,
    Settlement, State, TEXT_BYTES_MAX,
};
pub use log::{
    APPEND_BYTES_MAX, APPEND_EVENTS_MAX, Event, Keep, Log, LogReader, Newest, READ_BYTES_MAX, READ_EVENTS_MAX,
    SNAPSHOT_BYTES_MAX, SNAPSHOTS_KEPT, Snapshot,
};
pub use place::Place;
pub use verify::{Report, VERIFY_DAMAGES_MAX, verify};

use rows::{LogRows, PageRows, SampleRows};

/// Version of the tables. A store of a later one is refused.
pub const SCHEMA_VERSION: i64 = 1;

/// A database that holds the three stores, open for one controller: while this lives no other opens it.
pub trait Store: Send + Sync {
    /// What it is called in messages; no passwords.
    fn place(&self) -> &str;
    /// The log's rows, over a connection of their own. One writes; others may read.
    ///
    /// # Errors
    /// When the database cannot be reached or is none of ours.
    fn log(&self) -> Result<Box<dyn LogRows>>;
    /// The file ledger's rows, over a connection of their own.
    ///
    /// # Errors
    /// As [`Store::log`].
    fn pages(&self) -> Result<Box<dyn PageRows>>;
    /// The archive's rows, over a connection of their own.
    ///
    /// # Errors
    /// As [`Store::log`].
    fn samples(&self) -> Result<Box<dyn SampleRows>>;
    /// The log, and then the file ledger, as each is when it is looked at, whatever is written later; to read only.
    ///
    /// # Errors
    /// As [`Store::log`].
    fn frozen(&self) -> Result<Frozen>;
}

/// Log and file ledger, each as it was at one moment. They fit together if that is the same one, or nothing was written while they were taken.
pub struct Frozen {
    /// It is the same moment for both.
    pub is_together: bool,
    /// The log.
    pub log: Box<dyn LogRows>,
    /// The file ledger.
    pub pages: Box<dyn PageRows>,
}

/// Opens the store at a place; makes it when there is none.
///
/// # Errors
/// When another controller has it, a later version wrote it, a restore into it was cut short, others can change it, or it cannot be
/// used at all.
pub fn open(place: &Place) -> Result<Box<dyn Store>> {
    let store = open_any(place)?;
    if store.log()?.is_restoring()? {
        return Err(StoreError::Restoring { place: store.place().to_owned() });
    }
    Ok(store)
}

/// Opens the store at a place to look at it, beside the controller that may be at work on it. Nothing is made or written.
///
/// # Errors
/// When there is none, a later version wrote it, a restore into it was cut short, or it cannot be used at all.
fn beside(place: &Place) -> Result<Box<dyn Store>> {
    let store: Box<dyn Store> = match place {
        Place::Directory(path) => Box::new(sqlite::Directory::beside(path)?),
        Place::Postgres(url) => Box::new(postgres::Server::beside(url)?),
    };
    if store.log()?.is_restoring()? {
        return Err(StoreError::Restoring { place: store.place().to_owned() });
    }
    Ok(store)
}

/// As [`open`], also where a restore is under way.
fn open_any(place: &Place) -> Result<Box<dyn Store>> {
    Ok(match place {
        Place::Directory(path) => Box::new(sqlite::Directory::open(path)?),
        Place::Postgres(url) => Box::new(postgres::Server::open(url)?),
    })
}

/// A page of files of a transfer, for one of its legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The transfer.
    pub transfer: u64,
    /// The leg of the transfer.
    pub leg: u32,
    /// The page of the transfer: the same files for all legs.
    pub page: u32,
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of leg {} of transfer {}", self.page, self.leg, self.transfer)
    }
}

/// How many files are in each state, and how much is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Not given to anybody.
    pub open: u64,
    /// Given to a session.
    pub given: u64,
    /// In place.
    pub done: u64,
    /// Failed.
    pub failed: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of the files that are done.
    pub bytes_done: u64,
}

impl PageCounts {
    /// Files of the page.
    pub fn files(&self) -> u64 {
        self.open + self.given + self.done + self.failed
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &PageCounts) -> PageCounts {
        PageCounts {
            open: self.open + other.open,
            given: self.given + other.given,
            done: self.done + other.done,
            failed: self.failed + other.failed,
            bytes: self.bytes.saturating_add(other.bytes),
            bytes_done: self.bytes_done.saturating_add(other.bytes_done),
        }
    }
}
