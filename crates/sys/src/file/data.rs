//! Reading and writing at a position.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite, retry_on_intr};

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
    !matches!(read, Err(Errno::AGAIN))
}

/// What becomes of the page cache behind a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cache {
    /// What was read stays there until the kernel needs the memory.
    #[default]
    Stays,
    /// What was not there before leaves it again at once (`RWF_DONTCACHE`). Only for files of which [`can_pass`] says so.
    Passes,
}

/// `RWF_DONTCACHE` of `linux/fs.h`, which rustix has no name for.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// The first Linux whose `RWF_DONTCACHE` never drops a page that was written again meanwhile (it is there since 6.14).
const PASSES_SINCE: (u32, u32) = (6, 16);

/// Beyond the end of any file, so that a read there reads nothing.
const NOWHERE: u64 = 1 << 62;

impl Cache {
    /// The flags of `preadv2(2)`.
    pub(crate) fn flags(self) -> ReadWriteFlags {
        match self {
            Cache::Stays => ReadWriteFlags::empty(),
            Cache::Passes => DONTCACHE,
        }
    }
}

/// Whether reads of this file can be [`Cache::Passes`]: its file system and this kernel know it. The file must
/// be open for reading.
pub fn can_pass(fd: impl AsFd) -> bool {
    if crate::process::kernel_version().is_none_or(|version| version < PASSES_SINCE) {
        return false;
    }
    let mut byte = [0];
    matches!(preadv2(fd, &mut [IoSliceMut::new(&mut byte)], NOWHERE, DONTCACHE), Ok(0))
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

/// The same as [`read_at`], with a say in what stays in the page cache.
///
/// # Errors
///
/// As [`read_at`]; `Unsupported` for [`Cache::Passes`] where [`can_pass`] says no.
pub fn read_at_with(fd: impl AsFd, buf: &mut [u8], offset: u64, cache: Cache) -> io::Result<usize> {
    if cache == Cache::Stays {
        return read_at(fd, buf, offset);
    }
    let fd = fd.as_fd();
    Ok(retry_on_intr(|| preadv2(fd, &mut [IoSliceMut::new(buf)], offset, cache.flags()))?)
}

/// Begins a read: takes what is in the page cache from `offset` on, and has the kernel read the rest ahead without waiting for it.
/// Gives the number of bytes that were there; `None` where nothing can be begun: the file system reads nothing without waiting, or
/// `cache` is [`Cache::Passes`] and [`can_pass`] says no.
pub fn begin_read_at(fd: impl AsFd, buf: &mut [u8], offset: u64, cache: Cache) -> Option<usize> {
    match preadv2(fd, &mut [IoSliceMut::new(buf)], offset, cache.flags() | ReadWriteFlags::NOWAIT) {
        Ok(n) => Some(n),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => None,
        // The read that follows says what is wrong.
        Err(_) => Some(0),
    }
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
            Err(Errno::INVAL) if done > 0 && super::is_direct(fd)? => break,
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
