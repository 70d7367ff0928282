//! The number of streams of a session, found while it runs, at the end that connects.

use std::time::{Duration, Instant};

use units::{Bytes, Goodput};

use super::Context;
use super::streams::Sample;
use crate::control::attribution::Limit;
use crate::control::tuner::{self, Bounds, Start, StreamTuner};

/// Finds the number of streams, if that is to be found and this end opens them.
pub struct Auto {
    tuner: Option<StreamTuner>,
    begin: Instant,
    bytes: u64,
}

impl Auto {
    /// Begins with what the context says of the path.
    #[must_use]
    pub fn new(context: &Context) -> Auto {
        let bounds = Bounds { min: 1, max: context.streams_max.max(1) };
        let tuner = context.auto_streams.then(|| StreamTuner::new(Duration::ZERO, bounds, &Start::default()));
        Auto { tuner, begin: Instant::now(), bytes: 0 }
    }

    /// Streams to have before anything is measured.
    #[must_use]
    pub fn first(&self, otherwise: u16) -> u16 {
        self.tuner.as_ref().map_or(otherwise, StreamTuner::target).max(1)
    }

    /// Takes the sample of a second; gives the number of streams to have, if it changes.
    pub fn second(
        &mut self,
        bytes: u64,
        span: Duration,
        sample: &Sample,
        limit: Option<Limit>,
        wanted: u16,
    ) -> Option<u16> {
        let moved = bytes - self.bytes.min(bytes);
        self.bytes = bytes;
        let tuner = self.tuner.as_mut()?;
        let goodput = Bytes::new(moved).checked_over(span).unwrap_or(Goodput::ZERO);
        let loss_ppm = (sample.retransmits_now * 1_000_000 / sample.segments.max(1)).min(1_000_000) as u32;
        let limit = limit.unwrap_or(Limit::Idle);
        let target =
            tuner.sample(self.begin.elapsed(), &tuner::Sample { goodput, streams: sample.streams, limit, loss_ppm });
        (target != wanted).then_some(target)
    }

    /// The user named a number: nothing is to be found any more.
    pub fn fixed(&mut self) {
        self.tuner = None;
    }
}
