//! The file ledger, to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::error::{Part, Result, StoreError};
use super::super::rows::{Change, DigestsRow, Durable, FailedRow, NamesRow, PageRows, StatesRow};
use super::super::sum::Summed;
use super::super::{PageCounts, PageId};
use super::cache::Cache;
use super::page::{Names, States, unpack_digests};
use super::{FailedFile, FileRow, Given, LIST_MAX, State, index, states_row};

/// The file ledger, to read. What it shows of files that others write may be as old as its cache: use the one of the
/// [`FileLedger`](super::FileLedger) that writes, or one made for one answer.
pub struct LedgerReader {
    pub(super) rows: Box<dyn PageRows>,
    pub(super) cache: Cache,
    /// States that are to be written: newer than those of the database, and not in the cache.
    pub(super) later: BTreeMap<PageId, States>,
}

impl LedgerReader {
    pub(super) fn new(rows: Box<dyn PageRows>, cache: Cache) -> LedgerReader {
        LedgerReader { rows, cache, later: BTreeMap::new() }
    }

    /// Reads these rows, and keeps nothing in memory: what it shows is always what is there.
    pub fn over(rows: Box<dyn PageRows>) -> LedgerReader {
        LedgerReader::new(rows, Cache::new(0))
    }

    /// Counts of a leg, and how many pages it has; of one that is not there, none.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn total(&mut self, transfer: u64, leg: u32) -> Result<(u32, PageCounts)> {
        self.flush()?;
        self.rows.total(transfer, leg)
    }

    /// Counts of pages of a leg from this page on, in order, at most `most` or [`LIST_MAX`].
    ///
    /// # Errors
    /// When the database refuses.
    pub fn pages(&mut self, transfer: u64, leg: u32, from: u32, most: u32) -> Result<Vec<(PageId, PageCounts)>> {
        self.flush()?;
        self.rows.counts(transfer, leg, from, false, most.min(LIST_MAX))
    }

    /// As [`LedgerReader::pages`], those with open files only: where to take from.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn open_pages(&mut self, transfer: u64, leg: u32, from: u32, most: u32) -> Result<Vec<(PageId, PageCounts)>> {
        self.flush()?;
        self.rows.counts(transfer, leg, from, true, most.min(LIST_MAX))
    }

    /// Files of a page from this number on, at most `most`.
    ///
    /// # Errors
    /// When the page is not there or damaged, or the database refuses.
    pub fn files(&mut self, page: PageId, from: u32, most: u32) -> Result<Vec<FileRow>> {
        let (names, states) = self.page(page)?;
        let to = (from as usize).saturating_add(most as usize).min(names.len());
        let row = |number: usize| {
            let Given { number: place, name, size_bytes } = given(&names, number);
            FileRow { number: place, name, size_bytes, state: states.get(number) }
        };
        Ok((from as usize..to).map(row).collect())
    }

    /// Whether one of these files of a page is in that state. Names are not looked at.
    ///
    /// # Errors
    /// When the page is not there or damaged, or the database refuses.
    pub fn is_any(&mut self, page: PageId, numbers: &[u32], state: State) -> Result<bool> {
        let states = self.states_if_there(page)?.ok_or(StoreError::NoSuchPage(page))?;
        let files = states.counts.files();
        Ok(numbers.iter().any(|number| u64::from(*number) < files && states.get(*number as usize) == state))
    }

    /// Names and sizes of these files of a page: for sessions that go on after a restart.
    ///
    /// # Errors
    /// When the page or a file is not there, the page is damaged, or the database refuses.
    pub fn named(&mut self, page: PageId, numbers: &[u32]) -> Result<Vec<Given>> {
        let (names, _) = self.page(page)?;
        numbers.iter().map(|number| Ok(given(&names, index(page, *number, &names)?))).collect()
    }

    /// Failed files of a leg after this page and number, in order, at most `most` or [`LIST_MAX`]: go on with the last of an answer.
    ///
    /// # Errors
    /// When something is damaged, or the database refuses.
    pub fn failed(&mut self, transfer: u64, leg: u32, after: Option<(u32, u32)>, most: u32) -> Result<Vec<FailedFile>> {
        let rows = self.rows.failed(transfer, leg, after, most.min(LIST_MAX))?;
        rows.into_iter().map(|row| self.failed_file(row)).collect()
    }

    fn failed_file(&mut self, row: FailedRow) -> Result<FailedFile> {
        if row.expected() != row.sum {
            return Err(self.damaged(Part::Failed(row.page, row.number), "its checksum does not match"));
        }
        let (names, _) = self.page(row.page)?;
        let Given { number, name, size_bytes } = given(&names, index(row.page, row.number, &names)?);
        Ok(FailedFile { page: row.page.page, number, name, size_bytes, text: row.text })
    }

    /// Digests of a page, by number: of files that have none nothing. Of two for one file the later.
    ///
    /// # Errors
    /// When something is damaged, or the database refuses.
    pub fn digests(&mut self, page: PageId) -> Result<Vec<(u32, Vec<u8>)>> {
        let mut all = BTreeMap::new();
        for row in self.rows.digests(page)? {
            all.extend(self.digests_of(&row)?);
        }
        Ok(all.into_iter().collect())
    }

    /// Transfers above this number that have pages, in order, at most `most` or [`LIST_MAX`]: those that the state does not know are
    /// left of something cut short, and may be deleted.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn transfers(&mut self, after: Option<u64>, most: u32) -> Result<Vec<u64>> {
        self.rows.transfers(after, most.min(LIST_MAX))
    }

    /// Bytes that the file ledger takes on the disk.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn bytes(&mut self) -> Result<u64> {
        self.rows.bytes()
    }

    /// Bytes of pages in memory; at most [`CACHE_BYTES`](super::CACHE_BYTES).
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// The rows, for copies and checks.
    pub(in super::super) fn rows(&mut self) -> &mut dyn PageRows {
        &mut *self.rows
    }

    /// A page of a leg.
    pub(super) fn page(&mut self, id: PageId) -> Result<(Arc<Names>, States)> {
        let states = self.states_if_there(id)?.ok_or(StoreError::NoSuchPage(id))?;
        let Some(names) = self.names_if_there(id.transfer, id.page)? else {
            let names = Part::Names { transfer: id.transfer, page: id.page };
            return Err(self.damaged(names, "they are missing"));
        };
        match states.counts.files() == names.len() as u64 {
            true => Ok((names, states)),
            false => Err(self.damaged(Part::States(id), "it has another number of files than its names")),
        }
    }

    pub(super) fn names_if_there(&mut self, transfer: u64, page: u32) -> Result<Option<Arc<Names>>> {
        if let Some(names) = self.cache.names(transfer, page) {
            return Ok(Some(names));
        }
        let Some(row) = self.rows.names(transfer, page)? else { return Ok(None) };
        let names = Arc::new(self.names_of(&row)?);
        self.cache.put_names(transfer, page, Arc::clone(&names));
        Ok(Some(names))
    }

    pub(super) fn states_if_there(&mut self, id: PageId) -> Result<Option<States>> {
        if let Some(states) = self.later.get(&id) {
            return Ok(Some(states.clone()));
        }
        if let Some(states) = self.cache.states(id) {
            return Ok(Some(states));
        }
        let Some(row) = self.rows.states(id)? else { return Ok(None) };
        let states = self.states_of(&row)?;
        self.cache.put_states(id, states.clone());
        Ok(Some(states))
    }

    /// Writes what is to be written: the database counts what it has. On an error it is still to be written.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.later.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change> = self.later.iter().map(|(id, states)| states_row(*id, states)).collect();
        self.rows.apply(&changes, Durable::Later)?;
        std::mem::take(&mut self.later).into_iter().for_each(|(id, states)| self.cache.put_states(id, states));
        Ok(())
    }

    fn names_of(&self, row: &NamesRow) -> Result<Names> {
        let part = Part::Names { transfer: row.transfer, page: row.page };
        if row.expected() != row.sum {
            return Err(self.damaged(part, "their checksum does not match"));
        }
        Names::unpack(&row.data, row.files).ok_or_else(|| self.damaged(part, "they cannot be unpacked"))
    }

    fn states_of(&self, row: &StatesRow) -> Result<States> {
        if row.expected() != row.sum {
            return Err(self.damaged(Part::States(row.page), "their checksum does not match"));
        }
        let states = States::from_parts(row.bits.clone(), row.counts);
        states.ok_or_else(|| self.damaged(Part::States(row.page), "bits and counts do not agree"))
    }

    fn digests_of(&self, row: &DigestsRow) -> Result<Vec<(u32, Vec<u8>)>> {
        if row.expected() != row.sum {
            return Err(self.damaged(Part::Digests(row.page), "their checksum does not match"));
        }
        let digests = unpack_digests(&row.data);
        digests.ok_or_else(|| self.damaged(Part::Digests(row.page), "they cannot be unpacked"))
    }

    /// Whether names as read are whole; gives how many files.
    pub(in super::super) fn check_names(&self, row: &NamesRow) -> Result<u64> {
        self.names_of(row).map(|names| names.len() as u64)
    }

    /// Whether states as read, and all that belongs to them, are whole.
    pub(in super::super) fn check_states(&mut self, row: &StatesRow) -> Result<()> {
        self.states_of(row)?;
        self.page(row.page)?;
        self.digests(row.page).map(drop)
    }

    fn damaged(&self, what: Part, why: &str) -> StoreError {
        StoreError::Damaged { what, place: self.rows.place().to_owned(), why: why.to_owned() }
    }
}

pub(super) fn given(names: &Names, number: usize) -> Given {
    let place = u32::try_from(number).unwrap_or(u32::MAX);
    Given { number: place, name: names.name(number).to_vec(), size_bytes: names.size(number) }
}
