//! What a database has to give: rows, in transactions. What rows mean, and whether they are whole, is decided above, once for all
//! databases; see [`Log`](super::Log), [`FileLedger`](super::FileLedger), [`Archive`](super::Archive).

use super::error::Result;
use super::{PageCounts, PageId};

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// From 1, without gaps.
    pub number: u64,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// Checksum of all other fields.
    pub sum: u64,
    /// What happened.
    pub bytes: Vec<u8>,
}

/// A row of the snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Of the last event that is in it.
    pub number: u64,
    /// Checksum of all other fields.
    pub sum: u64,
    /// The state.
    pub bytes: Vec<u8>,
}

/// The log's rows.
pub trait LogRows: Send {
    /// For messages.
    fn place(&self) -> &str;
    /// Numbers of the first and the last event.
    fn bounds(&mut self) -> Result<Option<(u64, u64)>>;
    /// Adds events in one transaction; they are on stable storage when it returns.
    fn insert(&mut self, events: &[EventRow]) -> Result<()>;
    /// At most `most` events from this number on, in order; ends early once it has `most_bytes`.
    fn events(&mut self, from: u64, most: u32, most_bytes: usize) -> Result<Vec<EventRow>>;
    /// Adds or replaces a snapshot and removes all but the newest `keep`, in one transaction, on stable storage when it returns.
    fn put_snapshot(&mut self, row: &SnapshotRow, keep: u32) -> Result<()>;
    /// Numbers of the snapshots, newest first.
    fn snapshots(&mut self) -> Result<Vec<u64>>;
    /// A snapshot.
    fn snapshot(&mut self, number: u64) -> Result<Option<SnapshotRow>>;
    /// Removes at most `most` events up to this number, the oldest first; gives how many.
    fn remove_to(&mut self, number: u64, most: u32) -> Result<u64>;
    /// Whether a restore into the store has not come to its end.
    fn is_restoring(&mut self) -> Result<bool>;
    /// Marks that a restore begins or has ended.
    fn set_restoring(&mut self, restoring: bool) -> Result<()>;
    /// What the database itself finds wrong with its structure.
    fn check(&mut self) -> Result<Vec<String>>;
}

/// Names and sizes of a page, shared by all legs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesRow {
    /// The transfer.
    pub transfer: u64,
    /// The page.
    pub page: u32,
    /// How many files.
    pub files: u32,
    /// Checksum of all other fields.
    pub sum: u64,
    /// Packed.
    pub data: Vec<u8>,
}

/// States of the files of a page for one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatesRow {
    /// The page.
    pub page: PageId,
    /// What the bits say, summed up.
    pub counts: PageCounts,
    /// Checksum of all other fields.
    pub sum: u64,
    /// Two bits a file.
    pub bits: Vec<u8>,
}

/// Why a file failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRow {
    /// The page.
    pub page: PageId,
    /// The file in it.
    pub number: u32,
    /// Checksum of all other fields.
    pub sum: u64,
    /// For people.
    pub text: String,
}

/// Digests of some files of a page, as they came together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestsRow {
    /// The page.
    pub page: PageId,
    /// In the order in which they came.
    pub seq: u32,
    /// Checksum of all other fields.
    pub sum: u64,
    /// Packed.
    pub data: Vec<u8>,
}

/// One change of the file ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new page; fails if it is there.
    Names(NamesRow),
    /// New states, in place of others if there are some.
    States(StatesRow),
    /// A file failed, or failed otherwise.
    Failed(FailedRow),
    /// A file is failed no more.
    NotFailed(PageId, u32),
    /// Digests came.
    Digests(DigestsRow),
    /// All digests of a page go (to be put anew as one row).
    NoDigests(PageId),
}

/// Whether a transaction has to be on stable storage when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// It has.
    Now,
    /// A crash of the machine may undo it, but nothing that comes after it stays without it.
    Later,
}

/// The file ledger's rows.
pub trait PageRows: Send {
    /// For messages.
    fn place(&self) -> &str;
    /// All of these, in one transaction, or none.
    fn apply(&mut self, changes: &[Change], durable: Durable) -> Result<()>;
    /// Names of a page.
    fn names(&mut self, transfer: u64, page: u32) -> Result<Option<NamesRow>>;
    /// States of a page.
    fn states(&mut self, page: PageId) -> Result<Option<StatesRow>>;
    /// Digests of a page, in the order in which they came.
    fn digests(&mut self, page: PageId) -> Result<Vec<DigestsRow>>;
    /// How many rows of digests pages have, in the order of the pages.
    fn digest_rows(&mut self, pages: &[PageId]) -> Result<Vec<u32>>;
    /// Failed files of a leg after this page and number, in order.
    fn failed(&mut self, transfer: u64, leg: u32, after: Option<(u32, u32)>, most: u32) -> Result<Vec<FailedRow>>;
    /// Counts of pages of a leg from this page on, in order; with `only_open` those with open files.
    fn counts(
        &mut self,
        transfer: u64,
        leg: u32,
        from: u32,
        only_open: bool,
        most: u32,
    ) -> Result<Vec<(PageId, PageCounts)>>;
    /// Counts of a leg, and how many pages it has.
    fn total(&mut self, transfer: u64, leg: u32) -> Result<(u32, PageCounts)>;
    /// Pages that have given files after this one, in order.
    fn with_given(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<PageId>>;
    /// Transfers above this number that have pages, in order.
    fn transfers(&mut self, after: Option<u64>, most: u32) -> Result<Vec<u64>>;
    /// Names after this transfer and page, in order: for copies and checks.
    fn names_after(&mut self, after: Option<(u64, u32)>, most: u32) -> Result<Vec<NamesRow>>;
    /// States after this page, in order: for copies and checks.
    fn states_after(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<StatesRow>>;
    /// Removes at most `most` pages of a transfer with all that belongs to them; gives how many.
    fn remove(&mut self, transfer: u64, most: u32) -> Result<u32>;
    /// Bytes that the file ledger takes.
    fn bytes(&mut self) -> Result<u64>;
    /// What the database itself finds wrong with its structure.
    fn check(&mut self) -> Result<Vec<String>>;
}

/// A point of a series: what came in `grain_s` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRow {
    /// Number of the series.
    pub series: u32,
    /// Length, s.
    pub grain_s: u32,
    /// Begin, s since 1970; a multiple of the length.
    pub at_s: i64,
    /// How many samples.
    pub count: u32,
    /// Their mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
}

/// The archive's rows.
pub trait SampleRows: Send {
    /// For messages.
    fn place(&self) -> &str;
    /// All series, with their numbers.
    fn series(&mut self) -> Result<Vec<(u32, String)>>;
    /// Adds a series.
    fn add_series(&mut self, number: u32, name: &str) -> Result<()>;
    /// Adds points in one transaction; what comes for a point that is there is merged with it. Need not be durable.
    fn insert(&mut self, rows: &[SampleRow]) -> Result<()>;
    /// At most `most` points of a series in `[from_s, to_s)`, in order.
    fn points(&mut self, series: u32, grain_s: u32, from_s: i64, to_s: i64, most: u32) -> Result<Vec<SampleRow>>;
    /// Begins of the oldest and the newest point of this length.
    fn span(&mut self, grain_s: u32) -> Result<Option<(i64, i64)>>;
    /// Removes points of this length that begin before.
    fn remove_before(&mut self, grain_s: u32, before_s: i64) -> Result<u64>;
    /// Keeps what is known of a planning, by the number of the event before it, and the last `keep` of all. Need not be durable.
    fn put_planning(&mut self, after: u64, bytes: &[u8], keep: u32) -> Result<()>;
    /// All plannings that are kept, in order.
    fn plannings(&mut self) -> Result<Vec<(u64, Vec<u8>)>>;
    /// Bytes that the archive takes.
    fn bytes(&mut self) -> Result<u64>;
}
