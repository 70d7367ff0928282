//! The nouns of Longhaul: networks, what is said of them, and what happens to them.
//!
//! Nothing here does I/O, reads a clock or spawns anything.

#![forbid(unsafe_code)]

pub mod bookings;
pub mod network;
pub mod requirements;
pub mod scenario;
pub mod shares;
