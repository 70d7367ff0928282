//! Extended attributes, of open files and, without following links, of names.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Dir;
use super::dir::Holder;
use super::resolve::Links;

/// The kernel's limit for one value and for a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const XATTR_BYTES_MAX: usize = 1 << 16;

/// What is tried first, on the stack: most files have few attributes or none.
const XATTR_BYTES_FIRST: usize = 512;

/// The names of the attributes of an open file, as the system lists them; none where the file
/// system has no attributes.
///
/// # Errors
///
/// What the file system says.
pub fn list_xattrs(fd: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let fd = fd.as_fd();
    list(|space| rustix::fs::flistxattr(fd, space))
}

/// The value of an attribute of an open file, or `None` if it has no such attribute.
///
/// # Errors
///
/// `Unsupported` where the file system has none; `PermissionDenied`.
pub fn get_xattr(fd: impl AsFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let fd = fd.as_fd();
    get(|space| rustix::fs::fgetxattr(fd, name, space))
}

/// Sets or replaces an attribute of an open file.
///
/// # Errors
///
/// `Unsupported` where the file system has none; `StorageFull`; `PermissionDenied`.
pub fn set_xattr(fd: impl AsFd, name: &[u8], value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())?)
}

/// Removes an attribute of an open file; says whether there was one.
///
/// # Errors
///
/// As [`set_xattr`].
pub fn remove_xattr(fd: impl AsFd, name: &[u8]) -> io::Result<bool> {
    gone(rustix::fs::fremovexattr(fd, name))
}

/// These go through `/proc/self/fd`, so `/proc` has to be mounted.
impl Dir {
    /// As [`list_xattrs`], of a name, and of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`](super::Refusal); as [`list_xattrs`].
    pub fn list_xattrs_nofollow(&self, rel: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let (holder, path) = self.in_proc(rel, Links::Beneath)?;
        let found = list(|space| rustix::fs::llistxattr(&path, space));
        drop(holder);
        found
    }

    /// As [`get_xattr`], of a name, and of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`](super::Refusal); as [`get_xattr`].
    pub fn get_xattr_nofollow(&self, rel: &[u8], name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let (holder, path) = self.in_proc(rel, Links::Beneath)?;
        let found = get(|space| rustix::fs::lgetxattr(&path, name, space));
        drop(holder);
        found
    }

    /// As [`set_xattr`], of a name, and of a link itself if it is one. Links have no `user.*`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`](super::Refusal); as [`set_xattr`].
    pub fn set_xattr_nofollow(&self, rel: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        let (holder, path) = self.in_proc(rel, Links::Refuse)?;
        let set = rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty());
        drop(holder);
        Ok(set?)
    }

    /// As [`remove_xattr`], of a name, and of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`](super::Refusal); as [`set_xattr`].
    pub fn remove_xattr_nofollow(&self, rel: &[u8], name: &[u8]) -> io::Result<bool> {
        let (holder, path) = self.in_proc(rel, Links::Refuse)?;
        let removed = gone(rustix::fs::lremovexattr(&path, name));
        drop(holder);
        removed
    }

    /// A path that names `rel` for as long as the holder of its directory lives, and that nobody
    /// can lead elsewhere: the kernel goes from the descriptor.
    fn in_proc(&self, rel: &[u8], links: Links) -> io::Result<(Holder<'_>, Vec<u8>)> {
        let (holder, name) = self.holder(rel, links)?;
        let mut path = format!("/proc/self/fd/{}/", holder.as_fd().as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        Ok((holder, path))
    }
}

fn gone(removed: rustix::io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn list(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Vec<Vec<u8>>> {
    match fetch(read) {
        Ok(names) => Ok(names.split(|&b| b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect()),
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

fn get(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Option<Vec<u8>>> {
    match fetch(read) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn fetch(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut first = [0; XATTR_BYTES_FIRST];
    match read(&mut first) {
        Ok(n) => Ok(first[..n].to_vec()),
        Err(Errno::RANGE) => {
            let mut space = vec![0; XATTR_BYTES_MAX];
            let n = read(&mut space)?;
            space.truncate(n);
            Ok(space)
        }
        Err(e) => Err(e),
    }
}
