//! What a change of bookings does to calendars: step functions of what is taken more or less.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::{Moment, Window};

use super::shared::Loads;
use super::{Backup, Booking, ResourceId, Snapshot, Take};

/// For each resource, how much more is taken from each moment on than before it.
pub(super) struct Change<'a> {
    snapshot: &'a Snapshot,
    steps: BTreeMap<ResourceId, BTreeMap<Moment, i128>>,
    /// What backups will need, of the resources where that changes.
    loads: BTreeMap<ResourceId, Loads>,
}

/// A change that is ready to be looked at and made.
pub(super) struct Settled {
    steps: BTreeMap<ResourceId, BTreeMap<Moment, i128>>,
    pub(super) loads: BTreeMap<ResourceId, Arc<Loads>>,
}

impl<'a> Change<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Change<'a> {
        Change { snapshot, steps: BTreeMap::new(), loads: BTreeMap::new() }
    }

    /// Takes more, with its backup.
    pub(super) fn take(mut self, takes: &[Take], backup: Option<&Backup>) -> Change<'a> {
        self.add(takes, backup, 1);
        self
    }

    /// Gives back what a booking takes, with its backup.
    pub(super) fn give_back(mut self, booking: &Booking) -> Change<'a> {
        self.add(&booking.takes, booking.backup.as_ref(), -1);
        self
    }

    fn add(&mut self, takes: &[Take], backup: Option<&Backup>, sign: i128) {
        for take in takes {
            step(self.steps.entry(take.resource).or_default(), take.window, sign * i128::from(take.rate));
        }
        if let Some(Backup { takes, failures }) = backup {
            for take in takes {
                let loads =
                    self.loads.entry(take.resource).or_insert_with(|| self.snapshot.resources[take.resource].loads());
                failures.iter().for_each(|failure| loads.add(*failure, take.window, sign * i128::from(take.rate)));
            }
        }
    }

    /// With what the change of the backups takes more or less.
    pub(super) fn settle(mut self) -> Settled {
        for (resource, loads) in &self.loads {
            let steps = self.steps.entry(*resource).or_default();
            for (moment, more) in loads.greatest() {
                *steps.entry(moment).or_default() += more;
            }
            for (moment, more) in self.snapshot.resources[*resource].loads.greatest() {
                *steps.entry(moment).or_default() -= more;
            }
        }
        let loads = self.loads.into_iter().map(|(resource, loads)| (resource, Arc::new(loads))).collect();
        Settled { steps: self.steps, loads }
    }
}

impl Settled {
    /// Where what is taken changes, and by how much.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (ResourceId, Window, i128)> {
        self.steps.iter().flat_map(|(resource, steps)| {
            pieces(steps).filter(|(_, more)| *more != 0).map(|(window, more)| (*resource, window, more))
        })
    }
}

fn step(steps: &mut BTreeMap<Moment, i128>, window: Window, more: i128) {
    *steps.entry(window.start()).or_default() += more;
    *steps.entry(window.end()).or_default() -= more;
}

/// The pieces between the steps of a function that is 0 before the first and after the last.
fn pieces(steps: &BTreeMap<Moment, i128>) -> impl Iterator<Item = (Window, i128)> {
    let mut value = 0;
    steps.iter().zip(steps.keys().skip(1)).map(move |((start, step), end)| {
        value += step;
        (Window::new(*start, *end).expect("keys are in order and within what windows are"), value)
    })
}
