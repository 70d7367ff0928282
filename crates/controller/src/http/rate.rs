//! How often somebody may ask: a bucket each, that fills with time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Buckets at once. At the bound those that are full are forgotten, and if none is, the fullest quarter.
const BUCKETS_MAX: usize = 4096;

/// All buckets.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<BTreeMap<String, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Requests that it has room for.
    left: f64,
    as_of: Instant,
    /// Its rate and its size.
    terms: (u32, u32),
}

impl Bucket {
    fn left_at(&self, now: Instant) -> f64 {
        let (per_second, burst) = self.terms;
        let since = now.saturating_duration_since(self.as_of).as_secs_f64();
        (self.left + since * f64::from(per_second)).min(f64::from(burst))
    }
}

impl Rates {
    /// Takes one request of somebody who may make `terms.0` in a second and `terms.1` at once.
    pub(super) fn take(&self, who: &str, terms: (u32, u32), now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(who) {
            make_room(&mut buckets, now);
        }
        let full = || Bucket { left: f64::from(terms.1), as_of: now, terms };
        let bucket = buckets.entry(who.to_owned()).or_insert_with(full);
        let left = bucket.left_at(now);
        let goes = left >= 1.0;
        *bucket = Bucket { left: if goes { left - 1.0 } else { left }, as_of: now, terms };
        goes
    }
}

fn make_room(buckets: &mut BTreeMap<String, Bucket>, now: Instant) {
    let missing = |bucket: &Bucket| f64::from(bucket.terms.1) - bucket.left_at(now);
    buckets.retain(|_, bucket| missing(bucket) > 0.0);
    if buckets.len() >= BUCKETS_MAX {
        // A quarter at once, so that it is seldom done.
        let mut all: Vec<(f64, String)> = buckets.iter().map(|(who, bucket)| (missing(bucket), who.clone())).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.truncate(BUCKETS_MAX / 4);
        for (_, who) in &all {
            buckets.remove(who);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn somebody_may_burst_and_then_keep_the_rate() {
        let (rates, begin) = (Rates::default(), Instant::now());
        let taken =
            |who: &str, ms| (0..100).filter(|_| rates.take(who, (10, 20), begin + Duration::from_millis(ms))).count();
        assert_eq!(taken("a", 0), 20);
        assert_eq!(taken("b", 0), 20, "others have their own");
        assert_eq!(taken("a", 500), 5);
        assert_eq!(taken("a", 60_000), 20);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_who_is_over_stays_so() {
        let (rates, now) = (Rates::default(), Instant::now());
        while rates.take("greedy", (1, 9), now) {}
        for n in 0..2 * BUCKETS_MAX {
            assert!(rates.take(&n.to_string(), (1, 9), now));
        }
        assert!(rates.0.lock().unwrap().len() <= BUCKETS_MAX);
        assert!(!rates.take("greedy", (1, 9), now));
    }
}
