//! Commits: what is written becomes durable, then gets its name, then is called finished.
//!
//! One thread for each disk gathers what is whole. A batch is bounded in files, bytes and time. It is made
//! durable with one `syncfs` (a few big files: with `fsync` each), then renamed, then the directories are
//! made durable; only then is it told. The same turn makes the chunks of unfinished big files durable and
//! writes them to the journal, so a resume never believes more than the disk holds.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use proto::control::{Outcome, Overwrite};
use proto::journal::Record;
use proto::{ChunkSet, Entry, RelPath};
use sys::file::{Dir, fchmod, fdatasync, fsync, punch_hole, syncfs, truncate};
use tokio::sync::mpsc;

use super::busy::LongBusy;
use super::decide::remove_if_there;
use super::delete::Deleter;
use super::describe::{attributes, open_to_describe};
use super::epochs::Epochs;
use super::journal::JournalFile;
use super::place::Place;
use super::say;
use super::target::{Target, Targets};

/// Files in one batch.
pub const BATCH_FILES: usize = 8192;
/// Bytes in one batch.
pub const BATCH_BYTES: u64 = 1 << 30;
/// Age of the oldest file of a batch.
pub const BATCH_AGE: Duration = Duration::from_secs(1);
/// So few files are synced one by one, more of them with one `syncfs`.
const FSYNC_FILES_MAX: usize = 4;
/// A checkpoint of unfinished files is taken at most every this many times its own duration.
const CHECKPOINT_SHARE: u32 = 10;

/// Work for the committer.
#[derive(Debug)]
pub enum Commit {
    /// A file is whole.
    Publish {
        /// Its index.
        index: u64,
        /// Size in bytes.
        size: u64,
        /// Chunks that nothing was written to.
        holes: ChunkSet,
    },
    /// Chunks of a file are holes: the space that was reserved for them is given back, for others may need it.
    Punch {
        /// The file.
        target: Arc<Target>,
        /// The chunks.
        holes: ChunkSet,
    },
    /// A file at the destination is equal: only its attributes are set.
    Refresh {
        /// Its index.
        index: u64,
    },
    /// A chunk of a big file is written.
    Chunk {
        /// Index of the file.
        index: u64,
        /// The chunk.
        chunk: u64,
    },
    /// Everything in a directory is in place.
    CloseDir {
        /// Its index.
        index: u64,
        /// The directory.
        entry: Box<Entry>,
    },
    /// Remove what is not among the names.
    Delete {
        /// The directory.
        dir: RelPath,
        /// What stays.
        keep: BTreeSet<Vec<u8>>,
    },
    /// Nothing more will come: do not wait for a batch to fill.
    Flush,
}

/// News of the committer.
#[derive(Debug)]
pub enum CommitEvent {
    /// A file is in place and durable, or will not be.
    Published {
        /// Its index.
        index: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// Entries were deleted.
    Deleted {
        /// Paths, for the report.
        paths: Vec<RelPath>,
    },
    /// Something that cannot be overcome.
    Fatal(String),
    /// Something to tell the user.
    Warning(String),
}

/// What the committer of a disk works with.
#[derive(Clone)]
pub struct Committer {
    /// The destination.
    pub place: Arc<Place>,
    /// Files that are received.
    pub targets: Arc<Targets>,
    /// The journal.
    pub journal: Arc<Mutex<JournalFile>>,
    /// Replace what is there?
    pub overwrite: Overwrite,
    /// Owners, attributes too.
    pub preserve_all: bool,
    /// Deletes what the source does not have.
    pub deleter: Deleter,
    /// The name of the one entry, if it is renamed.
    pub single_name: Option<Vec<u8>>,
    /// Numbers of commits.
    pub epochs: Arc<Epochs>,
    /// Number of the disk.
    pub lane: u8,
    /// News for the session.
    pub events: mpsc::Sender<CommitEvent>,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// How busy it is.
    pub busy: Arc<LongBusy>,
}

#[derive(Default)]
struct Batch {
    files: Vec<(u64, u64, ChunkSet)>,
    bytes: u64,
    since: Option<Instant>,
    /// Unfinished big files: chunks written since the last checkpoint.
    chunks: BTreeMap<u64, ChunkSet>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.chunks.is_empty()
    }
}

impl Committer {
    /// Commits until the queue is closed, then once more.
    pub fn run(self, queue: &Receiver<Commit>) {
        let mut batch = Batch::default();
        let mut next_checkpoint = Instant::now() + BATCH_AGE;
        let mut open = true;
        while open {
            let now = Instant::now();
            let due = batch.since.map(|s| s + BATCH_AGE);
            let check = (!batch.chunks.is_empty()).then_some(next_checkpoint);
            let until = [due, check].into_iter().flatten().min().unwrap_or(now + BATCH_AGE);
            let mut flush = false;
            match queue.recv_timeout(until.saturating_duration_since(now)) {
                Ok(work) => flush = self.take(work, &mut batch),
                Err(RecvTimeoutError::Timeout) if batch.is_empty() => self.epochs.rest(self.lane),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => open = false,
            }
            let now = Instant::now();
            let full = batch.files.len() >= BATCH_FILES || batch.bytes >= BATCH_BYTES;
            let old = batch.since.is_some_and(|s| now >= s + BATCH_AGE);
            let idle = flush && queue.is_empty();
            let check = !batch.chunks.is_empty() && now >= next_checkpoint;
            if full || old || idle || check || !open {
                let begin = Instant::now();
                if let Err(error) = self.commit(std::mem::take(&mut batch)) {
                    self.tell(CommitEvent::Fatal(say("making files durable", &error)));
                    return;
                }
                next_checkpoint = Instant::now() + (begin.elapsed() * CHECKPOINT_SHARE).max(BATCH_AGE);
            }
        }
    }

    /// Takes one piece of work into the batch; true if the batch should not wait to fill.
    fn take(&self, work: Commit, batch: &mut Batch) -> bool {
        match work {
            Commit::Publish { index, size, holes } => {
                batch.files.push((index, size, holes));
                batch.bytes += size;
                batch.since.get_or_insert_with(Instant::now);
            }
            Commit::Chunk { index, chunk } => {
                batch.chunks.entry(index).or_default().insert(chunk);
            }
            Commit::Punch { target, holes } => {
                // It is done again, and judged, when the file is complete.
                let _ = self.punch(&target, target.entry.size().unwrap_or(0), &holes);
            }
            Commit::Refresh { index } => self.refresh(index),
            Commit::CloseDir { index, entry } => self.close_dir(index, &entry),
            Commit::Delete { dir, keep } => self.delete(&dir, &keep),
            Commit::Flush => return true,
        }
        false
    }

    fn tell(&self, event: CommitEvent) {
        let _ = self.events.blocking_send(event);
    }

    fn commit(&self, batch: Batch) -> io::Result<()> {
        let _busy = self.busy.begin();
        let epoch = self.epochs.begin();
        let mut files = Vec::with_capacity(batch.files.len());
        for (index, size, holes) in batch.files {
            let Some(target) = self.targets.current(index) else { continue };
            match self.complete(&target, size, &holes) {
                Ok(()) => files.push((target, size)),
                Err(error) => {
                    self.discard(&target);
                    self.published(index, Outcome::Failed(say(&format!("finishing {}", target.entry.path), &error)));
                }
            }
        }
        let unfinished: Vec<_> = batch
            .chunks
            .into_iter()
            .filter_map(|(index, chunks)| Some((self.targets.current(index)?, chunks)))
            .filter(|(target, _)| target.slot().is_some_and(|s| s != u64::MAX))
            .collect();
        self.make_durable(&files, &unfinished)?;
        let placed = self.rename(files);
        self.record(epoch, &placed, unfinished)?;
        for (target, outcome) in placed {
            self.published(target.index, outcome);
        }
        Ok(())
    }

    /// Takes away what was received of a file that will not have its name.
    fn discard(&self, target: &Target) {
        if let Err(error) = self.place.dir(&target.parent).and_then(|dir| remove_if_there(&dir, &target.temp)) {
            tracing::debug!(%error, path = %target.entry.path, "removing what was received of a failed file");
        }
    }

    /// Holes, length and attributes of a file that is written.
    fn complete(&self, target: &Target, size: u64, holes: &ChunkSet) -> io::Result<()> {
        if target.big.is_some() {
            // One that is nothing but holes has no file yet.
            let file = target.open(&ChunkSet::new())?;
            self.punch(target, size, holes)?;
            truncate(&file.cached, size)?;
            fchmod(&file.cached, target.entry.mode)?;
            attributes(&file.cached, &target.entry, self.place.preserves(self.preserve_all))?;
        }
        Ok(())
    }

    /// Makes chunks of a file holes: their space was reserved when the file was opened.
    fn punch(&self, target: &Target, size: u64, holes: &ChunkSet) -> io::Result<()> {
        let Some(file) = target.file() else { return Ok(()) };
        holes.ranges().iter().try_for_each(|range| {
            let [begin, end] = [range.start, range.end].map(|chunk| (chunk * self.chunk_size).min(size));
            punch_hole(&file.cached, begin, end - begin).map(|_| ())
        })
    }

    fn make_durable(&self, files: &[(Arc<Target>, u64)], unfinished: &[(Arc<Target>, ChunkSet)]) -> io::Result<()> {
        let all_big = files.iter().all(|(t, _)| t.file().is_some());
        if all_big && files.len() + unfinished.len() <= FSYNC_FILES_MAX {
            for (target, _) in files {
                fsync(&target.file().expect("all are big").cached)?;
            }
            for (target, _) in unfinished {
                fdatasync(&target.file().expect("sent in chunks").cached)?;
            }
            return Ok(());
        }
        // One sync per file system: the destination may hold mount points.
        let mut synced = BTreeSet::new();
        for parent in files
            .iter()
            .map(|(t, _)| t)
            .chain(unfinished.iter().map(|(t, _)| t))
            .map(|t| &t.parent)
            .collect::<BTreeSet<_>>()
        {
            let dir = self.place.dir(parent)?;
            if synced.insert(dir.stat(b"")?.dev) {
                syncfs(dir.as_ref())?;
            }
        }
        Ok(())
    }

    fn rename(&self, files: Vec<(Arc<Target>, u64)>) -> Vec<(Arc<Target>, Outcome)> {
        let mut dirs: BTreeMap<RelPath, Arc<Dir>> = BTreeMap::new();
        let mut placed = Vec::with_capacity(files.len());
        for (target, _) in files {
            let outcome = match self.rename_one(&target, &mut dirs) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.discard(&target);
                    Outcome::Failed(say(&format!("renaming {}", target.entry.path), &error))
                }
            };
            placed.push((target, outcome));
        }
        let mut failed = BTreeMap::new();
        for (path, dir) in &dirs {
            if let Err(error) = dir.sync() {
                failed.insert(path.clone(), say(&format!("making directory {path} durable"), &error));
            }
        }
        for (target, outcome) in &mut placed {
            if let Some(why) = failed.get(&target.parent) {
                *outcome = Outcome::Failed(why.clone());
            }
        }
        placed
    }

    fn rename_one(&self, target: &Target, dirs: &mut BTreeMap<RelPath, Arc<Dir>>) -> io::Result<Outcome> {
        let dir = match dirs.get(&target.parent) {
            Some(dir) => dir.clone(),
            None => {
                let dir = self.place.dir(&target.parent)?;
                dirs.insert(target.parent.clone(), dir.clone());
                dir
            }
        };
        let name = self.single_name.as_deref().unwrap_or(target.entry.path.name());
        if self.overwrite == Overwrite::Never {
            match dir.rename_noreplace(&target.temp, name) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    let _ = dir.unlink(&target.temp);
                    return Ok(Outcome::Kept);
                }
                other => other?,
            }
        } else {
            dir.rename(&target.temp, name)?;
        }
        Ok(Outcome::Placed)
    }

    /// Tells the journal what is durable now.
    fn record(
        &self,
        epoch: u64,
        placed: &[(Arc<Target>, Outcome)],
        unfinished: Vec<(Arc<Target>, ChunkSet)>,
    ) -> io::Result<()> {
        let mut journal = self.journal.lock().expect("no panic under the lock");
        let checkpoint = !unfinished.is_empty();
        for (target, chunks) in unfinished {
            journal.push(Record::Chunks { slot: target.slot().expect("sent in chunks"), chunks });
        }
        for (target, outcome) in placed {
            if let (Some(slot), Outcome::Placed | Outcome::Kept) = (target.slot(), outcome) {
                journal.push(Record::Close { slot });
            }
        }
        // Files of this epoch that are still being written belong to the next one in all but name: the epoch
        // before this one is settled for sure.
        journal.push(Record::Settled { epoch: self.epochs.settled(self.lane, epoch) });
        journal.write(checkpoint)
    }

    fn published(&self, index: u64, outcome: Outcome) {
        self.targets.remove(index);
        self.tell(CommitEvent::Published { index, outcome });
    }

    fn refresh(&self, index: u64) {
        let Some(target) = self.targets.current(index) else { return };
        let set = || -> io::Result<()> {
            let dir = self.place.dir(&target.parent)?;
            let name = self.single_name.as_deref().unwrap_or(target.entry.path.name());
            let file = open_to_describe(&dir, name)?;
            fchmod(&file, target.entry.mode)?;
            attributes(&file, &target.entry, self.place.preserves(self.preserve_all))?;
            remove_if_there(&dir, &target.temp)
        };
        let outcome = match set() {
            Ok(()) => Outcome::Equal,
            Err(error) => Outcome::Failed(say(&format!("setting the attributes of {}", target.entry.path), &error)),
        };
        if let Some(slot) = target.slot() {
            self.journal.lock().expect("no panic under the lock").push(Record::Close { slot });
        }
        self.published(index, outcome);
    }

    fn close_dir(&self, index: u64, entry: &Entry) {
        let set = || -> io::Result<()> {
            let dir = self.place.dir(&entry.path)?;
            attributes(dir.as_ref(), entry, self.place.preserves(self.preserve_all))
        };
        let outcome = match set() {
            Ok(()) => Outcome::Placed,
            Err(error) => Outcome::Failed(say(&format!("setting the attributes of {}", entry.path), &error)),
        };
        self.place.close(&entry.path);
        self.tell(CommitEvent::Published { index, outcome });
    }

    fn delete(&self, dir: &RelPath, keep: &BTreeSet<Vec<u8>>) {
        self.deleter.delete(dir, keep, &self.events);
    }
}
