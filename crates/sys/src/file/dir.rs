//! An open directory and the names beneath it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::resolve::{self, Links, open_beneath};
use super::{Kind, Meta, OpenFlags, ReadDir, Refusal, Resolver};

/// An open directory; names are resolved strictly beneath it (see the [module](crate::file)).
///
/// Names are relative, of components joined by single `/`. Where it says so, an empty name or `.`
/// means the directory itself. The last component is never followed if it is a symbolic link,
/// unless [`OpenFlags::follow`] says so. Links on the way are followed for looking when they stay
/// beneath, and refused for changing.
///
/// Clones share the descriptor: keep one per directory in use ([`Dir::parent`]) and the kernel
/// resolves a name's directory once for many files.
#[derive(Clone, Debug)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    resolver: Resolver,
}

impl Dir {
    /// Opens a directory. This `path` is trusted: it may be absolute and pass through links.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory`, `PermissionDenied`.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Dir> {
        let mut dir = Dir::open_with(path, Resolver::Walk)?;
        dir.resolver = resolve::probe(dir.fd.as_fd());
        Ok(dir)
    }

    /// As [`Dir::open`], with the way to resolve names given instead of found out.
    ///
    /// # Errors
    ///
    /// As [`Dir::open`].
    pub fn open_with(path: impl AsRef<Path>, resolver: Resolver) -> io::Result<Dir> {
        let path = path.as_ref();
        let fd = open_listable(|flags| Ok(rustix::fs::open(path, flags, Mode::empty())?))?;
        Ok(Dir { fd: Arc::new(fd), resolver })
    }

    /// How this directory resolves names.
    pub fn resolver(&self) -> Resolver {
        self.resolver
    }

    /// Opens the directory `rel` (empty or `.`: this one again) as a root of its own.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `NotADirectory`; what the file system says.
    pub fn open_dir(&self, rel: &[u8]) -> io::Result<Dir> {
        self.subdir(rel, Links::Beneath)
    }

    /// The directory that holds `rel`, and the last component of `rel`.
    ///
    /// For many files in one directory: operations with the returned pair resolve nothing. No link
    /// is allowed on the way, so it is good for changes too.
    ///
    /// # Errors
    ///
    /// As [`Dir::open_dir`].
    pub fn parent<'a>(&self, rel: &'a [u8]) -> io::Result<(Dir, &'a [u8])> {
        let (parent, name) = resolve::split(rel)?;
        let dir = match parent {
            Some(parent) => self.subdir(parent, Links::Refuse)?,
            None => self.clone(),
        };
        Ok((dir, name))
    }

    /// The absolute path under which the kernel knows this directory now, for programs that are told of it. Nothing
    /// is opened by it here: another directory may stand there a moment later.
    ///
    /// # Errors
    ///
    /// `NotFound` when `/proc` is not mounted.
    pub fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    fn subdir(&self, rel: &[u8], links: Links) -> io::Result<Dir> {
        if is_self(rel) {
            return Ok(self.clone());
        }
        let fd = open_listable(|flags| {
            let flags = flags | OFlags::NOFOLLOW;
            open_beneath(self.fd.as_fd(), self.resolver, rel, flags, Mode::empty(), links)
        })
        .map_err(|e| self.say_link(rel, e, links))?;
        Ok(Dir { fd: Arc::new(fd), resolver: self.resolver })
    }

    /// `ENOTDIR` is also what the kernel says of a link in the last place; tell the two apart.
    fn say_link(&self, rel: &[u8], error: io::Error, links: Links) -> io::Error {
        let is_link = error.kind() == io::ErrorKind::NotADirectory
            && self
                .holder(rel, links)
                .and_then(|(dir, name)| super::meta::read(dir.as_fd(), name))
                .is_ok_and(|m| m.kind == Kind::Symlink);
        if is_link { Refusal::Symlink.into() } else { error }
    }

    /// The directory that holds `rel`, opened only to pass through.
    pub(super) fn holder<'a>(&self, rel: &'a [u8], links: Links) -> io::Result<(Holder<'_>, &'a [u8])> {
        let (parent, name) = resolve::split(rel)?;
        let holder = match parent {
            None => Holder::This(self.fd.as_fd()),
            Some(parent) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                Holder::Other(open_beneath(self.fd.as_fd(), self.resolver, parent, flags, Mode::empty(), links)?)
            }
        };
        Ok((holder, name))
    }

    /// Opens a file. Reads and writes on it block, whatever it is.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `NotFound`, `AlreadyExists`, `PermissionDenied`, `IsADirectory`; `ENXIO` for
    /// writing to a pipe without a reader; what the file system says.
    pub fn open_file(&self, rel: &[u8], flags: OpenFlags) -> io::Result<OwnedFd> {
        let links = if flags.changes() { Links::Refuse } else { Links::Beneath };
        let mode = if flags.creates() { mode(flags.mode) } else { Mode::empty() };
        let open = |oflags| open_beneath(self.fd.as_fd(), self.resolver, rel, oflags, mode, links);
        let oflags = flags.oflags();
        let fd = match open(oflags) {
            // Only the owner may ask for it.
            Err(e) if flags.no_atime && e.raw_os_error() == Some(libc::EPERM) => {
                open(oflags.difference(OFlags::NOATIME))?
            }
            opened => opened?,
        };
        let now = rustix::fs::fcntl_getfl(&fd)?;
        if now.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&fd, now.difference(OFlags::NONBLOCK))?;
        }
        if flags.direct {
            super::set_direct(&fd, true)?;
        }
        Ok(fd)
    }

    /// The attributes of `rel` (empty or `.`: of this directory), of a link itself if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `NotFound`; what the file system says.
    pub fn stat(&self, rel: &[u8]) -> io::Result<Meta> {
        if is_self(rel) {
            return Meta::of(self);
        }
        let (dir, name) = self.holder(rel, Links::Beneath)?;
        super::meta::read(dir.as_fd(), name)
    }

    /// Lists the directory `rel` (empty or `.`: this one).
    ///
    /// # Errors
    ///
    /// As [`Dir::open_dir`]; `PermissionDenied` when it may be passed through but not listed.
    pub fn read_dir(&self, rel: &[u8]) -> io::Result<ReadDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = if is_self(rel) {
            rustix::fs::openat(&self.fd, c".", flags, Mode::empty())?
        } else {
            open_beneath(self.fd.as_fd(), self.resolver, rel, flags, Mode::empty(), Links::Beneath)
                .map_err(|e| self.say_link(rel, e, Links::Beneath))?
        };
        Ok(ReadDir::new(fd))
    }

    /// The target of the symbolic link `rel`, uninterpreted.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of the way to it; `InvalidInput` when it is no link.
    pub fn readlink(&self, rel: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = self.holder(rel, Links::Beneath)?;
        Ok(rustix::fs::readlinkat(dir.as_fd(), name, Vec::new())?.into_bytes())
    }

    /// Makes the directory `rel`, with `mode` before the umask.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `AlreadyExists`; what the file system says.
    pub fn mkdir(&self, rel: &[u8], mode_bits: u32) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::mkdirat(dir.as_fd(), name, mode(mode_bits))?)
    }

    /// Makes the directory `rel` and those above it that are missing, and opens it.
    ///
    /// # Errors
    ///
    /// A [`Refusal`], also when a component is a link; `NotADirectory` when one is something else.
    pub fn mkdir_all(&self, rel: &[u8], mode_bits: u32) -> io::Result<Dir> {
        if is_self(rel) {
            return Ok(self.clone());
        }
        resolve::split(rel)?;
        let mut dir = self.clone();
        for name in rel.split(|&b| b == b'/') {
            dir = match dir.subdir(name, Links::Refuse) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    match rustix::fs::mkdirat(&dir.fd, name, mode(mode_bits)) {
                        // Somebody else was quicker.
                        Ok(()) | Err(Errno::EXIST) => dir.subdir(name, Links::Refuse)?,
                        Err(e) => return Err(e.into()),
                    }
                }
                opened => opened?,
            };
        }
        Ok(dir)
    }

    /// Renames `from` to `to`, replacing what is there, at once for every observer.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `CrossesDevices`; what the file system says.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = self.holder(from, Links::Refuse)?;
        let (to_dir, to) = self.holder(to, Links::Refuse)?;
        Ok(rustix::fs::renameat(from_dir.as_fd(), from, to_dir.as_fd(), to)?)
    }

    /// Renames `from` to `to` if nothing is there.
    ///
    /// File systems without `RENAME_NOREPLACE` (NFS) get a second name and lose the first one; a
    /// crash in between leaves both.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Unsupported` for a directory where the file system cannot; as
    /// [`Dir::rename`].
    pub fn rename_noreplace(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = self.holder(from, Links::Refuse)?;
        let (to_dir, to) = self.holder(to, Links::Refuse)?;
        let (from_dir, to_dir) = (from_dir.as_fd(), to_dir.as_fd());
        match rustix::fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_by_link(from_dir, from, to_dir, to),
            other => Ok(other?),
        }
    }

    /// Gives the file `from` a second name `to`; a link itself, if it is one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `AlreadyExists`; `PermissionDenied` for directories and on file systems
    /// without hard links.
    pub fn link(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = self.holder(from, Links::Refuse)?;
        let (to_dir, to) = self.holder(to, Links::Refuse)?;
        Ok(rustix::fs::linkat(from_dir.as_fd(), from, to_dir.as_fd(), to, AtFlags::empty())?)
    }

    /// Makes `rel` a symbolic link to `target`, whatever that is: it is not looked at.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of `rel`; `AlreadyExists`; `InvalidInput` for a target with a zero byte.
    pub fn symlink(&self, target: &[u8], rel: &[u8]) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::symlinkat(target, dir.as_fd(), name)?)
    }

    /// Removes the name `rel` of anything but a directory.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `NotFound`; `IsADirectory`.
    pub fn unlink(&self, rel: &[u8]) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::unlinkat(dir.as_fd(), name, AtFlags::empty())?)
    }

    /// Removes the empty directory `rel`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `NotFound`; `NotADirectory`; `DirectoryNotEmpty`.
    pub fn rmdir(&self, rel: &[u8]) -> io::Result<()> {
        let (dir, name) = self.holder(rel, Links::Refuse)?;
        Ok(rustix::fs::unlinkat(dir.as_fd(), name, AtFlags::REMOVEDIR)?)
    }

    /// Makes the names in this directory durable: after this, a new or renamed file is found after
    /// a power failure.
    ///
    /// # Errors
    ///
    /// What the device says; `PermissionDenied` when the directory may not be read.
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.fd) {
            // Opened with O_PATH.
            Err(Errno::BADF) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                super::fsync(rustix::fs::openat(&self.fd, c".", flags, Mode::empty())?)
            }
            // File systems that keep names safe by other means say they cannot.
            Err(Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The directory of a name: the [`Dir`] itself or one opened for the moment.
pub(super) enum Holder<'a> {
    This(BorrowedFd<'a>),
    Other(OwnedFd),
}

impl AsFd for Holder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Holder::This(fd) => *fd,
            Holder::Other(fd) => fd.as_fd(),
        }
    }
}

fn is_self(rel: &[u8]) -> bool {
    matches!(rel, b"" | b".")
}

pub(super) fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & 0o7777)
}

/// Opens a directory for listing and syncing, or, when it may not be listed, for passing through.
fn open_listable(open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let common = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match open(OFlags::RDONLY | common) {
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => open(OFlags::PATH | common),
        opened => opened,
    }
}

pub(super) fn rename_by_link(
    from_dir: BorrowedFd<'_>,
    from: &[u8],
    to_dir: BorrowedFd<'_>,
    to: &[u8],
) -> io::Result<()> {
    match super::meta::read(from_dir, from)?.kind {
        Kind::Dir => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system cannot rename a directory without replacing",
        )),
        _ => {
            rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(from_dir, from, AtFlags::empty())?)
        }
    }
}
