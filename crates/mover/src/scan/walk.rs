//! The walk from directory to directory.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use proto::limits::{OUTSTANDING_ENTRIES_MAX, PATH_MAX};
use proto::{EntryKind, RelPath};
use sys::file::{Dir, Kind, Meta, ReadDir};

use super::look::Look;
use super::merge::Merge;
use super::pool::{Looked, Name, Origin};
use super::{ScanEvent, Scanner};
use crate::io::place::is_own_name;

/// Names of one directory that are held and sorted at a time (some 10 MB). Larger directories are read and
/// announced in slices of this.
pub const SLICE_NAMES_MAX: usize = 128 << 10;

/// Directories that are announced but not yet walked. Beyond this number some are walked before the rest of
/// their parent is announced. A quarter of the entries that may be outstanding in the protocol, where each of
/// them stays until it is listed.
pub const DIRS_PENDING_MAX: usize = OUTSTANDING_ENTRIES_MAX / 4;

/// Subdirectories that are announced at a time beyond that, so that deep trees get on.
pub(super) const DIRS_PER_SLICE_MIN: usize = 16;

// A path has at most a level for every two bytes: even then all that is pending may be outstanding.
const _: () = assert!(DIRS_PENDING_MAX + PATH_MAX / 2 * DIRS_PER_SLICE_MIN < OUTSTANDING_ENTRIES_MAX);

/// Directories that are kept open, from the deepest up; a fraction of the usual limit of 1024 descriptors.
pub const OPEN_DIRS_MAX: usize = 64;

/// A directory being walked.
pub(super) struct Frame {
    /// Beneath the destination.
    pub(super) path: RelPath,
    /// The source that it is or is in, and where, beneath the root. Of a merged one its merge knows.
    source: usize,
    place: Vec<u8>,
    handle: Handle,
    /// Names still to come; `None` after the last.
    pub(super) listing: Option<Listing>,
    /// If it is merged from several.
    pub(super) merge: Option<Merge>,
    pub(super) complete: bool,
    pub(super) listed: bool,
    /// Announced, not yet walked.
    subdirs: VecDeque<Sub>,
}

enum Handle {
    Open(Dir),
    /// Closed to save descriptors; its device and inode tell whether it is found again.
    Closed(u64, u64),
    /// It could not be opened, or there was no need.
    None,
}

pub(super) enum Listing {
    Read(ReadDir),
    Named(Range<usize>),
    /// What its merge finds.
    Merged,
}

/// A directory that is announced.
pub(super) struct Sub {
    name: Vec<u8>,
    listing: SubListing,
    /// In a merged directory: the sources that have it.
    sources: Vec<usize>,
}

impl Sub {
    /// What it counts for among those pending.
    fn weight(&self) -> usize {
        self.sources.len().max(1)
    }
}

/// What of a directory is wanted.
pub(super) enum SubListing {
    /// Everything.
    Whole,
    /// This range of the list of names.
    Named(Range<usize>),
}

impl Frame {
    fn new(path: RelPath, source: usize, place: Vec<u8>) -> Frame {
        Frame {
            path,
            source,
            place,
            handle: Handle::None,
            listing: None,
            merge: None,
            complete: true,
            listed: false,
            subdirs: VecDeque::new(),
        }
    }

    /// One that is merged.
    pub(super) fn merged(path: RelPath, merge: Merge) -> Frame {
        Frame { listing: Some(Listing::Merged), merge: Some(merge), ..Frame::new(path, 0, Vec::new()) }
    }

    /// Where a name in it is, beneath the root.
    fn place_of(&self, name: &[u8], origin: Option<&Origin>) -> Vec<u8> {
        match (&self.merge, origin) {
            (Some(merge), Some(Origin { place: None, sources })) => below(merge.place(sources[0]), name),
            (_, Some(Origin { place: Some(place), .. })) => place.clone(),
            _ => below(&self.place, name),
        }
    }

    /// Whether it holds a descriptor, for tests of the limit.
    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.handle, Handle::Open(_))
    }
}

impl Scanner {
    /// Does a piece of work in the deepest directory.
    pub(super) fn advance(&mut self) {
        if let Some(looked) = self.looker.take() {
            return self.announce(looked);
        }
        if let Some((source, names)) = self.batches.pop_front() {
            return self.look_at_batch(source, names);
        }
        let crowded = self.dirs_pending >= self.dirs_pending_max;
        let frame = self.stack.last_mut().expect("there is a directory");
        match &frame.listing {
            // Each slice of a merged directory costs a pass over all of it: the more room for it, the fewer.
            Some(Listing::Merged) if frame.subdirs.is_empty() => return self.merge_slice(),
            Some(Listing::Read(_) | Listing::Named(_)) if frame.subdirs.is_empty() || !crowded => {
                return self.read_slice();
            }
            _ => {}
        }
        if frame.listing.is_none() && !frame.listed {
            frame.listed = true;
            self.ready.push_back(ScanEvent::Listed { path: frame.path.clone(), complete: frame.complete });
            return;
        }
        match frame.subdirs.pop_front() {
            Some(sub) => self.descend(sub),
            None => {
                self.stack.pop();
            }
        }
    }

    /// Begins with an announced directory of a source that was opened.
    pub(super) fn enter(
        &mut self,
        opened: io::Result<Dir>,
        source: usize,
        path: RelPath,
        place: Vec<u8>,
        listing: SubListing,
    ) {
        let mut frame = Frame { complete: matches!(listing, SubListing::Whole), ..Frame::new(path, source, place) };
        let begun = opened.and_then(|dir| {
            let listing = match listing {
                SubListing::Whole => Listing::Read(dir.read_dir(b"")?),
                SubListing::Named(range) => Listing::Named(range),
            };
            Ok((Handle::Open(dir), listing))
        });
        match begun {
            Ok((handle, listing)) => (frame.handle, frame.listing) = (handle, Some(listing)),
            Err(e) => {
                frame.complete = false;
                self.cannot_list(&frame.path, &e);
            }
        }
        self.stack.push(frame);
        self.close_one_above();
    }

    pub(super) fn cannot_list(&mut self, path: &RelPath, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            tracing::debug!("{path}: vanished before it was read");
        } else {
            self.error(path.clone(), format!("cannot read directory: {error}"));
        }
    }

    fn descend(&mut self, sub: Sub) {
        self.dirs_pending -= sub.weight();
        let parent = self.stack.last().expect("a subdirectory has a parent");
        let path = parent.path.join(&sub.name).expect("was joined when announced");
        if let Some(merge) = &parent.merge {
            return match sub.sources.as_slice() {
                [source] => {
                    let (source, place) = (*source, self.place_in(merge, *source, &sub.name));
                    let opened = self.open_beneath(source, &place);
                    self.enter(opened, source, path, place, sub.listing);
                }
                sources => {
                    let parts = sources.iter().map(|source| (*source, self.place_in(merge, *source, &sub.name)));
                    let merge = Merge::of(parts.collect());
                    self.stack.push(Frame::merged(path, merge));
                }
            };
        }
        let (source, place) = (parent.source, below(&parent.place, &sub.name));
        // Named itself, but nothing in it: there is no need to open it.
        if matches!(&sub.listing, SubListing::Named(range) if range.is_empty()) {
            self.ready.push_back(ScanEvent::Listed { path, complete: false });
            return;
        }
        let opened = self.deepest_dir().and_then(|dir| dir.open_dir(&sub.name));
        self.enter(opened, source, path, place, sub.listing);
    }

    /// Closes the directory that is now too far up.
    fn close_one_above(&mut self) {
        let Some(above) = self.stack.len().checked_sub(OPEN_DIRS_MAX + 1) else { return };
        let frame = &mut self.stack[above];
        if let Handle::Open(dir) = &frame.handle
            && let Ok(meta) = Meta::of(dir)
        {
            frame.handle = Handle::Closed(meta.dev, meta.ino);
        }
    }

    /// The deepest directory, opened again if need be.
    fn deepest_dir(&mut self) -> io::Result<Dir> {
        let frame = self.stack.last().expect("there is a directory");
        let (dev, ino) = match &frame.handle {
            Handle::Open(dir) => return Ok(dir.clone()),
            Handle::Closed(dev, ino) => (*dev, *ino),
            Handle::None => return Err(io::ErrorKind::NotFound.into()),
        };
        let (source, place) = (frame.source, frame.place.clone());
        let dir = self.open_beneath(source, &place)?;
        let meta = Meta::of(&dir)?;
        if (meta.dev, meta.ino) != (dev, ino) {
            return Err(io::Error::other("it was replaced while it was read"));
        }
        self.stack.last_mut().expect("there is a directory").handle = Handle::Open(dir.clone());
        Ok(dir)
    }

    /// Reads the next names of the deepest directory and has them looked at.
    fn read_slice(&mut self) {
        let dir = match self.deepest_dir() {
            Ok(dir) => dir,
            Err(e) => return self.cut_short(&e),
        };
        let dirs_max = self.dirs_pending_max.saturating_sub(self.dirs_pending).max(DIRS_PER_SLICE_MIN);
        let mut names = Vec::new();
        let mut dirs = 0;
        while names.len() < SLICE_NAMES_MAX && dirs < dirs_max {
            match self.next_name() {
                Some(Ok(name)) => {
                    // What is not known may be a directory.
                    dirs += usize::from(matches!(name.kind, None | Some(Kind::Dir)));
                    names.push(name);
                }
                Some(Err(e)) => {
                    self.cut_short(&e);
                    break;
                }
                None => {
                    self.stack.last_mut().expect("there is a directory").listing = None;
                    break;
                }
            }
        }
        self.look_at(dir, names);
    }

    fn next_name(&mut self) -> Option<io::Result<Name>> {
        let depth = self.stack.len() - 1;
        match self.stack.last_mut()?.listing.as_mut()? {
            Listing::Read(listing) => Some(listing.next()?.map(Name::from)),
            Listing::Named(range) => {
                let (child, rest) = self.names.first(range.clone(), depth)?;
                *range = rest;
                Some(Ok(Name { name: child.name, kind: None, ino: 0, listed: Some(child.listed), origin: None }))
            }
            Listing::Merged => None,
        }
    }

    /// The rest of the deepest directory cannot be had.
    fn cut_short(&mut self, error: &io::Error) {
        let frame = self.stack.last_mut().expect("there is a directory");
        frame.complete = false;
        frame.listing = None;
        let path = frame.path.clone();
        self.cannot_list(&path, error);
    }

    fn look_at(&mut self, dir: Dir, mut names: Vec<Name>) {
        for name in names.extract_if(.., |name| is_own_name(&name.name)) {
            self.own_name(&name.name);
        }
        if !self.options.filter.is_empty() {
            let frame = self.stack.last().expect("there is a directory");
            // Before they are looked at: what is left out may be left out because it cannot be looked at.
            names.retain(|name| {
                let (Some(kind), Ok(path)) = (name.kind, frame.path.join(&name.name)) else { return true };
                !self.options.filter.matches(&path, kind == Kind::Dir)
            });
        }
        self.look_in_order(dir, names);
    }

    /// What an interrupted copy has left, or one that runs holds, is no data; at the destination it would meet that copy's own.
    fn own_name(&mut self, name: &[u8]) {
        let frame = self.stack.last().expect("there is a directory");
        if let Ok(path) = frame.path.join(name) {
            let why = "left out: it belongs to a copy into this directory that runs or was interrupted".to_owned();
            self.ready.push_back(ScanEvent::Warning { path, why });
        }
    }

    /// Has names looked at in the order of the disk.
    pub(super) fn look_in_order(&mut self, dir: Dir, mut names: Vec<Name>) {
        // Names of one file by bytes, so that it is the same one that comes first in every run.
        names.sort_unstable_by(|a, b| (a.ino, &a.name).cmp(&(b.ino, &b.name)));
        self.looker.give(dir, names);
    }

    fn announce(&mut self, looked: Looked) {
        for (name, look) in looked {
            self.announce_one(name, look);
        }
    }

    fn announce_one(&mut self, name: Name, look: io::Result<Look>) {
        let frame = self.stack.last_mut().expect("there is a directory");
        let path = match frame.path.join(&name.name) {
            Ok(path) => path,
            Err(e) => {
                frame.complete = false;
                let parent = frame.path.clone();
                return self.error(parent, format!("`{}` is left out: {e}", name.name.escape_ascii()));
            }
        };
        let look = match look {
            Ok(look) => look,
            Err(e) if e.kind() == io::ErrorKind::NotFound && name.listed.is_none() => {
                // In a merged directory it may have kept out the same name of another source.
                frame.complete &= frame.merge.is_none();
                return tracing::debug!("{path}: vanished before it was looked at");
            }
            Err(e) => {
                frame.complete = false;
                return self.error(path, format!("cannot look at it: {e}{}", beneath(&name)));
            }
        };
        let is_dir = look.meta.kind == Kind::Dir;
        // Again, for listings that do not tell kinds, and for what has become something else since.
        if self.options.filter.matches(&path, is_dir) {
            return;
        }
        let place = frame.place_of(&name.name, name.origin.as_ref());
        let is_source = name.origin.as_ref().is_some_and(|origin| origin.place.is_some());
        if is_dir {
            let listing = name.listed.map_or(SubListing::Whole, |listed| SubListing::Named(listed.inner));
            let sources = name.origin.map(|origin| origin.sources).unwrap_or_default();
            let sub = Sub { name: name.name, listing, sources };
            self.dirs_pending += sub.weight();
            frame.subdirs.push_back(sub);
            return self.entry(path, EntryKind::Dir, look, place);
        }
        if is_source {
            return self.named_leaf(path, look, place);
        }
        let lost = beneath(&name);
        if !lost.is_empty() {
            self.error(path.clone(), format!("not a directory{lost}"));
        }
        if name.listed.is_none_or(|listed| listed.itself) {
            self.leaf(path, look, place);
        }
    }
}

/// What is lost when a name of a list is not a directory that can be walked.
fn beneath(name: &Name) -> String {
    match name.listed.as_ref().map_or(0, |listed| listed.inner.len()) {
        0 => String::new(),
        n => format!("; names of the list beneath it that are left out: {n}"),
    }
}

pub(super) fn below(place: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(place.len() + 1 + name.len());
    path.extend_from_slice(place);
    if !place.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

impl From<sys::file::Entry> for Name {
    fn from(entry: sys::file::Entry) -> Name {
        Name { name: entry.name, kind: entry.kind, ino: entry.ino, listed: None, origin: None }
    }
}
