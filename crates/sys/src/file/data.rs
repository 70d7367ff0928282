//! Reading and writing at a position.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::io::{ReadWriteFlags, pread, preadv2, pwrite, retry_on_intr};

/// How a range of a file will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// From start to end: read further ahead.
    Sequential,
    /// Here and there: read nothing ahead.
    Random,
    /// Soon: start reading it.
    WillNeed,
    /// Not again soon: drop what is clean from the page cache.
    DontNeed,
    /// Once: do not let it push out what is used more (Linux 6.3; before, ignored).
    NoReuse,
}

/// Tells the kernel how `len` bytes from `offset` (0: to the end) will be used.
///
/// # Errors
///
/// What the file system says; nothing depends on it.
pub fn fadvise(fd: impl AsFd, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
    let advice = match advice {
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
        Advice::NoReuse => rustix::fs::Advice::NoReuse,
    };
    Ok(rustix::fs::fadvise(fd, offset, NonZeroU64::new(len), advice)?)
}

/// Whether the byte at `offset` is in the page cache, or cannot be told to be elsewhere: file systems that know no reads
/// without waiting say nothing. Of a file opened with O_DIRECT this tells nothing.
pub fn is_cached(fd: impl AsFd, offset: u64) -> bool {
    let mut byte = [0];
    let read = preadv2(fd, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
    !matches!(read, Err(rustix::io::Errno::AGAIN))
}

/// One read at `offset`: the number of bytes, 0 at the end of the file.
///
/// # Errors
///
/// What the file system says; never `Interrupted`.
pub fn read_at(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_on_intr(|| pread(fd, &mut *buf, offset))?)
}

/// Reads at `offset` until `buf` is full or the file ends; returns how many bytes there were.
///
/// With O_DIRECT a file's last part comes short once, and the next read, at an unaligned position,
/// is not tried.
///
/// # Errors
///
/// What the file system says; the content of `buf` is then unspecified.
pub fn read_exact_at(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    let mut done = 0;
    while done < buf.len() {
        let rest = &mut buf[done..];
        match retry_on_intr(|| pread(fd, &mut *rest, offset + done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            // A short direct read ends off the device's grid: that was the end of the file.
            Err(rustix::io::Errno::INVAL) if done > 0 && super::is_direct(fd)? => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(done)
}

/// One write at `offset`: the number of bytes.
///
/// # Errors
///
/// What the file system says; never `Interrupted`.
pub fn write_at(fd: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_on_intr(|| pwrite(fd, bytes, offset))?)
}

/// Writes all of `bytes` at `offset`.
///
/// # Errors
///
/// `StorageFull`, `QuotaExceeded` and what else the file system says; some of it may be written.
pub fn write_all_at(fd: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut done = 0;
    while done < bytes.len() {
        match write_at(fd, &bytes[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}
