//! What the source is to be told. Small answers are gathered until they are asked for.

use std::collections::{BTreeSet, VecDeque};

use crate::control::{Outcome, ToSource, Want, Wanted};
use crate::limits::{PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, PARCELS_UNLANDED_MAX};

/// Answers that are not told yet.
#[derive(Default)]
pub(super) struct Outbox {
    window: Option<u32>,
    repairs: BTreeSet<u64>,
    wants: VecDeque<(u64, Want)>,
    landed: BTreeSet<u64>,
    done: VecDeque<(u64, Outcome)>,
}

impl Outbox {
    pub(super) fn window(&mut self, parcels: u32) {
        self.window = Some(parcels);
    }

    pub(super) fn repair(&mut self, parcel: u64) {
        if self.repairs.len() < PARCELS_UNLANDED_MAX {
            self.repairs.insert(parcel);
        }
    }

    pub(super) fn want(&mut self, index: u64, want: Want) {
        self.wants.push_back((index, want));
    }

    pub(super) fn landed(&mut self, parcel: u64) {
        if self.landed.len() < PARCELS_UNLANDED_MAX {
            self.landed.insert(parcel);
        }
    }

    pub(super) fn done(&mut self, index: u64, outcome: Outcome) {
        self.done.push_back((index, outcome.cut()));
    }

    /// Entries whose end is not told yet.
    pub(super) fn done_len(&self) -> usize {
        self.done.len()
    }

    /// The next message: what is wanted goes before what is done, and after what bounds it.
    pub(super) fn poll(&mut self) -> Option<ToSource> {
        if let Some(parcels) = self.window.take() {
            return Some(ToSource::Window(parcels));
        }
        if let Some(parcel) = self.repairs.pop_first() {
            return Some(ToSource::Repair(parcel));
        }
        if !self.wants.is_empty() {
            return Some(ToSource::Wants(page_of(&mut self.wants, |(_, want)| match &want.what {
                Wanted::Rest { have } => 24 + 20 * have.ranges().len(),
                _ => 48,
            })));
        }
        if !self.landed.is_empty() {
            let landed = std::iter::from_fn(|| self.landed.pop_first());
            return Some(ToSource::Landed(landed.take(PAGE_ENTRIES_MAX).collect()));
        }
        if !self.done.is_empty() {
            return Some(ToSource::Done(page_of(&mut self.done, |(_, outcome)| 24 + outcome.reason_len())));
        }
        None
    }
}

/// Takes what fits into one message from the front of a queue.
fn page_of<T>(queue: &mut VecDeque<T>, weight: impl Fn(&T) -> usize) -> Vec<T> {
    let mut bytes = 0;
    let fits = |item: &&T| {
        let before = bytes;
        bytes += weight(item);
        before < PAGE_BYTES_MAX
    };
    let count = queue.iter().take(PAGE_ENTRIES_MAX).take_while(fits).count();
    queue.drain(..count).collect()
}

#[cfg(test)]
impl Outbox {
    pub(super) fn lens(&self) -> [usize; 3] {
        [self.wants.len(), self.landed.len(), self.repairs.len()]
    }

    pub(super) fn done_indexes(&self) -> impl Iterator<Item = u64> {
        self.done.iter().map(|(index, _)| *index)
    }
}
