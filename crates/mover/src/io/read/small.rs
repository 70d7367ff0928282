//! Small files, read whole into one parcel.
//!
//! What a disk gives at once depends on how many reads it has, so a reader begins those of the next files before it waits for
//! one: threads alone would each hold a parcel's memory for a read.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use proto::record::Kind;
use proto::source::{Item, Read};
use sys::file::{Advice, Cache, Meta, OpenFlags, begin_read_at, fadvise, read_exact_at};

use super::sparse::read_data;
use super::{Loaded, Shared, SourceFile, feed, whole};
use crate::frame::{Frame, Part};
use crate::io::say;

/// Files with fewer bytes than this are not asked about holes.
const SPARSE_MIN: usize = 8192;
/// Files of a parcel that are open at once.
const BEGUN_MAX: usize = 8;

/// A file whose bytes are on their way from the disk.
struct Begun {
    fd: OwnedFd,
    /// It has holes, and nothing of it was begun.
    sparse: bool,
    /// Bytes of it that are in their place.
    there: usize,
}

/// Reads files one behind the other.
pub(super) fn load(shared: &Shared, mut frame: Frame, parcel: u64, items: &[(Item, Arc<SourceFile>)]) -> Loaded {
    (frame.parcel, frame.kind) = (parcel, Kind::Small);
    let mut results = Vec::with_capacity(items.len());
    let mut begun = VecDeque::with_capacity(BEGUN_MAX);
    let mut next = items.iter();
    // Each has its place, whatever becomes of those before it.
    let (mut begin_at, mut end_at) = (0, 0);
    for (item, file) in items {
        while begun.len() < BEGUN_MAX
            && let Some((item, file)) = next.next()
        {
            let place = begin_at..begin_at + item.len as usize;
            begin_at = place.end;
            begun.push_back(begin(shared, &mut frame.buf[place], file));
        }
        let (parts, start) = (frame.parts.len(), end_at);
        end_at += item.len as usize;
        let opened = begun.pop_front().expect("begun just now, if not before");
        let read = match opened.and_then(|begun| finish(shared, &mut frame, start, *item, file, &begun)) {
            Ok(read) => read,
            Err(e) => Read::Failed(say(&format!("reading {}", file.entry.path), &e)),
        };
        if read != Read::Whole {
            frame.parts.truncate(parts);
        }
        results.push((*item, read));
    }
    Loaded { frame, results, hole_end: None }
}

/// Opens a file and has its bytes come to their place.
fn begin(shared: &Shared, place: &mut [u8], file: &SourceFile) -> io::Result<Begun> {
    let fd = shared.root.open_file(&file.place.path, OpenFlags { no_atime: true, ..OpenFlags::read() })?;
    let len = place.len();
    let sparse = len >= SPARSE_MIN && Meta::of(&fd)?.blocks * 512 < len as u64;
    let mut there = 0;
    if !sparse && len > 0 {
        match begin_read_at(&fd, place, 0, Cache::Stays) {
            Some(bytes) => there = bytes,
            None => _ = fadvise(&fd, 0, len as u64, Advice::WillNeed),
        }
    }
    Ok(Begun { fd, sparse, there })
}

/// Reads the rest of a file into its place, which begins at `start` of the frame.
fn finish(
    shared: &Shared,
    frame: &mut Frame,
    start: usize,
    item: Item,
    file: &SourceFile,
    begun: &Begun,
) -> io::Result<Read> {
    let (Begun { fd, sparse, there }, len, first) = (begun, item.len as usize, frame.parts.len());
    if *sparse {
        match read_data(fd, item, &mut frame.buf[start..start + len], start)? {
            Some(parts) => frame.parts.extend(parts),
            None => return Ok(shared.changed(file)),
        }
    } else {
        let n = there + read_exact_at(fd, &mut frame.buf[start + there..start + len], *there as u64)?;
        if n < len {
            return Ok(shared.changed(file));
        }
        frame.parts.push(Part { start: start as u32, ..whole(item) });
    }
    frame.parts.last_mut().expect("just seen").file_end = true;
    let read = shared.check(file, || Meta::of(fd));
    if read == Read::Whole {
        feed_now(file, &frame.buf, &frame.parts[first..], len as u64);
    }
    Ok(read)
}

/// Feeds a small file to its digest.
fn feed_now(file: &SourceFile, buf: &[u8], parts: &[Part], size: u64) {
    if let Some(running) = &file.digest {
        let mut running = running.lock().expect("no panic under the lock");
        if running.next == 0 {
            feed(&mut running, buf, parts, 0, size);
        }
    }
}
