//! Frames: the pool of buffers that everything flows through, bounded from the start.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use proto::control::Begun;
use proto::limits::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN};
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
    /// What the other end keeps of the parcel from a stream that was lost: all before this place. This is the rest.
    pub after: Option<Begun>,
}

impl Frame {
    /// A frame around a buffer, for a chunk of a file: what a ring gives back, among others.
    #[must_use]
    pub fn of_chunk(buf: Buffer, parts: Vec<Part>, parcel: u64) -> Frame {
        Frame { buf, parts, parcel, kind: Kind::Chunk, after: None }
    }

    /// Bytes of files in it.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.len)).sum()
    }
}

/// Frames of a session at least: with fewer the pipeline from disk to network could not flow.
pub const FRAMES_MIN: u64 = 8;
/// Frames of a session at most.
const FRAMES_MAX: u64 = 4096;

/// How many frames of so many bytes a session gets.
#[must_use]
pub fn frames(memory_bytes: u64, chunk_size: u32) -> usize {
    (memory_bytes / u64::from(chunk_size)).clamp(FRAMES_MIN, FRAMES_MAX) as usize
}

/// A session with a pipe has this many times the chunks: what was read cannot be read again, and what comes early has to wait.
pub const PIPE_SHARE: u64 = 4;

/// The largest chunk, a power of two, of which [`FRAMES_MIN`] fit into so many bytes; never less than the smallest there is.
#[must_use]
pub fn chunk_max(memory_bytes: u64) -> u32 {
    let fits = (memory_bytes / FRAMES_MIN).clamp(u64::from(CHUNK_SIZE_MIN), u64::from(CHUNK_SIZE_MAX));
    1 << fits.ilog2()
}

/// Nothing that is done under the lock can fail.
const UNHARMED: &str = "no panic under the lock";

/// A bounded set of frames. The one that came back last is handed out first: its memory may still be in a core's cache, and what a
/// session never needs is never touched. The lock is taken twice for each frame, of megabytes as a rule.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    slab: Slab,
    placement: Placement,
    count: usize,
    home: Mutex<Home>,
    came_back: Condvar,
    /// How to wake network threads.
    wakers: Vec<Waker>,
}

struct Home {
    free: Vec<Frame>,
    /// Network threads wait for a frame.
    is_waited_for: bool,
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
        let frame = |buf| Frame::of_chunk(buf, Vec::with_capacity(16), 0);
        let free = buffers.into_iter().rev().map(frame).collect();
        let home = Mutex::new(Home { free, is_waited_for: false });
        Ok(Pool { shared: Arc::new(Shared { slab, placement, count, home, came_back: Condvar::new(), wakers }) })
    }

    /// A frame, at once or not at all. With `None` the caller's waker is woken when one comes back.
    pub fn try_take(&self) -> Option<Frame> {
        let mut home = self.home();
        let frame = home.free.pop();
        home.is_waited_for |= frame.is_none();
        frame
    }

    /// Has the wakers woken when a frame comes back, or has left the queue that it waited in.
    pub fn wait(&self) {
        self.home().is_waited_for = true;
    }

    /// A frame has left a queue: who waits for one may look again.
    pub fn moved(&self) {
        let is_waited_for = std::mem::take(&mut self.home().is_waited_for);
        self.wake(is_waited_for);
    }

    fn wake(&self, is_waited_for: bool) {
        if is_waited_for {
            self.shared.wakers.iter().for_each(Waker::wake);
        }
    }

    /// A frame; waits for one at most this long.
    pub fn take(&self, timeout: Duration) -> Option<Frame> {
        let is_away = |home: &mut Home| home.free.is_empty();
        let (mut home, _) = self.shared.came_back.wait_timeout_while(self.home(), timeout, is_away).expect(UNHARMED);
        home.free.pop()
    }

    /// Gives a frame back.
    pub fn give(&self, mut frame: Frame) {
        frame.parts.clear();
        frame.after = None;
        let is_waited_for = {
            let mut home = self.home();
            home.free.push(frame);
            std::mem::take(&mut home.is_waited_for)
        };
        self.shared.came_back.notify_one();
        self.wake(is_waited_for);
    }

    /// Frames that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.home().free.len()
    }

    fn home(&self) -> MutexGuard<'_, Home> {
        self.shared.home.lock().expect(UNHARMED)
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

#[cfg(test)]
mod tests {
    use sys::poll::{Epoll, Event, Interest};

    use super::*;

    fn pool(count: usize, wakers: Vec<Waker>) -> Pool {
        Pool::new(count, 4096, wakers, Placement::default()).unwrap()
    }

    #[test]
    fn as_many_chunks_as_are_needed_fit_into_the_memory() {
        const MIB: u64 = 1 << 20;
        for (memory, chunk) in
            [(0, 256 << 10), (2 * MIB, 256 << 10), (32 * MIB, 4 << 20), (63 * MIB, 4 << 20), (u64::MAX, 64 << 20)]
        {
            assert_eq!(chunk_max(memory), chunk, "{memory}");
        }
    }

    #[test]
    fn what_was_used_last_is_used_again() {
        let pool = pool(64, Vec::new());
        for _ in 0..100 {
            let two = [pool.try_take().unwrap(), pool.take(Duration::ZERO).unwrap()];
            assert!(two.iter().all(|frame| frame.buf.index() < 2), "two in use at once need no third: {two:?}");
            two.into_iter().for_each(|frame| pool.give(frame));
        }
        assert_eq!((pool.free(), pool.count(), pool.bytes()), (64, 64, 64 * 4096));
    }

    #[test]
    fn who_waits_for_a_frame_gets_the_next_one() {
        let pool = pool(1, Vec::new());
        let frame = pool.take(Duration::ZERO).unwrap();
        assert!(pool.take(Duration::from_millis(1)).is_none());
        let waiting = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take(Duration::from_secs(60)).is_some()
        });
        pool.give(frame);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn who_found_none_is_woken_once() {
        let waker = Waker::new().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&waker, 1, Interest::READ).unwrap();
        let is_woken = || {
            let mut events: Vec<Event> = Vec::with_capacity(4);
            epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
            waker.drain();
            !events.is_empty()
        };
        let pool = pool(1, vec![waker.clone()]);
        let frame = pool.try_take().unwrap();
        pool.give(frame);
        assert!(!is_woken(), "nobody waited");
        let frame = pool.try_take().unwrap();
        assert!(pool.try_take().is_none());
        pool.give(frame);
        assert!(is_woken());
        let frame = pool.try_take().unwrap();
        pool.give(frame);
        assert!(!is_woken());
    }
}
