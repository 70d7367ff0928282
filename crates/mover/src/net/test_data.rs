//! What a test sends: made record by record, so that a test is about the path and not about memory.

use std::sync::atomic::{AtomicU64, Ordering};

use proto::seal::PayloadCheck;

/// Makes the records of a memory test, every one of them different.
///
/// A disk's data lie in main memory when they are sent, but a test that kept as much would measure that: reading
/// 64 MiB in turn costs more than the rest of the sender (measured: 10 GB/s from memory, 110 GB/s from a core's
/// cache). What is made here is still in the cache when it is checked and sent. It does not compress: random bytes,
/// changed for each block by a mask of its own.
#[derive(Debug)]
pub struct TestData {
    random: Vec<u8>,
    parcel_bytes: u32,
    parcels: AtomicU64,
}

impl TestData {
    /// Data in parcels of `parcel_bytes`.
    #[must_use]
    pub fn new(parcel_bytes: u32) -> TestData {
        let mut state = SEED;
        let random = (0..BLOCK / 8).flat_map(|_| next(&mut state).to_le_bytes()).collect();
        TestData { random, parcel_bytes, parcels: AtomicU64::new(0) }
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

    /// Makes the bytes of a record that begins at `offset` of a parcel, and adds them to a check if one is wanted.
    pub fn fill(&self, parcel: u64, offset: u32, out: &mut [u8], mut check: Option<&mut PayloadCheck>) {
        let mut at = parcel * u64::from(self.parcel_bytes) + u64::from(offset);
        for block in out.chunks_mut(BLOCK) {
            self.block(at, block);
            if let Some(check) = &mut check {
                check.update(block);
            }
            at += block.len() as u64;
        }
    }

    fn block(&self, at: u64, out: &mut [u8]) {
        let mut state = SEED ^ at;
        let mut mask = [0; LANE];
        for word in mask.chunks_exact_mut(8) {
            word.copy_from_slice(&next(&mut state).to_le_bytes());
        }
        let (lanes, rest) = out.as_chunks_mut::<LANE>();
        let (random, random_rest) = self.random[..lanes.len() * LANE + rest.len()].as_chunks::<LANE>();
        for (lane, random) in lanes.iter_mut().zip(random) {
            *lane = std::array::from_fn(|i| random[i] ^ mask[i]);
        }
        for (i, byte) in rest.iter_mut().enumerate() {
            *byte = random_rest[i] ^ mask[i];
        }
    }
}

/// Bytes made and checked at once: twice as much stays in a core's first cache.
const BLOCK: usize = 16 << 10;
/// Bytes that are masked at once.
const LANE: usize = 64;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

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

    use proto::limits::RECORD_PAYLOAD_MAX;

    use super::*;

    #[test]
    fn no_two_records_share_a_block() {
        let data = TestData::new(4 << 20);
        let mut blocks = BTreeSet::new();
        let mut out = vec![0; RECORD_PAYLOAD_MAX];
        for _ in 0..4 {
            let parcel = data.take();
            for offset in (0..data.parcel_bytes()).step_by(RECORD_PAYLOAD_MAX) {
                data.fill(parcel, offset, &mut out, None);
                blocks.extend(out.chunks(4096).map(<[u8]>::to_vec));
            }
        }
        assert_eq!(blocks.len(), 4 * (4 << 20) / 4096);
    }

    #[test]
    fn odd_lengths_are_filled_to_the_end() {
        let data = TestData::new(4 << 20);
        let (mut long, mut short) = ([0; 300], [0; 101]);
        data.fill(3, 77, &mut long, None);
        data.fill(3, 77, &mut short, None);
        assert_eq!(long[..101], short);
        assert!(long.chunks(16).all(|c| c.iter().any(|&b| b != 0)));
    }
}
