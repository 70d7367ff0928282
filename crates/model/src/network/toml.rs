//! The form of a network that people write.

mod keys;
mod read;
mod write;

pub(super) use keys::{Keys, Source};
pub(super) use read::{LABEL_KEYS, LinkEnds, read_link};
pub(super) use write::{link_keys, quote};
