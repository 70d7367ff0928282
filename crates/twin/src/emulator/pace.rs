//! How long a thread sleeps, and what it makes of its waking up. All times are nanoseconds of one clock.

use std::time::Duration;

/// The most that a wake-up is reckoned to take: more is not the processor waking up but somebody else running.
const WAKE_MAX: u64 = 200_000;
/// Weight of one wake-up in the mean, as a divisor.
const WAKE_WEIGHT: u64 = 8;
/// What a packet takes from one program to the other besides its delay, when it comes to a machine that sleeps: the
/// sender's call, waking this thread, the receiver's stack. Twice this and two wake-ups are what a ping and its answer take,
/// whose ways are on two threads (two cores of a Xeon in a virtual machine). While packets are dense it is
/// hidden behind them; the time since the sleep began bounds what is taken off.
const OUTSIDE: u64 = 65_000;
/// Time between two releases while traffic flows: what falls due in between leaves together, neighbouring segments as one
/// packet. Without it a link of 1 Gb/s would have a segment due every 12 µs, and the thread would never sleep: the kernel
/// takes the processor away from such a one of real-time priority for 50 ms in each second, if others wait for it. After a
/// pause it does not apply.
const SPACING: u64 = 100_000;
/// The same while traffic is dense: a super-packet that is cut at each release costs the thread and the receiver as much as
/// one more.
const SPACING_DENSE: u64 = 250_000;
/// What falls due in a [`SPACING`] while traffic is dense: most of a super-packet of 64 KB, 4 Gb/s.
const DENSE_BYTES: u64 = 48 << 10;
/// A thread that had no sleep for so long takes a nap. One of real-time priority that has work without end keeps what else is
/// bound to its processor (the kernel's own threads) waiting, and after a second the kernel gives them 50 ms in a row: lateness of
/// 50 ms. They need some microseconds, so a nap now and then, 0.5 % of the time, is all that it takes.
const NAP_AFTER: u64 = 10_000_000;
/// How long a nap is: what comes meanwhile waits in the device.
const NAP: Duration = Duration::from_micros(50);

/// What a thread knows of its own waking up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// What it takes from the end of a sleep until the thread runs, in the mean: a processor that was halted takes tens
    /// of microseconds to come back. Sleeps end so much earlier, and what ended a sleep came so much earlier.
    wake: u64,
    /// When something was released last.
    released: u64,
    /// Time to keep from then on.
    spacing: u64,
    /// When the devices were looked at last.
    looked: u64,
    /// When the thread slept last.
    rested: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { wake: 0, released: 0, spacing: SPACING, looked: 0, rested: 0 }
    }
}

impl Pace {
    /// All that was due is out, `bytes` of it, at `now`.
    pub(super) fn released(&mut self, now: u64, bytes: u64) {
        let took = now.saturating_sub(self.released);
        let is_dense = bytes.saturating_mul(SPACING) >= took.saturating_mul(DENSE_BYTES);
        self.spacing = if is_dense { SPACING_DENSE } else { SPACING };
        self.released = now;
    }

    /// When to release what is due at `due`.
    pub(super) fn release(&self, due: u64) -> u64 {
        due.max(self.released + self.spacing)
    }

    /// Until when to sleep for it. A spacing may be overslept: with wake-ups as long as that there would be no sleep else.
    pub(super) fn until(&self, due: u64) -> u64 {
        due.saturating_sub(self.wake).max(self.released + self.spacing)
    }

    /// Before a look at the devices at `now` with a sleep of up to `span`: how long to sleep besides, if it is time for that.
    pub(super) fn nap(&mut self, now: u64, span: u64) -> Option<Duration> {
        let is_due = span == 0 && now.saturating_sub(self.rested) > NAP_AFTER;
        if span > 0 || is_due {
            self.rested = now;
        }
        is_due.then_some(NAP)
    }

    /// A look at the devices, with a sleep of up to `span` from `begin` on, was over at `end`; packets had come, or not.
    /// When those came, as far as that can be known: the kernel does not stamp them.
    pub(super) fn woken(&mut self, begin: u64, span: u64, end: u64, came: bool) -> u64 {
        let looked = std::mem::replace(&mut self.looked, end);
        if span == 0 {
            // They came at some time since the last look, while others were written.
            return looked.midpoint(end);
        }
        if !came {
            let late = end.saturating_sub(begin + span).min(WAKE_MAX);
            self.wake = (self.wake * (WAKE_WEIGHT - 1) + late) / WAKE_WEIGHT;
        }
        // One of them ended the sleep.
        end - (self.wake + OUTSIDE).min(end - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One whose wake-ups take 20 µs.
    fn pace() -> Pace {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.woken(0, MS, MS + 20_000, false);
        }
        assert!(pace.wake.abs_diff(20_000) < 10, "{}", pace.wake);
        pace
    }

    #[test]
    fn a_sleep_ends_before_what_is_due_by_what_waking_takes() {
        let pace = pace();
        assert_eq!(pace.until(5 * MS), 5 * MS - pace.wake);
        assert_eq!(pace.release(5 * MS), 5 * MS);
    }

    #[test]
    fn what_is_due_soon_after_a_release_keeps_its_distance() {
        let pace = Pace { released: 5 * MS, ..pace() };
        assert_eq!(pace.until(5 * MS + 12_000), 5 * MS + SPACING);
        assert_eq!(pace.release(5 * MS + 12_000), 5 * MS + SPACING);
        assert_eq!(pace.until(6 * MS), 6 * MS - pace.wake);
    }

    #[test]
    fn without_a_sleep_a_nap_is_taken_now_and_then() {
        let mut pace = Pace::default();
        let naps = (0..100 * MS).step_by(100_000).filter(|&now| pace.nap(now, 0).is_some()).count();
        assert_eq!(naps, 9);
        let mut pace = Pace::default();
        let naps = (0..100 * MS).step_by(100_000).filter(|&now| pace.nap(now, now % MS).is_some()).count();
        assert_eq!(naps, 0, "it sleeps as it is");
    }

    #[test]
    fn only_dense_traffic_leaves_in_longer_steps() {
        let mut pace = pace();
        for (step, gbps, spacing) in [(1, 1, SPACING), (2, 10, SPACING_DENSE), (3, 3, SPACING), (4, 5, SPACING_DENSE)] {
            let now = step * MS;
            pace.released(now, gbps * MS / 8);
            assert_eq!(pace.release(now + 1), now + spacing, "{gbps} Gb/s");
        }
    }

    #[test]
    fn somebody_else_running_is_not_a_wake_up() {
        let mut pace = Pace::default();
        pace.woken(0, MS, 100 * MS, false);
        assert_eq!(pace.wake, WAKE_MAX / WAKE_WEIGHT);
    }

    #[test]
    fn packets_came_before_the_sleep_was_over_and_not_before_it_began() {
        let mut pace = pace();
        let before = pace.wake + OUTSIDE;
        assert_eq!(pace.woken(10 * MS, MS, 11 * MS, true), 11 * MS - before);
        assert_eq!(pace.woken(12 * MS, MS, 12 * MS + 1000, true), 12 * MS, "the sleep began then");
    }

    #[test]
    fn without_a_sleep_packets_came_since_the_last_look() {
        let mut pace = pace();
        pace.woken(MS, 0, 2 * MS, true);
        assert_eq!(pace.woken(3 * MS, 0, 4 * MS, true), 3 * MS);
    }
}
