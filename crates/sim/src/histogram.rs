//! How values are spread, in a fixed amount of memory.

/// Buckets per power of two. A bucket is 1/32 of its lower end wide and stands for its middle: the error is at most
/// 1/64 = 1.6 %.
const PER_OCTAVE_BITS: u32 = 5;
const PER_OCTAVE: u64 = 1 << PER_OCTAVE_BITS;
/// The same of [`Histogram::coarse`].
const PER_OCTAVE_COARSE_BITS: u32 = 3;
const BUCKETS: usize = ((64 - PER_OCTAVE_BITS + 1) as usize) << PER_OCTAVE_BITS;

/// A log-linear histogram of `u64` (as HdrHistogram): exact below 32, within 1.6 % above, 15 KiB whatever comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram { buckets: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }

    /// Counts `value` once.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` `times` times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        self.buckets[bucket_of(value)] += times;
        self.count += times;
        if times > 0 {
            self.max = self.max.max(value);
        }
    }

    /// Adds what `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, others) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += others;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many values were greater than `value`; such as are less than 3.2 % greater may be missing.
    #[must_use]
    pub fn count_above(&self, value: u64) -> u64 {
        self.buckets[bucket_of(value) + 1..].iter().sum()
    }

    /// What was counted, to be told elsewhere: least value and count of each bucket that has any, in order. These buckets are
    /// wider, eight in a power of two (see [`width`]), so that there are few.
    #[must_use]
    pub fn coarse(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (bucket, times) in self.buckets.iter().enumerate().filter(|(_, times)| **times > 0) {
            let least = least_of(bucket);
            let least = least - least % width(least);
            match buckets.last_mut() {
                Some((last, count)) if *last == least => *count += times,
                _ => buckets.push((least, *times)),
            }
        }
        buckets
    }

    /// The greatest value, exact; 0 if there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The median.
    #[must_use]
    pub fn p50(&self) -> u64 {
        self.quantile_ppm(500_000)
    }

    /// What 99 % of the values do not exceed.
    #[must_use]
    pub fn p99(&self) -> u64 {
        self.quantile_ppm(990_000)
    }

    /// The least value that `ppm` parts per million of the values do not exceed, within 1.6 %; 0 if there is none.
    #[must_use]
    pub fn quantile_ppm(&self, ppm: u32) -> u64 {
        let rank = (u128::from(self.count) * u128::from(ppm)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (bucket, times) in self.buckets.iter().enumerate() {
            seen += u128::from(*times);
            if seen >= rank {
                return middle_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// How many values are in the bucket of [`Histogram::coarse`] that `value` is in: 1 below 16.
#[must_use]
pub fn width(value: u64) -> u64 {
    match value.checked_ilog2() {
        Some(octave @ PER_OCTAVE_COARSE_BITS..) => 1 << (octave - PER_OCTAVE_COARSE_BITS),
        _ => 1,
    }
}

fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    // The five bits below the highest one say where in its octave the value is.
    let shift = 63 - value.leading_zeros() - PER_OCTAVE_BITS;
    ((u64::from(shift) << PER_OCTAVE_BITS) + (value >> shift)) as usize
}

fn least_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let shift = (bucket >> PER_OCTAVE_BITS) - 1;
    (bucket - (shift << PER_OCTAVE_BITS)) << shift
}

fn middle_of(bucket: usize) -> u64 {
    let shift = (bucket as u64 >> PER_OCTAVE_BITS).saturating_sub(1);
    least_of(bucket) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_above_is_counted() {
        let mut histogram = Histogram::new();
        for (value, times) in [(0, 5), (900_000, 3), (1_100_000, 2), (u64::MAX, 1)] {
            histogram.record_n(value, times);
        }
        assert_eq!([0, 1_000_000, 2_000_000, u64::MAX].map(|value| histogram.count_above(value)), [6, 3, 1, 0]);
    }

    #[test]
    fn the_ends_fit() {
        assert_eq!((bucket_of(0), bucket_of(31), bucket_of(32), bucket_of(63), bucket_of(64)), (0, 31, 32, 63, 64));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        let mut histogram = Histogram::new();
        assert_eq!((histogram.p50(), histogram.p99(), histogram.max(), histogram.count()), (0, 0, 0, 0));
        histogram.record(u64::MAX);
        assert!(histogram.p50() >= u64::MAX / 64 * 63);
    }

    #[test]
    fn percentiles_of_a_thousand() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!((histogram.count(), histogram.max()), (1000, 1000));
        assert!(histogram.p50().abs_diff(500) <= 8, "{}", histogram.p50());
        assert!(histogram.p99().abs_diff(990) <= 16, "{}", histogram.p99());
        assert_eq!(histogram.quantile_ppm(1_000_000), 1000);
        assert_eq!(histogram.quantile_ppm(0), 1);
    }

    #[test]
    fn merging_is_counting_both() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..100 {
            let each = if value % 3 == 0 { &mut a } else { &mut b };
            each.record_n(value * value, value);
            both.record_n(value * value, value);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn few_buckets_tell_of_all() {
        let mut histogram = Histogram::new();
        for (value, times) in [(0, 2), (7, 1), (15, 1), (16, 1), (17, 1), (18, 1), (1000, 4), (1023, 1), (1024, 1)] {
            histogram.record_n(value, times);
        }
        let buckets = [(0, 2), (7, 1), (15, 1), (16, 2), (18, 1), (960, 5), (1024, 1)];
        assert_eq!(histogram.coarse(), buckets);
        assert_eq!([0, 8, 15, 16, 31, 32, 1000, 1024].map(width), [1, 1, 1, 2, 2, 4, 64, 128]);
    }

    proptest! {
        #[test]
        fn a_wide_bucket_has_its_values(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut histogram = Histogram::new();
            histogram.record(value);
            let least = histogram.coarse()[0].0;
            prop_assert!(least <= value && value - least < width(least), "{value} is in {least}");
        }

        #[test]
        fn a_bucket_stands_for_its_values(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let middle = middle_of(bucket_of(value));
            prop_assert!(middle.abs_diff(value) <= value / 64, "{value} became {middle}");
        }
    }
}
