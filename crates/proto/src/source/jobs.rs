//! What is read next.

use std::collections::VecDeque;

use super::{File, Parcel, STREAM_PARCELS_MAX, Source, is_small};
use crate::control::Begun;
use crate::limits::{BATCH_FILES_MAX, PARCELS_UNLANDED_MAX};
use crate::{ChunkSet, EntryKind};

/// Parts of the small files that were read before that a batch takes at most one of: twice as many as there are streams in most sessions. So
/// streams begin together, and a copy of a few files is on all of them. Over 100 ms the first files that were wanted went into one batch, and
/// most streams stood still for a round trip.
const SHARES: u64 = 32;
/// Parts of what is left of the manifest's small files that a batch takes at most one of: as many as there are streams in most sessions, times
/// what the mean one has of the slowest, so that they end together (guided self-scheduling, Polychronopoulos and Kuck, IEEE Transactions on
/// Computers C-36(12), 1987). Over 100 ms one of 16 that lost a packet in slow start has a fifth of the others for ten seconds: with
/// batches of a 32nd they waited for it for 0.2 to 0.6 s in 6 of 37 copies, with these in none of 16.
const SHARES_LEFT: u64 = 256;
/// A batch has this many bytes at least, if there are as many: about what a new connection sends in its first round trip.
const BATCH_BYTES_MIN: u64 = 16 << 10;

/// A range of a file to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Index of the file.
    pub index: u64,
    /// How often the file was started again before; results of older ones are void.
    pub generation: u8,
    /// Where to read, bytes.
    pub offset: u64,
    /// How much to read, bytes.
    pub len: u32,
}

/// Work for the readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Read a chunk of a big file, or of a pipe.
    Chunk {
        /// Number of the parcel.
        parcel: u64,
        /// The range.
        item: Item,
        /// Where it begins, if the destination keeps what stands before it in the chunk.
        after: Option<Begun>,
    },
    /// Read small files whole.
    Batch {
        /// Number of the parcel.
        parcel: u64,
        /// The files.
        items: Vec<Item>,
        /// The file before them in the parcel, if the destination keeps those up to it.
        after: Option<Begun>,
    },
    /// Compare a file with a BLAKE3 digest.
    Compare {
        /// Index of the file.
        index: u64,
        /// Digest of what the destination has.
        digest: [u8; 32],
    },
}

/// What the readers of a disk have room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// A chunk.
    pub chunks: bool,
    /// Small files, or a file to compare.
    pub batches: bool,
}

impl Room {
    fn takes(self, batch: bool) -> bool {
        if batch { self.batches } else { self.chunks }
    }
}

impl From<bool> for Room {
    /// For all or for nothing.
    fn from(open: bool) -> Room {
        Room { chunks: open, batches: open }
    }
}

/// What is to be read from one disk.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) compare: VecDeque<(u64, [u8; 32])>,
    pub(super) again: VecDeque<u64>,
    /// New parcels, by the disk that they go to, as far as there are any.
    disks: Vec<Queue>,
    /// The disk that is asked first.
    next_disk: usize,
}

/// What is to be read from one disk for another.
#[derive(Default)]
struct Queue {
    big: VecDeque<u64>,
    small: SmallFiles,
    /// The last new parcel was a chunk.
    chunk_was_last: bool,
}

/// Small files that are wanted.
#[derive(Default)]
struct SmallFiles {
    /// Each with its size when it was wanted.
    queue: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl SmallFiles {
    fn push(&mut self, index: u64, bytes: u64) {
        self.queue.push_back((index, bytes));
        self.bytes += bytes;
    }

    fn front(&self) -> Option<u64> {
        self.queue.front().map(|&(index, _)| index)
    }

    fn pop(&mut self) {
        if let Some((_, bytes)) = self.queue.pop_front() {
            self.bytes -= bytes;
        }
    }
}

impl Lane {
    fn queue(&mut self, disk: u8) -> &mut Queue {
        let disk = usize::from(disk);
        let disks = self.disks.len().max(disk + 1);
        self.disks.resize_with(disks, Queue::default);
        &mut self.disks[disk]
    }
}

impl Source {
    /// The next thing to read, and its lane: of those whose readers have `room` for it, each in turn. A number of a parcel
    /// that was given before means: read it again. The bytes of a pipe come from what the runtime kept, with the same
    /// answer as the first time.
    pub fn poll_job<R: Into<Room>>(&mut self, room: impl Fn(u8) -> R) -> Option<(u8, Job)> {
        let (first, count) = (self.next_lane, self.lanes.len());
        loop {
            let parcels = self.parcels.len();
            for lane in (first..first + count).map(|n| n % count) {
                // There are at most DISKS_MAX.
                let number = lane as u8;
                if let Some(job) = self.job_of(lane, room(number).into()) {
                    self.next_lane = (lane + 1) % count;
                    return Some((number, job));
                }
            }
            // What was to be read again and is not makes room in the window of its disk: also for lanes that were asked before.
            if self.parcels.len() == parcels {
                return None;
            }
        }
    }

    fn job_of(&mut self, lane: usize, room: Room) -> Option<Job> {
        while let Some(id) = self.lanes[lane].again.front() {
            if self.parcels.get(id).is_some_and(|parcel| !room.takes(parcel.batch)) {
                break;
            }
            let id = self.lanes[lane].again.pop_front().expect("just seen");
            if let Some(job) = self.read_again(id) {
                return Some(job);
            }
        }
        while room.batches
            && let Some((index, digest)) = self.lanes[lane].compare.pop_front()
        {
            if self.files.get(&index).is_some_and(|f| f.comparing) {
                return Some(Job::Compare { index, digest });
            }
        }
        if self.parcels.len() >= PARCELS_UNLANDED_MAX {
            return None;
        }
        let (first, count) = (self.lanes[lane].next_disk, self.lanes[lane].disks.len());
        for disk in (first..first + count).map(|n| n % count) {
            // A disk of the destination that is slow has its share of what is under way, and no more.
            if self.under_way[disk] < self.window
                && let Some(job) = self.new_parcel(lane, disk, room)
            {
                self.lanes[lane].next_disk = (disk + 1) % count;
                return Some(job);
            }
        }
        None
    }

    /// Chunks and batches take turns, so that neither a huge file nor a million tiny ones hold the other up; nor do readers of
    /// one kind that are behind.
    fn new_parcel(&mut self, lane: usize, disk: usize, room: Room) -> Option<Job> {
        let chunk_was_last = self.lanes[lane].disks[disk].chunk_was_last;
        let turns = [chunk_was_last, !chunk_was_last].into_iter().filter(|batch| room.takes(*batch));
        let job = turns
            .map(|batch| if batch { self.batch(lane, disk) } else { self.chunk(lane, disk) })
            .find_map(|job| job)?;
        self.lanes[lane].disks[disk].chunk_was_last = matches!(job, Job::Chunk { .. });
        Some(job)
    }

    /// Puts a file that is wanted in the queue that is right for it.
    pub(super) fn enqueue(&mut self, index: u64) {
        let Some(file) = self.files.get_mut(&index) else { return };
        let missing = file.todo.as_ref().is_some_and(|todo| !todo.is_empty());
        let queue = self.lanes[usize::from(file.lane)].queue(file.disk);
        match (missing, is_small(&self.config, &file.entry)) {
            // Everything is there already; only the end is missing.
            (false, _) => self.end_of(index),
            (true, true) => queue.small.push(index, file.entry.size().unwrap_or(0)),
            (true, false) => queue.big.push_back(index),
        }
    }

    fn read_again(&mut self, id: u64) -> Option<Job> {
        let parcel = self.parcels.get_mut(&id)?;
        parcel.queued = false;
        parcel.retain(|item| {
            let file = self.files.get(&item.index);
            file.is_some_and(|f| f.generation == item.generation && f.failed.is_none())
        });
        let (after, items) = parcel.rest(id);
        for item in &items {
            self.files.get_mut(&item.index).expect("retained").reading += 1;
        }
        match items.as_slice() {
            [] => {
                self.forget(id);
                None
            }
            [item] if !parcel.batch => Some(Job::Chunk { parcel: id, item: *item, after }),
            _ => Some(Job::Batch { parcel: id, items, after }),
        }
    }

    fn chunk(&mut self, lane: usize, disk: usize) -> Option<Job> {
        let chunk_size = u64::from(self.config.chunk_size);
        while let Some(&index) = self.lanes[lane].disks[disk].big.front() {
            let window = self.window(index);
            let file = self.files.get_mut(&index).filter(|f| f.is_for(disk) && !is_small(&self.config, &f.entry));
            let next = file.and_then(|f| Some((f.todo.as_ref()?.ranges().first()?.start, f)));
            let Some((chunk, file)) = next else {
                self.lanes[lane].disks[disk].big.pop_front();
                continue;
            };
            if window.is_some_and(|end| chunk >= end) {
                return None;
            }
            file.todo.as_mut().expect("seen").pop_first();
            file.reading += 1;
            let offset = chunk * chunk_size;
            let len = file.entry.size().map_or(chunk_size, |size| (size - offset.min(size)).min(chunk_size)) as u32;
            let item = Item { index, generation: file.generation, offset, len };
            let parcel = self.parcel(lane, disk, vec![item], false);
            return Some(Job::Chunk { parcel, item, after: None });
        }
        None
    }

    /// The first chunk that may not be read yet, for pipes at either end.
    fn window(&self, index: u64) -> Option<u64> {
        let file = self.files.get(&index)?;
        let stream = (file.entry.kind == EntryKind::Stream).then_some(STREAM_PARCELS_MAX);
        let limit = [stream, self.config.reorder_chunks.map(u64::from)].into_iter().flatten().min()?;
        let items = self.parcels.values().flat_map(|p| &p.items);
        let of_file = items.filter(|i| i.index == index && i.generation == file.generation);
        let lowest = of_file.map(|i| i.offset / u64::from(self.config.chunk_size)).min();
        Some(lowest.map_or(u64::MAX, |chunk| chunk.saturating_add(limit)))
    }

    fn batch(&mut self, lane: usize, disk: usize) -> Option<Job> {
        let bytes_max = self.batch_bytes_max(lane, disk);
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(index) = self.lanes[lane].disks[disk].small.front() {
            let wanted = |f: &&mut File| f.is_for(disk) && f.todo.as_ref().is_some_and(|t| !t.is_empty());
            let Some(file) = self.files.get_mut(&index).filter(wanted) else {
                self.lanes[lane].disks[disk].small.pop();
                continue;
            };
            let len = file.entry.size().expect("small files have a size");
            if items.len() == BATCH_FILES_MAX || (bytes + len > bytes_max && !items.is_empty()) {
                break;
            }
            bytes += len;
            file.todo = Some(ChunkSet::new());
            file.reading += 1;
            items.push(Item { index, generation: file.generation, offset: 0, len: len as u32 });
            self.lanes[lane].disks[disk].small.pop();
        }
        if items.is_empty() {
            return None;
        }
        self.batched_bytes += bytes;
        Some(Job::Batch { parcel: self.parcel(lane, disk, items.clone(), true), items, after: None })
    }

    /// How much goes into the next batch, unless its first file alone has more.
    fn batch_bytes_max(&self, lane: usize, disk: usize) -> u64 {
        let left = self.lanes[lane].disks[disk].small.bytes + self.asked_bytes;
        let most = if self.scan_done { left / SHARES_LEFT } else { u64::MAX };
        (self.batched_bytes / SHARES).min(most).max(BATCH_BYTES_MIN).min(u64::from(self.config.chunk_size))
    }

    fn parcel(&mut self, lane: usize, disk: usize, items: Vec<Item>, batch: bool) -> u64 {
        let id = self.next_parcel;
        self.next_parcel += 1;
        self.under_way[disk] += 1;
        let (lane, disk) = (lane as u8, disk as u8);
        let parcel = Parcel { items, kept: 0, lane, disk, stream: None, batch, repairs: 0, losses: 0, queued: false };
        self.parcels.insert(id, parcel);
        id
    }
}

impl Parcel {
    /// The destination keeps all of it that stands before a place, or nothing if there is no such place within it.
    pub(super) fn keep(&mut self, begun: Begun) {
        let Begun { file, offset, .. } = begun;
        let kept = if self.batch {
            self.items
                .iter()
                .position(|item| item.index == file)
                .map(|at| at as u32 + 1)
                .filter(|files| (*files as usize) < self.items.len())
        } else {
            let item = self.items[0];
            let bytes = offset.checked_sub(item.offset).filter(|_| item.index == file);
            bytes.and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes < item.len)
        };
        self.kept = kept.unwrap_or(0);
    }

    /// Leaves items out that are sent no more. What is kept of a batch is counted without them; if that ended with one of
    /// them, or nothing else is left, all of it is sent again.
    pub(super) fn retain(&mut self, stays: impl Fn(&Item) -> bool) {
        if self.batch {
            let kept = &self.items[..self.kept as usize];
            let is_there = kept.last().is_some_and(&stays);
            self.kept = if is_there { kept.iter().filter(|item| stays(item)).count() as u32 } else { 0 };
        }
        self.items.retain(stays);
        if self.batch && self.kept as usize == self.items.len() {
            self.kept = 0;
        }
    }

    /// What is to be read and sent: all that the destination does not keep, and where that begins.
    fn rest(&self, id: u64) -> (Option<Begun>, Vec<Item>) {
        let kept = if self.batch { self.kept as usize } else { 0 };
        let mut items = self.items[kept..].to_vec();
        let before = if self.batch { self.items[..kept].last() } else { self.items.first() };
        let Some(Item { index, offset, .. }) = before.copied().filter(|_| self.kept > 0) else { return (None, items) };
        if self.batch {
            return (Some(Begun { parcel: id, file: index, offset: 0 }), items);
        }
        for item in &mut items {
            (item.offset, item.len) = (item.offset + u64::from(self.kept), item.len - self.kept);
        }
        (Some(Begun { parcel: id, file: index, offset: offset + u64::from(self.kept) }), items)
    }
}

impl File {
    /// It is to be sent, to this disk: what started again may have got another one, or is compared first.
    fn is_for(&self, disk: usize) -> bool {
        self.failed.is_none() && !self.comparing && usize::from(self.disk) == disk
    }
}
