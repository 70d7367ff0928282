//! What would be otherwise: changes of a snapshot, and what they change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::network::LinkIndex;
use units::Rate;

use super::{Of, Outcome, Resource, Snapshot};
use crate::share::ResourceId;

/// A change of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Links carry nothing.
    Cut(Vec<LinkIndex>),
    /// Links have another rate, both ways, each of them.
    Upgrade(Vec<LinkIndex>, Rate),
    /// A flow of the file may have so much at most.
    Shape(usize, Rate),
}

/// Something before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// What.
    pub of: T,
    /// In b/s.
    pub before: u64,
    /// In b/s.
    pub after: u64,
}

impl<T> Changed<T> {
    /// How much it changes, in b/s.
    #[must_use]
    pub fn by(&self) -> u64 {
        self.before.abs_diff(self.after)
    }
}

impl Snapshot {
    /// The same with changes.
    #[must_use]
    pub fn with(&self, effects: &[Effect]) -> Snapshot {
        let mut changed = self.clone();
        for effect in effects {
            match effect {
                Effect::Cut(links) => changed.down.extend(links),
                Effect::Upgrade(links, rate) => {
                    for link in links {
                        let link = &mut changed.network.links[*link];
                        link.forward.rate = Some(*rate);
                        link.backward.rate = Some(*rate);
                    }
                }
                Effect::Shape(flow, rate) => {
                    let flow = &mut changed.shares.flows[*flow];
                    flow.cap = Some(flow.cap.map_or(*rate, |cap| cap.min(*rate)));
                    flow.floor = flow.floor.min(*rate);
                }
            }
        }
        changed
    }
}

/// What differs between the outcomes of one snapshot before and after changes: flows of the file with their rates, and resources
/// with what is used of them, each with the largest change first.
#[must_use]
pub fn changed(before: &Outcome<'_>, after: &Outcome<'_>) -> (Vec<Changed<usize>>, Vec<Changed<Of>>) {
    let flows = 0..before.snapshot.shares.flows.len();
    let flow = |of: usize| Changed { of, before: before.rate(of), after: after.rate(of) };
    let used = |outcome: &Outcome<'_>| -> BTreeMap<Of, u64> {
        let of = |(resource, it): (usize, &Resource)| (it.of, outcome.used(resource as ResourceId).used);
        outcome.setup.resources.iter().enumerate().map(of).collect()
    };
    let [was, is] = [used(before), used(after)];
    // One that a cut or a rate takes away or brings is in one of them only.
    let all: BTreeSet<Of> = was.keys().chain(is.keys()).copied().collect();
    let of = |used: &BTreeMap<Of, u64>, of| used.get(&of).copied().unwrap_or(0);
    let resource = |it: Of| Changed { of: it, before: of(&was, it), after: of(&is, it) };
    (ranked(flows.map(flow).collect()), ranked(all.into_iter().map(resource).collect()))
}

fn ranked<T: Copy + Ord>(mut all: Vec<Changed<T>>) -> Vec<Changed<T>> {
    all.retain(|changed| changed.by() > 0);
    all.sort_by_key(|changed| (Reverse(changed.by()), changed.of));
    all
}
