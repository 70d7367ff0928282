//! Chunks of big files, many reads in flight.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use proto::ChunkSet;
use proto::control::Begun;
use proto::record::Kind;
use proto::source::{Item, Read};
use sys::buffer::BUFFER_ALIGN_BYTES;
use sys::file::{Advice, Cache, begin_read_at, fadvise, read_exact_at, seek_data};
use sys::ring::Ring;

use super::files::OpenFile;
use super::sparse::read_data;
use super::{Loaded, ReadEvent, Running, Shared, SourceFile, Task, feed, next, whole};
use crate::frame::{Frame, Part};
use crate::io::say;
use crate::io::trial::{ReadTrial, Way};

/// Devices whose better way is remembered; further ones share the last place.
const DEVICES_MAX: usize = 32;

/// Bytes asked of the disk with one call: the kernel takes no more than its window for reading ahead, 128 KiB if nobody
/// changed it.
const ASK_BYTES: u64 = 128 << 10;

struct InFlight {
    parcel: u64,
    parts: Vec<Part>,
    item: Item,
    /// It is the rest of a chunk, from here on.
    after: Option<Begun>,
    file: Arc<SourceFile>,
    begin: Instant,
    /// How it is read, where there is a choice.
    way: Option<(u64, Way)>,
    /// It enters the page cache for this read, and leaves it afterwards.
    passes: bool,
}

/// Reads chunks of big files until the queue is closed.
pub struct ChunkReader<'a> {
    shared: &'a Shared,
    ring: Ring,
    flying: HashMap<u64, InFlight>,
    token: u64,
    trials: HashMap<u64, ReadTrial>,
}

impl<'a> ChunkReader<'a> {
    /// A reader with its ring.
    #[must_use]
    pub fn new(shared: &'a Shared, ring: Ring) -> ChunkReader<'a> {
        let (flying, trials) = (HashMap::new(), HashMap::new());
        ChunkReader { shared, ring, flying, token: 0, trials }
    }

    /// Runs until the queue is closed.
    pub fn run(mut self, queue: &Receiver<Task>) {
        let (shared, mut open) = (self.shared, true);
        while open || !self.flying.is_empty() {
            while open && !self.ring.is_full() {
                let turn = shared.turn.lock().expect("no panic under the lock");
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
                    Some(Task::Chunk { parcel, item, file, after }) => self.begin(parcel, item, after, file, turn),
                    Some(_) => unreachable!("only chunks are queued here"),
                    None => open = false,
                }
                if shared.stop.load(Ordering::Relaxed) {
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
            let parts = std::mem::take(&mut job.parts);
            let mut frame = Frame { after: job.after, ..Frame::of_chunk(done.buf, parts, job.parcel) };
            let wanted = job.item.len as usize;
            if let Some((device, way)) = job.way
                && wanted == frame.buf.len()
            {
                self.trial(device).took(way, job.begin.elapsed());
            }
            if job.passes {
                let _ = fadvise(&done.file, job.item.offset, u64::from(job.item.len), Advice::DontNeed);
            }
            let read = match done.result {
                Ok(n) if done.range.start + n >= wanted => Ok(wanted),
                // A short direct read ends at the end of the file, or at something odd: the plain call tells.
                Ok(_) => self.cached_read(&job, &mut frame),
                Err(e) => Err(e),
            };
            self.finish(job, frame, read);
        }
    }

    fn cached_read(&self, job: &InFlight, frame: &mut Frame) -> io::Result<usize> {
        let open = self.open(job)?;
        read_exact_at(&open.cached, &mut frame.buf[..job.item.len as usize], job.item.offset)
    }

    /// Begins to read a chunk in its `turn`, which passes on then.
    fn begin(
        &mut self,
        parcel: u64,
        item: Item,
        after: Option<Begun>,
        file: Arc<SourceFile>,
        turn: MutexGuard<'_, ()>,
    ) {
        let Some(mut frame) = self.frame() else { return };
        (frame.parcel, frame.kind, frame.after) = (parcel, Kind::Chunk, after);
        let begin = Instant::now();
        let mut job = InFlight { parcel, parts: Vec::new(), item, after, file, begin, way: None, passes: false };
        let open = match self.open(&job) {
            Ok(open) => open,
            Err(error) => return self.finish(job, frame, Err(error)),
        };
        if open.sparse {
            drop(turn);
            return self.read_sparse(job, frame, &open);
        }
        frame.parts.push(whole(item));
        let len = (item.len as usize).next_multiple_of(BUFFER_ALIGN_BYTES).min(frame.buf.len());
        let (mut fd, cached, device, cache) = (open.fd.clone(), open.cached.clone(), open.device, open.cache);
        // The rest of a chunk may begin where no direct read can.
        let is_aligned = item.offset.is_multiple_of(BUFFER_ALIGN_BYTES as u64);
        if open.direct && !is_aligned {
            fd = cached;
        } else if open.direct {
            let way = self.trial(device).choose();
            job.way = Some((device, way));
            fd = if way == Way::Direct { fd } else { cached };
        }
        let mut begun = 0;
        if !open.direct {
            job.passes = cache == Cache::Stays && !open.is_theirs(item.offset);
            match begin_read_at(&fd, &mut frame.buf[..len], item.offset, cache) {
                Some(there) => begun = there,
                None => ask_ahead(&fd, item),
            }
        }
        drop(turn);
        self.token += 1;
        let Frame { buf, parts, parcel, .. } = frame;
        match self.ring.submit_read(&fd, cache, item.offset + begun as u64, buf, begun..len, self.token) {
            Ok(()) => {
                self.flying.insert(self.token, InFlight { parts, ..job });
                // Several reads go to the kernel with one call, unless there is nothing else to wait for.
                let _ = self.ring.submit();
            }
            Err(rejected) => {
                let frame = Frame::of_chunk(rejected.buf, parts, parcel);
                self.finish(job, frame, Err(rejected.error));
            }
        }
    }

    fn trial(&mut self, device: u64) -> &mut ReadTrial {
        let known = self.trials.len() < DEVICES_MAX || self.trials.contains_key(&device);
        self.trials.entry(if known { device } else { u64::MAX }).or_default()
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

    fn open(&self, job: &InFlight) -> io::Result<Arc<OpenFile>> {
        let Shared { files, root, io, .. } = self.shared;
        files.get(root, *io, &job.file)
    }

    /// How far the hole reaches that a chunk lies in. For a digest chunks are needed in their order, each for itself.
    fn hole_end(&self, job: &InFlight, open: &OpenFile) -> Option<u64> {
        let (size, chunk_size) = (job.file.entry.size()?, self.shared.chunk_size);
        if job.file.digest.is_some() {
            return None;
        }
        match seek_data(&open.cached, job.item.offset).ok()? {
            Some(data) => Some(data / u64::from(chunk_size)),
            None => Some(ChunkSet::count_of(size, chunk_size)),
        }
    }

    /// Reads a chunk of a file with holes; if it is one itself, all that follow it in the hole are told with it.
    fn read_sparse(&self, job: InFlight, mut frame: Frame, open: &OpenFile) {
        let len = job.item.len as usize;
        match read_data(&open.cached, job.item, &mut frame.buf[..len], 0) {
            Ok(Some(parts)) => {
                let is_hole = parts.iter().all(|part| part.len == 0);
                let hole_end = if is_hole { self.hole_end(&job, open) } else { None };
                frame.parts = parts;
                self.finish_in_hole(job, frame, Ok(len), hole_end);
            }
            Ok(None) => self.finish(job, frame, Ok(0)),
            Err(error) => self.finish(job, frame, Err(error)),
        }
    }

    fn finish(&self, job: InFlight, frame: Frame, read: io::Result<usize>) {
        self.finish_in_hole(job, frame, read, None);
    }

    /// A chunk is in memory, or not: looks whether the file has changed, feeds the digest, tells.
    fn finish_in_hole(&self, job: InFlight, frame: Frame, read: io::Result<usize>, hole_end: Option<u64>) {
        let read = match read {
            Ok(n) if n == job.item.len as usize => {
                self.shared.check(&job.file, || self.shared.root.stat(&job.file.place.path))
            }
            Ok(_) => self.shared.changed(&job.file),
            Err(e) => Read::Failed(say(&format!("reading {}", job.file.entry.path), &e)),
        };
        self.shared.busy.chunks.since(job.begin);
        let whole = read == Read::Whole;
        // Looked at before the file was found unchanged, so it is true of this state of it.
        let hole_end = hole_end.filter(|_| whole);
        let loaded = Loaded { frame, results: vec![(job.item, read)], hole_end };
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

/// Asks the disk for all of a chunk at once, where no read can be begun.
fn ask_ahead(fd: &OwnedFd, item: Item) {
    let end = item.offset + u64::from(item.len);
    for at in (item.offset..end).step_by(ASK_BYTES as usize) {
        let _ = fadvise(fd, at, ASK_BYTES.min(end - at), Advice::WillNeed);
    }
}
