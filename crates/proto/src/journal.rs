//! The journal of a destination: what survives kill -9 and power loss.
//!
//! A journal is a file of framed, checksummed records. It is appended to and synced; a record that a crash
//! cut short is the end of it. It holds only what cannot be seen in the file system itself: which chunks of
//! unfinished big files are durable, and in which directories temporary names may stand. A file that is
//! published needs no record, for it was made durable before it was renamed.
//!
//! ```text
//!  0      4        8          8+n
//!  +------+--------+-----------+
//!  | n LE | CRC32C | postcard  |
//!  +------+--------+-----------+
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crc_fast::{CrcAlgorithm, checksum};
use serde::{Deserialize, Serialize};

use crate::limits::CHUNK_RANGES_MAX;
use crate::{ChunkSet, Identity, RelPath, Time};

/// Version of the journal's format.
pub const VERSION: u16 = 1;
/// Bytes of one record's body; longer is taken as damage.
pub const BODY_MAX: usize = 2 << 20;
/// Directories in one record, so that even the longest paths fit into a body.
pub const DIRS_MAX: usize = 256;
const PREFIX: usize = 8;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// First record.
    Start {
        /// [`VERSION`].
        version: u16,
        /// Names the source, from [`crate::control::Work::Copy`].
        source_key: [u8; 16],
        /// The destination file system's time when the copy first began.
        started: Time,
    },
    /// A big file is being received under a temporary name.
    Partial {
        /// Number of the file in this journal.
        slot: u64,
        /// Where it goes.
        path: RelPath,
        /// The state of the source that the chunks belong to.
        identity: Identity,
        /// Bytes of a chunk.
        chunk_size: u32,
    },
    /// These chunks of it are durable.
    Chunks {
        /// Number of the file.
        slot: u64,
        /// The chunks, in addition to earlier ones.
        chunks: ChunkSet,
    },
    /// The file is published or given up.
    Close {
        /// Number of the file.
        slot: u64,
    },
    /// Temporary names may stand in these directories until the epoch is settled.
    Touched {
        /// Number of the commit that settles it.
        epoch: u64,
        /// Directories.
        dirs: Vec<RelPath>,
    },
    /// All temporary names of this epoch and those before have become final or are gone.
    Settled {
        /// Number of the commit.
        epoch: u64,
    },
}

/// A big file under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// Where it goes.
    pub path: RelPath,
    /// State of the source.
    pub identity: Identity,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Chunks that are durable.
    pub chunks: ChunkSet,
}

/// What a journal says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Names the source.
    pub source_key: [u8; 16],
    /// When the copy first began.
    pub started: Time,
    /// Big files under way, by slot.
    pub partials: BTreeMap<u64, Partial>,
    /// Directories with temporary names, by epoch.
    pub touched: BTreeMap<u64, BTreeSet<RelPath>>,
    begun: bool,
}

impl State {
    /// Adds one record.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Start { source_key, started, .. } => {
                *self = State { source_key, started, begun: true, ..State::default() };
            }
            Record::Partial { slot, path, identity, chunk_size } => {
                self.partials.insert(slot, Partial { path, identity, chunk_size, chunks: ChunkSet::new() });
            }
            Record::Chunks { slot, chunks } => {
                if let Some(partial) = self.partials.get_mut(&slot) {
                    partial.chunks.extend(&chunks);
                }
            }
            Record::Close { slot } => {
                self.partials.remove(&slot);
            }
            Record::Touched { epoch, dirs } => self.touched.entry(epoch).or_default().extend(dirs),
            Record::Settled { epoch } => self.touched.retain(|e, _| *e > epoch),
        }
    }

    /// The fewest records that say the same, for a journal that has grown long.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let mut out = vec![Record::Start { version: VERSION, source_key: self.source_key, started: self.started }];
        for (&slot, p) in &self.partials {
            let Partial { path, identity, chunk_size, chunks } = p.clone();
            out.push(Record::Partial { slot, path, identity, chunk_size });
            out.extend(chunks.parts(CHUNK_RANGES_MAX).map(|chunks| Record::Chunks { slot, chunks }));
        }
        for (&epoch, dirs) in &self.touched {
            let dirs: Vec<RelPath> = dirs.iter().cloned().collect();
            out.extend(dirs.chunks(DIRS_MAX).map(|dirs| Record::Touched { epoch, dirs: dirs.to_vec() }));
        }
        out
    }
}

/// Appends one record to bytes that will be written to the file.
///
/// # Panics
/// If the record is longer than [`BODY_MAX`]: callers split what can grow, at [`DIRS_MAX`] directories and
/// [`CHUNK_RANGES_MAX`] ranges (which is also what a set is refused at when it is read).
pub fn encode(record: &Record, out: &mut Vec<u8>) {
    let body = postcard::to_stdvec(record).expect("records serialise");
    assert!(body.len() <= BODY_MAX, "journal record of {} bytes", body.len());
    if let Record::Chunks { chunks, .. } = record {
        assert!(chunks.ranges().len() <= CHUNK_RANGES_MAX, "journal record of {} ranges", chunks.ranges().len());
    }
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc(&body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// Folds the bytes of a journal. Gives the state and the number of sound bytes; what is behind them was cut
/// short by a crash and is to be cut off. `None` if not even the first record is sound, or it is of another
/// version.
#[must_use]
pub fn replay(bytes: &[u8]) -> Option<(State, usize)> {
    let mut state = State::default();
    let mut at = 0;
    while let Some((record, len)) = next(&bytes[at..]) {
        match (&record, state.begun) {
            (Record::Start { version, .. }, false) if *version == VERSION => {}
            (Record::Start { .. }, _) | (_, false) => break,
            _ => {}
        }
        state.apply(record);
        at += len;
    }
    state.begun.then_some((state, at))
}

fn next(bytes: &[u8]) -> Option<(Record, usize)> {
    let prefix = bytes.get(..PREFIX)?;
    let len = u32::from_le_bytes(prefix[..4].try_into().expect("4 bytes")) as usize;
    let sum = u32::from_le_bytes(prefix[4..].try_into().expect("4 bytes"));
    let body = bytes.get(PREFIX..PREFIX + len).filter(|_| len <= BODY_MAX)?;
    if crc(body) != sum {
        return None;
    }
    let (record, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some((record, PREFIX + len))
}

fn crc(body: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, body) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let path = || "[a-c]{1,2}".prop_map(|s| RelPath::new(s).unwrap());
        let chunks = prop::collection::vec(0u64..20, 0..6).prop_map(|v| {
            let mut set = ChunkSet::new();
            v.into_iter().for_each(|c| {
                set.insert(c);
            });
            set
        });
        prop_oneof![
            (0u64..4, path(), 0u64..9).prop_map(|(slot, path, size)| Record::Partial {
                slot,
                path,
                identity: Identity { size, ..Identity::default() },
                chunk_size: 4096
            }),
            (0u64..4, chunks).prop_map(|(slot, chunks)| Record::Chunks { slot, chunks }),
            (0u64..4).prop_map(|slot| Record::Close { slot }),
            (0u64..4, prop::collection::vec(path(), 0..3)).prop_map(|(epoch, dirs)| Record::Touched { epoch, dirs }),
            (0u64..4).prop_map(|epoch| Record::Settled { epoch }),
        ]
    }

    fn journal() -> impl Strategy<Value = Vec<Record>> {
        prop::collection::vec(record(), 0..12).prop_map(|mut rest| {
            rest.insert(0, Record::Start { version: VERSION, source_key: [3; 16], started: Time { sec: 5, nsec: 6 } });
            rest
        })
    }

    /// What a long session leaves behind fits into records that can be read again.
    #[test]
    fn compacting_splits_what_has_grown() {
        let mut state = State::default();
        state.apply(Record::Start { version: VERSION, source_key: [0; 16], started: Time::default() });
        let (path, identity) = (RelPath::root(), Identity::default());
        state.apply(Record::Partial { slot: 0, path, identity, chunk_size: 1 });
        let every_other = (0..2 * CHUNK_RANGES_MAX as u64 + 2).step_by(2);
        let chunks = &mut state.partials.get_mut(&0).unwrap().chunks;
        every_other.for_each(|c| {
            chunks.insert(c);
        });
        let long = |n: usize| RelPath::new([vec![b'd'; 250], n.to_string().into_bytes()].concat()).unwrap();
        let dirs: Vec<RelPath> = (0..10_000).map(long).collect();
        dirs.chunks(DIRS_MAX).for_each(|dirs| state.apply(Record::Touched { epoch: 1, dirs: dirs.to_vec() }));
        let mut bytes = Vec::new();
        state.records().iter().for_each(|r| encode(r, &mut bytes));
        assert_eq!(replay(&bytes), Some((state, bytes.len())));
    }

    proptest! {
        /// A crash leaves any prefix of the bytes: the fold is that of the whole records in it.
        #[test]
        fn any_prefix_is_a_state(records in journal(), cut: prop::sample::Index) {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for r in &records { encode(r, &mut bytes); ends.push(bytes.len()); }
            let cut = cut.index(bytes.len() + 1);
            let whole = ends.iter().filter(|e| **e <= cut).count();
            let mut expected = State::default();
            records[..whole].iter().cloned().for_each(|r| expected.apply(r));
            let got = replay(&bytes[..cut]);
            if whole == 0 { prop_assert_eq!(got, None) } else { prop_assert_eq!(got, Some((expected, ends[whole - 1]))) }
        }

        #[test]
        fn compacting_keeps_the_state(records in journal()) {
            let mut state = State::default();
            records.into_iter().for_each(|r| state.apply(r));
            let mut bytes = Vec::new();
            state.records().iter().for_each(|r| encode(r, &mut bytes));
            let (mut again, len) = replay(&bytes).unwrap();
            state.touched.retain(|_, d| !d.is_empty());
            again.touched.retain(|_, d| !d.is_empty());
            prop_assert_eq!(again, state);
            prop_assert_eq!(len, bytes.len());
        }

        #[test]
        fn damage_is_the_end(records in journal(), at: prop::sample::Index, bit in 0u32..8) {
            let mut bytes = Vec::new();
            records.iter().for_each(|r| encode(r, &mut bytes));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Some((_, len)) = replay(&bytes) { prop_assert!(len <= at); }
        }

        #[test]
        fn any_bytes_replay_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) { let _ = replay(&bytes); }
    }
}
