//! The file ledger: pages of at most 10,000 files. Names and sizes are written once for a transfer; each leg has a state per file.
//!
//! A page is put with all its files open. [`FileLedger::take`] gives open files to a session, [`FileLedger::settle`] records what became
//! of them, [`FileLedger::give_back`] opens them again. That files were given need not survive a crash of the machine, all else does:
//! it is gathered, and written by [`FileLedger::flush`], or before what is written at once. A file that is done stays done, whatever comes
//! after.

mod cache;
mod page;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::Cache;
use page::{Names, States, pack_digests};
pub use read::LedgerReader;

use super::error::{Result, StoreError};
use super::log::limit;
use super::rows::{Change, DigestsRow, Durable, FailedRow, NamesRow, StatesRow};
use super::sum::Summed;
use super::{PageCounts, PageId, Store};

/// Files of a page.
pub const PAGE_FILES_MAX: usize = 10_000;
/// Bytes of a file's name (`PATH_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 4_096;
/// Files put at once: one transaction.
pub const PUT_FILES_MAX: usize = 100_000;
/// Files settled at once: one transaction.
pub const SETTLE_FILES_MAX: usize = 100_000;
/// Of why a file failed so much is kept, bytes; the rest is cut off.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Bytes of a digest: SHA-512 has as many.
pub const DIGEST_BYTES_MAX: usize = 64;
/// Digests come in rows, as they are settled; when a page has so many they are put together.
pub const DIGEST_ROWS_MAX: u32 = 32;
/// Rows of one answer of a listing.
pub const LIST_MAX: u32 = 10_000;
/// What cached pages take in memory at most, bytes.
pub const CACHE_BYTES: usize = 64 << 20;
/// Pages that wait to be written at most.
const LATER_MAX: usize = 1_024;
/// Pages that one transaction removes, so that others need not wait long.
const REMOVE_BATCH: u32 = 100;
/// Pages that one transaction opens again after a restart.
const RESET_BATCH: u32 = 200;

/// A file of a new page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its name, at most [`NAME_BYTES_MAX`].
    pub name: Vec<u8>,
    /// Its size.
    pub size_bytes: u64,
}

/// A new page of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// The transfer, below 2⁶³.
    pub transfer: u64,
    /// The page.
    pub page: u32,
    /// The legs that copy these files.
    pub legs: Vec<u32>,
    /// At most [`PAGE_FILES_MAX`]; a file's number is its place here.
    pub files: Vec<NewFile>,
}

/// State of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Not given to anybody.
    Open = 0,
    /// Given to a session.
    Given = 1,
    /// In place.
    Done = 2,
    /// Failed.
    Failed = 3,
}

/// In which order open files are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were put.
    #[default]
    Number,
    /// The largest first, equal ones as they were put.
    Largest,
    /// The smallest first, equal ones as they were put.
    Smallest,
}

/// A file that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its number in the page.
    pub number: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Its size.
    pub size_bytes: u64,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in place and durable.
    Done {
        /// Its digest, at most [`DIGEST_BYTES_MAX`].
        digest: Option<Vec<u8>>,
        /// Its size, which counts where its page says 0: sizes of a list may not be known before.
        size_bytes: Option<u64>,
    },
    /// It failed.
    Failed {
        /// Why, for people; cut at [`TEXT_BYTES_MAX`].
        text: String,
    },
}

/// What became of files of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The page.
    pub page: PageId,
    /// Files by number, in any order; of one that is named twice the last counts, but done stays done.
    pub outcomes: Vec<(u32, Outcome)>,
}

/// What a settlement changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Files that are done now and were not.
    pub done: u64,
    /// Their bytes.
    pub bytes_done: u64,
    /// Files that are failed now and were not.
    pub failed: u64,
    /// Files that were so already, or were done.
    pub unchanged: u64,
    /// The page as it is now.
    pub counts: PageCounts,
}

/// A file in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Its number in the page.
    pub number: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Its size.
    pub size_bytes: u64,
    /// Its state.
    pub state: State,
}

/// A failed file in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedFile {
    /// Its page.
    pub page: u32,
    /// Its number in the page.
    pub number: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Its size.
    pub size_bytes: u64,
    /// Why.
    pub text: String,
}

/// The file ledger, to write. There is one; everybody else reads over a [`LedgerReader`].
pub struct FileLedger {
    reader: LedgerReader,
}

impl FileLedger {
    /// Opens the file ledger of a store. Takes no longer for more files.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn open(store: &dyn Store) -> Result<FileLedger> {
        Ok(FileLedger { reader: LedgerReader::new(store.pages()?, Cache::new(CACHE_BYTES)) })
    }

    /// Reads.
    pub fn reader(&mut self) -> &mut LedgerReader {
        &mut self.reader
    }

    /// Puts pages, all or none; they are on stable storage when it returns. A page that is there already with the same files keeps its
    /// states, so what was in doubt may be put again.
    ///
    /// # Errors
    /// [`StoreError::PageExists`] for a page with other files; [`StoreError::Limit`]; when the database refuses.
    pub fn put(&mut self, pages: &[NewPage]) -> Result<()> {
        limit("files in one put", pages.iter().map(|page| page.files.len()).sum(), PUT_FILES_MAX)?;
        let mut changes = Vec::new();
        let mut cached: Vec<(PageId, States)> = Vec::new();
        let mut new: BTreeMap<(u64, u32), Arc<Names>> = BTreeMap::new();
        for page in pages {
            check_page(page)?;
            let names = Arc::new(Names::new(&page.files));
            let known = match new.get(&(page.transfer, page.page)) {
                Some(known) => Some(Arc::clone(known)),
                None => self.reader.names_if_there(page.transfer, page.page)?,
            };
            if known.is_some_and(|known| known != names) {
                return Err(StoreError::PageExists { transfer: page.transfer, page: page.page });
            }
            self.put_page(page, &names, &mut new, &mut changes, &mut cached)?;
        }
        self.reader.rows.apply(&changes, Durable::Now)?;
        new.into_iter().for_each(|((transfer, page), names)| self.reader.cache.put_names(transfer, page, names));
        cached.into_iter().for_each(|(id, states)| self.reader.cache.put_states(id, states));
        Ok(())
    }

    /// What is to be written for a page: names if they are not there, states of the legs that have none.
    fn put_page(
        &mut self,
        page: &NewPage,
        names: &Arc<Names>,
        new: &mut BTreeMap<(u64, u32), Arc<Names>>,
        changes: &mut Vec<Change>,
        cached: &mut Vec<(PageId, States)>,
    ) -> Result<()> {
        let (transfer, number) = (page.transfer, page.page);
        let is_new = self.reader.names_if_there(transfer, number)?.is_none();
        if is_new && new.insert((transfer, number), Arc::clone(names)).is_none() {
            let files = u32::try_from(names.len()).unwrap_or(u32::MAX);
            changes
                .push(Change::Names(NamesRow { transfer, page: number, files, sum: 0, data: names.pack() }.sealed()));
        }
        for leg in &page.legs {
            let id = PageId { transfer, leg: *leg, page: number };
            let is_there =
                cached.iter().any(|(other, _)| *other == id) || (!is_new && self.reader.states_if_there(id)?.is_some());
            if !is_there {
                let states = States::new(names);
                changes.push(states_row(id, &states));
                cached.push((id, states));
            }
        }
        Ok(())
    }

    /// Writes that files were given, or given back, since the last time. Survives a crash of the process, perhaps not one of the machine.
    ///
    /// # Errors
    /// When the database refuses: then it is still to be written.
    pub fn flush(&mut self) -> Result<()> {
        self.reader.flush()
    }

    /// Drops what is to be written: none of it happened. What is in memory is read again, as after an error it may be unknown what was
    /// written.
    pub fn forget_unwritten(&mut self) {
        self.reader.later.clear();
        self.reader.cache.clear();
    }

    /// Gives at most `most` open files of a page, marked so at the next [`FileLedger::flush`].
    ///
    /// # Errors
    /// When there is no such page, or the database refuses; then none was given.
    pub fn take(&mut self, page: PageId, most: usize, order: Order) -> Result<Vec<Given>> {
        let (names, states) = self.reader.page(page)?;
        let mut open: Vec<usize> = (0..names.len()).filter(|number| states.get(*number) == State::Open).collect();
        match order {
            Order::Number => {}
            Order::Largest => open.sort_by_key(|number| std::cmp::Reverse(names.size(*number))),
            Order::Smallest => open.sort_by_key(|number| names.size(*number)),
        }
        open.truncate(most);
        self.give(page, &names, states, open)
    }

    /// As [`FileLedger::take`], of these files; those that are not open stay as they are.
    ///
    /// # Errors
    /// As [`FileLedger::take`].
    pub fn take_of(&mut self, page: PageId, numbers: &[u32]) -> Result<Vec<Given>> {
        let (names, states) = self.reader.page(page)?;
        let there = numbers.iter().map(|number| *number as usize).filter(|number| *number < names.len());
        let open = there.filter(|number| states.get(*number) == State::Open).collect();
        self.give(page, &names, states, open)
    }

    fn give(&mut self, page: PageId, names: &Names, mut states: States, open: Vec<usize>) -> Result<Vec<Given>> {
        if open.is_empty() {
            return Ok(Vec::new());
        }
        open.iter().for_each(|number| states.set(*number, State::Given, names.size(*number)));
        self.write_later(page, states)?;
        Ok(open.into_iter().map(|number| read::given(names, number)).collect())
    }

    /// Records what became of files, all or nothing, durably. Whether they were given does not matter: what an agent tells of a file
    /// after a restart is as true.
    ///
    /// # Errors
    /// When a page or file is not there, a digest is too long, or the database refuses; then nothing is recorded.
    pub fn settle(&mut self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        limit("files in one settlement", settlements.iter().map(|s| s.outcomes.len()).sum(), SETTLE_FILES_MAX)?;
        let mut pages: BTreeMap<PageId, (Arc<Names>, States)> = BTreeMap::new();
        let mut changes = Vec::new();
        let mut settled = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let page = match pages.entry(settlement.page) {
                std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::btree_map::Entry::Vacant(free) => free.insert(self.reader.page(settlement.page)?),
            };
            settled.push(settle_page(settlement, &page.0, &mut page.1, &mut changes)?);
        }
        self.place_digests(&mut changes)?;
        let states = pages.into_iter().map(|(id, (_, states))| (id, states)).collect();
        self.write(states, changes)?;
        Ok(settled)
    }

    /// Numbers the rows of digests, and puts together those of pages that have many.
    fn place_digests(&mut self, changes: &mut Vec<Change>) -> Result<()> {
        let pages: BTreeSet<PageId> = changes.iter().filter_map(page_of_digests).collect();
        let pages: Vec<PageId> = pages.into_iter().collect();
        let counts = if pages.is_empty() { Vec::new() } else { self.reader.rows.digest_rows(&pages)? };
        let mut next: BTreeMap<PageId, u32> = pages.into_iter().zip(counts).collect();
        let mut whole: BTreeMap<PageId, Vec<u8>> = BTreeMap::new();
        for change in changes.iter_mut() {
            let Change::Digests(row) = change else { continue };
            let next = next.entry(row.page).or_default();
            row.seq = *next;
            *next += 1;
            *row = row.clone().sealed();
        }
        for (id, rows) in next.iter().filter(|(_, rows)| **rows > DIGEST_ROWS_MAX) {
            tracing::debug!(%id, rows, "digests are put together");
            let mut all: BTreeMap<u32, Vec<u8>> = self.reader.digests(*id)?.into_iter().collect();
            for change in changes.iter() {
                if let Change::Digests(row) = change
                    && row.page == *id
                {
                    all.extend(page::unpack_digests(&row.data).unwrap_or_default());
                }
            }
            whole.insert(*id, pack_digests(all.iter().map(|(number, digest)| (*number, &digest[..]))));
        }
        changes.retain(|change| !matches!(change, Change::Digests(row) if whole.contains_key(&row.page)));
        for (page, data) in whole {
            changes.push(Change::NoDigests(page));
            changes.push(Change::Digests(DigestsRow { page, seq: 0, sum: 0, data }.sealed()));
        }
        Ok(())
    }

    /// Opens files that were given; others stay as they are. Gives how many.
    ///
    /// # Errors
    /// As [`FileLedger::settle`].
    pub fn give_back(&mut self, page: PageId, numbers: &[u32]) -> Result<u64> {
        self.reopen(page, numbers, State::Given)
    }

    /// Opens failed files, to try them again; others stay as they are. Gives how many.
    ///
    /// # Errors
    /// As [`FileLedger::settle`].
    pub fn retry(&mut self, page: PageId, numbers: &[u32]) -> Result<u64> {
        self.reopen(page, numbers, State::Failed)
    }

    fn reopen(&mut self, page: PageId, numbers: &[u32], from: State) -> Result<u64> {
        let (names, mut states) = self.reader.page(page)?;
        let (mut opened, mut changes) = (0, Vec::new());
        for number in numbers {
            let index = index(page, *number, &names)?;
            if states.get(index) == from {
                states.set(index, State::Open, names.size(index));
                opened += 1;
                if from == State::Failed {
                    changes.push(Change::NotFailed(page, *number));
                }
            }
        }
        match (opened, from) {
            (0, _) => {}
            (_, State::Failed) => self.write(vec![(page, states)], changes)?,
            _ => self.write_later(page, states)?,
        }
        Ok(opened)
    }

    /// After a restart: opens all given files but those that sessions still have. Gives how many.
    ///
    /// # Errors
    /// When a page is damaged or the database refuses; what was opened until then stays open, and it may be called again.
    pub fn reset_given(&mut self, keep: &BTreeMap<PageId, Vec<u32>>) -> Result<u64> {
        self.flush()?;
        let (mut after, mut opened) = (None, 0);
        // Each turn goes on after the last page, and there is an end to pages.
        loop {
            let pages = self.reader.rows.with_given(after, RESET_BATCH)?;
            let Some(last) = pages.last() else { return Ok(opened) };
            after = Some(*last);
            let mut changed = Vec::new();
            for id in pages {
                let (names, mut states) = self.reader.page(id)?;
                let kept = keep.get(&id).map_or(&[][..], |kept| kept);
                let given = (0..names.len()).filter(|number| states.get(*number) == State::Given);
                let back: Vec<usize> = given.filter(|n| !kept.iter().any(|kept| *kept as usize == *n)).collect();
                back.iter().for_each(|number| states.set(*number, State::Open, names.size(*number)));
                opened += back.len() as u64;
                changed.extend((!back.is_empty()).then_some((id, states)));
            }
            self.write(changed, Vec::new())?;
        }
    }

    /// Removes all pages of a transfer; gives how many. It goes by batches: when it is cut short, call it again.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn delete(&mut self, transfer: u64) -> Result<u64> {
        self.reader.cache.drop_transfer(transfer);
        self.reader.later.retain(|page, _| page.transfer != transfer);
        let mut removed = 0;
        // Each turn removes something, and there is an end to what there is.
        loop {
            let now = self.reader.rows.remove(transfer, REMOVE_BATCH)?;
            removed += u64::from(now);
            if now < REMOVE_BATCH {
                return Ok(removed);
            }
        }
    }

    /// Writes states and what else changes with them, durably; the cache follows what was written.
    fn write(&mut self, states: Vec<(PageId, States)>, mut changes: Vec<Change>) -> Result<()> {
        // Apart, so that it stays known what is to be written if it is not known what was.
        self.flush()?;
        changes.extend(states.iter().map(|(id, states)| states_row(*id, states)));
        if changes.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.reader.rows.apply(&changes, Durable::Now) {
            if matches!(error, StoreError::Lost { .. }) {
                // Whether it was written is not known: the database will say.
                self.reader.cache.clear();
            }
            return Err(error);
        }
        states.into_iter().for_each(|(id, states)| self.reader.cache.put_states(id, states));
        Ok(())
    }

    /// States that are to be written with those of other pages.
    fn write_later(&mut self, page: PageId, states: States) -> Result<()> {
        if self.reader.later.len() >= LATER_MAX {
            self.flush()?;
        }
        self.reader.later.insert(page, states);
        Ok(())
    }
}

fn check_page(page: &NewPage) -> Result<()> {
    limit("files in a page", page.files.len(), PAGE_FILES_MAX)?;
    let longest = page.files.iter().map(|file| file.name.len()).max().unwrap_or(0);
    limit("bytes of a file's name", longest, NAME_BYTES_MAX)?;
    match i64::try_from(page.transfer) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Limit { what: "transfers", found: page.transfer, most: i64::MAX as u64 }),
    }
}

/// The page to which digests come.
fn page_of_digests(change: &Change) -> Option<PageId> {
    match change {
        Change::Digests(row) => Some(row.page),
        _ => None,
    }
}

fn settle_page(
    settlement: &Settlement,
    names: &Names,
    states: &mut States,
    changes: &mut Vec<Change>,
) -> Result<Settled> {
    let page = settlement.page;
    let mut settled = Settled::default();
    let mut digests: Vec<(u32, &[u8])> = Vec::new();
    for (number, outcome) in &settlement.outcomes {
        let index = index(page, *number, names)?;
        let (old, size) = (states.get(index), names.size(index));
        match outcome {
            Outcome::Done { digest, size_bytes } => {
                // Of a list without sizes it is known now.
                let size = if size == 0 { size_bytes.unwrap_or(0) } else { size };
                if let Some(digest) = digest {
                    limit("bytes of a digest", digest.len(), DIGEST_BYTES_MAX)?;
                    digests.push((*number, digest));
                }
                if old == State::Done {
                    settled.unchanged += 1;
                    continue;
                }
                changes.extend((old == State::Failed).then_some(Change::NotFailed(page, *number)));
                states.set(index, State::Done, size);
                settled.done += 1;
                settled.bytes_done = settled.bytes_done.saturating_add(size);
            }
            Outcome::Failed { .. } if old == State::Done => settled.unchanged += 1,
            Outcome::Failed { text } => {
                let text = cut(text, TEXT_BYTES_MAX).to_owned();
                changes.push(Change::Failed(FailedRow { page, number: *number, sum: 0, text }.sealed()));
                states.set(index, State::Failed, size);
                *(if old == State::Failed { &mut settled.unchanged } else { &mut settled.failed }) += 1;
            }
        }
    }
    if !digests.is_empty() {
        let data = pack_digests(digests.into_iter());
        changes.push(Change::Digests(DigestsRow { page, seq: 0, sum: 0, data }));
    }
    settled.counts = states.counts;
    Ok(settled)
}

fn index(page: PageId, number: u32, names: &Names) -> Result<usize> {
    let files = u32::try_from(names.len()).unwrap_or(u32::MAX);
    match number < files {
        true => Ok(number as usize),
        false => Err(StoreError::NoSuchFile { page, number, files }),
    }
}

fn states_row(page: PageId, states: &States) -> Change {
    Change::States(StatesRow { page, counts: states.counts, sum: 0, bits: states.bits().to_vec() }.sealed())
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str, most_bytes: usize) -> &str {
    let end = (0..=most_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
