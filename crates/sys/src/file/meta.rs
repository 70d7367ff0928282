//! What the file system knows about a file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags};
use rustix::io::Errno;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A local socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// `None` for a type that is unknown, as some file systems report while listing.
    pub(super) fn new(file_type: FileType) -> Option<Kind> {
        Some(match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Unknown => return None,
        })
    }
}

/// The attributes of a file. Times are nanoseconds since 1970, and may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Length in bytes; of a symbolic link, that of its target's name.
    pub size: u64,
    /// Permission bits with set-id and sticky: `0o7777` at most.
    pub mode: u32,
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// How many names it has.
    pub nlink: u32,
    /// The device that holds it, as `st_dev`.
    pub dev: u64,
    /// Its number on that device: with `dev`, its identity.
    pub ino: u64,
    /// For a device node, the device it stands for.
    pub rdev: u64,
    /// Last access.
    pub atime_ns: i128,
    /// Last change of the content.
    pub mtime_ns: i128,
    /// Last change of the content or the attributes; cannot be set.
    pub ctime_ns: i128,
    /// Space taken, in units of 512 bytes whatever the block size: less than `size` has holes.
    pub blocks: u64,
}

impl Meta {
    /// Of an open file (also one opened with `O_PATH`).
    ///
    /// # Errors
    ///
    /// What the file system says, such as `ESTALE` from a network file system.
    pub fn of(fd: impl AsFd) -> io::Result<Meta> {
        read(fd.as_fd(), b"")
    }

    /// Whether the two are the same file, not just equal ones.
    pub fn is_same_file(&self, other: &Meta) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

/// Of `name` in `dir`, not following it if it is a link; of `dir` itself if `name` is empty.
pub(super) fn read(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Meta> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    match rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS) {
        Ok(stat) => from_statx(&stat),
        // Before Linux 4.11, and in sandboxes that do not know it.
        Err(Errno::NOSYS | Errno::PERM) => read_portable(dir, name),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn read_portable(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Meta> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    from_stat(&rustix::fs::statat(dir, name, flags)?)
}

fn from_statx(s: &Statx) -> io::Result<Meta> {
    let ns = |t: rustix::fs::StatxTimestamp| nanoseconds(t.tv_sec, i64::from(t.tv_nsec));
    Ok(Meta {
        kind: kind(u32::from(s.stx_mode))?,
        size: s.stx_size,
        mode: u32::from(s.stx_mode) & 0o7777,
        uid: s.stx_uid,
        gid: s.stx_gid,
        nlink: s.stx_nlink,
        dev: rustix::fs::makedev(s.stx_dev_major, s.stx_dev_minor),
        ino: s.stx_ino,
        rdev: rustix::fs::makedev(s.stx_rdev_major, s.stx_rdev_minor),
        atime_ns: ns(s.stx_atime),
        mtime_ns: ns(s.stx_mtime),
        ctime_ns: ns(s.stx_ctime),
        blocks: s.stx_blocks,
    })
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the widths of these fields differ between architectures"
)]
fn from_stat(s: &Stat) -> io::Result<Meta> {
    Ok(Meta {
        kind: kind(s.st_mode)?,
        size: s.st_size as u64,
        mode: s.st_mode & 0o7777,
        uid: s.st_uid,
        gid: s.st_gid,
        nlink: s.st_nlink as u32,
        dev: s.st_dev as u64,
        ino: s.st_ino as u64,
        rdev: s.st_rdev as u64,
        atime_ns: nanoseconds(s.st_atime as i64, s.st_atime_nsec as i64),
        mtime_ns: nanoseconds(s.st_mtime as i64, s.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(s.st_ctime as i64, s.st_ctime_nsec as i64),
        blocks: s.st_blocks as u64,
    })
}

fn kind(mode: u32) -> io::Result<Kind> {
    Kind::new(FileType::from_raw_mode(mode))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "file of unknown type"))
}

fn nanoseconds(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}
