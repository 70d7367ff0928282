//! The whole loop through the installed binary: a controller, agents that enrol, transfers by class.

#[path = "../faults/machine.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod machine;
#[path = "../faults/proxy.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod proxy;
#[path = "../e2e/tree.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod tree;
#[path = "../faults/volatile.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod volatile;
#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod world;

mod away;
mod bookings;
mod counters;
mod faults;
#[allow(dead_code, reason = "the campaign uses the rest")]
mod fleet;
mod keep;
mod live;
mod lost;
mod operator;
mod paths;
#[allow(dead_code, reason = "the campaign uses the rest")]
mod rest;
mod shares;
mod strangers;
mod transfers;
mod twinned;

pub(crate) use machine::{Draw, is_missing, run, tried};
