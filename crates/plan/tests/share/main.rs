//! Shares beside an exact reckoning in fractions, and the certificate beside allocations that are wrong.

#[path = "../common/cases.rs"]
mod cases;
mod certificate;
mod explain;
mod fraction;
mod problems;
#[path = "../common/rng.rs"]
mod rng;
mod single;
mod structure;
