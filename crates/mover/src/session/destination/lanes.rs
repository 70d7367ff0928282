//! The disks of a destination: each has threads of its own that decide, write and commit what goes to it.
//!
//! All that is done in a directory is done on its lane, in order. Which disk a directory is on is seen when it is met,
//! and what is in it follows. The disk of the destination directory itself has number 0; the journal is there too, so
//! that one disk can hold up the others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::control::StorageIo;
use proto::destination::Action;
use proto::{Entry, RelPath};
use tokio::sync::mpsc;

use crate::io::arrivals::Arrivals;
use crate::io::busy::LongBusy;
use crate::io::commit::{Commit, CommitEvent, Committer};
use crate::io::decide::{Decided, Decider};
use crate::io::delete::Deleter;
use crate::io::write;
use crate::request::IoChoice;
use crate::session::disks::Disks;
use crate::session::{io_of_all, storage_io};

/// Threads that write chunks to one disk where io_uring is not to be had.
const PLAIN_WRITERS: usize = 4;
/// Threads that write small files to one disk.
const BATCH_WRITERS: usize = 4;
/// Decisions and commits of one disk waiting; the session's task holds further ones back.
const WORK_MAX: usize = 1 << 17;

/// What a decider is asked.
pub(super) enum Ask {
    /// What is to be done with an entry; it answers.
    Decide(u64, Box<Entry>),
    /// To throw away what has arrived of a file.
    Discard(u64),
    /// To tell what would be deleted in a directory.
    WouldDelete {
        /// The directory.
        dir: RelPath,
        /// What stays.
        keep: BTreeSet<Vec<u8>>,
    },
}

/// What the threads of all disks work with.
pub(super) struct Kit {
    pub(super) decider: Arc<Decider>,
    /// Tells what would be deleted.
    pub(super) deleter: Deleter,
    /// `None` in a dry run.
    pub(super) committer: Option<Committer>,
    pub(super) write: write::Shared,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) io: IoChoice,
    pub(super) decided: mpsc::Sender<(u64, Decided)>,
    pub(super) committed: mpsc::Sender<CommitEvent>,
}

type Run = Box<dyn FnOnce() + Send>;

/// What the threads of one disk were given.
struct Lane {
    decisions: Sender<Ask>,
    commits: Sender<Commit>,
    write: Arc<write::Shared>,
    commit_busy: Arc<LongBusy>,
    io: StorageIo,
    /// What the decider was asked without an answer, and what of it is done.
    asked: u64,
    answered: Arc<AtomicU64>,
    /// Directories to be closed when it has done all.
    closing: VecDeque<Action>,
    /// Threads that write chunks.
    chunk_writers: usize,
}

impl Lane {
    /// Takes the next disk in; gives what its threads run, by their names.
    fn new(kit: &Kit, number: u8) -> (Lane, Vec<(String, Run)>) {
        let (decisions, asks) = bounded(WORK_MAX);
        let (commits, commit_queue) = bounded(WORK_MAX);
        let write = Arc::new(kit.write.for_lane());
        let (answered, commit_busy) = (Arc::new(AtomicU64::new(0)), Arc::new(LongBusy::default()));
        let (chunks, batches) = kit.arrivals.lane(number);
        let rings = crate::io::rings(kit.io, write::RING_DEPTH, PLAIN_WRITERS, &write.pool);
        let (io, chunk_writers) = (storage_io(&rings), rings.len());
        kit.decider.epochs.add_lane();

        let mut runs = vec![(format!("lh-decide-{number}"), deciding(kit, number, asks, answered.clone()))];
        for (n, ring) in rings.into_iter().enumerate() {
            let (shared, feed) = (write.clone(), chunks.clone());
            let run = Box::new(move || write::write_chunks(&shared, &feed, ring));
            runs.push((format!("lh-write-{number}-{n}"), run));
        }
        for n in 0..BATCH_WRITERS {
            let (shared, feed) = (write.clone(), batches.clone());
            runs.push((format!("lh-files-{number}-{n}"), Box::new(move || write::write_batches(&shared, &feed))));
        }
        if let Some(committer) = kit.committer.clone() {
            let committer = Committer { lane: number, busy: commit_busy.clone(), ..committer };
            runs.push((format!("lh-commit-{number}"), Box::new(move || committer.run(&commit_queue))));
        }
        let (asked, closing) = (0, VecDeque::new());
        (Lane { decisions, commits, write, commit_busy, io, asked, answered, closing, chunk_writers }, runs)
    }

    /// Time that its disk was busy since the last call, µs: per writer, or making durable what they have written.
    fn busy(&self) -> u64 {
        self.write.busy.take(self.chunk_writers, BATCH_WRITERS).max(self.commit_busy.take())
    }

    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire) == self.asked
    }
}

/// What the decider of one disk does, until nothing is asked any more.
fn deciding(kit: &Kit, number: u8, asks: Receiver<Ask>, answered: Arc<AtomicU64>) -> Run {
    let (decider, deleter) = (kit.decider.clone(), kit.deleter.clone());
    let (decided, committed) = (kit.decided.clone(), kit.committed.clone());
    Box::new(move || {
        while let Ok(ask) = asks.recv() {
            match ask {
                Ask::Decide(index, entry) => {
                    decider.wait_for_descriptors(&entry, || decided.is_closed());
                    let decision = decider.decide(index, &entry, number);
                    if decided.blocking_send((index, decision)).is_err() {
                        break;
                    }
                    continue;
                }
                Ask::Discard(index) => decider.discard(index),
                Ask::WouldDelete { dir, keep } => deleter.delete(&dir, &keep, &committed),
            }
            answered.fetch_add(1, Ordering::Release);
        }
    })
}

/// All disks of a session.
pub(super) struct Lanes {
    /// By the number of the disk; the first one is that of the destination directory.
    lanes: Vec<Lane>,
    disks: Disks,
    /// Directories on other disks than the first, until they are done.
    dirs: HashMap<RelPath, u8>,
    kit: Kit,
    threads: Vec<JoinHandle<()>>,
}

impl Lanes {
    /// Threads for the disk of the destination directory, which is on this device; those of others start when the first
    /// directory on such a disk is met.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(kit: Kit, device: u64) -> io::Result<Lanes> {
        let (lanes, disks, dirs, threads) = (Vec::new(), Disks::default(), HashMap::new(), Vec::new());
        let mut lanes = Lanes { lanes, disks, dirs, kit, threads };
        lanes.lane_of_device(device)?;
        Ok(lanes)
    }

    fn lane_of_device(&mut self, device: u64) -> io::Result<u8> {
        let Lanes { lanes, disks, kit, threads, .. } = self;
        let mut started = Ok(());
        let number = disks.number(device, |number| {
            let (lane, runs) = Lane::new(kit, number);
            lanes.push(lane);
            started = runs.into_iter().try_for_each(|(name, run)| {
                threads.push(kit.write.pool.placement().spawn(name, run)?);
                Ok(())
            });
            true
        });
        started.map(|()| number)
    }

    /// A directory is there, on this device if it was there before. If its disk is a further one gives how many parcels
    /// may be under way to each disk from now on: none is to take the frames of another.
    ///
    /// # Errors
    /// When the system gives no threads for a further disk.
    pub(super) fn enter(&mut self, path: &RelPath, device: Option<u64>) -> io::Result<Option<u32>> {
        let count = self.lanes.len();
        let lane = match device {
            Some(device) => self.lane_of_device(device)?,
            None => self.beside(path),
        };
        if lane != 0 {
            self.dirs.insert(path.clone(), lane);
        }
        let window = self.kit.write.pool.count() / self.lanes.len();
        Ok((self.lanes.len() > count).then_some(window as u32))
    }

    /// Nothing more will be asked of a directory.
    pub(super) fn leave(&mut self, path: &RelPath) {
        self.dirs.remove(path);
    }

    /// The lane of what is in a directory, and of what is done to it.
    pub(super) fn within(&self, dir: &RelPath) -> u8 {
        self.dirs.get(dir).copied().unwrap_or(0)
    }

    /// The lane of what stands at a path: that of the directory that holds it.
    pub(super) fn beside(&self, path: &RelPath) -> u8 {
        // With one disk this costs nothing.
        let dir = (!self.dirs.is_empty()).then(|| path.parent()).flatten();
        dir.map_or(0, |dir| self.within(&dir))
    }

    /// Queues for a decider; the window of the protocol keeps the queue below its bound.
    pub(super) fn ask(&mut self, lane: u8, ask: Ask) {
        let lane = &mut self.lanes[usize::from(lane)];
        lane.asked += u64::from(!matches!(ask, Ask::Decide(..)));
        // A decider that is gone leaves the session without an answer, and that ends by its own means.
        let _ = lane.decisions.send(ask);
    }

    /// Queues for a committer.
    pub(super) fn give(&self, lane: u8, work: Commit) {
        // In a dry run there is none.
        let _ = self.lanes[usize::from(lane)].commits.send(work);
    }

    /// Has all committers wait for nothing more.
    pub(super) fn flush(&self) {
        (0..self.lanes.len()).for_each(|lane| self.give(lane as u8, Commit::Flush));
    }

    /// Keeps the closing of a directory back while the decider of its disk has something to do that it does not answer:
    /// that may touch the directory. Gives it back otherwise.
    pub(super) fn hold(&mut self, lane: u8, action: Action) -> Option<Action> {
        let lane = &mut self.lanes[usize::from(lane)];
        if lane.is_answered() {
            return Some(action);
        }
        lane.closing.push_back(action);
        None
    }

    /// What was kept back and is due now.
    pub(super) fn due(&mut self) -> Vec<Action> {
        self.lanes.iter_mut().filter(|lane| lane.is_answered()).flat_map(|lane| lane.closing.drain(..)).collect()
    }

    /// Time that the busiest disk was busy since the last call, µs: a copy goes no faster than the slowest disk.
    pub(super) fn busy(&self) -> u64 {
        self.lanes.iter().map(Lane::busy).max().unwrap_or(0)
    }

    /// What chunks are written with.
    pub(super) fn io(&self) -> StorageIo {
        io_of_all(self.lanes.iter().map(|lane| lane.io))
    }

    /// Lets go of all but the committers, so that deciders end, and writers when the network has ended. What is left
    /// takes commits, and then gives its threads.
    pub(super) fn close(self) -> Closing {
        let Lanes { lanes, threads, .. } = self;
        Closing { commits: lanes.into_iter().map(|lane| lane.commits).collect(), threads }
    }
}

/// The disks of a session that is over.
pub(super) struct Closing {
    commits: Vec<Sender<Commit>>,
    threads: Vec<JoinHandle<()>>,
}

impl Closing {
    /// Queues for a committer.
    pub(super) fn give(&self, lane: u8, work: Commit) {
        let _ = self.commits[usize::from(lane)].send(work);
    }

    /// Waits for the threads; blocks.
    pub(super) fn join(self) {
        drop(self.commits);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proto::control::CopyOptions;
    use sys::file::Dir;

    use super::*;
    use crate::filter::Filter;
    use crate::frame::Pool;
    use crate::io::busy::DiskBusy;
    use crate::io::epochs::Epochs;
    use crate::io::open::Opener;
    use crate::io::place::Place;
    use crate::io::target::Targets;
    use crate::numa::Placement;
    use crate::numa::tests::expect_bound;

    /// The threads of a dry run whose pool is placed there, and what keeps its writers waiting.
    fn placed(dir: &std::path::Path, placement: Placement) -> (Lanes, [Sender<crate::frame::Frame>; 2]) {
        let place = Arc::new(Place::look(Dir::open(dir).unwrap()).unwrap());
        let (targets, epochs) = (Arc::new(Targets::default()), Arc::new(Epochs::default()));
        let pool = Pool::new(4, 4096, Vec::new(), placement).unwrap();
        let [(chunks, chunk_queue), (batches, batch_queue)] = [bounded(4), bounded(4)];
        let arrivals = Arc::new(Arrivals::new(chunk_queue, batch_queue, targets.clone(), pool.clone()));
        let decider = Decider {
            place: place.clone(),
            targets: targets.clone(),
            journal: None,
            options: CopyOptions::default(),
            chunk_size: 4096,
            small_max: 1024,
            opener: Arc::new(Opener::new(place.clone(), IoChoice::Posix)),
            resumed_since: None,
            single_name: None,
            partials: Mutex::default(),
            next_slot: Mutex::default(),
            generations: Mutex::default(),
            epochs,
            touched: Mutex::default(),
        };
        let write = write::Shared {
            place: place.clone(),
            targets,
            arrivals: arrivals.clone(),
            pool,
            events: mpsc::channel(1).0,
            preserve_all: false,
            busy: DiskBusy::default(),
        };
        let kit = Kit {
            decider: Arc::new(decider),
            deleter: Deleter { place: place.clone(), filter: Filter::default(), dry_run: true },
            committer: None,
            write,
            arrivals,
            io: IoChoice::Posix,
            decided: mpsc::channel(1).0,
            committed: mpsc::channel(1).0,
        };
        (Lanes::start(kit, place.dev).unwrap(), [chunks, batches])
    }

    #[test]
    fn writers_run_where_the_pool_is_placed() {
        let dir = tempfile::tempdir().unwrap();
        for cpu in sys::cpu::allowed_cpus().unwrap() {
            let (lanes, network) = placed(dir.path(), Placement::on(0, &[cpu]));
            for name in ["lh-write-0-0", "lh-files-0-3"] {
                expect_bound(name, cpu);
            }
            drop(network);
            lanes.close().join();
        }
    }
}
