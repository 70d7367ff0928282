//! Delay-bounded paths, and those that must pass something.

use plan::paths::{Constraints, Include, Path};
use proptest::prelude::*;

use crate::every::{Case, cases};

/// Whether a path passes all includes in turn.
fn passes(case: &Case, path: &Path, includes: &[Include]) -> bool {
    let mut left = includes.iter().peekable();
    while left.next_if(|include| **include == Include::Node(case.from)).is_some() {}
    for edge in &path.edges {
        while left.next_if(|include| matches!(include, Include::AnyOf(edges) if edges.contains(edge))).is_some() {}
        let to = case.graph.edge(*edge).to;
        while left.next_if(|include| **include == Include::Node(to)).is_some() {}
    }
    left.next().is_none()
}

fn include() -> impl Strategy<Value = Include> {
    let edges = proptest::collection::vec(0_usize..14, 0..5).prop_map(Include::AnyOf);
    prop_oneof![(0_usize..6).prop_map(Include::Node), edges]
}

proptest! {
    #[test]
    fn the_widest_that_passes_what_it_must(case in cases(6, 14), include in 0_usize..6) {
        let constraints = Constraints { includes: vec![Include::Node(include % case.graph.names().len())], max_delay: None };
        let width = |path: &Path| path.width(|edge| case.capacity(edge));
        let wide = case.all().into_iter().filter(|path| width(path) > 0 && passes(&case, path, &constraints.includes));
        let expected = wide.min_by_key(|path| std::cmp::Reverse(width(path))).map(|path| (width(&path), path));
        let capacity = |edge| case.capacity(edge);
        prop_assert_eq!(case.paths().widest_constrained(case.from, case.to, capacity, &constraints), Ok(expected));
    }

    #[test]
    fn the_cheapest_that_is_quick_enough(case in cases(6, 14), max_delay in 0_u64..12) {
        let expected = case.all().into_iter().find(|path| path.delay(&case.graph) <= max_delay);
        prop_assert_eq!(case.paths().cheapest_within(case.from, case.to, max_delay), Ok(expected));
    }

    #[test]
    fn all_that_pass_what_they_must(
        case in cases(6, 14),
        mut includes in proptest::collection::vec(include(), 0..3),
        max_delay in proptest::option::of(0_u64..12),
    ) {
        for include in &mut includes {
            if let Include::Node(node) = include {
                *node %= case.graph.names().len();
            }
        }
        let expected: Vec<Path> = case.all().into_iter().filter(|path| {
            passes(&case, path, &includes) && max_delay.is_none_or(|most| path.delay(&case.graph) <= most)
        }).collect();
        let paths = case.paths();
        let constraints = Constraints { includes, max_delay };
        let found: Result<Vec<Path>, _> = paths.constrained(case.from, case.to, &constraints).collect();
        prop_assert_eq!(found, Ok(expected));
    }
}
