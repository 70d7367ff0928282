//! Hard links: further names wait for the first one, and are not made if it failed.

use std::collections::{BTreeMap, BTreeSet};

use crate::RelPath;
use crate::limits::FAILED_NAMES_MAX;

/// What came of the first name of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in place, as far as is known.
    There,
    /// It failed, or may have.
    Failed,
    /// It would be put in place if this were no dry run, or may be.
    Would,
}

/// What is known of the first name of a link.
pub(super) enum Target {
    /// It is done.
    Done(Fate),
    /// It is under way; the link waits for it.
    UnderWay,
}

/// First names of files.
#[derive(Default)]
pub(super) struct Links {
    /// Files under way, and the links that wait for them.
    under_way: BTreeMap<RelPath, Vec<u64>>,
    failed: Names,
    would: Names,
}

/// So many names, and whether there were more.
#[derive(Default)]
struct Names {
    names: BTreeSet<RelPath>,
    /// More than are remembered.
    forgotten: bool,
}

impl Names {
    fn add(&mut self, path: &RelPath) {
        if self.names.len() < FAILED_NAMES_MAX {
            self.names.insert(path.clone());
        } else {
            self.forgotten = true;
        }
    }

    fn may_have(&self, path: &RelPath) -> bool {
        self.forgotten || self.names.contains(path)
    }
}

impl Links {
    /// A file is under way.
    pub(super) fn begin(&mut self, path: &RelPath) {
        self.failed.names.remove(path);
        self.would.names.remove(path);
        self.under_way.entry(path.clone()).or_default();
    }

    /// Asks for the first name of a link; lets the link wait if that is under way.
    pub(super) fn wait(&mut self, target: &RelPath, link: u64) -> Target {
        if let Some(waiting) = self.under_way.get_mut(target) {
            waiting.push(link);
            return Target::UnderWay;
        }
        let is_failed = self.failed.may_have(target);
        let would = self.would.may_have(target);
        Target::Done(match (is_failed, would) {
            (true, _) => Fate::Failed,
            (false, true) => Fate::Would,
            (false, false) => Fate::There,
        })
    }

    /// A file is done; gives what waited for it.
    pub(super) fn end(&mut self, path: &RelPath, fate: Fate) -> Vec<u64> {
        let Some(waiting) = self.under_way.remove(path) else { return Vec::new() };
        match fate {
            Fate::There => {}
            Fate::Failed => self.failed.add(path),
            Fate::Would => self.would.add(path),
        }
        waiting
    }
}

#[cfg(test)]
impl Links {
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }
}
