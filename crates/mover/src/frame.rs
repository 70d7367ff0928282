//! Frames: the pool of buffers that everything flows through, bounded from the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use proto::record::Kind;
use sys::buffer::{Buffer, Slab, SlabOptions};
use sys::poll::Waker;

use crate::numa::Placement;

/// A contiguous part of a frame: bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Index of the file.
    pub file: u64,
    /// Its generation.
    pub generation: u8,
    /// Offset of the bytes in the file.
    pub offset: u64,
    /// First byte in the buffer.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
    /// The file is read to its end (small files only).
    pub file_end: bool,
}

/// One parcel in memory: a buffer and what is in it. The list is reused with the buffer, so the byte path
/// does not allocate once it is warm.
#[derive(Debug)]
pub struct Frame {
    /// The bytes.
    pub buf: Buffer,
    /// What they are.
    pub parts: Vec<Part>,
    /// Number of the parcel.
    pub parcel: u64,
    /// Chunk of a big file, batch of small files, or test data.
    pub kind: Kind,
    /// A record of it arrived corrupt; it is not written.
    pub corrupt: bool,
}

/// A bounded set of frames.
#[derive(Clone)]
pub struct Pool {
    free: Receiver<Frame>,
    home: Sender<Frame>,
    shared: Arc<Shared>,
}

struct Shared {
    slab: Slab,
    placement: Placement,
    count: usize,
    /// Network threads that wait for a frame, and how to wake them.
    waiting: AtomicUsize,
    wakers: Vec<Waker>,
    waited_us: AtomicU64,
}

impl Pool {
    /// A pool of `count` frames of `size` bytes, in memory near where threads are placed. `wakers` are woken when a frame
    /// comes back while a thread waits without blocking.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(count: usize, size: usize, wakers: Vec<Waker>, placement: Placement) -> std::io::Result<Pool> {
        let (slab, buffers) =
            Slab::with(count, size, SlabOptions { node: placement.node(), ..SlabOptions::default() })?;
        let (home, free) = bounded(count);
        for buf in buffers {
            let frame = Frame { buf, parts: Vec::with_capacity(16), parcel: 0, kind: Kind::Chunk, corrupt: false };
            home.send(frame).expect("the channel holds all frames");
        }
        let (waiting, waited_us) = (AtomicUsize::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { slab, placement, count, waiting, wakers, waited_us });
        Ok(Pool { free, home, shared })
    }

    /// A frame, at once or not at all. With `None` the caller's waker is woken when one comes back.
    pub fn try_take(&self) -> Option<Frame> {
        if let Ok(frame) = self.free.try_recv() {
            return Some(frame);
        }
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        // One may have come back in between, and its giver not have seen us.
        self.free.try_recv().ok()
    }

    /// A frame; waits for one at most this long.
    pub fn take(&self, timeout: Duration) -> Option<Frame> {
        if let Ok(frame) = self.free.try_recv() {
            return Some(frame);
        }
        let begin = std::time::Instant::now();
        let frame = self.free.recv_timeout(timeout).ok();
        self.shared.waited_us.fetch_add(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        frame
    }

    /// Gives a frame back.
    pub fn give(&self, mut frame: Frame) {
        frame.parts.clear();
        frame.corrupt = false;
        self.home.send(frame).expect("the channel holds all frames");
        if self.shared.waiting.swap(0, Ordering::SeqCst) > 0 {
            self.shared.wakers.iter().for_each(Waker::wake);
        }
    }

    /// Frames that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Where threads that work on its frames are to run.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.shared.placement
    }

    /// Frames in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// The memory, to register with a ring.
    #[must_use]
    pub fn slab(&self) -> &Slab {
        &self.shared.slab
    }

    /// Bytes of all frames.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.shared.count * self.shared.slab.size_bytes()) as u64
    }
}
