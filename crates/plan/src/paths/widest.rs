//! Paths that carry much, and the choice among paths that are equal.

use std::collections::BinaryHeap;

use super::{Length, Path, Paths};
use crate::graph::{EdgeId, NodeId};

impl<'a> Paths<'a> {
    /// Of the paths whose narrowest edge is widest the first by hops and names, and how wide it is; `None` if none has any
    /// width.
    #[must_use]
    pub fn widest(&self, from: NodeId, to: NodeId, width: impl Fn(EdgeId) -> u64) -> Option<(u64, Path)> {
        self.costing(|_| 0).shortest_widest(from, to, width)
    }

    /// Of the paths whose narrowest edge is widest the first in the order: the cheapest, then by hops and names.
    ///
    /// In two passes: how wide can it be, then the shortest over edges of that width. (Labels that keep the better of two
    /// widths on the way would lose it: a part of such a path need not be such a path.)
    #[must_use]
    pub fn shortest_widest(&self, from: NodeId, to: NodeId, width: impl Fn(EdgeId) -> u64) -> Option<(u64, Path)> {
        let widest = self.bottleneck(from, to, &width);
        let path = self.only(|edge| widest > 0 && width(edge) >= widest).shortest(from, to)?;
        Some((widest, path))
    }

    /// Of the cheapest paths the widest, then the first by hops and names.
    #[must_use]
    pub fn widest_shortest(&self, from: NodeId, to: NodeId, width: impl Fn(EdgeId) -> u64) -> Option<(u64, Path)> {
        let length = self.towards(to).length;
        // Costs may be zero: a way along such edges can turn round, but a path along them is a cheapest one.
        self.along(&length, self.rank(to), |edge, before, after| before.cost == after.cost + edge)
            .shortest_widest(from, to, width)
    }

    /// Of the paths that only names tell apart (equal in cost and hops, the least) that whose most loaded edge has the least
    /// load; of equal ones the first by names.
    #[must_use]
    pub fn least_loaded(&self, from: NodeId, to: NodeId, load: impl Fn(EdgeId) -> u64) -> Option<Path> {
        let equals = self.equals(to);
        let least = equals.bottleneck(from, to, &|edge| u64::MAX - load(edge));
        equals.only(|edge| u64::MAX - load(edge) >= least).shortest(from, to)
    }

    /// One of the paths that only names tell apart (equal in cost and hops, the least), told by a key: at every node each edge
    /// that leads on has the same chance over many keys, as with routers that hash flows (ECMP).
    #[must_use]
    pub fn by_key(&self, from: NodeId, to: NodeId, key: u64) -> Option<Path> {
        let equals = self.equals(to);
        let (mut at, end) = (self.rank(from), self.rank(to));
        let mut path = Vec::new();
        // Every step is nearer by a hop.
        while at != end {
            let ways: Vec<u32> = equals.out(at).map(|(index, _)| index).collect();
            let chosen = mixed(key ^ mixed(path.len() as u64)).checked_rem(ways.len() as u64)?;
            path.push(ways[chosen as usize]);
            at = equals.steps[ways[chosen as usize] as usize].to;
        }
        Some(equals.path(path.into_iter()))
    }

    /// Over the edges along shortest paths to a node only.
    fn equals(&self, to: NodeId) -> Paths<'a> {
        let length = self.towards(to).length;
        let is_tight = |edge: u64, before: Length, after: Length| {
            (before.cost, before.hops) == (after.cost + edge, after.hops + 1)
        };
        self.along(&length, self.rank(to), is_tight)
    }

    /// Over the steps that pass, of those that the end is reached by: their cost, and how far both their ends are.
    fn along(&self, length: &[Length], to: u32, passes: impl Fn(u64, Length, Length) -> bool) -> Paths<'a> {
        let steps = self.steps.iter().copied().filter(|step| {
            let [before, after] = [step.from, step.to].map(|node| length[node as usize]);
            self.leads_on(step.to, to)
                && before != Length::NONE
                && after != Length::NONE
                && passes(step.cost, before, after)
        });
        Paths::with(self.graph, self.names.clone(), steps.collect())
    }

    /// How wide the widest path is: 0 if there is none.
    fn bottleneck(&self, from: NodeId, to: NodeId, width: &impl Fn(EdgeId) -> u64) -> u64 {
        let (from, to) = (self.rank(from), self.rank(to));
        let mut widths = vec![0; self.nodes()];
        // Holds at most one entry for each edge.
        let mut widest = BinaryHeap::from([(u64::MAX, from)]);
        while let Some((so_far, node)) = widest.pop() {
            if node == to {
                return so_far;
            }
            if so_far < widths[node as usize] || (node != from && !self.forwards(node)) {
                continue;
            }
            for (_, step) in self.out(node) {
                let through = so_far.min(width(step.edge));
                if through > widths[step.to as usize] {
                    widths[step.to as usize] = through;
                    widest.push((through, step.to));
                }
            }
        }
        0
    }
}

/// A number in which every bit depends on every bit of another (SplitMix64, Steele 2014).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
