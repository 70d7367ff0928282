//! Complete parcels on their way from the network to the writers of their disk.
//!
//! The network knows no disks. Whichever writer is free takes what has arrived, keeps it if it is for its own disk, and
//! hands it on if it is for another. So nothing waits for a disk that hangs, no thread stands between, and with one
//! disk nothing is handed on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select};
use proto::limits::DISKS_MAX;
use proto::record::Kind;

use super::target::Targets;
use crate::frame::{Frame, Pool};

/// What has arrived, for all disks.
pub struct Arrivals {
    chunks: Receiver<Frame>,
    batches: Receiver<Frame>,
    /// What was taken for each disk, as far as there are any.
    lanes: [OnceLock<Lane>; DISKS_MAX as usize],
    targets: Arc<Targets>,
    pool: Pool,
    /// Parcels that writers have or will have; no more than there are frames.
    held: Mutex<HashSet<u64>>,
}

struct Lane {
    chunks: Sender<Frame>,
    batches: Sender<Frame>,
}

/// Where the writers of one disk get parcels of one kind from.
#[derive(Clone)]
pub struct Feed {
    arrivals: Arc<Arrivals>,
    lane: u8,
    arriving: Receiver<Frame>,
    own: Receiver<Frame>,
}

impl Arrivals {
    /// What comes out of these queues: parcels of big files and of small ones.
    #[must_use]
    pub fn new(chunks: Receiver<Frame>, batches: Receiver<Frame>, targets: Arc<Targets>, pool: Pool) -> Arrivals {
        Arrivals { chunks, batches, lanes: Default::default(), targets, pool, held: Mutex::default() }
    }

    /// Takes a disk in, before any file is to be written to it; gives what its writers of big files and those of small
    /// files write.
    ///
    /// # Panics
    /// If the disk was taken in before, or its number is too large.
    #[must_use]
    pub fn lane(self: &Arc<Self>, lane: u8) -> (Feed, Feed) {
        // Each has room for every frame there is, so that handing on never waits.
        let (chunks, own_chunks) = bounded(self.pool.count());
        let (batches, own_batches) = bounded(self.pool.count());
        let is_new = self.lanes[usize::from(lane)].set(Lane { chunks, batches }).is_ok();
        assert!(is_new, "a disk is taken in once");
        let feed =
            |arriving: &Receiver<Frame>, own| Feed { arrivals: self.clone(), lane, arriving: arriving.clone(), own };
        (feed(&self.chunks, own_chunks), feed(&self.batches, own_batches))
    }

    /// A parcel is written, or of no interest any more.
    pub fn finish(&self, parcel: u64) {
        self.held.lock().expect("no panic under the lock").remove(&parcel);
    }

    /// Takes a parcel for a disk; gives it back if it is for this one, or for none.
    fn sort(&self, frame: Frame, lane: u8) -> Option<Frame> {
        self.pool.moved();
        if !self.held.lock().expect("no panic under the lock").insert(frame.parcel) {
            // It was sent again while the first one waits for its disk: that one tells, and this one must not take
            // what others need.
            self.pool.give(frame);
            return None;
        }
        let targets = frame.parts.iter().filter_map(|part| self.targets.get(part.file, part.generation));
        let other = targets.map(|target| target.lane).next().filter(|its| *its != lane);
        let Some(queues) = other.and_then(|its| self.lanes.get(usize::from(its))?.get()) else { return Some(frame) };
        let queue = if frame.kind == Kind::Chunk { &queues.chunks } else { &queues.batches };
        if let Err(back) = queue.send(frame) {
            // Its writers have ended, and so has the session.
            self.pool.give(back.into_inner());
        }
        None
    }
}

impl Feed {
    /// The next parcel for this disk; waits for it. `None` when no more will come.
    #[must_use]
    pub fn next(&self) -> Option<Frame> {
        loop {
            let arrived = select! {
                recv(self.own) -> frame => return frame.ok(),
                recv(self.arriving) -> frame => frame,
            };
            match arrived {
                Ok(frame) => match self.arrivals.sort(frame, self.lane) {
                    None => {}
                    own => return own,
                },
                Err(_) => return self.own.try_recv().ok(),
            }
        }
    }

    /// The next parcel for this disk, if there is one now.
    ///
    /// # Errors
    /// `Disconnected` when no more will come.
    pub fn try_next(&self) -> Result<Frame, TryRecvError> {
        loop {
            if let Ok(frame) = self.own.try_recv() {
                return Ok(frame);
            }
            let arrived = self.arriving.try_recv()?;
            if let Some(own) = self.arrivals.sort(arrived, self.lane) {
                return Ok(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::{Entry, EntryKind, Identity, RelPath, Time};

    use super::*;
    use crate::frame::Part;
    use crate::io::target::Target;
    use crate::numa::Placement;

    const FRAMES: usize = 8;

    struct World {
        arrived: Sender<Frame>,
        arrivals: Arc<Arrivals>,
        targets: Arc<Targets>,
        pool: Pool,
    }

    impl World {
        fn new() -> World {
            let pool = Pool::new(FRAMES, 4096, Vec::new(), Placement::default()).unwrap();
            let (arrived, chunks) = bounded(FRAMES);
            let targets = Arc::new(Targets::default());
            let arrivals = Arc::new(Arrivals::new(chunks, bounded(0).1, targets.clone(), pool.clone()));
            World { arrived, arrivals, targets, pool }
        }

        fn target(&self, index: u64, lane: u8) {
            let entry = Entry {
                path: RelPath::new("f").unwrap(),
                kind: EntryKind::File(Identity::default()),
                mode: 0,
                mtime: Time::default(),
                owner: None,
                xattrs: Vec::new(),
            };
            let target = Target::new(index, 0, entry, RelPath::root(), Vec::new(), lane);
            self.targets.insert(Arc::new(target));
        }

        fn arrive(&self, parcel: u64, file: u64) {
            let mut frame = self.pool.try_take().unwrap();
            let part = Part { file, generation: 0, offset: 0, start: 0, len: 1, file_end: false };
            (frame.parcel, frame.kind) = (parcel, Kind::Chunk);
            frame.parts.push(part);
            self.arrived.send(frame).unwrap();
        }
    }

    fn parcel(feed: &Feed) -> Option<u64> {
        feed.try_next().ok().map(|frame| frame.parcel)
    }

    /// A disk whose writers take nothing holds up no other, whoever takes what arrives.
    #[test]
    fn each_disk_gets_its_own() {
        let world = World::new();
        let (slow, _) = world.arrivals.lane(0);
        let (fast, _) = world.arrivals.lane(3);
        [(1, 0), (2, 3)].into_iter().for_each(|(index, lane)| world.target(index, lane));
        [(10, 1), (11, 1), (12, 2), (13, 1), (14, 2)].into_iter().for_each(|(id, file)| world.arrive(id, file));
        assert_eq!([parcel(&fast), parcel(&fast), parcel(&fast)], [Some(12), Some(14), None]);
        // What is for nobody is taken by anybody.
        world.arrive(15, 99);
        assert_eq!(parcel(&fast), Some(15));
        drop(world.arrived);
        let rest: Vec<u64> = std::iter::from_fn(|| slow.next()).map(|frame| frame.parcel).collect();
        assert_eq!((rest, fast.next().is_none()), (vec![10, 11, 13], true));
        assert!(matches!(fast.try_next(), Err(TryRecvError::Disconnected)));
    }

    /// A parcel that comes again while its disk hangs takes no second frame; one that has landed comes through.
    #[test]
    fn what_is_held_is_held_once() {
        let world = World::new();
        let (chunks, _) = world.arrivals.lane(0);
        world.target(1, 0);
        (0..3).for_each(|_| world.arrive(10, 1));
        let first = chunks.try_next().unwrap();
        assert!(chunks.try_next().is_err());
        assert_eq!(world.pool.free(), FRAMES - 1);
        world.pool.give(first);
        world.arrivals.finish(10);
        world.arrive(10, 1);
        assert_eq!(parcel(&chunks), Some(10));
    }
}
