//! Parcels that were under way when their stream ended: what came of them waits here for the rest.
//!
//! A chunk is of megabytes, and a session over a long path has one under way on each stream. Without this all that came of
//! them would go over the path again when it is cut.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use proto::control::Begun;
use proto::record::{Header, Kind};

use crate::frame::{Frame, Pool};

/// The part of a pool's frames that may wait here: what is kept must leave enough for what arrives.
const SHARE: usize = 4;

/// What is kept, by parcel. Once it has been told that a parcel is kept, it stays until the parcel begins again or has
/// landed, or none of its files is expected any more.
pub struct Kept {
    frames_max: usize,
    frames: Mutex<BTreeMap<u64, (Begun, Frame)>>,
}

impl Kept {
    /// Nothing, of a pool's frames.
    #[must_use]
    pub fn new(pool: &Pool) -> Kept {
        Kept { frames_max: pool.count() / SHARE, frames: Mutex::default() }
    }

    /// Keeps what came of a parcel, as far as it can be gone on with: a chunk up to any byte, of a batch whole files. Gives
    /// the place; else the frame goes back to the pool.
    pub fn keep(&self, mut frame: Frame, pool: &Pool) -> Option<Begun> {
        if frame.kind == Kind::Small {
            frame.parts.truncate(frame.parts.iter().rposition(|part| part.file_end).map_or(0, |at| at + 1));
        }
        let mut frames = self.frames();
        let begun = place(&frame).filter(|begun| {
            let is_other = frames.get(&begun.parcel).is_some();
            !is_other && frames.len() < self.frames_max
        });
        match begun {
            Some(begun) => _ = frames.insert(begun.parcel, (begun, frame)),
            None => pool.give(frame),
        }
        begun
    }

    /// The frame of a parcel that begins. It has what came before `header` if that says so and it is here; else nothing.
    pub fn take(&self, header: &Header) -> Option<Frame> {
        let (begun, mut frame) = self.frames().remove(&header.parcel)?;
        let asked = Begun { parcel: header.parcel, file: header.file, offset: header.offset };
        if !header.is_rest() || asked != begun || frame.kind != header.kind {
            frame.parts.clear();
        }
        Some(frame)
    }

    /// Gives back what is kept of a parcel.
    pub fn forget(&self, parcel: u64, pool: &Pool) {
        let kept = self.frames().remove(&parcel);
        kept.into_iter().for_each(|(_, frame)| pool.give(frame));
    }

    /// Gives back what holds nothing that is still expected, by index of the file and generation.
    pub fn release(&self, is_expected: impl Fn(u64, u8) -> bool, pool: &Pool) {
        let is_old = |frame: &Frame| !frame.parts.iter().any(|part| is_expected(part.file, part.generation));
        let mut frames = self.frames();
        let old: Vec<u64> = frames.iter().filter(|(_, (_, frame))| is_old(frame)).map(|(id, _)| *id).collect();
        old.iter().filter_map(|id| frames.remove(id)).for_each(|(_, frame)| pool.give(frame));
    }

    fn frames(&self) -> MutexGuard<'_, BTreeMap<u64, (Begun, Frame)>> {
        self.frames.lock().expect("no panic under the lock")
    }
}

/// Where what came of a parcel ends; `None` if that is nothing.
fn place(frame: &Frame) -> Option<Begun> {
    let last = frame.parts.last()?;
    let end = last.offset + u64::from(last.len);
    match frame.kind {
        Kind::Chunk if frame.parts.iter().any(|part| part.len > 0) => Some(end),
        Kind::Small => Some(0),
        _ => None,
    }
    .map(|offset| Begun { parcel: frame.parcel, file: last.file, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Part;
    use crate::numa::Placement;

    const FRAMES: usize = 8;

    fn pool() -> Pool {
        Pool::new(FRAMES, 4096, Vec::new(), Placement::default()).unwrap()
    }

    fn part(file: u64, offset: u64, len: u32, file_end: bool) -> Part {
        Part { file, generation: 0, offset, start: 0, len, file_end }
    }

    fn frame(pool: &Pool, parcel: u64, kind: Kind, parts: &[Part]) -> Frame {
        let mut frame = pool.try_take().unwrap();
        (frame.parcel, frame.kind) = (parcel, kind);
        frame.parts.extend_from_slice(parts);
        frame
    }

    fn header(begun: Begun, kind: Kind, flags: u8) -> Header {
        let Begun { parcel, file, offset } = begun;
        Header { kind, flags, generation: 0, len: 0, parcel, file, offset }
    }

    #[test]
    fn the_rest_finds_what_came_before_it_and_nothing_else_does() {
        let (pool, rest) = (pool(), proto::record::REST);
        let kept = Kept::new(&pool);
        let begun = Begun { parcel: 7, file: 3, offset: 1500 };
        let others = [
            header(begun, Kind::Chunk, 0),
            header(begun, Kind::Small, rest),
            header(Begun { offset: 1499, ..begun }, Kind::Chunk, rest),
            header(Begun { file: 2, ..begun }, Kind::Chunk, rest),
        ];
        for (asked, there) in [(header(begun, Kind::Chunk, rest), true)].into_iter().chain(others.map(|h| (h, false))) {
            let came = frame(&pool, 7, Kind::Chunk, &[part(3, 0, 500, false), part(3, 1000, 500, false)]);
            assert_eq!(kept.keep(came, &pool), Some(begun));
            assert!(kept.take(&header(Begun { parcel: 8, ..begun }, Kind::Chunk, rest)).is_none());
            let frame = kept.take(&asked).expect("the frame is there, with or without its content");
            assert_eq!(frame.parts.len(), if there { 2 } else { 0 }, "{asked:?}");
            assert!(kept.take(&asked).is_none(), "it is taken once");
            pool.give(frame);
        }
        assert_eq!(pool.free(), FRAMES);
    }

    #[test]
    fn of_a_batch_whole_files_are_kept() {
        let pool = pool();
        let kept = Kept::new(&pool);
        let whole = [part(4, 0, 10, false), part(4, 20, 10, true), part(5, 0, 0, true)];
        let came = frame(&pool, 1, Kind::Small, &[&whole[..], &[part(6, 0, 10, false)]].concat());
        let begun = Begun { parcel: 1, file: 5, offset: 0 };
        assert_eq!(kept.keep(came, &pool), Some(begun));
        let again = kept.take(&header(begun, Kind::Small, proto::record::REST)).unwrap();
        assert_eq!(again.parts, whole);
    }

    #[test]
    fn what_is_kept_has_a_bound_and_an_end() {
        let pool = pool();
        let kept = Kept::new(&pool);
        let chunk = |parcel| frame(&pool, parcel, Kind::Chunk, &[part(parcel, 0, 10, false)]);
        // Nothing came, or nothing but a hole; no file is whole.
        assert_eq!(kept.keep(frame(&pool, 9, Kind::Chunk, &[]), &pool), None);
        assert_eq!(kept.keep(frame(&pool, 9, Kind::Chunk, &[part(9, 0, 0, false)]), &pool), None);
        assert_eq!(kept.keep(frame(&pool, 9, Kind::Small, &[part(9, 0, 10, false)]), &pool), None);
        assert_eq!(pool.free(), FRAMES);
        assert!(kept.keep(chunk(1), &pool).is_some());
        assert_eq!(kept.keep(chunk(1), &pool), None, "the other one was told");
        assert!(kept.keep(chunk(2), &pool).is_some());
        assert_eq!(kept.keep(chunk(3), &pool), None, "a fourth of the frames");
        assert_eq!(pool.free(), FRAMES - 2);
        kept.release(|file, _| file == 2, &pool);
        assert_eq!(pool.free(), FRAMES - 1);
        assert!(kept.keep(chunk(4), &pool).is_some());
        kept.forget(4, &pool);
        kept.forget(4, &pool);
        assert_eq!(pool.free(), FRAMES - 1);
        kept.release(|_, _| false, &pool);
        assert_eq!(pool.free(), FRAMES);
    }
}
