//! The source role: which entry is announced, which chunk is read next, which parcel is still unacknowledged.
//!
//! ```text
//!            handle_entry        Want            poll_job        handle_read      Landed…        Done
//!   scanned ────────────▶ asked ─────▶ wanted ─────────▶ reading ──────────▶ sent ───────▶ landed ─────▶ gone
//!                           │                     ▲                            │
//!                           └── Done (equal, …)   └──── stream lost, Repair ───┘
//! ```
//!
//! A file that changed while it was read goes back to "asked" with its new state, at most
//! [`RESTARTS_PER_FILE_MAX`] times. The destination may have all of the old state by then and keep it: what
//! it reports as placed counts, whatever the source has come to think of the file.

mod jobs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::control::{Arrived, FileEnd, Outcome, ToDestination, ToSource, Want, Wanted, cut};
use crate::limits::{
    DISKS_MAX, ENTRY_BYTES_MAX, LOSSES_PER_PARCEL_MAX, OUTSTANDING_ENTRIES_MAX, OUTSTANDING_ENTRY_BYTES_MAX,
    PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, REPAIRS_PER_PARCEL_MAX, RESTARTS_PER_FILE_MAX,
};
use crate::{ChunkSet, Entry, EntryKind};

use jobs::Lane;
pub use jobs::{Item, Job, Room};

/// Parcels of a pipe that are read but not landed; the runtime keeps their bytes, for they cannot be read again.
pub const STREAM_PARCELS_MAX: u64 = 16;

/// Entries of the first page; each page after it may have twice as many. All of the first one travels in a new connection's
/// first round trip, so that there is something to read and send after it: as long as the last ones it would take three.
const FIRST_PAGE_ENTRIES: usize = 64;

/// What the source role is set up with.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Files of up to this many bytes (and of no more than a chunk) travel whole, in batches.
    pub small_max: u32,
    /// Chunks that the destination can put in order, if it is a pipe.
    pub reorder_chunks: Option<u32>,
    /// No content is sent.
    pub dry_run: bool,
}

/// What came of reading one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Read, and the file is still in the state of the manifest.
    Whole,
    /// A pipe ended: its size in bytes.
    EndOfStream(u64),
    /// The file has changed: its new entry.
    Changed(Box<Entry>),
    /// It cannot be read; the reason for the user.
    Failed(String),
}

/// What the user may hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Index of the entry.
    pub index: u64,
    /// The entry.
    pub entry: Entry,
    /// What came of it.
    pub outcome: Outcome,
    /// True if the outcome is that the source changed too often.
    pub changed: bool,
}

/// The destination does not keep to the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// It speaks of an entry that it was not told of, or that is done.
    #[error("the destination speaks of entry {0}, which is not outstanding")]
    Entry(u64),
    /// It wants something of an entry that cannot be wanted.
    #[error("the destination wants entry {0}, which has no content or was asked for already")]
    Want(u64),
    /// It wants something on a disk whose number is too large.
    #[error("the destination speaks of disk {0}, and there are at most {DISKS_MAX}")]
    Disk(u8),
}

struct File {
    entry: Entry,
    generation: u8,
    /// Number of the disk that it is read from.
    lane: u8,
    /// Number of the disk that it goes to, once the destination wants it.
    disk: u8,
    /// Chunks that are still to be read, once the destination wants the file.
    todo: Option<ChunkSet>,
    /// A comparison was asked for and has not come back.
    comparing: bool,
    /// Items given to readers and not yet back.
    reading: u32,
    /// Size of a pipe, once its end was read.
    stream_size: Option<u64>,
    end_sent: bool,
    /// How it ends, once it is given up.
    failed: Option<FileEnd>,
    /// The state before a restart, until the destination wants the new one: it may have the old one whole.
    before: Option<Box<Entry>>,
    /// What of the entry could not be carried.
    lacks: Option<String>,
}

struct Parcel {
    items: Vec<Item>,
    /// What of them the destination keeps from a stream that was lost: of a chunk bytes, of a batch files.
    kept: u32,
    lane: u8,
    disk: u8,
    stream: Option<u16>,
    batch: bool,
    repairs: u8,
    /// Streams that it was lost with.
    losses: u8,
    /// It stands in the queue of what is read again.
    queued: bool,
}

/// The source role of one session.
pub struct Source {
    config: Config,
    next_index: u64,
    next_parcel: u64,
    files: BTreeMap<u64, File>,
    outstanding_bytes: usize,
    /// Bytes of small files of which the destination has not said yet whether it wants them.
    asked_bytes: u64,
    /// Bytes of small files that went into batches.
    batched_bytes: u64,
    page: Vec<Entry>,
    page_bytes: usize,
    /// Entries at which the page is sent.
    page_entries: usize,
    outbox: VecDeque<ToDestination>,
    /// By number, as far as there are entries on them.
    lanes: Vec<Lane>,
    /// The lane that is asked first.
    next_lane: usize,
    parcels: BTreeMap<u64, Parcel>,
    /// How many of them go to each disk of the destination.
    under_way: [usize; DISKS_MAX as usize],
    /// How many may, of each.
    window: usize,
    finished: VecDeque<Finished>,
    scan_done: bool,
}

impl Source {
    /// A source that has told nothing yet.
    ///
    /// # Panics
    /// If chunks have no size.
    #[must_use]
    pub fn new(config: Config) -> Source {
        assert!(config.chunk_size > 0, "chunks have a size");
        let small_max = config.small_max.min(config.chunk_size);
        Source {
            config: Config { small_max, ..config },
            next_index: 0,
            next_parcel: 0,
            files: BTreeMap::new(),
            outstanding_bytes: 0,
            asked_bytes: 0,
            batched_bytes: 0,
            page: Vec::new(),
            page_bytes: 0,
            page_entries: FIRST_PAGE_ENTRIES,
            outbox: VecDeque::new(),
            lanes: Vec::new(),
            next_lane: 0,
            parcels: BTreeMap::new(),
            under_way: [0; DISKS_MAX as usize],
            window: usize::MAX,
            finished: VecDeque::new(),
            scan_done: false,
        }
    }

    /// True while more entries may be announced.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.files.len() < OUTSTANDING_ENTRIES_MAX && self.outstanding_bytes < OUTSTANDING_ENTRY_BYTES_MAX
    }

    /// Announces one entry; gives its index. The caller asks [`Source::has_room`] before. An entry larger than
    /// [`ENTRY_BYTES_MAX`] goes without its extended attributes and is reported as failed in the end.
    ///
    /// What has content is read in its `lane`, that of the disk it is on; numbers from [`DISKS_MAX`] on share those
    /// below.
    pub fn handle_entry(&mut self, mut entry: Entry, lane: u8) -> u64 {
        let lane = lane % DISKS_MAX;
        let lanes = self.lanes.len().max(usize::from(lane) + 1);
        self.lanes.resize_with(lanes, Lane::default);
        let lacks = trim(&mut entry);
        let index = self.next_index;
        self.next_index += 1;
        let weight = entry.weight();
        self.outstanding_bytes += weight;
        self.page_bytes += weight;
        self.page.push(entry.clone());
        let file = File {
            entry,
            generation: 0,
            lane,
            disk: 0,
            todo: None,
            comparing: false,
            reading: 0,
            stream_size: None,
            end_sent: false,
            failed: None,
            before: None,
            lacks,
        };
        self.asked_bytes += asked(&self.config, &file);
        self.files.insert(index, file);
        if self.page.len() >= self.page_entries || self.page_bytes >= PAGE_BYTES_MAX {
            self.page_entries = (2 * self.page_entries).min(PAGE_ENTRIES_MAX);
            self.flush();
        }
        index
    }

    /// All entries of a directory were announced; `complete` if it could be read whole.
    pub fn handle_listed(&mut self, dir: u64, complete: bool) {
        self.flush();
        self.outbox.push_back(ToDestination::Listed { dir, complete });
    }

    /// The last entry was announced.
    pub fn handle_scan_end(&mut self) {
        self.flush();
        self.scan_done = true;
        self.outbox.push_back(ToDestination::ScanDone { entries: self.next_index });
    }

    /// Sends what there is of a page, so that the first files need not wait for a slow scan.
    pub fn flush(&mut self) {
        if !self.page.is_empty() {
            let first = self.told();
            let entries = std::mem::take(&mut self.page);
            self.page_bytes = 0;
            self.outbox.push_back(ToDestination::Page { first, entries });
        }
    }

    /// The first index that the destination was not told of.
    fn told(&self) -> u64 {
        self.next_index - self.page.len() as u64
    }

    /// Takes a message of the destination.
    ///
    /// # Errors
    /// When it speaks of what cannot be.
    pub fn handle_message(&mut self, message: ToSource) -> Result<(), ProtocolError> {
        match message {
            ToSource::Wants(wants) => wants.into_iter().try_for_each(|(index, want)| self.wanted(index, want)),
            ToSource::Landed(parcels) => {
                // A parcel that was sent twice lands twice; the second is of no interest.
                parcels.into_iter().for_each(|parcel| _ = self.forget(parcel));
                Ok(())
            }
            ToSource::Repair(parcel) => {
                self.repair(parcel);
                Ok(())
            }
            ToSource::Window(parcels) => {
                // With none the copy would stand still.
                self.window = parcels.max(1) as usize;
                Ok(())
            }
            // For the user only; the runtime tells it.
            ToSource::WouldDelete(_) | ToSource::Warning(_) => Ok(()),
            ToSource::Done(done) => done.into_iter().try_for_each(|(index, outcome)| self.done(index, outcome)),
        }
    }

    fn wanted(&mut self, index: u64, want: Want) -> Result<(), ProtocolError> {
        let told = self.told();
        let Want { disk, what } = want;
        if disk >= DISKS_MAX {
            return Err(ProtocolError::Disk(disk));
        }
        let file = self.files.get_mut(&index).filter(|_| index < told).ok_or(ProtocolError::Entry(index))?;
        if file.failed.is_some() {
            // It was given up meanwhile; the destination hears of that by itself.
            return Ok(());
        }
        if file.todo.is_some() {
            return Err(ProtocolError::Want(index));
        }
        let size = match &file.entry.kind {
            EntryKind::File(identity) => identity.size,
            EntryKind::Stream if what == Wanted::All => u64::MAX,
            _ => return Err(ProtocolError::Want(index)),
        };
        let count = ChunkSet::count_of(size, self.config.chunk_size);
        self.asked_bytes -= asked(&self.config, file);
        file.before = None;
        file.disk = disk;
        file.todo = Some(match &what {
            Wanted::Rest { have } => have.missing(count),
            _ => ChunkSet::full(count),
        });
        if let Wanted::IfDiffers(digest) = what {
            file.comparing = true;
            self.lanes[usize::from(file.lane)].compare.push_back((index, digest));
        } else {
            self.enqueue(index);
        }
        Ok(())
    }

    fn repair(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.repairs += 1;
        parcel.kept = 0;
        if parcel.repairs <= REPAIRS_PER_PARCEL_MAX {
            return self.send_again(id);
        }
        let why = format!("arrived corrupt {} times", u32::from(REPAIRS_PER_PARCEL_MAX) + 1);
        self.give_up_parcel(id, &FileEnd::Corrupt { why });
    }

    fn lost(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.losses += 1;
        if parcel.losses <= LOSSES_PER_PARCEL_MAX {
            return self.send_again(id);
        }
        let times = u32::from(LOSSES_PER_PARCEL_MAX) + 1;
        let why = format!("a part of it was lost with its stream {times} times: the path cuts or damages it");
        self.give_up_parcel(id, &FileEnd::Failed { why });
    }

    fn give_up_parcel(&mut self, id: u64, end: &FileEnd) {
        let parcel = self.forget(id).expect("just seen");
        for item in parcel.items {
            // What started again since is another matter.
            if self.files.get(&item.index).is_some_and(|f| f.generation == item.generation) {
                self.give_up(item.index, end.clone());
            }
        }
    }

    /// A parcel has landed, or there is nothing left in it.
    fn forget(&mut self, id: u64) -> Option<Parcel> {
        let parcel = self.parcels.remove(&id)?;
        self.under_way[usize::from(parcel.disk)] -= 1;
        Some(parcel)
    }

    fn send_again(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.stream = None;
        if !parcel.queued {
            parcel.queued = true;
            self.lanes[usize::from(parcel.lane)].again.push_back(id);
        }
    }

    fn done(&mut self, index: u64, outcome: Outcome) -> Result<(), ProtocolError> {
        if index >= self.told() {
            return Err(ProtocolError::Entry(index));
        }
        let file = self.files.remove(&index).ok_or(ProtocolError::Entry(index))?;
        self.outstanding_bytes -= file.entry.weight();
        self.asked_bytes -= asked(&self.config, &file);
        // The source knows better why a file failed, but not whether it did: the destination may have had all of
        // it before the source found that it can be read no more.
        let given_up = file.failed.filter(|_| outcome.is_failure());
        let changed = matches!(given_up, Some(FileEnd::Changed { .. }));
        let outcome = match (given_up.and_then(|end| end.given_up()), file.lacks) {
            (Some(own), _) => own,
            (None, Some(lacks)) if matches!(outcome, Outcome::Placed | Outcome::Equal) => Outcome::Failed(lacks),
            (None, _) => outcome,
        };
        let entry = match file.before {
            Some(before) if outcome == Outcome::Placed => *before,
            _ => file.entry,
        };
        self.finished.push_back(Finished { index, entry, outcome, changed });
        Ok(())
    }

    /// The next thing to tell the destination.
    pub fn poll_message(&mut self) -> Option<ToDestination> {
        self.outbox.pop_front()
    }

    /// The next entry that is finished.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Besides a chunk that was read and is a hole, all others up to but without `end` are holes too: those that are
    /// still to be read are told instead. Call it before [`Source::handle_read`] of that chunk; gives their bytes.
    pub fn handle_hole(&mut self, item: Item, end: u64) -> u64 {
        // What puts chunks in order for a pipe waits for each.
        if self.config.reorder_chunks.is_some() {
            return 0;
        }
        let current = |f: &&mut File| f.generation == item.generation && f.failed.is_none();
        let Some(file) = self.files.get_mut(&item.index).filter(current) else { return 0 };
        let Some((todo, size)) = file.todo.as_mut().zip(file.entry.size()) else { return 0 };
        let chunks = todo.take_range(item.offset / u64::from(self.config.chunk_size)..end);
        if chunks.is_empty() {
            return 0;
        }
        let bytes = chunks.bytes(size, self.config.chunk_size);
        self.outbox.push_back(ToDestination::Holes { index: item.index, chunks });
        bytes
    }

    /// An item of a parcel was read. Gives true if it is to be sent; else the parcel goes without it, and a
    /// parcel without items is not sent. Each item of each job of [`Source::poll_job`] comes here once.
    pub fn handle_read(&mut self, parcel: u64, item: Item, read: Read) -> bool {
        let keep = self.read(parcel, item, read);
        if !keep && let Some(p) = self.parcels.get_mut(&parcel) {
            let was_rest = p.kept > 0;
            p.retain(|i| (i.index, i.generation) != (item.index, item.generation));
            if p.items.is_empty() {
                self.forget(parcel);
            } else if was_rest && p.kept == 0 {
                // There is no rest any more that could complete what is kept.
                self.send_again(parcel);
            }
        }
        keep
    }

    fn read(&mut self, parcel: u64, item: Item, read: Read) -> bool {
        let landed = !self.parcels.contains_key(&parcel);
        let Some(file) = self.files.get_mut(&item.index).filter(|f| f.generation == item.generation) else {
            return false;
        };
        debug_assert!(file.reading > 0, "an item comes back once");
        file.reading = file.reading.saturating_sub(1);
        if file.failed.is_some() {
            return false;
        }
        // The end of a file in a batch travels with its data.
        let small = is_small(&self.config, &file.entry);
        match read {
            // It was read again for nothing: it had landed before its stream was lost.
            _ if landed => {
                if !small {
                    self.end_of(item.index);
                }
                false
            }
            Read::Whole => {
                if !small {
                    self.end_of(item.index);
                }
                true
            }
            Read::EndOfStream(size) => {
                file.todo = Some(ChunkSet::new());
                file.stream_size = Some(size);
                self.end_of(item.index);
                // Reads that were begun beyond the end bring nothing.
                item.offset < size || item.offset == 0
            }
            Read::Changed(entry) => {
                self.restart(item.index, *entry);
                false
            }
            Read::Failed(why) => {
                self.fail(item.index, why);
                false
            }
        }
    }

    /// Tells the end of a file if all of it was read.
    fn end_of(&mut self, index: u64) {
        let Some(file) = self.files.get_mut(&index) else { return };
        let read = file.reading == 0 && file.todo.as_ref().is_some_and(ChunkSet::is_empty);
        if read
            && !file.end_sent
            && let Some(size) = file.stream_size.or(file.entry.size())
        {
            file.end_sent = true;
            self.outbox.push_back(ToDestination::FileEnd { index, end: FileEnd::Whole { size } });
        }
    }

    fn restart(&mut self, index: u64, mut entry: Entry) {
        let Some(file) = self.files.get_mut(&index) else { return };
        entry.path = file.entry.path.clone();
        let lacks = trim(&mut entry);
        let bytes = self.outstanding_bytes - file.entry.weight() + entry.weight();
        let refused = if !matches!((&file.entry.kind, &entry.kind), (EntryKind::File(_), EntryKind::File(_))) {
            Some("is no longer the file that it was".to_owned())
        } else if file.generation >= RESTARTS_PER_FILE_MAX {
            Some(format!("changed while it was read, {} times", u32::from(RESTARTS_PER_FILE_MAX) + 1))
        } else if bytes >= 2 * OUTSTANDING_ENTRY_BYTES_MAX {
            Some("changed while it was read, and has too many attributes now".to_owned())
        } else {
            None
        };
        if let Some(why) = refused {
            return self.give_up(index, FileEnd::Changed { why });
        }
        self.asked_bytes -= asked(&self.config, file);
        file.generation += 1;
        file.todo = None;
        file.reading = 0;
        file.end_sent = false;
        file.lacks = lacks;
        let before = std::mem::replace(&mut file.entry, entry.clone());
        file.before = Some(Box::new(before));
        self.asked_bytes += asked(&self.config, file);
        self.outstanding_bytes = bytes;
        self.outbox.push_back(ToDestination::Restart { index, entry });
    }

    /// A file or pipe cannot be sent; it stays outstanding until the destination has dropped it.
    pub fn fail(&mut self, index: u64, why: String) {
        self.give_up(index, FileEnd::Failed { why: cut(why) });
    }

    /// A filter of this end leaves a file or pipe out; it stays outstanding until the destination knows.
    pub fn leave_out(&mut self, index: u64) {
        self.give_up(index, FileEnd::LeftOut);
    }

    /// A file that the destination wants was changed before it was read, by what makes it ready to be read. Its
    /// want is not to be handled: another one follows. Counts as one of its restarts.
    pub fn handle_changed(&mut self, index: u64, entry: Entry) {
        if self.files.get(&index).is_some_and(|f| f.failed.is_none()) {
            self.restart(index, entry);
        }
    }

    fn give_up(&mut self, index: u64, end: FileEnd) {
        let Some(file) = self.files.get_mut(&index) else { return };
        let content = matches!(file.entry.kind, EntryKind::File(_) | EntryKind::Stream);
        if content && file.failed.is_none() {
            self.asked_bytes -= asked(&self.config, file);
            file.failed = Some(end.clone());
            file.todo = Some(ChunkSet::new());
            file.comparing = false;
            if index >= self.told() {
                self.flush();
            }
            self.outbox.push_back(ToDestination::FileEnd { index, end });
        }
    }

    /// A file was compared with the destination's digest. If it changed meanwhile, say "not the same": reading
    /// it will tell.
    pub fn handle_compared(&mut self, index: u64, same: Result<bool, String>) {
        let Some(file) = self.files.get_mut(&index).filter(|f| f.comparing) else { return };
        file.comparing = false;
        match same {
            Ok(same) if same || self.config.dry_run => {
                let size = file.entry.size().unwrap_or(0);
                file.end_sent = true;
                file.todo = Some(ChunkSet::new());
                // In a dry run nothing is sent of what differs.
                let end = if same { FileEnd::Same } else { FileEnd::Whole { size } };
                self.outbox.push_back(ToDestination::FileEnd { index, end });
            }
            Ok(_) => self.enqueue(index),
            Err(why) => self.fail(index, why),
        }
    }

    /// A parcel is being sent on a stream. What happens to streams is told in the order in which it happens.
    pub fn handle_sent(&mut self, parcel: u64, stream: u16) {
        if let Some(parcel) = self.parcels.get_mut(&parcel) {
            parcel.stream = Some(stream);
        }
    }

    /// A stream has ended at both ends: what it carried, has not landed and has not `arrived` is read and sent again. What
    /// has arrived will land, or is asked for again. Of the parcel that was under way only the rest is sent, if what
    /// came of it is kept, and it can be read again from there.
    pub fn handle_stream_ended(&mut self, stream: u16, arrived: &Arrived) {
        for id in &arrived.whole {
            if let Some(parcel) = self.parcels.get_mut(id).filter(|p| p.stream == Some(stream)) {
                parcel.stream = None;
            }
        }
        let lost: Vec<u64> = self.parcels.iter().filter(|(_, p)| p.stream == Some(stream)).map(|(&id, _)| id).collect();
        for id in lost {
            let parcel = self.parcels.get_mut(&id).expect("just seen");
            parcel.kept = 0;
            let is_pipe = |item: &Item| self.files.get(&item.index).is_some_and(|f| f.entry.kind == EntryKind::Stream);
            if let Some(begun) = arrived.begun.filter(|begun| begun.parcel == id)
                && !parcel.items.iter().any(is_pipe)
            {
                parcel.keep(begun);
            }
            self.lost(id);
        }
    }

    /// True when the whole manifest is known and all there is to be sent of it, as far as it was asked for, is on streams. Looks at every
    /// parcel that has not landed.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.scan_done && self.parcels.values().all(|parcel| parcel.stream.is_some())
    }

    /// Parcels that are read or sent and have not landed.
    #[must_use]
    pub fn unlanded(&self) -> usize {
        self.parcels.len()
    }

    /// Entries that are not done.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.files.len()
    }

    /// The entry of an index that is not done.
    #[must_use]
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.files.get(&index).map(|f| &f.entry)
    }

    /// True when every entry is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.scan_done && self.files.is_empty() && self.outbox.is_empty()
    }

    /// Parcels that are read or sent and have not landed, by number; for tests.
    #[must_use]
    pub fn parcel_ids(&self) -> BTreeSet<u64> {
        self.parcels.keys().copied().collect()
    }
}

fn is_small(config: &Config, entry: &Entry) -> bool {
    entry.size().is_some_and(|size| size <= u64::from(config.small_max))
}

/// Bytes of a small file that the destination has not said anything about; else none.
fn asked(config: &Config, file: &File) -> u64 {
    if file.todo.is_none() && is_small(config, &file.entry) { file.entry.size().unwrap_or(0) } else { 0 }
}

/// Makes an entry fit for a page; says what it lacks then.
fn trim(entry: &mut Entry) -> Option<String> {
    let weight = entry.weight();
    if weight <= ENTRY_BYTES_MAX {
        return None;
    }
    entry.xattrs.clear();
    Some(format!(
        "its extended attributes take {weight} bytes, more than the {ENTRY_BYTES_MAX} that are carried; it is without them"
    ))
}

#[cfg(test)]
mod tests;
