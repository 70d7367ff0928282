//! The whole loop through the installed binary: a controller, agents that enrol, transfers by class.

#[path = "../e2e/tree.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod tree;
#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod world;

mod bookings;
mod faults;
mod fleet;
mod keep;
mod live;
mod paths;
mod shares;
mod transfers;
mod twinned;
