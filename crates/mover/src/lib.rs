//! Moves datasets: reads, sends, receives, verifies, publishes.

#![forbid(unsafe_code)]

pub mod accept;
pub mod connect;
pub mod control;
pub mod copy;
pub mod digest;
pub mod ends;
pub mod event;
pub mod filter;
pub mod fingerprint;
pub mod frame;
pub mod hook;
pub mod io;
pub mod known_paths;
pub mod link;
pub mod net;
pub mod numa;
mod redial;
pub mod relay;
pub mod report;
pub mod request;
pub mod scan;
pub mod serve;
pub mod server;
pub mod session;
pub mod throughput;
pub mod tls;
pub mod way;

pub use copy::{copy, copy_counted};
pub use serve::{serve, serve_connect};
pub use throughput::test;
