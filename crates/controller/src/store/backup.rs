//! Copies of log and file ledger while the controller works, and back.
//!
//! A backup is a directory with `log.sqlite` and `files.sqlite`, whatever database the store is in: it can be restored
//! into either. Both are copied row by row from one moment, and each row's checksum is checked on the way. The archive
//! is not copied: it may be lost.
//!
//! **What fits together.** Pages are put before the event that speaks of them is appended, and deleted after the
//! event that ends their transfer. A server freezes both at one moment. Two files cannot be: the log is looked at
//! first, then the file ledger, and both again if the log has gone on in between, which is what a crash at the second
//! look would have left. So in a copy, as after a crash, the file ledger may be ahead of the log in two ways only:
//! pages of a transfer that the log does not know (delete them, see [`LedgerReader::transfers`]), and files that are
//! done of which the log has not counted the bytes yet (counts are read from the file ledger, not from the log).

use std::path::Path;

use super::error::{Result, StoreError};
use super::log::LogReader;
use super::rows::{Change, Durable, EventRow, LogRows, PageRows};
use super::sum::Summed;
use super::verify::check;
use super::{Frozen, LedgerReader, PageId, Place, Report, Store, open_any};

/// Looks at a store until its log stands still for one: a look takes less than 1 ms, a turn of the controller some ms.
const TOGETHER_TRIES: u32 = 1_000;
/// Rows that one transaction of a copy writes.
const COPY_EVENTS: u32 = 10_000;
const COPY_PAGES: u32 = 50;
const COPY_FAILED: u32 = 10_000;
/// Bytes of events that one transaction of a copy writes.
const COPY_BYTES: usize = 16 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Events.
    pub events: u64,
    /// Number of the last, 0 for none.
    pub last: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Pages of names.
    pub pages: u64,
    /// States of pages, one for each leg.
    pub states: u64,
}

/// Copies a store, whether a controller is at work on it or not, into a directory that is empty or not there. It holds up nobody.
///
/// # Errors
/// When there is no store, something is damaged, the directory has something in it, or either database refuses. What was copied by then
/// is of no use.
pub fn backup(from: &Place, to: &Path) -> Result<Copied> {
    let store = super::beside(from)?;
    copy(together(&*store)?, &Place::Directory(to.to_owned()), None)
}

/// Log and file ledger as a crash at one moment would have left them: the log as it was, and the file ledger a little later, while the log
/// had not gone on. What the log tells of is in the file ledger then, and what that has beyond it is of one turn of the controller.
fn together(store: &dyn Store) -> Result<Frozen> {
    for _ in 0..TOGETHER_TRIES {
        let mut frozen = store.frozen()?;
        if frozen.is_together || frozen.log.bounds()? == store.log()?.bounds()? {
            return Ok(frozen);
        }
    }
    Err(StoreError::Restless { place: store.place().to_owned() })
}

/// Brings a backup back, into a store that has nothing in it or a restore that was cut short, and ends its log with an event more, if there
/// is one: when, and what it is. The backup is checked wholly first.
///
/// # Errors
/// When something of the backup is damaged (nothing is written then), the store has something in it, or either database refuses.
pub fn restore(from: &Path, into: &Place, last: Option<(u64, Vec<u8>)>) -> Result<Copied> {
    if !from.join("log.sqlite").is_file() || !from.join("files.sqlite").is_file() {
        return Err(StoreError::Missing { place: from.display().to_string() });
    }
    let backup = open_any(&Place::Directory(from.to_owned()))?;
    if backup.log()?.is_restoring()? {
        return Err(StoreError::Restoring { place: backup.place().to_owned() });
    }
    let Frozen { log, pages, .. } = backup.frozen()?;
    let Report { damaged, .. } = check(log, pages)?;
    match damaged.into_iter().next() {
        Some(damaged) => Err(damaged),
        None => copy(backup.frozen()?, into, last),
    }
}

/// Copies all rows into a new store. Until it has ended the store is marked, so that nobody takes it for whole.
fn copy(from: Frozen, into: &Place, last: Option<(u64, Vec<u8>)>) -> Result<Copied> {
    let store = open_any(into)?;
    let (mut log, mut pages) = (store.log()?, store.pages()?);
    match log.is_restoring()? {
        true => clear(&mut *log, &mut *pages)?,
        false if log.bounds()?.is_some() || !log.snapshots()?.is_empty() || !pages.transfers(None, 1)?.is_empty() => {
            return Err(StoreError::NotEmpty { place: store.place().to_owned() });
        }
        false => log.set_restoring(true)?,
    }
    let mut copied = Copied::default();
    copy_log(&mut LogReader::over(from.log), &mut *log, &mut copied)?;
    copy_pages(&mut LedgerReader::over(from.pages), &mut *pages, &mut copied)?;
    if let Some((at_ms, bytes)) = last {
        log.insert(&[EventRow { number: copied.last + 1, at_ms, sum: 0, bytes }.sealed()])?;
    }
    log.set_restoring(false)?;
    Ok(copied)
}

fn clear(log: &mut dyn LogRows, pages: &mut dyn PageRows) -> Result<()> {
    // Each turn removes something, and there is an end to what there is.
    while log.remove_to(u64::MAX >> 1, COPY_EVENTS)? > 0 {}
    while let Some(transfer) = pages.transfers(None, 1)?.first() {
        pages.remove(*transfer, COPY_PAGES)?;
    }
    log.put_snapshot(&super::rows::SnapshotRow { number: 0, sum: 0, bytes: Vec::new() }, 0)
}

fn copy_log(from: &mut LogReader, to: &mut dyn LogRows, copied: &mut Copied) -> Result<()> {
    copied.last = from.last()?;
    let mut next = from.first()?;
    while next <= copied.last {
        // Read twice, once with all checks: rows have what is to be written.
        let whole = from.read(next, COPY_EVENTS)?.len();
        let most = u32::try_from(whole).unwrap_or(COPY_EVENTS);
        let rows = from.rows().events(next, most, COPY_BYTES)?;
        to.insert(&rows)?;
        copied.events += rows.len() as u64;
        next += rows.len() as u64;
    }
    let mut snapshots = from.snapshots()?;
    snapshots.reverse();
    for number in snapshots {
        from.snapshot(number)?;
        if let Some(row) = from.rows().snapshot(number)? {
            to.put_snapshot(&row, super::SNAPSHOTS_KEPT)?;
            copied.snapshots += 1;
        }
    }
    Ok(())
}

fn copy_pages(from: &mut LedgerReader, to: &mut dyn PageRows, copied: &mut Copied) -> Result<()> {
    let mut after = None;
    loop {
        let rows = from.rows().names_after(after, COPY_PAGES)?;
        let Some(last) = rows.last() else { break };
        after = Some((last.transfer, last.page));
        for row in &rows {
            from.check_names(row)?;
        }
        copied.pages += rows.len() as u64;
        to.apply(&rows.into_iter().map(Change::Names).collect::<Vec<_>>(), Durable::Now)?;
    }
    let mut after: Option<PageId> = None;
    loop {
        let rows = from.rows().states_after(after, COPY_PAGES)?;
        let Some(last) = rows.last() else { break };
        after = Some(last.page);
        let mut changes = Vec::new();
        for row in rows {
            from.check_states(&row)?;
            changes.extend(from.rows().digests(row.page)?.into_iter().map(Change::Digests));
            if row.counts.failed > 0 {
                copy_failed(from, row.page, to)?;
            }
            copied.states += 1;
            changes.push(Change::States(row));
        }
        to.apply(&changes, Durable::Now)?;
    }
    Ok(())
}

fn copy_failed(from: &mut LedgerReader, page: PageId, to: &mut dyn PageRows) -> Result<()> {
    let mut after = page.page.checked_sub(1).map(|before| (before, u32::MAX));
    loop {
        let rows = from.rows().failed(page.transfer, page.leg, after, COPY_FAILED)?;
        let mine: Vec<Change> = rows.into_iter().filter(|row| row.page == page).map(Change::Failed).collect();
        let Some(Change::Failed(last)) = mine.last() else { return Ok(()) };
        after = Some((page.page, last.number));
        to.apply(&mine, Durable::Later)?;
    }
}
