//! Whether to connect again, and when.
//!
//! A lost connection is tried again as long as attempts make progress: a petabyte over a month will see
//! many. Without progress the attempts are few and then end.

use std::time::Duration;

/// How often and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts in a row without progress before the end; at least one is made.
    pub attempts_max: u32,
    /// Pause before the first attempt; it doubles with each one.
    pub pause_first: Duration,
    /// Longest pause.
    pub pause_max: Duration,
}

impl Default for Limits {
    /// Five attempts, from half a second to 15 s: given up after 8 to 16 s of pauses.
    fn default() -> Limits {
        Limits { attempts_max: 5, pause_first: Duration::from_millis(500), pause_max: Duration::from_secs(15) }
    }
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again after a pause.
    Again {
        /// How long.
        pause: Duration,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Attempts in all.
        of: u32,
    },
    /// That was the last attempt.
    GiveUp {
        /// Attempts that were made without progress.
        attempts: u32,
    },
}

/// Counts failures between one progress and the next.
///
/// ```
/// use mover::control::retry::{Limits, Next, Retry};
///
/// let mut retry = Retry::new(Limits { attempts_max: 1, ..Limits::default() });
/// assert!(matches!(retry.failed(0), Next::Again { attempt: 1, of: 1, .. }));
/// assert_eq!(retry.failed(0), Next::GiveUp { attempts: 1 });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    limits: Limits,
    attempts: u32,
}

impl Retry {
    /// No failure yet.
    #[must_use]
    pub fn new(limits: Limits) -> Retry {
        Retry { limits, attempts: 0 }
    }

    /// A connection was lost or could not be made. `random` spreads the pauses of many that lost theirs
    /// at the same moment: each waits between half and all of its turn.
    pub fn failed(&mut self, random: u64) -> Next {
        let of = self.limits.attempts_max.max(1);
        if self.attempts >= of {
            return Next::GiveUp { attempts: self.attempts };
        }
        let pause = self.pause(random);
        self.attempts += 1;
        Next::Again { pause, attempt: self.attempts, of }
    }

    /// Something arrived that was not there before: the count begins again.
    pub fn progressed(&mut self) {
        self.attempts = 0;
    }

    fn pause(&self, random: u64) -> Duration {
        let doubled = 2_u32.checked_pow(self.attempts).and_then(|times| self.limits.pause_first.checked_mul(times));
        let longest = doubled.unwrap_or(Duration::MAX).min(self.limits.pause_max);
        let half = longest / 2;
        // A pause beyond 584 years is not spread any further.
        let half_ns = half.as_nanos().min(u128::from(u64::MAX));
        let spread_ns = half_ns * u128::from(random) / u128::from(u64::MAX);
        half + Duration::from_nanos(spread_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pauses_ms(limits: Limits, random: u64) -> Vec<u128> {
        let mut retry = Retry::new(limits);
        let mut pauses = Vec::new();
        while let Next::Again { pause, .. } = retry.failed(random) {
            pauses.push(pause.as_millis());
        }
        pauses
    }

    #[test]
    fn pauses_double_within_their_bounds() {
        assert_eq!(pauses_ms(Limits::default(), 0), [250, 500, 1_000, 2_000, 4_000]);
        assert_eq!(pauses_ms(Limits::default(), u64::MAX), [500, 1_000, 2_000, 4_000, 8_000]);
        let many = pauses_ms(Limits { attempts_max: 100, ..Limits::default() }, 0);
        assert_eq!((many.len(), many[5], many[99]), (100, 7_500, 7_500));
    }

    #[test]
    fn it_ends_and_stays_ended() {
        let mut retry = Retry::new(Limits::default());
        for attempt in 1..=5 {
            assert!(matches!(retry.failed(7), Next::Again { attempt: a, of: 5, .. } if a == attempt));
        }
        assert_eq!(retry.failed(7), Next::GiveUp { attempts: 5 });
        assert_eq!(retry.failed(7), Next::GiveUp { attempts: 5 });
    }

    #[test]
    fn progress_begins_the_count_again() {
        let mut retry = Retry::new(Limits::default());
        for _ in 0..1_000 {
            for _ in 0..5 {
                assert!(matches!(retry.failed(1), Next::Again { .. }));
            }
            retry.progressed();
        }
    }

    #[test]
    fn there_is_always_one_attempt() {
        assert_eq!(pauses_ms(Limits { attempts_max: 0, ..Limits::default() }, 0).len(), 1);
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_all(attempts_max in 1..200_u32, first_ms: u64, max_ms: u64, random: u64) {
            let (pause_first, pause_max) = (Duration::from_millis(first_ms), Duration::from_millis(max_ms));
            let mut retry = Retry::new(Limits { attempts_max, pause_first, pause_max });
            let mut turn = pause_first.min(pause_max);
            while let Next::Again { pause, attempt, .. } = retry.failed(random) {
                prop_assert!(pause <= turn && pause >= turn / 2);
                prop_assert!(attempt <= attempts_max);
                turn = turn.saturating_mul(2).min(pause_max);
            }
        }
    }
}
