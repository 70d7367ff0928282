//! The form of a network that people write.

mod keys;
mod read;
mod write;

pub(crate) use keys::{Keys, Source, text, written};
pub(crate) use read::document;
pub(super) use read::{LABEL_KEYS, LinkEnds, read_link};
pub(super) use write::{link_keys, quote};
