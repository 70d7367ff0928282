//! What can go wrong with a store.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::PageId;

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others can change the directory, or read a file in it.
    #[error("others can {what} {} (mode {mode:04o}): run `chmod {fix} {}`", path.display(), path.display())]
    Loose {
        /// What they can do.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they should be.
        fix: &'static str,
    },
    /// Another controller has it open.
    #[error("the store {place} is held by {by}: stop that controller first, or choose another store")]
    Held {
        /// Which store.
        place: String,
        /// Who has it, as well as is known.
        by: String,
    },
    /// Another controller opened the store while this one had lost its connection.
    #[error("another controller took over the store {place}: this one must stop; restart it once the other is gone")]
    TakenOver {
        /// Which store.
        place: String,
    },
    /// A later version wrote it.
    #[error(
        "{place} has schema version {found}, this program knows up to {known}: use the newer longhaul, or restore a backup made before the upgrade"
    )]
    Newer {
        /// Which store.
        place: String,
        /// Version of its schema.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// Something else is there.
    #[error("{place} is no store of longhaul: choose another place")]
    NotOurs {
        /// Where.
        place: String,
    },
    /// The place cannot be understood.
    #[error("`{text}` is no place of a store: give a directory or postgres://user@host/database")]
    Place {
        /// What was given.
        text: String,
    },
    /// Its log never stood still for long enough to look at the file ledger beside it.
    #[error("the store {place} is written without a pause: run the backup again when the controller has less to do")]
    Restless {
        /// Which store.
        place: String,
    },
    /// A restore into it did not come to its end.
    #[error("the restore into {place} was cut short: run it again")]
    Restoring {
        /// Which store.
        place: String,
    },
    /// A restore or backup would mix with what is there.
    #[error("{place} is not empty: choose another place, or move what is there away")]
    NotEmpty {
        /// Which store.
        place: String,
    },
    /// There is no store.
    #[error("there is no store in {place}: check the path")]
    Missing {
        /// Where.
        place: String,
    },
    /// No room. Nothing of what was to be written is there; reads go on.
    #[error("cannot {what} in {place}: the disk is full; free some space, it is tried anew with the next request")]
    Full {
        /// What was tried.
        what: &'static str,
        /// In which store.
        place: String,
        /// What the database said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// What is stored is not what was written.
    #[error(
        "{what} in {place} is damaged ({why}): check the disk, then restore a backup with `longhaul controller restore`"
    )]
    Damaged {
        /// What is damaged.
        what: Part,
        /// In which store.
        place: String,
        /// What gave it away.
        why: String,
    },
    /// Events that were removed.
    #[error("event {from} was trimmed from the log, it begins with {first}: begin with a snapshot")]
    Trimmed {
        /// The first that was asked for.
        from: u64,
        /// The first that is there.
        first: u64,
    },
    /// More than a bound of the store.
    #[error("{found} {what} are too many for the store: at most {most}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// How many may be.
        most: u64,
    },
    /// A snapshot of events that are not there, or older than the newest.
    #[error("a snapshot of event {number} makes no sense: the newest is of {newest}, the last event is {last}")]
    SnapshotOrder {
        /// Of the snapshot.
        number: u64,
        /// Of the newest snapshot, 0 for none.
        newest: u64,
        /// The last event, 0 for none.
        last: u64,
    },
    /// No such page was put.
    #[error("{0} is not in the file ledger")]
    NoSuchPage(PageId),
    /// A page has fewer files.
    #[error("{page} has no file {number}, only {files}")]
    NoSuchFile {
        /// The page.
        page: PageId,
        /// The file's number, from 0.
        number: u32,
        /// Files of the page.
        files: u32,
    },
    /// A page with other files was put before.
    #[error("page {page} of transfer {transfer} is there already, with other files: delete the transfer's pages first")]
    PageExists {
        /// The transfer.
        transfer: u64,
        /// The page.
        page: u32,
    },
    /// A series with too long a name, or one too many.
    #[error("series `{name}` cannot be kept: {why}")]
    Series {
        /// Its name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The connection to the database is gone. Whether the last write happened is not known.
    #[error(
        "the connection to {place} was lost ({what}): see that the database runs; it is tried anew with the next request"
    )]
    Lost {
        /// What was tried.
        what: &'static str,
        /// Which store.
        place: String,
        /// What the database said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Whether an append came to be cannot be found out, so nothing more may be appended.
    #[error("an append to {place} ended in doubt: restart the controller, it reads from the store what is true")]
    InDoubt {
        /// Which store.
        place: String,
    },
    /// Anything else that the database said.
    #[error("cannot {what} in {place}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// In which store.
        place: String,
        /// What the database said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// What of a store is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An event of the log.
    Event(u64),
    /// A snapshot of the log.
    Snapshot(u64),
    /// Names and sizes of a page.
    Names {
        /// The transfer.
        transfer: u64,
        /// The page.
        page: u32,
    },
    /// States of a page.
    States(PageId),
    /// Why files of a page failed.
    Failed(PageId, u32),
    /// Digests of files of a page.
    Digests(PageId),
    /// The database's own structure.
    Database(&'static str),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Event(number) => write!(f, "event {number} of the log"),
            Part::Snapshot(number) => write!(f, "the snapshot of event {number}"),
            Part::Names { transfer, page } => write!(f, "the names of page {page} of transfer {transfer}"),
            Part::States(page) => write!(f, "the states of {page}"),
            Part::Failed(page, number) => write!(f, "why file {number} of {page} failed"),
            Part::Digests(page) => write!(f, "the digests of {page}"),
            Part::Database(which) => write!(f, "the database of the {which}"),
        }
    }
}

/// Shorthand of the stores.
pub type Result<T> = std::result::Result<T, StoreError>;
