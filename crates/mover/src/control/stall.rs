//! Which streams are on a path that is dead.
//!
//! TCP itself gives up after many minutes. A stream is taken for stalled when nothing it sent was acknowledged for
//! [`STALL`] though the kernel sent it again and again. That may be the path, or the far host; if other streams of the same
//! session get on, or there is another address to try, it is worth leaving.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long nothing may be acknowledged: several timeouts of a path of 100 ms, and one of the longest on Earth.
pub const STALL: Duration = Duration::from_secs(1);
/// Timeouts in a row: one may be an unlucky loss at the end of a window.
const TIMEOUTS: u8 = 2;
/// How long others must get on before a stalled stream is left for them: on a path that was dead and has healed not all
/// begin again at once, but each within the second in which the kernel tries again, and a round trip.
const HEALED: Duration = Duration::from_millis(1500);

/// What a stream's socket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes acknowledged since its begin.
    pub acked: u64,
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// Timeouts in a row of the segment that waits.
    pub timeouts: u8,
}

/// Watches the streams of a session.
#[derive(Debug, Default)]
pub struct Watch {
    streams: BTreeMap<u16, Progress>,
    moving: Option<Moving>,
}

/// Streams that get on, one or the other, without a stall of all.
#[derive(Debug, Clone, Copy)]
struct Moving {
    since: Duration,
    last: Duration,
}

#[derive(Debug)]
struct Progress {
    acked: u64,
    /// When it last got on, or had nothing to wait for.
    at: Duration,
}

impl Watch {
    /// Looks at all streams at `now`; gives those that are stalled, and whether any other gets on, and has for a while. Streams that are not
    /// among them any more are forgotten.
    pub fn look(&mut self, now: Duration, looks: &[(u16, Look)]) -> Stalled {
        self.streams.retain(|id, _| looks.iter().any(|(there, _)| there == id));
        let mut stalled = Stalled::default();
        let mut any = false;
        for &(id, look) in looks {
            let progress = self.streams.entry(id).or_insert(Progress { acked: look.acked, at: now });
            if look.unacked == 0 || look.acked > progress.acked {
                any |= look.acked > progress.acked;
                *progress = Progress { acked: look.acked, at: now };
            } else if look.timeouts >= TIMEOUTS && now.saturating_sub(progress.at) >= STALL {
                stalled.streams.push(id);
            }
        }
        let moving = self.moving.get_or_insert(Moving { since: now, last: now });
        if any {
            if now.saturating_sub(moving.last) > STALL {
                moving.since = now;
            }
            moving.last = now;
            stalled.others_get_on = now.saturating_sub(moving.since) >= HEALED;
        }
        stalled
    }
}

/// What [`Watch::look`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// Streams that are stalled.
    pub streams: Vec<u16>,
    /// Some other stream had something acknowledged since the last look, and one or the other for a while.
    pub others_get_on: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn look(acked: u64, unacked: u32, timeouts: u8) -> Look {
        Look { acked, unacked, timeouts }
    }

    #[test]
    fn a_stream_without_answers_is_stalled_after_a_second_and_two_timeouts() {
        let mut watch = Watch::default();
        assert!(watch.look(MS(0), &[(1, look(9, 5, 0)), (2, look(0, 5, 0))]).streams.is_empty());
        assert!(watch.look(MS(1000), &[(1, look(10, 5, 0)), (2, look(10, 5, 0))]).streams.is_empty());
        let one = watch.look(MS(1500), &[(1, look(10, 5, 1)), (2, look(20, 5, 0))]);
        assert_eq!(one, Stalled { streams: vec![], others_get_on: true });
        assert!(watch.look(MS(1999), &[(1, look(10, 5, 2)), (2, look(30, 5, 0))]).streams.is_empty());
        let both = watch.look(MS(2000), &[(1, look(10, 5, 2)), (2, look(40, 5, 0))]);
        assert_eq!(both, Stalled { streams: vec![1], others_get_on: true });
    }

    #[test]
    fn after_a_stall_of_all_the_first_to_get_on_is_no_reason_to_leave_the_others() {
        let mut watch = Watch::default();
        let all = |first: u64, second: u64| [(1, look(first, 5, 3)), (2, look(second, 5, 3))];
        watch.look(MS(0), &all(10, 10));
        assert_eq!(watch.look(MS(5000), &all(10, 10)), Stalled { streams: vec![1, 2], others_get_on: false });
        assert_eq!(watch.look(MS(5200), &all(11, 10)), Stalled { streams: vec![2], others_get_on: false });
        assert_eq!(watch.look(MS(6000), &all(12, 10)), Stalled { streams: vec![2], others_get_on: false });
        assert_eq!(watch.look(MS(6700), &all(13, 10)), Stalled { streams: vec![2], others_get_on: true });
    }

    #[test]
    fn one_timeout_or_nothing_to_wait_for_is_no_stall() {
        let mut watch = Watch::default();
        for at in 0..10 {
            let seen = watch.look(MS(at * 500), &[(1, look(10, 5, 1)), (2, look(10, 0, 0))]);
            assert_eq!(seen, Stalled::default(), "at {at}");
        }
    }

    #[test]
    fn progress_begins_the_wait_anew() {
        let mut watch = Watch::default();
        watch.look(MS(0), &[(1, look(10, 5, 0))]);
        watch.look(MS(900), &[(1, look(11, 5, 0))]);
        assert!(watch.look(MS(1800), &[(1, look(11, 5, 3))]).streams.is_empty());
        assert_eq!(watch.look(MS(1900), &[(1, look(11, 5, 3))]).streams, [1]);
    }

    #[test]
    fn a_number_that_is_used_again_begins_anew() {
        let mut watch = Watch::default();
        watch.look(MS(0), &[(1, look(10, 5, 0))]);
        watch.look(MS(100), &[]);
        assert!(watch.look(MS(2000), &[(1, look(10, 5, 3))]).streams.is_empty());
    }
}
