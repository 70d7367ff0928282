//! The destination directory: open subdirectories, the lock, the journal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use proto::RelPath;
use sys::file::{Dir, Lock, LockMode, Meta, OpenFlags, lock, syncfs};

use super::decide::remove_if_there;
use super::describe::LeftOut;
use super::journal::JournalFile;
use super::target::{TEMP_PREFIX, Target};

/// Directories kept open.
const DIRS_MAX: usize = 1024;
/// The directory beneath the destination that holds lock and journal while a copy runs.
pub const STATE_DIR: &[u8] = b".longhaul";
/// Whether a name is one of those that copies make at their destination and take away again. Nothing else may have it: it would be
/// taken for such, or stand in its place.
#[must_use]
pub fn is_own_name(name: &[u8]) -> bool {
    name == STATE_DIR || name.starts_with(TEMP_PREFIX)
}

/// Times that a lock file may vanish between opening and locking it.
const LOCK_TRIES: usize = 16;

/// Why a destination cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Somebody else writes there.
    #[error("{place} is being written by {holder}: wait for it, or choose another destination")]
    Busy {
        /// The destination.
        place: String,
        /// Who: from the lock file.
        holder: String,
    },
    /// The operating system says no.
    #[error("{doing}")]
    Os {
        /// What was tried.
        doing: String,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

fn os<T>(result: io::Result<T>, doing: impl FnOnce() -> String) -> Result<T, PlaceError> {
    result.map_err(|error| PlaceError::Os { doing: doing(), error })
}

/// A destination directory in use by one session.
pub struct Place {
    /// The directory.
    pub root: Dir,
    /// Its device.
    pub dev: u64,
    dirs: Mutex<Dirs>,
    /// Other file systems that are mounted beneath it, by device: the first directory that was met there.
    mounts: Mutex<BTreeMap<u64, RelPath>>,
    /// What cannot be set there.
    pub left_out: LeftOut,
    locks: Option<Locks>,
}

#[derive(Default)]
struct Dirs {
    open: HashMap<RelPath, Arc<Dir>>,
    /// Directories that this session made: nothing is in them that it did not put there.
    fresh: HashSet<RelPath>,
}

/// Held while the session runs.
struct Locks {
    dir: Dir,
    key: String,
    _tree: OwnedFd,
    _own: Option<OwnedFd>,
}

/// What is locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The whole directory.
    Tree,
    /// One name in it; other names may be written by others.
    Name(Vec<u8>),
    /// Some names in it, which this key stands for; other names may be written by others.
    Part([u8; 16]),
}

impl Place {
    /// Uses a directory without lock and journal (dry run).
    ///
    /// # Errors
    /// When the directory cannot be looked at.
    pub fn look(root: Dir) -> Result<Place, PlaceError> {
        let meta = os(root.stat(b""), || "looking at the destination".to_owned())?;
        Ok(Place {
            root,
            dev: meta.dev,
            dirs: Mutex::default(),
            mounts: Mutex::default(),
            left_out: LeftOut::default(),
            locks: None,
        })
    }

    /// Locks a directory and opens its journal. `label` names it for messages, `holder` names us for others.
    ///
    /// # Errors
    /// When somebody else holds it, or the operating system says no.
    pub fn lock(root: Dir, scope: &Scope, label: &str, holder: &str) -> Result<(Place, JournalFile), PlaceError> {
        for _ in 1..LOCK_TRIES {
            match Place::try_lock(root.clone(), scope, label, holder) {
                // Whoever finished there a moment ago took away what was about to be locked.
                Err(PlaceError::Os { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                locked => return locked,
            }
        }
        Place::try_lock(root, scope, label, holder)
    }

    fn try_lock(root: Dir, scope: &Scope, label: &str, holder: &str) -> Result<(Place, JournalFile), PlaceError> {
        let mut place = Place::look(root)?;
        match place.root.mkdir(STATE_DIR, 0o700) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return os(Err(e), || format!("making {label}/.longhaul"));
            }
            _ => {}
        }
        let (dir, _) = os(place.root.parent(b".longhaul/x"), || format!("opening {label}/.longhaul"))?;
        let key = match scope {
            Scope::Tree => "tree".to_owned(),
            Scope::Name(name) => format!("name-{:016x}", xxhash_rust::xxh3::xxh3_64(name)),
            Scope::Part(key) => format!("part-{:032x}", u128::from_be_bytes(*key)),
        };
        let mode = if *scope == Scope::Tree { LockMode::Exclusive } else { LockMode::Shared };
        let tree = take_lock(&dir, "tree.lock", mode, label, holder)?;
        let own = match scope {
            Scope::Tree => None,
            Scope::Name(_) | Scope::Part(_) => {
                Some(take_lock(&dir, &format!("{key}.lock"), LockMode::Exclusive, label, holder)?)
            }
        };
        let name = format!("{key}.journal");
        let journal =
            os(JournalFile::open(dir.clone(), name.as_bytes()), || format!("opening the journal of {label}"))?;
        place.locks = Some(Locks { dir, key, _tree: tree, _own: own });
        Ok((place, journal))
    }

    /// A directory that was there is on this device.
    pub fn met(&self, path: &RelPath, dev: u64) {
        if dev != self.dev {
            self.mounts.lock().expect("no panic under the lock").entry(dev).or_insert_with(|| path.clone());
        }
    }

    /// Where owners and extended attributes that cannot be set are gathered, if they are to be set at all.
    #[must_use]
    pub fn preserves(&self, all: bool) -> Option<&LeftOut> {
        all.then_some(&self.left_out)
    }

    /// Makes durable all that was done in it, on all its file systems.
    ///
    /// # Errors
    /// When one of them cannot be opened any more or fails to write.
    pub fn sync(&self) -> io::Result<()> {
        syncfs(&self.root)?;
        let mounts: Vec<RelPath> = self.mounts.lock().expect("no panic under the lock").values().cloned().collect();
        mounts.iter().try_for_each(|path| syncfs(self.dir(path)?.as_ref()))
    }

    /// Removes lock and journal: the copy is complete.
    pub fn finish(mut self) {
        if let Some(locks) = self.locks.take() {
            let unlink = |name: String| {
                if let Err(error) = locks.dir.unlink(name.as_bytes())
                    && error.kind() != io::ErrorKind::NotFound
                {
                    tracing::warn!(%error, name, "removing from .longhaul");
                }
            };
            unlink(format!("{}.journal", locks.key));
            unlink(format!("{}.lock", locks.key));
            if locks._own.is_some() {
                // Nobody who shares the tree's lock now can lose it: rmdir fails while others have files here.
                if let Ok(Lock::Taken) = lock(&locks._tree, LockMode::Exclusive) {
                    unlink("tree.lock".to_owned());
                }
            }
            let _ = self.root.rmdir(STATE_DIR);
        }
    }

    /// An open directory of the destination, no link on the way.
    ///
    /// # Errors
    /// What the file system says.
    pub fn dir(&self, path: &RelPath) -> io::Result<Arc<Dir>> {
        if let Some(dir) = self.dirs.lock().expect("no panic under the lock").open.get(path) {
            return Ok(dir.clone());
        }
        let dir = if path.is_root() {
            self.root.clone()
        } else {
            let mut inner = path.as_bytes().to_vec();
            inner.extend_from_slice(b"/x");
            self.root.parent(&inner)?.0
        };
        let dir = Arc::new(dir);
        let mut dirs = self.dirs.lock().expect("no panic under the lock");
        if dirs.open.len() >= DIRS_MAX {
            // Rare, and whoever still needs one of them holds it; a fresh start is as good as an order.
            dirs.open.clear();
        }
        dirs.open.insert(path.clone(), dir.clone());
        Ok(dir)
    }

    /// Remembers that this session made a directory.
    pub fn made(&self, path: &RelPath) {
        self.dirs.lock().expect("no panic under the lock").fresh.insert(path.clone());
    }

    /// True if this session made the directory.
    pub fn is_fresh(&self, path: &RelPath) -> bool {
        self.dirs.lock().expect("no panic under the lock").fresh.contains(path)
    }

    /// Removes temporary names that a killed run left; if the same copy goes on, except those of big files. A copy
    /// to a `single` name looks after that name only: others may be writing beside it.
    pub fn sweep(&self, state: &proto::journal::State, goes_on: bool, single: Option<&[u8]>) {
        let at = |path: &'_ RelPath| Target::temp_name(single.unwrap_or(path.as_bytes()), 0);
        let keep: HashSet<Vec<u8>> =
            state.partials.values().filter(|_| goes_on).map(|partial| at(&partial.path)).collect();
        let stem = single.map_or(TEMP_PREFIX.to_vec(), Target::temp_stem);
        for partial in state.partials.values().filter(|_| !goes_on) {
            // Its directory may be gone too.
            let dir = self.dir(&partial.path.parent().unwrap_or_default());
            if let Err(error) = dir.and_then(|dir| remove_if_there(&dir, &at(&partial.path))) {
                tracing::debug!(%error, path = %partial.path, "removing what is left of an abandoned copy");
            }
        }
        for path in state.touched.values().flatten() {
            let Ok(dir) = self.dir(path) else { continue };
            let Ok(names) = dir.read_dir(b"") else { continue };
            for entry in names.flatten().filter(|e| e.name.starts_with(&stem) && !keep.contains(&e.name)) {
                if let Err(error) = remove_if_there(&dir, &entry.name) {
                    tracing::warn!(%error, dir = %path, "removing a temporary file");
                }
            }
        }
    }

    /// The directory is complete: nothing more will be asked of it.
    pub fn close(&self, path: &RelPath) {
        let mut dirs = self.dirs.lock().expect("no panic under the lock");
        dirs.fresh.remove(path);
        dirs.open.remove(path);
    }
}

/// Takes a lock on a file that may be removed by its last holder at any moment.
fn take_lock(dir: &Dir, name: &str, mode: LockMode, label: &str, holder: &str) -> Result<OwnedFd, PlaceError> {
    let doing = || format!("locking {label}/.longhaul/{name}");
    for _ in 0..LOCK_TRIES {
        let flags = OpenFlags { read: true, write: true, create: true, mode: 0o600, ..OpenFlags::default() };
        let fd = os(dir.open_file(name.as_bytes(), flags), doing)?;
        match lock(&fd, mode) {
            Ok(Lock::Held { by }) => {
                let mut text = vec![0; 512];
                let len = sys::file::read_at(&fd, &mut text, 0).unwrap_or(0);
                let said = String::from_utf8_lossy(&text[..len]).trim().to_owned();
                let process = by.map(|pid| format!("process {pid}")).unwrap_or_else(|| "another process".to_owned());
                let holder = if said.is_empty() { process } else { said };
                return Err(PlaceError::Busy { place: label.to_owned(), holder });
            }
            Ok(Lock::Taken) => {}
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!("this file system has no locks: nothing keeps a second copy away")
            }
            Err(e) => return os(Err(e), doing),
        }
        let same = dir.stat(name.as_bytes()).and_then(|at| Ok(at.is_same_file(&Meta::of(&fd)?))).unwrap_or(false);
        if same {
            if mode == LockMode::Exclusive {
                let _ = sys::file::truncate(&fd, 0);
                let _ = sys::file::write_all_at(&fd, holder.as_bytes(), 0);
            }
            return Ok(fd);
        }
    }
    os(Err(io::Error::other("the lock file keeps vanishing")), doing)
}
