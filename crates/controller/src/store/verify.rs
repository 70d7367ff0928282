//! Walks a store and checks all there is.

use super::error::{Result, StoreError};
use super::log::{LogReader, READ_EVENTS_MAX};
use super::rows::{LogRows, PageRows};
use super::{Frozen, LedgerReader, PageId, Store};

/// Damages that are listed; the walk ends there.
pub const VERIFY_DAMAGES_MAX: usize = 100;
/// Pages that are read at once.
const PAGES_AT_ONCE: u32 = 50;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Events that are whole.
    pub events: u64,
    /// The last event, 0 for none.
    pub last: u64,
    /// Snapshots that are whole.
    pub snapshots: u64,
    /// Pages of names that are whole.
    pub pages: u64,
    /// Their files.
    pub files: u64,
    /// States of pages that are whole, one for each leg.
    pub states: u64,
    /// What is damaged, at most [`VERIFY_DAMAGES_MAX`].
    pub damaged: Vec<StoreError>,
}

/// Checks a store as it is at this moment, while it works: the databases' own structure, every event, snapshot and page.
///
/// # Errors
/// When the database refuses; what is damaged is in the report.
pub fn verify(store: &dyn Store) -> Result<Report> {
    let Frozen { log, pages, .. } = store.frozen()?;
    check(log, pages)
}

/// As [`verify`], of these rows.
pub(super) fn check(mut log: Box<dyn LogRows>, mut pages: Box<dyn PageRows>) -> Result<Report> {
    let mut report = Report::default();
    for (findings, name) in [(log.check()?, "log"), (pages.check()?, "file ledger")] {
        let place = log.place().to_owned();
        let damaged = |why| StoreError::Damaged { what: super::Part::Database(name), place: place.clone(), why };
        report.damaged.extend(findings.into_iter().map(damaged));
    }
    let mut log = LogReader::over(log);
    check_events(&mut log, &mut report)?;
    check_snapshots(&mut log, &mut report)?;
    let mut ledger = LedgerReader::over(pages);
    check_names(&mut ledger, &mut report)?;
    check_states(&mut ledger, &mut report)?;
    check_failed(&mut ledger, &mut report)?;
    report.damaged.truncate(VERIFY_DAMAGES_MAX);
    Ok(report)
}

impl Report {
    fn is_full(&self) -> bool {
        self.damaged.len() >= VERIFY_DAMAGES_MAX
    }

    /// Counts what is whole, lists what is damaged, passes other errors on.
    fn take<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(value) => Ok(Some(value)),
            Err(error @ (StoreError::Damaged { .. } | StoreError::NoSuchFile { .. } | StoreError::NoSuchPage(_))) => {
                self.damaged.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn check_events(log: &mut LogReader, report: &mut Report) -> Result<()> {
    let Some(last) = report.take(log.last())? else { return Ok(()) };
    report.last = last;
    let mut next = log.first()?;
    while next <= last && !report.is_full() {
        match report.take(log.read(next, READ_EVENTS_MAX))? {
            Some(events) => {
                report.events += events.len() as u64;
                next += events.len() as u64;
            }
            // The damaged one is known by number: on with the next.
            None => next += 1,
        }
    }
    Ok(())
}

fn check_snapshots(log: &mut LogReader, report: &mut Report) -> Result<()> {
    for number in report.take(log.snapshots())?.unwrap_or_default() {
        if report.take(log.snapshot(number))?.is_some() {
            report.snapshots += 1;
        }
    }
    Ok(())
}

fn check_names(ledger: &mut LedgerReader, report: &mut Report) -> Result<()> {
    let mut after = None;
    while !report.is_full() {
        let read = ledger.rows().names_after(after, PAGES_AT_ONCE);
        let Some(rows) = report.take(read)?.filter(|rows| !rows.is_empty()) else { break };
        for row in rows {
            after = Some((row.transfer, row.page));
            if let Some(files) = report.take(ledger.check_names(&row))? {
                report.pages += 1;
                report.files += files;
            }
        }
    }
    Ok(())
}

fn check_states(ledger: &mut LedgerReader, report: &mut Report) -> Result<()> {
    let mut after = None;
    while !report.is_full() {
        let read = ledger.rows().states_after(after, PAGES_AT_ONCE);
        let Some(rows) = report.take(read)?.filter(|rows| !rows.is_empty()) else { break };
        for row in rows {
            after = Some(row.page);
            if report.take(ledger.check_states(&row))?.is_some() {
                report.states += 1;
            }
        }
    }
    Ok(())
}

fn check_failed(ledger: &mut LedgerReader, report: &mut Report) -> Result<()> {
    let mut after: Option<PageId> = None;
    while !report.is_full() {
        let read = ledger.rows().states_after(after, PAGES_AT_ONCE);
        let Some(rows) = report.take(read)?.filter(|rows| !rows.is_empty()) else { break };
        after = rows.last().map(|row| row.page);
        for row in rows.iter().filter(|row| row.counts.failed > 0) {
            check_failed_of(ledger, row.page, row.counts.failed, report)?;
        }
    }
    Ok(())
}

/// The failed files of a page: as many as its states say, each with its text.
fn check_failed_of(ledger: &mut LedgerReader, page: PageId, expected: u64, report: &mut Report) -> Result<()> {
    // Just before the page's first file.
    let before = page.page.checked_sub(1).map(|before| (before, u32::MAX));
    let most = u32::try_from(expected).unwrap_or(u32::MAX);
    let Some(found) = report.take(ledger.failed(page.transfer, page.leg, before, most))? else { return Ok(()) };
    let found = found.iter().filter(|file| file.page == page.page).count() as u64;
    if found != expected {
        let (what, place) = (super::Part::States(page), ledger.rows().place().to_owned());
        let why = format!("{expected} files failed, but why is kept for {found}");
        report.damaged.push(StoreError::Damaged { what, place, why });
    }
    Ok(())
}
