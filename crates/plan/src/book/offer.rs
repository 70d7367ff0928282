//! What a search found, to be booked.

use std::collections::{BTreeMap, BTreeSet};

use units::Window;

use super::{Failure, ResourceId, Snapshot, Take};
use crate::graph::{EdgeId, Graph};

/// A rate over a path for a window: what an answer consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Edges in turn.
    pub path: Vec<EdgeId>,
    /// When.
    pub window: Window,
    /// In b/s.
    pub rate: u64,
}

/// What the parts of an answer take, and what of the calendars was seen when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    takes: Vec<Take>,
    /// The edges of all paths, each once.
    edges: BTreeSet<EdgeId>,
    /// Versions of the resources in `takes`.
    seen: BTreeMap<ResourceId, u64>,
}

impl Offer {
    /// What is taken, in order of resource and time.
    #[must_use]
    pub fn takes(&self) -> &[Take] {
        &self.takes
    }

    /// What the paths fail with, in order.
    pub(super) fn failures(&self, graph: &Graph) -> Vec<Failure> {
        let links = self.edges.iter().map(|edge| Failure::Link(graph.link_of(*edge)));
        let risks = self.edges.iter().flat_map(|edge| &graph.edge(*edge).risks).map(|risk| Failure::Risk(*risk));
        links.chain(risks).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The version of a resource when it was searched.
    pub(super) fn saw(&self, resource: ResourceId) -> Option<u64> {
        self.seen.get(&resource).copied()
    }
}

impl Snapshot {
    /// What parts take together. Parts with the same window are charged as one, so a rate that is split is charged as often
    /// as it must be and no more. `None` if that is more than any capacity.
    #[must_use]
    pub fn offer(&self, parts: &[Part]) -> Option<Offer> {
        let mut rates: BTreeMap<(ResourceId, Window), u64> = BTreeMap::new();
        for part in parts {
            for resource in self.drawn_by(&part.path) {
                let rate = rates.entry((resource, part.window)).or_default();
                *rate = rate.checked_add(part.rate)?;
            }
        }
        let mut takes: Vec<Take> = Vec::new();
        for ((resource, window), rate) in rates.into_iter().filter(|(_, rate)| *rate > 0) {
            let rate = self.resources[resource].calendar.charge(rate)?;
            match takes.last_mut().filter(|take| take.resource == resource && take.rate == rate) {
                Some(take) if take.window.end() == window.start() => {
                    take.window = Window::new(take.window.start(), window.end()).expect("it grows");
                }
                _ => takes.push(Take { resource, window, rate }),
            }
        }
        let seen = takes.iter().map(|take| (take.resource, self.resources[take.resource].version)).collect();
        let edges = parts.iter().flat_map(|part| &part.path).copied().collect();
        Some(Offer { takes, edges, seen })
    }
}

impl Offer {
    /// With something beside the paths, in the unit of its calendar: space of a storage, streams of a host. It is seen as it is
    /// in the snapshot. `None` if it is more than any capacity.
    #[must_use]
    pub fn with(mut self, snapshot: &Snapshot, resource: ResourceId, window: Window, amount: u64) -> Option<Offer> {
        let seen = &snapshot.resources[resource];
        let rate = seen.calendar.charge(amount)?;
        if rate > 0 {
            self.takes.push(Take { resource, window, rate });
            self.takes.sort_by_key(|take| (take.resource, take.window.start()));
            self.seen.insert(resource, seen.version);
        }
        Some(self)
    }
}

/// From the first moment of takes to the last; `None` if nothing is taken.
pub(super) fn hull(takes: &[Take]) -> Option<Window> {
    let taken = || takes.iter().filter(|take| take.rate > 0).map(|take| take.window);
    Window::new(taken().map(Window::start).min()?, taken().map(Window::end).max()?)
}
