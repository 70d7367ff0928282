//! Files at the destination that are being received.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use proto::{ChunkSet, Entry, RelPath};

use super::open::Opener;

/// Shards of the table: readers of different files do not meet.
const SHARDS: usize = 64;

/// Prefix of every temporary name.
pub const TEMP_PREFIX: &[u8] = b".longhaul-";

/// A file that is being received under a temporary name.
#[derive(Debug)]
pub struct Target {
    /// Its index in the manifest.
    pub index: u64,
    /// Its generation.
    pub generation: u8,
    /// The entry.
    pub entry: Entry,
    /// The directory that holds it.
    pub parent: RelPath,
    /// Its temporary name, in the same directory.
    pub temp: Vec<u8>,
    /// Number of the disk that it is written to.
    pub lane: u8,
    /// For a file sent in chunks.
    pub big: Option<Big>,
    /// It was discarded: writers leave it alone.
    dead: AtomicBool,
    /// A writer has taken it (small files).
    pub taken: AtomicBool,
    /// Chunks that a writer has taken. A parcel that arrives twice is written once: a second write could end when
    /// the file has its name already.
    pub taken_chunks: Mutex<ChunkSet>,
}

/// What a file sent in chunks has beyond the others.
#[derive(Debug)]
pub struct Big {
    /// Number in the journal.
    pub slot: u64,
    /// Opens its temporary file.
    opener: Arc<Opener>,
    /// The temporary file, once it is open.
    file: OnceLock<BigFile>,
    /// Held while the file is opened, or given up.
    opening: Mutex<()>,
    /// It is one of those that are open, or will be.
    _counted: Counted,
}

impl Big {
    /// A file with this number in the journal; nothing is open yet.
    #[must_use]
    pub fn new(slot: u64, opener: Arc<Opener>) -> Big {
        Big { slot, opener, file: OnceLock::new(), opening: Mutex::default(), _counted: Counted::new() }
    }
}

/// Big files that this process has open to be received, of all sessions.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts one open file while it lives.
#[derive(Debug)]
pub struct Counted(());

impl Counted {
    /// One more.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "what it does is to count")]
    pub fn new() -> Counted {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Counted(())
    }

    /// How many there are.
    #[must_use]
    pub fn open() -> usize {
        OPEN.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open temporary file of a big target.
#[derive(Debug)]
pub struct BigFile {
    /// For whole aligned chunks: direct where the file system can.
    pub aligned: Arc<OwnedFd>,
    /// For everything else: through the page cache.
    pub cached: Arc<OwnedFd>,
    /// True if `aligned` bypasses the page cache.
    pub direct: bool,
    /// The device it is on.
    pub device: u64,
}

impl Target {
    /// What is to be received under the temporary name, on the disk of a lane; nothing of it is open or taken yet.
    #[must_use]
    pub fn new(index: u64, generation: u8, entry: Entry, parent: RelPath, temp: Vec<u8>, lane: u8) -> Target {
        Target {
            index,
            generation,
            entry,
            parent,
            temp,
            lane,
            big: None,
            dead: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            taken_chunks: Mutex::default(),
        }
    }

    /// The temporary name of what is to stand at a path: the same for the same path, so that a later run finds it
    /// or replaces it, and short enough for any directory.
    #[must_use]
    pub fn temp_name(path: &[u8], generation: u8) -> Vec<u8> {
        let mut name = Target::temp_stem(path);
        name.extend_from_slice(generation.to_string().as_bytes());
        name
    }

    /// What the temporary names of a path have in common.
    #[must_use]
    pub fn temp_stem(path: &[u8]) -> Vec<u8> {
        let hash = xxhash_rust::xxh3::xxh3_64(path);
        [TEMP_PREFIX, format!("{hash:016x}.").as_bytes()].concat()
    }

    /// Takes a chunk for writing; false if a writer has it, who tells what comes of it.
    #[must_use]
    pub fn take_chunk(&self, chunk: u64) -> bool {
        self.taken_chunks.lock().expect("no panic under the lock").insert(chunk)
    }

    /// The same for a small file.
    #[must_use]
    pub fn take_whole(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// Number in the journal, for a file sent in chunks.
    #[must_use]
    pub fn slot(&self) -> Option<u64> {
        self.big.as_ref().map(|big| big.slot)
    }

    /// The temporary file, if it is one sent in chunks and open.
    #[must_use]
    pub fn file(&self) -> Option<&BigFile> {
        self.big.as_ref()?.file.get()
    }

    /// The temporary file of one sent in chunks; makes it if nothing of it was received before, or opens the one in which `kept`
    /// chunks of an earlier run are.
    ///
    /// # Errors
    /// When it cannot be made or opened, when it was discarded, or is not sent in chunks.
    pub fn open(&self, kept: &ChunkSet) -> io::Result<&BigFile> {
        let big = self.big.as_ref().ok_or_else(|| io::Error::other("a small file is not received in chunks"))?;
        if let Some(file) = big.file.get() {
            return Ok(file);
        }
        let _alone = big.opening.lock().expect("no panic under the lock");
        if let Some(file) = big.file.get() {
            return Ok(file);
        }
        if self.is_dead() {
            return Err(io::Error::other("the file was discarded"));
        }
        let file = big.opener.open(self, kept)?;
        Ok(big.file.get_or_init(|| file))
    }

    /// Writers leave it alone from now on, and its temporary file is not made any more.
    pub fn kill(&self) {
        let _alone = self.big.as_ref().map(|big| big.opening.lock().expect("no panic under the lock"));
        self.dead.store(true, Ordering::Release);
    }

    /// True once it was discarded.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }
}

/// All targets of a session, by index.
#[derive(Debug)]
pub struct Targets {
    shards: Vec<RwLock<HashMap<u64, Arc<Target>>>>,
}

impl Default for Targets {
    fn default() -> Self {
        Targets { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }
}

impl Targets {
    fn shard(&self, index: u64) -> &RwLock<HashMap<u64, Arc<Target>>> {
        &self.shards[index as usize % SHARDS]
    }

    /// The target of this index and generation.
    #[must_use]
    pub fn get(&self, index: u64, generation: u8) -> Option<Arc<Target>> {
        let found = self.shard(index).read().expect("no panic under the lock").get(&index).cloned();
        found.filter(|t| t.generation == generation && !t.is_dead())
    }

    /// The target of this index, whatever its generation.
    #[must_use]
    pub fn current(&self, index: u64) -> Option<Arc<Target>> {
        self.shard(index).read().expect("no panic under the lock").get(&index).cloned()
    }

    /// Adds a target.
    pub fn insert(&self, target: Arc<Target>) {
        self.shard(target.index).write().expect("no panic under the lock").insert(target.index, target);
    }

    /// Takes a target out.
    pub fn remove(&self, index: u64) -> Option<Arc<Target>> {
        self.shard(index).write().expect("no panic under the lock").remove(&index)
    }
}
