//! What backups take of a resource: each failure needs its own, and only one happens at a time.
//!
//! For each failure there is the sum of the rates that would move to the resource with it. What is kept free is the greatest of
//! these sums at each moment, so reservations that cannot fail together share it.

use std::collections::BTreeMap;

use units::{Moment, Window};

use super::Failure;

/// What each failure would bring to a resource: how much more from each moment on than before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loads {
    of: BTreeMap<Failure, BTreeMap<Moment, i128>>,
}

impl Loads {
    pub(super) fn add(&mut self, failure: Failure, window: Window, more: i128) {
        let steps = self.of.entry(failure).or_default();
        for (moment, step) in [(window.start(), more), (window.end(), -more)] {
            let sum = steps.get(&moment).copied().unwrap_or(0) + step;
            if sum == 0 {
                steps.remove(&moment);
            } else {
                steps.insert(moment, sum);
            }
        }
        if steps.is_empty() {
            self.of.remove(&failure);
        }
    }

    /// The greatest load at each moment: how much more from each moment on than before it.
    pub(super) fn greatest(&self) -> BTreeMap<Moment, i128> {
        let mut steps: Vec<(Moment, Failure, i128)> = Vec::new();
        for (failure, of) in &self.of {
            steps.extend(of.iter().map(|(moment, step)| (*moment, *failure, *step)));
        }
        steps.sort_unstable();
        let mut loads: BTreeMap<Failure, i128> = BTreeMap::new();
        // How many failures bring each load, so that the greatest is at hand.
        let mut counts: BTreeMap<i128, usize> = BTreeMap::new();
        let mut greatest = BTreeMap::new();
        let mut before = 0;
        for at in steps.chunk_by(|a, b| a.0 == b.0) {
            for (_, failure, step) in at {
                let load = loads.entry(*failure).or_default();
                if let Some(count) = counts.get_mut(load) {
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(load);
                    }
                }
                *load += step;
                *counts.entry(*load).or_default() += 1;
            }
            let now = counts.last_key_value().map_or(0, |(load, _)| *load).max(0);
            greatest.insert(at[0].0, now - before);
            before = now;
        }
        greatest
    }
}
