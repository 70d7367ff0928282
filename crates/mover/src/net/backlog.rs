//! How many chunks may wait for the writers.
//!
//! A deep queue before a disk is for the disk's pauses: while it writes nothing, the network goes on. A queue that never runs
//! empty bridges nothing. The disk is the slower one then, and each chunk waits until it has left the cores' caches, so that
//! everything done with it takes longer. (Small files are no burden on the caches. How many of them wait says nothing of
//! chunks, which have writers of their own.) What is worth having of a queue shows in the least that was in it for a while, as in
//! CoDel (RFC 8289, section 3.1).

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Chunks that may wait in a standing queue: each writer of a disk finds its next one, and a ring takes eight at once.
const STANDING_MAX: usize = 8;
/// A queue in which so many waited for so long is a standing one.
const INTERVAL: Duration = Duration::from_millis(100);

/// Watches the queue before the writers.
#[derive(Debug)]
pub struct Backlog {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Begin of the interval.
    since: Instant,
    /// Fewest that waited in it.
    least: usize,
    is_standing: bool,
}

impl Backlog {
    /// A queue that is empty at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Backlog {
        Backlog { state: Mutex::new(State { since: now, least: 0, is_standing: false }) }
    }

    /// True if no further chunk is to be received while so many wait. Asked before each one.
    pub fn is_enough(&self, waiting: usize, now: Instant) -> bool {
        let mut state = self.state.lock().expect("no panic under the lock");
        state.least = state.least.min(waiting);
        if now.saturating_duration_since(state.since) >= INTERVAL {
            // Once it is kept short it shows that the disk is the faster one by running empty.
            state.is_standing = if state.is_standing { state.least > 0 } else { state.least >= STANDING_MAX };
            (state.since, state.least) = (now, waiting);
        }
        state.is_standing && waiting >= STANDING_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks each 10 ms, for each number that waits; the first that was enough.
    fn enough(backlog: &Backlog, from: Instant, waiting: impl IntoIterator<Item = usize>) -> Option<usize> {
        let asked = waiting.into_iter().enumerate();
        let mut answers =
            asked.map(|(n, waiting)| backlog.is_enough(waiting, from + Duration::from_millis(n as u64 * 10)));
        answers.position(|is_enough| is_enough)
    }

    #[test]
    fn a_pause_of_the_disk_may_fill_the_queue_and_a_slow_disk_may_not() {
        let begin = Instant::now();
        let backlog = Backlog::new(begin);
        let pauses = (0..1000).map(|n| n % 15 * 4);
        assert_eq!(enough(&backlog, begin, pauses), None, "it ran empty each 150 ms");
        let slow = Backlog::new(begin);
        assert_eq!(enough(&slow, begin, (0..).map(|n| n * 4)), Some(20), "after two intervals, the first begins empty");
    }

    #[test]
    fn a_queue_that_was_kept_short_and_runs_empty_may_be_deep_again() {
        let begin = Instant::now();
        let backlog = Backlog::new(begin);
        enough(&backlog, begin, [64; 30]);
        let later = begin + Duration::from_secs(1);
        assert!(!backlog.is_enough(STANDING_MAX - 1, later), "few may wait always");
        assert!(backlog.is_enough(STANDING_MAX, later + INTERVAL), "they waited all the time");
        assert!(!backlog.is_enough(0, later + INTERVAL));
        assert!(!backlog.is_enough(64, later + INTERVAL * 2), "it ran empty");
    }
}
