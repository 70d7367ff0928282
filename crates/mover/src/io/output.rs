//! Standard output as a destination: chunks are put in order and written as they come due.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Receiver;
use proto::record::Kind;
use tokio::sync::mpsc;

use super::busy::Busy;
use super::say;
use super::write::WriteEvent;
use crate::frame::{Frame, Pool};

/// Chunks that the source may send ahead of the oldest one that is not written: what waits here at most.
pub const REORDER_CHUNKS: u32 = 16;
/// Holes are written this many zeros at a time.
const ZEROS: usize = 64 << 10;

/// What the writer shares with its session.
pub struct Shared {
    /// Where frames go back to.
    pub pool: Pool,
    /// News for the session.
    pub events: mpsc::Sender<WriteEvent>,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Size of the file; `u64::MAX` while it is not known, and for a pipe.
    pub size: AtomicU64,
    /// How busy the writer is.
    pub busy: Busy,
}

/// Writes parcels of the one file in order until the queue is closed.
pub struct OutputWriter {
    shared: Arc<Shared>,
    output: File,
    /// The next chunk to be written; those that came before their turn wait.
    next: u64,
    early: BTreeMap<u64, Frame>,
    /// Bytes written.
    at: u64,
    failed: bool,
}

impl OutputWriter {
    /// A writer to `output`.
    #[must_use]
    pub fn new(shared: Arc<Shared>, output: OwnedFd) -> OutputWriter {
        sys::file::grow_pipe(&output);
        OutputWriter { shared, output: output.into(), next: 0, early: BTreeMap::new(), at: 0, failed: false }
    }

    /// Runs until the queue is closed.
    pub fn run(mut self, queue: &Receiver<Frame>) {
        while let Ok(frame) = queue.recv() {
            let chunk = frame.parts.first().map_or(0, |p| p.offset / u64::from(self.shared.chunk_size));
            // A parcel that was sent twice arrives twice.
            if chunk < self.next || self.early.contains_key(&chunk) {
                self.landed(frame, false);
                continue;
            }
            self.early.insert(chunk, frame);
            while let Some(frame) = self.early.remove(&self.next) {
                let begin = Instant::now();
                let result = if self.failed { Ok(()) } else { self.write(&frame) };
                self.shared.busy.since(begin);
                if let Err(error) = result {
                    self.failed = true;
                    let index = frame.parts.first().map_or(0, |p| p.file);
                    let why = match error.kind() {
                        io::ErrorKind::BrokenPipe => "standard output was closed by its reader".to_owned(),
                        _ => say("writing standard output", &error),
                    };
                    let _ = self.shared.events.blocking_send(WriteEvent::Failed { index, why, fatal: true });
                }
                self.next += 1;
                self.landed(frame, true);
            }
        }
    }

    /// Writes a parcel, and zeros for the holes that the source left out.
    fn write(&mut self, frame: &Frame) -> io::Result<()> {
        for part in &frame.parts {
            self.zeros(part.offset)?;
            let start = part.start as usize;
            self.output.write_all(&frame.buf[start..start + part.len as usize])?;
            self.at = part.offset + u64::from(part.len);
        }
        let size = self.shared.size.load(Ordering::Acquire);
        if size == u64::MAX {
            return Ok(());
        }
        // A small file comes whole in one parcel, a big one by chunks.
        let last = frame.parts.iter().any(|p| p.file_end);
        let end = if last { size } else { ((self.next + 1) * u64::from(self.shared.chunk_size)).min(size) };
        self.zeros(end)
    }

    fn zeros(&mut self, until: u64) -> io::Result<()> {
        while self.at < until {
            let n = (until - self.at).min(ZEROS as u64);
            self.output.write_all(&[0; ZEROS][..n as usize])?;
            self.at += n;
        }
        Ok(())
    }

    fn landed(&self, frame: Frame, written: bool) {
        // A chunk counts by its first part, a small file by the one that ends it.
        let which = match frame.kind {
            Kind::Chunk => frame.parts.first(),
            _ => frame.parts.last(),
        };
        let items =
            which.filter(|_| written).map(|p| (p.file, p.generation, p.offset, p.file_end)).into_iter().collect();
        let parcel = frame.parcel;
        self.shared.pool.give(frame);
        // A session that is gone needs no news.
        let _ = self.shared.events.blocking_send(WriteEvent::Landed { parcel, items });
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        while let Some((_, frame)) = self.early.pop_first() {
            self.shared.pool.give(frame);
        }
    }
}
