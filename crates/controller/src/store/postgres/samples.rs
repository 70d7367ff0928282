//! The archive's tables.

use std::collections::BTreeMap;

use super::super::error::Result;
use super::super::rows::{SampleRow, SampleRows};
use super::{Link, signed, small, whole};

/// Unlogged: the server empties it after a crash, which the archive may be, and writes it half as much.
pub(super) const TABLES: &str = "
    CREATE TABLE longhaul.series (number BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE UNLOGGED TABLE longhaul.points (grain_s BIGINT, series BIGINT, at_s BIGINT, count BIGINT NOT NULL,
        mean DOUBLE PRECISION NOT NULL, max DOUBLE PRECISION NOT NULL, PRIMARY KEY (grain_s, series, at_s));
    CREATE UNLOGGED TABLE longhaul.plannings (after BIGINT PRIMARY KEY, bytes BYTEA NOT NULL);";

/// A point with its entry in the index takes about so many bytes.
const ROW_BYTES: u64 = 110;

impl SampleRows for Link {
    fn place(&self) -> &str {
        &self.access.place
    }

    fn series(&mut self) -> Result<Vec<(u32, String)>> {
        let query = "SELECT number, name FROM longhaul.series ORDER BY number";
        self.list("list series", query, &[], |row| Ok((small(row, 0)?, row.try_get(1)?)))
    }

    fn add_series(&mut self, number: u32, name: &str) -> Result<()> {
        self.transact("add a series", false, |transaction| {
            transaction.execute("INSERT INTO longhaul.series VALUES ($1, $2)", &[&i64::from(number), &name]).map(drop)
        })
    }

    fn insert(&mut self, rows: &[SampleRow]) -> Result<()> {
        // One statement for all, which takes each point once.
        let mut points: BTreeMap<(u32, u32, i64), SampleRow> = BTreeMap::new();
        for row in rows {
            let point = points.entry((row.grain_s, row.series, row.at_s)).or_insert(SampleRow { count: 0, ..*row });
            let (old, new) = (f64::from(point.count), f64::from(row.count));
            point.mean = (point.mean * old + row.mean * new) / (old + new);
            point.max = point.max.max(row.max);
            point.count = point.count.saturating_add(row.count);
        }
        let whole = |field: fn(&SampleRow) -> i64| points.values().map(field).collect::<Vec<i64>>();
        let real = |field: fn(&SampleRow) -> f64| points.values().map(field).collect::<Vec<f64>>();
        let (grains, series) = (whole(|row| row.grain_s.into()), whole(|row| row.series.into()));
        let (times, counts) = (whole(|row| row.at_s), whole(|row| row.count.into()));
        let (means, maxima) = (real(|row| row.mean), real(|row| row.max));
        self.transact("write samples", false, |transaction| {
            let put = "INSERT INTO longhaul.points AS old SELECT * FROM
                    unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::float8[], $6::float8[])
                ON CONFLICT (grain_s, series, at_s)
                DO UPDATE SET mean = (old.mean * old.count + excluded.mean * excluded.count) / (old.count + excluded.count),
                    max = greatest(old.max, excluded.max), count = old.count + excluded.count";
            transaction.execute(put, &[&grains, &series, &times, &counts, &means, &maxima]).map(drop)
        })
    }

    fn points(&mut self, series: u32, grain_s: u32, from_s: i64, to_s: i64, most: u32) -> Result<Vec<SampleRow>> {
        let query = "SELECT at_s, count, mean, max FROM longhaul.points
            WHERE grain_s = $1 AND series = $2 AND at_s >= $3 AND at_s < $4 ORDER BY at_s LIMIT $5";
        let with: [&(dyn postgres::types::ToSql + Sync); 5] =
            [&i64::from(grain_s), &i64::from(series), &from_s, &to_s, &i64::from(most)];
        self.list("read samples", query, &with, |row| {
            let (at_s, count) = (row.try_get(0)?, small(row, 1)?);
            Ok(SampleRow { series, grain_s, at_s, count, mean: row.try_get(2)?, max: row.try_get(3)? })
        })
    }

    fn span(&mut self, grain_s: u32) -> Result<Option<(i64, i64)>> {
        // By series: each is two look-ups, where the whole table would be walked.
        let query = "SELECT min(ends.oldest), max(ends.newest) FROM longhaul.series AS s, LATERAL
            (SELECT min(at_s) AS oldest, max(at_s) AS newest FROM longhaul.points WHERE grain_s = $1 AND series = s.number) AS ends";
        let found = self.list("read the samples' span", query, &[&i64::from(grain_s)], |row| {
            Ok(row.try_get::<_, Option<i64>>(0)?.zip(row.try_get::<_, Option<i64>>(1)?))
        })?;
        Ok(found.into_iter().next().flatten())
    }

    fn remove_before(&mut self, grain_s: u32, before_s: i64) -> Result<u64> {
        self.transact("remove old samples", false, |transaction| {
            let remove = "DELETE FROM longhaul.points USING longhaul.series AS s
                WHERE series = s.number AND grain_s = $1 AND at_s < $2";
            transaction.execute(remove, &[&i64::from(grain_s), &before_s])
        })
    }

    fn put_planning(&mut self, after: u64, bytes: &[u8], keep: u32) -> Result<()> {
        self.transact("keep a planning", false, |transaction| {
            let put = "INSERT INTO longhaul.plannings VALUES ($1, $2) ON CONFLICT (after) DO UPDATE SET bytes = excluded.bytes";
            transaction.execute(put, &[&signed(after), &bytes])?;
            let old = "DELETE FROM longhaul.plannings WHERE after <=
                (SELECT after FROM longhaul.plannings ORDER BY after DESC LIMIT 1 OFFSET $1)";
            transaction.execute(old, &[&i64::from(keep)]).map(drop)
        })
    }

    fn plannings(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let query = "SELECT after, bytes FROM longhaul.plannings ORDER BY after";
        self.list("list plannings", query, &[], |row| Ok((whole(row.try_get(0)?), row.try_get(1)?)))
    }

    fn bytes(&mut self) -> Result<u64> {
        // A removal leaves room within the files that is used again, so what lives counts; it is asked every ten minutes.
        let query = "SELECT count(*) FROM longhaul.points";
        let rows = self.list("measure the archive", query, &[], |row| row.try_get::<_, i64>(0))?;
        Ok(rows.first().map_or(0, |rows| rows.cast_unsigned() * ROW_BYTES))
    }
}
