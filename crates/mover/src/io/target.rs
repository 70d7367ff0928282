//! Files at the destination that are being received.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use proto::{ChunkSet, Entry, RelPath};
use sys::file::Cache;

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
    /// Number in the journal, for a file sent in chunks.
    pub slot: Option<u64>,
    /// The open temporary file, for a file sent in chunks.
    pub file: OnceLock<BigFile>,
    /// It was discarded: writers leave it alone.
    pub dead: AtomicBool,
    /// A writer has taken it (small files).
    pub taken: AtomicBool,
    /// Chunks that a writer has taken. A parcel that arrives twice is written once: a second write could end when
    /// the file has its name already.
    pub taken_chunks: Mutex<ChunkSet>,
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
    /// What becomes of the page cache behind whole chunks that go through it; `Stays` also where that is cleared by hand.
    pub cache: Cache,
    /// The device it is on.
    pub device: u64,
    /// It is one of those that are open.
    pub counted: Counted,
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
            slot: None,
            file: OnceLock::new(),
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
