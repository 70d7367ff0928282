//! The k shortest.

use plan::paths::Path;
use proptest::prelude::*;

use crate::every::cases;

proptest! {
    #[test]
    fn come_one_by_one_in_the_order(case in cases(6, 14)) {
        let all = case.all();
        let paths = case.paths();
        let found: Vec<Path> = paths.towards(case.to).k_shortest(case.from).collect();
        prop_assert_eq!(&found, &all);
        prop_assert_eq!(paths.shortest(case.from, case.to), all.first().cloned());
        for pair in all.windows(2) {
            prop_assert!(paths.order(&pair[0], &pair[1]).is_lt());
        }
    }

    #[test]
    fn keep_to_the_edges_that_pass(case in cases(6, 14), mask in any::<u32>()) {
        let passes = |edge: usize| mask >> (edge % 32) & 1 == 1;
        let expected: Vec<Path> = case.all().into_iter().filter(|path| path.edges.iter().all(|&edge| passes(edge))).collect();
        let paths = case.paths().only(passes);
        let found: Vec<Path> = paths.towards(case.to).k_shortest(case.from).collect();
        prop_assert_eq!(found, expected);
    }
}
