//! Directories that several sources have at the same place, told as one.
//!
//! Of names that meet, the first source that has one wins; but a directory wins against what is none, for it may be
//! needed by what is in it, and what can be copied wins against what cannot. Directories that meet are merged; their
//! attributes are those of the first. What loses is skipped with a warning. All this is as rsync does it.
//!
//! # Bounds
//!
//! There is no table of what was told. A directory that is merged is told in slices of names, in the order of their
//! bytes: each slice is one pass over the listings of all sources that keeps the first names after those told, as
//! many as fit [`MERGE_BYTES_MAX`]. So each name is told once, whatever happens to the directories meanwhile, and a
//! directory of few names (some hundred thousand) takes one pass. Directories that one source has are walked as if
//! there were no other.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use proto::{EntryKind, RelPath};
use sys::file::{Kind, Meta};

use super::pool::{Name, Origin};
use super::walk::{DIRS_PER_SLICE_MIN, Frame, below};
use super::{ScanEvent, Scanner, SourceSpec};
use crate::io::place::is_own_name;

/// Memory for the names of one slice of a merged directory, in bytes.
pub const MERGE_BYTES_MAX: usize = 32 << 20;

/// Skipped names that are told one by one; the rest is counted.
pub const SKIPPED_TOLD_MAX: u64 = 100;

/// What a name costs beside its bytes: its place in the map, its list of sources, and what is made of it to be looked
/// at.
const NAME_OVERHEAD_BYTES: usize = 256;

/// What of a directory that is merged is still to come.
pub(super) struct Merge {
    /// The directories, by source.
    parts: BTreeMap<usize, Part>,
    /// Sources that are entries of this directory themselves.
    entries: Vec<usize>,
    /// The last name that was told.
    after: Option<Vec<u8>>,
}

struct Part {
    /// Beneath the root.
    place: Vec<u8>,
    /// Device and inode, once it was opened.
    id: Option<(u64, u64)>,
    /// It cannot be read, and that was told.
    failed: bool,
}

impl Merge {
    /// Of directories at these places, by source.
    pub(super) fn of(places: Vec<(usize, Vec<u8>)>) -> Merge {
        let part = |(source, place)| (source, Part { place, id: None, failed: false });
        Merge { parts: places.into_iter().map(part).collect(), entries: Vec::new(), after: None }
    }

    /// Where the directory of a source is.
    ///
    /// # Panics
    /// If the source has no part in it.
    pub(super) fn place(&self, source: usize) -> &[u8] {
        &self.parts[&source].place
    }
}

/// Whether what these sources bring can have the same places.
pub(super) fn can_meet(sources: &[SourceSpec]) -> bool {
    let mut names = HashSet::new();
    sources.len() > 1 && sources.iter().any(|source| source.contents_only || !names.insert(source.name.as_slice()))
}

/// What one source has under a name.
#[derive(Clone, Copy)]
struct Member {
    source: usize,
    /// The source is this itself.
    is_source: bool,
    kind: Kind,
    ino: u64,
}

impl Member {
    /// The lowest wins.
    fn rank(&self) -> u8 {
        match self.kind {
            Kind::Dir => 0,
            Kind::File | Kind::Symlink => 1,
            Kind::Fifo if self.is_source => 1,
            _ => 2,
        }
    }
}

/// The first names after those that were told.
struct Slice {
    names: BTreeMap<Vec<u8>, Vec<Member>>,
    bytes: usize,
    bytes_max: usize,
    after: Option<Vec<u8>>,
    /// There are names from this one on that have no room.
    end: Option<Vec<u8>>,
}

impl Slice {
    fn has_room_for(&self, name: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| name > after) && self.end.as_deref().is_none_or(|end| name < end)
    }

    fn add(&mut self, name: &[u8], member: Member) {
        match self.names.get_mut(name) {
            Some(members) => {
                members.push(member);
                self.bytes += size_of::<Member>();
            }
            None => {
                self.names.insert(name.to_vec(), vec![member]);
                self.bytes += name.len() + NAME_OVERHEAD_BYTES;
            }
        }
        while self.bytes > self.bytes_max
            && self.names.len() > 1
            && let Some((name, members)) = self.names.pop_last()
        {
            self.bytes -= name.len() + NAME_OVERHEAD_BYTES + (members.len() - 1) * size_of::<Member>();
            self.end = Some(name);
        }
    }
}

impl Scanner {
    /// Begins with all sources at once.
    pub(super) fn begin_merged(&mut self) {
        let mut merge = Merge::of(Vec::new());
        let (mut announced, mut complete) = (false, true);
        for source in 0..self.sources.len() {
            let SourceSpec { path: place, contents_only, name, .. } = self.sources[source].clone();
            if !contents_only {
                match RelPath::root().join(&name) {
                    Ok(_) => merge.entries.push(source),
                    Err(e) => {
                        complete = false;
                        self.error(RelPath::root(), format!("source `{}`: {e}", place.escape_ascii()));
                    }
                }
                continue;
            }
            match self.open_contents(source) {
                Ok((_, look)) => {
                    if !std::mem::replace(&mut announced, true) {
                        self.entry(RelPath::root(), EntryKind::Dir, look, place.clone());
                    }
                    merge.parts.insert(source, Part { place, id: None, failed: false });
                }
                Err(e) => {
                    complete = false;
                    self.error(RelPath::root(), format!("cannot open source `{}`: {e}", place.escape_ascii()));
                }
            }
        }
        // If no source brings the destination's own directory, nothing is told of it.
        let mut frame = Frame::merged(RelPath::root(), merge);
        (frame.complete, frame.listed) = (complete, !announced);
        self.stack.push(frame);
    }

    /// Where the directory of a source under a name in a merged one is.
    pub(super) fn place_in(&self, merge: &Merge, source: usize, name: &[u8]) -> Vec<u8> {
        match merge.parts.get(&source) {
            Some(part) => below(&part.place, name),
            None => self.sources[source].path.clone(),
        }
    }

    /// Finds the next names of the deepest directory, which is merged, and has them looked at.
    pub(super) fn merge_slice(&mut self) {
        let frame = self.stack.last_mut().expect("there is a directory");
        let path = frame.path.clone();
        let mut merge = frame.merge.take().expect("it is merged");
        let mut slice = Slice {
            names: BTreeMap::new(),
            bytes: 0,
            bytes_max: self.merge_bytes_max,
            after: merge.after.take(),
            end: None,
        };
        let mut complete = self.add_entries(&mut merge, &mut slice);
        let sources: Vec<usize> = merge.parts.keys().copied().collect();
        for source in sources {
            complete &= self.add_part(&path, &mut merge, source, &mut slice);
        }
        let last = self.choose(&path, &merge, slice);
        let frame = self.stack.last_mut().expect("there is a directory");
        frame.complete &= complete;
        if last.is_none() {
            frame.listing = None;
        }
        merge.after = last;
        frame.merge = Some(merge);
    }

    /// Adds the sources that are entries of the directory themselves; false if one is not there.
    fn add_entries(&mut self, merge: &mut Merge, slice: &mut Slice) -> bool {
        let before = merge.entries.len();
        merge.entries.retain(|&source| {
            let SourceSpec { path: place, name, .. } = &self.sources[source];
            if !slice.has_room_for(name) {
                return true;
            }
            match self.root.stat(place) {
                Ok(meta) => {
                    let is_dir = meta.kind == Kind::Dir;
                    let path = RelPath::root().join(name).expect("was joined when it was begun");
                    if !self.options.filter.matches(&path, is_dir) {
                        slice.add(name, Member { source, is_source: true, kind: meta.kind, ino: meta.ino });
                    }
                    true
                }
                Err(e) => {
                    let path = RelPath::root().join(name).expect("was joined when it was begun");
                    let why = format!("cannot look at source `{}`: {e}", place.escape_ascii());
                    self.ready.push_back(ScanEvent::Error { path, why });
                    false
                }
            }
        });
        merge.entries.len() == before
    }

    /// Adds the names that a source has in a directory; false if they cannot be read.
    fn add_part(&mut self, path: &RelPath, merge: &mut Merge, source: usize, slice: &mut Slice) -> bool {
        let opened = match self.open_part(merge, source) {
            Ok(opened) => opened,
            Err(e) => {
                self.cannot_list(path, &e);
                return false;
            }
        };
        let Some(dir) = opened else { return false };
        let read = dir.read_dir(b"").and_then(|mut names| {
            names.try_for_each(|entry| {
                let entry = entry?;
                if is_own_name(&entry.name) {
                    return Ok(());
                }
                if !slice.has_room_for(&entry.name) {
                    return Ok(());
                }
                let kind = match entry.kind.map_or_else(|| dir.stat(&entry.name).map(|meta| meta.kind), Ok) {
                    Ok(kind) => kind,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                    // Why it cannot be looked at is told when it is looked at.
                    Err(_) => Kind::File,
                };
                let left_out =
                    path.join(&entry.name).is_ok_and(|path| self.options.filter.matches(&path, kind == Kind::Dir));
                if !left_out {
                    slice.add(&entry.name, Member { source, is_source: false, kind, ino: entry.ino });
                }
                Ok(())
            })
        });
        if let Err(e) = read {
            merge.parts.get_mut(&source).expect("it was opened").failed = true;
            self.cannot_list(path, &e);
            return false;
        }
        true
    }

    /// The directory of a source; `None` if it has failed before.
    fn open_part(&mut self, merge: &mut Merge, source: usize) -> io::Result<Option<sys::file::Dir>> {
        let part = merge.parts.get_mut(&source).expect("the source has a part in it");
        if part.failed {
            return Ok(None);
        }
        part.failed = true;
        let dir = self.open_beneath(source, &part.place)?;
        let meta = Meta::of(&dir)?;
        if *part.id.get_or_insert((meta.dev, meta.ino)) != (meta.dev, meta.ino) {
            return Err(io::Error::other("it was replaced while it was read"));
        }
        part.failed = false;
        Ok(Some(dir))
    }

    /// Chooses who wins each name of a slice, as long as there is room for its directories. Gives the last name if
    /// more are to come.
    fn choose(&mut self, path: &RelPath, merge: &Merge, slice: Slice) -> Option<Vec<u8>> {
        // Half of the room, so that what is below has room for more than a few at a time: each slice is a pass.
        let room = self.dirs_pending_max.saturating_sub(self.dirs_pending) / 2;
        let dirs_max = room.max(DIRS_PER_SLICE_MIN);
        let mut dirs = 0;
        let mut batches: BTreeMap<Option<usize>, Vec<Name>> = BTreeMap::new();
        let mut last = None;
        let mut more = slice.end.is_some();
        for (name, mut members) in slice.names {
            if dirs >= dirs_max {
                more = true;
                break;
            }
            members.sort_by_key(|member| member.source);
            let winner = *members.iter().min_by_key(|member| member.rank()).expect("a name has a member");
            let is_dir = winner.kind == Kind::Dir;
            let (won, lost): (Vec<Member>, Vec<Member>) =
                members.iter().partition(|m| m.source == winner.source || (is_dir && m.kind == Kind::Dir));
            for loser in lost {
                self.skip(path, merge, &name, [&loser, &winner]);
            }
            dirs += if is_dir { won.len() } else { 0 };
            let place = winner.is_source.then(|| self.sources[winner.source].path.clone());
            let origin = Origin { sources: won.iter().map(|member| member.source).collect(), place };
            last = Some(name.clone());
            let batch = batches.entry((!winner.is_source).then_some(winner.source)).or_default();
            batch.push(Name { name, kind: Some(winner.kind), ino: winner.ino, listed: None, origin: Some(origin) });
        }
        self.batches = batches.into_iter().collect();
        last.filter(|_| more)
    }

    /// Has names of the deepest directory, which is merged, looked at where a source has them.
    pub(super) fn look_at_batch(&mut self, source: Option<usize>, names: Vec<Name>) {
        let Some(source) = source else { return self.look_in_order(self.root.clone(), names) };
        let frame = self.stack.last_mut().expect("there is a directory");
        let path = frame.path.clone();
        let mut merge = frame.merge.take().expect("it is merged");
        let opened = self.open_part(&mut merge, source);
        let frame = self.stack.last_mut().expect("there is a directory");
        frame.merge = Some(merge);
        match opened {
            Ok(Some(dir)) => self.look_in_order(dir, names),
            Ok(None) => frame.complete = false,
            Err(e) => {
                frame.complete = false;
                self.cannot_list(&path, &e);
            }
        }
    }

    /// Warns of a name that is not copied, for another source has it too.
    fn skip(&mut self, dir: &RelPath, merge: &Merge, name: &[u8], [loser, winner]: [&Member; 2]) {
        self.skipped += 1;
        let Ok(path) = dir.join(name) else { return };
        if self.skipped > SKIPPED_TOLD_MAX {
            return;
        }
        let shown = |member: &Member| {
            let place = match member.is_source {
                true => self.sources[member.source].path.clone(),
                false => below(merge.place(member.source), name),
            };
            let root = self.root.path().unwrap_or_default();
            root.join(OsStr::from_bytes(&place)).as_os_str().as_bytes().escape_ascii().to_string()
        };
        let because = match (winner.kind, loser.source < winner.source) {
            (Kind::Dir, _) => "is a directory of the same place",
            (_, false) => "goes to the same place and was named first",
            (_, true) => "goes to the same place",
        };
        let why = format!("{} is skipped: {} {because}", shown(loser), shown(winner));
        self.ready.push_back(ScanEvent::Warning { path, why });
    }

    /// Tells how many skipped names were not told, once; false if there is nothing to tell.
    pub(super) fn tell_skipped(&mut self) -> bool {
        let skipped = std::mem::take(&mut self.skipped);
        let Some(more) = skipped.checked_sub(SKIPPED_TOLD_MAX).filter(|more| *more > 0) else { return false };
        let why = format!("{more} more names are skipped, for several sources have them");
        self.ready.push_back(ScanEvent::Warning { path: RelPath::root(), why });
        true
    }
}
