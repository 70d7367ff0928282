//! Readers: files become parcels.
//!
//! Chunks of big files are read by a thread with a ring (many reads in flight), or by several threads with
//! plain positional reads where io_uring is not to be had. Small files are read whole, many to a parcel, by
//! several threads. Digests of whole files are computed on the way, in order.

mod chunks;
mod files;
mod small;
mod sparse;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use chunks::ChunkReader;
use crossbeam_channel::{Receiver, RecvTimeoutError};
pub use files::OpenFiles;
use proto::control::{Begun, DigestKind};
use proto::source::{Item, Read};
use proto::{Entry, EntryKind};
use sys::file::{Dir, Meta, OpenFlags, read_exact_at};
use tokio::sync::mpsc;

use super::busy::DiskBusy;
use super::say;
use crate::digest::{Digest, DigestValue};
use crate::frame::{Frame, Part, Pool};
use crate::request::IoChoice;
use crate::scan::{SourceRef, entry_of, identity_of};

/// Reads in flight of one ring.
pub const RING_DEPTH: u32 = 8;
const IDLE: Duration = Duration::from_millis(500);
/// Bytes read at a time for a digest that could not be computed on the way.
const REREAD_BYTES: usize = 1 << 20;

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
        /// It is the rest of a chunk, from here on.
        after: Option<Begun>,
    },
    /// Small files.
    Batch {
        /// Number of the parcel.
        parcel: u64,
        /// The files.
        items: Vec<(Item, Arc<SourceFile>)>,
        /// They are the rest of a parcel, from here on.
        after: Option<Begun>,
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

impl Task {
    /// True if what comes of it is a parcel.
    #[must_use]
    pub fn takes_frame(&self) -> bool {
        matches!(self, Task::Chunk { .. } | Task::Batch { .. })
    }
}

/// A parcel in memory and what came of its items.
#[derive(Debug)]
pub struct Loaded {
    /// The parcel; parts of items that failed are left out.
    pub frame: Frame,
    /// What came of each item.
    pub results: Vec<(Item, Read)>,
    /// The parcel is a chunk that is a hole, and so are all chunks after it up to but without this one.
    pub hole_end: Option<u64>,
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
    /// News for the session, with the lane.
    pub events: mpsc::Sender<(u8, ReadEvent)>,
    /// Number of the lane: these readers read from one disk.
    pub lane: u8,
    /// Which I/O may be used.
    pub io: IoChoice,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Attributes beyond mode and mtime are kept (for entries of files that changed).
    pub preserve_all: bool,
    /// Big files that these readers have open.
    pub files: OpenFiles,
    /// Held by the reader that takes a chunk and begins to read it.
    pub turn: Mutex<()>,
    /// How busy they are.
    pub busy: DiskBusy,
    /// Stop as soon as possible.
    pub stop: Arc<AtomicBool>,
}

impl Shared {
    /// The same for the readers of another disk.
    #[must_use]
    pub fn for_lane(&self, lane: u8) -> Shared {
        Shared {
            root: self.root.clone(),
            pool: self.pool.clone(),
            events: self.events.clone(),
            lane,
            io: self.io,
            chunk_size: self.chunk_size,
            preserve_all: self.preserve_all,
            files: OpenFiles::default(),
            turn: Mutex::default(),
            busy: DiskBusy::default(),
            stop: self.stop.clone(),
        }
    }

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
        if let Err(gone) = self.events.blocking_send((self.lane, event))
            && let (_, ReadEvent::Loaded(loaded)) = gone.0
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
            Task::Batch { parcel, items, after } => {
                let Some(mut frame) = shared.frame() else { return };
                frame.after = after;
                let begin = Instant::now();
                let loaded = small::load(shared, frame, parcel, &items);
                shared.busy.files.since(begin);
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
        shared.busy.files.since(begin);
    }
}

/// All of a range, at the begin of a frame.
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
