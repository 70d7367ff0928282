//! Simulated streams in steps of a millisecond: what the kernel and the network make of the pacer.

use std::collections::VecDeque;
use std::time::Duration;

use units::Rate;

use proto::limits::RECORD_PAYLOAD_MAX;
use proto::record;

use super::super::{Pacer, Reading};

/// What a stream is like.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Payload per second that its path takes.
    pub(super) path_bytes_per_s: f64,
    pub(super) rtt_ms: u64,
    /// What the kernel sends of what pacing says.
    pub(super) pacing_factor: f64,
    pub(super) mss_bytes: u32,
    pub(super) header_bytes: u32,
    /// Part of its steps that are sent twice.
    pub(super) loss: f64,
    /// Milliseconds with and without data, in turn; all the time when the second is 0.
    pub(super) on_off_ms: (u64, u64),
    pub(super) socket_bytes: u64,
}

/// Where readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counters {
    /// Linux 4.19 and later.
    Sent,
    /// Before: a round trip late and in lumps.
    Acknowledged,
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) set_point: Rate,
    pub(super) lines: Vec<Line>,
    pub(super) counters: Counters,
    /// Chance per millisecond that the senders are away for a while, of at most this length.
    pub(super) absence: (f64, u64),
    /// A tick that takes what only pacing limits for something else, or the other way round.
    pub(super) mistaken: f64,
    /// Milliseconds between calls for the allowance.
    pub(super) asked_every_ms: u64,
    /// The low-water mark is set.
    pub(super) marks: bool,
    /// Records are fitted to the set point.
    pub(super) fitted: bool,
    pub(super) seed: u64,
}

/// Shortest time in which a set point should let a stream release one pacing step, two packets.
const STEP: Duration = Duration::from_millis(5);

/// Streams among which what is promised of a set point can be held, at least one. More are held by the gate alone, and a change
/// of the set point waits in the kernel for the packets already due. Sessions have fewer (`tuner::Conditions`).
fn streams_worth(set_point: Rate, mss_bytes: u32, header_bytes: u32) -> u16 {
    let step_bytes = 2 * (u64::from(mss_bytes) + u64::from(header_bytes)).max(1);
    let steps = set_point.in_flight(STEP).get() / step_bytes;
    u16::try_from(steps).unwrap_or(u16::MAX).max(1)
}

impl Scenario {
    /// Up to `streams` streams, as many as the set point is worth, everything about them by chance. The
    /// first can carry the set point and always has data; the others come and go, with any path.
    pub(super) fn any(set_point: Rate, streams: u16, seed: u64) -> Scenario {
        let mut dice = Dice(seed | 1);
        let payload_per_s = set_point.bps() as f64 / 8.0;
        let (mss_bytes, header_bytes) = dice.pick(&[(1448, 52), (1428, 72), (8948, 52), (8928, 72)]);
        // `fq` charges frames, with 14 bytes of Ethernet; without it only payload is charged.
        let frame_bytes = f64::from(mss_bytes + header_bytes + 14);
        let charged = dice.pick(&[1.0, f64::from(mss_bytes) / frame_bytes]);
        let streams = streams.min(streams_worth(set_point, mss_bytes, header_bytes));
        let fair = payload_per_s / f64::from(streams);
        let line = |i: u16| {
            let always = i == 0 || dice.chance(0.4);
            // Timers are up to 30 µs late for each step.
            let late = dice.real(0.0, 30e-6) * fair / (fair / 1_000.0).clamp(f64::from(mss_bytes) * 2.0, 65_536.0);
            Line {
                path_bytes_per_s: if i == 0 { payload_per_s * 1.3 } else { fair * dice.real(0.1, 3.0) },
                rtt_ms: dice.within(0, 200),
                pacing_factor: charged * (1.001 - late.min(0.01)),
                mss_bytes,
                header_bytes,
                loss: dice.pick(&[0.0, 0.0, 0.001, 0.01]),
                on_off_ms: if always { (1, 0) } else { (dice.within(500, 3_000), dice.within(500, 3_000)) },
                socket_bytes: RECORD_PAYLOAD_MAX as u64 * 2 + (payload_per_s * dice.real(0.03, 0.3)) as u64,
            }
        };
        Scenario {
            set_point,
            lines: (0..streams).map(line).collect(),
            counters: Counters::Sent,
            absence: (dice.real(0.0, 0.004), dice.within(1, 10)),
            mistaken: 0.02,
            asked_every_ms: dice.within(1, 5),
            marks: true,
            fitted: true,
            seed,
        }
    }

    /// All streams always have data, and none is slow.
    pub(super) fn steady(mut self) -> Scenario {
        let fair = self.set_point.bps() as f64 / 8.0 / self.lines.len() as f64;
        for line in &mut self.lines {
            line.on_off_ms = (1, 0);
            line.path_bytes_per_s = line.path_bytes_per_s.max(fair * 1.3);
        }
        self
    }

    /// The senders neither fit their records nor set the mark, and the kernel is an old one.
    pub(super) fn without_help(mut self) -> Scenario {
        (self.marks, self.fitted, self.counters) = (false, false, Counters::Acknowledged);
        self
    }

    /// The first line carries this set point too, and there are no more streams than it is worth.
    pub(super) fn good_for(mut self, set_point: Rate) -> Scenario {
        let first = &mut self.lines[0];
        let worth = streams_worth(set_point, first.mss_bytes, first.header_bytes);
        let largest = set_point.max(self.set_point).bps() as f64 / 8.0;
        first.path_bytes_per_s = largest * 1.3;
        first.socket_bytes = first.socket_bytes.max((largest * 0.03) as u64);
        self.lines.truncate(usize::from(worth));
        self
    }
}

/// xorshift64*: good enough for dice.
pub(super) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1_u64 << 53) as f64 * (high - low)
    }

    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn chance(&mut self, of_one: f64) -> bool {
        self.real(0.0, 1.0) < of_one
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

#[derive(Default)]
struct Socket {
    pacing_bytes_per_s: u64,
    waiting_bytes_max: u64,
    /// Of a record that the sender has begun.
    held_bytes: u64,
    unsent_bytes: u64,
    pacing_credit: f64,
    path_credit: f64,
    sent_bytes: u64,
    again_bytes: u64,
    /// What was sent up to each of the last milliseconds, oldest first.
    history: VecDeque<u64>,
    /// What of it is acknowledged.
    seen: u64,
}

impl Socket {
    /// One millisecond; returns the bytes on the wire.
    fn step(&mut self, line: &Line, dice: &mut Dice) -> u64 {
        let pacing = self.pacing_bytes_per_s as f64 * line.pacing_factor / 1_000.0;
        let path = line.path_bytes_per_s / 1_000.0;
        // Two segments, or what a millisecond holds, up to 64 KiB (`tcp_tso_autosize`).
        let step_bytes =
            pacing.clamp(f64::from(line.mss_bytes) * 2.0, 65_536.0_f64.max(f64::from(line.mss_bytes) * 2.0));
        self.pacing_credit = (self.pacing_credit + pacing).min(step_bytes + pacing);
        self.path_credit = (self.path_credit + path).min(step_bytes + path);
        let mut payload = 0;
        while self.unsent_bytes > 0 && self.pacing_credit >= step_bytes && self.path_credit >= step_bytes {
            let again = dice.chance(line.loss);
            let bytes = if again { step_bytes as u64 } else { self.unsent_bytes.min(step_bytes as u64) };
            if again {
                self.again_bytes += bytes;
            } else {
                self.unsent_bytes -= bytes;
            }
            self.sent_bytes += bytes;
            payload += bytes;
            self.pacing_credit -= bytes as f64;
            self.path_credit -= bytes as f64;
        }
        if self.unsent_bytes == 0 {
            // The kernel stores up nothing for a stream that has nothing to send.
            self.pacing_credit = self.pacing_credit.min(step_bytes);
        }
        self.history.push_back(self.sent_bytes);
        if self.history.len() as u64 > line.rtt_ms {
            self.seen = self.history.pop_front().unwrap_or_default();
        }
        payload * u64::from(line.mss_bytes + line.header_bytes) / u64::from(line.mss_bytes)
    }

    fn path_is_the_limit(&self, line: &Line) -> bool {
        self.pacing_credit >= self.path_credit
            && self.pacing_bytes_per_s as f64 * line.pacing_factor > line.path_bytes_per_s
    }
}

pub(super) struct Plant {
    pub(super) scenario: Scenario,
    pub(super) pacer: Pacer,
    sockets: Vec<Socket>,
    dice: Dice,
    now_ms: u64,
    next_tick_ms: u64,
    away_until_ms: u64,
    allowance: u64,
    /// Bytes of packets on the wire up to each millisecond, and what the set point was worth.
    pub(super) wire_bytes: Vec<u64>,
    right_bytes: Vec<f64>,
}

impl Plant {
    pub(super) fn new(scenario: Scenario) -> Plant {
        let pacer = Pacer::new(Duration::ZERO, Some(scenario.set_point));
        let pacer = if scenario.fitted { pacer.with_fitted_records() } else { pacer };
        let mut plant = Plant {
            pacer,
            sockets: scenario.lines.iter().map(|_| Socket::default()).collect(),
            dice: Dice(scenario.seed.rotate_left(17) | 1),
            now_ms: 0,
            next_tick_ms: 0,
            away_until_ms: 0,
            allowance: 0,
            wire_bytes: vec![0],
            right_bytes: vec![0.0],
            scenario,
        };
        for i in 0..plant.sockets.len() {
            let first = plant.reading(i);
            plant.pacer.add(first);
        }
        plant.apply();
        plant
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms)
    }

    pub(super) fn set(&mut self, set_point: Rate) {
        self.pacer.set_rate(self.now(), Some(set_point));
        self.allowance = 0;
        self.apply();
    }

    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            if self.now_ms >= self.next_tick_ms {
                self.next_tick_ms = self.now_ms + self.dice.within(50, 100);
                self.tick();
            }
            self.fill();
            let mut wire_bytes = 0;
            for (socket, line) in self.sockets.iter_mut().zip(&self.scenario.lines) {
                wire_bytes += socket.step(line, &mut self.dice);
            }
            self.now_ms += 1;
            let set_point = self.pacer.set_point().map_or(0.0, |rate| rate.bps() as f64);
            self.wire_bytes.push(self.wire_bytes.last().expect("begins with 0") + wire_bytes);
            self.right_bytes.push(self.right_bytes.last().expect("begins with 0") + set_point / 8_000.0);
        }
    }

    fn tick(&mut self) {
        let readings: Vec<Reading> = (0..self.sockets.len()).map(|i| self.reading(i)).collect();
        self.pacer.tick(self.now(), &readings);
        self.apply();
    }

    fn apply(&mut self) {
        for change in self.pacer.changes() {
            let socket = &mut self.sockets[usize::from(change.stream)];
            socket.pacing_bytes_per_s = change.pacing_bytes_per_s.expect("a set point");
            socket.waiting_bytes_max =
                if self.scenario.marks { change.waiting_bytes.expect("a set point").into() } else { u64::MAX };
        }
    }

    fn reading(&mut self, i: usize) -> Reading {
        let (socket, line) = (&self.sockets[i], &self.scenario.lines[i]);
        let (sent_bytes, retransmitted_bytes) = match self.scenario.counters {
            Counters::Sent => (socket.sent_bytes, socket.again_bytes),
            // Acknowledgements come merged, as steps do.
            Counters::Acknowledged => {
                let lump = (socket.pacing_bytes_per_s / 1_000).clamp(u64::from(line.mss_bytes) * 2, 65_536);
                (socket.seen / lump * lump, socket.again_bytes)
            }
        };
        let backlog = self.has_data(i) || socket.held_bytes + socket.unsent_bytes > 0;
        let limited = socket.unsent_bytes > 0 && !socket.path_is_the_limit(line);
        let mistaken = self.dice.chance(self.scenario.mistaken);
        Reading {
            stream: i as u16,
            sent_bytes,
            retransmitted_bytes,
            packets: 0,
            mss_bytes: line.mss_bytes,
            header_bytes: line.header_bytes,
            waiting_bytes: socket.unsent_bytes,
            backlog,
            rate_limited: backlog && (limited != mistaken),
        }
    }

    fn has_data(&self, i: usize) -> bool {
        let (on, off) = self.scenario.lines[i].on_off_ms;
        self.now_ms % (on + off) < on
    }

    /// Senders fill the sockets with whole records, as far as they may, while they are there.
    fn fill(&mut self) {
        if self.dice.chance(self.scenario.absence.0) {
            self.away_until_ms = self.now_ms + self.dice.within(1, self.scenario.absence.1);
        }
        if self.now_ms < self.away_until_ms {
            return;
        }
        if self.now_ms.is_multiple_of(self.scenario.asked_every_ms) {
            self.allowance = self.pacer.allowance(self.now());
        }
        let payload = if self.scenario.fitted { self.pacer.record_payload_bytes() } else { RECORD_PAYLOAD_MAX };
        let take_bytes = (payload + record::HEADER) as u64;
        let mut open = true;
        while open {
            open = false;
            for i in 0..self.sockets.len() {
                if self.sockets[i].held_bytes == 0
                    && self.allowance >= take_bytes
                    && self.has_data(i)
                    && self.room(i) > 0
                {
                    self.sockets[i].held_bytes = take_bytes;
                    self.allowance -= take_bytes;
                    self.pacer.took(Duration::from_millis(self.now_ms), take_bytes);
                }
                let bytes = self.room(i).min(self.sockets[i].held_bytes);
                self.sockets[i].held_bytes -= bytes;
                self.sockets[i].unsent_bytes += bytes;
                open |= bytes > 0;
            }
        }
    }

    /// The kernel takes a buffer of 64 KiB whenever there is room for a byte.
    fn room(&self, i: usize) -> u64 {
        let (socket, line) = (&self.sockets[i], &self.scenario.lines[i]);
        if socket.unsent_bytes < socket.waiting_bytes_max.min(line.socket_bytes) { 64 << 10 } else { 0 }
    }

    /// Packets that may come together by chance: one step of each stream.
    fn lump_bytes(&self) -> f64 {
        let step = |line: &Line| f64::from(2 * (line.mss_bytes + line.header_bytes));
        self.scenario.lines.iter().map(step).sum()
    }

    fn ratios(&self, from_ms: u64, to_ms: u64, length_ms: u64, lump_bytes: f64) -> impl Iterator<Item = (u64, f64)> {
        (from_ms..=to_ms.saturating_sub(length_ms)).map(move |ms| {
            let (begin, end) = (ms as usize, (ms + length_ms) as usize);
            let sent = (self.wire_bytes[end] - self.wire_bytes[begin]) as f64 + lump_bytes;
            (ms, sent / (self.right_bytes[end] - self.right_bytes[begin]))
        })
    }

    /// The largest second, as a part of what is right, and when it began.
    pub(super) fn largest_second(&self, from_ms: u64, to_ms: u64) -> (u64, f64) {
        let seconds = self.ratios(from_ms, to_ms, 1_000, -self.lump_bytes());
        seconds.fold((0, 0.0), |most, one| if one.1 > most.1 { one } else { most })
    }

    /// The smallest mean over 10 s, likewise.
    pub(super) fn smallest_mean(&self, from_ms: u64, to_ms: u64) -> (u64, f64) {
        let means = self.ratios(from_ms, to_ms, 10_000, self.lump_bytes());
        means.fold((0, f64::MAX), |least, one| if one.1 < least.1 { one } else { least })
    }
}
