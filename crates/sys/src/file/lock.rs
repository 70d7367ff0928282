//! Advisory locks on whole files (`flock`).
//!
//! A lock belongs to the open file, is shared by its duplicates, and goes when the last of them is
//! closed, so also when the process dies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::Meta;

/// How a lock excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others may share it.
    Shared,
    /// Nobody else may hold one.
    Exclusive,
}

/// The answer to [`lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lock {
    /// The caller has it.
    Taken,
    /// Somebody else has one that excludes it.
    Held {
        /// The process that has it, where the kernel tells: not across machines or process
        /// namespaces, and not on file systems whose device numbers differ within.
        by: Option<u32>,
    },
}

/// Tries to lock an open file, without waiting; changes the mode of a lock already held.
///
/// # Errors
///
/// `Unsupported` where the file system has no locks.
pub fn lock(fd: impl AsFd, mode: LockMode) -> io::Result<Lock> {
    let fd = fd.as_fd();
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::io::retry_on_intr(|| rustix::fs::flock(fd, operation)) {
        Ok(()) => Ok(Lock::Taken),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Held { by: holder(fd, mode) }),
        Err(e) => Err(e.into()),
    }
}

/// Gives the lock back; nothing happens if there is none.
///
/// # Errors
///
/// As [`lock`].
pub fn unlock(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(fd, FlockOperation::Unlock)?)
}

fn holder(fd: BorrowedFd<'_>, wanted: LockMode) -> Option<u32> {
    let meta = Meta::of(fd).ok()?;
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    holder_in(&table, wanted, rustix::fs::major(meta.dev), rustix::fs::minor(meta.dev), meta.ino)
}

/// The first that excludes what was wanted. A line is `1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF`, device numbers in
/// hexadecimal. Those who wait have `->` after the number.
pub(super) fn holder_in(table: &str, wanted: LockMode, major: u32, minor: u32, ino: u64) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{ino}");
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != "FLOCK" {
            return None;
        }
        let kind = fields.nth(1)?;
        let pid = fields.next()?;
        // Who only shares it does not keep another from sharing it.
        let excludes = wanted == LockMode::Exclusive || kind == "WRITE";
        (excludes && fields.next()? == file).then(|| pid.parse().ok().filter(|&pid| pid > 0))?
    })
}
