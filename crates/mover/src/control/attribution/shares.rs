//! The limits of many seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Limit;

/// Time by what held a session back, for the summary.
///
/// ```
/// use std::time::Duration;
/// use mover::control::attribution::{Limit, Shares};
///
/// let mut shares = Shares::default();
/// shares.add(Limit::NetworkPath, Duration::from_secs(8));
/// shares.add(Limit::SourceDisk, Duration::from_secs(2));
/// assert_eq!(shares.shares()["network_path"], 0.8);
/// assert_eq!(shares.dominant(), Limit::NetworkPath);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    times: BTreeMap<Limit, Duration>,
}

impl Shares {
    /// Puts some time down to a limit.
    pub fn add(&mut self, limit: Limit, time: Duration) {
        *self.times.entry(limit).or_default() += time;
    }

    /// The share of the whole time of each limit that occurred, by its name in JSON; to four digits.
    #[must_use]
    pub fn shares(&self) -> BTreeMap<String, f64> {
        let whole: Duration = self.times.values().sum();
        if whole.is_zero() {
            return BTreeMap::new();
        }
        let share = |time: &Duration| (time.as_secs_f64() / whole.as_secs_f64() * 1e4).round() / 1e4;
        self.times.iter().map(|(limit, time)| (limit.name().to_owned(), share(time))).collect()
    }

    /// The limit of the longest time; one that is none, or having nothing to do, only if there was nothing else.
    #[must_use]
    pub fn dominant(&self) -> Limit {
        let is_one = |limit: Limit| !matches!(limit, Limit::Unknown | Limit::Idle);
        let rank = |(limit, time): &(&Limit, &Duration)| (is_one(**limit), **time);
        self.times.iter().max_by_key(rank).map_or(Limit::Unknown, |(limit, _)| *limit)
    }
}
