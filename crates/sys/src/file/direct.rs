//! O_DIRECT: past the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// What direct reads and writes must be multiples of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// The address of the buffer.
    pub memory: usize,
    /// The position in the file, and the length.
    pub offset: u64,
}

/// What to assume where the kernel does not say: no common device needs more.
const ASSUMED: Alignment = Alignment { memory: 4096, offset: 4096 };

/// Turns O_DIRECT on or off. `Ok(false)` when the file system does not offer it.
///
/// # Errors
///
/// What the kernel says otherwise.
pub fn set_direct(fd: impl AsFd, on: bool) -> io::Result<bool> {
    let fd = fd.as_fd();
    let now = rustix::fs::fcntl_getfl(fd)?;
    let mut wanted = now;
    wanted.set(OFlags::DIRECT, on);
    if wanted == now {
        return Ok(true);
    }
    match rustix::fs::fcntl_setfl(fd, wanted) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) if on => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Whether reads and writes bypass the page cache now.
///
/// # Errors
///
/// What the kernel says.
pub fn is_direct(fd: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(fd)?.contains(OFlags::DIRECT))
}

/// What O_DIRECT needs on this file, or `None` where it is not offered.
///
/// Asks `statx` (Linux 6.1); where that is silent, tries whether O_DIRECT can be turned on and
/// assumes 4096, which holds for all common devices.
///
/// # Errors
///
/// What the file system says.
pub fn direct_alignment(fd: impl AsFd) -> io::Result<Option<Alignment>> {
    let fd = fd.as_fd();
    match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(s) if s.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let (memory, offset) = (s.stx_dio_mem_align as usize, u64::from(s.stx_dio_offset_align));
            Ok((memory > 0 && offset > 0).then_some(Alignment { memory, offset }))
        }
        Ok(_) | Err(Errno::NOSYS | Errno::PERM) => by_trial(fd),
        Err(e) => Err(e.into()),
    }
}

/// Opens the file once more, so that the flags of the caller's descriptor stay.
pub(super) fn by_trial(fd: BorrowedFd<'_>) -> io::Result<Option<Alignment>> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = [OFlags::RDONLY, OFlags::WRONLY]
        .into_iter()
        .any(|access| rustix::fs::open(&path, flags | access, Mode::empty()).is_ok());
    Ok(opened.then_some(ASSUMED))
}
