//! How much that was read may wait for the streams.
//!
//! A disk is often faster than the path. Readers that fill all the memory that a session may have, at once, take the processors from the
//! streams, which begin meanwhile, and from whoever decides and writes at the other end: of a copy of 20,000 small files over 1 Gb/s both
//! cores were busy for 1.6 s, and the path idle for a third of the second of these, and after it half of the cores were idle to the end.
//! What is read early is of use when the disk stops for a moment, and there is time for that.
//!
//! Over a far path streams take some round trips to begin. The processors have nothing else to do meanwhile, and what is read then is not waited
//! for later: there is no bound.

/// Bytes that may wait at the begin: what 10 Gb/s take in 7 ms, beside what readers have at hand. When they are fewer, readers have no bound but
/// the memory.
const LEAST: u64 = 8 << 20;
/// For so many bytes that streams took one more may wait: readers are at most an eighth faster than what leaves.
const GROWS_BY_ONE_OF: u64 = 8;

/// Counts what was read and what streams took of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadAhead {
    /// Streams go over a path at hand.
    is_bound: bool,
    /// Bytes that wait for a stream.
    waiting: u64,
    /// Bytes that streams took.
    taken: u64,
}

impl ReadAhead {
    /// A stream over a path at hand was opened.
    pub fn bound(&mut self) {
        self.is_bound = true;
    }

    /// So many bytes were read.
    pub fn read(&mut self, bytes: u64) {
        self.waiting += bytes;
    }

    /// A stream took so many.
    pub fn took(&mut self, bytes: u64) {
        self.waiting = self.waiting.saturating_sub(bytes);
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Whether more is to be read now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.is_bound || self.waiting < LEAST + self.taken / GROWS_BY_ONE_OF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 4 << 20;

    fn bound() -> ReadAhead {
        ReadAhead { is_bound: true, ..ReadAhead::default() }
    }

    /// Chunks that are read before there is no room.
    fn fill(ahead: &mut ReadAhead) -> u64 {
        (0..).take_while(|_| ahead.has_room().then(|| ahead.read(CHUNK)).is_some()).count() as u64
    }

    #[test]
    fn readers_are_soon_ahead_by_a_little_and_an_eighth_faster_from_then_on() {
        let mut ahead = bound();
        assert_eq!(fill(&mut ahead), LEAST / CHUNK);
        let mut read = 0;
        for _ in 0..800 {
            ahead.took(CHUNK);
            read += fill(&mut ahead);
        }
        assert_eq!(read, 900);
    }

    #[test]
    fn one_chunk_may_wait_whatever_its_size_and_what_was_not_counted_harms_nothing() {
        let mut ahead = bound();
        ahead.read(1 << 40);
        assert!(!ahead.has_room());
        ahead.took(u64::MAX);
        assert!(ahead.has_room());
        ahead.took(u64::MAX);
        assert!(ahead.has_room());
    }

    #[test]
    fn over_a_far_path_all_that_memory_holds_may_wait() {
        let mut ahead = ReadAhead::default();
        ahead.read(1 << 40);
        assert!(ahead.has_room());
        ahead.took(u64::MAX);
        assert!(ahead.has_room());
    }
}
