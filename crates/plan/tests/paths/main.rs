//! Every question about paths beside the enumeration of all paths, on small random networks: parallel edges, one-way links, equal
//! and zero costs, hosts that do not forward. `PROPTEST_CASES` says how many (`make soak`).

mod constrained;
mod disjoint;
mod every;
mod limits;
mod shortest;
mod widest;
