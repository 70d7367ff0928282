//! A bottleneck in steps of a millisecond: a drop-tail queue that polite sessions share with flows like CUBIC.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::{LOOK, Polite, Reading};

const PACKET: f64 = 1_500.0;
/// What the kernel's estimate keeps of an older round trip.
const SMOOTHING: f64 = 7.0 / 8.0;
/// CUBIC (RFC 9438): packets per s³, and what is kept of the window after a loss.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// An acknowledgement so long after the last one is one that a receiver may delay.
const ALONE_MS: u64 = 2;
/// Round trips of a round that HyStart looks at.
const HYSTART_SAMPLES: u32 = 8;

/// Some bytes of a flow on their way.
#[derive(Clone, Copy, Debug)]
struct Piece {
    flow: usize,
    bytes: f64,
    /// What it waits for, ms,
    wait_ms: f64,
    /// beside the path's delay.
    base_ms: u64,
}

/// Who sends.
pub(super) enum Flow {
    Polite(Box<Session>),
    Cubic(Cubic),
}

pub(super) struct Session {
    pub(super) polite: Polite,
    /// What its disk gives, b/s.
    pub(super) source_bps: f64,
    /// Of acknowledgements that come alone one in so many is 40 ms late, as a receiver may delay them.
    pub(super) delayed_every: u64,
    srtt_us: f64,
    min_rtt_us: f64,
    acks: u64,
    owed_acks: f64,
    acked_ms: u64,
    acked_bytes: f64,
    resent: u32,
}

#[derive(Debug)]
pub(super) struct Cubic {
    cwnd: f64,
    in_flight: f64,
    slow_start: bool,
    w_max: f64,
    epoch_ms: u64,
    deaf_until_ms: u64,
    min_rtt_ms: f64,
    round: HyStart,
}

/// A round trip of slow start.
#[derive(Debug, Default)]
struct HyStart {
    left: f64,
    samples: u32,
    least_ms: f64,
}

pub(super) struct Plant {
    pub(super) rate_bps: f64,
    /// Without a queue, ms.
    pub(super) base_ms: u64,
    pub(super) queue_max_ms: f64,
    /// Part of all pieces that is lost on the way.
    pub(super) loss: f64,
    pub(super) flows: Vec<Flow>,
    /// Bytes delivered of each flow up to each millisecond.
    pub(super) delivered: Vec<Vec<f64>>,
    /// The queue at each, ms.
    pub(super) queue_ms: Vec<f64>,
    queue: VecDeque<Piece>,
    queued: f64,
    /// Acknowledgements on their way back: when they come, what of, and whether it was lost.
    acks: VecDeque<(u64, Piece, bool)>,
    now_ms: u64,
    dice: u64,
}

impl Flow {
    pub(super) fn polite(now_ms: u64) -> Flow {
        Flow::Polite(Box::new(Session {
            polite: Polite::new(Duration::from_millis(now_ms)),
            source_bps: f64::INFINITY,
            delayed_every: u64::MAX,
            srtt_us: 0.0,
            min_rtt_us: f64::MAX,
            acks: 0,
            owed_acks: 0.0,
            acked_ms: 0,
            acked_bytes: 0.0,
            resent: 0,
        }))
    }

    pub(super) fn cubic() -> Flow {
        Flow::Cubic(Cubic {
            cwnd: 10.0 * PACKET,
            in_flight: 0.0,
            slow_start: true,
            w_max: 0.0,
            epoch_ms: 0,
            deaf_until_ms: 0,
            min_rtt_ms: f64::MAX,
            round: HyStart::default(),
        })
    }
}

impl Plant {
    pub(super) fn new(rate_bps: f64, base_ms: u64, queue_max_ms: f64) -> Plant {
        Plant {
            rate_bps,
            base_ms,
            queue_max_ms,
            loss: 0.0,
            flows: Vec::new(),
            delivered: Vec::new(),
            queue_ms: Vec::new(),
            queue: VecDeque::new(),
            queued: 0.0,
            acks: VecDeque::new(),
            now_ms: 0,
            dice: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// A flow begins now; gives its number.
    pub(super) fn add(&mut self, flow: Flow) -> usize {
        self.flows.push(flow);
        self.delivered.push(vec![0.0; self.now_ms as usize + 1]);
        self.flows.len() - 1
    }

    /// A session begins now; gives its number.
    pub(super) fn add_polite(&mut self) -> usize {
        self.add(Flow::polite(self.now_ms))
    }

    pub(super) fn session(&mut self, flow: usize) -> &mut Session {
        match &mut self.flows[flow] {
            Flow::Polite(session) => session,
            Flow::Cubic(_) => panic!("flow {flow} is not polite"),
        }
    }

    pub(super) fn run_s(&mut self, seconds: u64) {
        self.run_ms(seconds * 1_000);
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.step());
    }

    /// Part of the link that a flow had between two times.
    pub(super) fn share(&self, flow: usize, from_s: u64, to_s: u64) -> f64 {
        let at = |s: u64| self.delivered[flow][s as usize * 1_000];
        (at(to_s) - at(from_s)) * 8.0 / (self.rate_bps * (to_s - from_s) as f64)
    }

    /// The mean queue between two times, ms.
    pub(super) fn mean_queue_ms(&self, from_s: u64, to_s: u64) -> f64 {
        let part = &self.queue_ms[from_s as usize * 1_000..to_s as usize * 1_000];
        part.iter().sum::<f64>() / part.len() as f64
    }

    fn step(&mut self) {
        let per_ms = self.rate_bps / 8_000.0;
        let flows = self.flows.len();
        // Whose packets come first changes.
        for turn in 0..flows {
            let flow = (turn + self.now_ms as usize) % flows;
            let bytes = self.flows[flow].sends();
            if bytes > 0.0 {
                let before_ms = self.queued + bytes / 2.0 - per_ms;
                self.enter(Piece { flow, bytes, wait_ms: before_ms.max(0.0) / per_ms, base_ms: self.base_ms }, per_ms);
            }
        }
        let mut room = per_ms;
        let mut out = vec![0.0; self.flows.len()];
        while room > 0.0 {
            let Some(head) = self.queue.front_mut() else { break };
            let bytes = head.bytes.min(room);
            head.bytes -= bytes;
            room -= bytes;
            self.queued -= bytes;
            out[head.flow] += bytes;
            let piece = Piece { bytes, ..*head };
            if head.bytes <= 0.0 {
                self.queue.pop_front();
            }
            let lost = self.chance() < self.loss;
            self.acks.push_back((self.now_ms + self.base_ms, piece, lost));
        }
        self.now_ms += 1;
        for (flow, bytes) in out.into_iter().enumerate() {
            let before = self.delivered[flow].last().copied().unwrap_or(0.0);
            self.delivered[flow].push(before + bytes);
        }
        self.queue_ms.push(self.queued / per_ms);
        while let Some(&(at_ms, piece, lost)) = self.acks.front()
            && at_ms <= self.now_ms
        {
            self.acks.pop_front();
            // Up to 200 µs of waking up.
            let rtt_ms = piece.base_ms as f64 + piece.wait_ms + self.chance() * 0.2;
            self.flows[piece.flow].acknowledged(self.now_ms, piece.bytes, rtt_ms, lost);
        }
        if self.now_ms.is_multiple_of(LOOK.as_millis() as u64) {
            self.look();
        }
    }

    /// What does not fit into the queue is lost; that is heard of when the packets behind it are acknowledged.
    fn enter(&mut self, piece: Piece, per_ms: f64) {
        let fits = (self.queue_max_ms * per_ms + per_ms - self.queued).clamp(0.0, piece.bytes);
        if fits > 0.0 {
            self.queue.push_back(Piece { bytes: fits, ..piece });
            self.queued += fits;
        }
        if fits < piece.bytes {
            let heard_ms = self.now_ms + self.base_ms + (self.queued / per_ms) as u64;
            self.acks.push_back((heard_ms, Piece { bytes: piece.bytes - fits, ..piece }, true));
            self.acks.make_contiguous().sort_by_key(|(at_ms, ..)| *at_ms);
        }
    }

    fn look(&mut self) {
        let now = Duration::from_millis(self.now_ms);
        for flow in &mut self.flows {
            let Flow::Polite(session) = flow else { continue };
            let srtt_us = if session.acks == 0 { self.base_ms as f64 * 1_000.0 } else { session.srtt_us };
            let reading = Reading {
                stream: 0,
                rtt_us: srtt_us as u32,
                min_rtt_us: session.min_rtt_us.min(srtt_us) as u32,
                acks: session.acks as u32,
                acked_bytes: session.acked_bytes as u64,
                resent: session.resent,
            };
            session.polite.look(now, &[reading], None);
        }
    }

    fn chance(&mut self) -> f64 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        (self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Flow {
    /// Bytes in this millisecond.
    fn sends(&mut self) -> f64 {
        match self {
            Flow::Polite(session) => (session.polite.rate().bps() as f64).min(session.source_bps) / 8_000.0,
            Flow::Cubic(cubic) => {
                let bytes = (cubic.cwnd - cubic.in_flight).max(0.0);
                cubic.in_flight += bytes;
                bytes
            }
        }
    }

    fn acknowledged(&mut self, now_ms: u64, bytes: f64, rtt_ms: f64, lost: bool) {
        match self {
            Flow::Polite(session) => session.acknowledged(now_ms, bytes, rtt_ms, lost),
            Flow::Cubic(cubic) => cubic.acknowledged(now_ms, bytes, rtt_ms, lost),
        }
    }
}

impl Session {
    /// One acknowledgement for two packets.
    fn acknowledged(&mut self, now_ms: u64, bytes: f64, rtt_ms: f64, lost: bool) {
        if lost {
            self.resent += 1;
            return;
        }
        self.acked_bytes += bytes;
        self.owed_acks += bytes / (2.0 * PACKET);
        while self.owed_acks >= 1.0 {
            self.owed_acks -= 1.0;
            self.acks += 1;
            let alone = now_ms - std::mem::replace(&mut self.acked_ms, now_ms) > ALONE_MS;
            let late = if alone && self.acks.is_multiple_of(self.delayed_every) { 40_000.0 } else { 0.0 };
            let rtt_us = rtt_ms * 1_000.0 + late;
            self.min_rtt_us = self.min_rtt_us.min(rtt_us);
            let before = if self.acks == 1 { rtt_us } else { self.srtt_us };
            self.srtt_us = before * SMOOTHING + rtt_us * (1.0 - SMOOTHING);
        }
    }
}

impl Cubic {
    fn acknowledged(&mut self, now_ms: u64, bytes: f64, rtt_ms: f64, lost: bool) {
        self.in_flight -= bytes;
        if lost {
            if now_ms >= self.deaf_until_ms {
                self.deaf_until_ms = now_ms + rtt_ms as u64;
                self.leave_slow_start(now_ms);
                self.w_max = self.cwnd;
                self.cwnd = (self.cwnd * CUBIC_BETA).max(2.0 * PACKET);
            }
            return;
        }
        self.min_rtt_ms = self.min_rtt_ms.min(rtt_ms);
        if self.slow_start {
            self.cwnd += bytes;
            self.round.left -= bytes;
            if self.round.left <= 0.0 {
                self.round = HyStart { left: self.cwnd, samples: 0, least_ms: f64::MAX };
            }
            if self.round.samples < HYSTART_SAMPLES {
                self.round.samples += 1;
                self.round.least_ms = self.round.least_ms.min(rtt_ms);
            }
            // As in Linux: an eighth of the round trip, 4 to 16 ms.
            let most_ms = self.min_rtt_ms + (self.min_rtt_ms / 8.0).clamp(4.0, 16.0);
            if self.cwnd >= 16.0 * PACKET && self.round.samples == HYSTART_SAMPLES && self.round.least_ms > most_ms {
                self.leave_slow_start(now_ms);
                self.w_max = self.cwnd;
            }
            return;
        }
        let since_s = (now_ms - self.epoch_ms) as f64 / 1_000.0;
        let beta = if self.cwnd < self.w_max { CUBIC_BETA } else { 1.0 };
        let k = (self.w_max / PACKET * (1.0 - beta) / CUBIC_C).cbrt();
        let target = (CUBIC_C * (since_s + rtt_ms / 1_000.0 - k).powi(3)) * PACKET + self.w_max;
        if target > self.cwnd {
            self.cwnd += (target - self.cwnd).min(self.cwnd / 2.0) * bytes / self.cwnd;
        }
    }

    fn leave_slow_start(&mut self, now_ms: u64) {
        self.slow_start = false;
        self.epoch_ms = now_ms;
    }
}
