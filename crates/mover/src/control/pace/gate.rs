//! How much the senders may take: a bucket, and a second's worth of memory.
//!
//! Everything is counted as time at the set point in force when it was sent, in picoseconds: 1 MB at
//! 8 Gb/s is 1 ms. So a change of the set point needs no conversion, leaves at most the burst behind,
//! and frequent changes give nobody a new burst.

use std::time::Duration;

/// A slot of the memory. A booking leaves the window up to one slot late: with slots of 4 ms the window was so often
/// full at the set point itself that a pause came back a second later, again and again.
const SLOT: Duration = Duration::from_millis(1);
/// Slots that cover a second, and the running one.
const SLOTS: usize = 1_001;
/// What may be booked in a window, so no second has more. Windows are up to a slot longer than a second,
/// and what leaves them is taken again half a gap between two calls later: while it is the window that
/// limits (for a second after a burst) callers 5 ms apart get at least the set point.
const WINDOW_PS: i64 = 1_008_000_000_000;
/// Longest piece for which there is a window: 6 ms, a record of 256 KiB at 350 Mb/s.
pub(super) const TAKE_PS_MAX: u64 = 6_000_000_000;
/// The bucket fills so much faster than time that what is lost in rounding is not missed.
const FILL_PPM: u128 = 1_000_500;
/// What may stay unused in the bucket: a sender may be that late.
const BURST_PS: i64 = 30_000_000_000;
/// What is in it when streams begin. What they did not send before they were there is not made up for: a burst of 130 ms came back
/// as a pause a second later.
const FIRST_PS: i64 = BURST_PS / 4;
/// The same while the window is full. What is stored then follows the pause as a burst, and a second later the window is full of
/// that burst and pauses again: over a path on which the first second is uneven, a pause of 40 ms came back every second.
const FULL_PS: i64 = 5_000_000_000;
/// How long after a rise of the set point nothing is made up for. Congestion windows that are still short for it leave a part
/// unsent (13 of the first 100 ms, from 100 to 500 Mb/s over 100 ms). Made up for at once that was 120 % over the next 100 ms, which
/// the window took off again a second later: 84 %.
const RISING: Duration = Duration::from_millis(250);
/// What may stay in the bucket meanwhile. Whatever comes on top of what queues let go then fills the window a second later: with 5 ms,
/// and a window of 1006, 100 ms had 88 % of the set point.
const RISING_PS: i64 = 1_000_000_000;
/// Longest absence of the caller for which the bucket fills.
const ABSENCE_MAX: Duration = Duration::from_millis(100);
/// What is held free for queues: as much as short ones hold. Long ones are paced exactly.
const WAITING_PS_MAX: i64 = 6_000_000_000;
/// Deepest debt that is remembered.
const DEBT_PS_MAX: i64 = 10_000_000_000_000;

#[derive(Debug)]
pub(super) struct Gate {
    slots_ps: Vec<i64>,
    /// Number of the running slot since the start.
    slot: u64,
    /// Sum of all slots.
    booked_ps: i64,
    bucket_ps: i64,
    filled: Duration,
    /// What was taken back at the last tick: it may stay in the bucket until the next.
    returned_ps: i64,
    /// What sockets' queues can add to the wire beside what is taken.
    waiting_ps: i64,
    /// What queues took in while the set point rose, and have not let go since.
    charged_ps: i64,
    /// When the set point rose last,
    rose: Duration,
    /// and until when it counts as rising.
    rising_until: Duration,
}

impl Gate {
    pub(super) fn new(now: Duration) -> Gate {
        Gate {
            slots_ps: vec![0; SLOTS],
            slot: slot_of(now),
            booked_ps: 0,
            bucket_ps: FIRST_PS,
            filled: now,
            returned_ps: 0,
            waiting_ps: 0,
            charged_ps: 0,
            rose: now,
            rising_until: now,
        }
    }

    /// There was nobody to take anything until now. A debt is paid by the time all the same.
    pub(super) fn begin(&mut self, now: Duration) {
        self.fill(now);
        self.bucket_ps = self.bucket_ps.min(FIRST_PS);
    }

    /// What may be taken now, if it is taken in pieces of `take_ps`: nothing, or at least one piece.
    ///
    /// A piece may be more than is in the bucket: the rest is a debt, so the mean stays right. Where
    /// pieces are long ([`TAKE_PS_MAX`]) there is no window: what is handed over in a second says nothing
    /// then of what is sent in it.
    pub(super) fn open(&mut self, now: Duration, take_ps: u64) -> u64 {
        self.fill(now);
        self.slide(now);
        let bucket_ps = u64::try_from(self.bucket_ps).unwrap_or(0);
        if bucket_ps == 0 || take_ps > TAKE_PS_MAX {
            return if bucket_ps == 0 { 0 } else { bucket_ps.max(take_ps) };
        }
        let window_ps = WINDOW_PS.saturating_sub(self.booked_ps).saturating_sub(self.waiting_ps);
        let window_ps = u64::try_from(window_ps).unwrap_or(0);
        if window_ps < take_ps {
            self.bucket_ps = self.bucket_ps.min(FULL_PS);
            return 0;
        }
        bucket_ps.clamp(take_ps, window_ps)
    }

    /// The set point rises: a debt from the old one shrinks to little, a window that was not kept
    /// ([`TAKE_PS_MAX`]) begins as if it had been, and for a moment what cannot be sent is let go.
    pub(super) fn rise(&mut self, now: Duration, take_ps: u64) {
        self.slide(now);
        self.bucket_ps = self.bucket_ps.max(-BURST_PS);
        self.rose = now;
        self.rising_until = now + RISING;
        if take_ps > TAKE_PS_MAX {
            let slot_ps = SLOT.as_nanos() as i64 * 1_000;
            self.slots_ps.fill(slot_ps);
            self.booked_ps = slot_ps * SLOTS as i64;
        }
    }

    /// Counts what was taken, or what went to the wire beside it.
    pub(super) fn book(&mut self, now: Duration, span_ps: u64) {
        self.slide(now);
        self.add(self.slot, i64::try_from(span_ps).unwrap_or(i64::MAX));
    }

    /// Counts what queues let go to the wire. What they took in while the set point rose is paid for.
    pub(super) fn drain(&mut self, now: Duration, span_ps: u64) {
        let paid_ps = self.charged_ps.min(i64::try_from(span_ps).unwrap_or(i64::MAX));
        self.book(now, span_ps);
        self.charged_ps -= paid_ps;
        self.bucket_ps = self.bucket_ps.saturating_add(paid_ps);
    }

    /// Takes back what was counted since `then` but did not go to the wire. It leaves the window as if
    /// it had been counted at `then`, so that no window gets it for nothing; or when the set point rose, if that was later:
    /// queues grow from then on, and a window that begins between the two has what was counted, but not what was taken back.
    ///
    /// While the set point rises it is paid for at once instead: else queues, once windows have grown, let go as much on top of the
    /// set point (100 to 500 Mb/s over 100 ms: 128 % for 50 ms), which the window takes off again a second later.
    pub(super) fn unbook(&mut self, now: Duration, then: Duration, span_ps: u64) {
        self.slide(now);
        let oldest = self.slot.saturating_sub(SLOTS as u64 - 1);
        let returned_ps = i64::try_from(span_ps).unwrap_or(i64::MAX);
        let bucket_ps = self.bucket_ps;
        self.add(slot_of(then.max(self.rose)).clamp(oldest, self.slot), -returned_ps);
        if now < self.rising_until {
            self.bucket_ps = bucket_ps.saturating_sub(returned_ps).max(-DEBT_PS_MAX);
            self.charged_ps = self.charged_ps.saturating_add(returned_ps);
            self.returned_ps = 0;
        } else {
            self.returned_ps = returned_ps;
        }
    }

    /// What waits in sockets' queues now.
    pub(super) fn wait(&mut self, span_ps: u64) {
        self.waiting_ps = i64::try_from(span_ps).unwrap_or(i64::MAX).min(WAITING_PS_MAX);
    }

    fn add(&mut self, slot: u64, span_ps: i64) {
        let slot = (slot % SLOTS as u64) as usize;
        self.slots_ps[slot] = self.slots_ps[slot].saturating_add(span_ps);
        self.booked_ps = self.booked_ps.saturating_add(span_ps);
        self.bucket_ps = self.bucket_ps.saturating_sub(span_ps).max(-DEBT_PS_MAX);
    }

    /// What was left is cut to the burst, then the time since the last call is added: for a debt all of
    /// it, else as much as a caller may be absent.
    fn fill(&mut self, now: Duration) {
        let since = now.saturating_sub(self.filled);
        self.filled = self.filled.max(now);
        let burst_ps = if now < self.rising_until { RISING_PS } else { BURST_PS.saturating_add(self.returned_ps) };
        self.bucket_ps = self.bucket_ps.min(burst_ps).saturating_add_unsigned(filling(since));
        self.bucket_ps = self.bucket_ps.min(burst_ps.saturating_add_unsigned(filling(ABSENCE_MAX)));
    }

    fn slide(&mut self, now: Duration) {
        let slot = slot_of(now);
        let passed = slot.saturating_sub(self.slot).min(SLOTS as u64);
        for i in 1..=passed {
            let oldest = ((self.slot + i) % SLOTS as u64) as usize;
            self.slots_ps[oldest] = 0;
        }
        if passed > 0 {
            self.slot = slot;
            self.booked_ps = self.slots_ps.iter().fold(0_i64, |sum, slot| sum.saturating_add(*slot));
        }
    }
}

/// At most 213 days.
fn filling(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() * FILL_PPM / 1_000).unwrap_or(u64::MAX)
}

fn slot_of(now: Duration) -> u64 {
    (now.as_millis() / SLOT.as_millis()) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_PS: u64 = 1_000_000_000_000;

    /// Takes all it can in pieces, at each of the times; returns (time, span) of each take.
    fn greedy(gaps: &[Duration], take_ps: u64) -> Vec<(Duration, u64)> {
        let mut gate = Gate::new(Duration::ZERO);
        let (mut now, mut log) = (Duration::ZERO, Vec::new());
        for gap in gaps {
            now += *gap;
            let taken_ps = gate.open(now, take_ps) / take_ps * take_ps;
            gate.book(now, taken_ps);
            log.push((now, taken_ps));
        }
        log
    }

    fn largest_second(log: &[(Duration, u64)]) -> u64 {
        let second = |i: usize| {
            let end = log[i].0 + Duration::from_secs(1);
            log[i..].iter().take_while(|(at, _)| *at < end).map(|(_, ps)| ps).sum::<u64>()
        };
        (0..log.len()).map(second).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_second_above_and_the_mean_holds(gaps_us in prop::collection::vec(50..6_000_u64, 20), take_us in 1..2_000_u64) {
            let take_ps = take_us * 1_000_000;
            let gaps: Vec<Duration> = gaps_us.iter().cycle().take(2_000).map(|us| Duration::from_micros(*us)).collect();
            let log = greedy(&gaps, take_ps);
            let largest = largest_second(&log);
            prop_assert!(largest <= WINDOW_PS as u64 + take_ps, "{largest}");
            let time_ps = log.last().expect("not empty").0.as_nanos() as u64 * 1_000;
            let sum: u64 = log.iter().map(|(_, ps)| ps).sum();
            // The gate can be closed just now, for a burst that was given at the start of the window.
            prop_assert!(sum + take_ps + 2 * BURST_PS as u64 >= time_ps, "{sum} in {time_ps}");
        }
    }

    #[test]
    fn a_piece_longer_than_the_window_passes_at_the_mean() {
        let gaps = vec![Duration::from_millis(10); 10_000];
        let sum: u64 = greedy(&gaps, 2 * SECOND_PS).iter().map(|(_, ps)| ps).sum();
        assert!((100 * SECOND_PS..=103 * SECOND_PS).contains(&sum), "{sum} in 100 s");
    }

    #[test]
    fn a_pause_does_not_come_back_every_second() {
        let mut gate = Gate::new(Duration::ZERO);
        let step = Duration::from_millis(2);
        let mut taken = Vec::new();
        for call in 0..2_500_u32 {
            let now = step * call;
            // What slow start leaves in a queue is taken back, and handed over again: a burst in the first second.
            if call == 250 {
                gate.unbook(now, now - Duration::from_millis(100), SECOND_PS / 20);
            }
            let asked_ps = if call < 200 { SECOND_PS / 1_000 } else { SECOND_PS };
            let take_ps = gate.open(now, SECOND_PS / 1_000).min(asked_ps);
            gate.book(now, take_ps);
            taken.push(take_ps);
        }
        // 20 ms, from the third second on.
        for (at, ten) in taken.chunks(10).enumerate().skip(100) {
            let sum: u64 = ten.iter().sum();
            assert!((SECOND_PS * 17 / 1_000..=SECOND_PS * 23 / 1_000).contains(&sum), "{sum} at {} ms", at * 20);
        }
    }

    #[test]
    fn what_a_rise_leaves_unsent_is_not_made_up_for() {
        let open = |rises: bool, later: Duration| {
            let then = Duration::from_secs(2);
            let mut gate = Gate::new(then);
            if rises {
                gate.rise(then, 1);
            }
            let then = then + later;
            gate.open(then, 1);
            gate.book(then, SECOND_PS / 20);
            let now = then + Duration::from_millis(100);
            gate.unbook(now, then, SECOND_PS / 50);
            let before = gate.open(now, 1);
            gate.drain(now, SECOND_PS / 100);
            (before, before as i64 - gate.bucket_ps)
        };
        let (steady, rising) = (open(false, Duration::ZERO), open(true, Duration::ZERO));
        // What queues took in is paid for; nor is much stored.
        assert_eq!(steady.0 - rising.0, 2 * SECOND_PS / 50 + (FIRST_PS - RISING_PS) as u64);
        assert_eq!((steady.1, rising.1), (SECOND_PS as i64 / 100, 0), "and let go by them later it is not again");
        assert_eq!(open(true, RISING), open(false, RISING), "until it has risen");
    }

    #[test]
    fn what_queues_took_in_at_a_rise_fills_no_window_a_second_later() {
        let ms = Duration::from_millis;
        let mut gate = Gate::new(Duration::ZERO);
        let slot_ps = SECOND_PS / 1_000;
        for at in 0..2_500 {
            gate.book(ms(at), slot_ps);
            match at {
                1_500 => {
                    gate.rise(ms(at), 1);
                    gate.book(ms(at), 8 * slot_ps);
                }
                // The tick before was 50 ms before the rise.
                1_510 => gate.unbook(ms(at), ms(1_450), 8 * slot_ps),
                _ => {}
            }
            if at > 1_510 {
                assert!(gate.booked_ps <= SLOTS as i64 * slot_ps as i64, "{} at {at} ms", gate.booked_ps);
            }
        }
    }

    #[test]
    fn nothing_is_stored_up() {
        let mut gate = Gate::new(Duration::ZERO);
        let late = Duration::from_secs(60);
        assert!(gate.open(late, 1) <= SECOND_PS * 131 / 1_000, "the burst and the longest absence");
        assert!(gate.open(late, 1) <= SECOND_PS * 131 / 1_000);
        gate.book(late, SECOND_PS);
        assert_eq!(gate.open(late, 1), 0);
        assert_eq!(gate.open(late + Duration::from_millis(800), 1), 0, "a debt is paid");
        assert!(gate.open(late + Duration::from_secs(10), 1) > 0);
    }

    #[test]
    fn time_that_stands_still_or_turns_back_gives_nothing() {
        let mut gate = Gate::new(Duration::from_secs(9));
        gate.book(Duration::from_secs(9), SECOND_PS);
        assert_eq!(gate.open(Duration::from_secs(9), 1), 0);
        assert_eq!(gate.open(Duration::from_secs(2), 1), 0);
    }

    #[test]
    fn the_largest_bookings_do_not_overflow() {
        let mut gate = Gate::new(Duration::ZERO);
        for _ in 0..3 {
            gate.book(Duration::ZERO, u64::MAX);
        }
        assert_eq!(gate.open(Duration::from_secs(5), 1), 0);
    }
}
