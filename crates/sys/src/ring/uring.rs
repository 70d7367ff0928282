//! The backend over io_uring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::{Direction, Op};
use crate::buffer::Slab;

/// What a cancellation completes as; slots are far smaller.
const CANCELLATION: u64 = u64::MAX;

/// How often a refused `io_uring_enter` is repeated while a dropped ring drains.
const DRAIN_RETRIES: u32 = 1000;

pub(super) struct Uring {
    // Before `registered`: the ring is torn down first.
    ring: IoUring,
    registered: Option<Slab>,
}

impl Uring {
    pub(super) fn new(entries: u32) -> io::Result<Uring> {
        let modern =
            IoUring::builder().dontfork().setup_clamp().setup_coop_taskrun().setup_taskrun_flag().build(entries);
        let ring = match modern {
            // Before Linux 5.19.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                IoUring::builder().dontfork().setup_clamp().build(entries)?
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, e));
            }
            other => other?,
        };
        let p = ring.params();
        // Waiting with a timeout (Linux 5.11); anything older had other troubles too.
        if !p.is_feature_ext_arg() || !p.is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring of a kernel before 5.11"));
        }
        Ok(Uring { ring, registered: None })
    }

    pub(super) fn capacity(&self) -> usize {
        // Completions are at least as many, so they cannot overflow.
        self.ring.params().sq_entries() as usize
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and is borrowed for as long.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    pub(super) fn register(&mut self, slab: &Slab) -> io::Result<bool> {
        if self.registered.is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a slab is registered already"));
        }
        let ranges = slab.iovecs();
        if ranges.is_empty() {
            return Ok(false);
        }
        // SAFETY: the ranges are the slab's mapping, and `registered` keeps it until after the ring.
        match unsafe { self.ring.submitter().register_buffers(&ranges) } {
            Ok(()) => {
                self.registered = Some(slab.clone());
                Ok(true)
            }
            // Every reason is one to go on without: ENOMEM is RLIMIT_MEMLOCK.
            Err(_) => Ok(false),
        }
    }

    /// Queues the operation in `slot`. On an error the kernel has not seen it.
    pub(super) fn push(&mut self, slot: u32, op: &mut Op) -> io::Result<()> {
        let fd = Fd(op.file.as_raw_fd());
        let fixed = match &self.registered {
            Some(slab) if slab.owns(&op.buf) => Some(op.buf.range_index()),
            _ => None,
        };
        let bytes = &mut op.buf[op.range.clone()];
        // `Ring::queue` checked that the length fits.
        let (ptr, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
        let flags = op.cache.flags().bits() as i32;
        let entry = match (op.direction, fixed) {
            (Direction::Read, Some(i)) => {
                opcode::ReadFixed::new(fd, ptr, len, i).offset(op.offset).rw_flags(flags).build()
            }
            (Direction::Read, None) => opcode::Read::new(fd, ptr, len).offset(op.offset).rw_flags(flags).build(),
            (Direction::Write, Some(i)) => {
                opcode::WriteFixed::new(fd, ptr, len, i).offset(op.offset).rw_flags(flags).build()
            }
            (Direction::Write, None) => opcode::Write::new(fd, ptr, len).offset(op.offset).rw_flags(flags).build(),
        }
        .user_data(u64::from(slot));
        // SAFETY: the buffer and the file are owned by the slot until the completion is taken, and
        // `Ring::drop` waits for it or leaks them.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "submission queue is full"))
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    pub(super) fn wait(&mut self, min: usize, timeout: Option<Duration>) -> io::Result<usize> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            let ready = self.ring.completion().len();
            let pending = !self.ring.submission().is_empty();
            if ready >= min && !pending {
                return Ok(ready);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let entered = match left {
                None => self.ring.submit_and_wait(min),
                Some(left) if left.is_zero() => {
                    self.submit()?;
                    return Ok(self.ring.completion().len());
                }
                Some(left) => {
                    let span = Timespec::from(left);
                    self.ring.submitter().submit_with_args(min, &SubmitArgs::new().timespec(&span))
                }
            };
            match entered {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The time is over; the next turn looks once more and returns.
                Err(e) if e.raw_os_error() == Some(libc::ETIME) => {}
                Err(e) => return Err(e),
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<(u32, io::Result<usize>)> {
        if let Some(done) = self.take() {
            return Some(done);
        }
        let submission = self.ring.submission();
        let idle = submission.is_empty() && !submission.taskrun();
        drop(submission);
        // An error here shows again, and is reported, in `submit` or `wait`.
        if idle || self.submit().is_err() {
            return None;
        }
        self.take()
    }

    fn take(&mut self) -> Option<(u32, io::Result<usize>)> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() == CANCELLATION {
                continue;
            }
            let result = match entry.result() {
                n if n >= 0 => Ok(n as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            return Some((entry.user_data() as u32, result));
        }
    }

    /// Waits until the operations in these slots are done; `false` when the kernel does not say so.
    pub(super) fn finish(&mut self, slots: impl Iterator<Item = u32>) -> bool {
        let mut left = 0;
        let queued = self.submit().is_ok();
        for slot in slots {
            left += 1;
            // Reads from pipes and the like may never end: ask the kernel to stop what it can. The
            // queue was just emptied and has room for one entry per slot.
            let cancel = opcode::AsyncCancel::new(u64::from(slot)).build().user_data(CANCELLATION);
            if queued {
                // SAFETY: the entry refers to no memory.
                let _ = unsafe { self.ring.submission().push(&cancel) };
            }
        }
        let mut refused = 0;
        while left > 0 {
            match self.wait(1, None) {
                Ok(_) => left -= std::iter::from_fn(|| self.take()).count().min(left),
                Err(_) if refused < DRAIN_RETRIES => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return false,
            }
        }
        true
    }
}
