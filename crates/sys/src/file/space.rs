//! Where a file has blocks and where it has holes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::Meta;

/// Reserves blocks for `len` bytes from `offset`, which read as zeros. With `keep_size` the length
/// stays.
///
/// `Ok(false)` when the file system cannot; nothing has happened then.
///
/// # Errors
///
/// `StorageFull`, `QuotaExceeded`, `FileTooLarge`, before any data was moved.
pub fn fallocate(fd: impl AsFd, offset: u64, len: u64, keep_size: bool) -> io::Result<bool> {
    let mut flags = FallocateFlags::empty();
    flags.set(FallocateFlags::KEEP_SIZE, keep_size);
    allocate(fd.as_fd(), flags, offset, len)
}

/// Gives the blocks of a range back; it reads as zeros, and the length stays.
///
/// `Ok(false)` when the file system cannot; nothing has happened then.
///
/// # Errors
///
/// What the file system says.
pub fn punch_hole(fd: impl AsFd, offset: u64, len: u64) -> io::Result<bool> {
    allocate(fd.as_fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
}

fn allocate(fd: BorrowedFd<'_>, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<bool> {
    if len == 0 {
        return Ok(true);
    }
    match rustix::io::retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset, len)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Sets the length in bytes: cuts the rest off, or adds a hole.
///
/// # Errors
///
/// `FileTooLarge`; `InvalidInput` for something that is no file or not open for writing.
pub fn truncate(fd: impl AsFd, len: u64) -> io::Result<()> {
    Ok(rustix::fs::ftruncate(fd, len)?)
}

/// Where data begins at or after `offset`; `None` when only a hole, or nothing, follows.
///
/// A file system that knows no holes has one piece of data from 0 to the end. Moves the
/// descriptor's position, which positional reads and writes do not use.
///
/// # Errors
///
/// What the file system says.
pub fn seek_data(fd: impl AsFd, offset: u64) -> io::Result<Option<u64>> {
    seek(fd.as_fd(), SeekFrom::Data(offset), |size| (offset < size).then_some(offset))
}

/// Where a hole begins at or after `offset`: the file's length if there is none before, `None` when
/// `offset` is at or past the end. As [`seek_data`].
///
/// # Errors
///
/// What the file system says.
pub fn seek_hole(fd: impl AsFd, offset: u64) -> io::Result<Option<u64>> {
    seek(fd.as_fd(), SeekFrom::Hole(offset), |size| (offset < size).then_some(size))
}

fn seek(fd: BorrowedFd<'_>, to: SeekFrom, without_holes: impl Fn(u64) -> Option<u64>) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, to) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(without_holes(Meta::of(fd)?.size)),
        Err(e) => Err(e.into()),
    }
}
