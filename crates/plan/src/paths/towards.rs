//! Distances to one node, and the first path from each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{KShortest, Length, Path, Paths, Step};
use crate::graph::NodeId;

/// Stands for no step.
pub(super) const NO_STEP: u32 = u32::MAX;

/// The first path from every node to one: one search (Dijkstra 1959) serves all questions about paths to that node.
#[derive(Clone, Debug)]
pub struct Towards<'p, 'a> {
    pub(super) paths: &'p Paths<'a>,
    /// By rank, as all nodes here.
    pub(super) to: u32,
    /// From each node.
    pub(super) length: Vec<Length>,
    /// The step that the first path from each node begins with.
    pub(super) next: Vec<u32>,
    /// The steps that lead on, each node's by the length of the way that they begin, then by names; and that length. Where those
    /// of each node begin is as in `paths.out`; what does not lead to the end stands last, with no length.
    pub(super) ways: Vec<(Length, u32)>,
}

impl<'p, 'a> Towards<'p, 'a> {
    pub(super) fn new(paths: &'p Paths<'a>, to: NodeId) -> Towards<'p, 'a> {
        let to = paths.rank(to);
        let length = lengths(paths, to);
        let ways = ways(paths, &length, to);
        let next = |node: u32| {
            let first = ways[paths.out_of(node)].first().filter(|way| way.0 != Length::NONE && node != to);
            first.map_or(NO_STEP, |way| way.1)
        };
        let next = (0..paths.nodes() as u32).map(next).collect();
        Towards { paths, to, length, next, ways }
    }

    /// The first path in the order; `None` if none leads there.
    #[must_use]
    pub fn shortest(&self, from: NodeId) -> Option<Path> {
        let from = self.paths.rank(from);
        self.is_reached(from).then(|| self.paths.path(self.tail(from)))
    }

    /// All paths, the first in the order first, each found when it is asked for.
    #[must_use]
    pub fn k_shortest(&self, from: NodeId) -> KShortest<'_, 'p, 'a> {
        KShortest::new(self, self.paths.rank(from))
    }

    pub(super) fn is_reached(&self, from: u32) -> bool {
        self.length[from as usize] != Length::NONE
    }

    /// The steps of the first path from a node that is reached.
    pub(super) fn tail(&self, from: u32) -> impl Iterator<Item = u32> {
        let mut at = from;
        // Every step is nearer by a hop, or cheaper: it ends.
        std::iter::from_fn(move || {
            let index = self.next[at as usize];
            (index != NO_STEP).then(|| {
                at = self.paths.steps[index as usize].to;
                index
            })
        })
    }
}

/// The length of the shortest way from every node to `to`.
fn lengths(paths: &Paths<'_>, to: u32) -> Vec<Length> {
    let mut lengths = vec![Length::NONE; paths.nodes()];
    lengths[to as usize] = Length::ZERO;
    // Holds at most one entry for each edge.
    let mut nearest = BinaryHeap::from([Reverse((Length::ZERO, to))]);
    while let Some(Reverse((length, node))) = nearest.pop() {
        if length > lengths[node as usize] || !paths.leads_on(node, to) {
            continue;
        }
        for (_, step) in paths.into(node) {
            let longer = length.and(step);
            let known = &mut lengths[step.from as usize];
            if longer < *known {
                *known = longer;
                nearest.push(Reverse((longer, step.from)));
            }
        }
    }
    lengths
}

/// Of every node the ways on, the shortest first.
fn ways(paths: &Paths<'_>, lengths: &[Length], to: u32) -> Vec<(Length, u32)> {
    let way = |(index, step): (u32, &Step)| {
        let there = lengths[step.to as usize];
        let leads = there != Length::NONE && paths.leads_on(step.to, to);
        (if leads { there.and(step) } else { Length::NONE }, index)
    };
    let mut ways: Vec<(Length, u32)> = (0..paths.nodes() as u32).flat_map(|node| paths.out(node).map(way)).collect();
    (0..paths.nodes() as u32).for_each(|node| ways[paths.out_of(node)].sort_unstable());
    ways
}
