//! The widest, and choices among equals.

use std::cmp::Reverse;

use plan::paths::Path;
use proptest::prelude::*;

use crate::every::{Case, cases};

fn width(case: &Case, path: &Path) -> u64 {
    path.width(|edge| case.capacity(edge))
}

/// The first of the paths of some width by a key; `all` is in order, so the first of equal ones is.
fn best<K: Ord>(case: &Case, key: impl Fn(&Path) -> K) -> Option<(u64, Path)> {
    let wide = case.all().into_iter().filter(|path| width(case, path) > 0);
    wide.min_by_key(key).map(|path| (width(case, &path), path))
}

/// The paths that only names tell apart.
fn equals(case: &Case) -> Vec<Path> {
    let all = case.all();
    let length = all.first().map(|path| (path.cost, path.edges.len()));
    all.into_iter().filter(|path| Some((path.cost, path.edges.len())) == length).collect()
}

proptest! {
    #[test]
    fn widest(case in cases(6, 14)) {
        let expected = best(&case, |path| {
            let names = (path.edges.len(), case.node_names(path).join(" "), case.edge_names(path).iter().map(|name| name.0.to_owned()).collect::<Vec<_>>());
            (Reverse(width(&case, path)), names, path.edges.clone())
        });
        let found = case.paths().widest(case.from, case.to, |edge| case.capacity(edge));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn shortest_widest(case in cases(6, 14)) {
        let expected = best(&case, |path| Reverse(width(&case, path)));
        prop_assert_eq!(case.paths().shortest_widest(case.from, case.to, |edge| case.capacity(edge)), expected);
    }

    #[test]
    fn widest_shortest(case in cases(6, 14)) {
        let all = case.all();
        let least = all.first().map(|path| path.cost);
        let cheapest = all.into_iter().filter(|path| Some(path.cost) == least && width(&case, path) > 0);
        let expected = cheapest.min_by_key(|path| Reverse(width(&case, path))).map(|path| (width(&case, &path), path));
        prop_assert_eq!(case.paths().widest_shortest(case.from, case.to, |edge| case.capacity(edge)), expected);
    }

    #[test]
    fn least_loaded(case in cases(6, 14)) {
        let load = |edge: usize| case.capacity(edge);
        let most = |path: &Path| path.edges.iter().map(|&edge| load(edge)).max();
        let expected = equals(&case).into_iter().min_by_key(most);
        prop_assert_eq!(case.paths().least_loaded(case.from, case.to, load), expected);
    }

    #[test]
    fn by_key(case in cases(5, 10), key in any::<u64>()) {
        let equals = equals(&case);
        let found = case.paths().by_key(case.from, case.to, key);
        prop_assert_eq!(found.is_some(), !equals.is_empty());
        prop_assert!(found.is_none_or(|path| equals.contains(&path)));
    }
}

#[test]
fn keys_spread_over_all_equals() {
    use plan::graph::{Edge, Graph};
    let mut graph = Graph::default();
    let ids = ["a", "b", "c"].map(|name| graph.add_node(name, true));
    for (from, to) in [(0, 1), (0, 1), (1, 2), (1, 2), (1, 2)] {
        let (from, to) = (ids[from], ids[to]);
        graph.add_edge(Edge { name: String::new(), from, to, cost: 1, delay: 0, capacity: 1, risks: Vec::new() });
    }
    let paths = plan::paths::Paths::of(&graph);
    let mut taken = std::collections::BTreeMap::new();
    for key in 0..6000 {
        *taken.entry(paths.by_key(ids[0], ids[2], key).unwrap().edges).or_insert(0) += 1;
    }
    assert_eq!(taken.len(), 6);
    assert!(taken.values().all(|times| (900..1100).contains(times)), "{taken:?}");
}
