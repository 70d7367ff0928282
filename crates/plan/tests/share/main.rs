//! Shares beside an exact reckoning in fractions, and the certificate beside allocations that are wrong.

#[path = "../common/cases.rs"]
mod cases;
mod certificate;
mod classes;
mod difference;
mod explain;
mod fraction;
mod incremental;
mod lp;
mod nets;
mod objective;
mod problems;
mod published;
mod questions;
#[path = "../common/rng.rs"]
mod rng;
mod several;
mod single;
mod structure;
