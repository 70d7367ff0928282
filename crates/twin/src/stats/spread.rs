//! How values are spread, as it travels: few buckets, and what is asked for most.

use serde::{Deserialize, Serialize};
use sim::histogram::{Histogram, width};

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Least value and count of each bucket that has any, in order ([`Histogram::coarse`]): differences between two times are
    /// what was counted between.
    pub histogram: Vec<(u64, u64)>,
}

impl Spread {
    /// Of all that was counted.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Spread {
        Spread {
            p50: histogram.p50(),
            p90: histogram.quantile_ppm(900_000),
            p99: histogram.p99(),
            max: histogram.max(),
            histogram: histogram.coarse(),
        }
    }

    /// Of what was counted since `earlier`: percentiles within 1/16, as its buckets are, and the largest not above the end of
    /// its bucket.
    #[must_use]
    pub fn since(&self, earlier: &Spread) -> Spread {
        // What once had any has them still.
        let mut before = earlier.histogram.iter().peekable();
        let mut already = |least| before.next_if(|(other, _)| *other == least).map_or(0, |(_, count)| *count);
        let later = self.histogram.iter().map(|&(least, count)| (least, count.saturating_sub(already(least))));
        let histogram: Vec<_> = later.filter(|(_, count)| *count > 0).collect();
        let all = total(&histogram);
        let quantile = |percent: u64| {
            let (rank, mut seen) = ((all * percent).div_ceil(100).max(1), 0);
            let reached = histogram.iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            reached.map_or(0, |(least, _)| (least + width(*least) / 2).min(self.max))
        };
        let max = histogram.last().map_or(0, |(least, _)| (least + (width(*least) - 1)).min(self.max));
        Spread { p50: quantile(50), p90: quantile(90), p99: quantile(99), max, histogram }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        total(&self.histogram)
    }

    /// The least value, as its bucket has it; 0 if there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.histogram.first().map_or(0, |(least, _)| *least)
    }
}

fn total(histogram: &[(u64, u64)]) -> u64 {
    histogram.iter().map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: impl IntoIterator<Item = u64>) -> Spread {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        Spread::of(&histogram)
    }

    #[test]
    fn what_came_between_two_looks() {
        let (early, late) = (1..=1000, 10_001..=11_000);
        let before = spread(early.clone());
        let between = spread(early.chain(late.clone())).since(&before);
        let alone = spread(late);
        assert_eq!((between.count(), &between.histogram), (1000, &alone.histogram));
        for (got, exact) in [(between.p50, 10_500), (between.p90, 10_900), (between.p99, 10_990)] {
            assert!(got.abs_diff(exact) <= exact / 16, "{got} and not {exact}");
        }
        assert_eq!((between.min(), between.max), (9_216, 11_000));
        let less = spread([5, 5, 700]);
        assert_eq!(spread([5, 5, 5, 700]).since(&less), spread([5]));
        assert_eq!(less.since(&less), Spread::default());
    }

    #[test]
    fn everything_fits() {
        let all = spread([0, u64::MAX]);
        assert_eq!(all.since(&Spread::default()).max, u64::MAX);
        assert_eq!((all.min(), all.count()), (0, 2));
    }
}
