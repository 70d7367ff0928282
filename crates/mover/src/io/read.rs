//! Readers: files become parcels.
//!
//! Chunks of big files are read by a thread with a ring (many reads in flight), or by several threads with
//! plain positional reads where io_uring is not to be had. Small files are read whole, many to a parcel, by
//! several threads. Digests of whole files are computed on the way, in order.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use proto::control::DigestKind;
use proto::record::Kind;
use proto::source::{Item, Read};
use proto::{Entry, EntryKind};
use sys::file::{Advice, Dir, Meta, OpenFlags, fadvise, read_exact_at, seek_data, seek_hole, set_direct};
use sys::ring::Ring;
use tokio::sync::mpsc;

use super::say;
use crate::digest::{Digest, DigestValue};
use crate::frame::{Frame, Part, Pool};
use crate::request::IoChoice;
use crate::scan::{SourceRef, entry_of, identity_of};

/// Reads in flight of one ring.
pub const RING_DEPTH: u32 = 8;
/// Big files that one thread keeps open.
const OPEN_FILES_MAX: usize = 16;
const IDLE: Duration = Duration::from_millis(500);
/// Bytes read at a time for a digest that could not be computed on the way.
const REREAD_BYTES: usize = 1 << 20;
/// Small files with fewer bytes than this are not asked about holes.
const SPARSE_MIN: u64 = 8192;

/// A file of the source.
#[derive(Debug)]
pub struct SourceFile {
    /// Its index in the manifest.
    pub index: u64,
    /// Its generation.
    pub generation: u8,
    /// Where it is.
    pub place: SourceRef,
    /// What the manifest says of it.
    pub entry: Entry,
    /// Digest on the way, if one was asked for and the file is read from its begin.
    pub digest: Option<Mutex<Running>>,
}

/// A digest that is fed in order.
#[derive(Debug)]
pub struct Running {
    digest: Option<Digest>,
    next: u64,
    waiting: HashMap<u64, Loaded>,
}

impl Running {
    /// A digest that has seen nothing.
    #[must_use]
    pub fn new(kind: DigestKind) -> Running {
        Running { digest: Some(Digest::new(kind)), next: 0, waiting: HashMap::new() }
    }

    /// Takes the next bytes of a file that is read in order.
    pub(super) fn feed_next(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
            self.next += bytes.len() as u64;
        }
    }

    /// The value, if all `size` bytes went through.
    pub fn finish(&mut self, size: u64) -> Option<DigestValue> {
        if self.next < size {
            return None;
        }
        self.digest.take().map(Digest::finish)
    }
}

/// Work for a reader.
#[derive(Debug)]
pub enum Task {
    /// A chunk of a big file.
    Chunk {
        /// Number of the parcel.
        parcel: u64,
        /// The range.
        item: Item,
        /// The file.
        file: Arc<SourceFile>,
    },
    /// Small files.
    Batch {
        /// Number of the parcel.
        parcel: u64,
        /// The files.
        items: Vec<(Item, Arc<SourceFile>)>,
    },
    /// Compare with the destination's digest.
    Compare {
        /// The file.
        file: Arc<SourceFile>,
        /// BLAKE3 there.
        digest: [u8; 32],
    },
    /// A digest for the report, of a file whose bytes did not all pass.
    Digest {
        /// The file.
        file: Arc<SourceFile>,
        /// Kind.
        kind: DigestKind,
    },
}

/// A parcel in memory and what came of its items.
#[derive(Debug)]
pub struct Loaded {
    /// The parcel; parts of items that failed are left out.
    pub frame: Frame,
    /// What came of each item.
    pub results: Vec<(Item, Read)>,
}

/// News of the readers.
#[derive(Debug)]
pub enum ReadEvent {
    /// A parcel was read.
    Loaded(Loaded),
    /// A file was compared.
    Compared {
        /// Its index.
        index: u64,
        /// True if it is the same.
        same: Result<bool, String>,
    },
    /// A digest for the report.
    Digest {
        /// Index of the file.
        index: u64,
        /// The value.
        value: Result<DigestValue, String>,
    },
}

/// What readers share.
pub struct Shared {
    /// The directory that the sources lie beneath.
    pub root: Dir,
    /// Where frames come from.
    pub pool: Pool,
    /// News for the session.
    pub events: mpsc::Sender<ReadEvent>,
    /// Which I/O may be used.
    pub io: IoChoice,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Attributes beyond mode and mtime are kept (for entries of files that changed).
    pub preserve_all: bool,
    /// Time that readers were busy, µs, summed over threads.
    pub busy_us: AtomicU64,
    /// Stop as soon as possible.
    pub stop: AtomicBool,
}

impl Shared {
    /// A frame; `None` when the session is over.
    pub(super) fn frame(&self) -> Option<Frame> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(frame) = self.pool.take(IDLE) {
                return Some(frame);
            }
        }
    }

    pub(super) fn tell(&self, event: ReadEvent) {
        if let Err(gone) = self.events.blocking_send(event)
            && let ReadEvent::Loaded(loaded) = gone.0
        {
            self.pool.give(loaded.frame);
        }
    }

    /// What the file is now, against what the manifest says.
    fn check(&self, file: &SourceFile, by: impl FnOnce() -> io::Result<Meta>) -> Read {
        let EntryKind::File(identity) = &file.entry.kind else { return Read::Whole };
        match by() {
            Ok(meta) if identity_of(&meta) == *identity => Read::Whole,
            Ok(_) => self.changed(file),
            Err(e) => Read::Failed(say(&format!("reading {}", file.entry.path), &e)),
        }
    }

    fn changed(&self, file: &SourceFile) -> Read {
        match entry_of(&self.root, &file.place, &file.entry.path, self.preserve_all) {
            Ok(entry) if matches!(entry.kind, EntryKind::File(_)) => Read::Changed(Box::new(entry)),
            Ok(_) => Read::Failed(format!("{} is no regular file any more", file.entry.path)),
            Err(e) => Read::Failed(say(&format!("reading {}", file.entry.path), &e)),
        }
    }
}

/// The next task; `None` when the queue is closed.
pub(super) fn next(queue: &Receiver<Task>) -> Option<Task> {
    loop {
        match queue.recv_timeout(IDLE) {
            Ok(task) => return Some(task),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Reads small files, compares, computes late digests, until the queue is closed.
pub fn read_batches(shared: &Shared, queue: &Receiver<Task>) {
    while let Some(task) = next(queue) {
        let begin = Instant::now();
        match task {
            Task::Batch { parcel, items } => {
                let Some(frame) = shared.frame() else { return };
                let begin = Instant::now();
                let loaded = load_batch(shared, frame, parcel, items);
                shared.busy_us.fetch_add(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
                shared.tell(ReadEvent::Loaded(loaded));
                continue;
            }
            Task::Compare { file, digest } => {
                let same =
                    compare(shared, &file, &digest).map_err(|e| say(&format!("reading {}", file.entry.path), &e));
                shared.tell(ReadEvent::Compared { index: file.index, same });
            }
            Task::Digest { file, kind } => {
                let value = reread(shared, &file, kind);
                shared.tell(ReadEvent::Digest { index: file.index, value });
            }
            Task::Chunk { .. } => unreachable!("chunks have their own queue"),
        }
        shared.busy_us.fetch_add(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

fn load_batch(shared: &Shared, mut frame: Frame, parcel: u64, items: Vec<(Item, Arc<SourceFile>)>) -> Loaded {
    (frame.parcel, frame.kind) = (parcel, Kind::Small);
    let mut results = Vec::with_capacity(items.len());
    let mut filled = 0;
    for (item, file) in items {
        let before = frame.parts.len();
        let read = match load_small(shared, &mut frame, filled, item, &file) {
            Ok((end, read)) => {
                filled = if read == Read::Whole { end } else { filled };
                read
            }
            Err(e) => Read::Failed(say(&format!("reading {}", file.entry.path), &e)),
        };
        if read != Read::Whole {
            frame.parts.truncate(before);
        }
        results.push((item, read));
    }
    Loaded { frame, results }
}

/// Reads one small file behind what is in the frame; gives the new end.
fn load_small(
    shared: &Shared,
    frame: &mut Frame,
    at: usize,
    item: Item,
    file: &SourceFile,
) -> io::Result<(usize, Read)> {
    let fd = shared.root.open_file(&file.place.path, OpenFlags { no_atime: true, ..OpenFlags::read() })?;
    let (len, first) = (item.len as usize, frame.parts.len());
    let mut end = at;
    let mut part = |offset: u64, start: usize, len: usize| {
        let part = Part {
            file: item.index,
            generation: item.generation,
            offset,
            start: start as u32,
            len: len as u32,
            file_end: false,
        };
        frame.parts.push(part);
    };
    let sparse = len as u64 >= SPARSE_MIN && Meta::of(&fd)?.blocks * 512 < len as u64;
    if sparse {
        let mut offset = seek_data(&fd, 0)?;
        while let Some(begin) = offset.filter(|o| *o < len as u64) {
            let stop = seek_hole(&fd, begin)?.unwrap_or(len as u64).min(len as u64);
            let n = read_exact_at(&fd, &mut frame.buf[end..end + (stop - begin) as usize], begin)?;
            part(begin, end, n);
            end += n;
            offset = seek_data(&fd, stop)?;
        }
    } else {
        let n = read_exact_at(&fd, &mut frame.buf[at..at + len], 0)?;
        if n < len {
            return Ok((at, shared.changed(file)));
        }
        if n > 0 {
            part(0, at, n);
        }
        end = at + n;
    }
    if frame.parts.len() == first {
        frame.parts.push(Part {
            file: item.index,
            generation: item.generation,
            offset: 0,
            start: at as u32,
            len: 0,
            file_end: false,
        });
    }
    frame.parts.last_mut().expect("just seen").file_end = true;
    let read = shared.check(file, || Meta::of(&fd));
    if read == Read::Whole {
        let parts = frame.parts[first..].to_vec();
        feed_now(file, &frame.buf, &parts, len as u64);
    }
    Ok((end, read))
}

/// Feeds a small file to its digest.
fn feed_now(file: &SourceFile, buf: &[u8], parts: &[Part], size: u64) {
    if let Some(running) = &file.digest {
        let mut running = running.lock().expect("no panic under the lock");
        if running.next == 0 {
            feed(&mut running, buf, parts, 0, size);
        }
    }
}

/// Feeds the bytes `[from, to)` of a file, of which `parts` are data and the rest holes.
fn feed(running: &mut Running, buf: &[u8], parts: &[Part], from: u64, to: u64) {
    let Some(digest) = &mut running.digest else { return };
    let mut at = from;
    for part in parts {
        digest.update_zeros(part.offset - at);
        digest.update(&buf[part.start as usize..(part.start + part.len) as usize]);
        at = part.offset + u64::from(part.len);
    }
    digest.update_zeros(to - at);
    running.next = to;
}

fn compare(shared: &Shared, file: &SourceFile, digest: &[u8; 32]) -> io::Result<bool> {
    let fd = shared.root.open_file(&file.place.path, OpenFlags { no_atime: true, ..OpenFlags::read() })?;
    Ok(super::decide::digest_of_open(&fd)? == *digest)
}

fn reread(shared: &Shared, file: &SourceFile, kind: DigestKind) -> Result<DigestValue, String> {
    let read = || -> io::Result<DigestValue> {
        let fd = shared.root.open_file(&file.place.path, OpenFlags { no_atime: true, ..OpenFlags::read() })?;
        let mut digest = Digest::new(kind);
        let mut buf = vec![0; REREAD_BYTES];
        let mut at = 0;
        loop {
            let n = read_exact_at(&fd, &mut buf, at)?;
            digest.update(&buf[..n]);
            at += n as u64;
            if n < buf.len() {
                return Ok(digest.finish());
            }
        }
    };
    read().map_err(|e| say(&format!("reading {}", file.entry.path), &e))
}

struct OpenFile {
    fd: Arc<OwnedFd>,
    /// For what O_DIRECT cannot do.
    cached: OwnedFd,
    sparse: bool,
    used: u64,
}

struct InFlight {
    parcel: u64,
    parts: Vec<Part>,
    item: Item,
    file: Arc<SourceFile>,
    begin: Instant,
}

/// Reads chunks of big files until the queue is closed.
pub struct ChunkReader<'a> {
    shared: &'a Shared,
    ring: Ring,
    files: HashMap<(u64, u8), OpenFile>,
    flying: HashMap<u64, InFlight>,
    token: u64,
}

impl<'a> ChunkReader<'a> {
    /// A reader with its ring.
    #[must_use]
    pub fn new(shared: &'a Shared, mut ring: Ring) -> ChunkReader<'a> {
        if let Err(error) = ring.register(shared.pool.slab()) {
            tracing::debug!(%error, "buffers are not registered");
        }
        ChunkReader { shared, ring, files: HashMap::new(), flying: HashMap::new(), token: 0 }
    }

    /// Runs until the queue is closed.
    pub fn run(mut self, queue: &Receiver<Task>) {
        let mut open = true;
        while open || !self.flying.is_empty() {
            while open && !self.ring.is_full() {
                let task = if self.flying.is_empty() {
                    next(queue)
                } else {
                    match queue.try_recv() {
                        Ok(task) => Some(task),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => None,
                    }
                };
                match task {
                    Some(Task::Chunk { parcel, item, file }) => self.begin(parcel, item, file),
                    Some(_) => unreachable!("only chunks are queued here"),
                    None => open = false,
                }
                if self.shared.stop.load(Ordering::Relaxed) {
                    open = false;
                }
            }
            self.harvest();
        }
    }

    /// Waits for a read and hands on what is there.
    fn harvest(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        if let Err(error) = self.ring.wait(1) {
            tracing::error!(%error, "waiting for reads");
            return;
        }
        while let Some(done) = self.ring.poll() {
            let mut job = self.flying.remove(&done.token).expect("every operation has its token");
            let mut frame = Frame {
                buf: done.buf,
                parts: std::mem::take(&mut job.parts),
                parcel: job.parcel,
                kind: Kind::Chunk,
                corrupt: false,
            };
            let wanted = job.item.len as usize;
            let read = match done.result {
                Ok(n) if n >= wanted => Ok(wanted),
                // A short direct read ends at the end of the file, or at something odd: the plain call tells.
                Ok(_) => self.cached_read(&job, &mut frame),
                Err(e) => Err(e),
            };
            self.finish(job, frame, read);
        }
    }

    fn cached_read(&self, job: &InFlight, frame: &mut Frame) -> io::Result<usize> {
        let open = &self.files[&(job.file.index, job.item.generation)];
        read_exact_at(&open.cached, &mut frame.buf[..job.item.len as usize], job.item.offset)
    }

    fn begin(&mut self, parcel: u64, item: Item, file: Arc<SourceFile>) {
        let Some(mut frame) = self.frame() else { return };
        (frame.parcel, frame.kind) = (parcel, Kind::Chunk);
        let begin = Instant::now();
        let job = InFlight { parcel, parts: Vec::new(), item, file, begin };
        if let Err(error) = self.open(&job) {
            return self.finish(job, frame, Err(error));
        }
        let open = &self.files[&(job.file.index, item.generation)];
        if open.sparse {
            let read = read_sparse(open, item, &mut frame);
            return self.finish_sparse(job, frame, read);
        }
        frame.parts.push(whole(item));
        let len = (item.len as usize).next_multiple_of(sys::buffer::BUFFER_ALIGN_BYTES).min(frame.buf.len());
        let fd = open.fd.clone();
        self.token += 1;
        let Frame { buf, parts, parcel, .. } = frame;
        match self.ring.submit_read(&fd, item.offset, buf, 0..len, self.token) {
            Ok(()) => {
                self.flying.insert(self.token, InFlight { parts, ..job });
                // Several reads go to the kernel with one call, unless there is nothing else to wait for.
                let _ = self.ring.submit();
            }
            Err(rejected) => {
                let frame = Frame { buf: rejected.buf, parts, parcel, kind: Kind::Chunk, corrupt: false };
                self.finish(job, frame, Err(rejected.error));
            }
        }
    }

    /// A frame; while none is free, reads that are in flight are handed on, for they will free some.
    fn frame(&mut self) -> Option<Frame> {
        loop {
            if self.flying.is_empty() {
                return self.shared.frame();
            }
            if let Some(frame) = self.shared.pool.take(Duration::ZERO) {
                return Some(frame);
            }
            self.harvest();
        }
    }

    fn open(&mut self, job: &InFlight) -> io::Result<()> {
        let key = (job.file.index, job.item.generation);
        let used = self.token;
        if let Some(open) = self.files.get_mut(&key) {
            open.used = used;
            return Ok(());
        }
        if self.files.len() >= OPEN_FILES_MAX {
            let flying = |k: &(u64, u8)| self.flying.values().any(|f| (f.file.index, f.item.generation) == *k);
            let oldest = self.files.iter().filter(|(k, _)| !flying(k)).min_by_key(|(_, f)| f.used).map(|(k, _)| *k);
            if let Some(oldest) = oldest {
                self.files.remove(&oldest);
            }
        }
        let flags = OpenFlags { no_atime: true, ..OpenFlags::read() };
        let fd = self.shared.root.open_file(&job.file.place.path, flags)?;
        let cached = self.shared.root.open_file(&job.file.place.path, flags)?;
        let meta = Meta::of(&fd)?;
        let sparse = meta.blocks * 512 < meta.size;
        let direct = self.shared.io == IoChoice::Measure && set_direct(&fd, true).unwrap_or(false);
        if !direct {
            let _ = fadvise(&fd, 0, 0, Advice::Sequential);
        }
        self.files.insert(key, OpenFile { fd: Arc::new(fd), cached, sparse, used });
        Ok(())
    }

    fn finish_sparse(&self, job: InFlight, mut frame: Frame, read: io::Result<Vec<Part>>) {
        match read {
            Ok(parts) => {
                frame.parts = parts;
                let len = job.item.len as usize;
                self.finish(job, frame, Ok(len));
            }
            Err(error) => self.finish(job, frame, Err(error)),
        }
    }

    /// A chunk is in memory, or not: looks whether the file has changed, feeds the digest, tells.
    fn finish(&self, job: InFlight, frame: Frame, read: io::Result<usize>) {
        let read = match read {
            Ok(n) if n == job.item.len as usize => {
                self.shared.check(&job.file, || self.shared.root.stat(&job.file.place.path))
            }
            Ok(_) => self.shared.changed(&job.file),
            Err(e) => Read::Failed(say(&format!("reading {}", job.file.entry.path), &e)),
        };
        self.shared.busy_us.fetch_add(job.begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        let whole = read == Read::Whole;
        let loaded = Loaded { frame, results: vec![(job.item, read)] };
        match &job.file.digest {
            Some(running) if whole => self.in_order(running, loaded),
            Some(running) => {
                // No digest will come of this state of the file; what waits for it goes on without.
                let mut running = running.lock().expect("no panic under the lock");
                running.digest = None;
                for (_, waiting) in running.waiting.drain() {
                    self.shared.tell(ReadEvent::Loaded(waiting));
                }
                self.shared.tell(ReadEvent::Loaded(loaded));
            }
            None => self.shared.tell(ReadEvent::Loaded(loaded)),
        }
    }

    /// Hands chunks on in the order of the file, for its digest.
    fn in_order(&self, running: &Mutex<Running>, loaded: Loaded) {
        let mut running = running.lock().expect("no panic under the lock");
        let offset = loaded.results[0].0.offset;
        if offset < running.next || running.digest.is_none() {
            return self.shared.tell(ReadEvent::Loaded(loaded));
        }
        running.waiting.insert(offset, loaded);
        while let Some(loaded) = {
            let at = running.next;
            running.waiting.remove(&at)
        } {
            let item = loaded.results[0].0;
            let parts = loaded.frame.parts.iter().filter(|p| p.len > 0).copied().collect::<Vec<_>>();
            feed(&mut running, &loaded.frame.buf, &parts, item.offset, item.offset + u64::from(item.len));
            self.shared.tell(ReadEvent::Loaded(loaded));
        }
    }
}

fn whole(item: Item) -> Part {
    Part {
        file: item.index,
        generation: item.generation,
        offset: item.offset,
        start: 0,
        len: item.len,
        file_end: false,
    }
}

/// Reads the data of a chunk and leaves its holes out.
fn read_sparse(open: &OpenFile, item: Item, frame: &mut Frame) -> io::Result<Vec<Part>> {
    let end = item.offset + u64::from(item.len);
    let mut parts = Vec::new();
    let mut at = seek_data(&open.cached, item.offset)?;
    while let Some(begin) = at.filter(|b| *b < end) {
        let stop = seek_hole(&open.cached, begin)?.unwrap_or(end).min(end);
        let start = (begin - item.offset) as usize;
        let len = (stop - begin) as usize;
        if read_exact_at(&open.cached, &mut frame.buf[start..start + len], begin)? < len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        parts.push(Part { offset: begin, start: start as u32, len: len as u32, ..whole(item) });
        at = seek_data(&open.cached, stop)?;
    }
    if parts.is_empty() {
        parts.push(Part { len: 0, ..whole(item) });
    }
    Ok(parts)
}
