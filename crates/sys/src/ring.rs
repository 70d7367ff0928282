//! Positional reads and writes, many in flight at once.
//!
//! A [`Ring`] owns a [`Buffer`] and a share of the file from the moment an operation is submitted
//! until its [`Completion`] gives them back, so that no mistake of the caller's can let the kernel
//! write into memory that somebody else uses. Dropping the ring waits for what is in flight.
//!
//! ```text
//!  submit_read / submit_write ─▶ (queued) ─ submit ─▶ (in the kernel) ─▶ wait ─▶ poll ─▶ Completion
//! ```
//!
//! Two backends have the same face: io_uring, and plain `pread`/`pwrite` for the many kernels that
//! refuse io_uring ([`Ring::blocking`]). The blocking one performs an operation when it is waited or
//! polled for, so its depth is one: a caller gets parallelism from more threads with a ring each.
//!
//! ```
//! # use std::sync::Arc;
//! # use sys::{buffer::Slab, ring::{self, Ring}};
//! # fn main() -> std::io::Result<()> {
//! # let temp = tempfile::tempfile()?;
//! let (slab, mut idle) = Slab::new(8, 1 << 20)?;
//! let mut ring = if ring::available(true) { Ring::new(8)? } else { Ring::blocking(8) };
//! ring.register(&slab)?;
//! let file = Arc::new(temp.into());
//! for token in 0..8 {
//!     let buf = idle.pop().expect("as many buffers as operations");
//!     ring.submit_write(&file, token << 20, buf, 0..1 << 20, token)?;
//! }
//! while ring.in_flight() > 0 {
//!     ring.wait(1)?;
//!     while let Some(done) = ring.poll() {
//!         assert_eq!(done.result?, 1 << 20);
//!         idle.push(done.buf);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A ring belongs to one thread at a time (`&mut self`). It may move between threads; when a thread
//! ends, what it submitted and is still in the kernel may complete with `ECANCELED`.

mod blocking;
#[cfg(test)]
mod tests;
mod uring;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{Buffer, Slab};
use crate::file::Cache;

/// Most operations one ring holds; a larger wish is cut to this.
pub const RING_ENTRIES_MAX: u32 = 4096;

/// Whether io_uring works here and is permitted.
///
/// `permitted` is the caller's configuration: with `false` nothing is tried. Many sites turn
/// io_uring off (`kernel.io_uring_disabled`, seccomp); this tries to make one.
pub fn available(permitted: bool) -> bool {
    permitted && uring::Uring::new(1).is_ok()
}

/// A queue of reads and writes and of their completions.
pub struct Ring {
    backend: Backend,
    slots: Vec<Option<Op>>,
    free: Vec<u32>,
}

enum Backend {
    Uring(Box<uring::Uring>),
    Blocking(blocking::Blocking),
}

/// An operation that the ring holds.
struct Op {
    token: u64,
    file: Arc<OwnedFd>,
    offset: u64,
    buf: Buffer,
    range: Range<usize>,
    direction: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// What becomes of the page cache behind it.
    Read(Cache),
    Write,
}

/// A finished operation, with everything it was given.
#[derive(Debug)]
pub struct Completion {
    /// The caller's number for it.
    pub token: u64,
    /// The buffer, back in the caller's hands.
    pub buf: Buffer,
    /// The part of the buffer the operation was for.
    pub range: Range<usize>,
    /// The file it was for.
    pub file: Arc<OwnedFd>,
    /// Where in the file it began, in bytes.
    pub offset: u64,
    /// How many bytes were transferred, from the start of `range`.
    ///
    /// It may be fewer than asked: at the end of the file, where `Ok(0)` is the end itself, and
    /// rarely in the middle; submit the rest again. The content of the buffer past it is
    /// unspecified.
    pub result: io::Result<usize>,
}

/// An operation that was not accepted, with its buffer.
#[derive(Debug, thiserror::Error)]
#[error("the ring did not take the operation")]
pub struct Rejected {
    /// The buffer, back in the caller's hands.
    pub buf: Buffer,
    /// `WouldBlock` when the ring is full, `InvalidInput` when the range leaves the buffer.
    #[source]
    pub error: io::Error,
}

impl From<Rejected> for io::Error {
    fn from(rejected: Rejected) -> io::Error {
        rejected.error
    }
}

impl Ring {
    /// A ring over io_uring for at least `entries` operations (a power of two, at most
    /// [`RING_ENTRIES_MAX`]).
    ///
    /// # Errors
    ///
    /// `Unsupported` before Linux 5.11, `PermissionDenied` where io_uring is turned off: then
    /// [`Ring::blocking`] is the way.
    pub fn new(entries: u32) -> io::Result<Ring> {
        let uring = uring::Uring::new(entries.clamp(1, RING_ENTRIES_MAX))?;
        let capacity = uring.capacity();
        Ok(Ring::over(Backend::Uring(Box::new(uring)), capacity))
    }

    /// A ring over `pread` and `pwrite`, for `entries` operations (at most [`RING_ENTRIES_MAX`]).
    pub fn blocking(entries: u32) -> Ring {
        let capacity = entries.clamp(1, RING_ENTRIES_MAX) as usize;
        Ring::over(Backend::Blocking(blocking::Blocking::new(capacity)), capacity)
    }

    fn over(backend: Backend, capacity: usize) -> Ring {
        let slots = (0..capacity).map(|_| None).collect();
        Ring { backend, slots, free: (0..capacity as u32).rev().collect() }
    }

    /// Whether operations run in the kernel while the caller does other things.
    pub fn is_asynchronous(&self) -> bool {
        matches!(self.backend, Backend::Uring(_))
    }

    /// How many operations it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many operations it holds: submitted and not yet returned by [`Ring::poll`].
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether it takes no further operation before one completes.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Makes the slab's buffers known to the kernel, each when it is used for the second time: it need not pin
    /// their pages per operation then.
    ///
    /// Best effort: `Ok(false)` when the kernel (before Linux 5.19) refuses or the ring is a blocking
    /// one; buffers beyond RLIMIT_MEMLOCK stay unknown, and everything works without. Buffers of other slabs may be used too.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when a slab is registered already.
    pub fn register(&mut self, slab: &Slab) -> io::Result<bool> {
        match &mut self.backend {
            Backend::Uring(uring) => uring.register(slab),
            Backend::Blocking(_) => Ok(false),
        }
    }

    /// Queues a read from `file` at `offset` (bytes) into `buf[range]`.
    ///
    /// Nothing happens before the next [`submit`](Ring::submit), [`wait`](Ring::wait) or
    /// [`poll`](Ring::poll). With O_DIRECT, offset, start and length follow
    /// [`direct_alignment`](crate::file::direct_alignment).
    ///
    /// # Errors
    ///
    /// [`Rejected`], with the buffer, when the ring is full or the range leaves the buffer.
    pub fn submit_read(
        &mut self,
        file: &Arc<OwnedFd>,
        cache: Cache,
        offset: u64,
        buf: Buffer,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), Rejected> {
        self.queue(Direction::Read(cache), file, offset, buf, range, token)
    }

    /// Queues a write of `buf[range]` to `file` at `offset` (bytes); as [`submit_read`](Ring::submit_read).
    ///
    /// # Errors
    ///
    /// [`Rejected`], with the buffer, when the ring is full or the range leaves the buffer.
    pub fn submit_write(
        &mut self,
        file: &Arc<OwnedFd>,
        offset: u64,
        buf: Buffer,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), Rejected> {
        self.queue(Direction::Write, file, offset, buf, range, token)
    }

    fn queue(
        &mut self,
        direction: Direction,
        file: &Arc<OwnedFd>,
        offset: u64,
        buf: Buffer,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), Rejected> {
        let fits = range.start <= range.end
            && range.end <= buf.len()
            && u32::try_from(range.len()).is_ok()
            && offset.checked_add(range.len() as u64).is_some_and(|end| end <= i64::MAX as u64);
        if !fits {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "range leaves the buffer or the file");
            return Err(Rejected { buf, error });
        }
        let Some(slot) = self.free.pop() else {
            let error = io::Error::new(io::ErrorKind::WouldBlock, "ring is full");
            return Err(Rejected { buf, error });
        };
        let mut op = Op { token, file: Arc::clone(file), offset, buf, range, direction };
        // The kernel hears of it in `submit` at the earliest, and then the slot owns it.
        let pushed = match &mut self.backend {
            Backend::Uring(uring) => uring.push(slot, &mut op),
            Backend::Blocking(blocking) => {
                blocking.push(slot);
                Ok(())
            }
        };
        match pushed {
            Ok(()) => {
                self.slots[slot as usize] = Some(op);
                Ok(())
            }
            Err(error) => {
                self.free.push(slot);
                Err(Rejected { buf: op.buf, error })
            }
        }
    }

    /// Hands everything queued to the kernel without waiting.
    ///
    /// # Errors
    ///
    /// What `io_uring_enter` says; the operations stay queued and the call can be repeated.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.backend {
            Backend::Uring(uring) => uring.submit(),
            Backend::Blocking(_) => Ok(()),
        }
    }

    /// Submits, then waits until at least `min` completions are there for [`Ring::poll`] (all in
    /// flight, if those are fewer). Returns how many are there.
    ///
    /// # Errors
    ///
    /// What `io_uring_enter` says; interruptions by signals are not reported.
    pub fn wait(&mut self, min: usize) -> io::Result<usize> {
        self.wait_for(min, None)
    }

    /// As [`Ring::wait`], for at most `timeout`; fewer than `min`, even 0, may then be there.
    ///
    /// A blocking ring does not look at the time.
    ///
    /// # Errors
    ///
    /// As [`Ring::wait`].
    pub fn wait_timeout(&mut self, min: usize, timeout: Duration) -> io::Result<usize> {
        self.wait_for(min, Some(timeout))
    }

    fn wait_for(&mut self, min: usize, timeout: Option<Duration>) -> io::Result<usize> {
        let min = min.min(self.in_flight());
        match &mut self.backend {
            Backend::Uring(uring) => uring.wait(min, timeout),
            Backend::Blocking(blocking) => Ok(blocking.perform(min, &mut self.slots)),
        }
    }

    /// The next completion, in the order of completion, or `None` when none is there yet.
    ///
    /// Submits what is queued when there is nothing to return. A blocking ring performs one
    /// operation here if none was performed by `wait`.
    pub fn poll(&mut self) -> Option<Completion> {
        let (slot, result) = match &mut self.backend {
            Backend::Uring(uring) => uring.next()?,
            Backend::Blocking(blocking) => blocking.next(&mut self.slots)?,
        };
        let op = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(Completion { token: op.token, buf: op.buf, range: op.range, file: op.file, offset: op.offset, result })
    }

    /// A descriptor that is readable while completions are there, for an
    /// [`Epoll`](crate::poll::Epoll); `None` for a blocking ring. Submit before waiting on it.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backend {
            Backend::Uring(uring) => Some(uring.as_fd()),
            Backend::Blocking(_) => None,
        }
    }
}

impl Drop for Ring {
    /// Waits for what is in flight, after asking the kernel to stop it.
    fn drop(&mut self) {
        let slots = &self.slots;
        let idle = match &mut self.backend {
            Backend::Uring(uring) => uring.finish((0..).zip(slots).filter_map(|(i, op)| op.as_ref().map(|_| i))),
            Backend::Blocking(_) => true,
        };
        if !idle {
            // The kernel would not say that it is done with these buffers: they are never freed,
            // which costs memory and not safety.
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("asynchronous", &self.is_asynchronous())
            .field("capacity", &self.capacity())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}
