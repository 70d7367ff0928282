//! Which streams hold up the end of a copy.
//!
//! A stream takes whole parcels of megabytes. While there are more of them a slow stream does no harm: it takes fewer. What it
//! carries when nothing is left to take is waited for, while others that would carry it in a moment have nothing to do: a stream
//! that has just begun, or has lost much, on a long path takes seconds for one parcel. Such a stream is left, and what it had goes
//! over the best of those that are done: what MapReduce calls a backup task (Dean and Ghemawat, OSDI 2004, 3.6).

use std::collections::BTreeMap;
use std::time::Duration;

/// Over how long the rate of a stream is taken; shorter than a round trip of most paths it would be luck.
const WINDOW: Duration = Duration::from_millis(600);
/// Streams that are left in one session: all of a usual one, and no endless game.
const LEFT_MAX: u32 = 16;
/// To begin anew must promise to be so many times as fast ...
const GAIN: u32 = 2;
/// ... and to save this much.
const SAVES: Duration = Duration::from_millis(300);
/// Of what a session may use, in per cent: one that uses so much of it is held by that, not by its streams.
const HELD_PERCENT: u64 = 80;
/// How long what was left has a stream of its own to go over; it comes back within a round trip.
const KEPT: Duration = Duration::from_secs(2);

/// What is known of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes acknowledged since its begin.
    pub acked: u64,
    /// Payload of the parcels that it took since its begin, bytes.
    pub taken: u64,
    /// The rate at which the other end got data, as the kernel last measured it, bytes a second.
    pub delivery_rate: u64,
    /// Round trip.
    pub rtt: Duration,
    /// For how long since its begin something was on its way.
    pub busy: Duration,
    /// For how long of that the other end's window was full: what is behind that end was slower than the stream.
    pub window_full: Duration,
}

impl Look {
    /// What of its parcels is not acknowledged. Frames and protection, which are acknowledged too, are too little to matter.
    fn left(&self) -> u64 {
        self.taken.saturating_sub(self.acked)
    }
}

/// Where a stream was, at most [`WINDOW`] and a look ago.
#[derive(Debug)]
struct Since {
    at: Duration,
    look: Look,
    /// What it got in the window before, bytes a second.
    rate: u64,
    /// What the whole session got in the last window in which this one was busy, if the other end's window held it back for half of
    /// that: so much the other end takes. Bytes a second.
    takes: Option<u64>,
}

/// Watches the streams of a session.
#[derive(Debug, Default)]
pub struct Tail {
    since: BTreeMap<u16, Since>,
    left: u32,
    to: Option<(u16, Duration)>,
}

impl Tail {
    /// Looks at all streams at `now`; gives those to be left. `is_last` says that nothing is left to be taken, `set_point` how many
    /// bytes a second the session may send.
    pub fn look(&mut self, now: Duration, looks: &[(u16, Look)], is_last: bool, set_point: Option<u64>) -> Vec<u16> {
        self.since.retain(|id, _| looks.iter().any(|(there, _)| there == id));
        self.to = self.to.filter(|(to, at)| now.saturating_sub(*at) < KEPT && looks.iter().any(|(id, _)| id == to));
        let (mut slow, mut ended) = (Vec::new(), Vec::new());
        for &(id, look) in looks {
            let since = self.since.entry(id).or_insert(Since { at: now, look, rate: 0, takes: None });
            let span = now.saturating_sub(since.at);
            if span < WINDOW {
                continue;
            }
            let moved = look.acked.saturating_sub(since.look.acked);
            let busy = look.busy.saturating_sub(since.look.busy);
            let waited = look.window_full.saturating_sub(since.look.window_full);
            (since.at, since.look, since.rate) = (now, look, per_second(moved, span));
            if !busy.is_zero() {
                ended.push((id, waited >= busy / 2));
            }
            // One that does not move at all may be on a dead path, which is more than slow ([`super::stall`]).
            if look.left() > 0 && moved > 0 {
                slow.push((id, look, time(look.left(), since.rate)));
            }
        }
        let used: u64 = self.since.values().fold(0, |sum, since| sum.saturating_add(since.rate));
        for (id, is_held) in ended {
            self.since.get_mut(&id).expect("it was looked at").takes = is_held.then_some(used);
        }
        let idle = looks.iter().filter(|(_, look)| is_last && look.left() == 0);
        let Some(&(to, best)) = idle.max_by_key(|(_, look)| look.delivery_rate) else { return Vec::new() };
        // A stream that waits for the other end may be alone in that, behind a proxy of its own: what counts is whether others did.
        let taken_there = self.since.get(&to).and_then(|since| since.takes);
        let most = taken_there.into_iter().chain(set_point).min().unwrap_or(u64::MAX);
        if used.saturating_mul(100) >= most.saturating_mul(HELD_PERCENT) {
            return Vec::new();
        }
        let rate = best.delivery_rate.min(most);
        slow.sort_by_key(|&(_, _, takes)| std::cmp::Reverse(takes));
        let (mut leave, mut anew) = (Vec::new(), 0);
        for (id, look, takes) in slow {
            // Both ends close it, it is read and sent again, and acknowledged.
            let again = (best.rtt + look.rtt).saturating_mul(2) + time(anew + look.left(), rate);
            if self.left < LEFT_MAX && takes > (again * GAIN).max(again + SAVES) {
                anew += look.left();
                self.left += 1;
                leave.push(id);
            }
        }
        if !leave.is_empty() {
            self.to = Some((to, now));
        }
        leave
    }

    /// The one stream that may take parcels for now, if what was left is to go over it.
    #[must_use]
    pub fn only(&self) -> Option<u16> {
        self.to.map(|(id, _)| id)
    }
}

fn per_second(bytes: u64, span: Duration) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / span.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// How long so many bytes take; at most an hour.
fn time(bytes: u64, bytes_per_s: u64) -> Duration {
    const MOST: u64 = 3_600_000;
    Duration::from_millis(bytes.saturating_mul(1000).checked_div(bytes_per_s).map_or(MOST, |ms| ms.min(MOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const MB: u64 = 1_000_000;

    /// A stream over 100 ms with `left` bytes on it, which was last measured at 10 MB/s.
    fn stream(acked: u64, left: u64) -> Look {
        Look { acked, taken: acked + left, delivery_rate: 10 * MB, rtt: MS(100), busy: MS(0), window_full: MS(0) }
    }

    /// Two looks, 600 ms apart, at a stream that moves so many bytes between them and has as many left; the other is done.
    fn at_the_end(moves: u64, left: u64, is_last: bool) -> Vec<u16> {
        let mut tail = Tail::default();
        assert!(tail.look(MS(0), &[(1, stream(MB, left + moves)), (2, stream(9 * MB, 0))], is_last, None).is_empty());
        tail.look(MS(600), &[(1, stream(MB + moves, left)), (2, stream(9 * MB, 0))], is_last, None)
    }

    #[test]
    fn a_slow_stream_is_left_for_one_that_is_done() {
        // 4 MB at 1 MB/s take 4 s; anew they take 0.4 s and 0.4 s of round trips.
        assert_eq!(at_the_end(600_000, 4 * MB, true), [1]);
    }

    #[test]
    fn what_would_gain_little_stays() {
        assert!(at_the_end(600_000, 4 * MB, false).is_empty(), "there is more to be sent");
        assert!(at_the_end(0, 4 * MB, true).is_empty(), "that it does not move at all is not its slowness");
        assert!(at_the_end(600_000, MB, true).is_empty(), "1 s is less than twice 0.5 s and what it must save");
        assert!(at_the_end(4_500_000, 9 * MB, true).is_empty(), "1.2 s at 7.5 MB/s, 1.3 s anew");
    }

    /// Two looks at a stream that moves 0.6 MB between them, of 1 MB/s, and has 4 MB left, under a set point; the other was done a
    /// while ago, or as the first look was taken.
    fn under(set_point: u64, just_done: bool) -> Vec<u16> {
        let mut tail = Tail::default();
        let other = |acked| (2, stream(acked, 0));
        tail.look(
            MS(0),
            &[(1, stream(MB, 4 * MB)), other(if just_done { 5 * MB } else { 9 * MB })],
            true,
            Some(set_point),
        );
        tail.look(MS(600), &[(1, stream(MB + 600_000, 4 * MB)), other(9 * MB)], true, Some(set_point))
    }

    #[test]
    fn a_set_point_that_is_used_is_what_holds() {
        assert_eq!(under(10 * MB, false), [1], "1 of 10 MB/s");
        assert!(under(8 * MB, true).is_empty(), "the other had the rest");
        assert!(under(MB, false).is_empty(), "all of it");
        assert!(under(2 * MB, false).is_empty(), "alone it has all soon: 4 s at 1 MB/s, 2.4 s anew at 2 MB/s");
    }

    /// Looks at a stream that has 4 MB left after it got so many kB/s beside one that was done then, and `alone` after that. Both
    /// waited for so much of the first time for the other end.
    fn waiting(beside: u64, done: u64, alone: u64, waited: u64) -> [Vec<u16>; 2] {
        let mut tail = Tail::default();
        let look = |n: u64, acked, left| {
            let (busy, window_full) = (MS(n * 600), MS(n * waited));
            Look { busy, window_full, ..stream(acked, left) }
        };
        let (first, then) = (beside * 600, (beside + alone) * 600);
        tail.look(MS(0), &[(1, look(0, 0, 4 * MB)), (2, look(0, 0, MB))], true, None);
        let is_done = (2, look(1, done * 600, 0));
        [(MS(600), look(1, first, 4 * MB)), (MS(1200), look(2, then, 4 * MB))]
            .map(|(now, slow)| tail.look(now, &[(1, slow), is_done], true, None))
    }

    #[test]
    fn where_all_wait_for_the_other_end_nobody_is_slow() {
        let (left, stays) = (vec![1], vec![]);
        assert_eq!(waiting(1000, 4000, 1000, 200), [left.clone(), left.clone()], "neither waited");
        assert_eq!(waiting(1000, 4000, 4600, 400), [stays.clone(), stays.clone()], "alone it has what both had");
        // What waits alone is behind something slow of its own.
        assert_eq!(waiting(1000, 4000, 1000, 400), [stays.clone(), left], "it has no more when the other is done");
        // 1.2 s at 3.4 MB/s, and anew 0.8 s at 5 MB/s and 0.4 s of round trips.
        assert_eq!(waiting(1000, 4000, 3400, 400), [stays.clone(), stays], "a bit less, which a round trip would cost");
    }

    #[test]
    fn nobody_is_left_when_all_are_busy() {
        let mut tail = Tail::default();
        for at in 0..20 {
            let looks = [(1, stream(at, 4 * MB)), (2, stream(at * MB, 4 * MB))];
            assert!(tail.look(MS(at * 200), &looks, true, None).is_empty());
            assert_eq!(tail.only(), None);
        }
    }

    #[test]
    fn what_was_left_goes_over_the_fastest_for_a_while() {
        let mut tail = Tail::default();
        let fast = Look { delivery_rate: 50 * MB, ..stream(9 * MB, 0) };
        let looks = |acked| [(1, stream(acked, 4 * MB)), (2, stream(9 * MB, 0)), (3, fast)];
        tail.look(MS(0), &looks(0), true, None);
        assert_eq!(tail.look(MS(600), &looks(1000), true, None), [1]);
        assert_eq!(tail.only(), Some(3));
        // It is being read and sent again: something is left to be taken.
        tail.look(MS(1000), &[(2, stream(9 * MB, 0)), (3, fast)], false, None);
        assert_eq!(tail.only(), Some(3));
        tail.look(MS(2600), &[(2, stream(9 * MB, 0)), (3, fast)], false, None);
        assert_eq!(tail.only(), None, "not for ever");
    }

    #[test]
    fn a_stream_that_is_gone_takes_nothing() {
        let mut tail = Tail::default();
        tail.look(MS(0), &[(1, stream(0, 4 * MB)), (2, stream(9 * MB, 0))], true, None);
        assert_eq!(tail.look(MS(600), &[(1, stream(10, 4 * MB)), (2, stream(9 * MB, 0))], true, None), [1]);
        tail.look(MS(800), &[(3, stream(0, 0))], false, None);
        assert_eq!(tail.only(), None);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut tail = Tail::default();
        let mut left = 0;
        for at in 0..100 {
            let id = at as u16;
            let looks = |acked| [(id, stream(acked, 4 * MB)), (999, stream(9 * MB, 0))];
            tail.look(MS(at * 2000), &looks(0), true, None);
            left += tail.look(MS(at * 2000 + 600), &looks(10), true, None).len();
        }
        assert_eq!(left, LEFT_MAX as usize);
    }
}
