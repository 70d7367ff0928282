//! The log's tables.

use postgres::Row;

use super::super::error::Result;
use super::super::rows::{EventRow, LogRows, SnapshotRow};
use super::{Link, signed, whole};

pub(super) const TABLES: &str = "
    CREATE TABLE longhaul.events (number BIGINT PRIMARY KEY, at_ms BIGINT NOT NULL, sum BIGINT NOT NULL, bytes BYTEA NOT NULL);
    CREATE TABLE longhaul.snapshots (number BIGINT PRIMARY KEY, sum BIGINT NOT NULL, bytes BYTEA NOT NULL);";

impl LogRows for Link {
    fn place(&self) -> &str {
        &self.access.place
    }

    fn bounds(&mut self) -> Result<Option<(u64, u64)>> {
        let query = "SELECT min(number), max(number) FROM longhaul.events";
        let found = self.list("read the ends of the log", query, &[], |row| {
            Ok(row.try_get::<_, Option<i64>>(0)?.zip(row.try_get::<_, Option<i64>>(1)?))
        })?;
        Ok(found.into_iter().next().flatten().map(|(first, last)| (whole(first), whole(last))))
    }

    fn insert(&mut self, events: &[EventRow]) -> Result<()> {
        let numbers: Vec<i64> = events.iter().map(|event| signed(event.number)).collect();
        let times: Vec<i64> = events.iter().map(|event| signed(event.at_ms)).collect();
        let sums: Vec<i64> = events.iter().map(|event| signed(event.sum)).collect();
        let bytes: Vec<&[u8]> = events.iter().map(|event| &event.bytes[..]).collect();
        self.transact("append to the log", true, |transaction| {
            // All in one statement: one round trip, however many there are.
            let insert = "INSERT INTO longhaul.events
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])";
            transaction.execute(insert, &[&numbers, &times, &sums, &bytes]).map(drop)
        })
    }

    fn events(&mut self, from: u64, most: u32, most_bytes: usize) -> Result<Vec<EventRow>> {
        // The sum of lengths before each row ends the answer at the server already.
        let query = "SELECT number, at_ms, sum, bytes FROM (
                SELECT number, at_ms, sum, bytes,
                    coalesce(sum(length(bytes)) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
                FROM (SELECT * FROM longhaul.events WHERE number >= $1 ORDER BY number LIMIT $2) AS part
            ) AS summed WHERE before < $3 ORDER BY number";
        let most_bytes = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        self.list("read the log", query, &[&signed(from), &i64::from(most), &most_bytes], event)
    }

    fn put_snapshot(&mut self, row: &SnapshotRow, keep: u32) -> Result<()> {
        self.transact("write a snapshot", true, |transaction| {
            let put = "INSERT INTO longhaul.snapshots VALUES ($1, $2, $3)
                ON CONFLICT (number) DO UPDATE SET sum = excluded.sum, bytes = excluded.bytes";
            transaction.execute(put, &[&signed(row.number), &signed(row.sum), &row.bytes])?;
            let old = "DELETE FROM longhaul.snapshots
                WHERE number NOT IN (SELECT number FROM longhaul.snapshots ORDER BY number DESC LIMIT $1)";
            transaction.execute(old, &[&i64::from(keep)]).map(drop)
        })
    }

    fn snapshots(&mut self) -> Result<Vec<u64>> {
        let query = "SELECT number FROM longhaul.snapshots ORDER BY number DESC";
        self.list("list the snapshots", query, &[], |row| row.try_get(0).map(whole))
    }

    fn snapshot(&mut self, number: u64) -> Result<Option<SnapshotRow>> {
        let query = "SELECT number, sum, bytes FROM longhaul.snapshots WHERE number = $1";
        let found = self.list("read a snapshot", query, &[&signed(number)], |row| {
            let (number, sum) = (row.try_get(0).map(whole)?, row.try_get(1).map(whole)?);
            Ok(SnapshotRow { number, sum, bytes: row.try_get(2)? })
        })?;
        Ok(found.into_iter().next())
    }

    fn remove_to(&mut self, number: u64, most: u32) -> Result<u64> {
        self.transact("trim the log", true, |transaction| {
            let remove = "DELETE FROM longhaul.events WHERE number IN
                (SELECT number FROM longhaul.events WHERE number <= $1 ORDER BY number LIMIT $2)";
            transaction.execute(remove, &[&signed(number), &i64::from(most)])
        })
    }

    fn is_restoring(&mut self) -> Result<bool> {
        let query = "SELECT value FROM longhaul.marks WHERE name = 'restoring'";
        let found = self.list("read the marks", query, &[], |row| row.try_get::<_, i64>(0))?;
        Ok(found.first().is_some_and(|value| *value != 0))
    }

    fn set_restoring(&mut self, restoring: bool) -> Result<()> {
        self.transact("mark a restore", true, |transaction| {
            let set = "UPDATE longhaul.marks SET value = $1 WHERE name = 'restoring'";
            transaction.execute(set, &[&i64::from(restoring)]).map(drop)
        })
    }

    fn check(&mut self) -> Result<Vec<String>> {
        // The server has checks of its own (amcheck, page checksums); what it hands out is checked row by row.
        Ok(Vec::new())
    }
}

fn event(row: &Row) -> std::result::Result<EventRow, postgres::Error> {
    let number = |column| row.try_get(column).map(whole);
    Ok(EventRow { number: number(0)?, at_ms: number(1)?, sum: number(2)?, bytes: row.try_get(3)? })
}
