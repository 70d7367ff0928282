//! Moving bytes between descriptors without touching them.
//!
//! All of these move fewer bytes than asked when it suits the kernel, and say how many; 0 is the
//! end of the source. Positions given move on by as much.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// Copies within or between files, sharing blocks or asking the server where the file system can.
///
/// # Errors
///
/// `CrossesDevices`, `Unsupported` and `InvalidInput` mean: copy by other means.
pub fn copy_file_range(
    from: impl AsFd,
    from_offset: &mut u64,
    to: impl AsFd,
    to_offset: &mut u64,
    len: usize,
) -> io::Result<usize> {
    let (from, to) = (from.as_fd(), to.as_fd());
    Ok(retry_on_intr(|| rustix::fs::copy_file_range(from, Some(&mut *from_offset), to, Some(&mut *to_offset), len))?)
}

/// Sends from a file to a socket.
///
/// # Errors
///
/// `WouldBlock` when a nonblocking socket is full; `InvalidInput` when the file cannot be mapped.
pub fn sendfile(to: impl AsFd, from: impl AsFd, from_offset: &mut u64, len: usize) -> io::Result<usize> {
    let (to, from) = (to.as_fd(), from.as_fd());
    Ok(retry_on_intr(|| rustix::fs::sendfile(to, from, Some(&mut *from_offset), len))?)
}

/// Moves pages between a pipe and something else; `None` is the current position, the only one
/// that pipes and sockets have. Never blocks on the pipe; `more` says that more follows at once.
///
/// # Errors
///
/// `WouldBlock` when the pipe (or a nonblocking socket) is empty or full; `InvalidInput` when
/// neither is a pipe.
pub fn splice(
    from: impl AsFd,
    mut from_offset: Option<&mut u64>,
    to: impl AsFd,
    mut to_offset: Option<&mut u64>,
    len: usize,
    more: bool,
) -> io::Result<usize> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    flags.set(SpliceFlags::MORE, more);
    Ok(retry_on_intr(|| {
        rustix::pipe::splice(from, from_offset.as_deref_mut(), to, to_offset.as_deref_mut(), len, flags)
    })?)
}

/// A pipe, read end first, that holds at least `capacity_bytes` if the system's limit allows.
///
/// # Errors
///
/// When the process or the system has no descriptor left.
pub fn pipe(capacity_bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Beyond /proc/sys/fs/pipe-max-size it stays at its default of 64 KiB.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, capacity_bytes);
    Ok((read, write))
}
