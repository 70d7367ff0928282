//! Big files that the readers of one disk have open, together.
//!
//! The kernel reads ahead for each opened file by itself: to several readers that take chunks of a file in turn, each with a descriptor
//! of its own, every read is one that comes from nowhere. It goes in small pages and in more requests; with one descriptor they are
//! one reader that goes through the file (Linux, `mm/readahead.c`).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use sys::file::{Advice, Cache, Dir, Meta, OpenFlags, fadvise, is_cached, set_direct};

use super::SourceFile;
use crate::request::IoChoice;

/// Files kept open; those in use may be a few more.
const OPEN_FILES_MAX: usize = 32;
/// One look tells of so many bytes whether they were in the page cache before we came: in their middle, when the bytes before them
/// are reached. The kernel reads ahead by less than half of that, so it is not our own reading that is found there.
const REGION_BYTES: u64 = 64 << 20;
/// Regions of a file of which it is remembered.
const REGIONS_MAX: usize = 4;
/// The largest page there is: what a look has brought in lies within one.
const PAGE_BYTES_MAX: u64 = 64 << 10;

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
    size: u64,
    theirs: Mutex<Theirs>,
}

/// What others had in the page cache.
#[derive(Default)]
struct Theirs {
    /// By region.
    regions: BTreeMap<u64, bool>,
    /// Where looks have brought in a page. It goes again, for it would be in the way of reading ahead: pages have to be small
    /// around it.
    fetched: Vec<u64>,
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

impl Theirs {
    fn look(&mut self, file: &OpenFile, region: u64) -> bool {
        if let Some(answer) = self.regions.get(&region) {
            return *answer;
        }
        let begin = region * REGION_BYTES;
        let middle = begin + file.size.saturating_sub(begin).min(REGION_BYTES) / 2;
        let at = middle - middle % PAGE_BYTES_MAX;
        let answer = is_cached(&file.cached, at);
        if !answer {
            self.fetched.push(at);
        }
        self.regions.insert(region, answer);
        answer
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
        // Through the one the kernel reads ahead, through the other one it reads what it is asked for and nothing beyond.
        let _ = fadvise(&cached, 0, 0, Advice::Random);
        let (size, theirs) = (meta.size, Mutex::default());
        Ok(OpenFile {
            fd: Arc::new(fd),
            cached: Arc::new(cached),
            direct,
            cache,
            device: meta.dev,
            sparse,
            size,
            theirs,
        })
    }

    /// Whether somebody else had what is about to be read in the page cache, as the middle of its region tells, where our own
    /// reading ahead had not come when it was looked at.
    pub fn is_theirs(&self, offset: u64) -> bool {
        let theirs = &mut *self.theirs.lock().expect("no panic under the lock");
        theirs.fetched.retain(|at| {
            // Until it has arrived it stays.
            let _ = fadvise(&self.cached, *at, PAGE_BYTES_MAX, Advice::DontNeed);
            *at > offset + REGION_BYTES / 4
        });
        let region = offset / REGION_BYTES;
        let answer = theirs.look(self, region);
        theirs.look(self, region + 1);
        while theirs.regions.len() > REGIONS_MAX {
            theirs.regions.pop_first();
        }
        answer
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
    fn one_look_tells_for_a_region_what_others_have_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let data = std::fs::File::create(dir.path().join("file")).unwrap();
        data.set_len(3 * REGION_BYTES).unwrap();
        let open = || OpenFile::open(&Dir::open(dir.path()).unwrap(), IoChoice::PosixOld, &file(0, 0)).unwrap();
        let file = open();
        if is_cached(&file.cached, REGION_BYTES / 4) {
            eprintln!("skipped: this file system does not tell what is in the page cache");
            return;
        }
        let middle = |region: u64| region * REGION_BYTES + REGION_BYTES / 2;
        sys::file::read_exact_at(&file.cached, &mut [0; 4096], middle(1)).unwrap();
        assert_eq!([0, REGION_BYTES - 1, REGION_BYTES].map(|at| file.is_theirs(at)), [false, false, true]);
        sys::file::read_exact_at(&file.cached, &mut [0; 4096], middle(2)).unwrap();
        assert!(!file.is_theirs(2 * REGION_BYTES), "it was looked at before it was read");

        let (file, mut gone) = (open(), false);
        let _ = fadvise(&file.cached, 0, 0, Advice::DontNeed);
        assert!(!file.is_theirs(0));
        for _ in 0..50 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            file.is_theirs(0);
            gone = !is_cached(&file.cached, middle(0)) || gone;
        }
        assert!(gone, "the look has brought in a page that stays in the way");
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
