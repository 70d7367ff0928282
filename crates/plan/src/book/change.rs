//! What a change of bookings does to calendars: step functions of what is taken more or less.

use std::collections::BTreeMap;

use units::{Moment, Window};

use super::{ResourceId, Take};

/// For each resource, how much more is taken from each moment on than before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    resources: BTreeMap<ResourceId, BTreeMap<Moment, i128>>,
}

impl Change {
    pub(super) fn take(&mut self, takes: &[Take]) {
        takes.iter().for_each(|take| self.add(take.resource, take.window, i128::from(take.rate)));
    }

    pub(super) fn give_back(&mut self, takes: &[Take]) {
        takes.iter().for_each(|take| self.add(take.resource, take.window, -i128::from(take.rate)));
    }

    pub(super) fn add(&mut self, resource: ResourceId, window: Window, more: i128) {
        let steps = self.resources.entry(resource).or_default();
        *steps.entry(window.start()).or_default() += more;
        *steps.entry(window.end()).or_default() -= more;
    }

    /// Where what is taken changes, and by how much.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (ResourceId, Window, i128)> {
        self.resources.iter().flat_map(|(resource, steps)| {
            pieces(steps).filter(|(_, more)| *more != 0).map(|(window, more)| (*resource, window, more))
        })
    }
}

/// The pieces between the steps of a function that is 0 before the first and after the last.
pub(super) fn pieces(steps: &BTreeMap<Moment, i128>) -> impl Iterator<Item = (Window, i128)> {
    let mut value = 0;
    steps.iter().zip(steps.keys().skip(1)).map(move |((start, step), end)| {
        value += step;
        (Window::new(*start, *end).expect("keys are in order and within what windows are"), value)
    })
}
