//! One series in memory: its last samples, and the points that are not complete yet.

use std::collections::VecDeque;

use super::{COARSE_S, FINE_S, Point, RING_SAMPLES, SET_BACK_MS, seconds};

/// A point that samples are put into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    /// Begin, s since 1970.
    pub(super) at_s: i64,
    pub(super) count: u32,
    pub(super) mean: f64,
    pub(super) max: f64,
}

impl Bucket {
    fn new(at_s: i64, value: f64) -> Bucket {
        Bucket { at_s, count: 1, mean: value, max: value }
    }

    fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        // A running mean: a sum of great numbers would lose the small ones.
        self.mean += (value - self.mean) / f64::from(self.count);
        self.max = self.max.max(value);
    }
}

#[derive(Debug, Default)]
pub(super) struct Series {
    ring: VecDeque<(u64, f64)>,
    fine: Option<Bucket>,
    coarse: Option<Bucket>,
}

/// Points that are complete, with their lengths.
type Closed = [Option<(u32, Bucket)>; 2];

impl Series {
    /// Takes a sample; gives the points that it completes.
    pub(super) fn take(&mut self, at_ms: u64, value: f64) -> Closed {
        match self.last() {
            Some((last_ms, _)) if at_ms < last_ms && last_ms - at_ms < SET_BACK_MS => return [None, None],
            // The clock was set back: what it said before makes no sense beside what it says now.
            Some((last_ms, _)) if at_ms < last_ms => self.ring.clear(),
            _ => {}
        }
        if self.ring.len() == RING_SAMPLES {
            self.ring.pop_front();
        }
        self.ring.push_back((at_ms, value));
        [put(&mut self.fine, FINE_S, at_ms, value), put(&mut self.coarse, COARSE_S, at_ms, value)]
    }

    /// Gives the points that are not complete.
    pub(super) fn close(&mut self) -> Closed {
        [self.fine.take().map(|bucket| (FINE_S, bucket)), self.coarse.take().map(|bucket| (COARSE_S, bucket))]
    }

    pub(super) fn open(&self, grain_s: u32) -> Option<&Bucket> {
        if grain_s == FINE_S { self.fine.as_ref() } else { self.coarse.as_ref() }
    }

    pub(super) fn last(&self) -> Option<(u64, f64)> {
        self.ring.back().copied()
    }

    /// Whether all samples from this time on are in the ring.
    pub(super) fn ring_covers(&self, from_ms: u64) -> bool {
        self.ring.front().is_some_and(|(oldest_ms, _)| *oldest_ms <= from_ms)
    }

    pub(super) fn ring(&self, from_ms: u64, to_ms: u64) -> Vec<Point> {
        let within = self.ring.iter().filter(|(at_ms, _)| (from_ms..to_ms).contains(at_ms));
        within.map(|(at_ms, value)| Point { at_ms: *at_ms, mean: *value, max: *value, count: 1 }).collect()
    }
}

fn put(bucket: &mut Option<Bucket>, grain_s: u32, at_ms: u64, value: f64) -> Option<(u32, Bucket)> {
    let grain = i64::from(grain_s);
    let at_s = seconds(at_ms).div_euclid(grain) * grain;
    match bucket {
        Some(open) if open.at_s == at_s => {
            open.add(value);
            None
        }
        _ => bucket.replace(Bucket::new(at_s, value)).map(|complete| (grain_s, complete)),
    }
}
