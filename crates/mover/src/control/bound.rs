//! What the streams of a session that run BBR may send together.
//!
//! Each stream of BBR takes the most that it had in ten round trips for its part of the path, and these come to more than the path's
//! rate: together they fill the queue and have it drop, until each stops to see how long the path is, which is 10 s. BBRv3 bounds what a
//! flow has in flight once more than 2 % of it are lost (draft-ietf-ccwg-bbr, section 5.5.10); the BBR of most kernels does not. A session
//! knows what all its streams deliver, and holds them to that together.
//!
//! ```text
//!             more than 2 % lost, over a queue
//!   Free ──────────────────────────────────────▶ Held: 95 % of what is delivered,
//!     ▲                                            │   ¼ % more each look; without a queue faster and faster,
//!     │                                            │   until there is one: then what was delivered
//!     └────────── twice what is delivered ─────────┘
//! ```
//!
//! One look may have met something else than a full path, such as the other end standing still: it takes off no more than half of the most
//! that was delivered, and in the next one there may be more. A look with hardly any packets says nothing.
//!
//! It is no giving way: what others take of a queue that they share is no loss of these streams, and a loss that goes on is answered once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::congestion::{has_queue, least_rtt};
use super::pace::share::{Want, share};

/// Between two looks: a round trip, no less and no more than this.
const LOOK: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(500);
/// More lost than this is too much (`LossThresh` of BBRv3).
const LOSS_PER_MILLE: u64 = 20;
/// Of fewer segments sent between two looks nothing is said: streams that wait for the other end, or for data, show neither what the path
/// carries nor, with acknowledgements that wait for a second packet, whether it has a queue.
const SEGMENTS_MIN: u64 = 200;
/// So many between two looks are sent under every bound, or it could not be seen any more that it is too low.
const SEGMENTS_HELD: u64 = 2 * SEGMENTS_MIN;
/// At once no more is taken off than down to so much of the most that was delivered at the last looks: one look may have met something else.
const CUT_PER_MILLE: u64 = 500;
/// Of what is delivered over a queue that drops, the streams are held to so much: it becomes half as long in ten round trips, and holds what
/// the path is to carry while a stream stops.
const HELD_PER_MILLE: u64 = 950;
/// More each look, in a million: from a queue that is half full to one that drops it is two to three seconds over 100 ms.
const GROWTH_PPM: u64 = 2_500;
/// After so many looks without a queue it doubles with each,
const FREE_LOOKS: u32 = 5;
/// up to this.
const GROWTH_MAX_PPM: u64 = 250_000;
/// Where there was a queue the path was full, and so much of what was delivered is what it carries. Streams that go over to BBR begin with that.
const FULL_PER_MILLE: u64 = 1_020;
/// At so many looks from the first one with a queue on: what was delivered in the round trip in which it began is less.
const FULL_LOOKS: u32 = 3;
/// A bound that is so far above what is delivered holds nobody.
const LIFTED_PER_MILLE: u64 = 2_000;
/// Looks of which the most that was delivered counts, if something is said of them: more than a stream stops for.
const LOOKS_KEPT: usize = 30;
const MILLION: u64 = 1_000_000;

/// What is read of a stream at a look; from `tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Number of the stream in the session.
    pub stream: u16,
    /// Segments with data sent, modulo 2^32: `data_segs_out`.
    pub sent: u32,
    /// Of them, sent again, modulo 2^32: `total_retrans`.
    pub resent: u32,
    /// Segments that arrived, modulo 2^32: `delivered`.
    pub delivered: u32,
    /// Payload of a segment: `snd_mss`.
    pub mss_bytes: u32,
    /// Smoothed round trip: `rtt`, µs.
    pub rtt_us: u32,
    /// Least round trip: `min_rtt`, µs.
    pub min_rtt_us: u32,
    /// Only the bound holds it back; see [`pacing_is_the_limit`](super::pace::Reading::pacing_is_the_limit).
    pub is_held: bool,
}

/// What a stream may send, in bytes of payload a second; `None` is no limit.
pub type Part = (u16, Option<u64>);

/// Holds the streams of a session together.
///
/// Use: [`look`](Bound::look) when it [`is_due`](Bound::is_due), with a reading of each stream, and set what it gives. It only learns until
/// [`begin`](Bound::begin).
#[derive(Debug, Default)]
pub struct Bound {
    looked: Option<Duration>,
    streams: BTreeMap<u16, Reading>,
    min_rtt: Duration,
    phase: Phase,
    /// What is sent under every bound, payload a second.
    least: u64,
    /// What was delivered at the last looks, payload a second; the latest comes last.
    delivered: VecDeque<u64>,
    /// Looks in a row without a queue,
    free_looks: u32,
    /// and with one.
    queued_looks: u32,
    /// The path was full once.
    was_full: bool,
    /// Looks while they are held in which it is still to be seen whether the queue lasts.
    unsure_looks: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Not yet begun.
    #[default]
    Learn,
    /// Nothing holds the streams.
    Free,
    /// They have gone over to BBR, and there was no queue yet.
    Startup,
    /// They are held.
    Held {
        /// Together to so much payload a second.
        rate: u64,
        growth_ppm: u64,
        /// What is lost was answered, and has not ended since.
        is_answered: bool,
    },
}

impl Bound {
    /// Whether it is time for a look.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.looked.is_none_or(|at| now.saturating_sub(at) >= self.each())
    }

    /// Time between two looks.
    fn each(&self) -> Duration {
        self.min_rtt.clamp(*LOOK.start(), *LOOK.end())
    }

    /// The streams have gone over to BBR.
    pub fn begin(&mut self) {
        let rate = per_mille(self.most(), FULL_PER_MILLE);
        self.phase = match self.was_full {
            true => Phase::Held { rate: rate.max(self.least), growth_ppm: GROWTH_PPM, is_answered: false },
            false => Phase::Startup,
        };
        self.unsure_looks = if self.was_full { 0 } else { FULL_LOOKS - 1 };
    }

    /// Something else holds the streams: if this did, it does not any more.
    pub fn free(&mut self) {
        if self.phase != Phase::Learn {
            self.phase = Phase::Free;
        }
    }

    /// Takes a look at all streams; gives what each may send from now on, or nothing if that is as it was.
    pub fn look(&mut self, now: Duration, readings: &[Reading]) -> Vec<Part> {
        let since = now.saturating_sub(self.looked.replace(now).unwrap_or(now));
        let min_rtt_us = least_rtt(readings.iter().map(|r| r.min_rtt_us));
        self.min_rtt = Duration::from_micros(min_rtt_us);
        let before = std::mem::replace(&mut self.streams, readings.iter().map(|&r| (r.stream, r)).collect());
        let (mut sent, mut resent, mut rates) = (0, 0, Vec::with_capacity(readings.len()));
        for reading in readings {
            // One that is new has sent little before its first look.
            let was = before.get(&reading.stream).unwrap_or(reading);
            sent += u64::from(reading.sent.wrapping_sub(was.sent));
            resent += u64::from(reading.resent.wrapping_sub(was.resent));
            let bytes = u64::from(reading.delivered.wrapping_sub(was.delivered)) * u64::from(reading.mss_bytes);
            rates.push(bytes.saturating_mul(MILLION) / (since.as_micros() as u64).max(1));
        }
        if sent < SEGMENTS_MIN {
            return Vec::new();
        }
        let mss = readings.iter().map(|r| u64::from(r.mss_bytes)).max().unwrap_or(0);
        self.least = SEGMENTS_HELD * mss * MILLION / (self.each().as_micros() as u64);
        self.delivered.push_back(rates.iter().sum());
        if self.delivered.len() > LOOKS_KEPT {
            self.delivered.pop_front();
        }
        let queued = readings.iter().filter(|r| has_queue(u64::from(r.rtt_us), min_rtt_us)).count();
        let is_queued = 2 * queued > readings.len();
        let is_too_much = is_queued && resent * 1000 > sent * LOSS_PER_MILLE;
        (self.free_looks, self.queued_looks) = match is_queued {
            true => (0, self.queued_looks.saturating_add(1)),
            false => (self.free_looks.saturating_add(1), 0),
        };
        self.was_full |= is_queued;
        let was_held = matches!(self.phase, Phase::Held { .. });
        self.decide(is_too_much);
        if was_held {
            self.unsure_looks = self.unsure_looks.saturating_sub(1);
        }
        tracing::trace!(phase = ?self.phase, is_queued, is_too_much, delivered = self.delivered.back(), sent, resent, "bound");
        match self.phase {
            Phase::Held { rate, .. } => allot(rate, readings, &rates),
            Phase::Free | Phase::Startup if was_held => readings.iter().map(|r| (r.stream, None)).collect(),
            Phase::Free | Phase::Learn | Phase::Startup => Vec::new(),
        }
    }

    /// The most that was delivered at one of the last looks.
    fn most(&self) -> u64 {
        self.delivered.iter().copied().max().unwrap_or(0)
    }

    /// Goes by what was counted in the last look; `is_too_much` was lost over a queue.
    fn decide(&mut self, is_too_much: bool) {
        let most = self.most();
        let latest = self.delivered.back().copied().unwrap_or(0);
        let (held, lowest) = (per_mille(latest, HELD_PER_MILLE), per_mille(most, CUT_PER_MILLE).max(self.least));
        let cut = Phase::Held {
            rate: held.max(lowest),
            growth_ppm: GROWTH_PPM,
            // What is still lost at the next looks was under way, or is due to others, unless there is more to take off.
            is_answered: held >= lowest,
        };
        match &mut self.phase {
            Phase::Learn => {}
            Phase::Free if is_too_much => self.phase = cut,
            Phase::Free => {}
            Phase::Startup if self.queued_looks > 0 => {
                let rate = per_mille(most, FULL_PER_MILLE).max(self.least);
                self.phase = Phase::Held { rate, growth_ppm: GROWTH_PPM, is_answered: false };
            }
            Phase::Startup => {}
            // What filled it was a burst of streams that began. A path that is full has a queue for longer, for they are held to no less than it
            // carries. It is asked once: the second queue is that of streams that fill the path.
            Phase::Held { .. } if self.unsure_looks > 0 && self.queued_looks == 0 => {
                self.unsure_looks = 0;
                self.phase = Phase::Startup;
            }
            Phase::Held { is_answered: false, .. } if is_too_much => self.phase = cut,
            Phase::Held { rate, growth_ppm, is_answered } => {
                *is_answered &= is_too_much;
                *growth_ppm = match self.free_looks {
                    0..FREE_LOOKS => GROWTH_PPM,
                    _ => (2 * *growth_ppm).min(GROWTH_MAX_PPM),
                };
                *rate = rate.saturating_add(rate.saturating_mul(*growth_ppm) / MILLION);
                if self.queued_looks == 1 {
                    *rate = (*rate).min(per_mille(most, FULL_PER_MILLE));
                }
                if (1..=FULL_LOOKS).contains(&self.queued_looks) && !*is_answered {
                    *rate = (*rate).max(per_mille(latest, FULL_PER_MILLE));
                }
                *rate = (*rate).max(self.least);
                if *rate > per_mille(most, LIFTED_PER_MILLE) {
                    self.phase = Phase::Free;
                }
            }
        }
    }
}

fn per_mille(rate: u64, thousandths: u64) -> u64 {
    rate.saturating_mul(thousandths) / 1000
}

/// What of a rate each stream may send: what it delivers and room for more, those first that can use it.
fn allot(rate: u64, readings: &[Reading], delivered: &[u64]) -> Vec<Part> {
    let least = rate / 4 / (readings.len() as u64).max(1);
    let want = |(reading, &own): (&Reading, &u64)| match reading.is_held {
        true => Want::More((2 * own).max(least)),
        false => Want::Uses((own + own / 4).max(least)),
    };
    let wants: Vec<_> = readings.iter().zip(delivered).map(want).collect();
    // The kernel takes 0 for no limit.
    readings.iter().zip(share(rate, &wants)).map(|(reading, part)| (reading.stream, Some(part.max(1)))).collect()
}

#[cfg(test)]
mod tests;
