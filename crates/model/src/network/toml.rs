//! The form of a network that people write.

mod keys;
mod read;
mod write;
