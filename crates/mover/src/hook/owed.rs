//! Hooks after files that a session could not begin before it was over: the next one of the same copy runs them.
//!
//! In memory only: what is killed forgets them, so that a hook is run at most once for each file.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use proto::RelPath;

/// Memory for the names of one copy; the files of a window of the manifest have room, with names as they mostly are.
/// What has none goes without its hook.
const BYTES_MAX: usize = 8 << 20;
/// What a name costs beside its bytes.
const NAME_OVERHEAD_BYTES: usize = 64;
/// Copies whose connection was lost and that an agent remembers; beyond, the one that has waited longest is forgotten.
const JOBS_MAX: usize = 8;

/// Files of one copy.
#[derive(Debug, Default)]
pub struct Owed {
    files: BTreeSet<RelPath>,
    bytes: usize,
}

impl Owed {
    /// Adds a file, if there is room.
    pub fn add(&mut self, path: &RelPath) {
        let cost = cost(path);
        if self.bytes + cost > BYTES_MAX {
            return tracing::warn!(%path, "too many hooks after files are left of a lost connection: this one is not run");
        }
        if self.files.insert(path.clone()) {
            self.bytes += cost;
        }
    }

    /// Removes a file; true if it was there.
    #[must_use]
    pub fn take(&mut self, path: &RelPath) -> bool {
        let owed = self.files.remove(path);
        self.bytes -= if owed { cost(path) } else { 0 };
        owed
    }
}

fn cost(path: &RelPath) -> usize {
    path.as_bytes().len() + NAME_OVERHEAD_BYTES
}

/// What sessions of an agent owe, by the copy that they were part of.
#[derive(Debug, Default)]
pub struct OwedByJob {
    jobs: VecDeque<([u8; 16], Arc<Mutex<Owed>>)>,
}

impl OwedByJob {
    /// What an earlier session of the copy owes; nothing if there was none.
    pub fn take(&mut self, job: [u8; 16]) -> Arc<Mutex<Owed>> {
        let at = self.jobs.iter().position(|(other, _)| *other == job);
        at.and_then(|at| self.jobs.remove(at)).map(|(_, owed)| owed).unwrap_or_default()
    }

    /// Keeps what a session owes that is over.
    pub fn keep(&mut self, job: [u8; 16], owed: Arc<Mutex<Owed>>) {
        if owed.lock().expect("no panic under the lock").files.is_empty() {
            return;
        }
        if self.jobs.len() == JOBS_MAX {
            self.jobs.pop_front();
        }
        self.jobs.push_back((job, owed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> RelPath {
        RelPath::new(name).unwrap()
    }

    #[test]
    fn a_hook_is_owed_once() {
        let mut owed = Owed::default();
        owed.add(&path("a"));
        owed.add(&path("a"));
        assert!(owed.take(&path("a")) && !owed.take(&path("a")) && !owed.take(&path("b")));
        assert_eq!(owed.bytes, 0);
    }

    #[test]
    fn names_have_a_limit() {
        let mut owed = Owed::default();
        let name = |i: usize| path(&format!("{}{i:06}", "n".repeat(200)));
        (0..2 * BYTES_MAX / 200).for_each(|i| owed.add(&name(i)));
        assert!(owed.bytes <= BYTES_MAX && owed.files.len() == BYTES_MAX / cost(&name(0)));
    }

    #[test]
    fn the_copies_lost_last_are_remembered() {
        let mut jobs = OwedByJob::default();
        let owing = |name: &str| {
            let mut owed = Owed::default();
            owed.add(&path(name));
            Arc::new(Mutex::new(owed))
        };
        jobs.keep([99; 16], Arc::default());
        for job in 0..=JOBS_MAX as u8 {
            jobs.keep([job; 16], owing("a"));
        }
        let mut owes = |job: u8| jobs.take([job; 16]).lock().unwrap().take(&path("a"));
        assert!(!owes(0) && !owes(99) && owes(1) && !owes(1) && owes(JOBS_MAX as u8));
    }
}
