//! The journal as a file: appended, synced, compacted.

use std::io;
use std::os::fd::OwnedFd;

use proto::journal::{Record, State, encode, replay};
use sys::file::{Dir, Meta, OpenFlags, fdatasync, read_exact_at, truncate, write_all_at};

/// Beyond this many bytes a journal is rewritten when most of it is out of date.
const COMPACT_ABOVE: u64 = 16 << 20;

/// An open journal and what it says.
pub struct JournalFile {
    dir: Dir,
    name: Vec<u8>,
    file: OwnedFd,
    /// Sound bytes.
    len: u64,
    /// Length after the last rewrite.
    base: u64,
    state: State,
    pending: Vec<u8>,
    /// True if a run before this one left it.
    pub resumed: bool,
}

impl JournalFile {
    /// Opens or makes the journal `name` in `dir`; cuts off what a crash left half written.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(dir: Dir, name: &[u8]) -> io::Result<JournalFile> {
        let flags = OpenFlags { read: true, write: true, create: true, mode: 0o600, ..OpenFlags::default() };
        let file = dir.open_file(name, flags)?;
        let size = Meta::of(&file)?.size;
        let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        let got = read_exact_at(&file, &mut bytes, 0)?;
        let (state, len, resumed) = match replay(&bytes[..got]) {
            Some((state, len)) => (state, len as u64, true),
            None => (State::default(), 0, false),
        };
        truncate(&file, len)?;
        Ok(JournalFile { dir, name: name.to_vec(), file, len, base: len, state, pending: Vec::new(), resumed })
    }

    /// What it says, with everything appended so far.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The file system's time of the journal itself, for comparison with the times of other files there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn now(&self) -> io::Result<proto::Time> {
        sys::file::futimens(&self.file, sys::file::Times { atime_ns: None, mtime_ns: None })?;
        sys::file::fchmod(&self.file, 0o600)?;
        Ok(super::time(Meta::of(&self.file)?.ctime_ns))
    }

    /// Appends a record in memory.
    pub fn push(&mut self, record: Record) {
        encode(&record, &mut self.pending);
        self.state.apply(record);
    }

    /// Writes what was pushed. With `sync` it is on stable storage when this returns.
    ///
    /// # Errors
    /// What the file system says; the records stay pending.
    pub fn write(&mut self, sync: bool) -> io::Result<()> {
        if !self.pending.is_empty() {
            write_all_at(&self.file, &self.pending, self.len)?;
            self.len += self.pending.len() as u64;
            self.pending.clear();
        }
        if sync {
            fdatasync(&self.file)?;
        }
        if self.len > COMPACT_ABOVE && self.len > 4 * self.base {
            self.compact()?;
        }
        Ok(())
    }

    /// Forgets what was written before the records that are pending: another copy begins.
    ///
    /// # Errors
    /// What the file system says.
    pub fn restart(&mut self) -> io::Result<()> {
        truncate(&self.file, 0)?;
        (self.len, self.base) = (0, 0);
        self.write(true)
    }

    /// Rewrites the journal with the fewest records, atomically.
    fn compact(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.state.records().iter().for_each(|r| encode(r, &mut bytes));
        let temp = [&self.name[..], b".new"].concat();
        let flags =
            OpenFlags { read: true, write: true, create: true, truncate: true, mode: 0o600, ..OpenFlags::default() };
        let file = self.dir.open_file(&temp, flags)?;
        write_all_at(&file, &bytes, 0)?;
        fdatasync(&file)?;
        self.dir.rename(&temp, &self.name)?;
        self.dir.sync()?;
        self.file = file;
        self.len = bytes.len() as u64;
        self.base = self.len;
        Ok(())
    }
}
