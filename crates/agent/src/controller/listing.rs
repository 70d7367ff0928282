//! What is beneath a path, page by page, in the order of the names.
//!
//! The order is that of a walk in which the names of each directory come by their bytes, a directory before what is in it. Memory
//! does not grow with the tree: of a directory so many names are held as its depth leaves, the smallest first, and it is read
//! again for the next ones.

use std::collections::{BinaryHeap, VecDeque};
use std::io;

use api::Name;
use api::agent::{After, Cause, Entry, Failed, FromAgent, Kind, Listed, MESSAGE_MAX, PAGE_MAX};
use mover::io::place::is_own_name;
use proto::RelPath;
use sys::file::Dir;

use super::cause::{of_io, shown};
use super::grants::PathGrant;

/// Names held of the uppermost directory; half of that of each one below.
pub const HELD_MAX: usize = 1 << 16;
/// Names held of any directory, however deep.
const HELD_MIN: usize = 256;
/// Directories that are kept open; those further up are opened again.
const OPEN_MAX: usize = 32;
/// JSON of the entries of a page, so that the message about it fits.
const PAGE_BYTES_MAX: usize = MESSAGE_MAX - (64 << 10);

/// Why there is no (further) page.
#[derive(Debug)]
pub struct ListError {
    /// Of what kind.
    pub cause: Cause,
    /// For people.
    pub text: String,
}

impl ListError {
    fn new(what: &str, path: &RelPath, error: &io::Error) -> ListError {
        let place = if path.is_root() { "the path".to_owned() } else { path.to_string() };
        ListError { cause: of_io(error), text: shown(&format!("cannot {what} {place}: {error}")) }
    }

    /// As a message.
    #[must_use]
    pub fn of_request(self, request: u64) -> FromAgent {
        FromAgent::Failed(Failed { request: Some(request), session: None, cause: self.cause, text: self.text })
    }
}

/// A walk. Its steps block on the file system.
pub struct Listing {
    top: Dir,
    directory: bool,
    /// A path that is no directory.
    single: Option<Entry>,
    stack: Vec<Level>,
    held_max: usize,
    /// The first entry of the next page.
    waiting: Option<Entry>,
    page: u32,
    done: bool,
}

/// A directory on the way down.
struct Level {
    /// Beneath the top.
    path: RelPath,
    dir: Option<Dir>,
    names: VecDeque<Vec<u8>>,
    /// The last name that was taken out of the directory; `None` before the first.
    after: Option<Vec<u8>>,
    /// There are further names behind those held.
    more: bool,
}

impl Listing {
    /// Looks at the path.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn begin(grant: &PathGrant) -> Result<Listing, ListError> {
        let fail = |error: io::Error| ListError::new("open", &RelPath::root(), &error);
        let (root, rel) = grant.open().map_err(fail)?;
        let kind = root.stat(rel.as_bytes()).map_err(fail)?.kind;
        let opened = match kind {
            sys::file::Kind::Dir | sys::file::Kind::Symlink => root.open_dir(rel.as_bytes()),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        };
        let mut listing = Listing {
            top: root.clone(),
            directory: true,
            single: None,
            stack: Vec::new(),
            held_max: HELD_MAX,
            waiting: None,
            page: 0,
            done: false,
        };
        match opened {
            Ok(dir) => {
                listing.top = dir.clone();
                listing.stack.push(Level::new(RelPath::root(), Some(dir)));
            }
            Err(error) if kind == sys::file::Kind::Dir => return Err(fail(error)),
            Err(_) => {
                let meta = root.stat(rel.as_bytes()).map_err(fail)?;
                let kind = kind_of(meta.kind).ok_or_else(|| ListError {
                    cause: Cause::Other,
                    text: "the path is neither file nor directory nor symbolic link".into(),
                })?;
                listing.directory = false;
                listing.single = Some(entry(Vec::new(), kind, meta.size));
            }
        }
        Ok(listing)
    }

    /// Goes on after the last entry of an earlier listing, whatever was added or removed since.
    ///
    /// # Errors
    /// When that is no name of an entry, the path is no directory, or what is on the way cannot be read.
    pub fn go_on(&mut self, after: &After) -> Result<(), ListError> {
        let no = |why: &str| ListError {
            cause: Cause::Other,
            text: shown(&format!("cannot list after {}: {why}", after.name)),
        };
        let path = RelPath::new(after.name.0.clone()).map_err(|error| no(&error.to_string()))?;
        if path.is_root() || !self.directory {
            return Err(no("it is no name in a directory"));
        }
        self.page = after.page;
        for name in path.as_bytes().split(|byte| *byte == b'/') {
            let Some(level) = self.stack.last_mut() else { return Err(no("the walk has not begun")) };
            level.after = Some(name.to_vec());
            let dir = level.open(&self.top).map_err(|error| ListError::new("open", &level.path, &error))?;
            let path = level.path.join(name).map_err(|error| no(&error.to_string()))?;
            let is_dir = dir.stat(name).is_ok_and(|meta| meta.kind == sys::file::Kind::Dir);
            if !is_dir {
                // What it was listed with comes before it, or is gone: further names of this directory are next.
                return Ok(());
            }
            let dir = dir.open_dir(name).map_err(|error| ListError::new("open", &path, &error))?;
            self.descend(path, dir);
        }
        Ok(())
    }

    fn descend(&mut self, path: RelPath, dir: Dir) {
        if let Some(above) = self.stack.len().checked_sub(OPEN_MAX) {
            self.stack[above].dir = None;
        }
        self.stack.push(Level::new(path, Some(dir)));
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// When something beneath the path cannot be listed: a list with holes would be taken for the whole.
    pub fn page(&mut self, request: u64) -> Result<Option<Listed>, ListError> {
        if self.done {
            return Ok(None);
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        loop {
            let next = match self.waiting.take() {
                Some(entry) => Some(entry),
                None => self.entry()?,
            };
            let Some(entry) = next else {
                self.done = true;
                break;
            };
            let json = serde_json::to_vec(&entry).map_or(PAGE_BYTES_MAX, |json| json.len() + 1);
            if entries.len() == PAGE_MAX || bytes + json > PAGE_BYTES_MAX {
                self.waiting = Some(entry);
                break;
            }
            bytes += json;
            entries.push(entry);
        }
        let page = self.page;
        self.page += 1;
        Ok(Some(Listed { request, page, entries, directory: self.directory, last: self.done }))
    }

    fn entry(&mut self) -> Result<Option<Entry>, ListError> {
        if let Some(single) = self.single.take() {
            return Ok(Some(single));
        }
        while let Some(depth) = self.stack.len().checked_sub(1) {
            let held_max = (self.held_max >> depth.min(16)).max(HELD_MIN.min(self.held_max));
            let level = &mut self.stack[depth];
            let Some(name) = level.names.pop_front() else {
                if !level.more {
                    self.stack.pop();
                } else if let Err(error) = level.refill(&self.top, held_max) {
                    return Err(ListError::new("list", &level.path, &error));
                }
                continue;
            };
            if let Some(entry) = self.look(depth, &name)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Looks at a name; a directory is walked next. `None` for what is not copied.
    fn look(&mut self, depth: usize, name: &[u8]) -> Result<Option<Entry>, ListError> {
        let level = &mut self.stack[depth];
        let long = |_| ListError {
            cause: Cause::Other,
            text: shown(&format!("a path beneath {} is longer than can be copied: shorten its names", level.path)),
        };
        let path = level.path.join(name).map_err(long)?;
        let looked = level.open(&self.top).and_then(|dir| dir.stat(name));
        let meta = match looked {
            Ok(meta) => meta,
            // It vanished since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ListError::new("look at", &path, &error)),
        };
        let Some(kind) = kind_of(meta.kind) else {
            tracing::warn!(%path, "not listed: neither file nor directory nor symbolic link");
            return Ok(None);
        };
        if kind == Kind::Directory {
            let dir = level.open(&self.top).and_then(|dir| dir.open_dir(name));
            let dir = dir.map_err(|error| ListError::new("open", &path, &error))?;
            self.descend(path.clone(), dir);
        }
        Ok(Some(entry(path.into(), kind, meta.size)))
    }
}

impl Level {
    fn new(path: RelPath, dir: Option<Dir>) -> Level {
        Level { path, dir, names: VecDeque::new(), after: None, more: true }
    }

    fn open(&mut self, top: &Dir) -> io::Result<Dir> {
        if self.dir.is_none() {
            let dir = if self.path.is_root() { top.clone() } else { top.open_dir(self.path.as_bytes())? };
            self.dir = Some(dir);
        }
        Ok(self.dir.clone().expect("it was opened above"))
    }

    /// Takes the next names, at most `held_max`.
    fn refill(&mut self, top: &Dir, held_max: usize) -> io::Result<()> {
        let mut smallest: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        self.more = false;
        for entry in self.open(top)?.read_dir(b"")? {
            let name = entry?.name;
            if is_own_name(&name) || self.after.as_ref().is_some_and(|after| name <= *after) {
                continue;
            }
            smallest.push(name);
            if smallest.len() > held_max {
                smallest.pop();
                self.more = true;
            }
        }
        self.names = smallest.into_sorted_vec().into();
        self.after = self.names.back().cloned().or(self.after.take());
        Ok(())
    }
}

fn kind_of(kind: sys::file::Kind) -> Option<Kind> {
    match kind {
        sys::file::Kind::File => Some(Kind::File),
        sys::file::Kind::Dir => Some(Kind::Directory),
        sys::file::Kind::Symlink => Some(Kind::Symlink),
        _ => None,
    }
}

fn entry(name: Vec<u8>, kind: Kind, size: u64) -> Entry {
    Entry { name: Name(name), size_bytes: if kind == Kind::File { size } else { 0 }, kind }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use api::agent::Role;
    use mover::request::{Fingerprint, Hooks};

    use super::super::grants::{Asker, Grants, SiteGrant};
    use super::*;
    use crate::roots::Root;

    fn listing(dir: &tempfile::TempDir, path: &str) -> Result<Listing, ListError> {
        let grants = Grants::new(vec![SiteGrant {
            controller: None,
            collaboration: "*".into(),
            root: Root::new(dir.path(), false).unwrap(),
            read: true,
            write: false,
            rate_bps: None,
            hooks: false,
        }]);
        let asker = Asker { controller: Fingerprint([0; 32]), collaboration: "x" };
        let path = dir.path().join(path).into_os_string().into_encoded_bytes();
        Listing::begin(&grants.find(asker, Role::Source, &path, &Hooks::default()).unwrap())
    }

    fn names(listing: &mut Listing) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(page) = listing.page(1).unwrap() {
            assert!(page.entries.len() <= PAGE_MAX);
            names.extend(page.entries.iter().map(|entry| format!("{:?} {}", entry.kind, entry.name)));
        }
        names
    }

    #[test]
    fn a_tree_is_listed_in_order_with_little_memory() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join("top").join(name);
        std::fs::create_dir_all(at("b/empty")).unwrap();
        for name in ["b-x", "b/2", "b/10", "a", "c"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::write(dir.path().join("top").join(OsStr::from_bytes(b"z\xff\n")), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", at("link")).unwrap();
        std::fs::create_dir_all(at(".longhaul")).unwrap();
        std::fs::write(at(".longhaul-0123.part"), "half").unwrap();
        let expected = [
            "File a",
            "Directory b",
            "File b/10",
            "File b/2",
            "Directory b/empty",
            "File b-x",
            "File c",
            "Symlink link",
            "File z%FF%0A",
        ];
        for held_max in [1, 2, 3, HELD_MAX] {
            let mut listing = listing(&dir, "top").unwrap();
            listing.held_max = held_max;
            assert_eq!(names(&mut listing), expected, "{held_max} names held");
        }
        for done in 0..expected.len() {
            let (_, name) = expected[done].split_once(' ').unwrap();
            let name = Name(if done + 1 == expected.len() { b"z\xff\n".to_vec() } else { name.into() });
            let mut rest = listing(&dir, "top").unwrap();
            rest.held_max = 1 + done % 3;
            rest.go_on(&After { name, page: 5 }).unwrap();
            assert_eq!(rest.page, 5);
            assert_eq!(names(&mut rest), expected[done + 1..], "after {}", expected[done]);
        }
        // What went away meanwhile leaves no hole: the rest of where it was is next.
        for (gone, next) in [("b/1/x", 2), ("b-a/y", 5), ("a/x", 1), ("b/zz", 5)] {
            let mut rest = listing(&dir, "top").unwrap();
            rest.go_on(&After { name: Name(gone.into()), page: 1 }).unwrap();
            assert_eq!(names(&mut rest), expected[next..], "after {gone}");
        }
        for wrong in ["", "../x", "/a"] {
            let mut rest = listing(&dir, "top").unwrap();
            assert!(rest.go_on(&After { name: Name(wrong.into()), page: 1 }).is_err(), "{wrong}");
        }
        let mut single = listing(&dir, "top/b/10").unwrap();
        let page = single.page(7).unwrap().unwrap();
        assert_eq!((page.entries.len(), page.entries[0].size_bytes, page.directory, page.last), (1, 4, false, true));
        assert_eq!(page.entries[0].name, Name(Vec::new()));
        assert!(single.page(7).unwrap().is_none());
        let mut empty = listing(&dir, "top/b/empty").unwrap();
        let page = empty.page(7).unwrap().unwrap();
        assert_eq!((page.entries.len(), page.directory, page.last), (0, true, true));
        assert_eq!(listing(&dir, "top/none").err().unwrap().cause, Cause::NotFound);
    }

    #[test]
    fn links_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        let page = listing(&dir, "out").unwrap().page(1).unwrap().unwrap();
        assert_eq!((page.directory, page.entries[0].kind), (false, Kind::Symlink));
        assert!(listing(&dir, "out/passwd").is_err());
    }

    #[test]
    fn pages_are_cut_by_bytes_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut deep = dir.path().to_owned();
        for _ in 0..13 {
            // Each byte takes three in the message.
            deep.push(OsStr::from_bytes(&[1; 250]));
        }
        std::fs::create_dir_all(&deep).unwrap();
        for n in 0..700 {
            std::fs::write(deep.join(format!("{n:03}")), "").unwrap();
        }
        let mut listing = listing(&dir, "").unwrap();
        let (mut pages, mut entries) = (0, 0);
        while let Some(page) = listing.page(1).unwrap() {
            pages += 1;
            entries += page.entries.len();
            let json = serde_json::to_vec(&FromAgent::Listed(page)).unwrap();
            assert!(json.len() <= MESSAGE_MAX, "{}", json.len());
        }
        assert_eq!(entries, 713);
        assert!(pages > 1, "{pages}");
    }

    #[test]
    fn many_levels_need_few_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = "d/".repeat(300);
        std::fs::create_dir_all(dir.path().join(&path)).unwrap();
        std::fs::write(dir.path().join(&path).join("f"), "").unwrap();
        std::fs::write(dir.path().join("z"), "").unwrap();
        let names = names(&mut listing(&dir, "").unwrap());
        assert_eq!((names.len(), names.last().map(String::as_str)), (302, Some("File z")));
    }
}
