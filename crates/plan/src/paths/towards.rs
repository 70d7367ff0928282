//! Distances to one node, and the first path from each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{KShortest, Length, Path, Paths};
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
}

impl<'p, 'a> Towards<'p, 'a> {
    pub(super) fn new(paths: &'p Paths<'a>, to: NodeId) -> Towards<'p, 'a> {
        let to = paths.rank(to);
        let length = lengths(paths, to);
        let next = (0..paths.nodes() as u32).map(|node| next(paths, &length, node, to)).collect();
        Towards { paths, to, length, next }
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

/// The first step in the order of names that is on a shortest way.
fn next(paths: &Paths<'_>, lengths: &[Length], node: u32, to: u32) -> u32 {
    let here = lengths[node as usize];
    if node == to || here == Length::NONE {
        return NO_STEP;
    }
    let mut out = paths.out(node).filter(|(_, step)| paths.leads_on(step.to, to));
    let tight = out.find(|(_, step)| {
        let there = lengths[step.to as usize];
        there != Length::NONE && there.and(step) == here
    });
    tight.expect("what was reached was reached by a step").0
}
