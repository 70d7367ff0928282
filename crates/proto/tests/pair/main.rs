//! Source and destination against each other, over a network and disks that do their worst.
//!
//! A case is its seed. `PAIR_SEED=n` runs one case; `PROPTEST_CASES=n` runs so many of them, as with properties.

mod net;
mod pair;
mod rng;
mod site;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pair::Pair;

const CASES: u64 = 1500;

#[test]
fn every_case_ends_well() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let seeds = match number("PAIR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROPTEST_CASES").unwrap_or(CASES),
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| Pair::new(seed).run())) {
            eprintln!("case {seed} failed; PAIR_SEED={seed} runs it alone");
            resume_unwind(panic);
        }
    }
}
