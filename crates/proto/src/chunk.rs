//! Sets of chunks of one file.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::limits::CHUNK_RANGES_MAX;

/// A set of chunk numbers, kept as sorted, disjoint, non-adjacent half-open ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct ChunkSet(Vec<Range<u64>>);

impl ChunkSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> ChunkSet {
        ChunkSet(Vec::new())
    }

    /// All chunks below `count`.
    #[must_use]
    pub fn full(count: u64) -> ChunkSet {
        ChunkSet(if count == 0 { Vec::new() } else { std::iter::once(0..count).collect() })
    }

    /// Number of chunks of a file of `size` bytes. An empty file has one, empty, chunk.
    #[must_use]
    pub fn count_of(size: u64, chunk_size: u32) -> u64 {
        size.div_ceil(u64::from(chunk_size)).max(1)
    }

    /// Adds one chunk. True if it was not there.
    ///
    /// # Panics
    /// For the chunk `u64::MAX`, which no file has.
    pub fn insert(&mut self, chunk: u64) -> bool {
        // The common case: the next chunk in order.
        let at = self.0.partition_point(|r| r.end < chunk);
        match self.0.get_mut(at) {
            Some(r) if r.contains(&chunk) => return false,
            Some(r) if r.end == chunk => r.end += 1,
            Some(r) if r.start.checked_sub(1) == Some(chunk) => r.start = chunk,
            _ => self.0.insert(at, chunk..chunk + 1),
        }
        if let Some(next) = self.0.get(at + 1).cloned()
            && self.0[at].end == next.start
        {
            self.0[at].end = next.end;
            self.0.remove(at + 1);
        }
        true
    }

    /// Adds all chunks of another set.
    pub fn extend(&mut self, other: &ChunkSet) {
        let mut all: Vec<_> = self.0.drain(..).chain(other.0.iter().cloned()).collect();
        all.sort_by_key(|r| r.start);
        for r in all {
            match self.0.last_mut() {
                Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
                _ => self.0.push(r),
            }
        }
    }

    /// True if the chunk is in the set.
    #[must_use]
    pub fn contains(&self, chunk: u64) -> bool {
        let at = self.0.partition_point(|r| r.end <= chunk);
        self.0.get(at).is_some_and(|r| r.contains(&chunk))
    }

    /// True if all chunks below `count` are in the set.
    #[must_use]
    pub fn covers(&self, count: u64) -> bool {
        count == 0 || self.0.first().is_some_and(|r| r.start == 0 && r.end >= count)
    }

    /// The lowest chunk that is not in the set.
    #[must_use]
    pub fn lowest_missing(&self) -> u64 {
        self.0.first().filter(|r| r.start == 0).map_or(0, |r| r.end)
    }

    /// The first so many ranges of the set.
    #[must_use]
    pub fn first_ranges(mut self, ranges_max: usize) -> ChunkSet {
        self.0.truncate(ranges_max);
        self
    }

    /// The set in parts of so many ranges, each fit for a message or a journal record.
    pub fn parts(&self, ranges_max: usize) -> impl Iterator<Item = ChunkSet> {
        self.0.chunks(ranges_max).map(|ranges| ChunkSet(ranges.to_vec()))
    }

    /// The chunks below `count` that are not in the set.
    #[must_use]
    pub fn missing(&self, count: u64) -> ChunkSet {
        let mut out = Vec::new();
        let mut from = 0;
        for r in &self.0 {
            if from < r.start.min(count) {
                out.push(from..r.start.min(count));
            }
            from = from.max(r.end);
        }
        if from < count {
            out.push(from..count);
        }
        ChunkSet(out)
    }

    /// Takes out what lies in a range; gives that.
    pub fn take_range(&mut self, range: Range<u64>) -> ChunkSet {
        let (mut taken, mut left) = (Vec::new(), Vec::with_capacity(self.0.len() + 1));
        for r in self.0.drain(..) {
            let (from, to) = (r.start.max(range.start), r.end.min(range.end));
            if from >= to {
                left.push(r);
                continue;
            }
            let sides = [r.start..from, to..r.end];
            left.extend(sides.into_iter().filter(|side| !side.is_empty()));
            taken.push(from..to);
        }
        self.0 = left;
        ChunkSet(taken)
    }

    /// True if a chunk is in both sets.
    #[must_use]
    pub fn meets(&self, other: &ChunkSet) -> bool {
        let meets = |r: &Range<u64>| {
            let at = self.0.partition_point(|own| own.end <= r.start);
            self.0.get(at).is_some_and(|own| own.start < r.end)
        };
        other.0.iter().any(meets)
    }

    /// Bytes of these chunks in a file of `size` bytes.
    #[must_use]
    pub fn bytes(&self, size: u64, chunk_size: u32) -> u64 {
        let at = |chunk: u64| chunk.saturating_mul(u64::from(chunk_size)).min(size);
        self.0.iter().map(|r| at(r.end) - at(r.start)).sum()
    }

    /// Takes the lowest chunk out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let first = self.0.first_mut()?;
        let chunk = first.start;
        first.start += 1;
        if first.is_empty() {
            self.0.remove(0);
        }
        Some(chunk)
    }

    /// Number of chunks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, sorted and disjoint.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }
}

impl From<ChunkSet> for Vec<(u64, u64)> {
    fn from(set: ChunkSet) -> Self {
        set.0.into_iter().map(|r| (r.start, r.end)).collect()
    }
}

impl TryFrom<Vec<(u64, u64)>> for ChunkSet {
    type Error = &'static str;
    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        if ranges.len() > CHUNK_RANGES_MAX {
            return Err("too many ranges in a chunk set");
        }
        let sound = ranges.iter().all(|(a, b)| a < b) && ranges.windows(2).all(|w| w[0].1 < w[1].0);
        if !sound {
            return Err("ranges of a chunk set are not sorted and disjoint");
        }
        Ok(ChunkSet(ranges.into_iter().map(|(a, b)| a..b).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn like_a_set_of_numbers(chunks in prop::collection::vec(0u64..24, 0..40), other in prop::collection::vec(0u64..24, 0..10), range in (0u64..24, 0u64..26)) {
            let mut set = ChunkSet::new();
            let mut model = BTreeSet::new();
            for c in chunks {
                prop_assert_eq!(set.insert(c), model.insert(c));
            }
            let mut more = ChunkSet::new();
            for c in other { more.insert(c); model.insert(c); }
            set.extend(&more);
            let missing = set.missing(20);
            for c in 0..20 {
                prop_assert_eq!(set.contains(c), model.contains(&c));
                prop_assert_eq!(missing.contains(c), !model.contains(&c));
                prop_assert_eq!(set.covers(c), (0..c).all(|c| model.contains(&c)));
            }
            prop_assert_eq!(set.lowest_missing(), (0..).find(|c| !model.contains(c)).unwrap());
            let mut joined = ChunkSet::new();
            set.parts(2).for_each(|part| { assert!(part.ranges().len() <= 2); joined.extend(&part) });
            prop_assert_eq!(&joined, &set);
            prop_assert_eq!(set.len(), model.len() as u64);
            prop_assert_eq!(set.bytes(75, 10), model.iter().map(|c| (75 - (c * 10).min(75)).min(10)).sum::<u64>());
            let (mut left, (from, to)) = (set.clone(), range);
            let taken = left.take_range(from..to);
            for c in 0..24 {
                prop_assert_eq!(taken.contains(c), model.contains(&c) && (from..to).contains(&c));
                prop_assert_eq!(left.contains(c), model.contains(&c) && !(from..to).contains(&c));
            }
            prop_assert!(!left.meets(&taken) && set.meets(&taken) != taken.is_empty());
            prop_assert!(ChunkSet::try_from(Vec::from(left)).is_ok() && ChunkSet::try_from(Vec::from(taken)).is_ok());
            let pairs: Vec<(u64, u64)> = set.clone().into();
            prop_assert_eq!(ChunkSet::try_from(pairs).unwrap(), set.clone());
            prop_assert_eq!(set.pop_first(), model.pop_first());
        }
    }
}
