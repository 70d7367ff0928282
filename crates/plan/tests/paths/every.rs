//! Small random networks, and all their paths.

use plan::graph::{Edge, EdgeId, Graph, NodeId};
use plan::paths::{Path, Paths};
use proptest::prelude::*;

/// A network, and where questions begin and end.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// Names out of order, so that the order of names is not that of numbers.
const NAMES: [&str; 7] = ["d", "b", "f", "a", "g", "c", "e"];
const RISKS: [&str; 3] = ["river", "bridge", "duct"];

/// Networks of two to so many nodes and up to so many links; small numbers, so that much is equal.
pub(crate) fn cases(nodes: usize, links: usize) -> impl Strategy<Value = Case> {
    (2..=nodes)
        .prop_flat_map(move |nodes| {
            let link = (0..nodes, 0..nodes, any::<bool>(), 0_u64..4, 0_u64..4, 0_u64..4, 0_u8..8, 0_u8..8);
            let forwards = proptest::collection::vec(prop_oneof![4 => Just(true), 1 => Just(false)], nodes);
            (forwards, proptest::collection::vec(link, 0..=links), 0..nodes, 1..nodes)
        })
        .prop_map(|(forwards, links, from, further)| {
            let to = (from + further) % forwards.len();
            let mut graph = Graph::default();
            for (name, &forwards) in NAMES.iter().zip(&forwards) {
                graph.add_node(name, forwards);
            }
            let risks_of = RISKS.map(|risk| graph.risk(risk));
            for (n, (from, to, both_ways, cost, delay, capacity, few, fewer)) in links.into_iter().enumerate() {
                // Some links have the name of another.
                let name = format!("l{}", (n * 5) % 8);
                // Two draws for each bit: a risk in a quarter of the cases.
                let risks: Vec<usize> = risks_of.into_iter().filter(|risk| few & (fewer >> risk) & 1 == 1).collect();
                let edge =
                    |from, to| Edge { name: name.clone(), from, to, cost, delay, capacity, risks: risks.clone() };
                if both_ways {
                    graph.add_link(edge(from, to), edge(to, from));
                } else {
                    graph.add_edge(edge(from, to));
                }
            }
            Case { graph, from, to }
        })
}

impl Case {
    /// All loop-free paths in the order: by cost, hops, names of nodes, names of edges.
    pub(crate) fn all(&self) -> Vec<Path> {
        let mut found = Vec::new();
        self.walk(&mut vec![self.from], &mut Vec::new(), &mut found);
        found.sort_by_key(|path| (path.cost, path.edges.len(), self.node_names(path), self.edge_names(path)));
        found
    }

    fn walk(&self, nodes: &mut Vec<NodeId>, edges: &mut Vec<EdgeId>, found: &mut Vec<Path>) {
        let at = *nodes.last().unwrap();
        if at == self.to {
            let cost = edges.iter().map(|&edge| self.graph.edge(edge).cost).sum();
            return found.push(Path { edges: edges.clone(), cost });
        }
        if at != self.from && !self.graph.forwards(at) {
            return;
        }
        for &edge in self.graph.out(at) {
            let next = self.graph.edge(edge).to;
            if !nodes.contains(&next) {
                nodes.push(next);
                edges.push(edge);
                self.walk(nodes, edges, found);
                nodes.pop();
                edges.pop();
            }
        }
    }

    pub(crate) fn node_names(&self, path: &Path) -> Vec<&str> {
        path.nodes(&self.graph).into_iter().map(|node| self.graph.names()[node].as_str()).collect()
    }

    /// With their numbers, as names may be equal.
    pub(crate) fn edge_names(&self, path: &Path) -> Vec<(&str, EdgeId)> {
        path.edges.iter().map(|&edge| (self.graph.edge(edge).name.as_str(), edge)).collect()
    }

    pub(crate) fn paths(&self) -> Paths<'_> {
        Paths::of(&self.graph)
    }

    pub(crate) fn capacity(&self, edge: EdgeId) -> u64 {
        self.graph.edge(edge).capacity
    }
}
