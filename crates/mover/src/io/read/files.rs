//! Big files that the readers of one disk have open, together.
//!
//! The kernel reads ahead for each opened file by itself: to several readers that take chunks of a file in turn, each with a descriptor
//! of its own, every read is one that comes from nowhere. It goes in small pages and in more requests; with one descriptor they are
//! one reader that goes through the file (Linux, `mm/readahead.c`).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use sys::file::{Advice, Cache, Dir, Meta, OpenFlags, fadvise, set_direct};

use super::SourceFile;
use crate::request::IoChoice;

/// Files kept open; those in use may be a few more.
const OPEN_FILES_MAX: usize = 32;

/// A file that is open for reading.
pub struct OpenFile {
    /// What chunks are read from.
    pub fd: Arc<OwnedFd>,
    /// For what O_DIRECT cannot do, or not well.
    pub cached: Arc<OwnedFd>,
    /// `fd` goes past the page cache.
    pub direct: bool,
    /// What becomes of the page cache behind reads of `fd`, if it does not.
    pub cache: Cache,
    /// The device that it lies on.
    pub device: u64,
    /// It has holes.
    pub sparse: bool,
}

/// The files that are open.
#[derive(Default)]
pub struct OpenFiles {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By index and generation; with when it was asked for last.
    files: HashMap<(u64, u8), (u64, Arc<OpenFile>)>,
    asked: u64,
}

impl OpenFiles {
    /// A file, opened beneath `root` if it is not.
    ///
    /// # Errors
    /// What the file system says.
    pub fn get(&self, root: &Dir, io: IoChoice, file: &SourceFile) -> io::Result<Arc<OpenFile>> {
        let state = &mut *self.state.lock().expect("no panic under the lock");
        state.asked += 1;
        let key = (file.index, file.generation);
        if let Some((asked, open)) = state.files.get_mut(&key) {
            *asked = state.asked;
            return Ok(open.clone());
        }
        if state.files.len() >= OPEN_FILES_MAX {
            let oldest = state.files.iter().min_by_key(|(_, (asked, _))| *asked).map(|(key, _)| *key);
            oldest.and_then(|key| state.files.remove(&key));
        }
        let open = Arc::new(OpenFile::open(root, io, file)?);
        state.files.insert(key, (state.asked, open.clone()));
        Ok(open)
    }
}

impl OpenFile {
    fn open(root: &Dir, io: IoChoice, file: &SourceFile) -> io::Result<OpenFile> {
        let flags = OpenFlags { no_atime: true, ..OpenFlags::read() };
        let fd = root.open_file(&file.place.path, flags)?;
        let cached = root.open_file(&file.place.path, flags)?;
        let meta = Meta::of(&fd)?;
        let sparse = meta.blocks * 512 < meta.size;
        let direct = io.may_be_direct() && set_direct(&fd, true).unwrap_or(false);
        let cache = if direct { Cache::Stays } else { io.cache(&fd) };
        // The page cache is asked for what is wanted, and for nothing beyond: what has been read and cleared out by hand would be
        // read again. Where the kernel clears it out nothing is, and reading ahead has large pages.
        let _ = fadvise(&cached, 0, 0, Advice::Random);
        if !direct && cache == Cache::Stays {
            let _ = fadvise(&fd, 0, 0, Advice::Random);
        }
        Ok(OpenFile { fd: Arc::new(fd), cached: Arc::new(cached), direct, cache, device: meta.dev, sparse })
    }
}

#[cfg(test)]
mod tests {
    use proto::{Entry, EntryKind, Identity, RelPath, Time};

    use super::*;
    use crate::scan::SourceRef;

    fn file(index: u64, generation: u8) -> SourceFile {
        let entry = Entry {
            path: RelPath::new("file").unwrap(),
            kind: EntryKind::File(Identity::default()),
            mode: 0o600,
            mtime: Time::default(),
            owner: None,
            xattrs: Vec::new(),
        };
        let place = SourceRef { path: entry.path.as_bytes().to_vec() };
        SourceFile { index, generation, place, entry, digest: None }
    }

    #[test]
    fn a_file_is_opened_once_for_all_readers_and_the_longest_unused_one_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), [7; 4096]).unwrap();
        let (root, files) = (Dir::open(dir.path()).unwrap(), OpenFiles::default());
        let get = |index, generation| files.get(&root, IoChoice::Posix, &file(index, generation)).unwrap();
        let (first, second) = (get(0, 0), get(1, 0));
        assert!(Arc::ptr_eq(&first, &get(0, 0)));
        assert!(!Arc::ptr_eq(&first, &get(0, 1)), "it has changed: another file may have its name now");
        for index in 2..=OPEN_FILES_MAX as u64 {
            get(index, 0);
            assert!(Arc::ptr_eq(&first, &get(0, 0)), "it is in use");
        }
        assert!(!Arc::ptr_eq(&second, &get(1, 0)), "it was the oldest");
        assert_eq!(files.state.lock().unwrap().files.len(), OPEN_FILES_MAX);
    }

    #[test]
    fn what_is_not_there_is_said_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (root, files) = (Dir::open(dir.path()).unwrap(), OpenFiles::default());
        let missing = files.get(&root, IoChoice::Posix, &file(0, 0)).err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        std::fs::write(dir.path().join("file"), [7; 4096]).unwrap();
        files.get(&root, IoChoice::Posix, &file(0, 0)).unwrap();
    }
}
