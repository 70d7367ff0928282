//! Numbers of commits.
//!
//! The journal knows in which directories temporary names may stand, by the number of the commit before which they were
//! made, and forgets them when a later commit is done. Each disk has its own committer, and what one is past another may
//! have before it: the slowest says what is forgotten.

use std::sync::Mutex;

/// Commits of a session, over all its disks.
#[derive(Debug, Default)]
pub struct Epochs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The last commit that has begun; the first one is number 1.
    last: u64,
    /// By disk.
    lanes: Vec<Lane>,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    /// What was made before the end of this commit is done.
    past: u64,
    /// Its last commit.
    last: u64,
}

impl Epochs {
    /// The number of the commit to come: what is made now belongs to it.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.lock().last + 1
    }

    /// A further disk, on which nothing was made yet; they are added in the order of their numbers.
    pub fn add_lane(&self) {
        let mut inner = self.lock();
        let last = inner.last;
        inner.lanes.push(Lane { past: last, last });
    }

    /// A commit begins; gives its number.
    #[must_use]
    pub fn begin(&self) -> u64 {
        let mut inner = self.lock();
        inner.last += 1;
        inner.last
    }

    /// A commit of a disk is done. Gives the number up to which the journal may forget: what was made before the commit
    /// that precedes this one is done, on this disk and on all others.
    #[must_use]
    pub fn settled(&self, lane: u8, epoch: u64) -> u64 {
        let mut inner = self.lock();
        inner.lanes[usize::from(lane)].pass(epoch);
        inner.lanes.iter().map(|lane| lane.past).min().unwrap_or(0)
    }

    /// A disk has nothing to commit: it holds up no other.
    pub fn rest(&self, lane: u8) {
        let mut inner = self.lock();
        let last = inner.last;
        inner.lanes[usize::from(lane)].pass(last);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic under the lock")
    }
}

impl Lane {
    fn pass(&mut self, epoch: u64) {
        self.past = std::mem::replace(&mut self.last, epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_one_disk_what_came_before_the_last_commit_is_settled() {
        let epochs = Epochs::default();
        epochs.add_lane();
        for epoch in 1..4 {
            assert_eq!((epochs.next(), epochs.begin()), (epoch, epoch));
            assert_eq!(epochs.settled(0, epoch), epoch - 1);
        }
    }

    #[test]
    fn a_disk_that_is_slow_keeps_what_it_has_not_done() {
        let epochs = Epochs::default();
        (0..2).for_each(|_| epochs.add_lane());
        let slow = epochs.begin();
        for _ in 0..3 {
            let epoch = epochs.begin();
            assert_eq!(epochs.settled(1, epoch), 0);
        }
        assert_eq!(epochs.settled(0, slow), 0);
        // It is past its own first commit when it has made the next one, or has none to make.
        epochs.rest(0);
        let epoch = epochs.begin();
        assert_eq!(epochs.settled(1, epoch), slow);
        epochs.rest(0);
        let epoch = epochs.begin();
        assert_eq!(epochs.settled(1, epoch), epoch - 2);
    }
}
