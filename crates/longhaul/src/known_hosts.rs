//! The file of pinned fingerprints: one line per agent, `host:port sha256:<hex>`.
//!
//! An agent that is met for the first time is pinned; from then on another fingerprint at the same address is
//! refused. Lines that begin with `#` are comments. The file has mode 0600; it is replaced as a whole under a
//! lock, so commands that run at once lose nothing of each other.

mod text;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mover::request::Fingerprint;
use sys::file::{Lock, LockMode, lock};
use text::Said;

/// Bytes of the file; a longer one is none of ours (100,000 agents need less).
const FILE_BYTES_MAX: u64 = 16 << 20;
/// How often, and how far apart, the lock is tried: five seconds in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct KnownHosts {
    path: PathBuf,
}

/// What the file says of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has the fingerprint that is pinned.
    Same,
    /// It was not there, and is now.
    Pinned,
}

/// Why an agent is not trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// Somebody else answers there.
    #[error(
        "the fingerprint of {name} has changed: it is {found}, but {pinned} is pinned in {}, line {line}. Somebody may be in between and read what is sent, or the agent was given a new identity. If you know that it was, remove the line (sed -i {line}d {}) or give --fingerprint",
        path.display(), path.display()
    )]
    Changed {
        /// The agent.
        name: String,
        /// What it shows now.
        found: Fingerprint,
        /// What it showed then.
        pinned: Fingerprint,
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
    },
    /// The file has a line that means nothing.
    #[error("{}, line {line}, is not `host:port sha256:<hex>`: mend or remove it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
    },
    /// The file cannot be used.
    #[error("cannot {what} {}; give --fingerprint, or another file with --known-hosts", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl KnownHosts {
    /// The file at `path`, which need not be there yet.
    pub(crate) fn new(path: PathBuf) -> KnownHosts {
        KnownHosts { path }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks an agent, and pins it when it is new.
    ///
    /// # Errors
    /// When another fingerprint is pinned for it, or the file cannot be used.
    pub(crate) fn check(&self, name: &str, found: &Fingerprint) -> Result<Known, Refused> {
        if self.look_up(name, found, &self.read()?)? {
            return Ok(Known::Same);
        }
        let _lock = self.lock()?;
        // Another command may have been quicker.
        let text = self.read()?;
        if self.look_up(name, found, &text)? {
            return Ok(Known::Same);
        }
        self.replace(&text::with(&text, name, found))?;
        Ok(Known::Pinned)
    }

    /// The fingerprint that is pinned for an agent. A file that cannot be used has none: [`KnownHosts::check`] says why.
    pub(crate) fn pinned(&self, name: &str) -> Option<Fingerprint> {
        text::pinned(&self.read().ok()?, name)
    }

    /// True if the agent is pinned with this fingerprint, false if it is not there.
    fn look_up(&self, name: &str, found: &Fingerprint, text: &str) -> Result<bool, Refused> {
        let path = || self.path.clone();
        match text::look_up(text, name, found) {
            Said::Nothing => Ok(false),
            Said::Same => Ok(true),
            Said::Other { pinned, line } => {
                Err(Refused::Changed { name: name.to_owned(), found: *found, pinned, path: path(), line })
            }
            Said::Damaged { line } => Err(Refused::Damaged { path: path(), line }),
        }
    }

    fn read(&self) -> Result<String, Refused> {
        match fs::metadata(&self.path) {
            Ok(meta) if meta.len() > FILE_BYTES_MAX => {
                return Err(self.error("read")(io::Error::other("it is too long for a file of known hosts")));
            }
            _ => {}
        }
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.error("read")(error)),
        }
    }

    /// Writes beside the file and puts it in its place; whoever reads meanwhile sees the old one or the new.
    fn replace(&self, text: &str) -> Result<(), Refused> {
        let beside = beside(&self.path, "new");
        let write = || {
            let mut file = private().truncate(true).open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(self.error("write"))
    }

    fn lock(&self) -> Result<File, Refused> {
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(self.error("make the directory of"))?;
        }
        let file = private().open(beside(&self.path, "lock")).map_err(self.error("lock"))?;
        for _ in 0..LOCK_TRIES {
            match lock(&file, LockMode::Exclusive) {
                Ok(Lock::Taken) => return Ok(file),
                Ok(Lock::Held { .. }) => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(self.error("lock")(error)),
            }
        }
        Err(self.error("lock")(io::Error::other("another command holds its lock for too long")))
    }

    fn error(&self, what: &'static str) -> impl FnOnce(io::Error) -> Refused + use<> {
        let path = self.path.clone();
        move |source| Refused::Io { what, path, source }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
