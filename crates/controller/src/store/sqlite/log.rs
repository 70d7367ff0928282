//! The log's tables.

use rusqlite::{OptionalExtension, Row, params};

use super::super::error::{Part, Result, StoreError};
use super::super::rows::{EventRow, LogRows, SnapshotRow};
use super::{Db, signed, whole};

pub(super) const TABLES: &str = "
    CREATE TABLE events (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, sum INTEGER NOT NULL, bytes BLOB NOT NULL);
    CREATE TABLE snapshots (number INTEGER PRIMARY KEY, sum INTEGER NOT NULL, bytes BLOB NOT NULL);
    CREATE TABLE marks (name TEXT PRIMARY KEY) WITHOUT ROWID;";

/// Pages given back to the file system by one trim: 16 MiB.
const GIVEN_BACK_PAGES: u32 = 4_096;

impl LogRows for Db {
    fn place(&self) -> &str {
        &self.place
    }

    fn bounds(&mut self) -> Result<Option<(u64, u64)>> {
        // Two look-ups at the ends of the table; both in one aggregate would walk it.
        let query = "SELECT (SELECT min(number) FROM events), (SELECT max(number) FROM events)";
        let found = self.connection.prepare_cached(query).and_then(|mut statement| {
            statement.query_row([], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))
        });
        let (first, last) = found.map_err(|source| self.error("read the ends of the log", source))?;
        Ok(first.map(whole).zip(last.map(whole)))
    }

    fn insert(&mut self, events: &[EventRow]) -> Result<()> {
        self.transact("append to the log", |transaction| {
            let mut insert = transaction.prepare_cached("INSERT INTO events VALUES (?, ?, ?, ?)")?;
            for event in events {
                insert.execute(params![signed(event.number), signed(event.at_ms), signed(event.sum), event.bytes])?;
            }
            Ok(())
        })
    }

    fn events(&mut self, from: u64, most: u32, most_bytes: usize) -> Result<Vec<EventRow>> {
        let mut found: Vec<EventRow> = Vec::new();
        let read = (|| {
            let query = "SELECT number, at_ms, sum, bytes FROM events WHERE number >= ? ORDER BY number LIMIT ?";
            let mut statement = self.connection.prepare_cached(query)?;
            let mut rows = statement.query(params![signed(from), most])?;
            let mut bytes = 0;
            while bytes < most_bytes {
                let Some(row) = rows.next()? else { break };
                found.push(event(row)?);
                bytes += found.last().map_or(0, |event| event.bytes.len());
            }
            Ok(())
        })();
        match read.map_err(|source| self.error("read the log", source)) {
            Ok(()) => Ok(found),
            // Where the file's own structure is broken, what comes before is given first.
            Err(StoreError::Damaged { .. }) if !found.is_empty() => Ok(found),
            Err(StoreError::Damaged { place, why, .. }) => {
                Err(StoreError::Damaged { what: Part::Event(from), place, why })
            }
            Err(error) => Err(error),
        }
    }

    fn put_snapshot(&mut self, row: &SnapshotRow, keep: u32) -> Result<()> {
        self.transact("write a snapshot", |transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)",
                params![signed(row.number), signed(row.sum), row.bytes],
            )?;
            let old =
                "DELETE FROM snapshots WHERE number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT ?)";
            transaction.execute(old, [keep])?;
            Ok(())
        })
    }

    fn snapshots(&mut self) -> Result<Vec<u64>> {
        let query = "SELECT number FROM snapshots ORDER BY number DESC";
        self.list("list the snapshots", query, [], |row| row.get(0).map(whole))
    }

    fn snapshot(&mut self, number: u64) -> Result<Option<SnapshotRow>> {
        let query = "SELECT number, sum, bytes FROM snapshots WHERE number = ?";
        let read = self.connection.query_row(query, [signed(number)], |row| {
            Ok(SnapshotRow { number: whole(row.get(0)?), sum: whole(row.get(1)?), bytes: row.get(2)? })
        });
        match read.optional().map_err(|source| self.error("read a snapshot", source)) {
            Err(StoreError::Damaged { place, why, .. }) => {
                Err(StoreError::Damaged { what: Part::Snapshot(number), place, why })
            }
            other => other,
        }
    }

    fn remove_to(&mut self, number: u64, most: u32) -> Result<u64> {
        let removed = self.transact("trim the log", |transaction| {
            let remove = "DELETE FROM events WHERE number IN
                (SELECT number FROM events WHERE number <= ? ORDER BY number LIMIT ?)";
            transaction.execute(remove, params![signed(number), most])
        })?;
        self.give_back(GIVEN_BACK_PAGES);
        Ok(removed as u64)
    }

    fn is_restoring(&mut self) -> Result<bool> {
        let found =
            self.connection.query_row("SELECT count(*) FROM marks WHERE name = 'restoring'", [], |row| row.get(0));
        found.map(|count: i64| count > 0).map_err(|source| self.error("read the marks", source))
    }

    fn set_restoring(&mut self, restoring: bool) -> Result<()> {
        let change = match restoring {
            true => "INSERT OR IGNORE INTO marks VALUES ('restoring')",
            false => "DELETE FROM marks WHERE name = 'restoring'",
        };
        self.transact("mark a restore", |transaction| transaction.execute(change, []).map(drop))
    }

    fn check(&mut self) -> Result<Vec<String>> {
        Db::check(self)
    }
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow { number: whole(row.get(0)?), at_ms: whole(row.get(1)?), sum: whole(row.get(2)?), bytes: row.get(3)? })
}
