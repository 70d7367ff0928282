//! Traffic classes and policy routes of a Linux host or router.
//!
//! What is wished ([`Wish`]) is written in a file, in part said by a controller. It comes to [`item`]s, which are compared with those that bear our marks
//! in the kernel ([`found`]); the [`difference`] is a list of steps, each with its opposite. [`apply`] does them one by one, reads back, and takes all of
//! them back if one fails or the kernel has something else. Nothing is removed that does not bear our marks.
//!
//! This is the only part of Longhaul that needs a privilege (CAP_NET_ADMIN), so it is a crate and a process by itself, small enough to be read
//! before it is trusted.

#![forbid(unsafe_code)]

pub mod difference;
pub mod found;
pub mod item;
mod kernel;
mod lock;
mod prefix;
mod run;
mod wish;

pub use found::{Found, Refusal};
pub use kernel::Linux;
pub use lock::{DIRECTORY as LOCKS, Lock, LockError};
pub use prefix::Prefix;
pub use run::{Done, DriverError, Kernel, RolledBack, apply, plan, without};
pub use wish::{INTERFACES_MAX, LinkRates, PathPackets, Wish, WishError};
