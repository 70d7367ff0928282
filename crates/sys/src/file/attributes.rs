//! Setting times, permission bits and owners.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};

use super::dir::{Dir, mode};
use super::resolve::Links;
use super::{Kind, Meta, Refusal};

/// Times to set, in nanoseconds since 1970; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub atime_ns: Option<i128>,
    /// Last change of the content.
    pub mtime_ns: Option<i128>,
}

impl Times {
    /// Only the time of the last change.
    pub const fn mtime(mtime_ns: i128) -> Times {
        Times { atime_ns: None, mtime_ns: Some(mtime_ns) }
    }

    fn stamps(self) -> io::Result<Timestamps> {
        Ok(Timestamps { last_access: stamp(self.atime_ns)?, last_modification: stamp(self.mtime_ns)? })
    }
}

fn stamp(ns: Option<i128>) -> io::Result<Timespec> {
    const SECOND: i128 = 1_000_000_000;
    let Some(ns) = ns else {
        return Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ });
    };
    let tv_sec = i64::try_from(ns.div_euclid(SECOND))
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "time out of range"))?;
    Ok(Timespec { tv_sec, tv_nsec: ns.rem_euclid(SECOND) as _ })
}

/// Owners to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

impl Owner {
    fn ids(self) -> io::Result<(Option<Uid>, Option<Gid>)> {
        // The kernel takes the largest number for "leave it".
        if self.uid == Some(u32::MAX) || self.gid == Some(u32::MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "owner id out of range"));
        }
        Ok((self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw)))
    }
}

/// Sets the times of an open file.
///
/// # Errors
///
/// `InvalidInput` for a time beyond the kernel's 64 bits of seconds; `PermissionDenied` for a file
/// of somebody else. A file system with narrower times stores the nearest it can.
pub fn futimens(fd: impl AsFd, times: Times) -> io::Result<()> {
    Ok(rustix::fs::futimens(fd, &times.stamps()?)?)
}

/// Sets the permission bits (at most `0o7777`) of an open file.
///
/// # Errors
///
/// `PermissionDenied` for a file of somebody else.
pub fn fchmod(fd: impl AsFd, mode_bits: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(fd, mode(mode_bits))?)
}

/// Sets the owners of an open file. The kernel clears the set-id bits then: set the mode after.
///
/// # Errors
///
/// `PermissionDenied` without the privilege.
pub fn fchown(fd: impl AsFd, owner: Owner) -> io::Result<()> {
    let (uid, gid) = owner.ids()?;
    Ok(rustix::fs::fchown(fd, uid, gid)?)
}

impl Dir {
    /// Sets the times of `rel`, of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; as [`futimens`].
    pub fn set_times_nofollow(&self, rel: &[u8], times: Times) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::utimensat(dir.as_fd(), name, &times.stamps()?, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the owners of `rel`, of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; as [`fchown`].
    pub fn chown_nofollow(&self, rel: &[u8], owner: Owner) -> io::Result<()> {
        let (uid, gid) = owner.ids()?;
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::chownat(dir.as_fd(), name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the permission bits of `rel`. Goes through `/proc/self/fd`, so `/proc` has to be mounted.
    ///
    /// # Errors
    ///
    /// A [`Refusal`], also for a symbolic link: Linux has no permissions on those; as [`fchmod`].
    pub fn chmod(&self, rel: &[u8], mode_bits: u32) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        chmod_by_path(dir.as_fd(), name, mode(mode_bits))
    }
}

/// Through a descriptor that only names the file, so that it needs no permission to read and
/// nobody can swap it for a link in between.
fn chmod_by_path(dir: BorrowedFd<'_>, name: &[u8], mode: Mode) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if Meta::of(&fd)?.kind == Kind::Symlink {
        return Err(Refusal::Symlink.into());
    }
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)?)
}
