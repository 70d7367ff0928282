//! Entries of the manifest: what the source has, and how it would know that it changed.

use serde::{Deserialize, Serialize};

use crate::RelPath;

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub sec: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

/// What tells one state of a source file from another: if any part differs, the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Identity {
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of content or metadata; cannot be set by the user.
    pub ctime: Time,
    /// Inode number.
    pub ino: u64,
    /// Device number.
    pub dev: u64,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file in the state given.
    File(Identity),
    /// Bytes of unknown number (a pipe). They cannot be read twice.
    Stream,
    /// A directory. Its attributes are set when everything in it is in place.
    Dir,
    /// A symbolic link, carried as it is, never followed.
    Symlink {
        /// The target, any bytes.
        target: Vec<u8>,
    },
    /// One more name of a file that is already in place at the destination.
    HardLink {
        /// The first name.
        target: RelPath,
    },
}

/// One entry of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it goes, beneath the destination.
    pub path: RelPath,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits (12 bits).
    pub mode: u32,
    /// Last change of the content.
    pub mtime: Time,
    /// Numeric user and group, when owners are preserved.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes (ACLs among them), when they are preserved.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    /// Bytes of file content, when known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match &self.kind {
            EntryKind::File(identity) => Some(identity.size),
            EntryKind::Stream => None,
            _ => Some(0),
        }
    }

    /// Bytes that this entry takes in memory and in a page, for the bounds on both.
    #[must_use]
    pub fn weight(&self) -> usize {
        let target = match &self.kind {
            EntryKind::Symlink { target } => target.len(),
            EntryKind::HardLink { target } => target.as_bytes().len(),
            _ => 0,
        };
        let xattrs: usize = self.xattrs.iter().map(|(name, value)| name.len() + value.len() + 16).sum();
        96 + self.path.as_bytes().len() + target + xattrs
    }
}
