//! How long the k = 8 shortest paths between all pairs of a network of the size of ESnet take: 80 routers, 504 directed edges.
//!
//! Prints one JSON object for `bench/plan`: the network, the CPU seconds of every round, and the costs of the paths that were found.
//! As a test (`--test`) it does one round.

use std::collections::BTreeSet;
use std::hint::black_box;

use plan::graph::{Edge, Graph};
use plan::paths::Paths;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const ROUTERS: usize = 80;
/// Both ways of each make the 504 edges.
const LINKS: usize = 252;
const K: usize = 8;
const ROUNDS: usize = 9;
const SEED: u64 = 7;

fn main() {
    let graph = network();
    let rounds = if std::env::args().any(|arg| arg == "--test") { 1 } else { ROUNDS };
    let mut seconds = Vec::new();
    for _ in 0..rounds {
        let begin = cpu_seconds();
        black_box(all_pairs(&graph));
        seconds.push(cpu_seconds() - begin);
    }
    let edges: Vec<_> = graph.edges().iter().map(|edge| json!([edge.from, edge.to, edge.cost])).collect();
    let costs = all_pairs(&graph);
    println!("{}", json!({ "k": K, "nodes": ROUTERS, "edges": edges, "seconds": seconds, "costs": costs }));
}

/// What this thread has used of a CPU: other programs on the machine do not count.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The costs of the paths to each node from each: everything from the sorting of names to the last path.
fn all_pairs(graph: &Graph) -> Vec<Vec<Vec<u64>>> {
    let paths = Paths::of(graph);
    let to = |to| {
        let towards = paths.towards(to);
        let from = |from| towards.k_shortest(from).take(K).map(|path| path.cost).collect();
        (0..ROUTERS).map(from).collect()
    };
    (0..ROUTERS).map(to).collect()
}

/// Routers on a map, each linked to the two nearest that were there before, then near pairs, seldom far ones, as fibres go.
/// No parallel links: networkx cannot list paths over them.
fn network() -> Graph {
    let mut draw = Draw(SEED);
    let places: Vec<(f64, f64)> = (0..ROUTERS).map(|_| (draw.next() * 4500.0, draw.next() * 2500.0)).collect();
    let km = |one: usize, other: usize| (places[one].0 - places[other].0).hypot(places[one].1 - places[other].1);
    let mut linked = BTreeSet::new();
    for n in 1..ROUTERS {
        let mut near: Vec<usize> = (0..n).collect();
        near.sort_by(|&one, &other| km(n, one).total_cmp(&km(n, other)));
        linked.extend(near.into_iter().take(2).map(|other| (other, n)));
    }
    let pairs = (0..ROUTERS).flat_map(|n| (0..n).map(move |other| (other, n)));
    let mut pairs: Vec<(f64, (usize, usize))> = pairs.map(|pair| (km(pair.0, pair.1) * draw.next(), pair)).collect();
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (_, pair) in pairs {
        if linked.len() < LINKS {
            linked.insert(pair);
        }
    }
    let mut graph = Graph::default();
    for n in 0..ROUTERS {
        graph.add_node(&format!("r{n:02}"), true);
    }
    for (one, other) in linked {
        let cost = 1 + (km(one, other) / 20.0) as u64;
        let name = format!("r{one:02}-r{other:02}");
        let (capacity, risks) = (100_000_000_000, Vec::new());
        let forward = Edge { name, from: one, to: other, cost, delay: 0, capacity, risks };
        let backward = Edge { from: other, to: one, ..forward.clone() };
        graph.add_link(forward, backward);
    }
    graph
}

/// Random numbers from 0 to 1 (SplitMix64, Steele 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) as f64 / u64::MAX as f64
    }
}
