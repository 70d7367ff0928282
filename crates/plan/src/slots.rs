//! The four questions of a reservation at a rate over one path: this slot, the highest rate in it, the first slot, all slots.
//!
//! A path is the same for all of a slot. Where several would do the answer names the first in the order of [`crate::paths`].
//! The questions are those of Sahni et al., "Bandwidth scheduling and path computation algorithms for connection-oriented
//! networks" (2007).

use std::collections::VecDeque;
use std::num::NonZeroU64;

use units::Window;

use crate::book::Snapshot;
use crate::graph::{EdgeId, Graph, NodeId};
use crate::paths::{Path, Paths};
use crate::starts::Starts;

/// Where from and where to: two different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    from: NodeId,
    to: NodeId,
}

impl Ends {
    /// Two nodes of a graph; `None` if they are one.
    #[must_use]
    pub fn new(from: NodeId, to: NodeId) -> Option<Ends> {
        (from != to).then_some(Ends { from, to })
    }

    /// The one.
    #[must_use]
    pub fn from(self) -> NodeId {
        self.from
    }

    /// The other.
    #[must_use]
    pub fn to(self) -> NodeId {
        self.to
    }

    /// Whether a path between the ends may use an edge: what is between them forwards.
    pub(crate) fn may_use(self, graph: &Graph, edge: EdgeId) -> bool {
        let edge = graph.edge(edge);
        let leaves = edge.from == self.from || (edge.from != self.to && graph.forwards(edge.from));
        leaves && edge.to != self.from && (edge.to == self.to || graph.forwards(edge.to))
    }
}

/// The highest rate in a slot, and a path that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highest {
    /// In b/s, above 0.
    pub rate: NonZeroU64,
    /// The cheapest of those that have it.
    pub path: Path,
}

/// When, and over which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When.
    pub window: Window,
    /// The cheapest of those that are free for all of it.
    pub path: Path,
}

/// A snapshot prepared for questions.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    snapshot: &'a Snapshot,
    paths: Paths<'a>,
}

impl<'a> Slots<'a> {
    /// Prepares a snapshot. O(m log m) for m edges.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Slots<'a> {
        Slots { snapshot, paths: Paths::of(snapshot.graph()) }
    }

    /// What is asked.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The paths of its graph.
    #[must_use]
    pub fn paths(&self) -> &Paths<'a> {
        &self.paths
    }

    /// The cheapest path with `rate` free for all of a slot; `None` if there is none.
    #[must_use]
    pub fn fixed(&self, ends: Ends, rate: NonZeroU64, slot: Window) -> Option<Path> {
        self.paths.only(|edge| self.snapshot.fits(edge, slot, rate)).shortest(ends.from, ends.to)
    }

    /// Of the paths that [`Slots::fixed`] would choose from by names alone, the one whose fullest resource is least full in the
    /// slot.
    #[must_use]
    pub fn balanced(&self, ends: Ends, rate: NonZeroU64, slot: Window) -> Option<Path> {
        let free = self.paths.only(|edge| self.snapshot.fits(edge, slot, rate));
        free.least_loaded(ends.from, ends.to, |edge| self.snapshot.load(edge, slot))
    }

    /// The highest rate that one path has free for all of a slot; `None` if none has any.
    #[must_use]
    pub fn highest(&self, ends: Ends, slot: Window) -> Option<Highest> {
        let (rate, path) = self.paths.shortest_widest(ends.from, ends.to, |edge| self.snapshot.free(edge, slot))?;
        Some(Highest { rate: NonZeroU64::new(rate)?, path })
    }

    /// The first slot of `nanos` within a window with `rate` free on one path; `None` if there is none.
    #[must_use]
    pub fn first(&self, ends: Ends, rate: NonZeroU64, nanos: NonZeroU64, within: Window) -> Option<Slot> {
        let mut start = within.start();
        loop {
            let window = Window::lasting(start, nanos.get()).filter(|slot| slot.end() <= within.end())?;
            let reached = self.reached(ends, |edge| self.snapshot.fits(edge, window, rate));
            if reached[ends.to] {
                return Some(Slot { window, path: self.fixed(ends, rate, window).expect("it is reached") });
            }
            // Nothing is reached before an edge that leaves what is reached now is free. None of these is now, so time moves
            // on, to a moment at which a booking ends.
            let rest = within.from(start)?;
            let next = self.leaving(ends, &reached).filter_map(|edge| self.snapshot.first_fit(edge, rest, rate, nanos));
            start = next.min()?;
        }
    }

    /// All moments within a window from which on one path has `rate` free for `nanos` that end within it.
    ///
    /// The method of Bellman and Ford with sets of moments for distances: what can start at a node is what could at one before
    /// it and can over the edge between. O(n m) unions of sets at worst.
    #[must_use]
    pub fn all(&self, ends: Ends, rate: NonZeroU64, nanos: NonZeroU64, within: Window) -> Starts {
        let graph = self.snapshot.graph();
        let Some(last) = within.end().checked_sub_unsigned(nanos.get()) else { return Starts::none() };
        let mut reached = vec![Starts::none(); graph.names().len()];
        reached[ends.from] = Starts::between(within.start(), last);
        let mut of_edges: Vec<Option<Starts>> = vec![None; graph.edges().len()];
        // Each node waits at most once, and waits again only after its set grew: sets are of finitely many moments at which
        // bookings begin or end, so it ends.
        let mut waiting = VecDeque::from([ends.from]);
        let mut waits = vec![false; graph.names().len()];
        while let Some(node) = waiting.pop_front() {
            waits[node] = false;
            // What is known to start at the end by another way needs no further one.
            if reached[ends.to].has_common(&reached[node], &reached[node]) {
                continue;
            }
            for edge in graph.out(node).iter().copied().filter(|edge| ends.may_use(graph, *edge)) {
                let to = graph.edge(edge).to;
                let starts = of_edges[edge].get_or_insert_with(|| self.snapshot.starts(edge, within, rate, nanos));
                if reached[to].has_common(&reached[node], starts) {
                    continue;
                }
                reached[to] = reached[to].union(&reached[node].common(starts));
                if to != ends.to && !std::mem::replace(&mut waits[to], true) {
                    waiting.push_back(to);
                }
            }
        }
        std::mem::take(&mut reached[ends.to])
    }

    /// The nodes that are reached over edges that pass.
    pub(crate) fn reached(&self, ends: Ends, passes: impl Fn(EdgeId) -> bool) -> Vec<bool> {
        let graph = self.snapshot.graph();
        let mut reached = vec![false; graph.names().len()];
        reached[ends.from] = true;
        let mut waiting = vec![ends.from];
        while let Some(node) = waiting.pop() {
            for edge in graph.out(node).iter().copied().filter(|edge| ends.may_use(graph, *edge)) {
                let to = graph.edge(edge).to;
                if !reached[to] && passes(edge) {
                    reached[to] = true;
                    waiting.push(to);
                }
            }
        }
        reached
    }

    /// The edges that lead out of a set of nodes.
    pub(crate) fn leaving(&self, ends: Ends, reached: &[bool]) -> impl Iterator<Item = EdgeId> {
        let graph = self.snapshot.graph();
        let leaves = move |edge: &EdgeId| {
            let ends_of = graph.edge(*edge);
            reached[ends_of.from] && !reached[ends_of.to] && ends.may_use(graph, *edge)
        };
        (0..graph.edges().len()).filter(leaves)
    }
}
