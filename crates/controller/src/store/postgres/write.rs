//! Changes of the file ledger in few statements: each is a round trip, in which the controller waits.

use std::collections::{BTreeMap, BTreeSet};

use postgres::Transaction;
use postgres::types::ToSql;

use super::super::PageId;
use super::super::rows::{Change, DigestsRow, FailedRow, NamesRow, StatesRow};
use super::{Asking, signed};

/// Bytes of the rows of one statement, but for a row that alone has more: the server takes 1 GB, and holds all of it.
const STATEMENT_BYTES: usize = 16 << 20;
/// What a row takes beside its bytes.
const ROW_BYTES: usize = 128;

type Rows<T> = std::result::Result<T, postgres::Error>;

/// What changes of the tables, which have nothing to do with each other. Of what changes twice the last counts.
#[derive(Default)]
struct Batch<'a> {
    names: Vec<&'a NamesRow>,
    states: BTreeMap<PageId, &'a StatesRow>,
    /// `None` for those that are failed no more.
    failed: BTreeMap<(PageId, u32), Option<&'a FailedRow>>,
    /// Pages of which the digests before these go.
    emptied: BTreeSet<PageId>,
    digests: Vec<&'a DigestsRow>,
}

/// Makes these changes.
pub(super) fn apply(to: &mut Asking<'_, Transaction<'_>>, changes: &[Change]) -> Rows<()> {
    let mut batch = Batch::default();
    for change in changes {
        match change {
            Change::Names(row) => batch.names.push(row),
            Change::States(row) => drop(batch.states.insert(row.page, row)),
            Change::Failed(row) => drop(batch.failed.insert((row.page, row.number), Some(row))),
            Change::NotFailed(page, number) => drop(batch.failed.insert((*page, *number), None)),
            Change::Digests(row) => batch.digests.push(row),
            Change::NoDigests(page) => {
                batch.digests.retain(|row| row.page != *page);
                batch.emptied.insert(*page);
            }
        }
    }
    let states: Vec<&StatesRow> = batch.states.into_values().collect();
    let failed: Vec<&FailedRow> = batch.failed.values().flatten().copied().collect();
    let mended = batch.failed.into_iter().filter(|(_, row)| row.is_none());
    let mended: Vec<(PageId, i64)> = mended.map(|((page, number), _)| (page, number.into())).collect();
    let emptied: Vec<PageId> = batch.emptied.into_iter().collect();
    in_parts(&batch.names, |row| row.data.len(), |rows| put_names(to, rows))?;
    in_parts(&states, |row| row.bits.len(), |rows| put_states(to, rows))?;
    in_parts(&mended, |_| 0, |rows| remove_failed(to, rows))?;
    in_parts(&failed, |row| row.text.len(), |rows| put_failed(to, rows))?;
    in_parts(&emptied, |_| 0, |pages| remove_digests(to, pages))?;
    in_parts(&batch.digests, |row| row.data.len(), |rows| put_digests(to, rows))
}

/// Does something with all rows, with at most [`STATEMENT_BYTES`] at once.
fn in_parts<R>(rows: &[R], bytes: impl Fn(&R) -> usize, mut put: impl FnMut(&[R]) -> Rows<()>) -> Rows<()> {
    let mut rest = rows;
    while !rest.is_empty() {
        let mut sum = 0;
        let fits = |row: &R| {
            sum += bytes(row) + ROW_BYTES;
            sum <= STATEMENT_BYTES
        };
        let (part, after) = rest.split_at(rest.iter().map(fits).take_while(|fits| *fits).count().max(1));
        put(part)?;
        rest = after;
    }
    Ok(())
}

/// A column of some rows.
fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// Columns of the key of a page.
pub(super) struct Keys {
    transfers: Vec<i64>,
    legs: Vec<i64>,
    pages: Vec<i64>,
}

impl Keys {
    pub(super) fn of<R>(rows: &[R], page: impl Fn(&R) -> PageId) -> Keys {
        Keys {
            transfers: column(rows, |row| signed(page(row).transfer)),
            legs: column(rows, |row| page(row).leg.into()),
            pages: column(rows, |row| page(row).page.into()),
        }
    }

    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.transfers, &self.legs, &self.pages]
    }
}

fn put_names(to: &mut Asking<'_, Transaction<'_>>, rows: &[&NamesRow]) -> Rows<()> {
    let (transfers, pages) = (column(rows, |row| signed(row.transfer)), column(rows, |row| i64::from(row.page)));
    let (files, sums) = (column(rows, |row| i64::from(row.files)), column(rows, |row| signed(row.sum)));
    let data = column(rows, |row| &row.data[..]);
    let insert = "INSERT INTO longhaul.names
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])";
    to.execute(insert, &[&transfers, &pages, &files, &sums, &data]).map(drop)
}

fn put_states(to: &mut Asking<'_, Transaction<'_>>, rows: &[&StatesRow]) -> Rows<()> {
    let keys = Keys::of(rows, |row| row.page);
    let (open, given) = (column(rows, |row| signed(row.counts.open)), column(rows, |row| signed(row.counts.given)));
    let (done, failed) = (column(rows, |row| signed(row.counts.done)), column(rows, |row| signed(row.counts.failed)));
    let bytes = column(rows, |row| signed(row.counts.bytes));
    let bytes_done = column(rows, |row| signed(row.counts.bytes_done));
    let (sums, bits) = (column(rows, |row| signed(row.sum)), column(rows, |row| &row.bits[..]));
    let put = "INSERT INTO longhaul.states
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[])
        ON CONFLICT (transfer, leg, page) DO UPDATE SET open = excluded.open, given = excluded.given,
            done = excluded.done, failed = excluded.failed, bytes = excluded.bytes, bytes_done = excluded.bytes_done,
            sum = excluded.sum, bits = excluded.bits";
    let [transfers, legs, pages] = keys.columns();
    to.execute(put, &[transfers, legs, pages, &open, &given, &done, &failed, &bytes, &bytes_done, &sums, &bits])
        .map(drop)
}

fn remove_failed(to: &mut Asking<'_, Transaction<'_>>, rows: &[(PageId, i64)]) -> Rows<()> {
    let (keys, numbers) = (Keys::of(rows, |row| row.0), column(rows, |row| row.1));
    let remove = "DELETE FROM longhaul.failed AS f
        USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS gone (transfer, leg, page, number)
        WHERE (f.transfer, f.leg, f.page, f.number) = (gone.transfer, gone.leg, gone.page, gone.number)";
    let [transfers, legs, pages] = keys.columns();
    to.execute(remove, &[transfers, legs, pages, &numbers]).map(drop)
}

fn put_failed(to: &mut Asking<'_, Transaction<'_>>, rows: &[&FailedRow]) -> Rows<()> {
    let keys = Keys::of(rows, |row| row.page);
    let (numbers, sums) = (column(rows, |row| i64::from(row.number)), column(rows, |row| signed(row.sum)));
    let texts = column(rows, |row| row.text.as_bytes());
    let put = "INSERT INTO longhaul.failed
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])
        ON CONFLICT (transfer, leg, page, number) DO UPDATE SET sum = excluded.sum, text = excluded.text";
    let [transfers, legs, pages] = keys.columns();
    to.execute(put, &[transfers, legs, pages, &numbers, &sums, &texts]).map(drop)
}

fn remove_digests(to: &mut Asking<'_, Transaction<'_>>, pages: &[PageId]) -> Rows<()> {
    let keys = Keys::of(pages, |page| *page);
    let remove = "DELETE FROM longhaul.digests AS d
        USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS gone (transfer, leg, page)
        WHERE (d.transfer, d.leg, d.page) = (gone.transfer, gone.leg, gone.page)";
    to.execute(remove, &keys.columns()).map(drop)
}

fn put_digests(to: &mut Asking<'_, Transaction<'_>>, rows: &[&DigestsRow]) -> Rows<()> {
    let keys = Keys::of(rows, |row| row.page);
    let (seqs, sums) = (column(rows, |row| i64::from(row.seq)), column(rows, |row| signed(row.sum)));
    let data = column(rows, |row| &row.data[..]);
    let insert = "INSERT INTO longhaul.digests
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])";
    let [transfers, legs, pages] = keys.columns();
    to.execute(insert, &[transfers, legs, pages, &seqs, &sums, &data]).map(drop)
}
