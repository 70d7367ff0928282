//! The nouns of Longhaul: networks and what is said of them.
//!
//! Nothing here does I/O, reads a clock or spawns anything.

#![forbid(unsafe_code)]

pub mod network;
