//! Through the page cache or past it: chosen by measuring.
//!
//! O_DIRECT saves the copy and keeps the page cache for others, and on a fast disk it is the faster way. But what
//! was written a moment ago is still in memory, and some file systems take direct I/O and are slow at it. Which
//! it is here, no flag tells.

use std::time::Duration;

/// One of so many chunks is read the other way, to see whether that has become the better one.
const PROBE_EVERY: u32 = 16;
/// The other way is better when it takes less than this share of the time, per mille: not for noise.
const BETTER: u128 = 500;
/// How much of a mean a new time is: one part in so many.
const FADE: u32 = 2;

/// How a chunk goes to or from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Past the page cache (O_DIRECT).
    Direct,
    /// Through it.
    Cached,
}

/// Finds the better way to read from one device, all the time.
#[derive(Debug, Default)]
pub struct ReadTrial {
    direct: Option<Duration>,
    cached: Option<Duration>,
    chunks: u32,
}

impl ReadTrial {
    /// The way to read the next chunk.
    pub fn choose(&mut self) -> Way {
        self.chunks = self.chunks.wrapping_add(1);
        // The second chunk is a probe too, so that short datasets gain as well.
        let probe = self.chunks % PROBE_EVERY == 2;
        match (self.better(), probe) {
            (Way::Direct, false) | (Way::Cached, true) => Way::Direct,
            _ => Way::Cached,
        }
    }

    /// A whole chunk took so long, from the call to its bytes.
    pub fn took(&mut self, way: Way, time: Duration) {
        let mean = match way {
            Way::Direct => &mut self.direct,
            Way::Cached => &mut self.cached,
        };
        *mean = Some(mean.map_or(time, |mean| mean - mean / FADE + time / FADE));
    }

    fn better(&self) -> Way {
        match (self.direct, self.cached) {
            (Some(direct), Some(cached)) if cached.as_nanos() * 1000 < direct.as_nanos() * BETTER => Way::Cached,
            _ => Way::Direct,
        }
    }
}

/// Chunks of the trial: enough to fill a queue, and few of what is waited for, one after the other.
const DIRECT_CHUNKS: u32 = 16;
const CACHED_CHUNKS: u32 = 4;

/// Finds the better way to write to one device, once.
///
/// First chunks are written past the page cache, then a few through it and on to the disk, which is waited for:
/// what only sits in memory is not written. Time counts only while writes are in flight, so a slow network makes
/// neither way look slow.
#[derive(Debug, Default)]
pub struct WriteTrial {
    direct: Sum,
    cached: Sum,
}

#[derive(Debug, Default)]
struct Sum {
    chunks: u32,
    bytes: u64,
    time: Duration,
}

impl WriteTrial {
    /// The way to write the next chunk.
    #[must_use]
    pub fn choose(&self) -> Way {
        if self.direct.chunks < DIRECT_CHUNKS {
            Way::Direct
        } else if self.cached.chunks < CACHED_CHUNKS {
            Way::Cached
        } else {
            self.better()
        }
    }

    /// True while times are wanted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.cached.chunks < CACHED_CHUNKS
    }

    /// A chunk is on the disk; `time` is what it added to the time in which writes were in flight.
    pub fn took(&mut self, way: Way, bytes: u64, time: Duration) {
        let (sum, most) = match way {
            Way::Direct => (&mut self.direct, DIRECT_CHUNKS),
            Way::Cached => (&mut self.cached, CACHED_CHUNKS),
        };
        if sum.chunks < most {
            sum.chunks += 1;
            sum.bytes += bytes;
            sum.time += time;
        }
    }

    fn better(&self) -> Way {
        // Bytes per time, as a product of sums: nothing is divided by nothing.
        let direct = u128::from(self.direct.bytes) * self.cached.time.as_nanos();
        let cached = u128::from(self.cached.bytes) * self.direct.time.as_nanos();
        if direct * 1000 < cached * BETTER { Way::Cached } else { Way::Direct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads 100 chunks with these times, in ms; how many of the last 64 went through the cache.
    fn cached(trial: &mut ReadTrial, direct_ms: u64, cached_ms: u64) -> usize {
        let mut ways = Vec::new();
        for _ in 0..100 {
            let way = trial.choose();
            ways.push(way);
            let ms = if way == Way::Direct { direct_ms } else { cached_ms };
            trial.took(way, Duration::from_millis(ms));
        }
        ways[36..].iter().filter(|w| **w == Way::Cached).count()
    }

    #[test]
    fn reads_what_is_in_memory_from_there_and_notices_the_end_of_it() {
        let mut trial = ReadTrial::default();
        assert_eq!(cached(&mut trial, 20, 19), 4, "only probes");
        assert_eq!(cached(&mut trial, 20, 1), 60);
        assert_eq!(cached(&mut trial, 20, 30), 4, "the rest is on the disk");
    }

    fn write(direct_us: u64, cached_us: u64) -> Way {
        let mut trial = WriteTrial::default();
        while trial.is_open() {
            let way = trial.choose();
            let us = if way == Way::Direct { direct_us } else { cached_us };
            trial.took(way, 4 << 20, Duration::from_micros(us));
        }
        trial.choose()
    }

    #[test]
    fn writes_past_the_cache_unless_that_is_much_slower() {
        assert_eq!(write(2_000, 10_000), Way::Direct);
        assert_eq!(write(2_000, 1_500), Way::Direct, "not for little");
        assert_eq!(write(40_000, 4_000), Way::Cached);
        assert_eq!(write(0, 0), Way::Direct);
    }
}
