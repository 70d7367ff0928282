//! Pairs of paths that do not fail together.
//!
//! If there is no such pair, what is asked for is the pair that shares least, and the answer names what it shares. Of pairs that
//! share equally little the one of least total cost comes first, then that of fewest hops in total; then names decide: hop by
//! hop the next node's and the edge's, first along the path that comes first so, then along the other.

mod flow;
mod risks;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{Path, Paths};
use crate::graph::{EdgeId, Graph, NodeId};
use flow::{Flow, Used};

pub use risks::{EXACT_NODES, STATES_MAX, STATES_MAX_EXACT};

/// What the two paths of a pair are not to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Links, either way along them.
    Links,
    /// Nodes but for their ends, and links.
    Nodes,
    /// Risks, and links.
    Risks,
}

/// Two paths between the same nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The first in the order of paths is the first.
    pub paths: [Path; 2],
    /// What they share, of any kind.
    pub shared: Shared,
    /// Whether no pair is better. Always, but for [`Apart::Risks`] in a network of more than [`EXACT_NODES`] nodes in which the search
    /// ended at its bound: then it is the best that was found.
    pub is_best: bool,
}

/// What two paths share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Nodes between their ends.
    pub nodes: Vec<NodeId>,
    /// Links, by [`Graph::link_of`].
    pub links: Vec<EdgeId>,
    /// Risks.
    pub risks: Vec<usize>,
}

impl Shared {
    fn by(graph: &Graph, paths: [&Path; 2]) -> Shared {
        let [nodes, links, risks] = [Shared::nodes, Shared::links, Shared::risks].map(|of: fn(&Graph, &Path) -> _| {
            let [one, other]: [BTreeSet<usize>; 2] = paths.map(|path| of(graph, path));
            one.intersection(&other).copied().collect()
        });
        Shared { nodes, links, risks }
    }

    fn nodes(graph: &Graph, path: &Path) -> BTreeSet<usize> {
        path.edges.iter().skip(1).map(|&edge| graph.edge(edge).from).collect()
    }

    fn links(graph: &Graph, path: &Path) -> BTreeSet<usize> {
        path.edges.iter().map(|&edge| graph.link_of(edge)).collect()
    }

    fn risks(graph: &Graph, path: &Path) -> BTreeSet<usize> {
        path.edges.iter().flat_map(|&edge| graph.edge(edge).risks.iter().copied()).collect()
    }

    /// Whether it is nothing of what the paths were to keep apart.
    #[must_use]
    pub fn is_apart(&self, apart: Apart) -> bool {
        self.links.is_empty()
            && match apart {
                Apart::Links => true,
                Apart::Nodes => self.nodes.is_empty(),
                Apart::Risks => self.risks.is_empty(),
            }
    }
}

impl<'a> Paths<'a> {
    /// The pair of paths that shares least; [`Shared::is_apart`] tells whether that is nothing. `None` if no path leads there,
    /// or the two nodes are one.
    ///
    /// Least means, with [`Apart::Nodes`], fewest nodes and then fewest links; with [`Apart::Risks`], fewest risks and links
    /// together. Links and nodes: two units of flow at least cost (Suurballe 1974), with a fee on what both use. Risks, where
    /// no fast exact way is known: see [`EXACT_NODES`].
    #[must_use]
    pub fn pair(&self, from: NodeId, to: NodeId, apart: Apart) -> Option<Pair> {
        if from == to {
            return None;
        }
        match apart {
            Apart::Links => self.pair_by_flow(from, to, false),
            Apart::Nodes => self.pair_by_flow(from, to, true),
            Apart::Risks => risks::pair(self, from, to),
        }
    }

    fn pair_by_flow(&self, from: NodeId, to: NodeId, nodes_too: bool) -> Option<Pair> {
        let flow = Flow::new(self, self.rank(from), self.rank(to), nodes_too);
        let mut used = Used::default();
        let first = flow.first_path(&used, true)?;
        used.add(self, &first);
        let second = flow.first_path(&used, false)?;
        Some(self.pair_of([first, second].map(|steps| self.path(steps.into_iter())), true))
    }

    fn pair_of(&self, mut paths: [Path; 2], is_best: bool) -> Pair {
        paths.sort_by(|one, other| self.order(one, other));
        let shared = Shared::by(self.graph, paths.each_ref());
        Pair { paths, shared, is_best }
    }

    /// By the names of pairs that are equal in everything else.
    fn order_of_pairs(&self, one: &[Path; 2], other: &[Path; 2]) -> Ordering {
        let names = |path: &Path| -> Vec<(u32, u32)> {
            let step = |&edge: &EdgeId| (self.rank(self.graph.edge(edge).to), self.names.rank_of_edge[edge]);
            path.edges.iter().map(step).collect()
        };
        let key = |pair: &[Path; 2]| {
            let mut key = pair.each_ref().map(names);
            key.sort();
            key
        };
        key(one).cmp(&key(other))
    }
}
