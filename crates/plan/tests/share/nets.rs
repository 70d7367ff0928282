//! Random networks, and flows over the cheapest paths between their nodes.

use plan::graph::{Edge, Graph};
use plan::paths::Paths;
use plan::share::{Curve, Demand, Limit, Problem, ResourceId};

use crate::problems::weight;
use crate::rng::Rng;

/// The most nodes of a network.
const NODES: u64 = 12;
/// Capacities in b/s. Neighbours are twice or 2.5 times as much.
const CAPACITIES: [u64; 5] = [10, 20, 40, 100, 400];

/// A connected network of 3 to 12 nodes, and 2 to 20 flows over up to so many paths each.
pub(crate) fn network(rng: &mut Rng, tunnels: usize) -> Problem {
    let graph = graph(rng);
    let nodes = graph.names().len() as u64;
    let capacities = graph.edges().iter().map(|edge| Limit { capacity: edge.capacity, floor: 0 });
    let mut problem = Problem::new(capacities.collect());
    let paths = Paths::of(&graph);
    let equal = rng.one_in(3);
    for _ in 0..rng.size(2, 20) {
        let from = rng.size(0, nodes - 1);
        let to = (from + rng.size(1, nodes - 1)) % nodes;
        let towards = paths.towards(to as usize);
        let found = towards.k_shortest(from as usize).take(rng.size(1, tunnels as u64) as usize);
        let uses = |path: plan::paths::Path| path.edges.iter().map(|edge| *edge as ResourceId).collect();
        let found: Vec<Vec<ResourceId>> = found.map(uses).collect();
        let weight = weight(if equal { 1 } else { *rng.pick(&[1, 1, 2, 3, 5, 10]) });
        let most = if rng.one_in(3) { rng.size(1, 60) * 1_000_000_000 } else { u64::MAX };
        let curve = Curve::Weighted { weight, most };
        problem.add(Demand { tier: 0, floor: 0, curve }, found.iter().map(Vec::as_slice));
    }
    problem
}

fn graph(rng: &mut Rng) -> Graph {
    let nodes = rng.size(3, NODES) as usize;
    let mut graph = Graph::default();
    (0..nodes).for_each(|node| assert_eq!(graph.add_node(&format!("n{node:02}"), true), node));
    // A tree and chords.
    for link in 1..nodes + rng.size(0, nodes as u64) as usize {
        let (from, to) = if link < nodes {
            (rng.size(0, link as u64 - 1) as usize, link)
        } else {
            let from = rng.size(0, nodes as u64 - 1) as usize;
            (from, (from + rng.size(1, nodes as u64 - 1) as usize) % nodes)
        };
        let capacity = *rng.pick(&CAPACITIES) * 1_000_000_000;
        let edge =
            Edge { name: format!("l{link}"), from, to, cost: rng.size(1, 9), delay: 0, capacity, risks: Vec::new() };
        graph.add_link(edge.clone(), Edge { from: to, to: from, ..edge });
    }
    graph
}
