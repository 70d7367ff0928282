//! One stream: what it can use of the set point, and what its socket is told.

use std::time::Duration;

use units::{Bytes, Rate, WireOverhead};

use super::kernel::Sample;
use super::share::Want;
use super::{MILLION, NS_PER_SECOND, Reading, wire_bits};

/// Over how long a stream's rate is smoothed when it falls.
const SMOOTHING: Duration = Duration::from_millis(300);
/// A stream that can use more is first offered this part of the set point, then twice what it sends.
const FIRST_OFFER: u64 = 64;
/// Pacing above the share while the gate leads: more than the kernel's error and enough to make up for
/// a late sender, and little enough to stay smooth.
const LOOSE_PPM: i64 = 500_000;
/// Pacing above the share while pacing leads, so that queues drain.
const DRAIN_PPM: i64 = 3_000;
/// Pacing of a stream that does not use its share, above what it sends: room to grow between ticks.
const GROWTH_PPM: i64 = 500_000;
/// What a socket may hold to be sent, as time at its pacing.
const WAITING: Duration = Duration::from_millis(5);
/// And at least: two small records.
const WAITING_BYTES_MIN: u32 = 8 << 10;
/// A queue that lasts longer cannot be left to the gate.
const LONG: Duration = Duration::from_millis(30);

#[derive(Debug)]
pub(super) struct Stream {
    seen: Reading,
    overhead: WireOverhead,
    /// What it sends on the wire.
    rate: Rate,
    state: State,
    /// Its share of the set point.
    grant: Rate,
    /// What its pacing stands for on the wire,
    paced: Rate,
    /// and whether that is meant to be exact.
    exact: bool,
    paces: Option<Paced>,
    /// What the caller knows of it, once it knows.
    told: Option<Option<Paced>>,
}

/// What is set on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paced {
    pub(super) bytes_per_s: u64,
    pub(super) waiting_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has nothing to send.
    Idle,
    /// Its path takes less than its share.
    Slow,
    /// It can use more: its queue waits for nothing but pacing, or is empty because the gate is closed.
    Hungry,
}

impl Stream {
    pub(super) fn new(first: Reading) -> Stream {
        Stream {
            seen: first,
            overhead: first.overhead(),
            rate: Rate::ZERO,
            state: State::Hungry,
            grant: Rate::ZERO,
            paced: Rate::ZERO,
            exact: false,
            paces: None,
            told: None,
        }
    }

    pub(super) fn overhead(&self) -> WireOverhead {
        self.overhead
    }

    /// Bits on the wire that one step of its pacing releases at low rates.
    pub(super) fn step_bits(&self) -> u64 {
        self.seen.step_bits()
    }

    /// Bits on the wire of what waits in its socket.
    pub(super) fn waiting_bits(&self) -> u64 {
        wire_bits(self.overhead, self.seen.waiting_bytes)
    }

    /// Takes a reading `since` the last one.
    pub(super) fn read(&mut self, reading: Reading, since: Duration) -> Traffic {
        let before = std::mem::replace(&mut self.seen, reading);
        self.overhead = reading.overhead_since(&before);
        let bits = |bytes: u64| wire_bits(self.overhead, bytes);
        let payload_bytes = reading.sent_bytes.saturating_sub(before.sent_bytes);
        let mut traffic = Traffic {
            payload_bytes,
            bits: bits(payload_bytes),
            again_bits: bits(reading.retransmitted_bytes.saturating_sub(before.retransmitted_bytes)),
            drained_bits: bits(before.waiting_bytes.saturating_sub(reading.waiting_bytes)),
            queued_bits: bits(reading.waiting_bytes.saturating_sub(before.waiting_bytes)),
            sample: Sample::default(),
        };
        if self.exact && before.rate_limited && reading.rate_limited {
            traffic.sample = Sample {
                length: since,
                asked_bits: u128::from(self.paced.bps()) * since.as_nanos() / NS_PER_SECOND,
                sent_bits: u128::from(traffic.bits),
                step_bits: u128::from(reading.step_bits()),
            };
        }
        self.state = match (reading.backlog, reading.rate_limited, self.state) {
            (false, ..) => State::Idle,
            (true, true, _) | (true, _, State::Idle) => State::Hungry,
            (true, false, _) if reading.waiting_bytes == 0 => State::Hungry,
            (true, false, _) => State::Slow,
        };
        // What it sent before it fell idle is the first guess of what it will send.
        if self.state != State::Idle {
            let now = self.overhead.rate_of_payload(Bytes::new(payload_bytes), since);
            self.rate = now.max(self.faded(now, since));
        }
        traffic
    }

    fn faded(&self, now: Rate, since: Duration) -> Rate {
        let all = SMOOTHING.as_micros() as u64;
        let new = since.min(SMOOTHING).as_micros() as u64;
        self.rate.scaled(all - new, all) + now.scaled(new, all)
    }

    /// What it can use of the set point.
    pub(super) fn want(&self, set_point: Rate) -> Want {
        match self.state {
            State::Idle => Want::Nothing,
            State::Slow => Want::Uses(self.rate.bps()),
            State::Hungry => {
                let offer = self.rate.saturating_mul(2).max(set_point.scaled(1, FIRST_OFFER));
                Want::More(offer.bps())
            }
        }
    }

    /// Sets pacing for a share of the set point.
    pub(super) fn pace(&mut self, grant: Rate, gate_leads: bool, correction_ppm: i64) {
        self.grant = grant;
        let scaled = |rate: Rate, above_ppm: i64| {
            let factor_ppm = u64::try_from(MILLION + above_ppm + correction_ppm).unwrap_or(0);
            rate.scaled(factor_ppm, MILLION as u64)
        };
        let long = self.waiting_bits() > grant.in_flight(LONG).get().saturating_mul(8);
        self.exact = long || !gate_leads;
        self.paced = match self.state {
            _ if self.exact => scaled(grant, DRAIN_PPM),
            State::Slow => scaled(grant, LOOSE_PPM).max(scaled(self.rate, GROWTH_PPM)),
            _ => scaled(grant, LOOSE_PPM),
        };
        let bytes_per_s = self.overhead.pacing_bytes_per_s(self.paced).max(self.seen.pacing_min());
        let waiting = u128::from(bytes_per_s) * WAITING.as_nanos() / NS_PER_SECOND;
        let waiting_bytes = u32::try_from(waiting).unwrap_or(u32::MAX).max(WAITING_BYTES_MIN);
        self.paces = Some(Paced { bytes_per_s, waiting_bytes });
    }

    /// Lifts pacing.
    pub(super) fn release(&mut self) {
        self.paces = None;
    }

    /// What its socket is to be told, if that is new, and whether it is a raise.
    pub(super) fn news(&mut self) -> Option<(bool, Option<Paced>)> {
        if self.told == Some(self.paces) {
            return None;
        }
        let rate = |paces: Option<Paced>| paces.map_or(u64::MAX, |p| p.bytes_per_s);
        let raised = rate(self.paces) > rate(self.told.flatten());
        self.told = Some(self.paces);
        Some((raised, self.paces))
    }
}

/// What went over the wire between two readings, and what did not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) payload_bytes: u64,
    /// The same with its headers.
    pub(super) bits: u64,
    /// Of them, sent again.
    pub(super) again_bits: u64,
    /// What sockets' queues shrank and grew by.
    pub(super) drained_bits: u64,
    pub(super) queued_bits: u64,
    /// Of streams that only pacing held back.
    pub(super) sample: Sample,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.payload_bytes += other.payload_bytes;
        self.bits += other.bits;
        self.again_bits += other.again_bits;
        self.drained_bits += other.drained_bits;
        self.queued_bits += other.queued_bits;
        self.sample += other.sample;
    }
}
