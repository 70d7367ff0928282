//! The log: numbered events that are never changed, and snapshots of what they add up to.

use super::Store;
use super::error::{Part, Result, StoreError};
use super::rows::{EventRow, LogRows, SnapshotRow};
use super::sum::Summed;

/// Events of one append.
pub const APPEND_EVENTS_MAX: usize = 10_000;
/// Bytes of one append. A database takes much more; a batch this long is an error of the caller.
pub const APPEND_BYTES_MAX: usize = 64 << 20;
/// Events that one read gives.
pub const READ_EVENTS_MAX: u32 = 10_000;
/// A read ends early once it has so many bytes.
pub const READ_BYTES_MAX: usize = 16 << 20;
/// Bytes of a snapshot. SQLite and PostgreSQL end at 10⁹.
pub const SNAPSHOT_BYTES_MAX: usize = 512 << 20;
/// Snapshots that are kept: one more than is needed, should the newest be damaged.
pub const SNAPSHOTS_KEPT: u32 = 2;
/// Events that one transaction of a trim removes, so that appends need not wait long.
const TRIM_BATCH: u32 = 50_000;

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// From 1, without gaps.
    pub number: u64,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// What happened, in a form that the store does not know.
    pub bytes: Vec<u8>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the last event that is in it.
    pub number: u64,
    /// The state, in a form that the store does not know.
    pub bytes: Vec<u8>,
}

/// What [`LogReader::newest`] found.
#[derive(Debug)]
pub struct Newest {
    /// The newest snapshot that is whole.
    pub snapshot: Option<Snapshot>,
    /// Newer ones that are not.
    pub damaged: Vec<StoreError>,
}

/// Which events stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All: the whole log can be replayed.
    #[default]
    All,
    /// Those after the older snapshot: each snapshot removes what is older.
    SinceSnapshot,
}

/// The log, to write. There is one.
pub struct Log {
    reader: LogReader,
    next: u64,
    keep: Keep,
    in_doubt: bool,
}

impl Log {
    /// Opens the log of a store and looks where it ends.
    ///
    /// # Errors
    /// When it cannot be read, or ends in a damaged event.
    pub fn open(store: &dyn Store, keep: Keep) -> Result<Log> {
        let mut reader = LogReader::open(store)?;
        let next = reader.last()? + 1;
        if next > 1 {
            reader.read(next - 1, 1)?;
        }
        Ok(Log { reader, next, keep, in_doubt: false })
    }

    /// The number that the next event gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Reads.
    pub fn reader(&mut self) -> &mut LogReader {
        &mut self.reader
    }

    /// Adds events, numbered in turn; all are on stable storage when it returns. Gives the number of the first; of no events the one
    /// that the next will get.
    ///
    /// # Errors
    /// Then none is there, but for [`StoreError::InDoubt`] (only PostgreSQL, when its server does not come
    /// back at once): whether they are is known after a restart of the controller, and until then every append fails.
    pub fn append(&mut self, events: &[(u64, Vec<u8>)]) -> Result<u64> {
        check_sizes(events)?;
        if self.in_doubt {
            return Err(self.doubt());
        }
        if events.is_empty() {
            return Ok(self.next);
        }
        let first = self.next;
        let rows: Vec<EventRow> = (first..)
            .zip(events)
            .map(|(number, (at_ms, bytes))| EventRow { number, at_ms: *at_ms, sum: 0, bytes: bytes.clone() }.sealed())
            .collect();
        if !self.insert(&rows)? {
            // The connection broke, and they are not there: once more, over a new one.
            if !self.insert(&rows)? {
                return Err(self.doubt());
            }
        }
        self.next += rows.len() as u64;
        Ok(first)
    }

    /// Whether the events are there: not if the connection broke before the commit. Errors as of [`Log::append`].
    fn insert(&mut self, rows: &[EventRow]) -> Result<bool> {
        let lost = match self.reader.rows.insert(rows) {
            Err(lost @ StoreError::Lost { .. }) => lost,
            other => return other.map(|()| true),
        };
        let place = self.reader.rows.place().to_owned();
        tracing::warn!(place, "the connection broke within an append: {lost}");
        let most = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        match self.reader.rows.events(self.next, most, usize::MAX) {
            Ok(found) if found.is_empty() => Ok(false),
            Ok(found) if found == rows => Ok(true),
            _ => {
                self.in_doubt = true;
                Err(self.doubt())
            }
        }
    }

    fn doubt(&self) -> StoreError {
        StoreError::InDoubt { place: self.reader.rows.place().to_owned() }
    }

    /// Keeps the state as it is after event `number`. The newest two stay. It is on stable storage when it returns.
    ///
    /// # Errors
    /// When there is no such event, a newer snapshot, or it cannot be written.
    pub fn snapshot(&mut self, number: u64, bytes: Vec<u8>) -> Result<()> {
        let newest = self.reader.rows.snapshots()?.first().copied().unwrap_or(0);
        let last = self.next - 1;
        if number > last || number < newest || number == 0 {
            return Err(StoreError::SnapshotOrder { number, newest, last });
        }
        limit("bytes of a snapshot", bytes.len(), SNAPSHOT_BYTES_MAX)?;
        self.reader.rows.put_snapshot(&SnapshotRow { number, sum: 0, bytes }.sealed(), SNAPSHOTS_KEPT)?;
        if self.keep == Keep::SinceSnapshot {
            self.trim()?;
        }
        Ok(())
    }

    /// Removes the events that both snapshots contain; nothing if there are not two that are whole. Gives how many went. The last
    /// event always stays, so that numbers go on.
    ///
    /// # Errors
    /// When a snapshot is damaged, or the database refuses; what was removed until then stays removed.
    pub fn trim(&mut self) -> Result<u64> {
        let snapshots = self.reader.rows.snapshots()?;
        if snapshots.len() < SNAPSHOTS_KEPT as usize {
            return Ok(0);
        }
        for number in &snapshots {
            self.reader.snapshot(*number)?;
        }
        let Some(oldest) = snapshots.last().map(|number| (*number).min(self.next - 2)) else { return Ok(0) };
        let mut removed = 0;
        // Each turn removes something, and there is an end to what there is.
        loop {
            let now = self.reader.rows.remove_to(oldest, TRIM_BATCH)?;
            removed += now;
            if now < u64::from(TRIM_BATCH) {
                return Ok(removed);
            }
        }
    }
}

/// The log, to read; any number beside the one that writes.
pub struct LogReader {
    rows: Box<dyn LogRows>,
}

impl LogReader {
    /// Opens the log of a store.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn open(store: &dyn Store) -> Result<LogReader> {
        Ok(LogReader::over(store.log()?))
    }

    /// Reads these rows.
    pub fn over(rows: Box<dyn LogRows>) -> LogReader {
        LogReader { rows }
    }

    /// Number of the last event; 0 for none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn last(&mut self) -> Result<u64> {
        Ok(self.rows.bounds()?.map_or(0, |(_, last)| last))
    }

    /// Number of the first event that is there; 1 for none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn first(&mut self) -> Result<u64> {
        Ok(self.rows.bounds()?.map_or(1, |(first, _)| first))
    }

    /// Events from this number on, at most `most` or [`READ_EVENTS_MAX`], and about [`READ_BYTES_MAX`]; none at the end of the log.
    ///
    /// # Errors
    /// [`StoreError::Trimmed`] where they are no more; [`StoreError::Damaged`] with the number of the first that is not as it was
    /// written or is missing, if that is the first of this read: those before it are given first.
    pub fn read(&mut self, from: u64, most: u32) -> Result<Vec<Event>> {
        let from = from.max(1);
        let rows = self.rows.events(from, most.min(READ_EVENTS_MAX), READ_BYTES_MAX)?;
        let mut events = Vec::with_capacity(rows.len());
        for (number, row) in (from..).zip(rows) {
            match self.checked(number, row) {
                Ok(event) => events.push(event),
                // What is whole is given; the next read begins with the damage.
                Err(_) if !events.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if events.is_empty() && most > 0 && self.last()? >= from {
            return Err(self.damaged(Part::Event(from), "it is missing"));
        }
        Ok(events)
    }

    /// The rows, for copies.
    pub(super) fn rows(&mut self) -> &mut dyn LogRows {
        &mut *self.rows
    }

    fn checked(&mut self, number: u64, row: EventRow) -> Result<Event> {
        if row.number != number {
            let first = self.first()?;
            return Err(match first > number {
                true => StoreError::Trimmed { from: number, first },
                false => self.damaged(Part::Event(number), "it is missing"),
            });
        }
        if row.expected() != row.sum {
            return Err(self.damaged(Part::Event(number), "its checksum does not match"));
        }
        Ok(Event { number, at_ms: row.at_ms, bytes: row.bytes })
    }

    /// The newest snapshot that is whole, and what is wrong with newer ones.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn newest(&mut self) -> Result<Newest> {
        let mut found = Newest { snapshot: None, damaged: Vec::new() };
        for number in self.rows.snapshots()? {
            match self.snapshot(number) {
                Ok(snapshot) => {
                    found.snapshot = Some(snapshot);
                    break;
                }
                Err(error @ StoreError::Damaged { .. }) => found.damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Numbers of the snapshots, newest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn snapshots(&mut self) -> Result<Vec<u64>> {
        self.rows.snapshots()
    }

    /// The snapshot of this event.
    ///
    /// # Errors
    /// When it is damaged or missing.
    pub fn snapshot(&mut self, number: u64) -> Result<Snapshot> {
        let Some(row) = self.rows.snapshot(number)? else {
            return Err(self.damaged(Part::Snapshot(number), "it is missing"));
        };
        if row.expected() != row.sum {
            return Err(self.damaged(Part::Snapshot(number), "its checksum does not match"));
        }
        Ok(Snapshot { number: row.number, bytes: row.bytes })
    }

    fn damaged(&self, what: Part, why: &str) -> StoreError {
        StoreError::Damaged { what, place: self.rows.place().to_owned(), why: why.to_owned() }
    }
}

/// What is too much for an append.
pub(super) fn check_sizes(events: &[(u64, Vec<u8>)]) -> Result<()> {
    limit("events in one append", events.len(), APPEND_EVENTS_MAX)?;
    limit("bytes in one append", events.iter().map(|(_, bytes)| bytes.len()).sum(), APPEND_BYTES_MAX)?;
    match events.iter().find(|(at_ms, _)| i64::try_from(*at_ms).is_err()) {
        Some((at_ms, _)) => {
            Err(StoreError::Limit { what: "ms of an event's time", found: *at_ms, most: i64::MAX as u64 })
        }
        None => Ok(()),
    }
}

/// Refuses more than a bound.
pub(super) fn limit(what: &'static str, found: usize, most: usize) -> Result<()> {
    match found > most {
        true => Err(StoreError::Limit { what, found: found as u64, most: most as u64 }),
        false => Ok(()),
    }
}
