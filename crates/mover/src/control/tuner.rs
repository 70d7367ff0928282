//! How many streams: as few as give what the path and the hosts can do.
//!
//! ```text
//!   start ─▶ measure ─▶ twice as many ─┬─ 5 % more ──▶ keep, and again
//!                          ▲           └─ not ───────▶ back, hold
//!                          │                             │ 60 s, or 20 % less, or more loss
//!                          └────── or half as many ◀─────┘
//! ```
//!
//! One sample comes each second. The first second after a change counts for nothing, then at least two
//! count, twice as many when the verdict is close; while a rate still climbs (slow start on a long path)
//! it waits. Only seconds in which the network, a window or a thread was the limit count
//! ([`Limit::is_per_stream`]): where a disk or the set point limits, streams neither help nor harm. On a path that is far or loses, where
//! these streams have a queue ([`Sample::is_full`]), more are not tried.

mod bounds;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Goodput;

use super::attribution::Limit;
pub use bounds::{Bounds, Conditions, NEAR_LOSSY, is_far};

/// One second of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// File bytes that arrived.
    pub goodput: Goodput,
    /// Streams that were open.
    pub streams: u16,
    /// What limited it.
    pub limit: Limit,
    /// Segments sent again, in a million.
    pub loss_ppm: u32,
    /// A path that is far or loses had a queue: these streams fill it, and more only share it. Over one at hand a host that is busy looks like a
    /// queue, too, and there more streams may help.
    pub is_full: bool,
}

/// What a path was found to need, kept from one session to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Names the path: whatever the caller tells paths apart by, such as both hosts and the protection.
    pub path: String,
    /// Streams that sufficed.
    pub streams: u16,
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// What they reached.
    pub rate: Goodput,
}

impl Memory {
    /// Paths change; what is older than a week is no better than a guess.
    const FRESH_S: u64 = 7 * 24 * 3600;

    /// Whether it can still be believed.
    #[must_use]
    pub fn is_fresh(&self, now_s: u64) -> bool {
        now_s.saturating_sub(self.at_s) <= Memory::FRESH_S
    }
}

/// Finds the number of streams of one session.
#[derive(Debug)]
pub struct StreamTuner {
    bounds: Bounds,
    /// What is used when nothing is tried,
    base: u16,
    /// what it gives, once that is known,
    base_rate: Option<Goodput>,
    /// and the loss with it.
    base_loss_ppm: u32,
    phase: Phase,
    /// Samples before this do not count.
    settled: Duration,
    /// The last search from a hold went down.
    went_down: bool,
    /// The base was reached by a clear gain: whether fewer suffice need not be asked.
    grew: bool,
    /// The path was full in the last second.
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Samples of a number of streams are gathered, for a purpose.
    Measure(Purpose, u16, Gathered),
    /// The base is used. Counts bad seconds in a row.
    Hold { since: Duration, bad: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To know what the base gives.
    Base,
    /// To see whether more give more.
    Up,
    /// To see whether fewer give the same.
    Down,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gathered {
    sum_bps: u128,
    samples: u32,
    last_bps: u64,
    /// Times that it began again because the rate still climbed.
    climbs: u32,
    /// Seconds with another limit.
    foreign: u32,
}

/// Of a path that nothing is known of. On two cores over a veth pair 1, 2 and 4 streams reached 32, 48 and 34
/// to 47 Gb/s: the second one is a second core's, more are not.
const FEW: u16 = 2;
/// After a change this long nothing counts: the sample of the first second comes at its end.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Samples of the base, with which all trials are compared,
const SAMPLES_BASE: u32 = 3;
/// for a verdict on a trial,
const SAMPLES: u32 = 2;
/// and for one that is close.
const SAMPLES_CLOSE: u32 = 4;
/// Gain that is worth twice the streams; less than that is no loss with half of them.
const WORTH_PER_MILLE: u64 = 50;
/// Closer to that than this is close.
const CLOSE_PER_MILLE: u64 = 25;
/// A gain that noise does not make.
const CLEAR_PER_MILLE: u64 = 150;
/// A rate that rises by more than this in a second still climbs.
const CLIMB_PER_MILLE: u64 = 120;
/// Seconds to wait for a rate that climbs.
const CLIMBS_MAX: u32 = 6;
/// Seconds with another limit that end a measurement.
const FOREIGN_MAX: u32 = 2;
/// A drop that begins a new search, or ends a trial at once.
const DROP_PER_MILLE: u64 = 200;
/// Seconds in a row that make a drop.
const BAD_SECONDS: u32 = 2;
/// Between two searches that nothing else begins.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);
/// Loss that fewer streams may cure: four times what it was, and at least 0.2 %.
const LOSS_TIMES: u32 = 4;
const LOSS_PPM_MIN: u32 = 2_000;

impl StreamTuner {
    /// Begins with what an earlier session found, if that can still be believed; else with few, for twice as many are soon tried.
    #[must_use]
    pub fn new(now: Duration, bounds: Bounds, memory: Option<&Memory>) -> StreamTuner {
        let base = bounds.clamp(memory.map_or(FEW, |memory| memory.streams));
        StreamTuner {
            bounds,
            base,
            base_rate: None,
            base_loss_ppm: 0,
            phase: Phase::Measure(Purpose::Base, base, Gathered::default()),
            settled: now + SETTLE,
            went_down: false,
            grew: false,
            is_full: false,
        }
    }

    /// Streams to have now.
    #[must_use]
    pub fn target(&self) -> u16 {
        match self.phase {
            Phase::Measure(_, streams, _) => self.bounds.clamp(streams),
            Phase::Hold { .. } => self.bounds.clamp(self.base),
        }
    }

    /// Other bounds, for instance because the path loses packets.
    pub fn set_bounds(&mut self, now: Duration, bounds: Bounds) {
        self.bounds = bounds;
        if self.base != bounds.clamp(self.base) {
            self.base = bounds.clamp(self.base);
            self.measure(now, Purpose::Base, self.base);
        }
    }

    /// Takes the sample of a second; returns the streams to have from now on.
    pub fn sample(&mut self, now: Duration, sample: &Sample) -> u16 {
        self.is_full = sample.is_full;
        if sample.streams != self.target() {
            // The last change is not yet in force.
            self.settled = now + SETTLE;
        } else if now >= self.settled {
            match self.phase {
                Phase::Measure(purpose, streams, gathered) => self.gather(now, purpose, streams, gathered, sample),
                Phase::Hold { since, bad } => self.hold(now, since, bad, sample),
            }
        }
        self.target()
    }

    /// What to remember of the path; `None` before anything was found.
    #[must_use]
    pub fn memory(&self, path: &str, now_s: u64) -> Option<Memory> {
        let rate = self.base_rate?;
        Some(Memory { path: path.to_owned(), streams: self.base, at_s: now_s, rate })
    }

    fn gather(&mut self, now: Duration, purpose: Purpose, streams: u16, mut gathered: Gathered, sample: &Sample) {
        if !sample.limit.is_per_stream() {
            gathered.foreign += 1;
            if gathered.foreign >= FOREIGN_MAX {
                return self.give_up(now);
            }
            self.phase = Phase::Measure(purpose, streams, gathered);
            return;
        }
        if purpose == Purpose::Up && self.is_harm(sample) {
            return self.give_up(now);
        }
        let climbs = compare(sample.goodput.bps(), gathered.last_bps) > 1_000 + CLIMB_PER_MILLE;
        if gathered.samples > 0 && climbs && gathered.climbs < CLIMBS_MAX {
            gathered = Gathered { climbs: gathered.climbs + 1, ..Gathered::default() };
        }
        gathered.sum_bps += u128::from(sample.goodput.bps());
        gathered.samples += 1;
        gathered.last_bps = sample.goodput.bps();
        self.phase = Phase::Measure(purpose, streams, gathered);
        if gathered.samples >= if purpose == Purpose::Base { SAMPLES_BASE } else { SAMPLES } {
            self.judge(now, purpose, streams, gathered, sample.loss_ppm);
        }
    }

    fn judge(&mut self, now: Duration, purpose: Purpose, streams: u16, gathered: Gathered, loss_ppm: u32) {
        let mean = Goodput::from_bps((gathered.sum_bps / u128::from(gathered.samples)) as u64);
        let Some(base_rate) = self.base_rate.filter(|_| purpose != Purpose::Base) else {
            self.settle_on(streams, mean, loss_ppm);
            return self.search(now);
        };
        let ratio = compare(mean.bps(), base_rate.bps());
        let line = if purpose == Purpose::Up { 1_000 + WORTH_PER_MILLE } else { 1_000 - WORTH_PER_MILLE };
        if ratio.abs_diff(line) < CLOSE_PER_MILLE && gathered.samples < SAMPLES_CLOSE {
            return;
        }
        match (purpose, ratio >= line) {
            (Purpose::Up, true) => {
                self.grew = ratio >= 1_000 + CLEAR_PER_MILLE;
                self.settle_on(streams, mean, loss_ppm);
                self.search(now);
            }
            (Purpose::Up, false) if !self.grew && self.base >= 4 => self.try_half(now),
            (_, true) => {
                self.settle_on(streams, mean, loss_ppm);
                if self.base >= 4 { self.try_half(now) } else { self.begin_hold(now) }
            }
            (_, false) => self.give_up(now),
        }
    }

    fn hold(&mut self, now: Duration, since: Duration, bad: u32, sample: &Sample) {
        if !sample.limit.is_per_stream() {
            self.phase = Phase::Hold { since, bad: 0 };
            return;
        }
        let Some(base_rate) = self.base_rate else {
            return self.measure(now, Purpose::Base, self.base);
        };
        let ratio = compare(sample.goodput.bps(), base_rate.bps());
        let dropped = ratio < 1_000 - DROP_PER_MILLE;
        let lossy = self.is_lossier(sample.loss_ppm);
        if dropped || lossy {
            self.phase = Phase::Hold { since, bad: bad + 1 };
            if bad + 1 >= BAD_SECONDS {
                self.base_rate = Some(sample.goodput);
                if lossy { self.try_half(now) } else { self.measure(now, Purpose::Base, self.base) }
            }
            return;
        }
        // The path changes slowly: the reference follows.
        let follow = (u128::from(base_rate.bps()) * 7 + u128::from(sample.goodput.bps())) / 8;
        self.base_rate = Some(Goodput::from_bps(follow as u64));
        self.phase = Phase::Hold { since, bad: 0 };
        if now.saturating_sub(since) >= SEARCH_AGAIN {
            // One stream of two can be half of everything: that is not tried just to see.
            self.went_down = self.base >= 4 && !self.went_down;
            if self.went_down { self.try_half(now) } else { self.search(now) }
        }
    }

    /// Tries twice as many, if there may be more and the path has room: new streams on a full one begin with little and stay behind for
    /// seconds, and what they took holds up the end of a copy (1 Gb/s, 100 ms, 20,000 small files: 0.7 s).
    fn search(&mut self, now: Duration) {
        let more = self.bounds.clamp(self.base.saturating_mul(2));
        if more > self.base && !self.is_full { self.measure(now, Purpose::Up, more) } else { self.begin_hold(now) }
    }

    /// Tries half as many, if there may be fewer.
    fn try_half(&mut self, now: Duration) {
        let fewer = self.bounds.clamp(self.base / 2);
        if fewer < self.base { self.measure(now, Purpose::Down, fewer) } else { self.begin_hold(now) }
    }

    fn measure(&mut self, now: Duration, purpose: Purpose, streams: u16) {
        self.phase = Phase::Measure(purpose, streams, Gathered::default());
        self.settled = now + SETTLE;
    }

    fn settle_on(&mut self, streams: u16, rate: Goodput, loss_ppm: u32) {
        (self.base, self.base_rate, self.base_loss_ppm) = (streams, Some(rate), loss_ppm);
    }

    /// Back to the base.
    fn give_up(&mut self, now: Duration) {
        self.settled = now + SETTLE;
        self.begin_hold(now);
    }

    fn begin_hold(&mut self, now: Duration) {
        self.phase = Phase::Hold { since: now, bad: 0 };
    }

    /// A trial that is clearly worse ends after one sample.
    fn is_harm(&self, sample: &Sample) -> bool {
        let dropped =
            self.base_rate.is_some_and(|base| compare(sample.goodput.bps(), base.bps()) < 1_000 - DROP_PER_MILLE);
        let better =
            self.base_rate.is_some_and(|base| compare(sample.goodput.bps(), base.bps()) >= 1_000 + WORTH_PER_MILLE);
        dropped || (self.is_lossier(sample.loss_ppm) && !better)
    }

    fn is_lossier(&self, loss_ppm: u32) -> bool {
        loss_ppm >= LOSS_PPM_MIN && loss_ppm >= self.base_loss_ppm.saturating_mul(LOSS_TIMES)
    }
}

/// `a` in thousandths of `b`.
fn compare(a: u64, b: u64) -> u64 {
    let ratio = (u128::from(a) * 1_000).checked_div(u128::from(b));
    ratio.map_or(u64::MAX, |ratio| u64::try_from(ratio).unwrap_or(u64::MAX))
}
