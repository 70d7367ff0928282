//! Making data durable.
//!
//! An error of any of these means that data handed over earlier is lost: the kernel forgets the
//! pages, so a second call may succeed without them being on the device. Write them again.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How far [`sync_file_range`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Start writing dirty pages out, and wait for none.
    Start,
    /// Write dirty pages out and wait for them. Durable only together with [`fdatasync`]: neither
    /// the file's length nor the device's cache is flushed.
    Wait,
}

/// Data and what is needed to find it (length, blocks) are durable after this.
///
/// # Errors
///
/// Data is lost; see the module.
pub fn fdatasync(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// As [`fdatasync`], with times, mode and owner. On a directory: its names.
///
/// # Errors
///
/// Data is lost; see the module.
pub fn fsync(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(fd)?)
}

/// Everything on the file system that holds `fd` is durable after this; cheaper than one [`fsync`]
/// for each of many small files.
///
/// # Errors
///
/// Data is lost; see the module. Before Linux 5.8 it does not say so.
pub fn syncfs(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fd)?)
}

/// Writes dirty pages of a range out (`len` 0: to the end), to keep their number small.
///
/// # Errors
///
/// `Unsupported` on some file systems; data that could not be written.
pub fn sync_file_range(fd: impl AsFd, offset: u64, len: u64, flush: Flush) -> io::Result<()> {
    let flags = match flush {
        Flush::Start => libc::SYNC_FILE_RANGE_WRITE,
        Flush::Wait => {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER
        }
    };
    let signed = |n: u64| i64::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (offset, len) = (signed(offset)?, signed(len)?);
    // SAFETY: no memory is passed, and the descriptor is borrowed for the call.
    match unsafe { libc::sync_file_range(fd.as_fd().as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
