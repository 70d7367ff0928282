//! The readers of a source session: one pool of threads for each disk.
//!
//! A disk that is slow, or answers no more, keeps its own readers and its own tasks waiting, and no others: what it
//! may hold of the frames is bounded too. What the session hands out and gets back passes here, in its one task;
//! the readers of different disks share the pool of frames and nothing else.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::control::StorageIo;
use proto::source::Room;
use proto::{Entry, EntryKind};

use super::disks::Disks;
use crate::io::input::InputReader;
use crate::io::read::{self, ChunkReader, Task};

/// Threads that read small files of one disk: they wait for the disk, not for a core.
const BATCH_READERS: usize = 4;
/// Threads that read chunks of one disk where io_uring is not to be had.
const PLAIN_READERS: usize = 4;
/// The same, and nothing goes past the page cache: what they read comes in large pieces that the kernel reads ahead, two of them at a
/// time. A third reader comes where nothing has been read ahead yet, and breaks the order that the kernel looks for.
const CACHED_READERS: usize = 2;
/// Tasks waiting for the readers of one disk, of each kind.
const TASKS_MAX: usize = 8;
/// The readers of one disk.
struct Lane {
    /// `None` once the session is over.
    chunks: Option<Sender<Task>>,
    batches: Option<Sender<Task>>,
    threads: Vec<JoinHandle<()>>,
    io: StorageIo,
    shared: Arc<read::Shared>,
    /// Parcels that were given to readers and have not come back: each has a frame, or will take one.
    out: usize,
    /// Digests that wait for room in the queue.
    late: VecDeque<Task>,
    /// Threads that read chunks.
    chunk_readers: usize,
}

impl Lane {
    /// # Errors
    /// When the system gives no thread.
    fn start(shared: Arc<read::Shared>) -> io::Result<Lane> {
        let (chunks, chunk_queue) = bounded(TASKS_MAX);
        let (batches, batch_queue) = bounded(TASKS_MAX);
        let plain = if shared.io.may_be_direct() { PLAIN_READERS } else { CACHED_READERS };
        let rings = crate::io::rings(shared.io, read::RING_DEPTH, plain, &shared.pool);
        let io = crate::session::storage_io(&rings);
        let mut lane = Lane::without_threads(shared, chunks, Some(batches), io);
        lane.chunk_readers = rings.len();
        let number = lane.shared.lane;
        for (n, ring) in rings.into_iter().enumerate() {
            let run = move |shared: &read::Shared, queue: &_| ChunkReader::new(shared, ring).run(queue);
            lane.spawn(format!("lh-read-{number}-{n}"), &chunk_queue, run)?;
        }
        for n in 0..BATCH_READERS {
            lane.spawn(format!("lh-small-{number}-{n}"), &batch_queue, read::read_batches)?;
        }
        Ok(lane)
    }

    /// One thread that reads a pipe.
    fn of_input(shared: Arc<read::Shared>, input: OwnedFd) -> io::Result<Lane> {
        let (chunks, queue) = bounded(TASKS_MAX);
        let mut lane = Lane::without_threads(shared, chunks, None, StorageIo::Pipe);
        lane.spawn("lh-input".to_owned(), &queue, move |shared, queue| InputReader::new(shared, input).run(queue))?;
        Ok(lane)
    }

    fn without_threads(
        shared: Arc<read::Shared>,
        chunks: Sender<Task>,
        batches: Option<Sender<Task>>,
        io: StorageIo,
    ) -> Lane {
        let (threads, late) = (Vec::new(), VecDeque::new());
        Lane { chunks: Some(chunks), batches, threads, io, shared, out: 0, late, chunk_readers: 1 }
    }

    fn spawn(
        &mut self,
        name: String,
        queue: &Receiver<Task>,
        run: impl FnOnce(&read::Shared, &Receiver<Task>) + Send + 'static,
    ) -> io::Result<()> {
        let (shared, queue) = (self.shared.clone(), queue.clone());
        let placement = shared.pool.placement().clone();
        self.threads.push(placement.spawn(name, move || run(&shared, &queue))?);
        Ok(())
    }

    fn room(&self) -> Room {
        let has = |queue: &Option<Sender<Task>>| queue.as_ref().is_some_and(|queue| !queue.is_full());
        Room { chunks: has(&self.chunks), batches: has(&self.batches) }
    }

    fn give(&mut self, task: Task) {
        self.out += usize::from(task.takes_frame());
        let queue = if matches!(task, Task::Chunk { .. }) { &self.chunks } else { &self.batches };
        let queue = queue.as_ref().expect("there is a queue for what there is to read, until the session is over");
        // The session is the only one that fills it, and has seen the room. Readers that have failed take the task
        // with them; the session ends by its own means.
        let _ = queue.try_send(task);
    }

    /// Time that its readers were busy since the last call, per reader, µs.
    fn busy(&self) -> u64 {
        self.shared.busy.take(self.chunk_readers, BATCH_READERS)
    }

    fn close(&mut self) {
        (self.chunks, self.batches) = (None, None);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// All readers of a session.
pub struct Lanes {
    /// By the number of the disk; at least one.
    lanes: Vec<Lane>,
    disks: Disks,
    /// Frames of the pool.
    frames: usize,
}

impl Lanes {
    /// Readers for the first disk; those of others start when the first file of such a disk is seen.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(shared: read::Shared) -> io::Result<Lanes> {
        let frames = shared.pool.count();
        Ok(Lanes { lanes: vec![Lane::start(Arc::new(shared))?], disks: Disks::default(), frames })
    }

    /// The one reader of a pipe.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn of_input(shared: read::Shared, input: OwnedFd) -> io::Result<Lanes> {
        let frames = shared.pool.count();
        Ok(Lanes { lanes: vec![Lane::of_input(Arc::new(shared), input)?], disks: Disks::default(), frames })
    }

    /// The lane on which an entry is read: that of its disk.
    pub fn of(&mut self, entry: &Entry) -> u8 {
        let EntryKind::File(identity) = &entry.kind else { return 0 };
        let Lanes { lanes, disks, .. } = self;
        disks.number(identity.dev, |number| {
            if usize::from(number) < lanes.len() {
                return true;
            }
            match Lane::start(Arc::new(lanes[0].shared.for_lane(number))) {
                Ok(lane) => lanes.push(lane),
                Err(error) => tracing::warn!(device = identity.dev, %error, "no readers of its own"),
            }
            usize::from(number) < lanes.len()
        })
    }

    /// What tasks of this lane find room.
    ///
    /// A lane may have as many parcels out as leave an equal share of the frames to each other lane and one to spare
    /// for the next; all together no more than there are frames. So a disk that hangs cannot hold them all, and a
    /// reader that waits for a frame waits for the network only, not for another reader.
    #[must_use]
    pub fn room(&self, lane: u8) -> Room {
        let share = (self.frames / (self.lanes.len() + 1)).max(1);
        let out: usize = self.lanes.iter().map(|lane| lane.out).sum();
        let lane = &self.lanes[usize::from(lane)];
        if lane.out < share && out < self.frames { lane.room() } else { false.into() }
    }

    /// Hands a lane a task that it has room for.
    pub fn give(&mut self, lane: u8, task: Task) {
        self.lanes[usize::from(lane)].give(task);
    }

    /// A parcel has come back from a lane.
    pub fn back(&mut self, lane: u8) {
        let lane = &mut self.lanes[usize::from(lane)];
        debug_assert!(lane.out > 0, "a parcel comes back once");
        lane.out = lane.out.saturating_sub(1);
    }

    /// Takes a digest that is to be computed when there is room.
    pub fn late(&mut self, lane: u8, task: Task) {
        self.lanes[usize::from(lane)].late.push_back(task);
    }

    /// Hands late digests to readers that have room.
    pub fn feed_late(&mut self) {
        for lane in &mut self.lanes {
            while lane.room().batches
                && let Some(task) = lane.late.pop_front()
            {
                lane.give(task);
            }
        }
    }

    /// Time that the readers of the busiest lane were busy since the last call, per reader, µs: a copy goes no
    /// faster than the slowest disk.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.lanes.iter().map(Lane::busy).max().unwrap_or(0)
    }

    /// What files are read with.
    #[must_use]
    pub fn io(&self) -> StorageIo {
        super::io_of_all(self.lanes.iter().map(|lane| lane.io))
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // All are told before the first is waited for.
        self.lanes.iter_mut().for_each(Lane::close);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use proto::limits::DISKS_MAX;
    use proto::source::Item;
    use proto::{Identity, RelPath, Time};
    use sys::file::Dir;
    use tokio::sync::mpsc;

    use super::*;
    use crate::frame::Pool;
    use crate::io::busy::DiskBusy;
    use crate::io::read::{ReadEvent, SourceFile};
    use crate::numa::Placement;
    use crate::request::IoChoice;
    use crate::scan::{SourceRef, identity_of};
    use crate::session::disks::DEVICES_MAX;

    const FRAMES: usize = 8;
    const CHUNK: u32 = 4096;

    fn lanes(dir: &std::path::Path) -> (Lanes, Pool, mpsc::Receiver<(u8, ReadEvent)>) {
        placed(dir, Placement::default())
    }

    fn placed(dir: &std::path::Path, placement: Placement) -> (Lanes, Pool, mpsc::Receiver<(u8, ReadEvent)>) {
        let pool = Pool::new(FRAMES, CHUNK as usize, Vec::new(), placement).unwrap();
        let (events, news) = mpsc::channel(FRAMES);
        let shared = read::Shared {
            root: Dir::open(dir).unwrap(),
            pool: pool.clone(),
            events,
            lane: 0,
            io: IoChoice::Posix,
            chunk_size: CHUNK,
            preserve_all: false,
            files: read::OpenFiles::default(),
            turn: Mutex::default(),
            busy: DiskBusy::default(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        (Lanes::start(shared).unwrap(), pool, news)
    }

    fn entry(identity: Identity) -> Entry {
        let path = RelPath::new("f").unwrap();
        Entry {
            path,
            kind: EntryKind::File(identity),
            mode: 0,
            mtime: Time::default(),
            owner: None,
            xattrs: Vec::new(),
        }
    }

    /// On a device of this number; those of major 0 have nothing in `/sys`.
    fn on(dev: u64) -> Entry {
        entry(Identity { dev, ..Identity::default() })
    }

    #[test]
    fn each_disk_has_a_lane_until_there_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lanes, ..) = lanes(dir.path());
        assert_eq!(lanes.of(&Entry { kind: EntryKind::Stream, ..on(0) }), 0);
        let numbers = |lanes: &mut Lanes| (1..=3 * DISKS_MAX).map(|n| lanes.of(&on(n.into()))).collect::<Vec<_>>();
        let first = numbers(&mut lanes);
        let own: Vec<u8> = (0..DISKS_MAX).collect();
        assert_eq!(first[..usize::from(DISKS_MAX)], own);
        assert!(first.iter().all(|lane| *lane < DISKS_MAX), "{first:?}");
        assert!(own.iter().all(|lane| first[usize::from(DISKS_MAX)..].contains(lane)), "not spread: {first:?}");
        assert_eq!(numbers(&mut lanes), first);
        assert_eq!((lanes.lanes.len(), lanes.io()), (usize::from(DISKS_MAX), StorageIo::Posix));
        lanes.lanes[1].io = StorageIo::IoUring;
        assert_eq!(lanes.io(), StorageIo::Mixed);
        (0..2 * DEVICES_MAX as u64).for_each(|n| _ = lanes.of(&on(100 + n)));
        assert_eq!(lanes.disks.devices(), DEVICES_MAX);
    }

    #[test]
    fn readers_run_where_the_pool_is_placed() {
        let dir = tempfile::tempdir().unwrap();
        for cpu in sys::cpu::allowed_cpus().unwrap() {
            let (mut lanes, ..) = placed(dir.path(), Placement::on(0, &[cpu]));
            let (tell, told) = bounded(1);
            let queue = bounded(0).1;
            let run = move |_: &read::Shared, _: &_| tell.send(sys::cpu::allowed_cpus()).unwrap();
            lanes.lanes[0].spawn("lh-read-placed".to_owned(), &queue, run).unwrap();
            assert_eq!(told.recv().unwrap().unwrap(), [cpu]);
        }
    }

    /// The one chunk of the file `f`.
    fn chunk_of_file(dir: &std::path::Path) -> (Arc<SourceFile>, Item) {
        std::fs::write(dir.join("f"), [7; CHUNK as usize]).unwrap();
        let entry = entry(identity_of(&Dir::open(dir).unwrap().stat(b"f").unwrap()));
        let place = SourceRef { path: b"f".to_vec() };
        let file = Arc::new(SourceFile { index: 0, generation: 0, place, entry, digest: None });
        (file, Item { index: 0, generation: 0, offset: 0, len: CHUNK })
    }

    /// Who has taken a chunk begins to read it before anybody takes the next one: so the kernel sees one reader.
    #[test]
    fn readers_begin_in_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lanes, pool, mut news) = lanes(dir.path());
        let (file, item) = chunk_of_file(dir.path());
        assert_eq!(lanes.of(&on(1)), 0);
        // The first reader cannot begin: it gets no frame.
        let held: Vec<_> = std::iter::from_fn(|| pool.try_take()).collect();
        let count = 3;
        (0..count as u64)
            .for_each(|parcel| lanes.give(0, Task::Chunk { parcel, item, file: file.clone(), after: None }));
        let left = |lanes: &Lanes| lanes.lanes[0].chunks.as_ref().unwrap().len();
        while left(&lanes) == count {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(left(&lanes), count - 1, "another reader did not wait for its turn");
        held.into_iter().for_each(|frame| pool.give(frame));
        for _ in 0..count {
            let (_, ReadEvent::Loaded(loaded)) = news.blocking_recv().unwrap() else { panic!("not a parcel") };
            pool.give(loaded.frame);
        }
    }

    /// A lane that gets no further keeps its share of the frames and no more; the tasks of both come back.
    #[test]
    fn a_lane_has_a_share_of_the_frames() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lanes, pool, mut news) = lanes(dir.path());
        assert_eq!((lanes.of(&on(1)), lanes.of(&on(2))), (0, 1));
        let (file, item) = chunk_of_file(dir.path());
        let task = |parcel| Task::Chunk { parcel, item, file: file.clone(), after: None };
        // No reader gets a frame meanwhile.
        let held: Vec<_> = std::iter::from_fn(|| pool.try_take()).collect();
        let share = FRAMES as u64 / 3;
        for parcel in 0..share {
            assert_eq!(lanes.room(0), true.into());
            lanes.give(0, task(parcel));
        }
        assert_eq!(
            [0, 1].map(|lane| lanes.room(lane)),
            [false, true].map(Room::from),
            "the first lane has its share, the other all of its own"
        );
        lanes.give(1, task(share));
        held.into_iter().for_each(|frame| pool.give(frame));
        let mut came = Vec::new();
        for _ in 0..=share {
            let (lane, ReadEvent::Loaded(loaded)) = news.blocking_recv().unwrap() else { panic!("not a parcel") };
            assert_eq!(loaded.results, [(item, proto::source::Read::Whole)]);
            lanes.back(lane);
            came.push((loaded.frame.parcel, lane));
            pool.give(loaded.frame);
        }
        came.sort_unstable();
        assert_eq!(came, [(0, 0), (1, 0), (2, 1)]);
        assert_eq!([0, 1].map(|lane| lanes.room(lane)), [true, true].map(Room::from));
        assert_eq!(pool.free(), FRAMES);
    }
}
