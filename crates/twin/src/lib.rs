//! A long-distance network on one machine: namespaces joined by emulated links.

#![forbid(unsafe_code)]

pub mod packet;
pub mod plan;
