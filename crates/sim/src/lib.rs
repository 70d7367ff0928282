//! The link machine, and a packet simulator around it.
//!
//! Nothing here does I/O, reads a clock or spawns anything: time and randomness are arguments.

#![forbid(unsafe_code)]

pub mod histogram;
pub mod link;
pub mod net;
pub mod random;
