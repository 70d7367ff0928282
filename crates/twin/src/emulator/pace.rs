//! How long a thread sleeps, and what it makes of its waking up. All times are nanoseconds of one clock.

/// The most that a wake-up is reckoned to take: more is not the processor waking up but somebody else running.
const WAKE_MAX: u64 = 200_000;
/// Weight of one wake-up in the mean, as a divisor.
const WAKE_WEIGHT: u64 = 8;
/// A sleep this long is one of an idle link: it ends early enough to be over when something is due, however long waking up takes this time, and the
/// rest is waited for awake. Where sleeps are shorter, that would take the processor from the programs.
const LONG: u64 = 2_000_000;
/// A long sleep ends early by this part of it at least: the longer a virtual machine was idle, the longer it takes now and then to get its
/// processor back. Of wake-ups from sleeps of 5, 20 and 100 ms one in fifty took 0.2, 0.4 and 1.1 ms on two cores of a busy EPYC, the mean
/// one 0.1 ms.
const EARLY_PART: u64 = 16;
/// But by no more than this.
const EARLY_MAX: u64 = 2_000_000;
/// Where the kernel stamps no packets: what a packet takes from one program to the other besides its delay, when it comes to a machine that sleeps: the
/// sender's call, waking this thread, the receiver's stack. Twice this and two wake-ups are what a ping and its answer take,
/// whose ways are on two threads (two cores of a Xeon in a virtual machine). While packets are dense it is
/// hidden behind them; the time since the sleep began bounds what is taken off.
const OUTSIDE: u64 = 65_000;
/// The part of it that is left where the kernel has stamped the packet: the sender's call, and the receiver's stack. A ping over a plain pair
/// of devices and its answer take twice this (63 to 69 µs on two cores of an EPYC in a virtual machine, 54 to 68 µs of a Xeon).
const CALLS: u64 = 30_000;
/// Time between two releases while traffic flows: what falls due in between leaves together, neighbouring segments as one
/// packet. Without it a link of 1 Gb/s would have a segment due every 12 µs, and the thread would never sleep: the kernel
/// takes the processor away from such a one of real-time priority for 50 ms in each second, if others wait for it. After a
/// pause it does not apply.
const SPACING: u64 = 100_000;
/// The same while traffic is dense, or the link is so long that it does not matter: a super-packet that is cut at each release costs the thread and the
/// receiver as much as one more.
const SPACING_MAX: u64 = 250_000;
/// Part of the least delay of the links that may lie between two releases.
const SPACING_PART: u64 = 200;
/// While traffic flows what comes before the next release need not wake the thread: what it was told of a packet's coming may be wrong by this part of the
/// least delay of its links. Each wake-up takes some 30 µs of two cores of an EPYC in a virtual machine: 20,000 small files over 16 streams, 1 Gb/s and 100 ms
/// took 9.0 s of processors with one for each packet, 6.3 s without.
const DEAF_PART: u64 = 64;
/// What falls due in a [`SPACING`] while traffic is dense: most of a super-packet of 64 KB, 4 Gb/s.
const DENSE_BYTES: u64 = 48 << 10;
/// A thread of real-time priority that has work without end is taken off its processor when others have waited there for most of a second, for up to
/// 50 ms in a row (the fair server of Linux 6.12, the throttling before it), and all that comes is as late. So it rests by itself, in pieces, for a little more
/// than that is: this part of the time that it works.
const REST_PART: u64 = 16;
/// How long such a rest is: what comes meanwhile waits in the device.
const REST: u64 = 120_000;
/// Time at rest that is remembered: as much as 10 ms of work take, so that a burst is not interrupted.
const RESTED_MAX: u64 = 10_000_000 / REST_PART;

/// A packet is taken to have come so long before it was found, at most, unless the kernel says that none came later. Longer ago some of what is found may
/// have come, where somebody else ran meanwhile; but not all of it, and what came just now would leave before its time: round trips shorter than the path,
/// which TCP remembers for minutes. So all of it leaves late, and that is counted.
const FOUND_MAX: u64 = WAKE_MAX;
/// A look that is over so soon was no sleep: something was there already.
const AT_ONCE: u64 = 20_000;
/// While a device has more to read the devices are looked at no sooner than after this: a look takes as long as reading a packet does, and at
/// 200,000 packets a second there were 28,000 of them, 7 % of the thread's time.
const LOOK_AFTER: u64 = 100_000;

/// When packets came that are about to be read, as far as that can be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// Taken for it.
    pub(super) at: u64,
    /// In devices that had been seen empty none came before this.
    pub(super) earliest: u64,
}

impl Came {
    /// The same of one that was read by `now`, when the last one had come at `last`, if the kernel could say: a lone packet came then, however long
    /// the processor took to wake up for it.
    pub(super) fn found(self, now: u64, last: Option<u64>) -> u64 {
        let recent = now.saturating_sub(FOUND_MAX);
        self.at.max(last.map_or(recent, |last| recent.min(last.saturating_sub(CALLS))))
    }
}

/// What a thread knows of its own waking up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// What it takes from the end of a sleep until the thread runs, in the mean: a processor that was halted takes tens
    /// of microseconds to come back. Sleeps end so much earlier, and what ended a sleep came so much earlier.
    wake: u64,
    /// The same of long sleeps: the processor sleeps deeper.
    wake_long: u64,
    /// The last sleep was a long one.
    is_fresh: bool,
    /// By how much the last long sleep was to end early.
    early: u64,
    /// When something was released last.
    released: u64,
    /// Time to keep from then on.
    spacing: u64,
    /// When the devices were looked at last.
    looked: u64,
    /// The same, or since then those known to have more were turned to again.
    turned: u64,
    /// How long the thread has still to work before a rest is due, as rest: it grows by the time slept, and shrinks by a part of the time worked.
    rested: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        let wake_long = WAKE_MAX / 2;
        Pace {
            wake: 0,
            wake_long,
            is_fresh: false,
            early: 0,
            released: 0,
            spacing: SPACING,
            looked: 0,
            turned: 0,
            rested: RESTED_MAX,
        }
    }
}

impl Pace {
    /// All that was due is out, `bytes` of it, at `now`, of links of no less than this delay.
    pub(super) fn released(&mut self, now: u64, bytes: u64, delay: u64) {
        let took = now.saturating_sub(self.released);
        let is_dense = bytes.saturating_mul(SPACING) >= took.saturating_mul(DENSE_BYTES);
        self.spacing = if is_dense { SPACING_MAX } else { (delay / SPACING_PART).clamp(SPACING, SPACING_MAX) };
        self.released = now;
    }

    /// When something was released last.
    pub(super) fn last_release(&self) -> u64 {
        self.released
    }

    /// Whether so much in a step as the last one is as much as `rate` in a [`SPACING`].
    pub(super) fn is_rate(&self, count: u32, rate: u32) -> bool {
        u64::from(count) * SPACING >= u64::from(rate) * self.spacing
    }

    /// When to release what is due at `due`.
    pub(super) fn release(&self, due: u64) -> u64 {
        due.max(self.released + self.spacing)
    }

    /// Until when to sleep for it at `now`. A spacing may be overslept: with wake-ups as long as that there would be no sleep else.
    pub(super) fn until(&mut self, now: u64, due: u64) -> u64 {
        let left = due.saturating_sub(now);
        let early = match left {
            LONG.. => {
                self.early = (2 * self.wake_long).max((left / EARLY_PART).min(EARLY_MAX));
                self.early
            }
            // Awake until then.
            _ if self.is_fresh && left <= self.early => left,
            _ => self.wake,
        };
        due.saturating_sub(early).max(self.released + self.spacing)
    }

    /// Whether to sleep for `span` from `now` on whatever comes, with links of no less than this delay.
    pub(super) fn is_deaf(&self, now: u64, span: u64, delay: u64) -> bool {
        let flows = now.saturating_sub(self.released) <= 2 * self.spacing;
        flows && (AT_ONCE..=self.spacing).contains(&span) && delay >= DEAF_PART * span
    }

    /// Where a device has more to read at `now`: when that came, if the devices need not be looked at before.
    pub(super) fn turn(&mut self, now: u64) -> Option<Came> {
        if now.saturating_sub(self.looked) >= LOOK_AFTER || self.rest(now).is_some() {
            return None;
        }
        let turned = std::mem::replace(&mut self.turned, now);
        Some(Came { at: turned.midpoint(now), earliest: self.looked })
    }

    /// Before a look at the devices at `now`: how long to rest, whatever comes, if it is time for that.
    pub(super) fn rest(&self, now: u64) -> Option<u64> {
        (self.rested_by(now) == 0).then_some(REST)
    }

    /// What is left of the time at rest when the thread has worked until `now`.
    fn rested_by(&self, now: u64) -> u64 {
        self.rested.saturating_sub(now.saturating_sub(self.looked) / REST_PART)
    }

    /// A look at the devices after a sleep of `span` from `begin` on that was over at `end`, whatever came; the first of it at `first` and the last at
    /// `last`, if the kernel could say. When that came: it is told too late as often as too soon.
    pub(super) fn woken_deaf(
        &mut self,
        begin: u64,
        span: u64,
        end: u64,
        first: Option<u64>,
        last: Option<u64>,
    ) -> Came {
        self.rested = (self.rested_by(begin) + (end - begin)).min(RESTED_MAX);
        let looked = std::mem::replace(&mut self.looked, end);
        self.turned = end;
        self.is_fresh = false;
        learn(&mut self.wake, begin + span, end);
        let first = first.map_or(begin, |at| at.clamp(begin, end));
        let last = last.map_or(end, |at| at.clamp(first, end));
        Came { at: first.midpoint(last), earliest: looked }
    }

    /// A look at the devices, with a sleep of up to `span` from `begin` on, was over at `end`; packets had come, or not, and the
    /// first of them at `stamped`, if the kernel could say. When those came.
    pub(super) fn woken(&mut self, begin: u64, span: u64, end: u64, came: bool, stamped: Option<u64>) -> Came {
        let is_sleep = end - begin > AT_ONCE;
        let slept = if is_sleep { end - begin } else { 0 };
        self.rested = (self.rested_by(end - slept) + slept).min(RESTED_MAX);
        let looked = std::mem::replace(&mut self.looked, end);
        let turned = std::mem::replace(&mut self.turned, end);
        if span == 0 {
            // They came at some time since then, while others were written.
            return Came { at: turned.midpoint(end), earliest: looked };
        }
        self.is_fresh = end - begin >= LONG / 2;
        let at = match stamped {
            Some(at) => at.saturating_sub(CALLS).clamp(begin, end),
            // One of them ended the sleep.
            None => end - (self.wake + OUTSIDE).min(end - begin),
        };
        // Over a link of 0.5 ms no long sleep ends by itself: each ends with a packet.
        let due = if came { stamped.filter(|at| (begin + LONG / 2..end).contains(at)) } else { Some(begin + span) };
        if let Some(due) = due {
            learn(if due - begin >= LONG / 2 { &mut self.wake_long } else { &mut self.wake }, due, end);
        }
        // What ends a sleep comes while it lasts.
        let earliest = if is_sleep { at } else { looked };
        Came { at, earliest }
    }
}

/// Takes a sleep that was to be over at `due` and was at `end` into the mean of such.
fn learn(wake: &mut u64, due: u64, end: u64) {
    let late = end.saturating_sub(due).min(WAKE_MAX);
    *wake = (*wake * (WAKE_WEIGHT - 1) + late) / WAKE_WEIGHT;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One whose wake-ups take 20 µs.
    fn pace() -> Pace {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.woken(0, MS / 2, MS / 2 + 20_000, false, None);
        }
        assert!(pace.wake.abs_diff(20_000) < 10, "{}", pace.wake);
        pace
    }

    #[test]
    fn a_sleep_ends_before_what_is_due_by_what_waking_takes() {
        let mut pace = pace();
        assert_eq!(pace.until(4 * MS, 5 * MS), 5 * MS - pace.wake);
        assert_eq!(pace.release(5 * MS), 5 * MS);
    }

    #[test]
    fn after_a_long_sleep_the_rest_is_waited_for_awake() {
        let mut pace = pace();
        let (wake, due) = (pace.wake, 25 * MS);
        for _ in 0..100 {
            pace.woken(0, 5 * MS, 5 * MS + 40_000, false, None);
        }
        let begin = 20 * MS;
        let until = pace.until(begin, due);
        assert_eq!(due - until, 5 * MS / EARLY_PART);
        pace.woken(begin, until - begin, until + 30_000, false, None);
        let now = until + 30_000;
        assert_eq!(pace.until(now, due), now);
        // In traffic, where sleeps are short, the processor is left to the programs; a short sleep says nothing of long ones.
        pace.woken(now, 10_000, now + 10_000 + wake, false, None);
        assert_eq!(pace.until(now, due), due - pace.wake);
    }

    #[test]
    fn a_long_sleep_ends_the_earlier_the_longer_it_is() {
        let mut pace = pace();
        for (left, early) in [(2 * MS, WAKE_MAX), (10 * MS, 625_000), (100 * MS, EARLY_MAX)] {
            assert_eq!(pace.until(MS, MS + left), MS + left - early, "{left}");
            pace.woken(MS, left - early, MS + left - early, false, None);
            pace.wake_long = WAKE_MAX / 2;
            let now = MS + left - early + 1000;
            assert_eq!(pace.until(now, MS + left), now, "awake for the rest");
        }
    }

    #[test]
    fn what_is_due_soon_after_a_release_keeps_its_distance() {
        let mut pace = Pace { released: 5 * MS, ..pace() };
        assert_eq!(pace.until(5 * MS, 5 * MS + 12_000), 5 * MS + SPACING);
        assert_eq!(pace.release(5 * MS + 12_000), 5 * MS + SPACING);
        assert_eq!(pace.until(5 * MS, 6 * MS), 6 * MS - pace.wake);
    }

    #[test]
    fn while_traffic_flows_over_a_long_link_what_comes_waits_for_the_next_release() {
        let mut pace = pace();
        pace.released(5 * MS, 10_000, MS);
        let is_deaf = |pace: &Pace, now, span| pace.is_deaf(now, span, 50 * MS);
        assert!(is_deaf(&pace, 5 * MS, SPACING) && is_deaf(&pace, 5 * MS + 30_000, 60_000));
        assert!(!is_deaf(&pace, 5 * MS, SPACING + 1), "nothing is due so soon");
        assert!(!is_deaf(&pace, 5 * MS, 0), "there is more to be read");
        assert!(!is_deaf(&pace, 6 * MS, SPACING), "the last release was long ago");
        assert!(!pace.is_deaf(5 * MS, SPACING, 6 * MS), "a short link");
        assert!(pace.is_deaf(5 * MS, SPACING / 2, 6 * MS), "but half as long");
    }

    #[test]
    fn what_came_in_a_deaf_sleep_came_in_its_middle() {
        let mut pace = pace();
        pace.woken(4 * MS, 0, 5 * MS, true, None);
        let came = pace.woken_deaf(5 * MS + 10_000, 80_000, 5 * MS + 110_000, None, None);
        assert_eq!(came, Came { at: 5 * MS + 60_000, earliest: 5 * MS });
        let begin = 6 * MS;
        let mut woken = |first, last| pace.woken_deaf(begin, 80_000, begin + 100_000, first, last);
        let came = woken(Some(begin + 60_000), None);
        assert_eq!((came.at, came.earliest), (begin + 80_000, 5 * MS + 110_000), "the first at 60 µs");
        assert_eq!(woken(Some(begin + 60_000), Some(begin + 70_000)).at, begin + 65_000, "and the last at 70");
        assert_eq!(woken(Some(begin + 60_000), Some(begin + 60_000)).at, begin + 60_000, "a lone one");
        assert_eq!(woken(Some(MS), Some(MS)).at, begin, "another clock");
        let long = pace.woken_deaf(begin, 80_000, 56 * MS, None, None);
        assert_eq!(long.found(56 * MS, None), 56 * MS - FOUND_MAX, "somebody else ran meanwhile");
        assert_eq!(pace.until(60 * MS, 61 * MS), 61 * MS - pace.wake, "it was short");
    }

    #[test]
    fn deaf_sleeps_are_time_for_others() {
        let mut pace = Pace::default();
        let mut now = 0;
        while now < 1000 * MS {
            pace.woken_deaf(now, 20_000, now + 30_000, None, None);
            now += 30_000 + MS / 10;
            assert_eq!(pace.rest(now), None);
        }
    }

    /// Looks after each `work` for a second, and each look takes `slept`; how often and how long it rested besides.
    fn rests(work: u64, slept: u64) -> (u32, u64) {
        let (mut pace, mut now, mut rests, mut rested) = (Pace::default(), 0, 0, 0);
        while now < 1000 * MS {
            let rest = pace.rest(now).unwrap_or(0);
            (rests, rested) = (rests + u32::from(rest > 0), rested + rest);
            let end = now + rest + slept;
            pace.woken(now, slept, end, true, None);
            now = end + work;
        }
        (rests, rested)
    }

    #[test]
    fn others_get_more_than_the_kernel_would_take_for_them_and_in_pieces() {
        // Looks that find something at once are none that others run in.
        for slept in [0, 1_000, 3_000] {
            let (count, rested) = rests(MS / 10, slept);
            assert!(count > 400 && (52 * MS..60 * MS).contains(&rested), "{count} of {rested} ns in all");
        }
        // Who has given as much by sleeping owes nothing; who has given most of it, the rest.
        assert_eq!(rests(MS / 2, 35_000), (0, 0));
        let (_, rested) = rests(MS / 2, 25_000);
        assert!((5 * MS..20 * MS).contains(&rested), "{rested} ns");
    }

    #[test]
    fn a_burst_after_a_pause_is_not_interrupted() {
        let mut pace = Pace::default();
        pace.woken(0, 20 * MS, 20 * MS, true, None);
        assert_eq!(pace.rest(29 * MS), None);
        assert_eq!(pace.rest(30 * MS), Some(REST));
    }

    #[test]
    fn dense_traffic_and_that_of_long_links_leaves_in_longer_steps() {
        let mut pace = pace();
        for (step, gbps, delay_ms, spacing) in [
            (1, 1, 1, SPACING),
            (2, 10, 1, SPACING_MAX),
            (3, 3, 1, SPACING),
            (4, 5, 1, SPACING_MAX),
            (5, 1, 30, 150_000),
            (6, 1, 50, SPACING_MAX),
            (7, 1, 100, SPACING_MAX),
        ] {
            let now = step * MS;
            pace.released(now, gbps * MS / 8, delay_ms * MS);
            assert_eq!(pace.release(now + 1), now + spacing, "{gbps} Gb/s, {delay_ms} ms");
            let many = (16 * spacing).div_ceil(SPACING) as u32;
            assert!(pace.is_rate(many, 16) && !pace.is_rate(many - 1, 16), "{spacing} ns");
        }
    }

    #[test]
    fn somebody_else_running_is_not_a_wake_up() {
        let mut pace = Pace::default();
        pace.woken(0, MS / 2, 100 * MS, false, None);
        assert_eq!(pace.wake, WAKE_MAX / WAKE_WEIGHT);
    }

    #[test]
    fn packets_came_before_the_sleep_was_over_and_not_before_it_began() {
        let mut pace = pace();
        let before = pace.wake + OUTSIDE;
        assert_eq!(pace.woken(10 * MS, MS, 11 * MS, true, None).at, 11 * MS - before);
        assert_eq!(pace.woken(12 * MS, MS, 12 * MS + 1000, true, None).at, 12 * MS, "the sleep began then");
    }

    #[test]
    fn what_the_kernel_has_stamped_came_then() {
        let mut pace = pace();
        // However long the processor took to wake up.
        for late in [5_000, 90_000, 350_000] {
            let stamp = 18 * MS - late;
            assert_eq!(pace.woken(10 * MS, 9 * MS, 18 * MS, true, Some(stamp)).at, stamp - CALLS);
        }
        let stamp = 19 * MS + 350_000;
        assert_eq!(pace.woken(19 * MS, MS, 19 * MS + 400_000, true, Some(stamp)).at, stamp - CALLS);
        let came = pace.woken(20 * MS, MS, 20 * MS + 50_000, true, Some(20 * MS + 1));
        assert_eq!(came.at, 20 * MS, "the sleep began then");
        assert_eq!(pace.woken(22 * MS, MS, 23 * MS, true, Some(40 * MS)).at, 23 * MS, "another clock");
    }

    #[test]
    fn what_waking_from_long_sleeps_takes_is_learned_from_packets_too() {
        let mut pace = pace();
        let short = pace.wake;
        for n in 1..100 {
            let begin = n * 20 * MS;
            pace.woken(begin, 100 * MS, begin + 19 * MS, true, Some(begin + 19 * MS - 40_000));
        }
        assert!(pace.wake_long.abs_diff(40_000) < 10, "{}", pace.wake_long);
        // Neither a short sleep nor a stamp of before the sleep says anything.
        pace.woken(3000 * MS, 100 * MS, 3000 * MS + 90_000, true, Some(3000 * MS));
        pace.woken(3001 * MS, 100 * MS, 3020 * MS, true, Some(3000 * MS));
        assert!(pace.wake_long.abs_diff(40_000) < 10 && pace.wake == short, "{pace:?}");
    }

    #[test]
    fn without_a_sleep_packets_came_since_the_last_look() {
        let mut pace = pace();
        pace.woken(MS, 0, 2 * MS, true, None);
        let came = pace.woken(2 * MS + 150_000, 0, 2 * MS + 200_000, true, None);
        assert_eq!(came, Came { at: 2 * MS + 100_000, earliest: 2 * MS });
        // Somebody else ran for 2 ms: what is found last came just now, and must not leave a millisecond early.
        let came = pace.woken(4 * MS, 0, 4 * MS + 200_000, true, None);
        assert_eq!((came.found(4 * MS + 200_000, None), came.earliest), (4 * MS, 2 * MS + 200_000));
    }

    #[test]
    fn a_device_that_has_more_is_turned_to_without_a_look_for_a_while() {
        let mut pace = pace();
        pace.woken(2 * MS, MS, 3 * MS, true, None);
        assert_eq!(pace.turn(3 * MS + 40_000), Some(Came { at: 3 * MS + 20_000, earliest: 3 * MS }));
        assert_eq!(pace.turn(3 * MS + 80_000), Some(Came { at: 3 * MS + 60_000, earliest: 3 * MS }));
        let look = 3 * MS + LOOK_AFTER;
        assert_eq!(pace.turn(look), None);
        let came = pace.woken(look, 0, look, true, None);
        assert_eq!(came, Came { at: 3 * MS + 90_000, earliest: 3 * MS }, "another device was not looked at meanwhile");
        pace.rested = 0;
        assert_eq!(pace.turn(look + 1), None, "it is time to rest");
    }

    #[test]
    fn what_is_read_long_after_the_look_may_have_come_just_now() {
        let came = Came { at: 2 * MS, earliest: MS };
        assert_eq!(came.found(2 * MS + FOUND_MAX, None), 2 * MS);
        // Somebody else ran for 3 ms while others were written: with the time of the look it would leave as much early.
        assert_eq!(came.found(5 * MS, None), 5 * MS - FOUND_MAX);
        assert_eq!(came.found(5 * MS, Some(5 * MS - 10_000)), 5 * MS - FOUND_MAX, "another one came just now");
    }

    #[test]
    fn a_lone_packet_came_when_it_did_however_late_it_is_found() {
        let mut pace = pace();
        let (stamp, end) = (9 * MS, 9 * MS + 900_000);
        let came = pace.woken(5 * MS, 10 * MS, end, true, Some(stamp));
        assert_eq!(came.found(end + 300_000, Some(stamp)), stamp - CALLS);
        // With a second one either may be the first that is read.
        assert_eq!(came.found(end, Some(stamp + 400_000)), stamp + 400_000 - CALLS);
        assert_eq!(came.found(end, Some(end)), end - FOUND_MAX);
    }

    #[test]
    fn what_was_there_before_a_sleep_may_have_come_since_the_last_look() {
        let mut pace = pace();
        pace.woken(MS, MS / 2, 2 * MS, true, Some(2 * MS));
        // The thread was stopped for 50 ms, then found something without a sleep, and a stamp of what came just then.
        let came = pace.woken(52 * MS, MS, 52 * MS + 2_000, true, Some(52 * MS + 1_000));
        assert_eq!(came, Came { at: 52 * MS, earliest: 2 * MS });
        // It was stopped as it slept: the stamp says when that should have been over.
        let came = pace.woken(53 * MS, MS, 103 * MS, true, Some(54 * MS));
        assert_eq!(came.earliest, 54 * MS - CALLS);
        assert_eq!(came.found(103 * MS, None), 103 * MS - FOUND_MAX);
    }
}
