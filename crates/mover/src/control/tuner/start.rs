//! With how many streams to begin.

use std::time::Duration;

use units::{Bytes, Goodput, Rate};

use super::Memory;

/// What is known of a path before the first byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// Its round trip, from the connection's opening.
    pub rtt: Option<Duration>,
    /// Its loss, in a million, if it was measured.
    pub loss_ppm: u32,
    /// Payload of a segment.
    pub mss_bytes: u32,
    /// What the session is to reach, if anybody said so.
    pub goal: Option<Goodput>,
    /// What an earlier session found, if it can still be believed.
    pub memory: Option<&'a Memory>,
    /// The session begins slowly anyway, or is held to little.
    pub is_slow: bool,
}

/// Of a path at hand or nearly so. On two cores over a veth pair 1, 2 and 4 streams reached 32, 48 and 34
/// to 47 Gb/s: the second one is a second core's, more are not.
const NEAR: u16 = 2;
/// Of one that loses packets again and again: where two are slowed down together, the others fill it.
pub const NEAR_LOSSY: u16 = 4;
/// From this round trip on slow start takes seconds: several streams share it.
const FAR_RTT: Duration = Duration::from_millis(20);
/// Of a far path, also because a stream alone would get a fraction of one that loses.
const FAR: u16 = 8;
/// From this round trip on each doubling of a window costs more than twice as many streams do.
const LONG_RTT: Duration = Duration::from_millis(80);
/// Of a long path: they are full a round trip sooner than half as many (20,000 small files, 1 Gb/s: over 200 ms 8.1 s, with 8 streams
/// 8.4 s; over 50 ms 6.6 s with both, over 20 ms and 10⁻⁴ 7.1 and 6.5 s).
const LONG: u16 = 16;
/// What a stream is worth under a set point: of less the kernel sends its two packets so seldom that the mean falls short (100 Mb/s, 100 ms: by
/// 1.5 % with 16 streams, by 0.5 % with 8).
const WORTH: Rate = Rate::from_bps(12_500_000);
/// What Mathis is trusted with; the rest is found by trying.
const MATHIS_MAX: u64 = 16;

/// Whether a path is so long that it counts how many round trips anything takes.
#[must_use]
pub fn is_far(rtt: Option<Duration>) -> bool {
    rtt.unwrap_or_default() >= FAR_RTT
}

/// Streams among which a set point is shared at most.
#[must_use]
pub fn most_streams(set_point: Rate) -> u16 {
    u16::try_from(set_point.bps() / WORTH.bps()).unwrap_or(u16::MAX).max(FAR)
}

/// Streams that a session over such a round trip has at least. Fewer may carry as much once they have grown, but whenever one
/// is lost, or has lost, the others take seconds to make up for it; and the next file begins with slow start again.
#[must_use]
pub fn least_streams(rtt: Option<Duration>, is_slow: bool) -> u16 {
    match rtt.unwrap_or_default() {
        rtt if rtt >= LONG_RTT && !is_slow => LONG,
        rtt if rtt >= FAR_RTT => FAR,
        _ => 1,
    }
}

/// Streams to begin with: what an earlier session found; else what loss and round trip ask for to reach
/// the goal; else a small number, for twice as many are soon tried.
#[must_use]
pub fn first_streams(start: &Start<'_>) -> u16 {
    if let Some(memory) = start.memory {
        return memory.streams.max(least_streams(start.rtt, start.is_slow));
    }
    let rtt = start.rtt.unwrap_or_default();
    match (start.goal, mathis(rtt, start.loss_ppm, start.mss_bytes)) {
        (Some(goal), Some(each)) if each.bps() > 0 => goal.bps().div_ceil(each.bps()).clamp(1, MATHIS_MAX) as u16,
        _ if is_far(start.rtt) => least_streams(start.rtt, start.is_slow),
        _ => NEAR,
    }
}

/// What one stream gets where loss forms its rate: 1.22 × MSS / (RTT × √p), Mathis et al. 1997, which is
/// of Reno; CUBIC gets more at long round trips, BBR much more. `None` without loss or round trip.
fn mathis(rtt: Duration, loss_ppm: u32, mss_bytes: u32) -> Option<Goodput> {
    if rtt.is_zero() || loss_ppm == 0 {
        return None;
    }
    // √(p × 10⁶ × 10¹²) = √p × 10⁹.
    let root_billionths = (u64::from(loss_ppm.min(1_000_000)) * 1_000_000_000_000).isqrt();
    let window_bytes = u64::from(mss_bytes) * 1_220_000_000 / root_billionths;
    Some(Bytes::new(window_bytes) / rtt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(rtt_ms: u64, loss_ppm: u32, goal: Option<Goodput>) -> Start<'static> {
        Start { rtt: Some(Duration::from_millis(rtt_ms)), loss_ppm, mss_bytes: 1448, goal, ..Start::default() }
    }

    #[test]
    fn by_hand() {
        let goal = Some(Goodput::gbps(1));
        let table = [
            (Start::default(), 2, "nothing is known"),
            (start(0, 0, None), 2, "one host"),
            (start(5, 1_000, None), 2, "near"),
            (start(20, 0, None), 8, "far"),
            (start(20, 10, None), 8, "far, with loss"),
            (start(100, 0, None), 16, "long"),
            (Start { is_slow: true, ..start(100, 0, None) }, 8, "long, and held to little"),
            (start(10, 100, goal), 8, "141 Mb/s each"),
            (start(1, 100, goal), 1, "1.4 Gb/s each"),
            (start(200, 10_000, goal), 16, "0.7 Mb/s each is not for streams to cure"),
            (start(20, 0, goal), 8, "without loss a goal says nothing"),
        ];
        for (start, streams, why) in table {
            assert_eq!(first_streams(&start), streams, "{why}");
        }
    }

    #[test]
    fn a_set_point_is_shared_by_few() {
        for (mbps, streams) in [(1, 8), (100, 8), (200, 16), (10_000, 800), (u64::MAX / 1_000_000, u16::MAX)] {
            assert_eq!(most_streams(Rate::mbps(mbps)), streams, "{mbps} Mb/s");
        }
    }

    #[test]
    fn mathis_by_hand() {
        // 1.22 × 1448 B / (100 ms × √10⁻⁵): 558,635 B per round trip.
        assert_eq!(mathis(Duration::from_millis(100), 10, 1448), Some(Goodput::from_bps(44_690_800)));
        assert_eq!(mathis(Duration::ZERO, 10, 1448), None);
        assert_eq!(mathis(Duration::from_millis(1), 0, 1448), None);
        assert!(mathis(Duration::from_nanos(1), 1, u32::MAX).is_some());
    }

    #[test]
    fn what_was_found_comes_first() {
        let memory = Memory { path: "a b".to_owned(), streams: 6, at_s: 0, rate: Goodput::gbps(1) };
        let known = Start { memory: Some(&memory), ..start(20, 10, None) };
        assert_eq!(first_streams(&known), FAR);
        assert_eq!(first_streams(&Start { rtt: Some(Duration::from_millis(1)), ..known }), 6);
    }
}
