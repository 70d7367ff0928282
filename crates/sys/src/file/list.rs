//! Listing a directory.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::RawDir;

use super::Kind;

/// What one `getdents` call may return: large, for directories with millions of names on network
/// file systems.
const BATCH_BYTES: usize = 64 << 10;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: bytes without `/` and zero.
    pub name: Vec<u8>,
    /// What it is, where the file system tells without a look at the file itself.
    pub kind: Option<Kind>,
    /// Its number on the device.
    pub ino: u64,
}

/// The names in a directory, without `.` and `..`, in the order of the file system.
///
/// Holds one batch of names in memory, however large the directory. Names that come or go while it
/// runs may or may not be seen. After an error it ends.
#[derive(Debug)]
pub struct ReadDir {
    fd: OwnedFd,
    space: Box<[MaybeUninit<u8>]>,
    batch: VecDeque<Entry>,
    ended: bool,
}

impl ReadDir {
    /// `fd` is a directory opened for reading, for this use alone: its position moves.
    pub(super) fn new(fd: OwnedFd) -> ReadDir {
        let space = vec![MaybeUninit::uninit(); BATCH_BYTES].into_boxed_slice();
        ReadDir { fd, space, batch: VecDeque::new(), ended: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut raw = RawDir::new(&self.fd, &mut self.space);
        loop {
            match raw.next() {
                None => {
                    self.ended = true;
                    return Ok(());
                }
                Some(Err(e)) => return Err(e.into()),
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        let kind = Kind::new(entry.file_type());
                        self.batch.push_back(Entry { name: name.to_vec(), kind, ino: entry.ino() });
                    }
                }
            }
            // One system call per batch; an empty batch (only the dots) takes another.
            if raw.is_buffer_empty() && !self.batch.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        if self.batch.is_empty()
            && !self.ended
            && let Err(e) = self.fill()
        {
            self.ended = true;
            return Some(Err(e));
        }
        self.batch.pop_front().map(Ok)
    }
}
