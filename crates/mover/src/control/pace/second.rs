//! What the last second had on the wire: whether the set point was reached, and what to take back.

use std::collections::VecDeque;
use std::time::Duration;

use super::{MILLION, picoseconds};

/// Largest reduction of pacing.
const EASE_PPM_MAX: i64 = 100_000;
/// Time in which an excess is taken back.
const EASE_OVER: Duration = Duration::from_millis(300);
/// Excess of a second that is left alone, so that noise does not slow anything down.
const EXCESS_PPM: u64 = 5_000;
/// A shortfall up to this, and two steps of pacing, still counts as the set point held.
const HELD_PPM: u64 = 10_000;
/// Shortest period that is measured.
const PERIOD_MIN: Duration = Duration::from_millis(45);
/// After a change of the set point the counters still tell of the old one.
const HOLD: Duration = Duration::from_millis(250);
/// Periods that the last second can consist of.
const PERIODS_MAX: usize = 32;
const SECOND: Duration = Duration::from_secs(1);

/// The last second of the wire; spans are picoseconds at the set point, see `gate`.
#[derive(Debug)]
pub(super) struct Second {
    period: Period,
    recent: VecDeque<Period>,
    ease_ppm: i64,
    held: Duration,
    /// Nothing counts before this,
    quiet_until: Duration,
    /// nor the first counters after a change.
    stale: bool,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    begin: Duration,
    length_ps: u64,
    sent_ps: u64,
}

impl Second {
    pub(super) fn new(now: Duration) -> Second {
        Second {
            period: Period::begin(now),
            recent: VecDeque::with_capacity(PERIODS_MAX),
            ease_ppm: 0,
            held: Duration::ZERO,
            quiet_until: now,
            stale: false,
        }
    }

    /// What to take off pacing, in parts per million.
    pub(super) fn ease_ppm(&self) -> i64 {
        self.ease_ppm
    }

    /// How long the set point was held, in all.
    pub(super) fn held(&self) -> Duration {
        self.held
    }

    /// The set point has changed: the next counters belong to two of them.
    pub(super) fn restart(&mut self, now: Duration) {
        self.quiet_until = now + HOLD;
        self.stale = true;
        self.ease_ppm = 0;
        self.recent.clear();
    }

    /// What was sent since the last call, and the span of one step of pacing of each stream. False if
    /// nothing can be told from it.
    pub(super) fn observe(&mut self, now: Duration, sent_ps: u64, step_ps: u64) -> bool {
        if std::mem::take(&mut self.stale) || now < self.quiet_until {
            self.period = Period::begin(now);
            return false;
        }
        self.period.sent_ps = self.period.sent_ps.saturating_add(sent_ps);
        let length = now.saturating_sub(self.period.begin);
        if length >= PERIOD_MIN {
            let period = Period { length_ps: picoseconds(length), ..self.period };
            self.period = Period::begin(now);
            self.push(period);
            self.judge(length, step_ps);
        }
        true
    }

    /// Keeps a second, or a little more.
    fn push(&mut self, period: Period) {
        self.recent.push_back(period);
        let mut length_ps = self.length_ps();
        while let Some(oldest) = self.recent.front() {
            let rest_ps = length_ps - oldest.length_ps;
            if rest_ps < picoseconds(SECOND) && self.recent.len() < PERIODS_MAX {
                break;
            }
            length_ps = rest_ps;
            self.recent.pop_front();
        }
    }

    fn judge(&mut self, length: Duration, step_ps: u64) {
        let sent_ps = self.recent.iter().fold(0_u64, |sum, p| sum.saturating_add(p.sent_ps));
        let length_ps = self.length_ps();
        let noise_ps = step_ps.saturating_mul(2);
        let least_ps = length_ps - length_ps * HELD_PPM / MILLION as u64;
        if sent_ps.saturating_add(noise_ps) >= least_ps {
            self.held += length;
        }
        let most_ps = length_ps + picoseconds(SECOND) * EXCESS_PPM / MILLION as u64;
        let excess_ps = sent_ps.saturating_sub(most_ps.saturating_add(noise_ps));
        let ease_ppm = excess_ps / (picoseconds(EASE_OVER) / MILLION as u64);
        self.ease_ppm = i64::try_from(ease_ppm).unwrap_or(i64::MAX).min(EASE_PPM_MAX);
    }

    fn length_ps(&self) -> u64 {
        self.recent.iter().map(|p| p.length_ps).sum()
    }
}

impl Period {
    fn begin(now: Duration) -> Period {
        Period { begin: now, length_ps: 0, sent_ps: 0 }
    }
}
