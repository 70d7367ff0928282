//! What a test sends: made record by record, so that a test is about the path and not about memory.

use std::sync::atomic::{AtomicU64, Ordering};

use proto::limits::RECORD_PAYLOAD_MAX;
use proto::seal::PayloadCheck;

/// Makes the records of a memory test, every one of them different.
///
/// A disk's data lie in main memory when they are sent, but a test that kept as much would measure that: reading
/// 64 MiB in turn costs more than the rest of the sender (measured: 10 GB/s from memory, 110 GB/s from a core's
/// cache). Here each stream has a buffer of random bytes, and every line of it (64 bytes) gets a number of its own for
/// each record: no line of a test is sent twice, none compresses, and it is still in the cache when it is checked and
/// sent. Writing all of every line instead took 13 % of the sender.
#[derive(Debug)]
pub struct TestData {
    parcel_bytes: u32,
    parcels: AtomicU64,
}

impl TestData {
    /// Data in parcels of `parcel_bytes`.
    #[must_use]
    pub fn new(parcel_bytes: u32) -> TestData {
        TestData { parcel_bytes, parcels: AtomicU64::new(0) }
    }

    /// Bytes of a parcel.
    #[must_use]
    pub fn parcel_bytes(&self) -> u32 {
        self.parcel_bytes
    }

    /// Number of the next parcel.
    pub fn take(&self) -> u64 {
        self.parcels.fetch_add(1, Ordering::Relaxed)
    }

    /// A buffer of random bytes for the longest record.
    #[must_use]
    pub fn buffer() -> Vec<u8> {
        let mut state = SEED;
        (0..RECORD_PAYLOAD_MAX / 8).flat_map(|_| next(&mut state).to_le_bytes()).collect()
    }

    /// Makes the bytes of a record that begins at `offset` of a parcel in a buffer of [`TestData::buffer`], and adds
    /// them to a check if one is wanted.
    pub fn fill(&self, parcel: u64, offset: u32, out: &mut [u8], mut check: Option<&mut PayloadCheck>) {
        let mut at = parcel * u64::from(self.parcel_bytes) + u64::from(offset);
        for block in out.chunks_mut(BLOCK) {
            let (lines, rest) = block.as_chunks_mut::<LINE>();
            for line in lines {
                line[..8].copy_from_slice(&stamp(at));
                at += LINE as u64;
            }
            for (byte, stamp) in rest.iter_mut().zip(stamp(at)) {
                *byte = stamp;
            }
            at += rest.len() as u64;
            if let Some(check) = &mut check {
                check.update(block);
            }
        }
    }
}

/// Bytes made and checked at once: twice as much stays in a core's first cache.
const BLOCK: usize = 16 << 10;
/// Bytes that get a number: a cache line.
const LINE: usize = 64;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of the line that begins at byte `at` of a test: no two alike, since the factor is odd.
fn stamp(at: u64) -> [u8; 8] {
    at.wrapping_mul(SEED).to_le_bytes()
}

/// SplitMix64 (Steele, Lea, Flood 2014): fast, and different for every state; nothing secret.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proto::record::HEADER_COVERED;
    use proto::seal::{Protection, Sealer};

    use super::*;

    #[test]
    fn no_line_is_sent_twice() {
        let data = TestData::new(4 << 20);
        let mut lines = BTreeSet::new();
        let mut out = TestData::buffer();
        let mut total = 0;
        for _ in 0..2 {
            let parcel = data.take();
            for offset in (0..data.parcel_bytes()).step_by(RECORD_PAYLOAD_MAX) {
                data.fill(parcel, offset, &mut out, None);
                lines.extend(out.chunks(LINE).map(<[u8]>::to_vec));
                total += out.len() / LINE;
            }
        }
        assert_eq!(lines.len(), total);
    }

    #[test]
    fn odd_lengths_are_filled_to_the_end() {
        let data = TestData::new(4 << 20);
        let (mut long, mut short) = ([0; 300], [0; 101]);
        data.fill(3, 77, &mut long, None);
        data.fill(3, 77, &mut short, None);
        assert_eq!(long[..101], short);
        assert!(long.chunks(LINE).all(|line| line[..8].iter().any(|&byte| byte != 0)));
    }

    #[test]
    fn what_is_checked_on_the_way_is_what_was_made() {
        let data = TestData::new(4 << 20);
        let (mut out, mut made) = (TestData::buffer(), PayloadCheck::default());
        data.fill(1, 0, &mut out[..100_001], Some(&mut made));
        let sealer = || Sealer::new(Protection::Clear, &[3; 32]);
        let covered = [7; HEADER_COVERED];
        assert_eq!(sealer().seal_checked(&covered, made), sealer().seal(&covered, &out[..100_001], &mut []));
    }
}
