//! Every answer beside the one that trying all of them gives.
//!
//! A case is its seed. `PLAN_SEED=n` runs one case of each kind; `PROPTEST_CASES=n` runs as many times more as
//! properties would.

mod book;
mod calendar;
#[path = "../common/cases.rs"]
mod cases;
mod nets;
mod reserve;
#[path = "../common/rng.rs"]
mod rng;
mod slots;
mod threads;
mod volume;

use cases::each_case;
