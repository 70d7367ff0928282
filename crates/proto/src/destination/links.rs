//! Hard links: further names wait for the first one, and are not made if it failed.

use std::collections::{BTreeMap, BTreeSet};

use crate::RelPath;
use crate::limits::FAILED_NAMES_MAX;

/// What is known of the first name of a link.
pub(super) enum Target {
    /// It is in place, as far as is known.
    There,
    /// It is under way; the link waits for it.
    UnderWay,
    /// It failed, or may have.
    Failed,
}

/// First names of files.
#[derive(Default)]
pub(super) struct Links {
    /// Files under way, and the links that wait for them.
    under_way: BTreeMap<RelPath, Vec<u64>>,
    failed: BTreeSet<RelPath>,
    /// More failed than are remembered.
    forgotten: bool,
}

impl Links {
    /// A file is under way.
    pub(super) fn begin(&mut self, path: &RelPath) {
        self.failed.remove(path);
        self.under_way.entry(path.clone()).or_default();
    }

    /// Asks for the first name of a link; lets the link wait if that is under way.
    pub(super) fn wait(&mut self, target: &RelPath, link: u64) -> Target {
        if let Some(waiting) = self.under_way.get_mut(target) {
            waiting.push(link);
            Target::UnderWay
        } else if self.forgotten || self.failed.contains(target) {
            Target::Failed
        } else {
            Target::There
        }
    }

    /// A file is done; gives what waited for it.
    pub(super) fn end(&mut self, path: &RelPath, failed: bool) -> Vec<u64> {
        let Some(waiting) = self.under_way.remove(path) else { return Vec::new() };
        if failed && self.failed.len() < FAILED_NAMES_MAX {
            self.failed.insert(path.clone());
        } else if failed {
            self.forgotten = true;
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
