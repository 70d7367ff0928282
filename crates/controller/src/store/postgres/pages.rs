//! The file ledger's tables.

use postgres::Row;
use postgres::types::ToSql;

use super::super::error::Result;
use super::super::rows::{Change, DigestsRow, Durable, FailedRow, NamesRow, PageRows, StatesRow};
use super::super::{PageCounts, PageId};
use super::write::{Keys, apply};
use super::{Link, signed, small, whole};

pub(super) const TABLES: &str = "
    CREATE TABLE longhaul.names (transfer BIGINT, page BIGINT, files BIGINT NOT NULL, sum BIGINT NOT NULL,
        data BYTEA NOT NULL, PRIMARY KEY (transfer, page));
    CREATE TABLE longhaul.states (transfer BIGINT, leg BIGINT, page BIGINT, open BIGINT NOT NULL, given BIGINT NOT NULL,
        done BIGINT NOT NULL, failed BIGINT NOT NULL, bytes BIGINT NOT NULL, bytes_done BIGINT NOT NULL, sum BIGINT NOT NULL,
        bits BYTEA NOT NULL, PRIMARY KEY (transfer, leg, page));
    CREATE INDEX given ON longhaul.states (transfer, leg, page) WHERE given > 0;
    CREATE TABLE longhaul.failed (transfer BIGINT, leg BIGINT, page BIGINT, number BIGINT, sum BIGINT NOT NULL,
        text BYTEA NOT NULL, PRIMARY KEY (transfer, leg, page, number));
    CREATE TABLE longhaul.digests (transfer BIGINT, leg BIGINT, page BIGINT, seq BIGINT, sum BIGINT NOT NULL,
        data BYTEA NOT NULL, PRIMARY KEY (transfer, leg, page, seq));
    ALTER TABLE longhaul.names ALTER COLUMN data SET STORAGE EXTERNAL;
    ALTER TABLE longhaul.digests ALTER COLUMN data SET STORAGE EXTERNAL;";

const STATES: &str = "transfer, leg, page, open, given, done, failed, bytes, bytes_done, sum, bits";

type Rows<T> = std::result::Result<T, postgres::Error>;

impl PageRows for Link {
    fn place(&self) -> &str {
        &self.access.place
    }

    fn apply(&mut self, changes: &[Change], durable: Durable) -> Result<()> {
        self.transact("write the file ledger", durable == Durable::Now, |transaction| apply(transaction, changes))
    }

    fn names(&mut self, transfer: u64, page: u32) -> Result<Option<NamesRow>> {
        let query = "SELECT transfer, page, files, sum, data FROM longhaul.names WHERE transfer = $1 AND page = $2";
        Ok(self.list("read names", query, &[&signed(transfer), &i64::from(page)], names)?.pop())
    }

    fn states(&mut self, page: PageId) -> Result<Option<StatesRow>> {
        let query = format!("SELECT {STATES} FROM longhaul.states WHERE transfer = $1 AND leg = $2 AND page = $3");
        let (transfer, leg, page) = key(page);
        Ok(self.list("read states", &query, &[&transfer, &leg, &page], states)?.pop())
    }

    fn digests(&mut self, page: PageId) -> Result<Vec<DigestsRow>> {
        let query =
            "SELECT seq, sum, data FROM longhaul.digests WHERE transfer = $1 AND leg = $2 AND page = $3 ORDER BY seq";
        let (transfer, leg, number) = key(page);
        self.list("read digests", query, &[&transfer, &leg, &number], |row| {
            Ok(DigestsRow { page, seq: small(row, 0)?, sum: whole(row.try_get(1)?), data: row.try_get(2)? })
        })
    }

    fn digest_rows(&mut self, pages: &[PageId]) -> Result<Vec<u32>> {
        // By the index, one page after the other, whatever the planner thinks of the table's size.
        let query = "SELECT (SELECT count(*) FROM longhaul.digests AS d
                WHERE d.transfer = asked.transfer AND d.leg = asked.leg AND d.page = asked.page)
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (transfer, leg, page, number)
            ORDER BY asked.number";
        let keys = Keys::of(pages, |page| *page);
        self.list("count digests", query, &keys.columns(), |row| small(row, 0))
    }

    fn failed(&mut self, transfer: u64, leg: u32, after: Option<(u32, u32)>, most: u32) -> Result<Vec<FailedRow>> {
        let query = "SELECT page, number, sum, text FROM longhaul.failed
            WHERE transfer = $1 AND leg = $2 AND (page, number) > ($3, $4) ORDER BY page, number LIMIT $5";
        let (page, number) = after.map_or((-1, -1), |(page, number)| (i64::from(page), i64::from(number)));
        let with: [&(dyn ToSql + Sync); 5] = [&signed(transfer), &i64::from(leg), &page, &number, &i64::from(most)];
        self.list("list failed files", query, &with, |row| {
            let page = PageId { transfer, leg, page: small(row, 0)? };
            // Bytes, as a text of the server takes no zeros.
            let text = String::from_utf8_lossy(row.try_get(3)?).into_owned();
            Ok(FailedRow { page, number: small(row, 1)?, sum: whole(row.try_get(2)?), text })
        })
    }

    fn counts(
        &mut self,
        transfer: u64,
        leg: u32,
        from: u32,
        only_open: bool,
        most: u32,
    ) -> Result<Vec<(PageId, PageCounts)>> {
        let query = "SELECT page, open, given, done, failed, bytes, bytes_done FROM longhaul.states
            WHERE transfer = $1 AND leg = $2 AND page >= $3 AND (open > 0 OR NOT $4) ORDER BY page LIMIT $5";
        let with: [&(dyn ToSql + Sync); 5] =
            [&signed(transfer), &i64::from(leg), &i64::from(from), &only_open, &i64::from(most)];
        self.list("count files", query, &with, |row| {
            Ok((PageId { transfer, leg, page: small(row, 0)? }, counts(row, 1)?))
        })
    }

    fn total(&mut self, transfer: u64, leg: u32) -> Result<(u32, PageCounts)> {
        // Bytes are kept bit for bit in signed columns, so they are summed up by halves.
        let query = "SELECT count(*), coalesce(sum(open), 0)::bigint, coalesce(sum(given), 0)::bigint,
                coalesce(sum(done), 0)::bigint, coalesce(sum(failed), 0)::bigint,
                coalesce(sum(bytes >> 32 & 4294967295), 0)::bigint, coalesce(sum(bytes & 4294967295), 0)::bigint,
                coalesce(sum(bytes_done >> 32 & 4294967295), 0)::bigint, coalesce(sum(bytes_done & 4294967295), 0)::bigint
            FROM longhaul.states WHERE transfer = $1 AND leg = $2";
        let found = self.list("count files", query, &[&signed(transfer), &i64::from(leg)], |row| {
            let number = |column: usize| row.try_get(column).map(whole);
            let bytes = |column: usize| -> Rows<u64> {
                let sum = (u128::from(number(column)?) << 32) + u128::from(number(column + 1)?);
                Ok(u64::try_from(sum).unwrap_or(u64::MAX))
            };
            let (open, given, done, failed) = (number(1)?, number(2)?, number(3)?, number(4)?);
            Ok((small(row, 0)?, PageCounts { open, given, done, failed, bytes: bytes(5)?, bytes_done: bytes(7)? }))
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    fn with_given(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<PageId>> {
        let query = "SELECT transfer, leg, page FROM longhaul.states
            WHERE given > 0 AND (transfer, leg, page) > ($1, $2, $3) ORDER BY transfer, leg, page LIMIT $4";
        let (transfer, leg, page) = after.map_or((-1, -1, -1), key);
        self.list("list given files", query, &[&transfer, &leg, &page, &i64::from(most)], page_id)
    }

    fn transfers(&mut self, after: Option<u64>, most: u32) -> Result<Vec<u64>> {
        let query = "SELECT transfer FROM longhaul.names WHERE transfer > $1
            UNION SELECT transfer FROM longhaul.states WHERE transfer > $1 ORDER BY transfer LIMIT $2";
        let after = after.map_or(-1, signed);
        self.list("list transfers", query, &[&after, &i64::from(most)], |row| row.try_get(0).map(whole))
    }

    fn names_after(&mut self, after: Option<(u64, u32)>, most: u32) -> Result<Vec<NamesRow>> {
        let query = "SELECT transfer, page, files, sum, data FROM longhaul.names
            WHERE (transfer, page) > ($1, $2) ORDER BY transfer, page LIMIT $3";
        let (transfer, page) = after.map_or((-1, -1), |(transfer, page)| (signed(transfer), i64::from(page)));
        self.list("read names", query, &[&transfer, &page, &i64::from(most)], names)
    }

    fn states_after(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<StatesRow>> {
        let query = format!(
            "SELECT {STATES} FROM longhaul.states
            WHERE (transfer, leg, page) > ($1, $2, $3) ORDER BY transfer, leg, page LIMIT $4"
        );
        let (transfer, leg, page) = after.map_or((-1, -1, -1), key);
        self.list("read states", &query, &[&transfer, &leg, &page, &i64::from(most)], states)
    }

    fn remove(&mut self, transfer: u64, most: u32) -> Result<u32> {
        self.transact("remove pages", true, |transaction| {
            // Also pages that have only states: what a removal left.
            let pages = "SELECT page FROM longhaul.names WHERE transfer = $1
                UNION SELECT page FROM longhaul.states WHERE transfer = $1 ORDER BY page LIMIT $2";
            let rows = transaction.query(pages, &[&signed(transfer), &i64::from(most)])?;
            let pages: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Rows<_>>()?;
            for table in ["failed", "digests", "states", "names"] {
                let remove = format!("DELETE FROM longhaul.{table} WHERE transfer = $1 AND page = ANY ($2)");
                transaction.execute(&remove, &[&signed(transfer), &pages])?;
            }
            Ok(u32::try_from(pages.len()).unwrap_or(u32::MAX))
        })
    }

    fn bytes(&mut self) -> Result<u64> {
        self.bytes_of(&["names", "states", "failed", "digests"])
    }

    fn check(&mut self) -> Result<Vec<String>> {
        // As of the log.
        Ok(Vec::new())
    }
}

fn key(page: PageId) -> (i64, i64, i64) {
    (signed(page.transfer), page.leg.into(), page.page.into())
}

fn page_id(row: &Row) -> Rows<PageId> {
    Ok(PageId { transfer: whole(row.try_get(0)?), leg: small(row, 1)?, page: small(row, 2)? })
}

fn names(row: &Row) -> Rows<NamesRow> {
    Ok(NamesRow {
        transfer: whole(row.try_get(0)?),
        page: small(row, 1)?,
        files: small(row, 2)?,
        sum: whole(row.try_get(3)?),
        data: row.try_get(4)?,
    })
}

fn states(row: &Row) -> Rows<StatesRow> {
    Ok(StatesRow { page: page_id(row)?, counts: counts(row, 3)?, sum: whole(row.try_get(9)?), bits: row.try_get(10)? })
}

fn counts(row: &Row, from: usize) -> Rows<PageCounts> {
    let number = |column: usize| row.try_get(from + column).map(whole);
    Ok(PageCounts {
        open: number(0)?,
        given: number(1)?,
        done: number(2)?,
        failed: number(3)?,
        bytes: number(4)?,
        bytes_done: number(5)?,
    })
}
