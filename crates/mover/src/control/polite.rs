//! Giving way: the rate that leaves other traffic what it would get alone (less than best effort).
//!
//! A queue that grows, or a loss, says that somebody wants the path. All streams of the session answer together:
//!
//! ```text
//!          queue above 2 ms, loss            every 10 s, for a round trip
//!   Start ────────────────────────▶ Hold ◀────────────────────────────────▶ Aside: a quarter
//!   + 30 % a round trip              │ ▲
//!          queue above 5 ms,         │ │ without us it is gone: half of what was
//!          or above 3.5 ms and stays ▼ │ it is there: the least rate
//!                                   Aside: an eighth, for two round trips
//! ```
//!
//! - **Hold** keeps a short queue of its own, the *target* of 2 ms. The state is the *free rate*, what would be sent if
//!   nothing was queued; what is sent is that times path / (path + queue), as a window would do, so that a queue that grows
//!   slows it down at once. Each round trip the free rate goes a fifth of the way to what makes the queue the target. LEDBAT
//!   (RFC 6817) does the like with up to 100 ms, LEDBAT++ with 60 ms: such a queue costs a neighbour's slow start (HyStart of
//!   Linux ends it when 4 to 16 ms are queued), and many routers hold less.
//! - **Aside**: a longer queue is not of its own making. The session all but stops and looks what is left (the inference
//!   phase of TCP-LP, with an answer): nothing, then it comes back with half; a queue, then others hold it, and it stays at
//!   the least rate until the queue is gone.
//! - **Base delay** is the least that was seen in a minute. So that the path is seen without a queue of its own, the session
//!   slows down every 10 s (as LEDBAT++ does). A path that becomes longer is taken for a queue until the minute is over
//!   ([`BASE_KEPT`]).
//! - **Loss** halves, once in two round trips.
//!
//! Round trips come from the kernel's smoothed one, which is taken apart by the number of acknowledgements; of several
//! streams the one in the middle counts.

mod base;
mod looks;
mod stream;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use looks::Looks;
use stream::Stream;
use units::Rate;

/// Least time between two looks, and the time that a look wants to be awaited: short beside what the path is steered
/// by (`LAG`), long beside what it costs to read the sockets.
pub const LOOK: Duration = Duration::from_millis(10);
/// For so long the least delay is believed: after this a path that has become longer is known.
pub const BASE_KEPT: Duration = Duration::from_secs(60);
/// Least rate of a session: two full packets every 48 ms, enough to see that the queue is gone.
pub const RATE_MIN: Rate = Rate::from_bps(500_000);

/// An answer comes later than the path's delay: a look is awaited, the least of two counts, and pacing takes steps. The
/// path is steered as if it were so much longer, which keeps the answer ahead of the queue (a queue that is answered after
/// 1.57 times the delay it is steered by swings without end).
const LAG: Duration = Duration::from_millis(30);
/// The queue of its own that a session keeps. Wake-ups and packets sent together make some tenths of a millisecond; from
/// 4 ms on slow starts of others end early (HyStart of Linux), and queues of routers may hold no more than some.
const TARGET_US: u64 = 2_000;
/// Packets that leave together when the rate rises make so much of a queue at times.
const BURST: Duration = Duration::from_millis(1);
/// A queue of so much that lasts for so many rounds though it is answered: others hold it, and there is no room for more.
const HIGH_US: u64 = 3_500;
const HIGH_ROUNDS: u32 = 3;
/// Acknowledgements in a row that must tell of a queue of others, at so many looks at least, and for half of the path's delay: a host that does
/// something else for some milliseconds delays many at once, and a delay that passes within a round trip cannot be answered anyway.
const ACKS: u32 = 32;
const LOOKS: u32 = 3;
/// A receiver acknowledges each second packet of a stream, and a packet that stays alone after so long.
const DELAYED_ACK_US: u64 = 40_000;
/// A session begins with 32 packets of 1500 bytes a round trip, four of each of eight streams (one alone would begin with ten, RFC 6928),
const START_BYTES: u64 = 48_000;
/// and grows by so much in each. Doubling would have twice the path's rate under way before anybody could know.
const GROWTH_MAX_PPM: u64 = 300_000;
/// Where it ends, what was sent was seen a round trip late: two steps are taken back.
const START_BACK_PPM: u64 = 590_000;
/// But so much of what was delivered is safe.
const START_KEPT_PPM: u64 = 950_000;
/// A round with no more than this is quiet: there is hardly a queue.
const QUIET_US: u64 = 1_500;
/// Part of the missing queue, or of what is too much, that a round makes up for.
const GAIN_PPM: u64 = 200_000;
/// Quiet rounds after which what a queue has taken is taken back.
const BACK_AFTER: u64 = 8;
/// Growth in a round back to what was last delivered over a queue, at most,
const GROWTH_BACK_PPM: u64 = 62_500;
/// or rather to this part of it: from there on the queue may be near, and growth is what the gain says,
const NEAR_PPM: u64 = 970_000;
/// until so much has proven that there is more than was known. Then it rises,
const PAST_PPM: u64 = 1_050_000;
/// up to this in a round.
const GROWTH_PAST_PPM: u64 = 62_500;
/// What was delivered over a queue fades so far with each queue after it.
const KNOWN_KEPT_PPM: u64 = 750_000;
/// It doubles in so many quiet rounds.
const QUIET_ROUNDS: u64 = 4;
/// One packet a round is added up to the target: so that of two sessions the smaller one gains.
const ADDED_BYTES: u64 = 1_500;
const PACKET_BITS: u64 = 12_000;
/// Between two looks at the path without a queue of its own,
const SLOWDOWN_EVERY: Duration = Duration::from_secs(10);
/// and what is sent meanwhile: the queue must be gone in a part of a round trip.
const SLOWDOWN_PPM: u64 = 250_000;
/// What is sent while others may have the path: as little as shows within a round trip whether they have it.
const ASIDE_PPM: u64 = 125_000;
/// Rounds that an answer to this is waited for.
const JUDGE_ROUNDS_MAX: u32 = 4;
/// Of what was allowed, this must have been used for more to be allowed.
const USED_PPM: u64 = 666_667;
/// After so long without an acknowledgement what was known of the path is old: the session starts again.
const IDLE: Duration = Duration::from_secs(1);
const MILLION: u64 = 1_000_000;

/// What is read of a stream at a look; from `tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Number of the stream in the session.
    pub stream: u16,
    /// Smoothed round trip: `rtt`, µs.
    pub rtt_us: u32,
    /// Least round trip that the kernel saw: `min_rtt`, µs.
    pub min_rtt_us: u32,
    /// Segments received, nearly all of them acknowledgements: `segs_in`, modulo 2^32.
    pub acks: u32,
    /// Payload acknowledged: `bytes_acked`.
    pub acked_bytes: u64,
    /// Segments sent again: `total_retrans`, modulo 2^32.
    pub resent: u32,
}

/// Finds the rate at which a session is in nobody's way.
///
/// Use: [`look`](Polite::look) every [`LOOK`] with a reading of each stream, then keep to [`rate`](Polite::rate).
#[derive(Debug)]
pub struct Polite {
    streams: BTreeMap<u16, Stream>,
    /// What would be sent if there were no queue, b/s.
    free_bps: u64,
    rate: Rate,
    phase: Phase,
    /// The start had a loss without a queue, which ends it the second time only: one early packet that is lost, or is sent again for nothing,
    /// would cost what is not lost in ten seconds.
    has_started_twice: bool,
    round: Round,
    looks: Looks,
    /// The path's delay without a queue; µs.
    base_us: u64,
    /// Acknowledgements in a row that tell of a long queue,
    long_acks: u32,
    /// and looks that saw them.
    long_looks: u32,
    /// What is delivered, b/s of payload.
    delivered_bps: u64,
    /// What was delivered when there was a queue last, b/s of payload.
    known_bps: u64,
    /// Rounds in a row with hardly a queue,
    quiet: u64,
    /// and with one that is answered and stays.
    high: u32,
    /// Losses before this were answered.
    deaf_until: Duration,
    slowdown_at: Duration,
    looked: Duration,
    acked_at: Duration,
    held: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is known of the path's rate.
    Start,
    /// It is known.
    Hold,
    /// Others may have it, until `until`; what that changed is seen until `judge`.
    Aside {
        why: Why,
        until: Duration,
        judge: Duration,
        /// The least queue that was seen after `until`; µs.
        least_us: u64,
        /// The free rate to come back with, b/s.
        back_bps: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// To see the path without a queue of its own.
    Slowdown,
    /// Others have a queue.
    Queue,
}

/// What happened in a round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Duration,
    acked_bytes: u64,
    allowed_bits: u64,
    resent: u64,
}

impl Round {
    fn begin(now: Duration) -> Round {
        Round { begin: now, acked_bytes: 0, allowed_bits: 0, resent: 0 }
    }
}

impl Polite {
    /// A session of which nothing is known. `now` counts from its start, here and everywhere.
    #[must_use]
    pub fn new(now: Duration) -> Polite {
        Polite {
            streams: BTreeMap::new(),
            free_bps: bps_of(START_BYTES, LAG),
            rate: bps(bps_of(START_BYTES, LAG)),
            phase: Phase::Start,
            has_started_twice: false,
            round: Round::begin(now),
            looks: Looks::new(),
            base_us: 0,
            long_acks: 0,
            long_looks: 0,
            delivered_bps: 0,
            known_bps: 0,
            quiet: 0,
            high: 0,
            deaf_until: now,
            slowdown_at: now + SLOWDOWN_EVERY,
            looked: now,
            acked_at: now,
            held: Duration::ZERO,
        }
    }

    /// The most that the session may send, in IP packets with their headers.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// For how long, up to now, the session used what it was allowed: the time in which giving way was the limit.
    #[must_use]
    pub fn held(&self) -> Duration {
        self.held
    }

    /// Takes a reading of every stream, [`LOOK`] or more after the last one. Streams without one are forgotten. `most` is
    /// the session's set point: what it holds back is not what giving way does.
    pub fn look(&mut self, now: Duration, readings: &[Reading], most: Option<Rate>) {
        let since = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        let allowed = most.map_or(self.rate, |most| most.min(self.rate));
        let bits = bits_over(allowed.bps(), since);
        self.round.allowed_bits = self.round.allowed_bits.saturating_add(bits);
        let began = self.streams.is_empty();
        let acks = self.read(now, readings);
        if self.streams.is_empty() {
            return;
        }
        if began {
            self.begin(now);
        }
        if acks > 0 {
            self.answer(now, acks);
        }
        if now.saturating_sub(self.round.begin) >= self.path() + self.queue() {
            self.end_round(now);
        }
        self.judge(now);
        self.rate = self.rate_now(now);
    }

    /// Reads the sockets; gives how many acknowledgements tell of the path.
    fn read(&mut self, now: Duration, readings: &[Reading]) -> u32 {
        self.streams.retain(|id, _| readings.iter().any(|reading| reading.stream == *id));
        let mut queues = Vec::with_capacity(readings.len());
        let mut acks = 0_u32;
        for reading in readings {
            let joins = !self.streams.contains_key(&reading.stream);
            let stream = self.streams.entry(reading.stream).or_insert_with(|| Stream::new(now, *reading));
            if joins {
                // A base that was first seen over a queue of ours is soon seen without it.
                self.slowdown_at = self.slowdown_at.min(now + 4 * self.path());
                continue;
            }
            let news = stream.read(now, *reading);
            self.round.acked_bytes = self.round.acked_bytes.saturating_add(news.acked_bytes);
            self.round.resent += u64::from(news.resent);
            if let Some(queue_us) = news.queue_us {
                self.acked_at = now;
                acks = acks.saturating_add(news.acks);
                queues.push(queue_us);
            }
        }
        let mut bases: Vec<u64> = self.streams.values().map(|s| s.base_us()).collect();
        self.base_us = middle(&mut bases).unwrap_or(0);
        let Some(queue_us) = middle(&mut queues) else { return 0 };
        self.looks.see(queue_us, acks);
        acks
    }

    /// How long acknowledgements may wait for a stream's next two packets.
    fn waits_us(&self) -> u64 {
        let packets = 2 * self.streams.len() as u64;
        ratio(packets * PACKET_BITS, MILLION, self.free_bps).min(DELAYED_ACK_US)
    }

    /// The first stream: its round trip says what the first packets a round trip are.
    fn begin(&mut self, now: Duration) {
        self.free_bps = bps_of(START_BYTES, self.path()).max(RATE_MIN.bps());
        (self.phase, self.has_started_twice) = (Phase::Start, false);
        (self.quiet, self.long_acks, self.long_looks) = (0, 0, 0);
        (self.round, self.acked_at) = (Round::begin(now), now);
        self.slowdown_at = now + SLOWDOWN_EVERY;
    }

    /// Answers what the last look saw.
    fn answer(&mut self, now: Duration, acks: u32) {
        let limit_us =
            if self.phase == Phase::Start { TARGET_US + self.waits_us() } else { 2 * TARGET_US + micros(BURST) };
        if self.looks.queue_us() > limit_us {
            self.long_acks = self.long_acks.saturating_add(acks);
            self.long_looks = self.long_looks.saturating_add(1);
        } else {
            (self.long_acks, self.long_looks) = (0, 0);
        }
        if let Phase::Aside { until, least_us, .. } = &mut self.phase {
            if now > *until {
                *least_us = self.looks.queue_us().min(*least_us);
            }
            return;
        }
        let looks = (self.path() / 2).div_duration_f64(LOOK) as u32;
        if self.long_acks < ACKS || self.long_looks < looks.max(LOOKS) {
            return;
        }
        if self.phase == Phase::Start {
            self.end_start(now);
        } else if self.free_bps > RATE_MIN.bps() {
            self.step_aside(now, Why::Queue, self.free_bps / 2);
        }
    }

    /// A round trip is over.
    fn end_round(&mut self, now: Duration) {
        let round = std::mem::replace(&mut self.round, Round::begin(now));
        let length = now.saturating_sub(round.begin);
        let used = u128::from(round.acked_bytes) * 8 * u128::from(MILLION)
            >= u128::from(round.allowed_bits) * u128::from(USED_PPM);
        if used {
            self.held += length;
        }
        self.delivered_bps = bps_of(round.acked_bytes, length);
        if now.saturating_sub(self.acked_at) >= IDLE.max(4 * self.round_trip()) {
            return self.begin(now);
        }
        let lost = round.resent > 0 && now >= self.deaf_until;
        if lost {
            self.deaf_until = now + 2 * self.round_trip();
        }
        match self.phase {
            Phase::Start if lost && self.has_started_twice => self.end_start(now),
            Phase::Start if lost => {
                self.has_started_twice = true;
                self.halve();
            }
            Phase::Start if used => self.rise(part(self.free_bps, GROWTH_MAX_PPM)),
            Phase::Hold if lost => {
                self.quiet = 0;
                self.halve();
            }
            Phase::Hold if now >= self.slowdown_at => self.step_aside(now, Why::Slowdown, self.free_bps),
            Phase::Hold => self.steer(now, used),
            // What still arrives was sent before, at more than the path carries if that ended the start: it says what it carries.
            Phase::Aside { why: Why::Slowdown, ref mut back_bps, .. } => {
                *back_bps = part(self.delivered_bps, START_KEPT_PPM).max(*back_bps);
                self.known_bps = self.known_bps.max(self.delivered_bps);
            }
            Phase::Start | Phase::Aside { .. } => {}
        }
    }

    /// Part of the way to the target.
    fn steer(&mut self, now: Duration, used: bool) {
        let queue_us = self.looks.queue_us();
        let path_us = micros(self.path());
        self.high = if queue_us > HIGH_US { self.high + 1 } else { 0 };
        if self.high >= HIGH_ROUNDS && self.free_bps > RATE_MIN.bps() {
            return self.step_aside(now, Why::Queue, self.free_bps / 2);
        }
        if queue_us > TARGET_US {
            self.quiet = 0;
            let less_ppm = (GAIN_PPM * (queue_us - TARGET_US) / (path_us + queue_us)).min(MILLION / 2);
            self.free_bps = (self.free_bps - part(self.free_bps, less_ppm)).max(RATE_MIN.bps());
        } else if used {
            let more_ppm = self.growth_ppm(queue_us);
            self.rise(part(self.free_bps, more_ppm));
        }
        if used && queue_us <= TARGET_US {
            self.rise(bps_of(ADDED_BYTES, self.path()));
        }
    }

    /// What the free rate grows by in a round with no more than the target.
    fn growth_ppm(&mut self, queue_us: u64) -> u64 {
        // A delay between this and the target may be noise: it takes one quiet round back, not all of them.
        self.quiet = if queue_us <= QUIET_US { self.quiet + 1 } else { self.quiet.saturating_sub(1) };
        let missing_us = TARGET_US - queue_us.min(TARGET_US);
        let step_ppm = GAIN_PPM * missing_us / (micros(self.path()) + queue_us);
        if self.free_bps < part(self.known_bps, NEAR_PPM) && self.quiet >= BACK_AFTER {
            return GROWTH_BACK_PPM * missing_us / TARGET_US;
        }
        if self.free_bps < part(self.known_bps, PAST_PPM) {
            self.quiet = self.quiet.min(BACK_AFTER);
            return step_ppm;
        }
        let past = self.quiet.saturating_sub(BACK_AFTER);
        let doublings = (past / QUIET_ROUNDS).min(u64::from(u32::BITS)) as u32;
        step_ppm.saturating_mul(1 << doublings).min(GROWTH_PAST_PPM)
    }

    fn halve(&mut self) {
        self.free_bps = (self.free_bps / 2).max(RATE_MIN.bps());
    }

    fn rise(&mut self, more_bps: u64) {
        self.free_bps = self.free_bps.saturating_add(more_bps);
    }

    /// The path's rate is found, and a little more is under way.
    fn end_start(&mut self, now: Duration) {
        let back_bps = part(self.free_bps, START_BACK_PPM).max(part(self.delivered_bps, START_KEPT_PPM));
        self.step_aside(now, Why::Slowdown, back_bps);
    }

    fn step_aside(&mut self, now: Duration, why: Why, back_bps: u64) {
        let until = now + self.round_trip();
        let judge = until + self.round_trip();
        let back_bps = back_bps.max(RATE_MIN.bps());
        self.phase = Phase::Aside { why, until, judge, least_us: u64::MAX, back_bps };
        (self.quiet, self.high, self.long_acks, self.long_looks) = (0, 0, 0, 0);
        self.known_bps = self.delivered_bps.max(part(self.known_bps, KNOWN_KEPT_PPM));
        self.deaf_until = judge;
    }

    /// Comes back when what others have without us is seen.
    fn judge(&mut self, now: Duration) {
        let Phase::Aside { why, judge, least_us, back_bps, .. } = self.phase else { return };
        let patience = if least_us == u64::MAX { (JUDGE_ROUNDS_MAX - 2) * self.round_trip() } else { Duration::ZERO };
        if now < judge + patience {
            return;
        }
        let is_ours = why == Why::Slowdown || least_us <= TARGET_US;
        self.free_bps = if is_ours { back_bps } else { RATE_MIN.bps() };
        self.phase = Phase::Hold;
        self.slowdown_at = now + SLOWDOWN_EVERY;
    }

    fn rate_now(&self, now: Duration) -> Rate {
        let aside_ppm = match self.phase {
            Phase::Aside { why: Why::Queue, .. } => ASIDE_PPM,
            Phase::Aside { why: Why::Slowdown, until, back_bps, .. } if now >= until => {
                return bps(self.with_queue(back_bps)).max(RATE_MIN);
            }
            Phase::Aside { .. } => SLOWDOWN_PPM,
            Phase::Start | Phase::Hold => MILLION,
        };
        bps(part(self.with_queue(self.free_bps), aside_ppm)).max(RATE_MIN)
    }

    /// A free rate, as a window would send it over the queue that there is.
    fn with_queue(&self, free_bps: u64) -> u64 {
        let path_us = micros(self.path());
        ratio(free_bps, path_us, path_us + self.looks.queue_us())
    }

    fn base(&self) -> Duration {
        Duration::from_micros(self.base_us)
    }

    fn queue(&self) -> Duration {
        Duration::from_micros(self.looks.queue_us())
    }

    /// The path's delay as it is steered by.
    fn path(&self) -> Duration {
        self.base() + LAG
    }

    /// After this a change of the rate is seen.
    fn round_trip(&self) -> Duration {
        self.base() + self.queue() + looks::LEAST * LOOK
    }
}

/// The one in the middle, of two the smaller.
fn middle(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

fn bps(bps: u64) -> Rate {
    Rate::from_bps(bps)
}

/// Bytes in each span, as b/s.
fn bps_of(bytes: u64, span: Duration) -> u64 {
    ratio(bytes.saturating_mul(8), MILLION, micros(span).max(1))
}

fn bits_over(bps: u64, span: Duration) -> u64 {
    ratio(bps, micros(span), MILLION)
}

fn part(whole: u64, ppm: u64) -> u64 {
    ratio(whole, ppm, MILLION)
}

fn ratio(value: u64, numerator: u64, denominator: u64) -> u64 {
    let value = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
