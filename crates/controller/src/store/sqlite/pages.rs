//! The file ledger's tables.

use rusqlite::{Row, Transaction, params};

use super::super::error::Result;
use super::super::rows::{Change, DigestsRow, Durable, FailedRow, NamesRow, PageRows, StatesRow};
use super::super::{PageCounts, PageId};
use super::{Db, signed, whole};

/// `names` and `digests` have long rows, so they are tables with an index beside them; the others are their own index.
pub(super) const TABLES: &str = "
    CREATE TABLE names (transfer INTEGER NOT NULL, page INTEGER NOT NULL, files INTEGER NOT NULL, sum INTEGER NOT NULL,
        data BLOB NOT NULL, UNIQUE (transfer, page));
    CREATE TABLE states (transfer INTEGER NOT NULL, leg INTEGER NOT NULL, page INTEGER NOT NULL,
        open INTEGER NOT NULL, given INTEGER NOT NULL, done INTEGER NOT NULL, failed INTEGER NOT NULL,
        bytes INTEGER NOT NULL, bytes_done INTEGER NOT NULL, sum INTEGER NOT NULL, bits BLOB NOT NULL,
        PRIMARY KEY (transfer, leg, page)) WITHOUT ROWID;
    CREATE INDEX given ON states (transfer, leg, page) WHERE given > 0;
    CREATE TABLE failed (transfer INTEGER NOT NULL, leg INTEGER NOT NULL, page INTEGER NOT NULL, number INTEGER NOT NULL,
        sum INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (transfer, leg, page, number)) WITHOUT ROWID;
    CREATE TABLE digests (transfer INTEGER NOT NULL, leg INTEGER NOT NULL, page INTEGER NOT NULL, seq INTEGER NOT NULL,
        sum INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (transfer, leg, page, seq));";

/// Pages given back to the file system with a removal: 16 MiB.
const GIVEN_BACK_PAGES: u32 = 4_096;

const STATES: &str = "transfer, leg, page, open, given, done, failed, bytes, bytes_done, sum, bits";

impl PageRows for Db {
    fn place(&self) -> &str {
        &self.place
    }

    fn apply(&mut self, changes: &[Change], durable: Durable) -> Result<()> {
        let set = |level: &str| format!("PRAGMA synchronous = {level}");
        if durable == Durable::Later {
            // In WAL mode NORMAL commits without a sync; the next FULL one syncs what came before, too.
            self.connection.execute_batch(&set("NORMAL")).map_err(|e| self.error("write the file ledger", e))?;
        }
        let done = self.transact("write the file ledger", |transaction| {
            changes.iter().try_for_each(|change| apply(transaction, change))
        });
        if durable == Durable::Later {
            self.connection.execute_batch(&set("FULL")).map_err(|e| self.error("write the file ledger", e))?;
        }
        done
    }

    fn names(&mut self, transfer: u64, page: u32) -> Result<Option<NamesRow>> {
        let query = "SELECT transfer, page, files, sum, data FROM names WHERE transfer = ? AND page = ?";
        Ok(self.list("read names", query, params![signed(transfer), page], names)?.pop())
    }

    fn states(&mut self, page: PageId) -> Result<Option<StatesRow>> {
        let query = format!("SELECT {STATES} FROM states WHERE transfer = ? AND leg = ? AND page = ?");
        Ok(self.list("read states", &query, params![signed(page.transfer), page.leg, page.page], states)?.pop())
    }

    fn digests(&mut self, page: PageId) -> Result<Vec<DigestsRow>> {
        let query = "SELECT seq, sum, data FROM digests WHERE transfer = ? AND leg = ? AND page = ? ORDER BY seq";
        self.list("read digests", query, params![signed(page.transfer), page.leg, page.page], |row| {
            Ok(DigestsRow { page, seq: row.get(0)?, sum: whole(row.get(1)?), data: row.get(2)? })
        })
    }

    fn digest_rows(&mut self, pages: &[PageId]) -> Result<Vec<u32>> {
        let query = "SELECT count(*) FROM digests WHERE transfer = ? AND leg = ? AND page = ?";
        let count = |page: &PageId| {
            let key = params![signed(page.transfer), page.leg, page.page];
            Ok(self.list("count digests", query, key, |row| row.get(0))?.pop().unwrap_or(0))
        };
        pages.iter().map(count).collect()
    }

    fn failed(&mut self, transfer: u64, leg: u32, after: Option<(u32, u32)>, most: u32) -> Result<Vec<FailedRow>> {
        let query = "SELECT page, number, sum, text FROM failed
            WHERE transfer = ?1 AND leg = ?2 AND (page, number) > (?3, ?4) ORDER BY page, number LIMIT ?5";
        let (page, number) = after.map_or((-1, -1), |(page, number)| (i64::from(page), i64::from(number)));
        self.list("list failed files", query, params![signed(transfer), leg, page, number, most], |row| {
            let page = PageId { transfer, leg, page: row.get(0)? };
            Ok(FailedRow { page, number: row.get(1)?, sum: whole(row.get(2)?), text: row.get(3)? })
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
        let query = "SELECT page, open, given, done, failed, bytes, bytes_done FROM states
            WHERE transfer = ? AND leg = ? AND page >= ? AND (open > 0 OR NOT ?) ORDER BY page LIMIT ?";
        self.list("count files", query, params![signed(transfer), leg, from, only_open, most], |row| {
            Ok((PageId { transfer, leg, page: row.get(0)? }, counts(row, 1)?))
        })
    }

    fn total(&mut self, transfer: u64, leg: u32) -> Result<(u32, PageCounts)> {
        // Bytes are summed up by halves: SQLite refuses a sum above 2⁶³.
        let query = "SELECT count(*), total(open), total(given), total(done), total(failed),
                coalesce(sum(bytes >> 32 & 4294967295), 0), coalesce(sum(bytes & 4294967295), 0),
                coalesce(sum(bytes_done >> 32 & 4294967295), 0), coalesce(sum(bytes_done & 4294967295), 0)
            FROM states WHERE transfer = ? AND leg = ?";
        let found = self.list("count files", query, params![signed(transfer), leg], |row| {
            let files = |column| row.get::<_, f64>(column).map(|count| count as u64);
            let bytes = |column| -> rusqlite::Result<u64> {
                let (high, low) = (row.get::<_, u64>(column)?, row.get::<_, u64>(column + 1)?);
                Ok(u64::try_from((u128::from(high) << 32) + u128::from(low)).unwrap_or(u64::MAX))
            };
            let counts = PageCounts {
                open: files(1)?,
                given: files(2)?,
                done: files(3)?,
                failed: files(4)?,
                bytes: bytes(5)?,
                bytes_done: bytes(7)?,
            };
            Ok((row.get(0)?, counts))
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    fn with_given(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<PageId>> {
        let query = "SELECT transfer, leg, page FROM states
            WHERE given > 0 AND (transfer, leg, page) > (?, ?, ?) ORDER BY transfer, leg, page LIMIT ?";
        let (transfer, leg, page) = key_after(after);
        self.list("list given files", query, params![transfer, leg, page, most], |row| {
            Ok(PageId { transfer: whole(row.get(0)?), leg: row.get(1)?, page: row.get(2)? })
        })
    }

    fn transfers(&mut self, after: Option<u64>, most: u32) -> Result<Vec<u64>> {
        // Also such that have only states, or only names: what a removal left when it was cut short.
        let query =
            "SELECT transfer FROM names WHERE transfer > ?1 UNION SELECT transfer FROM states WHERE transfer > ?1
            ORDER BY transfer LIMIT ?2";
        self.list("list transfers", query, params![after.map_or(-1, signed), most], |row| row.get(0).map(whole))
    }

    fn names_after(&mut self, after: Option<(u64, u32)>, most: u32) -> Result<Vec<NamesRow>> {
        let query = "SELECT transfer, page, files, sum, data FROM names
            WHERE (transfer, page) > (?, ?) ORDER BY transfer, page LIMIT ?";
        let (transfer, page) = after.map_or((-1, -1), |(transfer, page)| (signed(transfer), i64::from(page)));
        self.list("read names", query, params![transfer, page, most], names)
    }

    fn states_after(&mut self, after: Option<PageId>, most: u32) -> Result<Vec<StatesRow>> {
        let query = format!(
            "SELECT {STATES} FROM states WHERE (transfer, leg, page) > (?, ?, ?) ORDER BY transfer, leg, page LIMIT ?"
        );
        let (transfer, leg, page) = key_after(after);
        self.list("read states", &query, params![transfer, leg, page, most], states)
    }

    fn remove(&mut self, transfer: u64, most: u32) -> Result<u32> {
        let removed = self.transact("remove pages", |transaction| {
            // Also pages that have only states: what a removal left.
            let pages = "SELECT page FROM names WHERE transfer = ?1 UNION SELECT page FROM states WHERE transfer = ?1
                ORDER BY page LIMIT ?2";
            let mut list = transaction.prepare_cached(pages)?;
            let pages: Vec<u32> =
                list.query_map(params![signed(transfer), most], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return Ok(0) };
            for table in ["failed", "digests", "states", "names"] {
                let remove = format!("DELETE FROM {table} WHERE transfer = ? AND page BETWEEN ? AND ?");
                transaction.prepare_cached(&remove)?.execute(params![signed(transfer), first, last])?;
            }
            Ok(u32::try_from(pages.len()).unwrap_or(u32::MAX))
        })?;
        self.give_back(GIVEN_BACK_PAGES);
        Ok(removed)
    }

    fn bytes(&mut self) -> Result<u64> {
        Db::bytes(self)
    }

    fn check(&mut self) -> Result<Vec<String>> {
        Db::check(self)
    }
}

fn apply(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    let run =
        |statement: &str, with: &[&dyn rusqlite::ToSql]| transaction.prepare_cached(statement)?.execute(with).map(drop);
    let key = |page: &PageId| (signed(page.transfer), page.leg, page.page);
    match change {
        Change::Names(row) => run(
            "INSERT INTO names VALUES (?, ?, ?, ?, ?)",
            params![signed(row.transfer), row.page, row.files, signed(row.sum), row.data],
        ),
        Change::States(row) => {
            let (transfer, leg, page) = key(&row.page);
            let n = [row.counts.open, row.counts.given, row.counts.done, row.counts.failed].map(signed);
            let (bytes, done, sum) = (signed(row.counts.bytes), signed(row.counts.bytes_done), signed(row.sum));
            run(
                "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![transfer, leg, page, n[0], n[1], n[2], n[3], bytes, done, sum, row.bits],
            )
        }
        Change::Failed(row) => {
            let (transfer, leg, page) = key(&row.page);
            run(
                "INSERT OR REPLACE INTO failed VALUES (?, ?, ?, ?, ?, ?)",
                params![transfer, leg, page, row.number, signed(row.sum), row.text],
            )
        }
        Change::NotFailed(id, number) => {
            let (transfer, leg, page) = key(id);
            run(
                "DELETE FROM failed WHERE transfer = ? AND leg = ? AND page = ? AND number = ?",
                params![transfer, leg, page, number],
            )
        }
        Change::Digests(row) => {
            let (transfer, leg, page) = key(&row.page);
            run(
                "INSERT INTO digests VALUES (?, ?, ?, ?, ?, ?)",
                params![transfer, leg, page, row.seq, signed(row.sum), row.data],
            )
        }
        Change::NoDigests(id) => {
            let (transfer, leg, page) = key(id);
            run("DELETE FROM digests WHERE transfer = ? AND leg = ? AND page = ?", params![transfer, leg, page])
        }
    }
}

fn key_after(after: Option<PageId>) -> (i64, i64, i64) {
    after.map_or((-1, -1, -1), |id| (signed(id.transfer), id.leg.into(), id.page.into()))
}

fn names(row: &Row<'_>) -> rusqlite::Result<NamesRow> {
    Ok(NamesRow {
        transfer: whole(row.get(0)?),
        page: row.get(1)?,
        files: row.get(2)?,
        sum: whole(row.get(3)?),
        data: row.get(4)?,
    })
}

fn states(row: &Row<'_>) -> rusqlite::Result<StatesRow> {
    let page = PageId { transfer: whole(row.get(0)?), leg: row.get(1)?, page: row.get(2)? };
    Ok(StatesRow { page, counts: counts(row, 3)?, sum: whole(row.get(9)?), bits: row.get(10)? })
}

fn counts(row: &Row<'_>, from: usize) -> rusqlite::Result<PageCounts> {
    let number = |column: usize| row.get(from + column).map(whole);
    Ok(PageCounts {
        open: number(0)?,
        given: number(1)?,
        done: number(2)?,
        failed: number(3)?,
        bytes: number(4)?,
        bytes_done: number(5)?,
    })
}
