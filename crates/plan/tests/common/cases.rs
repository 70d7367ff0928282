//! Cases of random tests.
//!
//! A case is its seed. `PLAN_SEED=n` runs one case of each kind; `PROPTEST_CASES=n` runs as many times more as
//! properties would.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::rng::Rng;

/// What properties run when nobody says how many.
const CASES_OF_PROPERTIES: u64 = 256;

/// Runs a property for each case: `cases` of them, or in proportion to how many were asked for. Whether it was more than one, of which
/// more can be said together.
pub(crate) fn each_case(cases: u64, property: impl Fn(&mut Rng)) -> bool {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let seeds = match number("PLAN_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROPTEST_CASES").map_or(cases, |asked| (asked * cases).div_ceil(CASES_OF_PROPERTIES)),
    };
    for seed in seeds.clone() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| property(&mut Rng::new(seed)))) {
            eprintln!("case {seed} failed; PLAN_SEED={seed} runs it alone");
            resume_unwind(panic);
        }
    }
    seeds.end - seeds.start > 1
}
