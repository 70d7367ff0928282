//! Holding a set point over many streams.
//!
//! A set point is a [`Rate`]: IP packets with their headers and retransmissions, summed over the
//! session's streams. Two instruments hold it together:
//!
//! - **The gate** counts what senders hand to the kernel, a sliding second long, and corrects it by what
//!   sockets' queues took in or gave. It is exact, and what one stream does not take another may at once.
//!   But it works in whole records, and does not see what a queue lets go between two ticks.
//! - **The kernel's pacing** spaces the packets of each stream (`SO_MAX_PACING_RATE`, payload bytes per
//!   second). The set point is shared out among streams by what they can use.
//!
//! ```text
//!            ┌────────────── set point ───────────────┐
//!            ▼                                        ▼
//!  senders ─gate─▶ socket queues ──pacing per stream──▶ wire
//!            ▲                          ▲             │ bytes sent, retransmitted, waiting
//!            └── queues, retransmissions┴─────────────┘
//! ```
//!
//! Which of them leads depends on how long a record lasts at the set point. Up to 6 ms (from 350 Mb/s on,
//! with fitted records from 6 Mb/s on) the gate leads: pacing is set above the shares, so that it only
//! smooths, and a stream takes over at once what another leaves. Else, and for streams with a long queue,
//! pacing leads: it is set to the share, corrected by what the kernel was seen to make of it. Queues are
//! kept short by the low-water mark that goes with pacing, so that a change of the set point meets little
//! that was handed over before.
//!
//! The aim: no second above the set point by more than 1 % or by the packets that one pacing step of each
//! stream releases together, whichever is more; the mean of any 10 s within 1 % while there is something
//! to send and a way to send it; a change complete within 200 ms. What the network or the host takes away
//! is made up for only as far as no second gets too much. What it costs to fall short of the conditions:
//! a share that moves from one stream to another is lost for up to a tick; below 2 Mb/s the kernel's error
//! is learned for seconds, with `fq` and packets of 1500 bytes the first 10 s are 1.5 % short; senders
//! with whole records below 350 Mb/s, or without the low-water mark, miss both bounds by some per cent.

mod gate;
mod kernel;
mod reading;
mod second;
pub(super) mod share;
mod stream;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use proto::limits::RECORD_PAYLOAD_MAX;
use proto::record;
use units::{Bytes, Rate, WireOverhead};

use gate::{Gate, TAKE_PS_MAX};
use kernel::Kernel;
pub use reading::Reading;
use second::Second;
use share::Want;
use stream::{Stream, Traffic};

/// Keeps the streams of one session at its set point.
///
/// Use: [`add`](Pacer::add) each stream with its first reading; every 50 to 100 ms
/// [`tick`](Pacer::tick) with a reading of each, then apply [`changes`](Pacer::changes) in their order;
/// at least every 5 ms, book what the senders took with [`took`](Pacer::took) and tell them the
/// [`allowance`](Pacer::allowance).
///
/// Cost: a tick sorts the streams; an allowance is a few additions.
#[derive(Debug)]
pub struct Pacer {
    set_point: Option<Rate>,
    streams: BTreeMap<u16, Stream>,
    gate: Gate,
    kernel: Kernel,
    second: Second,
    /// Of the session's traffic as a mix.
    overhead: WireOverhead,
    ticked: Duration,
    /// The highest of the set points that were given up since the last tick.
    highest: Option<Rate>,
    /// Senders keep to [`Pacer::record_payload_bytes`].
    fitted: bool,
    /// The gate stands open, and the kernel's pacing holds the set point.
    smooth: bool,
    /// Nobody has asked for an allowance since the first stream joined.
    begins: bool,
}

/// What to set on a stream's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the stream in the session.
    pub stream: u16,
    /// Bytes of payload per second for `SO_MAX_PACING_RATE`; `None` is no limit (`u64::MAX` for the
    /// kernel). Never 0, which the kernel takes for no limit.
    pub pacing_bytes_per_s: Option<u64>,
    /// Bytes that may wait in the socket to be sent for the first time, for `TCP_NOTSENT_LOWAT`;
    /// `None` is no limit (`u32::MAX` for the kernel). Sockets without it hold queues that the gate does
    /// not see in time.
    pub waiting_bytes: Option<u32>,
}

/// How long a fitted record lasts at a stream's share of the set point.
const RECORD_TIME: Duration = Duration::from_millis(3);
/// Smallest record that is worth its header: 1.2 % of it.
const RECORD_PAYLOAD_MIN: u64 = 4 << 10;
/// Of the set point for all idle streams: they send what the gate gives until the next tick sees them.
const IDLE_PPM: u64 = 2_000;
/// Lowest set point that pacing may hold alone.
const SMOOTH_MIN: Rate = Rate::mbps(6);

impl Pacer {
    /// A session without streams. `now` counts from its start, here and everywhere.
    #[must_use]
    pub fn new(now: Duration, set_point: Option<Rate>) -> Pacer {
        Pacer {
            set_point,
            streams: BTreeMap::new(),
            gate: Gate::new(now),
            kernel: Kernel::new(),
            second: Second::new(now),
            overhead: WireOverhead::NONE,
            ticked: now,
            highest: None,
            fitted: false,
            smooth: false,
            begins: false,
        }
    }

    /// The same, for senders that make no record longer than
    /// [`record_payload_bytes`](Pacer::record_payload_bytes) says. Else a record may have any length that
    /// the protocol allows.
    #[must_use]
    pub fn with_fitted_records(self) -> Pacer {
        Pacer { fitted: true, ..self }
    }

    /// The set point; `None` when there is no limit.
    #[must_use]
    pub fn set_point(&self) -> Option<Rate> {
        self.set_point
    }

    /// From the next change of the set point on the kernel's pacing alone holds it, or the gate again. What passes the gate
    /// leaves together: up to 30 ms of the set point, which is a queue somewhere. The kernel spaces packets, and is off by
    /// some per cent (its error is learned only while the set point rests).
    pub fn set_smooth(&mut self, smooth: bool) {
        self.smooth = smooth;
    }

    /// Changes the set point, or lifts it. Apply [`changes`](Pacer::changes) and the
    /// [`allowance`](Pacer::allowance) at once.
    ///
    /// Credit and debt are kept as time, not bytes: what is left of them (at most 30 ms) is worth the
    /// same time at the new rate. A set point of zero closes the gate; what the kernel has already
    /// trickles out.
    pub fn set_rate(&mut self, now: Duration, set_point: Option<Rate>) {
        if set_point == self.set_point {
            return;
        }
        if let (Some(old), Some(new)) = (self.set_point, set_point) {
            // Records that were counted at the old rate end at the new one; of each, half is sent.
            let rest = |rate| self.take_ps(old, rate).saturating_mul(self.streams.len() as u64) / 2;
            if new > old {
                self.gate.rise(now, self.take_ps(old, old));
            } else {
                self.gate.book(now, rest(new).saturating_sub(rest(old)));
            }
        }
        self.highest = self.highest.max(self.set_point);
        self.set_point = set_point;
        self.second.restart(now);
        self.kernel.restart();
        self.allot();
    }

    /// A stream joins; `first` is its state now, from which later readings count.
    pub fn add(&mut self, first: Reading) {
        let stream = Stream::new(first);
        if self.streams.is_empty() {
            self.overhead = stream.overhead();
            self.begins = true;
        }
        self.streams.insert(first.stream, stream);
        self.allot();
    }

    /// A stream is gone; the others take over its share.
    pub fn remove(&mut self, stream: u16) {
        self.streams.remove(&stream);
        self.allot();
    }

    /// Takes a reading of every stream, 50 to 100 ms after the last one. Of a stream without a reading
    /// the last one stays in force.
    pub fn tick(&mut self, now: Duration, readings: &[Reading]) {
        let since = now.saturating_sub(self.ticked);
        let then = std::mem::replace(&mut self.ticked, now);
        let mut traffic = Traffic::default();
        for reading in readings {
            if let Some(stream) = self.streams.get_mut(&reading.stream) {
                traffic += stream.read(*reading, since);
            }
        }
        let payload = Bytes::new(traffic.payload_bytes);
        if let Some(mix) = WireOverhead::measured(Bytes::new(traffic.bits / 8), payload, payload) {
            self.overhead = mix;
        }
        if let Some(set_point) = self.set_point {
            let step_bits = self.streams.values().map(Stream::step_bits).sum();
            if self.second.observe(now, span_ps(traffic.bits, set_point), span_ps(step_bits, set_point)) {
                self.kernel.observe(traffic.sample);
            }
            // The gate has counted what was handed over, not what was sent again; what queues gave went
            // to the wire, what they took in did not. If the set point fell meanwhile, most of it was
            // before that.
            let rate = self.highest.take().map_or(set_point, |highest| highest.max(set_point));
            self.gate.book(now, span_ps(traffic.again_bits, rate));
            self.gate.drain(now, span_ps(traffic.drained_bits, rate));
            self.gate.unbook(now, then, span_ps(traffic.queued_bits, rate));
            let waiting_bits = self.streams.values().map(Stream::waiting_bits).sum();
            self.gate.wait(span_ps(waiting_bits, set_point));
        }
        self.allot();
    }

    /// What is to be set on sockets since the last call, reductions first: applied in this order the
    /// streams' pacing never adds up to more than it should.
    pub fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (&number, stream) in &mut self.streams {
            if let Some((raised, paced)) = stream.news() {
                let pacing_bytes_per_s = paced.map(|p| p.bytes_per_s);
                let waiting_bytes = paced.map(|p| p.waiting_bytes);
                changes.push((raised, Change { stream: number, pacing_bytes_per_s, waiting_bytes }));
            }
        }
        changes.sort_by_key(|&(raised, change)| (raised, change.stream));
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// Bytes of TCP payload, records' headers included, that the senders may hand to the kernel beyond
    /// what was booked with [`took`](Pacer::took). `u64::MAX` without a set point.
    ///
    /// It is nothing, or enough for a whole record.
    pub fn allowance(&mut self, now: Duration) -> u64 {
        let Some(set_point) = self.set_point else {
            return u64::MAX;
        };
        if set_point.is_zero() {
            return 0;
        }
        if self.is_smooth(set_point) {
            return u64::MAX;
        }
        if std::mem::take(&mut self.begins) {
            self.gate.begin(now);
        }
        let open_ps = self.gate.open(now, self.take_ps(set_point, set_point));
        self.overhead.pacing_bytes_per_s(bits_in(open_ps, set_point))
    }

    /// Books payload that senders have handed to the kernel. More than was allowed is a debt.
    pub fn took(&mut self, now: Duration, bytes: u64) {
        if let Some(set_point) = self.set_point {
            self.gate.book(now, span_ps(wire_bits(self.overhead, bytes), set_point));
        }
    }

    /// Payload that a record should have at most, so that it lasts no longer than 3 ms at a stream's
    /// share of the set point.
    ///
    /// A record is counted when it is begun. With longer ones much is counted that is not yet sent, and
    /// below 350 Mb/s the gate cannot lead; see [`with_fitted_records`](Pacer::with_fitted_records).
    #[must_use]
    pub fn record_payload_bytes(&self) -> usize {
        self.set_point.map_or(RECORD_PAYLOAD_MAX, |set_point| self.fitting_bytes(set_point))
    }

    /// For how long, up to now, the session sent what the set point allows (to 1 %): the time in which
    /// the set point was the limit. Of one second, this is the share that
    /// [`attribution`](super::attribution) wants.
    #[must_use]
    pub fn held(&self) -> Duration {
        self.second.held()
    }

    /// How far pacing is corrected, in parts per million of the set point.
    #[must_use]
    pub fn correction_ppm(&self) -> i64 {
        self.kernel.error_ppm() - self.second.ease_ppm()
    }

    /// Shares the set point out.
    fn allot(&mut self) {
        let Some(set_point) = self.set_point else {
            self.streams.values_mut().for_each(Stream::release);
            return;
        };
        let wants: Vec<Want> = self.streams.values().map(|s| s.want(set_point)).collect();
        let grants = share::share(set_point.bps(), &wants);
        let idle = wants.iter().filter(|w| matches!(w, Want::Nothing)).count();
        let spare = set_point.scaled(IDLE_PPM, MILLION as u64 * idle.max(1) as u64);
        let gate_leads = self.take_ps(set_point, set_point) <= TAKE_PS_MAX && !self.is_smooth(set_point);
        // A segment sent at a low rate holds its stream back for long, also when the rate is raised
        // meanwhile. While the gate leads nobody needs to be held that low.
        let fair = set_point.scaled(1, wants.len().max(1) as u64);
        let spare = if gate_leads { fair } else { spare };
        let correction_ppm = self.correction_ppm();
        for (stream, grant_bps) in self.streams.values_mut().zip(grants) {
            stream.pace(Rate::from_bps(grant_bps).max(spare), gate_leads, correction_ppm);
        }
    }

    /// So slow that a step of pacing is a part of a second, streams are not held by pacing alone.
    fn is_smooth(&self, set_point: Rate) -> bool {
        self.smooth && set_point >= SMOOTH_MIN
    }

    /// The time at a rate of what a sender takes at once at a set point: a whole record.
    fn take_ps(&self, set_point: Rate, rate: Rate) -> u64 {
        let payload_bytes = if self.fitted { self.fitting_bytes(set_point) } else { RECORD_PAYLOAD_MAX };
        span_ps(wire_bits(self.overhead, (payload_bytes + record::HEADER) as u64), rate)
    }

    fn fitting_bytes(&self, set_point: Rate) -> usize {
        let share_bytes = set_point.in_flight(RECORD_TIME).get() / self.streams.len().max(1) as u64;
        share_bytes.clamp(RECORD_PAYLOAD_MIN, RECORD_PAYLOAD_MAX as u64) as usize
    }
}

/// Bits on the wire for bytes of payload.
fn wire_bits(overhead: WireOverhead, payload_bytes: u64) -> u64 {
    // A rate is bits per second, so over a second it is bits.
    overhead.rate_of_payload(Bytes::new(payload_bytes), Duration::from_secs(1)).bps()
}

/// The time that bits take at a rate, in picoseconds (a byte at 400 Gb/s takes 20), rounded up.
fn span_ps(bits: u64, rate: Rate) -> u64 {
    if bits == 0 {
        return 0;
    }
    let span = (u128::from(bits) * PS_PER_SECOND).checked_div(u128::from(rate.bps()));
    span.map_or(u64::MAX, |ps| u64::try_from(ps + 1).unwrap_or(u64::MAX))
}

/// The bits of a span at a rate, as a rate over one second; rounded down.
fn bits_in(span_ps: u64, rate: Rate) -> Rate {
    let bits = u128::from(span_ps) * u128::from(rate.bps()) / PS_PER_SECOND;
    Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// At most 213 days.
fn picoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos() * 1_000).unwrap_or(u64::MAX)
}

const NS_PER_SECOND: u128 = 1_000_000_000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// One, in parts per million.
const MILLION: i64 = 1_000_000;
