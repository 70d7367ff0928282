//! Standard input as a source: read once, from its begin to its end.
//!
//! What was read cannot be read again, so the last chunks are kept until the protocol's window has moved past
//! them: a chunk that was lost on its way is sent again from here.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use proto::record::Kind;
use proto::source::{Item, Read, STREAM_PARCELS_MAX};

use super::read::{Loaded, ReadEvent, Running, Shared, SourceFile, Task, next};
use super::say;
use crate::frame::{Frame, Part};

/// Between two looks at whether the session is over, while nothing comes from the pipe.
const LOOK: Duration = Duration::from_millis(200);

/// Reads chunks of a pipe until the queue is closed.
pub struct InputReader<'a> {
    shared: &'a Shared,
    input: File,
    /// The last chunks, at most [`STREAM_PARCELS_MAX`]: the source never asks for one before them.
    kept: VecDeque<Vec<u8>>,
    /// Number of the first chunk that is kept.
    first: u64,
    /// Bytes in all, once the end was seen.
    size: Option<u64>,
}

/// What there is of a chunk.
enum Chunk {
    Whole,
    /// The pipe ends in it or before it; its size.
    Last(u64),
}

impl<'a> InputReader<'a> {
    /// A reader of `input`, which is at its begin.
    #[must_use]
    pub fn new(shared: &'a Shared, input: OwnedFd) -> InputReader<'a> {
        // A larger pipe saves switches between its ends; what it may be is the system's to say.
        sys::file::grow_pipe(&input);
        let kept = VecDeque::with_capacity(STREAM_PARCELS_MAX as usize);
        InputReader { shared, input: input.into(), kept, first: 0, size: None }
    }

    /// Runs until the queue is closed.
    pub fn run(mut self, queue: &Receiver<Task>) {
        while let Some(task) = next(queue) {
            let Task::Chunk { parcel, item, file, .. } = task else { unreachable!("a pipe has only chunks") };
            let Some(mut frame) = self.shared.frame() else { return };
            let begin = Instant::now();
            (frame.parcel, frame.kind) = (parcel, Kind::Chunk);
            let read = match self.load(&item, &file, &mut frame) {
                Ok(Chunk::Whole) => Read::Whole,
                Ok(Chunk::Last(size)) => Read::EndOfStream(size),
                Err(error) => Read::Failed(say("reading standard input", &error)),
            };
            self.shared.busy.chunks.since(begin);
            self.shared.tell(ReadEvent::Loaded(Loaded { frame, results: vec![(item, read)], hole_end: None }));
        }
    }

    fn load(&mut self, item: &Item, file: &Arc<SourceFile>, frame: &mut Frame) -> io::Result<Chunk> {
        let chunk_size = self.shared.chunk_size as usize;
        let chunk = item.offset / chunk_size as u64;
        while self.size.is_none() && chunk >= self.first + self.kept.len() as u64 {
            self.read_chunk(chunk_size, file.digest.as_ref())?;
        }
        let gone = || io::Error::other("a chunk was asked for that is not kept any more");
        let index = chunk.checked_sub(self.first).ok_or_else(gone)?;
        let bytes = self.kept.get(index as usize).map_or(&[][..], Vec::as_slice);
        if !bytes.is_empty() || item.offset == 0 {
            frame.buf[..bytes.len()].copy_from_slice(bytes);
            let len = bytes.len() as u32;
            let Item { index: file, generation, offset, .. } = *item;
            frame.parts.push(Part { file, generation, offset, start: 0, len, file_end: false });
        }
        Ok(match self.size {
            Some(size) if item.offset + chunk_size as u64 >= size => Chunk::Last(size),
            _ => Chunk::Whole,
        })
    }

    /// Reads the next chunk, and forgets the oldest one if enough are kept.
    fn read_chunk(&mut self, chunk_size: usize, digest: Option<&Mutex<Running>>) -> io::Result<()> {
        let mut bytes = match self.kept.len() as u64 >= STREAM_PARCELS_MAX {
            true => {
                self.first += 1;
                self.kept.pop_front().unwrap_or_default()
            }
            false => Vec::with_capacity(chunk_size),
        };
        bytes.resize(chunk_size, 0);
        let mut filled = 0;
        while filled < chunk_size {
            while !sys::file::wait_readable(&self.input, LOOK)? {
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(filled);
        if let Some(digest) = digest {
            digest.lock().expect("no panic under the lock").feed_next(&bytes);
        }
        if filled < chunk_size {
            self.size = Some((self.first + self.kept.len() as u64) * chunk_size as u64 + filled as u64);
        }
        if filled > 0 {
            self.kept.push_back(bytes);
        }
        Ok(())
    }
}
