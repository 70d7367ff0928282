//! A long-distance network on one machine: namespaces joined by emulated links.
//!
//! ```text
//! model::network::Network ──▶ plan::Plan ──▶ up: namespaces, devices, routes
//!                                            daemon: emulator::Emulator, control socket
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | what a network becomes here: pure |
//! | [`packet`] | shapes and pieces of packets: pure |
//! | [`emulator`] | TUN devices, a `sim::link::Link` for each direction, a thread for each core |
//! | [`up`], [`mod@down`], [`daemon`] | the life of a twin |
//! | [`links`], [`control`], [`stats`], [`place`] | how it is asked and changed, what it tells, where it is found |
//! | [`scenario`] | a twin with a script: events, programs, assertions |
//! | [`netem`] | the kernel's emulation instead |

#![forbid(unsafe_code)]

pub mod control;
mod cut;
pub mod daemon;
pub mod down;
pub mod emulator;
mod ip;
pub mod links;
pub mod netem;
pub mod packet;
pub mod place;
pub mod plan;
pub mod scenario;
pub mod stats;
mod tc;
pub mod up;
