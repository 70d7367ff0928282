//! What the runtime is to do, and what it answers.

use std::collections::BTreeSet;

use crate::control::Outcome;
use crate::{ChunkSet, Entry, RelPath};

/// What came of looking at the place of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing to receive; this is the outcome.
    Settled(Outcome),
    /// The directory is there.
    DirReady,
    /// Receive it; these chunks are there already.
    Receive {
        /// Chunks that are durable from an earlier run.
        have: ChunkSet,
        /// Number of the disk that it is written to.
        disk: u8,
    },
    /// Receive it if its digest is not this.
    Compare {
        /// BLAKE3 digest of what is there.
        digest: [u8; 32],
        /// Number of the disk that it is written to.
        disk: u8,
    },
    /// A filter at this end leaves the file out, which is no failure; what is at its place stays.
    LeaveOut,
}

/// Work for the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look at the place of an entry; create it if it has no content. The directory that holds it was decided
    /// before. Answer with [`handle_decision`](super::Destination::handle_decision).
    Decide {
        /// Its index.
        index: u64,
        /// The entry.
        entry: Entry,
    },
    /// Throw away what has arrived of a file, if anything has; what stood under its name stays. If it starts
    /// again, a `Decide` follows.
    Discard {
        /// Its index.
        index: u64,
    },
    /// All of a file is written but its holes: make it durable, give it its name. Answer with [`handle_published`](super::Destination::handle_published).
    Publish {
        /// Its index.
        index: u64,
        /// Size in bytes.
        size: u64,
        /// Chunks that nothing was written to: whatever stands there is to be zeros, best as holes.
        holes: ChunkSet,
    },
    /// The content is the same: set the attributes. Answer with [`handle_published`](super::Destination::handle_published).
    Refresh {
        /// Its index.
        index: u64,
    },
    /// Remove from a directory what is not among these names. The directory is there, and was listed whole.
    Delete {
        /// The directory.
        dir: RelPath,
        /// What stays.
        keep: BTreeSet<Vec<u8>>,
    },
    /// Set the attributes of a directory; nothing in it will change any more.
    CloseDir {
        /// Its index.
        index: u64,
        /// The directory's entry.
        entry: Entry,
    },
}
