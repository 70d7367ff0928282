//! Walks the sources and tells what is there, in the order that the protocol wants.
//!
//! ```text
//!   Entry(dir)                        a directory before what is in it
//!     Entry(dir/file) …               everything directly in it, subdirectories as entries only
//!   Listed(dir)
//!     Entry(dir/sub/file) …           then its subdirectories one after the other, each in the same way
//!   Listed(dir/sub)
//! ```
//!
//! Depth first, so that few directories are open at either end. In a directory, names come in the order of
//! inode numbers ([`SLICE_NAMES_MAX`] at a time): disks keep inodes, and mostly the files' data, in
//! that order, while the order of a listing is random on ext4. It is the same order in every run over an
//! unchanged tree, which is what resuming wants.
//!
//! # Bounds
//!
//! Memory does not grow with the tree. Names are held for one slice of one directory; of directories that
//! are announced but not yet walked, at most [`DIRS_PENDING_MAX`] (plus a few per level) are held, by
//! walking some before the rest of their parent is announced. That also keeps well below the number of
//! entries that may be outstanding in the protocol, where an announced directory stays until it is listed.
//! At most [`OPEN_DIRS_MAX`] directories (and tops of sources) are open; those further up are opened again on the
//! way back. First names of hard links take [`LINKS_BYTES_MAX`].
//!
//! # Several sources
//!
//! They are walked one after the other, unless what they bring can meet: then they are merged, directory by
//! directory (see `scan/merge.rs`), as rsync does it.
//!
//! # What is carried
//!
//! Files, directories and symbolic links; with [`ScanOptions::preserve_all`] also owners, extended
//! attributes (`user.*`, POSIX ACLs, and `trusted.*` and `security.*` where they may be read) and hard links.
//! A name that vanishes between listing and looking was not there. Whatever else goes wrong is a
//! [`ScanEvent::Error`], and the walk goes on.

mod links;
mod look;
mod merge;
mod names;
mod pool;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use proto::{Entry, EntryKind, RelPath};
use sys::file::{Dir, Kind};

use crate::filter::Filter;
use links::LinkTable;
use look::Look;
use pool::{Looker, Name};
use walk::{Frame, SubListing};

pub use links::LINKS_BYTES_MAX;
pub use look::{XATTRS_BYTES_MAX, entry_of, identity_of};
pub use merge::{MERGE_BYTES_MAX, SKIPPED_TOLD_MAX};
pub use walk::{DIRS_PENDING_MAX, OPEN_DIRS_MAX, SLICE_NAMES_MAX};

/// Threads that look at names beside the one that walks. Looking waits for the disk or the server, not for
/// the CPU, so the number does not follow the cores.
pub const HELPERS_DEFAULT: usize = 4;

/// One source of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceSpec {
    /// Where it is, beneath the scanner's root; empty for the root itself.
    pub path: Vec<u8>,
    /// What is in it goes to the destination itself, as with rsync's trailing slash. It has to be a directory;
    /// a symbolic link to one is followed.
    pub contents_only: bool,
    /// Its name at the destination; not used with `contents_only`.
    pub name: Vec<u8>,
    /// Only these beneath the source (a directory: itself, not what is in it), with the directories that lead
    /// to them. Empty for everything, as it must be where there are several sources.
    pub names: Vec<RelPath>,
}

/// How sources are walked.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// Owners, extended attributes and hard links too.
    pub preserve_all: bool,
    /// What is left out.
    pub filter: Filter,
    /// Threads that look at names; 0 to do without.
    pub helpers: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions { preserve_all: false, filter: Filter::default(), helpers: HELPERS_DEFAULT }
    }
}

/// Tells a reader how to open what an entry stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRef {
    /// Where it is, beneath the scanner's root.
    pub path: Vec<u8>,
}

/// What the walk meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanEvent {
    /// Something to be copied.
    Entry(Entry, SourceRef),
    /// All entries of a directory were told, except what is in its subdirectories.
    Listed {
        /// The directory, beneath the destination.
        path: RelPath,
        /// True if it was read whole (but for what the filter leaves out).
        complete: bool,
    },
    /// Something that is not copied, or not as asked.
    Error {
        /// Where, beneath the destination.
        path: RelPath,
        /// Why, for the user.
        why: String,
    },
    /// Something to know; nothing is missing.
    Warning {
        /// Where, beneath the destination.
        path: RelPath,
        /// What, for the user.
        why: String,
    },
}

/// Tops of sources that are kept open; a merge of more of them opens the others anew when it needs them.
const OPEN_TOPS_MAX: usize = 64;

/// The walk: an iterator that blocks on the file system. It is to run in a thread of its own.
pub struct Scanner {
    root: Dir,
    options: ScanOptions,
    sources: Vec<SourceSpec>,
    /// The first source that was not begun.
    next_source: usize,
    /// What the sources bring can meet: they are walked all at once.
    merged: bool,
    /// Tops of the sources being walked.
    tops: BTreeMap<usize, Dir>,
    /// Names of the source being walked, if it has any.
    names: names::NameList,
    /// From the top to the directory being walked.
    stack: Vec<Frame>,
    /// Directories announced but not yet walked, in all of the stack; a merged one counts once for each source.
    dirs_pending: usize,
    /// [`DIRS_PENDING_MAX`], but in tests of it.
    dirs_pending_max: usize,
    /// [`MERGE_BYTES_MAX`], but in tests of it.
    merge_bytes_max: usize,
    /// Names of the merged directory being walked that are to be looked at next, by source; `None` for those that
    /// are sources themselves.
    batches: VecDeque<(Option<usize>, Vec<Name>)>,
    /// Names that lost against the same name of another source.
    skipped: u64,
    links: LinkTable,
    looker: Looker,
    ready: VecDeque<ScanEvent>,
}

impl Scanner {
    /// Begins a walk of `sources`, which are beneath `root`: one after the other, or merged if what they bring can
    /// meet at the destination. Then the first source that has a name wins, but a directory wins against what is
    /// none.
    #[must_use]
    pub fn new(root: Dir, mut sources: Vec<SourceSpec>, options: ScanOptions) -> Scanner {
        for source in &mut sources {
            if source.path == b"." {
                source.path.clear();
            }
        }
        Scanner {
            root,
            merged: merge::can_meet(&sources),
            sources,
            next_source: 0,
            tops: BTreeMap::new(),
            names: names::NameList::default(),
            stack: Vec::new(),
            dirs_pending: 0,
            dirs_pending_max: DIRS_PENDING_MAX,
            merge_bytes_max: MERGE_BYTES_MAX,
            batches: VecDeque::new(),
            skipped: 0,
            links: LinkTable::default(),
            looker: Looker::new(options.helpers, options.preserve_all),
            ready: VecDeque::new(),
            options,
        }
    }

    /// Does a bounded piece of work; false if there is none left.
    fn step(&mut self) -> bool {
        if !self.stack.is_empty() {
            self.advance();
        } else if self.next_source == self.sources.len() {
            return self.tell_skipped();
        } else if self.merged {
            self.next_source = self.sources.len();
            self.begin_merged();
        } else {
            let source = self.next_source;
            self.next_source += 1;
            self.tops.clear();
            self.begin(source);
        }
        true
    }

    fn begin(&mut self, source: usize) {
        let SourceSpec { path: place, contents_only, name, names } = self.sources[source].clone();
        let top = if contents_only { Ok(RelPath::root()) } else { RelPath::root().join(&name) };
        let top = match top {
            Ok(top) => top,
            Err(e) => return self.error(RelPath::root(), format!("source `{}`: {e}", place.escape_ascii())),
        };
        let listing = if names.is_empty() { SubListing::Whole } else { SubListing::Named(self.names.set(names)) };
        if contents_only {
            self.begin_contents(source, listing);
        } else {
            self.begin_named(source, top, listing);
        }
    }

    fn begin_contents(&mut self, source: usize, listing: SubListing) {
        let place = self.sources[source].path.clone();
        match self.open_contents(source) {
            Ok((dir, look)) => {
                self.entry(RelPath::root(), EntryKind::Dir, look, place.clone());
                self.enter(Ok(dir), source, RelPath::root(), place, listing);
            }
            Err(e) => self.error(RelPath::root(), format!("cannot open source `{}`: {e}", place.escape_ascii())),
        }
    }

    /// The top of a source of which the contents are wanted.
    fn open_contents(&mut self, source: usize) -> io::Result<(Dir, Look)> {
        let dir = self.top(source)?;
        let look = look::look_at_dir(&dir, self.options.preserve_all)?;
        Ok((dir, look))
    }

    /// The directory that a source is.
    fn top(&mut self, source: usize) -> io::Result<Dir> {
        if let Some(dir) = self.tops.get(&source) {
            return Ok(dir.clone());
        }
        let spec = &self.sources[source];
        let dir = match spec.contents_only {
            true => look::open_following(&self.root, &spec.path)?,
            false => self.root.open_dir(&spec.path)?,
        };
        if self.tops.len() < OPEN_TOPS_MAX {
            self.tops.insert(source, dir.clone());
        }
        Ok(dir)
    }

    /// A directory at `place`, which a source is or holds.
    fn open_beneath(&mut self, source: usize, place: &[u8]) -> io::Result<Dir> {
        let top = self.top(source)?;
        let rel = &place[self.sources[source].path.len()..];
        let rel = rel.strip_prefix(b"/").unwrap_or(rel);
        if rel.is_empty() { Ok(top) } else { top.open_dir(rel) }
    }

    fn begin_named(&mut self, source: usize, top: RelPath, listing: SubListing) {
        let place = self.sources[source].path.clone();
        let look = match look::look(&self.root, &place, self.options.preserve_all) {
            Ok(look) => look,
            Err(e) => return self.error(top, format!("cannot look at source `{}`: {e}", place.escape_ascii())),
        };
        let kind = look.meta.kind;
        if self.options.filter.matches(&top, kind == Kind::Dir) {
            return;
        }
        if kind != Kind::Dir && matches!(listing, SubListing::Named(_)) {
            return self.error(top, "not a directory, so none of the names listed are in it".to_owned());
        }
        match kind {
            Kind::Dir => {
                self.entry(top.clone(), EntryKind::Dir, look, place.clone());
                let dir = self.top(source);
                self.enter(dir, source, top, place, listing);
            }
            _ => self.named_leaf(top, look, place),
        }
    }

    /// Tells of a source that is no directory.
    fn named_leaf(&mut self, path: RelPath, look: Look, place: Vec<u8>) {
        match look.meta.kind {
            // Somebody who names a pipe wants what comes out of it.
            Kind::Fifo => self.entry(path, EntryKind::Stream, look, place),
            _ => self.leaf(path, look, place),
        }
    }

    /// Tells of anything but a directory.
    fn leaf(&mut self, path: RelPath, look: Look, place: Vec<u8>) {
        let kind = match look.meta.kind {
            Kind::File if self.options.preserve_all => {
                let seen = self.links.see(&look.meta, &path);
                if seen.overflow {
                    let why = "too many hard links are open: further names are copied as files of their own";
                    self.ready.push_back(ScanEvent::Warning { path: path.clone(), why: why.to_owned() });
                }
                seen.first
                    .map_or_else(|| EntryKind::File(identity_of(&look.meta)), |target| EntryKind::HardLink { target })
            }
            Kind::File => EntryKind::File(identity_of(&look.meta)),
            Kind::Symlink => EntryKind::Symlink { target: look.target.clone() },
            _ => return self.error(path, "not a regular file, directory or symlink: skipped".to_owned()),
        };
        self.entry(path, kind, look, place);
    }

    fn entry(&mut self, path: RelPath, kind: EntryKind, look: Look, place: Vec<u8>) {
        let trouble = look.trouble.as_ref().map(|why| (path.clone(), why.clone()));
        let entry = look.into_entry(path, kind, self.options.preserve_all);
        self.ready.push_back(ScanEvent::Entry(entry, SourceRef { path: place }));
        if let Some((path, why)) = trouble {
            self.error(path, why);
        }
    }

    fn error(&mut self, path: RelPath, why: String) {
        self.ready.push_back(ScanEvent::Error { path, why });
    }
}

impl Iterator for Scanner {
    type Item = ScanEvent;

    fn next(&mut self) -> Option<ScanEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.step() {
                return None;
            }
        }
    }
}
