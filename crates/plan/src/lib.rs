//! The planner: what may be reserved, over which path, when, and why not.
//!
//! Pure functions over immutable snapshots, in integers: rates are b/s, times and delays nanoseconds, costs plain numbers.
//! Nothing here does I/O, reads a clock or spawns anything; the same input gives the same answer, byte for byte.

#![forbid(unsafe_code)]

pub mod allot;
pub mod answer;
pub mod book;
pub mod bottleneck;
pub mod calendar;
pub mod certificate;
pub mod difference;
pub mod estimate;
pub mod explain;
pub mod graph;
pub mod mark;
pub mod objective;
pub mod paths;
pub mod requirements;
pub mod reserve;
pub mod share;
pub mod slots;
pub mod starts;
pub mod usage;
pub mod volume;
