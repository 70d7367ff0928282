//! The mover's protocol, without I/O.
//!
//! Two roles move a dataset: the [`source`] reads it, the [`destination`] writes it. They talk over one
//! control connection (TLS 1.3, [`control`] messages in [`frame`]s) and any number of data streams, each
//! opened by a three-message [`hello`] that proves the session's key and then carries [`record`]s.
//!
//! Both roles are state machines: `handle_*` takes what happened, `poll_*` gives what is to be done.
//! Nothing here reads a clock, opens a file or knows a socket, so two machines can be joined in a test
//! that loses, delays and reorders what lies between them. `docs/protocol.md` is the same in prose.

#![forbid(unsafe_code)]

pub mod attach;
pub mod chunk;
pub mod control;
pub mod destination;
pub mod door;
pub mod entry;
pub mod frame;
pub mod hello;
pub mod instance;
pub mod journal;
pub mod limits;
pub mod names;
pub mod path;
pub mod probe;
pub mod record;
pub mod replay;
pub mod seal;
pub mod source;

pub use chunk::ChunkSet;
pub use entry::{Entry, EntryKind, Identity, Time};
pub use path::RelPath;
