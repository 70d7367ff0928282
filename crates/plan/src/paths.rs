//! Paths through a [`Graph`]: the cheapest, the next ones, the widest, the quick enough, pairs that do not fail together.
//!
//! All are loop-free and go through nodes that forward only. Of paths of equal cost the one with fewer hops comes first, then
//! the one whose nodes' names come first along the path, then that whose edges' names do: every answer is the first in this
//! order, so the same question always has the same answer.

mod constrained;
mod disjoint;
mod shortest;
mod towards;
mod widest;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::graph::{EdgeId, Graph, NodeId};

pub use constrained::{BEGINS_MAX, Constrained, Constraints, GaveUp, INCLUDES_MAX, Include};
pub use disjoint::{Apart, EXACT_NODES, Pair, STATES_MAX, STATES_MAX_EXACT, Shared};
pub use shortest::{KShortest, PATHS_MAX};
pub use towards::Towards;

/// A path: edges in turn. From a node to itself there is one, without edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Its edges, from its begin to its end.
    pub edges: Vec<EdgeId>,
    /// Sum of their costs.
    pub cost: u64,
}

impl Path {
    /// Its nodes in turn, both ends included; none for a path without edges.
    #[must_use]
    pub fn nodes(&self, graph: &Graph) -> Vec<NodeId> {
        let first = self.edges.first().map(|&edge| graph.edge(edge).from);
        first.into_iter().chain(self.edges.iter().map(|&edge| graph.edge(edge).to)).collect()
    }

    /// One-way delay from end to end, nanoseconds.
    #[must_use]
    pub fn delay(&self, graph: &Graph) -> u64 {
        self.edges.iter().map(|&edge| graph.edge(edge).delay).sum()
    }

    /// The least of what `width` says of its edges; `u64::MAX` for a path without edges.
    #[must_use]
    pub fn width(&self, width: impl Fn(EdgeId) -> u64) -> u64 {
        self.edges.iter().map(|&edge| width(edge)).min().unwrap_or(u64::MAX)
    }
}

/// A graph prepared for questions about paths: its usable edges in the order of names.
#[derive(Clone, Debug)]
pub struct Paths<'a> {
    graph: &'a Graph,
    names: Arc<Names>,
    /// The usable edges, by the ranks of `from`, `to` and their own names: those that leave a node stand together, and of
    /// several that would do the first is the one to take.
    steps: Vec<Step>,
    /// Where those of each node begin in `steps`, and a last one for the end.
    out: Vec<u32>,
    /// Indices of `steps`, by `to`.
    by_end: Vec<u32>,
    /// Where those of each node begin in `by_end`, and a last one for the end.
    into: Vec<u32>,
}

/// The places of nodes and edges in the order of names; equal names stand in the order in which they were added.
#[derive(Debug)]
struct Names {
    rank_of_node: Vec<u32>,
    node_of_rank: Vec<NodeId>,
    rank_of_edge: Vec<u32>,
    /// By rank.
    forwards: Vec<bool>,
}

/// A usable edge, with nodes by rank.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: u32,
    to: u32,
    cost: u64,
    edge: EdgeId,
}

/// How long a way is: what is compared before names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Length {
    cost: u64,
    hops: u32,
}

impl Length {
    const ZERO: Length = Length { cost: 0, hops: 0 };
    /// Of what cannot be reached.
    const NONE: Length = Length { cost: u64::MAX, hops: u32::MAX };

    /// With one more edge.
    fn and(self, step: &Step) -> Length {
        Length { cost: self.cost + step.cost, hops: self.hops + 1 }
    }

    fn plus(self, other: Length) -> Length {
        Length { cost: self.cost + other.cost, hops: self.hops + other.hops }
    }
}

impl<'a> Paths<'a> {
    /// Over all edges, at their own costs.
    #[must_use]
    pub fn of(graph: &'a Graph) -> Paths<'a> {
        let names = Arc::new(Names::of(graph));
        let step = |edge: EdgeId| {
            let ends = graph.edge(edge);
            let [from, to] = [ends.from, ends.to].map(|node| names.rank_of_node[node]);
            Step { from, to, cost: ends.cost, edge }
        };
        // An edge from a node to itself is on no path.
        let mut steps: Vec<Step> = (0..graph.edges().len()).map(step).filter(|step| step.from != step.to).collect();
        steps.sort_by_key(|step| (step.from, step.to, names.rank_of_edge[step.edge]));
        Paths::with(graph, names, steps)
    }

    /// Over those of the usable edges that pass.
    #[must_use]
    pub fn only(&self, passes: impl Fn(EdgeId) -> bool) -> Paths<'a> {
        let steps = self.steps.iter().copied().filter(|step| passes(step.edge)).collect();
        Paths::with(self.graph, self.names.clone(), steps)
    }

    /// The same edges at other costs, each at most [`WEIGHT_MAX`](crate::graph::WEIGHT_MAX), for the search: at no cost those of
    /// fewest hops come first, at the cost of its delay the quickest. [`Path::cost`] stays the sum of the graph's costs.
    #[must_use]
    pub fn costing(&self, cost: impl Fn(EdgeId) -> u64) -> Paths<'a> {
        let mut paths = self.clone();
        paths.steps.iter_mut().for_each(|step| step.cost = cost(step.edge));
        paths
    }

    fn with(graph: &'a Graph, names: Arc<Names>, steps: Vec<Step>) -> Paths<'a> {
        let nodes = names.node_of_rank.len();
        let mut by_end: Vec<u32> = (0..steps.len() as u32).collect();
        by_end.sort_by_key(|&step| steps[step as usize].to);
        let begins = |ends: &mut dyn Iterator<Item = u32>| {
            let mut begins = vec![0; nodes + 1];
            ends.for_each(|node| begins[node as usize + 1] += 1);
            (0..nodes).for_each(|node| begins[node + 1] += begins[node]);
            begins
        };
        let out = begins(&mut steps.iter().map(|step| step.from));
        let into = begins(&mut steps.iter().map(|step| step.to));
        Paths { graph, names, steps, out, by_end, into }
    }

    /// The graph that is asked.
    #[must_use]
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The first path in the order; `None` if none leads there.
    #[must_use]
    pub fn shortest(&self, from: NodeId, to: NodeId) -> Option<Path> {
        self.towards(to).shortest(from)
    }

    /// What all paths to a node have in common, for questions from several nodes or for more than one path.
    #[must_use]
    pub fn towards(&self, to: NodeId) -> Towards<'_, 'a> {
        Towards::new(self, to)
    }

    /// The order of paths between the same two nodes: by cost, hops, names of nodes, names of edges.
    #[must_use]
    pub fn order(&self, one: &Path, other: &Path) -> Ordering {
        let nodes = |path: &Path| -> Vec<u32> {
            path.edges.iter().map(|&edge| self.names.rank_of_node[self.graph.edge(edge).to]).collect()
        };
        let edges =
            |path: &Path| -> Vec<u32> { path.edges.iter().map(|&edge| self.names.rank_of_edge[edge]).collect() };
        let length = |path: &Path| (path.cost, path.edges.len());
        length(one)
            .cmp(&length(other))
            .then_with(|| nodes(one).cmp(&nodes(other)))
            .then_with(|| edges(one).cmp(&edges(other)))
    }

    fn rank(&self, node: NodeId) -> u32 {
        self.names.rank_of_node[node]
    }

    fn nodes(&self) -> usize {
        self.names.node_of_rank.len()
    }

    fn forwards(&self, node: u32) -> bool {
        self.names.forwards[node as usize]
    }

    /// Whether a path to `end` may come to this node.
    fn leads_on(&self, node: u32, end: u32) -> bool {
        node == end || self.forwards(node)
    }

    /// The steps out of a node, with their indices, in the order of names.
    fn out(&self, node: u32) -> impl Iterator<Item = (u32, &Step)> {
        self.out_of(node).map(|index| (index as u32, &self.steps[index]))
    }

    /// The indices of the steps out of a node.
    fn out_of(&self, node: u32) -> std::ops::Range<usize> {
        self.out[node as usize] as usize..self.out[node as usize + 1] as usize
    }

    /// The steps into a node, with their indices.
    fn into(&self, node: u32) -> impl Iterator<Item = (u32, &Step)> {
        let node = node as usize;
        let indices = &self.by_end[self.into[node] as usize..self.into[node + 1] as usize];
        indices.iter().map(|&index| (index, &self.steps[index as usize]))
    }

    /// The path of these steps.
    fn path(&self, steps: impl Iterator<Item = u32>) -> Path {
        let mut path = Path::default();
        for index in steps {
            let edge = self.steps[index as usize].edge;
            path.edges.push(edge);
            path.cost += self.graph.edge(edge).cost;
        }
        path
    }
}

impl Names {
    fn of(graph: &Graph) -> Names {
        let mut node_of_rank: Vec<NodeId> = (0..graph.names().len()).collect();
        node_of_rank.sort_by_key(|&node| &graph.names()[node]);
        let mut edges: Vec<EdgeId> = (0..graph.edges().len()).collect();
        edges.sort_by_key(|&edge| &graph.edge(edge).name);
        Names {
            rank_of_node: ranks(&node_of_rank),
            rank_of_edge: ranks(&edges),
            forwards: node_of_rank.iter().map(|&node| graph.forwards(node)).collect(),
            node_of_rank,
        }
    }
}

/// The place of each in the list.
fn ranks(of_rank: &[usize]) -> Vec<u32> {
    let mut ranks = vec![0; of_rank.len()];
    of_rank.iter().enumerate().for_each(|(rank, &of)| ranks[of] = rank as u32);
    ranks
}
