//! Between which numbers of streams a session may choose.

use std::time::Duration;

use units::Rate;

/// How many streams there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least; one at least.
    pub min: u16,
    /// At most: the session's wish and its part of the host's budget.
    pub max: u16,
}

impl Bounds {
    /// The nearest number that there may be.
    #[must_use]
    pub fn clamp(self, streams: u16) -> u16 {
        streams.clamp(self.min.max(1), self.max.max(self.min).max(1))
    }
}

/// What bounds the number of a session's streams beside its set point.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The path's round trip, from the connection's opening.
    pub rtt: Option<Duration>,
    /// What the session may have at most.
    pub streams_max: u16,
    /// It makes room for others, and so begins slowly.
    pub is_polite: bool,
}

/// Of a path that loses packets again and again: where two are slowed down together, the others fill it.
pub const NEAR_LOSSY: u16 = 4;
/// From this round trip on several streams share slow start, and the losses in it. No round number, for paths have those, now a bit more and now
/// less: when it was 20 ms, about half of the sessions over 20 ms had 8 streams, the others 2 (20,000 small files, 1 Gb/s, 10⁻⁴: 6.0 to 6.2 s, and 6.8 to
/// 7.4 s; over 10 ms 5.9 to 6.1 s, and 6.3 to 6.7 s).
const FAR_RTT: Duration = Duration::from_millis(7);
/// Of a far path, also because a stream alone would get a fraction of one that loses.
const FAR: u16 = 8;
/// From this round trip on each doubling of a window costs more than twice as many streams do.
const LONG_RTT: Duration = Duration::from_millis(80);
/// Of a long path: they are full a round trip sooner than half as many (20,000 small files, 1 Gb/s: over 200 ms 8.1 s, with 8 streams
/// 8.4 s; over 50 ms 6.6 s with both, over 20 ms and 10⁻⁴ 7.1 and 6.5 s).
const LONG: u16 = 16;
/// What a stream should have of a set point. More streams missed it before they took turns at the gate (`net::sender`; 100 ms, 1 Gb/s:
/// 100 Mb/s by 0.5 % with 8 streams and 1.5 % with 16); they gain nothing by it, and cost more. With more each, few are to carry what
/// a raise brings until others have come (100 to 500 Mb/s: the first second in the mean 1.2 % short from 4 on, 0.4 % from 8 on).
const WORTH: Rate = Rate::from_bps(12_500_000);
/// What the second one may have: alone, one that loses leaves the set point unused (25 Mb/s, 10⁻⁴: 5.4 % short, with 2 0.1 %).
const WORTH_SECOND: Rate = Rate::mbps(5);

/// Whether a path is so long that it counts how many round trips anything takes.
#[must_use]
pub fn is_far(rtt: Option<Duration>) -> bool {
    rtt.unwrap_or_default() >= FAR_RTT
}

impl Conditions {
    /// The bounds under a set point, if there is one.
    ///
    /// Over a far path fewer streams may carry as much once they have grown, but whenever one is lost, or has lost, the others take
    /// seconds to make up for it; and the next file begins with slow start again.
    #[must_use]
    pub fn bounds(&self, set_point: Option<Rate>) -> Bounds {
        let max = self.streams_max.max(1).min(set_point.map_or(u16::MAX, most));
        let least = match self.rtt.unwrap_or_default() {
            rtt if rtt >= LONG_RTT && !self.is_polite => LONG,
            rtt if rtt >= FAR_RTT => FAR,
            _ => 1,
        };
        Bounds { min: least.min(max), max }
    }
}

/// Streams among which a set point is shared at most.
fn most(set_point: Rate) -> u16 {
    let two = (set_point.bps() / WORTH_SECOND.bps()).clamp(1, 2);
    u16::try_from(set_point.bps() / WORTH.bps()).unwrap_or(u16::MAX).max(two as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let bounds = |rtt_ms, streams_max, is_polite, mbps: Option<u64>| {
            let conditions = Conditions { rtt: Some(Duration::from_millis(rtt_ms)), streams_max, is_polite };
            let Bounds { min, max } = conditions.bounds(mbps.map(Rate::mbps));
            (min, max)
        };
        assert_eq!(bounds(0, 32, false, None), (1, 32), "near");
        assert_eq!(bounds(6, 32, false, None), (1, 32), "not far yet");
        assert_eq!(bounds(9, 32, false, None), (8, 32), "far");
        assert_eq!(bounds(100, 32, false, None), (16, 32), "long");
        assert_eq!(bounds(100, 4, false, None), (4, 4), "no more than there may be");
        assert_eq!(bounds(100, 0, false, None), (1, 1), "but one");
        assert_eq!(bounds(100, 32, true, None), (8, 32), "it makes room");
        assert_eq!(bounds(100, 32, false, Some(500)), (16, 32));
        assert_eq!(bounds(100, 32, false, Some(125)), (10, 10));
        assert_eq!(bounds(100, 32, false, Some(100)), (8, 8), "a small set point has few");
        assert_eq!(bounds(100, 32, false, Some(10)), (2, 2));
        assert_eq!(bounds(100, 32, false, Some(9)), (1, 1));
        assert_eq!(bounds(0, 32, false, Some(0)), (1, 1));
        assert_eq!(bounds(100, u16::MAX, false, Some(u64::MAX / 1_000_000)), (16, u16::MAX));
    }
}
