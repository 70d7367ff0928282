//! What goes wrong: power, processes, wires, disks, links. Nothing is lost, and nothing is said that is not so.
//!
//! Tests that need more than an ordinary user has (FUSE, loop devices, strace, network namespaces) say what is
//! missing and pass. `FAULT_CASES` is the number of cases of each test that draws them; few are the default.

#[path = "../e2e/tree.rs"]
mod tree;
#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod world;

mod crash;
mod devices;
mod hooks;
mod hosts;
mod link;
mod machine;
mod power;
#[allow(dead_code, reason = "tests of the loop use the rest")]
mod proxy;
mod sandbox;
mod space;
mod volatile;
mod wire;

pub(crate) use machine::{Draw, cases, is_missing, run, tried};
