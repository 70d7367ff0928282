//! The archive's tables.

use rusqlite::params;

use super::super::error::Result;
use super::super::rows::{SampleRow, SampleRows};
use super::{Db, signed, whole};

pub(super) const TABLES: &str = "
    CREATE TABLE series (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE points (grain_s INTEGER NOT NULL, series INTEGER NOT NULL, at_s INTEGER NOT NULL, count INTEGER NOT NULL,
        mean REAL NOT NULL, max REAL NOT NULL, PRIMARY KEY (grain_s, series, at_s)) WITHOUT ROWID;
    CREATE TABLE plannings (after INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";

/// Pages given back to the file system with a removal: 16 MiB.
const GIVEN_BACK_PAGES: u32 = 4_096;

impl Db {
    /// Looks into each table and its index, as a damaged one may have a good head. Not at every page: that is too long for a start.
    pub(super) fn is_readable(&mut self) -> Result<()> {
        self.series()?;
        let ends = "SELECT (SELECT max(after) FROM plannings) IS NULL, (SELECT min(name) FROM series) IS NULL,
            (SELECT max(grain_s) FROM points) IS NULL, (SELECT min(grain_s) FROM points) IS NULL";
        self.list("look at the archive", ends, [], |row| row.get::<_, bool>(0)).map(drop)
    }
}

impl SampleRows for Db {
    fn place(&self) -> &str {
        &self.place
    }

    fn series(&mut self) -> Result<Vec<(u32, String)>> {
        let query = "SELECT number, name FROM series ORDER BY number";
        self.list("list series", query, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn add_series(&mut self, number: u32, name: &str) -> Result<()> {
        self.transact("add a series", |transaction| {
            transaction.execute("INSERT INTO series VALUES (?, ?)", params![number, name]).map(drop)
        })
    }

    fn insert(&mut self, rows: &[SampleRow]) -> Result<()> {
        self.transact("write samples", |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                    mean = (mean * count + excluded.mean * excluded.count) / (count + excluded.count),
                    max = max(max, excluded.max), count = count + excluded.count",
            )?;
            for row in rows {
                insert.execute(params![row.grain_s, row.series, row.at_s, row.count, row.mean, row.max])?;
            }
            Ok(())
        })
    }

    fn points(&mut self, series: u32, grain_s: u32, from_s: i64, to_s: i64, most: u32) -> Result<Vec<SampleRow>> {
        let query = "SELECT at_s, count, mean, max FROM points
            WHERE grain_s = ? AND series = ? AND at_s >= ? AND at_s < ? ORDER BY at_s LIMIT ?";
        self.list("read samples", query, params![grain_s, series, from_s, to_s, most], |row| {
            let (at_s, count) = (row.get(0)?, row.get(1)?);
            Ok(SampleRow { series, grain_s, at_s, count, mean: row.get(2)?, max: row.get(3)? })
        })
    }

    fn span(&mut self, grain_s: u32) -> Result<Option<(i64, i64)>> {
        // By series: each is two look-ups, where the whole table would be walked.
        let query = "SELECT min((SELECT min(at_s) FROM points WHERE grain_s = ?1 AND series = number)),
            max((SELECT max(at_s) FROM points WHERE grain_s = ?1 AND series = number)) FROM series";
        let found = self.list("read the samples' span", query, [grain_s], |row| {
            Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
        })?;
        Ok(found.into_iter().next().flatten())
    }

    fn remove_before(&mut self, grain_s: u32, before_s: i64) -> Result<u64> {
        let removed = self.transact("remove old samples", |transaction| {
            // By series: each is a range of the table's own order.
            let mut list = transaction.prepare_cached("SELECT number FROM series")?;
            let numbers: Vec<u32> = list.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let remove = "DELETE FROM points WHERE grain_s = ? AND series = ? AND at_s < ?";
            let mut remove = transaction.prepare_cached(remove)?;
            numbers.iter().try_fold(0, |sum, number| Ok(sum + remove.execute(params![grain_s, number, before_s])?))
        })?;
        self.give_back(GIVEN_BACK_PAGES);
        Ok(removed as u64)
    }

    fn put_planning(&mut self, after: u64, bytes: &[u8], keep: u32) -> Result<()> {
        self.transact("keep a planning", |transaction| {
            transaction.execute("INSERT OR REPLACE INTO plannings VALUES (?, ?)", params![signed(after), bytes])?;
            let old = "DELETE FROM plannings WHERE after <= (SELECT after FROM plannings ORDER BY after DESC LIMIT 1 OFFSET ?)";
            transaction.execute(old, [keep]).map(drop)
        })
    }

    fn plannings(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let query = "SELECT after, bytes FROM plannings ORDER BY after";
        self.list("list plannings", query, [], |row| Ok((whole(row.get(0)?), row.get(1)?)))
    }

    fn bytes(&mut self) -> Result<u64> {
        Db::bytes(self)
    }
}
