//! Measured against allocated: which session does less than it may, and what it says limits it.

use super::demand::{Measured, USED_PERCENT};

/// For so long a session must do less than it may before that is said, in ms.
pub const SHORT_AFTER: u64 = 3_000;

/// A session that does less than it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Since when, in ms of the clock of [`Measured::at`].
    pub since: u64,
    /// The rate in force, b/s of IP packets.
    pub set_bps: u64,
    /// What it did in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// What limited it most often since, in the mover's words.
    pub limit: String,
}

/// Watches one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    since: Option<u64>,
    /// The mover's words since then, counted. There are about ten of them; [`WORDS_MAX`] are kept.
    words: std::collections::BTreeMap<String, u32>,
    last: Option<Measured>,
}

/// Different words that are counted.
const WORDS_MAX: usize = 32;

impl Watch {
    /// Takes a second's numbers and what limited it.
    pub fn learn(&mut self, now: Measured, limit: &str) {
        let is_short = now.set_bps > 0 && now.rate_bps.saturating_mul(100) < now.set_bps.saturating_mul(USED_PERCENT);
        self.last = Some(now);
        if !is_short {
            self.since = None;
            self.words.clear();
            return;
        }
        self.since.get_or_insert(now.at);
        if self.words.len() < WORDS_MAX || self.words.contains_key(limit) {
            *self.words.entry(limit.to_owned()).or_default() += 1;
        }
    }

    /// What is to be said of it, if it is short for [`SHORT_AFTER`].
    #[must_use]
    pub fn shortfall(&self) -> Option<Shortfall> {
        let (since, last) = self.since.zip(self.last)?;
        if last.at.saturating_sub(since) < SHORT_AFTER {
            return None;
        }
        let most = self.words.iter().max_by_key(|(_, count)| **count);
        let limit = most.map_or_else(String::new, |(word, _)| word.clone());
        Some(Shortfall { since, set_bps: last.set_bps, rate_bps: last.rate_bps, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortfall_is_said_after_three_seconds_with_its_cause() {
        let mut watch = Watch::default();
        let second = |n: u64, rate_bps| Measured { at: n * 1000, set_bps: 1000, rate_bps };
        for (n, limit) in ["network", "source disk", "source disk"].iter().enumerate() {
            watch.learn(second(n as u64, 500), limit);
            assert_eq!(watch.shortfall(), None);
        }
        watch.learn(second(3, 500), "source disk");
        let said = watch.shortfall().expect("it is short for three seconds");
        assert_eq!((said.limit.as_str(), said.since, said.rate_bps), ("source disk", 0, 500));
        watch.learn(second(4, 950), "rate");
        assert_eq!(watch.shortfall(), None);
    }

    #[test]
    fn standing_still_as_told_is_none() {
        let mut watch = Watch::default();
        for n in 0..10 {
            watch.learn(Measured { at: n * 1000, set_bps: 0, rate_bps: 0 }, "rate");
        }
        assert_eq!(watch.shortfall(), None);
    }
}
