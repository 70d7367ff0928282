//! Pairs that do not fail together.

use std::collections::BTreeSet;

use plan::paths::{Apart, Path};
use proptest::prelude::*;

use crate::every::{Case, cases};

type Set = BTreeSet<usize>;

/// Of a path: nodes between its ends, links, risks.
fn sets(case: &Case, path: &Path) -> [Set; 3] {
    let nodes = path.nodes(&case.graph);
    let links = path.edges.iter().map(|&edge| case.graph.link_of(edge)).collect();
    let risks = path.edges.iter().flat_map(|&edge| case.graph.edge(edge).risks.clone()).collect();
    [nodes[1..nodes.len() - 1].iter().copied().collect(), links, risks]
}

/// The pair that shares least, by looking at all pairs.
fn best(case: &Case, apart: Apart) -> Option<([Path; 2], [Vec<usize>; 3])> {
    let all = case.all();
    let names = |path: &Path| -> Vec<(String, String, usize)> {
        let step = |&edge: &usize| {
            let ends = case.graph.edge(edge);
            (case.graph.names()[ends.to].clone(), ends.name.clone(), edge)
        };
        path.edges.iter().map(step).collect()
    };
    let pairs = all.iter().enumerate().flat_map(|(n, one)| all[n..].iter().map(move |other| (one, other)));
    let key = |one: &Path, other: &Path| {
        let [nodes, links, risks] = shared(case, one, other).map(|shared| shared.len());
        let worst = match apart {
            Apart::Links => (links, 0),
            Apart::Nodes => (nodes, links),
            Apart::Risks => (risks + links, 0),
        };
        let mut by_name = [names(one), names(other)];
        by_name.sort();
        (worst, one.cost + other.cost, one.edges.len() + other.edges.len(), by_name)
    };
    let (one, other) = pairs.min_by_key(|(one, other)| key(one, other))?;
    Some(([one.clone(), other.clone()], shared(case, one, other)))
}

fn shared(case: &Case, one: &Path, other: &Path) -> [Vec<usize>; 3] {
    let (one, other) = (sets(case, one), sets(case, other));
    std::array::from_fn(|n| one[n].intersection(&other[n]).copied().collect())
}

fn check(case: &Case, apart: Apart) -> Result<(), TestCaseError> {
    let found = case.paths().pair(case.from, case.to, apart);
    prop_assert!(found.as_ref().is_none_or(|pair| pair.is_best));
    let found = found.map(|pair| (pair.paths, [pair.shared.nodes, pair.shared.links, pair.shared.risks]));
    prop_assert_eq!(found, best(case, apart), "{:?}", apart);
    Ok(())
}

proptest! {
    #[test]
    fn links(case in cases(6, 12)) {
        check(&case, Apart::Links)?;
    }

    #[test]
    fn nodes(case in cases(6, 12)) {
        check(&case, Apart::Nodes)?;
    }

    #[test]
    fn risks(case in cases(6, 12)) {
        check(&case, Apart::Risks)?;
    }
}
