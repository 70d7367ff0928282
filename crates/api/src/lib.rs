//! What goes between a controller and its agents ([`agent`]), and over `/api/v1` ([`rest`]): types, their limits, their texts. No I/O.

#![forbid(unsafe_code)]

pub mod agent;
pub mod frame;
pub mod name;
pub mod rest;

pub use name::Name;
