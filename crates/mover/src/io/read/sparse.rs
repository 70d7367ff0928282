//! Files with holes: only their data is read.

use std::io;
use std::os::fd::OwnedFd;

use proto::source::Item;
use sys::file::{read_exact_at, seek_data, seek_hole};

use super::whole;
use crate::frame::Part;

/// Reads the data of a range to where it belongs in `place`, which begins at byte `start` of its frame, and leaves the holes out.
///
/// One part of no bytes if there is no data; `None` if the file has become shorter than it just said.
///
/// # Errors
/// What the file system says.
pub(super) fn read_data(fd: &OwnedFd, item: Item, place: &mut [u8], start: usize) -> io::Result<Option<Vec<Part>>> {
    let end = item.offset + u64::from(item.len);
    let part = |offset: u64, at: usize, len: usize| Part {
        offset,
        start: (start + at) as u32,
        len: len as u32,
        ..whole(item)
    };
    let mut parts = Vec::new();
    let mut next = seek_data(fd, item.offset)?;
    while let Some(begin) = next.filter(|begin| *begin < end) {
        let stop = seek_hole(fd, begin)?.unwrap_or(end).min(end);
        let (at, len) = ((begin - item.offset) as usize, (stop - begin) as usize);
        if read_exact_at(fd, &mut place[at..at + len], begin)? < len {
            return Ok(None);
        }
        parts.push(part(begin, at, len));
        next = seek_data(fd, stop)?;
    }
    if parts.is_empty() {
        parts.push(part(item.offset, 0, 0));
    }
    Ok(Some(parts))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: u64 = 64 << 10;

    /// With data in pages 1 and 3 of 6.
    fn sparse() -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.set_len(6 * PAGE).unwrap();
        for page in [1, 3] {
            file.write_all_at(&vec![page as u8; PAGE as usize], page * PAGE).unwrap();
        }
        file.into()
    }

    /// Parts as offset, start and length, and what came to their place.
    fn read(fd: &OwnedFd, offset: u64, len: u64) -> (Option<Vec<[u64; 3]>>, Vec<u8>) {
        let item = Item { index: 0, generation: 0, offset, len: len as u32 };
        let mut place = vec![0xEE; len as usize];
        let parts = read_data(fd, item, &mut place, 100).unwrap();
        let told = |part: Part| [part.offset, part.start.into(), part.len.into()];
        (parts.map(|parts| parts.into_iter().map(told).collect()), place)
    }

    #[test]
    fn data_comes_to_its_place_and_holes_are_left_out() {
        let fd = sparse();
        let (parts, place) = read(&fd, 0, 6 * PAGE);
        assert_eq!(parts.unwrap(), [[PAGE, 100 + PAGE, PAGE], [3 * PAGE, 100 + 3 * PAGE, PAGE]]);
        for (page, bytes) in place.chunks(PAGE as usize).enumerate() {
            let expected = if [1, 3].contains(&page) { page as u8 } else { 0xEE };
            assert!(bytes.iter().all(|byte| *byte == expected), "page {page}");
        }
        let (parts, place) = read(&fd, PAGE + 10, 20);
        assert_eq!((parts.unwrap(), place), (vec![[PAGE + 10, 100, 20]], vec![1; 20]));
        assert_eq!(read(&fd, 4 * PAGE, PAGE).0.unwrap(), [[4 * PAGE, 100, 0]]);
    }

    #[test]
    fn who_is_shorter_than_it_says_is_told_from_a_failure() {
        // A file that another process cuts between two calls, made certain: those of sysfs say one page, and give less.
        let Ok(file) = File::open("/sys/devices/system/cpu/online") else {
            eprintln!("skipped: there is no sysfs here");
            return;
        };
        let said = file.metadata().unwrap().len();
        assert_eq!(read(&file.into(), 0, said).0, None);
    }
}
