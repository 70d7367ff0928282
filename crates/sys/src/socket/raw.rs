//! `setsockopt` and `getsockopt` for options that `rustix` has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) fn set_bytes(fd: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: `value` is live for the call, which reads `len` bytes of it.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns how many bytes of `space` the kernel filled.
pub(super) fn get_bytes(fd: BorrowedFd<'_>, level: i32, option: i32, space: &mut [u8]) -> io::Result<usize> {
    let mut len = space.len() as libc::socklen_t;
    // SAFETY: `space` is live for the call, which writes at most `len` bytes into it.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, space.as_mut_ptr().cast(), &mut len) };
    if result == 0 { Ok((len as usize).min(space.len())) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn set_int(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

pub(super) fn get_int(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let mut value = [0; 4];
    get_bytes(fd, level, option, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}
