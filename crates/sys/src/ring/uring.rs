//! The backend over io_uring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::{Direction, Op};
use crate::buffer::{Buffer, Slab};
use crate::file::Cache;

/// What a cancellation completes as; slots are far smaller.
const CANCELLATION: u64 = u64::MAX;

/// How often a refused `io_uring_enter` is repeated while a dropped ring drains.
const DRAIN_RETRIES: u32 = 1000;

pub(super) struct Uring {
    // Before `table`: the ring is torn down first.
    ring: IoUring,
    table: Option<Table>,
}

/// The buffers of a slab that the kernel knows. Each is registered when it is used a second time: what is never used is never
/// touched, and nothing waits until all of the slab is pinned (and zeroed before, with the address space locked).
struct Table {
    slab: Slab,
    uses: Vec<Uses>,
    /// The kernel takes no more: RLIMIT_MEMLOCK.
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    None,
    One,
    Registered,
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
        Ok(Uring { ring, table: None })
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
        if self.table.is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a slab is registered already"));
        }
        // Before Linux 5.19 there is no empty table. It works without.
        if self.ring.submitter().register_buffers_sparse(slab.count() as u32).is_err() {
            return Ok(false);
        }
        self.table = Some(Table { slab: slab.clone(), uses: vec![Uses::None; slab.count()], full: false });
        Ok(true)
    }

    /// Buffers that the kernel knows; `None` if it takes no more.
    #[cfg(test)]
    pub(super) fn registered(&self) -> Option<usize> {
        let table = self.table.as_ref().filter(|table| !table.full)?;
        Some(table.uses.iter().filter(|uses| **uses == Uses::Registered).count())
    }

    /// The place in the kernel's table of a buffer that it knows, or is to know from now on.
    fn fixed(&mut self, buf: &mut Buffer) -> Option<u16> {
        let table = self.table.as_mut().filter(|table| table.slab.owns(buf))?;
        let (index, uses) = (buf.index(), &mut table.uses[usize::from(buf.index())]);
        if *uses == Uses::One && !table.full {
            let range = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            // SAFETY: the range lies in the slab's mapping, which `table` keeps until after the ring.
            let known = unsafe { self.ring.submitter().register_buffers_update(u32::from(index), &[range], None) };
            table.full = known.is_err();
            *uses = if known.is_ok() { Uses::Registered } else { Uses::One };
        } else if *uses == Uses::None {
            *uses = Uses::One;
        }
        (*uses == Uses::Registered).then_some(index)
    }

    /// Queues the operation in `slot`. On an error the kernel has not seen it.
    pub(super) fn push(&mut self, slot: u32, op: &mut Op) -> io::Result<()> {
        let fd = Fd(op.file.as_raw_fd());
        let fixed = self.fixed(&mut op.buf);
        let bytes = &mut op.buf[op.range.clone()];
        // `Ring::queue` checked that the length fits.
        let (ptr, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
        let flags = |cache: Cache| cache.flags().bits() as i32;
        let entry = match (op.direction, fixed) {
            (Direction::Read(cache), Some(i)) => {
                opcode::ReadFixed::new(fd, ptr, len, i).offset(op.offset).rw_flags(flags(cache)).build()
            }
            (Direction::Read(cache), None) => {
                opcode::Read::new(fd, ptr, len).offset(op.offset).rw_flags(flags(cache)).build()
            }
            (Direction::Write, Some(i)) => opcode::WriteFixed::new(fd, ptr, len, i).offset(op.offset).build(),
            (Direction::Write, None) => opcode::Write::new(fd, ptr, len).offset(op.offset).build(),
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
