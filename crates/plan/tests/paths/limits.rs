//! What happens at the bounds, and on networks that are large.

use plan::graph::{Edge, Graph};
use plan::paths::{Apart, BEGINS_MAX, Constraints, EXACT_NODES, GaveUp, Include, PATHS_MAX, Paths};

/// A chain of diamonds: 2^n paths of equal cost.
fn diamonds(count: usize) -> Graph {
    let mut graph = Graph::default();
    let mut at = graph.add_node("n0", true);
    for n in 1..=count {
        let next = graph.add_node(&format!("n{n}"), true);
        for way in ["a", "b"] {
            let middle = graph.add_node(&format!("{way}{n}"), true);
            link(&mut graph, at, middle, way);
            link(&mut graph, middle, next, way);
        }
        at = next;
    }
    graph
}

fn link(graph: &mut Graph, from: usize, to: usize, risk: &str) {
    let risks = vec![graph.risk(risk)];
    let edge = |from, to| Edge {
        name: format!("{from}-{to}"),
        from,
        to,
        cost: 1,
        delay: 1,
        capacity: 1,
        risks: risks.clone(),
    };
    graph.add_link(edge(from, to), edge(to, from));
}

#[test]
fn a_list_of_paths_ends() {
    let graph = diamonds(17);
    let paths = Paths::of(&graph);
    let towards = paths.towards(graph.node("n17").unwrap());
    assert_eq!(towards.k_shortest(0).count(), PATHS_MAX, "of 131072");
}

#[test]
fn a_hopeless_search_gives_up() {
    let mut graph = diamonds(20);
    // It can be reached from the last node only, which is the end.
    let (end, beyond) = (graph.node("n20").unwrap(), graph.add_node("beyond", true));
    link(&mut graph, end, beyond, "c");
    let paths = Paths::of(&graph);
    // Both ways around a diamond: no path has them, and no bound tells that it has not.
    let includes = ["a20", "b20"].map(|name| Include::Node(graph.node(name).unwrap())).to_vec();
    let constraints = Constraints { includes, max_delay: None };
    let mut found = paths.constrained(0, end, &constraints);
    assert_eq!((found.next(), found.next()), (Some(Err(GaveUp)), None), "after {BEGINS_MAX}");
}

#[test]
fn a_large_network_has_an_answer_in_bounded_work() {
    let graph = diamonds(60);
    assert!(graph.names().len() > EXACT_NODES);
    let paths = Paths::of(&graph);
    let end = graph.node("n60").unwrap();
    let pair = paths.pair(0, end, Apart::Risks).unwrap();
    assert!(pair.shared.is_apart(Apart::Risks) && pair.is_best);
    assert_eq!(pair, paths.pair(0, end, Apart::Risks).unwrap());
    let pair = paths.pair(0, end, Apart::Nodes).unwrap();
    assert_eq!(pair.shared.nodes.len(), 59);
}

/// Routers on a ring with chords, and ducts that several links lie in.
fn ring(nodes: usize, seed: u64) -> Graph {
    let mut graph = Graph::default();
    (0..nodes).for_each(|n| assert_eq!(graph.add_node(&format!("r{n:02}"), true), n));
    let mut state = seed;
    let mut draw = |below: usize| {
        // PCG's multiplier; the high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for n in 0..nodes + nodes / 2 {
        let (from, to) = if n < nodes { (n, (n + 1) % nodes) } else { (draw(nodes), draw(nodes)) };
        let risks = (0..draw(3)).map(|_| format!("duct{}", draw(nodes / 2))).map(|duct| graph.risk(&duct)).collect();
        let edge = Edge { name: format!("l{n}"), from, to, cost: 1 + draw(9) as u64, delay: 0, capacity: 1, risks };
        graph.add_link(edge.clone(), Edge { from: to, to: from, ..edge });
    }
    graph
}

#[test]
fn thirty_nodes_are_searched_to_the_end() {
    for seed in 0..50 {
        let graph = ring(EXACT_NODES, seed);
        let pair = Paths::of(&graph).pair(0, EXACT_NODES / 2, Apart::Risks).unwrap();
        assert!(pair.is_best, "seed {seed}");
    }
}
