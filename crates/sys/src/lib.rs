//! The operating system as the mover needs it: every system call and every line of `unsafe`.
//!
//! Each module is one topic, small and safe to call:
//!
//! | module | gives |
//! |---|---|
//! | [`buffer`] | one mapping cut into page-aligned buffers that are handed around, never copied |
//! | [`ring`] | positional reads and writes in flight at once: io_uring, or plain calls behind the same face |
//! | [`mod@file`] | directories whose names cannot lead out of them, and everything one does to a file |
//! | [`socket`] | TCP: connect, send, receive, pacing, congestion control, `tcp_info`; sockets handed to another process |
//! | [`poll`] | waiting for many sockets, and waking the waiter from another thread |
//! | [`cpu`] | CPU time, memory, affinity, NUMA nodes, limits |
//! | [`device`] | the block device under a file |
//! | [`netns`], [`tun`] | network namespaces with names, and TUN devices with offload headers |
//! | [`interface`] | the host's network interfaces and their addresses |
//! | [`netlink`] | questions and changes to the kernel's network, framed |
//! | [`process`] | who and where this process is |
//! | [`random`], [`clock`] | the kernel's randomness, the identity of this boot and the time since |
//!
//! # Rules
//!
//! - Nothing here reads the environment, logs, or decides policy: choices are arguments.
//! - What the OS refuses is an [`std::io::Error`]; nothing here panics because of it.
//! - What old kernels or odd file systems lack has a fallback behind the same function, and the
//!   fallback can be chosen by an argument, so that tests run it everywhere.
//! - Names inside a directory are bytes (`&[u8]`); they need not be UTF-8.
//! - A number in a signature ends in its unit (`_bytes`, `_us`, `_bps`), or the doc names it.
//!   Times in nanoseconds since 1970 are `i128`.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!("Longhaul moves data on Linux only");

pub mod buffer;
pub mod clock;
pub mod cpu;
pub mod device;
pub mod file;
pub mod interface;
pub mod netlink;
pub mod netns;
pub mod poll;
pub mod process;
pub mod random;
pub mod ring;
pub mod socket;
pub mod tun;
