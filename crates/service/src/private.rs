//! Files that only this user may read: written whole or not at all, refused when others can read them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sys::file::{Dir, Meta, OpenFlags, Owner, fchown, fsync};

/// Mode of a private file.
const FILE_MODE: u32 = 0o600;
/// Mode of the directory.
const DIR_MODE: u32 = 0o700;
/// Bytes of a private file; a longer one is none of ours.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why the state directory or a file in it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system refused.
    #[error("cannot {what} {}{}", path.display(), fix.map(|f| format!(": {f}")).unwrap_or_default())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The way out, where there is one.
        fix: Option<&'static str>,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file that holds a secret can be read by others.
    #[error(
        "{0} holds a secret, but others can read it (mode {mode:04o}): run `chmod 600 {0}`; if they may have read it, remove it and a new one is made",
        path.display()
    )]
    Loose {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Others can put files into the state directory.
    #[error("others can change the directory {0} (mode {mode:04o}): run `chmod 700 {0}`", path.display())]
    LooseDir {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else's file lies in the state directory.
    #[error("{0} belongs to user {uid}, its directory to user {dir_uid}: run `chown {dir_uid} {0}`", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// The owner of the directory.
        dir_uid: u32,
    },
    /// The content makes no sense.
    #[error("{} is damaged: {why}; {fix}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// The way out.
        fix: &'static str,
    },
}

/// A directory of private files.
#[derive(Debug, Clone)]
pub struct PrivateDir {
    path: PathBuf,
    dir: Dir,
    meta: Meta,
}

/// Identifies one state of a file: two that are equal are the same content and mode, unless they are so
/// fresh that the file system's clock cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    ino: u64,
    size: u64,
    mtime_ns: i128,
    /// When anything about it was last changed, nanoseconds since 1970.
    pub ctime_ns: i128,
}

impl PrivateDir {
    /// Opens the directory; makes it, with those above it, when it is not there. `fix` is the way out when that fails: how
    /// another place is chosen.
    ///
    /// # Errors
    /// When it cannot be made or opened, or others can put files into it.
    pub fn open(path: &Path, fix: &'static str) -> Result<PrivateDir, StateError> {
        let error = |what, source| StateError::Io { what, path: path.to_owned(), fix: Some(fix), source };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(path)
            .map_err(|e| error("make the state directory", e))?;
        let dir = Dir::open(path).map_err(|e| error("open the state directory", e))?;
        let meta = Meta::of(&dir).map_err(|e| error("look at the state directory", e))?;
        if meta.mode & 0o022 != 0 {
            return Err(StateError::LooseDir { path: path.to_owned(), mode: meta.mode });
        }
        Ok(PrivateDir { path: path.to_owned(), dir, meta })
    }

    /// The whole name of a file in it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file, `None` if there is none.
    ///
    /// # Errors
    /// When the system refuses, others can read the file, it is somebody else's, or too long.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let error = |source| self.error("read", name, source);
        let fd = match self.dir.open_file(name.as_bytes(), OpenFlags::read()) {
            Ok(fd) => fd,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(error(e)),
        };
        let meta = Meta::of(&fd).map_err(error)?;
        self.check(name, &meta)?;
        let mut bytes = Vec::new();
        File::from(fd).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(error)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(error(too_long()));
        }
        Ok(Some(bytes))
    }

    /// The state of a file, `None` if there is none.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn stamp(&self, name: &str) -> Result<Option<Stamp>, StateError> {
        match self.dir.stat(name.as_bytes()) {
            Ok(m) => Ok(Some(Stamp { ino: m.ino, size: m.size, mtime_ns: m.mtime_ns, ctime_ns: m.ctime_ns })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("look at", name, e)),
        }
    }

    fn check(&self, name: &str, meta: &Meta) -> Result<(), StateError> {
        let path = || self.path_of(name);
        if meta.mode & 0o077 != 0 {
            return Err(StateError::Loose { path: path(), mode: meta.mode });
        }
        if meta.uid != self.meta.uid && meta.uid != sys::process::euid() {
            return Err(StateError::Foreign { path: path(), uid: meta.uid, dir_uid: self.meta.uid });
        }
        Ok(())
    }

    /// Makes a file if it is not there; `false` if somebody was quicker.
    ///
    /// # Errors
    /// When the system refuses or the content is too long.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, StateError> {
        self.publish("make", name, bytes, |temporary| match self.dir.rename_noreplace(temporary, name.as_bytes()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        })
    }

    /// Puts a file in place of what is there.
    ///
    /// # Errors
    /// When the system refuses or the content is too long.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.publish("write", name, bytes, |temporary| self.dir.rename(temporary, name.as_bytes()).map(|()| true))?;
        Ok(())
    }

    /// A file to lock; it stays empty.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn lock_file(&self, name: &str) -> Result<File, StateError> {
        let flags = OpenFlags { create: true, mode: FILE_MODE, ..OpenFlags::write() };
        let fd = self.dir.open_file(name.as_bytes(), flags).map_err(|e| self.error("open", name, e))?;
        self.adopt(&fd).map_err(|e| self.error("hand over", name, e))?;
        Ok(fd.into())
    }

    fn publish(
        &self,
        what: &'static str,
        name: &str,
        bytes: &[u8],
        place: impl FnOnce(&[u8]) -> io::Result<bool>,
    ) -> Result<bool, StateError> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(self.error(what, name, too_long()));
        }
        let written = write_beside(&self.dir, name.as_bytes(), bytes, |fd| self.adopt(fd), place);
        written.map_err(|e| self.error(what, name, e))
    }

    /// When root works on a service's directory, the files belong to the service: else it could not read them.
    fn adopt(&self, fd: &impl std::os::fd::AsFd) -> io::Result<()> {
        if sys::process::euid() == 0 && self.meta.uid != 0 {
            fchown(fd, Owner { uid: Some(self.meta.uid), gid: Some(self.meta.gid) })?;
        }
        Ok(())
    }

    fn error(&self, what: &'static str, name: &str, source: io::Error) -> StateError {
        StateError::Io { what, path: self.path_of(name), fix: None, source }
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {FILE_BYTES_MAX} bytes"))
}

/// Writes a private file under a temporary name, makes it durable, and lets `place` give it its own.
pub(crate) fn write_beside(
    dir: &Dir,
    name: &[u8],
    bytes: &[u8],
    adopt: impl FnOnce(&File) -> io::Result<()>,
    place: impl FnOnce(&[u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut random = [0; 8];
    sys::random::fill(&mut random)?;
    let temporary = [b".", name, format!(".{:016x}", u64::from_ne_bytes(random)).as_bytes()].concat();
    let mut file = File::from(dir.open_file(&temporary, OpenFlags::create_new(FILE_MODE))?);
    let placed =
        file.write_all(bytes).and_then(|()| adopt(&file)).and_then(|()| fsync(&file)).and_then(|()| place(&temporary));
    if !matches!(placed, Ok(true)) {
        // The cause is what the caller must hear; a leftover is only ugly.
        let _ = dir.unlink(&temporary);
    }
    if placed? {
        dir.sync()?;
        return Ok(true);
    }
    Ok(false)
}
