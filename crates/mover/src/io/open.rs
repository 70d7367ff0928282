//! Temporary files of what is received in chunks: made, their space reserved, opened for direct writes where that is offered.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use proto::ChunkSet;
use sys::file::{Dir, Meta, OpenFlags, set_direct, statfs};

use super::decide::remove_if_there;
use super::place::Place;
use super::target::{BigFile, Target};
use crate::request::IoChoice;

/// Opens the temporary files of a session.
pub struct Opener {
    place: Arc<Place>,
    io: IoChoice,
    /// Set if direct I/O turned out not to be offered here.
    no_direct: OnceLock<()>,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("io", &self.io).field("no_direct", &self.no_direct).finish_non_exhaustive()
    }
}

impl Opener {
    /// For files at this destination, written by this I/O.
    #[must_use]
    pub fn new(place: Arc<Place>, io: IoChoice) -> Opener {
        Opener { place, io, no_direct: OnceLock::new() }
    }

    /// Opens the temporary file: the one that is there if chunks of it are kept, else a new one.
    ///
    /// # Errors
    /// When it cannot be made or opened.
    pub fn open(&self, target: &Target, kept: &ChunkSet) -> io::Result<BigFile> {
        let dir = self.place.dir(&target.parent)?;
        if !kept.is_empty() {
            let both = OpenFlags { read: true, write: true, ..OpenFlags::write() };
            return self.big(&dir, target, dir.open_file(&target.temp, both)?);
        }
        remove_if_there(&dir, &target.temp)?;
        let file = dir.open_file(&target.temp, OpenFlags::create_new(0o600))?;
        reserve(&file, target).and_then(|()| self.big(&dir, target, file)).inspect_err(|_| {
            // Of what was received before a later run can make use; of this not.
            let _ = remove_if_there(&dir, &target.temp);
        })
    }

    fn big(&self, dir: &Dir, target: &Target, cached: OwnedFd) -> io::Result<BigFile> {
        let (aligned, direct) = self.open_direct(dir, &target.temp)?;
        let device = Meta::of(&cached)?.dev;
        let (aligned, cached) = (Arc::new(aligned), Arc::new(cached));
        Ok(BigFile { aligned, cached, direct, device })
    }

    fn open_direct(&self, dir: &Dir, temp: &[u8]) -> io::Result<(OwnedFd, bool)> {
        let file = dir.open_file(temp, OpenFlags { read: true, ..OpenFlags::write() })?;
        let wanted = self.io.may_be_direct() && self.no_direct.get().is_none();
        let direct = wanted && set_direct(&file, true).unwrap_or(false);
        if wanted && !direct {
            let _ = self.no_direct.set(());
        }
        Ok((file, direct))
    }
}

/// Reserves the space: writes then neither fragment nor wait for each other. Holes are punched as they
/// are met. A disk that is too small for the file with its holes filled may still hold it.
fn reserve(file: &OwnedFd, target: &Target) -> io::Result<()> {
    let Some(size) = target.entry.size() else { return Ok(()) };
    // An attempt that fails takes all that is left first, and others write to this disk too.
    if statfs(file).is_ok_and(|disk| size > disk.available_bytes) {
        return Ok(());
    }
    match sys::file::fallocate(file, 0, size, false) {
        Err(e) if e.kind() == io::ErrorKind::StorageFull => sys::file::truncate(file, 0),
        other => other.map(|_| ()),
    }
}
