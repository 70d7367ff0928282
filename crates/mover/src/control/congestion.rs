//! When a congestion control that takes every loss for a full path is the wrong one.
//!
//! A full path has a queue: the round trip is longer than the least one when it drops. Where packets are lost while there is
//! none, something else loses them, and CUBIC over 100 ms gets 20 Mb/s a stream at a loss of 10⁻⁴ (RFC 9438, section 5). BBR
//! goes by what arrives instead.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Nearer than this a loss is made up for so quickly that it does not matter.
const MATTERS_RTT: Duration = Duration::from_millis(5);
/// A round trip that is longer than the least one by no more than an eighth, or by a millisecond, has met no queue.
const QUEUE_PART: u64 = 8;
const QUEUE_LEAST_US: u64 = 1_000;
/// Between two looks: a round trip, for what is looked at twice in one is seen twice, but no less and no more than this.
const LOOK_LEAST: Duration = Duration::from_millis(50);
const LOOK_MOST: Duration = Duration::from_millis(200);
/// A queue that was seen explains what is lost so much later: it drains while what it dropped is sent again.
const EXPLAINS: Duration = Duration::from_millis(200);
/// Each second takes so much off what such losses weigh, one for each stream that has met one. CUBIC bears about as many: at one in
/// 10⁵ packets 16 streams of it fill 1 Gb/s over 100 ms with 0.8 a second.
const BEARS: u32 = 2;
/// Fewer streams bear fewer, for each has more to come back to: as many as streams × ∛streams (RFC 9438, section 4.2: a window W is
/// back after ∛(0.75 W) s). So much seldomer something is taken off; the square is a bit more, which is the safe side for few: one stream
/// over 100 ms has 70 Mb/s of 1 Gb/s at 10⁻⁴, and loses 0.6 packets a second then.
const BEARING_STREAMS: u32 = 8;
/// Enough: in a second, or little by little.
const ENOUGH: u32 = 5;

/// What a stream shows at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its number.
    pub stream: u16,
    /// Segments lost since its begin: sent again, less what the other end says that it had already. That comes a round trip later,
    /// so it also falls.
    pub lost: u32,
    /// Smoothed round trip, µs.
    pub rtt_us: u32,
    /// Least round trip, µs; the greatest number if it is not known.
    pub min_rtt_us: u32,
}

/// Losses that no queue explains.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    looked: Option<Duration>,
    streams: HashMap<u16, Stream>,
    min_rtt: Duration,
    /// When most streams last met a queue.
    queued: Option<Duration>,
    weight: u32,
    forgot: Duration,
}

/// What is known of a stream since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Segments that it had lost.
    lost: u32,
    /// When it last met a queue.
    queued: Option<Duration>,
}

impl Losses {
    /// Whether it is time for a look.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.looked.is_none_or(|at| now.saturating_sub(at) >= self.min_rtt.clamp(LOOK_LEAST, LOOK_MOST))
    }

    /// Least round trip of the path at the last look.
    #[must_use]
    pub fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    /// There was a queue after all: it explains what has been lost until now, and what is found lost in the next moment.
    pub fn forget(&mut self, now: Duration) {
        self.weight = 0;
        self.queued = Some(now);
    }

    /// Takes a look at all streams; whether the path is one that loses packets without being full.
    pub fn look(&mut self, now: Duration, looks: &[Look]) -> bool {
        let min_rtt_us = least_rtt(looks.iter().map(|look| look.min_rtt_us));
        self.min_rtt = Duration::from_micros(min_rtt_us);
        let is_queued = |look: &&Look| has_queue(u64::from(look.rtt_us), min_rtt_us);
        // A stream that has just lost much has not measured for half a second, and still shows the queue of that time: it says
        // something of its own losses, but nothing of those of all the others.
        if 2 * looks.iter().filter(is_queued).count() > looks.len() {
            self.queued = Some(now);
        }
        let had = std::mem::take(&mut self.streams);
        let last = self.looked.replace(now).unwrap_or(now);
        // The loss is of a round trip ago: a queue that was there at the last look counts however long ago that was.
        let explains =
            |queued: Option<Duration>| queued.is_some_and(|at| at >= last || now.saturating_sub(at) <= EXPLAINS);
        // Each stream that has met a loss slows down, once. What turns out to have been late only was none.
        let (mut hit, mut late) = (0, 0);
        for look in looks {
            let before = had.get(&look.stream).copied().unwrap_or_default();
            let queued = if is_queued(&look) { Some(now) } else { before.queued };
            hit += u32::from(look.lost > before.lost && !explains(queued));
            late += u32::from(look.lost < before.lost);
            self.streams.insert(look.stream, Stream { lost: look.lost, queued });
        }
        let fewer = BEARING_STREAMS.div_ceil(looks.len().max(1) as u32);
        if now.saturating_sub(self.forgot) >= Duration::from_secs(1) * fewer.pow(2) {
            self.forgot = now;
            self.weight = self.weight.saturating_sub(BEARS);
        }
        if self.min_rtt >= MATTERS_RTT && !explains(self.queued) {
            self.weight = self.weight.saturating_add(hit);
        }
        self.weight = self.weight.saturating_sub(late);
        let queued = self.queued.map(|at| now.saturating_sub(at));
        tracing::trace!(weight = self.weight, hit, late, min_rtt_us, ?queued, streams = looks.len(), "losses");
        self.weight >= ENOUGH
    }
}

/// The round trip of a path whose queue is empty, from the least ones of its streams, µs; 0 without any. A stream in four may have one that is too
/// short: the kernel remembers a single wrong one for five minutes, and with that of the least stream the path would have a queue until then. Those that
/// began while it had one have one that is too long, and are seldom most: streams begin together.
pub(super) fn least_rtt(of_streams: impl Iterator<Item = u32>) -> u64 {
    let mut sorted: Vec<_> = of_streams.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 4).map_or(0, |&us| u64::from(us))
}

pub(super) fn has_queue(rtt_us: u64, min_rtt_us: u64) -> bool {
    rtt_us > min_rtt_us + (min_rtt_us / QUEUE_PART).max(QUEUE_LEAST_US)
}

/// What all streams show once a second, at the end that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// Segments sent again since the session's begin.
    pub retransmits: u64,
    /// Mean smoothed round trip, µs.
    pub rtt_us: u64,
    /// Least round trip, µs; the greatest number of 32 bits, or 0, if it is not known.
    pub min_rtt_us: u64,
    /// Segments lost in this second, in a million.
    pub loss_ppm: u32,
}

impl Second {
    /// Whether the streams met a queue, as far as that is known.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.min_rtt_us > 0 && has_queue(self.rtt_us, self.min_rtt_us)
    }
}

/// Losses that no queue explains and that are too few for another congestion control. CUBIC bears them, but not with few streams:
/// one that met a loss in slow start is behind for 10 s and more, and while it is the path is not full (1 Gb/s, 100 ms, 10⁻⁵: 8
/// streams 880 to 947 Mb/s, 16 streams 947).
#[derive(Clone, Debug, Default)]
pub struct RareLosses {
    retransmits: u64,
    /// There was a queue at the last look, which explains what is sent again now.
    queued: bool,
    seconds: u32,
}

/// Seconds with such losses; far away none with a queue between them.
const RARE_SECONDS: u32 = 2;

impl RareLosses {
    /// Takes what a second shows; whether the path loses packets now and then without being full.
    pub fn second(&mut self, seen: Second) -> bool {
        let lost = seen.retransmits > std::mem::replace(&mut self.retransmits, seen.retransmits);
        if seen.min_rtt_us == 0 || seen.min_rtt_us >= u64::from(u32::MAX) {
            return false;
        }
        let queued = seen.is_queued();
        let was_queued = std::mem::replace(&mut self.queued, queued);
        match (queued || was_queued, lost) {
            (true, _) => self.seconds = 0,
            (false, true) => self.seconds += 1,
            (false, false) => {}
        }
        self.seconds >= RARE_SECONDS
    }
}

/// Segments of a million that are sent again in a second, over a path at hand: less is made up for by two streams, and more is a
/// queue that is too short, which more streams only fill more often.
const NEAR_LOSS_PPM: RangeInclusive<u32> = 300..=5_000;

/// Losses of a path at hand. CUBIC makes up for each at once, but two streams that meet one together leave the path idle meanwhile (1 Gb/s,
/// 0.2 ms, 10⁻³: 2 streams 951 to 957 Mb/s, 4 streams 964).
///
/// A second that ends with a queue may have filled it, at its begin above all, and lost by that: such seconds are to come one after another. One
/// without is enough.
#[derive(Clone, Debug, Default)]
pub struct NearLosses {
    weight: u32,
}

impl NearLosses {
    /// Takes what a second shows; whether the path loses packets again and again.
    pub fn second(&mut self, seen: Second) -> bool {
        self.weight = match (NEAR_LOSS_PPM.contains(&seen.loss_ppm), seen.is_queued()) {
            (true, true) => (self.weight + 1).min(RARE_SECONDS),
            (true, false) => RARE_SECONDS,
            (false, _) => self.weight.saturating_sub(1),
        };
        self.weight >= RARE_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_path_loses_again_and_again_without_a_queue_or_in_two_seconds_with_one() {
        let is_lossy = |rtt_us: u64, seconds: &[u32]| {
            let mut losses = NearLosses::default();
            let second = |loss_ppm| Second { retransmits: 0, rtt_us, min_rtt_us: 120, loss_ppm };
            seconds.iter().any(|&loss_ppm| losses.second(second(loss_ppm)))
        };
        assert!(is_lossy(900, &[0, 1_000]));
        assert!(is_lossy(1_900, &[1_000, 900]), "four streams have one");
        assert!(
            !is_lossy(8_000, &[4_000, 0, 0, 800, 200, 900, 0]),
            "slow start, and CUBIC that fills the path now and then"
        );
        assert!(!is_lossy(900, &[0, 100, 200, 100, 250]), "two streams bear it");
        assert!(!is_lossy(900, &[0, 20_000, 30_000, 0]), "a queue that holds nothing");
        assert!(!is_lossy(1_200, &[0, 20_000, 1_000, 30_000, 0]));
    }

    /// Whether seconds of (segments sent again so far, round trip in ms over a least one of 100) are a path with rare losses.
    fn is_rare(seconds: &[(u64, u64)]) -> bool {
        let mut losses = RareLosses::default();
        seconds.iter().any(|&(retransmits, rtt_ms)| {
            losses.second(Second { retransmits, rtt_us: 1000 * rtt_ms, min_rtt_us: 100_000, loss_ppm: 0 })
        })
    }

    #[test]
    fn two_seconds_with_losses_and_no_queue_are_rare_losses() {
        assert!(is_rare(&[(0, 100), (1, 101), (1, 101), (2, 102)]));
        assert!(!is_rare(&[(0, 100), (1, 101), (1, 101), (1, 102)]), "one");
        assert!(
            !is_rare(&[(0, 100), (1, 101), (1, 130), (2, 102), (3, 101)]),
            "a queue between them: the path does get full"
        );
        assert!(
            !is_rare(&[(0, 150), (900, 101), (900, 101), (900, 150), (1800, 101)]),
            "what a queue dropped is sent again"
        );
    }

    #[test]
    fn where_the_least_round_trip_is_unknown_nothing_is_said() {
        for min_rtt_us in [0, u64::from(u32::MAX)] {
            let mut losses = RareLosses::default();
            assert!((1..9).all(|retransmits| !losses.second(Second {
                retransmits,
                rtt_us: 100_000,
                min_rtt_us,
                loss_ppm: 0
            })));
        }
    }

    /// Looks each 200 ms: how many streams have lost something, and the round trip in ms over a least one of 100.
    fn verdict(looks: impl Iterator<Item = (u32, u32)>, min_rtt_us: u32) -> bool {
        verdict_after(looks, min_rtt_us, 200).is_some()
    }

    /// The same with a look each so many ms; gives the time of the verdict, ms.
    fn verdict_after(looks: impl Iterator<Item = (u32, u32)>, min_rtt_us: u32, each_ms: u64) -> Option<u64> {
        let (mut losses, mut retransmits) = (Losses::default(), [0; 8]);
        looks.zip(0..).find_map(|((hit, rtt_ms), n)| {
            retransmits[..hit as usize].iter_mut().for_each(|count| *count += 1);
            let rtt_us = rtt_ms * min_rtt_us / 100;
            let look = |(stream, retransmits)| Look { stream, lost: retransmits, rtt_us, min_rtt_us };
            let looks: Vec<_> = (0..).zip(retransmits).map(look).collect();
            losses.look(Duration::from_millis(each_ms * n), &looks).then_some(each_ms * n)
        })
    }

    #[test]
    fn losses_without_a_queue_are_the_path() {
        assert!(verdict((0..50).map(|n| (u32::from(n % 5 < 4), 102)), 100_000), "four a second");
        assert!(verdict((0..5).map(|n| (2, 100 + n)), 20_000), "each look");
    }

    #[test]
    fn a_short_round_trip_is_looked_at_more_often_and_a_loss_is_seen_once() {
        assert_eq!(verdict_after((0..5).map(|_| (3, 105)), 20_000, 50), Some(50));
        for (rtt_ms, each_ms) in [(6, 50), (20, 50), (100, 100), (150, 150), (400, 200)] {
            let mut losses = Losses::default();
            assert!(losses.is_due(Duration::ZERO));
            let [rtt_us, min_rtt_us] = [1000 * rtt_ms; 2];
            losses.look(Duration::ZERO, &[Look { stream: 0, lost: 0, rtt_us, min_rtt_us }]);
            assert!(!losses.is_due(Duration::from_millis(each_ms - 1)), "{rtt_ms} ms");
            assert!(losses.is_due(Duration::from_millis(each_ms)), "{rtt_ms} ms");
        }
    }

    #[test]
    fn what_a_queue_dropped_is_sent_again_while_it_drains() {
        // At the end of slow start: full for 100 ms, gone 50 ms later, the last of its losses sent again after 200 ms more.
        let looks = (0..400).map(|n| match n % 80 {
            0..2 => (8, 200),
            2..6 => (8, 101),
            _ => (0, 101),
        });
        assert_eq!(verdict_after(looks, 20_000, 50), None);
    }

    #[test]
    fn a_full_queue_drops_and_says_nothing_of_the_path() {
        assert!(!verdict((0..500).map(|n| (u32::from(n % 2 == 0), 180)), 100_000));
        assert!(
            !verdict((0..500).map(|n| (u32::from(n % 5 == 0), if n % 5 < 4 { 150 } else { 101 })), 100_000),
            "it drains and fills"
        );
    }

    #[test]
    fn a_queue_that_is_told_of_explains_what_was_lost() {
        let look = |losses: &mut Losses, n: u32, min_rtt_us| {
            let look = |stream| Look { stream, lost: n, rtt_us: 38_000, min_rtt_us };
            losses.look(Duration::from_millis(50) * n, &(0..8).map(look).collect::<Vec<_>>())
        };
        // A newcomer that has never seen the queue empty.
        let mut losses = Losses::default();
        assert!(!look(&mut losses, 0, 36_000) && look(&mut losses, 1, 36_000));
        losses.forget(Duration::from_millis(60));
        assert!((2..100).all(|n| !look(&mut losses, n, 22_000)));
    }

    #[test]
    fn a_rare_loss_is_no_reason() {
        assert!(!verdict((0..5000).map(|n| (u32::from(n % 25 == 0), 100)), 100_000), "one in 5 s");
        assert!(!verdict((0..5000).map(|n| (u32::from(n % 6 == 0), 100)), 100_000), "0.8 a second");
        assert!(!verdict((0..500).map(|_| (0, 100)), 100_000), "none");
    }

    #[test]
    fn what_one_stream_still_shows_says_nothing_of_the_others() {
        // Of eight streams over 20 ms one shows the queue of its slow start for ever, and three others lose something each 50 ms.
        let losing = |own_ms: u32, others_ms: u32| {
            let mut losses = Losses::default();
            (0..20_u32).any(|n| {
                let look = |stream| {
                    let (rtt_ms, lost) =
                        if stream == 0 { (own_ms, n) } else { (others_ms, if stream < 4 { n } else { 0 }) };
                    Look { stream, lost, rtt_us: 1000 * rtt_ms, min_rtt_us: 20_000 }
                };
                losses.look(Duration::from_millis(50) * n, &(0..8).map(look).collect::<Vec<_>>())
            })
        };
        assert!(losing(60, 21));
        assert!(!losing(21, 60), "most meet a queue: it drops");
    }

    #[test]
    fn a_queue_on_one_of_two_paths_explains_the_losses_of_its_streams() {
        let mut losses = Losses::default();
        for n in 0..400_u32 {
            // Three of eight streams go over a path that is full, and lose for that.
            let look = |stream| {
                let (rtt_us, retransmits) = if stream < 3 { (150_000, n) } else { (101_000, 0) };
                Look { stream, lost: retransmits, rtt_us, min_rtt_us: 100_000 }
            };
            assert!(!losses.look(Duration::from_millis(100) * n, &(0..8).map(look).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn what_was_late_was_not_lost() {
        // Each look eight streams send something again, which the other end has had: it says so at the next look.
        let is_lossy = |late: bool| {
            let mut losses = Losses::default();
            (0..400_u32).any(|n| {
                let look = |stream: u16| {
                    let lost = if late { u32::from((n + u32::from(stream)) % 2 == 0) } else { n };
                    Look { stream, lost, rtt_us: 20_000, min_rtt_us: 20_000 }
                };
                losses.look(Duration::from_millis(50) * n, &(0..8).map(look).collect::<Vec<_>>())
            })
        };
        assert!(is_lossy(false));
        assert!(!is_lossy(true));
    }

    #[test]
    fn few_streams_bear_less() {
        // A loss each 1.7 s: eight streams fill the path with that, one is left with a tenth.
        let is_lossy = |streams: u16| {
            let mut losses = Losses::default();
            (0..1000_u32).any(|n| {
                let look = |stream| Look { stream, lost: n / 17, rtt_us: 100_000, min_rtt_us: 100_000 };
                let looks: Vec<_> =
                    (0..streams).map(|s| if s == 0 { look(0) } else { Look { lost: 0, ..look(s) } }).collect();
                losses.look(Duration::from_millis(100) * n, &looks)
            })
        };
        assert!(is_lossy(1) && is_lossy(2));
        assert!(!is_lossy(8) && !is_lossy(16));
    }

    #[test]
    fn one_round_trip_in_four_may_be_wrong() {
        for (of_streams, least) in [
            (&[][..], 0),
            (&[20_000], 20_000),
            (&[20_000, 15_000], 15_000),
            (&[20_000, 20_100, 15_000, 20_000], 20_000),
            (&[20_000, 10_000, 20_000, 15_000, 20_000, 31_000, 31_000, 31_000], 20_000),
        ] {
            assert_eq!(least_rtt(of_streams.iter().copied()), least, "{of_streams:?}");
        }
        // Eight streams over 20 ms of which one was once told 12: the others have no queue, and lose.
        let mut losses = Losses::default();
        assert!((0..20_u32).any(|n| {
            let look = |stream| {
                let min_rtt_us = if stream == 5 { 12_000 } else { 20_000 };
                Look { stream, lost: if stream < 4 { n } else { 0 }, rtt_us: 20_100, min_rtt_us }
            };
            losses.look(Duration::from_millis(50) * n, &(0..8).map(look).collect::<Vec<_>>())
        }));
    }

    #[test]
    fn near_at_hand_it_does_not_matter() {
        assert!(!verdict((0..500).map(|_| (8, 100)), 1_000));
    }

    #[test]
    fn many_losses_of_one_stream_weigh_one_and_an_ended_stream_none() {
        let mut losses = Losses::default();
        let look = |stream, retransmits| Look { stream, lost: retransmits, rtt_us: 20_000, min_rtt_us: 20_000 };
        let with_others = |one| [one].into_iter().chain((2..10).map(|stream| look(stream, 0))).collect::<Vec<_>>();
        assert!(!losses.look(Duration::ZERO, &with_others(look(0, 9))));
        // The sum falls; then one loses a thousand at once, time and again, but less than all bear.
        for (seconds, retransmits) in (1..20).zip((0..).step_by(1000)) {
            assert!(!losses.look(Duration::from_secs(seconds), &with_others(look(1, retransmits))), "{seconds} s");
        }
        assert_eq!(losses.min_rtt(), Duration::from_millis(20));
    }
}
