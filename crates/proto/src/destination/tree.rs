//! Directories that are not closed: who waits for them, and for whom they wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::DELETE_NAMES_BYTES_MAX;
use crate::{Entry, EntryKind, RelPath};

/// A directory between its announcement and its end.
#[derive(Default)]
pub(super) struct Dir {
    /// It is there: what is in it may be looked at.
    ready: bool,
    /// Entries that wait until it is there.
    waiting: Vec<u64>,
    /// Entries directly in it that may still touch it: files until they are done, directories until they are there.
    pending: u64,
    /// Whether it could be read whole, once all names in it are known.
    listed: Option<bool>,
    /// What the source has in it; only kept if the rest is to be deleted.
    names: BTreeSet<Vec<u8>>,
    names_bytes: usize,
    /// There were too many names to keep.
    names_lost: bool,
}

/// What a directory is ready for.
pub(super) enum Step {
    /// Something is missing yet.
    Wait,
    /// Remove what is not among these names.
    Delete(BTreeSet<Vec<u8>>),
    /// Nothing in it will change any more.
    Close,
}

/// All directories that are not closed.
pub(super) struct Tree {
    /// By index.
    dirs: BTreeMap<u64, Dir>,
    /// By path; if a path was announced twice, the last one.
    by_path: BTreeMap<RelPath, u64>,
    names_bytes: usize,
    /// [`DELETE_NAMES_BYTES_MAX`], or less in a test.
    pub(super) names_bytes_max: usize,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let names_bytes_max = DELETE_NAMES_BYTES_MAX;
        Tree { dirs: BTreeMap::new(), by_path: BTreeMap::new(), names_bytes: 0, names_bytes_max }
    }

    /// Counts an entry in the directory that holds it; gives the index of that, if it is known.
    pub(super) fn enter(&mut self, index: u64, entry: &Entry, keep_names: bool) -> Option<u64> {
        let parent = entry.path.parent().and_then(|path| self.by_path.get(&path).copied());
        if let Some(dir) = parent.and_then(|parent| self.dirs.get_mut(&parent)) {
            dir.pending += 1;
            if keep_names && !dir.names_lost {
                self.names_bytes += dir.keep(entry.path.name());
                if self.names_bytes > self.names_bytes_max {
                    self.names_bytes -= dir.lose_names();
                }
            }
        }
        if entry.kind == EntryKind::Dir {
            self.dirs.insert(index, Dir::default());
            self.by_path.insert(entry.path.clone(), index);
        }
        parent
    }

    /// Lets an entry wait for the directory that holds it. False if that is there (or gone): no need to.
    pub(super) fn wait(&mut self, parent: Option<u64>, index: u64) -> bool {
        let dir = parent.and_then(|parent| self.dirs.get_mut(&parent)).filter(|dir| !dir.ready);
        dir.map(|dir| dir.waiting.push(index)).is_some()
    }

    /// A directory is there; gives what waited for it.
    pub(super) fn ready(&mut self, index: u64) -> Vec<u64> {
        let Some(dir) = self.dirs.get_mut(&index) else { return Vec::new() };
        dir.ready = true;
        std::mem::take(&mut dir.waiting)
    }

    /// An entry touches the directory that holds it no more.
    pub(super) fn leave(&mut self, parent: u64) {
        if let Some(dir) = self.dirs.get_mut(&parent) {
            dir.pending -= 1;
        }
    }

    /// All names in a directory are known. False if that was so already.
    pub(super) fn listed(&mut self, index: u64, complete: bool) -> bool {
        let Some(dir) = self.dirs.get_mut(&index).filter(|dir| dir.listed.is_none()) else { return false };
        dir.listed = Some(complete);
        true
    }

    /// What a directory is ready for. A deletion is given once.
    pub(super) fn step(&mut self, index: u64, delete: bool) -> Step {
        let Some(dir) = self.dirs.get_mut(&index) else { return Step::Wait };
        let (true, Some(complete)) = (dir.ready, dir.listed) else { return Step::Wait };
        if delete && complete && !dir.names_lost {
            dir.listed = Some(false);
            self.names_bytes -= std::mem::take(&mut dir.names_bytes);
            return Step::Delete(std::mem::take(&mut dir.names));
        }
        if dir.pending == 0 { Step::Close } else { Step::Wait }
    }

    /// A directory is done. Gives whether it was ever there, what waited for it, and whether names were lost.
    pub(super) fn remove(&mut self, index: u64, path: &RelPath) -> Option<(bool, Vec<u64>, bool)> {
        let dir = self.dirs.remove(&index)?;
        self.names_bytes -= dir.names_bytes;
        if self.by_path.get(path) == Some(&index) {
            self.by_path.remove(path);
        }
        Some((dir.ready, dir.waiting, dir.names_lost))
    }
}

impl Dir {
    fn keep(&mut self, name: &[u8]) -> usize {
        // A set's node takes about as much again as a short name.
        let bytes = if self.names.insert(name.to_vec()) { name.len() + 64 } else { 0 };
        self.names_bytes += bytes;
        bytes
    }

    fn lose_names(&mut self) -> usize {
        self.names_lost = true;
        self.names = BTreeSet::new();
        std::mem::take(&mut self.names_bytes)
    }
}

#[cfg(test)]
impl Tree {
    pub(super) fn len(&self) -> usize {
        assert!(self.by_path.len() <= self.dirs.len());
        assert_eq!(self.names_bytes, self.dirs.values().map(|d| d.names_bytes).sum::<usize>());
        self.dirs.len()
    }

    pub(super) fn names_bytes(&self) -> usize {
        self.names_bytes
    }
}
