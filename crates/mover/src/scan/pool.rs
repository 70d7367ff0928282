//! Looking at many names of one directory, several at a time.
//!
//! On a cold cache or over a network each look waits, so helpers look ahead of the walk. What they find is
//! given back in the order of the names.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use sys::file::{Dir, Kind};

use super::look::{Look, look};
use super::names::Listed;

/// Names that are looked at in one go.
const CHUNK_NAMES_MAX: usize = 256;
/// Waking a helper costs some 10 µs, a look on a warm cache 1 to 2: fewer names are not worth it there.
const CHUNK_NAMES_WARM_MIN: usize = 16;
/// A look that takes longer waits for a disk or a server, and helpers are worth waking for every name.
const LOOK_WARM_MAX: Duration = Duration::from_micros(50);
/// Chunks given to each helper ahead of the walk.
const CHUNKS_AHEAD_PER_HELPER: usize = 2;

/// A name in a directory, before it is looked at.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) name: Vec<u8>,
    /// What the listing says that it is.
    pub(super) kind: Option<Kind>,
    /// What the listing says of its number.
    pub(super) ino: u64,
    /// If it comes from a list: what the list says of it.
    pub(super) listed: Option<Listed>,
    /// In a directory that is merged: where it is taken from.
    pub(super) origin: Option<Origin>,
}

/// Where a name of a merged directory is taken from.
#[derive(Debug)]
pub(super) struct Origin {
    /// The source that has it; if it is a directory, all that have it as one, the first first.
    pub(super) sources: Vec<usize>,
    /// If the name is a source itself: where that is, beneath the root.
    pub(super) place: Option<Vec<u8>>,
}

impl Name {
    /// Where it is, beneath the directory that it is looked at in.
    fn rel(&self) -> &[u8] {
        self.origin.as_ref().and_then(|origin| origin.place.as_deref()).unwrap_or(&self.name)
    }
}

/// What was found of each of some names, in order.
pub(super) type Looked = Vec<(Name, io::Result<Look>)>;

/// Looks at the names of one directory after the other.
pub(super) struct Looker {
    preserve_all: bool,
    helpers: usize,
    /// The last looks had to wait.
    slow: bool,
    /// Made at the first directory that is worth it.
    pool: Option<Pool>,
    slice: Option<Slice>,
    ahead: VecDeque<Receiver<Answer>>,
}

/// What was found, and how long one look took on average.
type Answer = (Looked, Duration);

/// Names not yet given to anybody.
struct Slice {
    dir: Dir,
    names: std::vec::IntoIter<Name>,
    chunk: usize,
    by_pool: bool,
}

struct Job {
    dir: Dir,
    names: Vec<Name>,
    preserve_all: bool,
    answer: SyncSender<Answer>,
}

impl Looker {
    pub(super) fn new(helpers: usize, preserve_all: bool) -> Looker {
        Looker { preserve_all, helpers, slow: false, pool: None, slice: None, ahead: VecDeque::new() }
    }

    /// Begins with the names of a directory; those before must have been taken.
    pub(super) fn give(&mut self, dir: Dir, names: Vec<Name>) {
        assert!(self.slice.is_none() && self.ahead.is_empty(), "one slice at a time");
        let chunk_min = if self.slow { 1 } else { CHUNK_NAMES_WARM_MIN };
        let mut by_pool = self.helpers > 0 && names.len() >= 2 * chunk_min;
        if by_pool {
            by_pool = self.pool.get_or_insert_with(|| Pool::new(self.helpers)).is_alive();
        }
        let share = names.len() / (CHUNKS_AHEAD_PER_HELPER * self.helpers.max(1));
        let chunk = if by_pool { share.clamp(chunk_min, CHUNK_NAMES_MAX) } else { CHUNK_NAMES_MAX };
        self.slice = Some(Slice { dir, names: names.into_iter(), chunk, by_pool });
    }

    /// The next few, or `None` when all were taken. Blocks.
    pub(super) fn take(&mut self) -> Option<Looked> {
        let slice = self.slice.as_mut()?;
        let answer = match &self.pool {
            Some(pool) if slice.by_pool => {
                while self.ahead.len() < CHUNKS_AHEAD_PER_HELPER * self.helpers
                    && let Some(names) = slice.next_chunk()
                {
                    let (answer, receiver) = sync_channel(1);
                    pool.send(Job { dir: slice.dir.clone(), names, preserve_all: self.preserve_all, answer });
                    self.ahead.push_back(receiver);
                }
                self.ahead.pop_front().map(|receiver| receiver.recv().expect("a helper answers every job"))
            }
            _ => slice.next_chunk().map(|names| look_at_all(&slice.dir, names, self.preserve_all)),
        };
        let Some((looked, took)) = answer else {
            self.slice = None;
            return None;
        };
        self.slow = took > LOOK_WARM_MAX;
        Some(looked)
    }
}

impl Slice {
    fn next_chunk(&mut self) -> Option<Vec<Name>> {
        let names: Vec<Name> = self.names.by_ref().take(self.chunk).collect();
        (!names.is_empty()).then_some(names)
    }
}

fn look_at_all(dir: &Dir, names: Vec<Name>, preserve_all: bool) -> Answer {
    let begin = Instant::now();
    let look = |name: Name| {
        let found = look(dir, name.rel(), preserve_all);
        (name, found)
    };
    let looked: Looked = names.into_iter().map(look).collect();
    let took = begin.elapsed() / u32::try_from(looked.len().max(1)).unwrap_or(u32::MAX);
    (looked, took)
}

/// Threads that look.
struct Pool {
    /// `None` when it is time to go.
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    fn new(helpers: usize) -> Pool {
        // Never full: the looker keeps no more under way.
        let (jobs, receiver) = sync_channel::<Job>(CHUNKS_AHEAD_PER_HELPER * helpers);
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = (0..helpers).map_while(|_| {
            let receiver = Arc::clone(&receiver);
            let spawned = Builder::new().name("scan-look".to_owned()).spawn(move || help(&receiver));
            // With fewer threads than wished, or none, it goes on more slowly.
            spawned.map_err(|e| tracing::debug!("cannot start a thread that looks at files: {e}")).ok()
        });
        Pool { jobs: Some(jobs), threads: threads.collect() }
    }

    fn is_alive(&self) -> bool {
        !self.threads.is_empty()
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("open until dropped");
        jobs.send(job).expect("helpers live as long as the pool");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A helper that panicked was noticed when its answer did not come.
            let _ = thread.join();
        }
    }
}

fn help(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = match jobs.lock() {
            Ok(jobs) => jobs.recv(),
            Err(_) => return,
        };
        let Ok(Job { dir, names, preserve_all, answer }) = job else { return };
        // Nobody waits for the answer when the walk was given up.
        let _ = answer.send(look_at_all(&dir, names, preserve_all));
    }
}
