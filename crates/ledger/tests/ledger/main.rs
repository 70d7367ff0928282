//! The ledger as its user sees it.

mod bounds;
mod common;
mod world;
