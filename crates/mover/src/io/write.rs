//! Writers: verified parcels become bytes under temporary names.
//!
//! Each disk has writers of its own. Chunks of big files are written by a thread with a ring (many writes in flight), or by several threads
//! with plain positional writes where io_uring is not to be had. Small files are written whole by several
//! threads, for they cost system calls, not bandwidth.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::TryRecvError;
use proto::record::Kind;
use proto::{ChunkSet, EntryKind};
use sys::file::{Advice, Flush, OpenFlags, fadvise, sync_file_range, truncate, write_all_at};
use sys::ring::Ring;
use tokio::sync::mpsc;

use super::arrivals::{Arrivals, Feed};
use super::busy::DiskBusy;
use super::describe::attributes;
use super::place::Place;
use super::target::{BigFile, Target, Targets};
use super::trial::{Way, WriteTrial};
use crate::frame::{Frame, Part, Pool};

/// Writes in flight of one ring.
pub const RING_DEPTH: u32 = 8;
/// Devices whose better way is found; further ones are written directly.
const DEVICES_MAX: usize = 32;
/// Chunks that one thread has written through the page cache and not cleared out of it yet. Four threads keep a disk busy with them,
/// and their memory is used again while it is still in the processor's cache (a mixed tree: 3 chunks 1341 MB/s, 1 1294, 8 1315, 32 less).
const BEHIND_MAX: usize = 3;

/// News of the writers.
#[derive(Debug)]
pub enum WriteEvent {
    /// A parcel is written (or of no interest any more).
    Landed {
        /// Number of the parcel.
        parcel: u64,
        /// Its items: index, generation, offset, whether the file is at its end.
        items: Vec<(u64, u8, u64, bool)>,
    },
    /// A file cannot be written.
    Failed {
        /// Its index.
        index: u64,
        /// Why, for the user.
        why: String,
        /// Every other file would fail too.
        fatal: bool,
    },
}

/// What the writers of one disk share.
pub struct Shared {
    /// The destination.
    pub place: Arc<Place>,
    /// Files that are received.
    pub targets: Arc<Targets>,
    /// Where parcels come from.
    pub arrivals: Arc<Arrivals>,
    /// Where frames go back to.
    pub pool: Pool,
    /// News for the session.
    pub events: mpsc::Sender<WriteEvent>,
    /// Attributes beyond mode and mtime are kept.
    pub preserve_all: bool,
    /// How busy they are.
    pub busy: DiskBusy,
}

impl Shared {
    /// The same for the writers of another disk.
    #[must_use]
    pub fn for_lane(&self) -> Shared {
        Shared {
            place: self.place.clone(),
            targets: self.targets.clone(),
            arrivals: self.arrivals.clone(),
            pool: self.pool.clone(),
            events: self.events.clone(),
            preserve_all: self.preserve_all,
            busy: DiskBusy::default(),
        }
    }
}

/// Writes parcels of small files until no more come.
pub fn write_batches(shared: &Shared, feed: &Feed) {
    while let Some(frame) = feed.next() {
        let begin = Instant::now();
        let mut items = Vec::with_capacity(frame.parts.len());
        let mut parts = frame.parts.as_slice();
        while let Some(first) = parts.first() {
            let run = parts.iter().take_while(|p| p.file == first.file && p.generation == first.generation).count();
            let (file, rest) = parts.split_at(run);
            parts = rest;
            let Some(target) = shared.targets.get(first.file, first.generation) else { continue };
            // A parcel that was sent again may be at work in two threads at once. The first one writes, and tells:
            // until it has, the file is not whole.
            if !target.take_whole() {
                continue;
            }
            items.extend(file.iter().map(|p| (p.file, p.generation, p.offset, p.file_end)));
            if let Err(error) = write_small(shared, &target, &frame, file) {
                failed(shared, &target, &error);
            }
        }
        landed(shared, frame, items, begin);
    }
}

fn landed(shared: &Shared, frame: Frame, items: Vec<(u64, u8, u64, bool)>, begin: Instant) {
    let busy = if frame.kind == Kind::Chunk { &shared.busy.chunks } else { &shared.busy.files };
    busy.since(begin);
    let parcel = frame.parcel;
    shared.arrivals.finish(parcel);
    shared.pool.give(frame);
    // A session that is gone needs no news.
    let _ = shared.events.blocking_send(WriteEvent::Landed { parcel, items });
}

fn failed(shared: &Shared, target: &Target, error: &io::Error) {
    let why = super::say(&format!("writing {}", target.entry.path), error);
    let event = WriteEvent::Failed { index: target.index, why, fatal: super::is_fatal(error) };
    let _ = shared.events.blocking_send(event);
}

fn write_small(shared: &Shared, target: &Target, frame: &Frame, parts: &[Part]) -> io::Result<()> {
    let dir = shared.place.dir(&target.parent)?;
    let flags = OpenFlags { read: false, ..OpenFlags::create_new(target.entry.mode & 0o777) };
    let file = match dir.open_file(&target.temp, flags) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // Left by a run that was killed.
            dir.unlink(&target.temp)?;
            dir.open_file(&target.temp, flags)?
        }
        opened => opened?,
    };
    let mut end = 0;
    for part in parts {
        if part.len > 0 {
            let start = part.start as usize;
            write_all_at(&file, &frame.buf[start..start + part.len as usize], part.offset)?;
            end = part.offset + u64::from(part.len);
        }
    }
    let size = target.entry.size().unwrap_or(end);
    if end != size {
        truncate(&file, size)?;
    }
    attributes(&file, &target.entry, shared.place.preserves(shared.preserve_all))?;
    if target.is_dead() {
        let _ = dir.unlink(&target.temp);
    }
    Ok(())
}

struct InFlight {
    parcel: u64,
    parts: Vec<Part>,
    target: Arc<Target>,
    begin: Instant,
    way: Way,
}

/// Finds the better way for each device that chunks are written to.
#[derive(Default)]
struct Trials {
    devices: HashMap<u64, WriteTrial>,
    /// When the last write ended.
    ended: Option<Instant>,
    behind: Behind,
}

/// What was written through the page cache and is still there.
///
/// It is sent to the disk at once: left to the kernel it would wait, and the disk idle, until the file is made durable at its
/// end. And it leaves the cache some chunks later, as what goes past the cache never enters it: memory that was used a moment ago
/// takes the next chunks, others' files stay where they are, and no more is dirty than the disk writes in a moment.
///
/// `RWF_DONTCACHE` promises the same, and costs more: the kernel takes each page out by itself, when it is written. A mixed tree goes
/// at 1161 MB/s with it, at 1224 so.
#[derive(Default)]
struct Behind {
    chunks: VecDeque<(Arc<OwnedFd>, u64, u64)>,
}

impl Behind {
    fn add(&mut self, file: &BigFile, offset: u64, bytes: u64) {
        // Where this is not known the kernel writes when it likes. A failure is told again when the file is made durable:
        // that goes over the other descriptor, and each tells once.
        let _ = sync_file_range(&file.aligned, offset, bytes, Flush::Start);
        self.chunks.push_back((file.aligned.clone(), offset, bytes));
        if self.chunks.len() > BEHIND_MAX {
            self.chunks.pop_front().inspect(|(fd, offset, bytes)| clear(fd, *offset, *bytes));
        }
    }
}

impl Drop for Behind {
    /// What is durable by now leaves too; the rest belongs to a copy that did not come to its end.
    fn drop(&mut self) {
        for (fd, offset, bytes) in &self.chunks {
            let _ = fadvise(fd, *offset, *bytes, Advice::DontNeed);
        }
    }
}

/// Waits until a range is on the disk and takes it out of the page cache.
fn clear(fd: &OwnedFd, offset: u64, bytes: u64) {
    let _ = sync_file_range(fd, offset, bytes, Flush::Wait);
    let _ = fadvise(fd, offset, bytes, Advice::DontNeed);
}

impl Trials {
    fn next(&mut self, file: &BigFile) -> Way {
        if !file.direct {
            return Way::Cached;
        }
        let known = self.devices.len() < DEVICES_MAX || self.devices.contains_key(&file.device);
        if known { self.devices.entry(file.device).or_default().choose() } else { Way::Direct }
    }

    /// A write has ended. A trial of the page cache waits until the bytes are on the disk.
    fn ended(&mut self, job: &InFlight, file: &BigFile, offset: u64, bytes: u64) {
        let trial = self.devices.get_mut(&file.device).filter(|trial| file.direct && trial.is_open());
        if let Some(trial) = trial {
            if job.way == Way::Cached {
                clear(&file.aligned, offset, bytes);
            }
            let since = self.ended.map_or(job.begin, |ended| ended.max(job.begin));
            trial.took(job.way, bytes, since.elapsed());
            if !trial.is_open() && trial.choose() == Way::Cached {
                tracing::info!(device = file.device, "writing through the page cache is faster here");
            }
            self.ended = Some(Instant::now());
        } else if job.way == Way::Cached {
            self.behind.add(file, offset, bytes);
        }
    }
}

/// Writes chunks of big files until no more come.
pub fn write_chunks(shared: &Shared, feed: &Feed, mut ring: Ring) {
    let mut trials = Trials::default();
    let mut flying: HashMap<u64, InFlight> = HashMap::new();
    let mut token = 0;
    let mut open = true;
    while open || !flying.is_empty() {
        while open && !ring.is_full() {
            let frame = if flying.is_empty() {
                feed.next()
            } else {
                match feed.try_next() {
                    Ok(frame) => Some(frame),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => None,
                }
            };
            let Some(frame) = frame else {
                open = false;
                break;
            };
            token += 1;
            if let Some(job) = begin_chunk(shared, frame, &mut ring, token, &mut trials) {
                flying.insert(token, job);
            }
        }
        if flying.is_empty() {
            continue;
        }
        if let Err(error) = ring.wait(1) {
            tracing::error!(%error, "waiting for writes");
            return;
        }
        while let Some(done) = ring.poll() {
            let job = flying.remove(&done.token).expect("every operation has its token");
            let result = match done.result {
                Ok(n) if n == done.range.len() => Ok(()),
                // Short writes happen at the limits of a disk: the plain call gives the reason.
                Ok(n) => {
                    write_all_at(job.cached(), &done.buf[done.range.start + n..done.range.end], done.offset + n as u64)
                }
                Err(e) => Err(e),
            };
            if let (Ok(()), Some(file)) = (&result, job.target.file()) {
                trials.ended(&job, file, done.offset, done.range.len() as u64);
            }
            let frame = Frame::of_chunk(done.buf, job.parts, job.parcel);
            finish_chunk(shared, &job.target, frame, result, job.begin);
        }
    }
}

impl InFlight {
    fn cached(&self) -> Arc<OwnedFd> {
        self.target.file().expect("a chunk in flight has its file").cached.clone()
    }
}

/// Starts the write of a chunk; writes at once what cannot go through the ring.
fn begin_chunk(
    shared: &Shared,
    mut frame: Frame,
    ring: &mut Ring,
    token: u64,
    trials: &mut Trials,
) -> Option<InFlight> {
    let begin = Instant::now();
    let first = *frame.parts.first().expect("a parcel has a part");
    let Some(target) = shared.targets.get(first.file, first.generation) else {
        let items = frame.parts.iter().map(|p| (p.file, p.generation, p.offset, p.file_end)).collect();
        landed(shared, frame, items, begin);
        return None;
    };
    if !target.take_chunk(first.offset / frame.buf.len() as u64) {
        landed(shared, frame, Vec::new(), begin);
        return None;
    }
    let file = match target.open(&ChunkSet::new()) {
        Ok(file) => file,
        // It begins anew, or was given up; what happens to this one is nobody's business any more.
        Err(_) if target.is_dead() => {
            landed(shared, frame, Vec::new(), begin);
            return None;
        }
        Err(error) => {
            finish_chunk(shared, &target, frame, Err(error), begin);
            return None;
        }
    };
    if let Err(error) = punch_gaps(shared, &frame, &target, file) {
        finish_chunk(shared, &target, frame, Err(error), begin);
        return None;
    }
    match aligned_range(&mut frame, &target, file) {
        Some((range, offset)) => {
            let Frame { buf, parts, parcel, .. } = frame;
            let way = trials.next(file);
            let fd = if way == Way::Direct { &file.aligned } else { &file.cached };
            match ring.submit_write(fd, offset, buf, range, token) {
                Ok(()) => Some(InFlight { parcel, parts, target, begin, way }),
                Err(rejected) => {
                    let frame = Frame::of_chunk(rejected.buf, parts, parcel);
                    finish_chunk(shared, &target, frame, Err(rejected.error), begin);
                    None
                }
            }
        }
        None => {
            let write = |p: &Part| {
                let start = p.start as usize;
                write_all_at(&file.cached, &frame.buf[start..start + p.len as usize], p.offset)
            };
            let result = frame.parts.iter().filter(|p| p.len > 0).try_for_each(write);
            finish_chunk(shared, &target, frame, result, begin);
            None
        }
    }
}

/// Gives back the space of what a chunk does not carry: those are holes of the source.
fn punch_gaps(shared: &Shared, frame: &Frame, target: &Target, file: &BigFile) -> io::Result<()> {
    let Some(size) = target.entry.size() else { return Ok(()) };
    let chunk = frame.buf.len() as u64;
    debug_assert_eq!(frame.buf.len(), shared.pool.slab().size_bytes());
    let begin = frame.parts[0].offset / chunk * chunk;
    let end = (begin + chunk).min(size);
    let mut at = begin;
    for part in &frame.parts {
        if part.offset > at {
            sys::file::punch_hole(&file.cached, at, part.offset - at)?;
        }
        at = part.offset + u64::from(part.len);
    }
    if at < end {
        sys::file::punch_hole(&file.cached, at, end - at)?;
    }
    Ok(())
}

/// Bytes that direct writes are multiples of.
const ALIGN: usize = sys::buffer::BUFFER_ALIGN_BYTES;

/// The whole chunk as one write, if it is one run of bytes; the tail of a file is filled up with zeros to
/// what O_DIRECT needs and cut off when the file is published.
fn aligned_range(frame: &mut Frame, target: &Target, file: &BigFile) -> Option<(std::ops::Range<usize>, u64)> {
    let [part] = frame.parts.as_slice() else { return None };
    let (start, len) = (part.start as usize, part.len as usize);
    if len == 0 {
        return None;
    }
    if !file.direct {
        return Some((start..start + len, part.offset));
    }
    let at_end = target.entry.size().is_none_or(|size| part.offset + len as u64 == size);
    let up = len.next_multiple_of(ALIGN);
    if !start.is_multiple_of(ALIGN) || start + up > frame.buf.len() || (up != len && !at_end) {
        return None;
    }
    let offset = part.offset;
    frame.buf[start + len..start + up].fill(0);
    Some((start..start + up, offset))
}

fn finish_chunk(shared: &Shared, target: &Target, frame: Frame, result: io::Result<()>, begin: Instant) {
    if let Err(error) = &result {
        failed(shared, target, error);
    }
    let first = frame.parts.first().expect("a parcel has a part");
    let items = if result.is_ok() && matches!(target.entry.kind, EntryKind::File(_) | EntryKind::Stream) {
        vec![(first.file, first.generation, first.offset, false)]
    } else {
        Vec::new()
    };
    landed(shared, frame, items, begin);
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use sys::file::{fsync, is_cached};

    use super::*;

    const CHUNK: usize = 1 << 20;

    #[test]
    fn what_a_writer_leaves_behind_goes_with_it_once_it_is_durable() {
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let big = BigFile { aligned: file.clone(), cached: file.clone(), direct: false, device: 0 };
        // Looking for a page asks for it, and for nothing around it: each look is at another one.
        let look = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        fadvise(&look, 0, 0, Advice::Random).unwrap();
        let at = |chunk: usize, page: usize| (chunk * CHUNK + page * 4096) as u64;
        let mut behind = Behind::default();
        for chunk in 0..=BEHIND_MAX {
            write_all_at(&file, &[7; CHUNK], at(chunk, 0)).unwrap();
            behind.add(&big, at(chunk, 0), CHUNK as u64);
        }
        if is_cached(&look, at(0, 1)) {
            eprintln!("skipped: this file system does not tell what is in the page cache");
            return;
        }
        assert_eq!(behind.chunks.len(), BEHIND_MAX);
        assert!(is_cached(&look, at(BEHIND_MAX, 1)), "the last ones stay for a while");
        fsync(&file).unwrap();
        drop(behind);
        // A page that a look asks for may come in before the look ends, if that is held up; of several not all do.
        assert!((0..=BEHIND_MAX).all(|chunk| (3..8).any(|page| !is_cached(&look, at(chunk, page)))));
    }
}
