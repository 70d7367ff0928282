//! The number of streams of a session, found while it runs, at the end that connects.

use std::time::{Duration, Instant};

use proto::seal::Protection;
use units::{Bytes, Goodput, Rate};

use super::Context;
use super::streams::Ways;
use crate::control::attribution::Limit;
use crate::control::congestion::{self, NearLosses, RareLosses};
use crate::control::tuner::{self, Bounds, Conditions, StreamTuner};
use crate::known_paths::{self, KnownPath};

/// What a second moved, and over how many streams.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Payload since the session's begin, bytes.
    pub bytes: u64,
    /// How long the second was.
    pub span: Duration,
    /// Streams that were open.
    pub streams: u16,
    /// Streams that are wanted.
    pub wanted: u16,
}

/// With BBR more streams come when a session has lasted so long: what they bring is 1 % of a long one, and their start beside
/// those that fill the path costs a short one more (20,000 small files, 10⁻³: over 100 ms 7.4 s with 8 streams, 7.6 s with 16
/// from the first second on, over 200 ms 9.2 and 9.8 s). A test, which is to tell what a long session has, does not wait.
const ALL_AFTER: Duration = Duration::from_secs(10);

/// Finds the number of streams, if that is to be found and this end opens them.
pub struct Auto {
    conditions: Conditions,
    /// What the agent allows.
    rate_max: Option<Rate>,
    bounds: Bounds,
    is_far: bool,
    tuner: Option<StreamTuner>,
    known: Option<KnownPath>,
    is_lossy: bool,
    /// When more streams come if it is.
    all_after: Duration,
    losses: RareLosses,
    near: NearLosses,
    begin: Instant,
    bytes: u64,
    goodput: Option<Goodput>,
}

impl Auto {
    /// Begins with what the context says of the path.
    #[must_use]
    pub fn new(context: &Context) -> Auto {
        let Context { rtt, streams_max, .. } = *context;
        let conditions = Conditions { rtt, streams_max, is_polite: context.settings.polite };
        let rate_max = context.rate_max_bps.map(Rate::from_bps);
        let bounds = conditions.bounds(context.settings.rate_bps.map(Rate::from_bps).into_iter().chain(rate_max).min());
        let known = context.auto_streams.then(|| known_path(context)).flatten();
        let memory = known.as_ref().and_then(KnownPath::recall);
        let tuner = context.auto_streams.then(|| StreamTuner::new(Duration::ZERO, bounds, memory.as_ref()));
        let is_far = tuner::is_far(context.rtt);
        Auto {
            conditions,
            rate_max,
            bounds,
            is_far,
            tuner,
            known,
            is_lossy: false,
            all_after: ALL_AFTER,
            losses: RareLosses::default(),
            near: NearLosses::default(),
            begin: Instant::now(),
            bytes: 0,
            goodput: None,
        }
    }

    /// Another set point is in force, or none.
    pub fn paced(&mut self, set_point: Option<Rate>) {
        let bounds = self.conditions.bounds(set_point.into_iter().chain(self.rate_max).min());
        if bounds != self.bounds {
            self.bounds = bounds;
            if let Some(tuner) = &mut self.tuner {
                tuner.set_bounds(self.begin.elapsed(), bounds);
            }
        }
    }

    /// The session is a test.
    pub fn begin_test(&mut self) {
        self.all_after = Duration::ZERO;
    }

    /// The path loses packets without being full: streams have gone over to BBR.
    pub fn lossy(&mut self) {
        self.is_lossy = true;
    }

    /// Over a far path that loses packets there are as many streams as there may be: what one gets changes from second to second, what
    /// all get the less the more there are, and BBR takes seconds to fill what a stream leaves that ends (1 Gb/s, 200 ms, 10⁻⁴: 8 streams
    /// 95 %, 16 streams 97 %, from 8 to 16 and back 94 %).
    fn have_all(&mut self) {
        if let Some(tuner) = self.tuner.as_mut().filter(|_| self.is_far) {
            tuner.set_bounds(self.begin.elapsed(), Bounds { min: self.bounds.max, ..self.bounds });
        }
    }

    /// Streams to have before anything is measured.
    #[must_use]
    pub fn first(&self, otherwise: u16) -> u16 {
        self.tuner.as_ref().map_or(otherwise, StreamTuner::target).max(1)
    }

    /// What the last second moved, once there was one.
    #[must_use]
    pub fn goodput(&self) -> Option<Goodput> {
        self.goodput
    }

    /// Takes what a second moved and what the end that sends saw of the path; gives the number of streams to have, if it is another one
    /// than is wanted now.
    pub fn second(&mut self, moved: Moved, seen: congestion::Second, limit: Limit) -> Option<u16> {
        let bytes = moved.bytes - self.bytes.min(moved.bytes);
        self.bytes = moved.bytes;
        let goodput = Bytes::new(bytes).checked_over(moved.span).unwrap_or(Goodput::ZERO);
        self.goodput = Some(goodput);
        // A few losses without a queue want as many streams as many do.
        let is_long = self.is_lossy && self.begin.elapsed() >= self.all_after;
        if is_long || (self.losses.second(seen) && limit.is_per_stream()) {
            self.have_all();
        }
        let tuner = self.tuner.as_mut()?;
        let is_near_lossy = !self.is_far && limit.is_per_stream() && self.near.second(seen);
        if is_near_lossy {
            let min = tuner::NEAR_LOSSY.clamp(self.bounds.min, self.bounds.max);
            tuner.set_bounds(self.begin.elapsed(), Bounds { min, ..self.bounds });
        }
        let is_full = (self.is_far || is_near_lossy) && seen.is_queued();
        let sample = tuner::Sample { goodput, streams: moved.streams, limit, loss_ppm: seen.loss_ppm, is_full };
        let target = tuner.sample(self.begin.elapsed(), &sample);
        (target != moved.wanted).then_some(target)
    }

    /// The user named a number: nothing is to be found any more.
    pub fn fixed(&mut self) {
        self.tuner = None;
    }

    /// Keeps what was found for the next session.
    fn remember(&self) {
        let (Some(tuner), Some(known)) = (&self.tuner, &self.known) else { return };
        if let Some(memory) = tuner.memory(known.name(), known_paths::now_s())
            && let Err(error) = known.keep(memory)
        {
            tracing::debug!(%error, "what was found of the path is not kept");
        }
    }
}

impl Drop for Auto {
    fn drop(&mut self) {
        self.remember();
    }
}

/// A path is told by the far end's address and by its marks, by what a byte costs, and by its round trip, to a factor of two: one that goes
/// another way to the same place is another path.
fn known_path(context: &Context) -> Option<KnownPath> {
    let Ways::Dial { to, .. } = &context.ways else { return None };
    let way = to.first()?;
    let marks = if way.marks.is_none() { String::new() } else { format!(" {}", way.marks) };
    let file = context.limits.paths_file.clone()?;
    let rtt_ms = context.rtt.unwrap_or_default().as_millis();
    let about = rtt_ms.checked_ilog2().map_or(0, |log| 1u64 << log);
    Some(KnownPath::new(file, format!("{}{marks} {} {about}ms", way.to.ip(), words(context.settings.protection))))
}

fn words(protection: Protection) -> &'static str {
    match protection {
        Protection::Clear => "clear",
        Protection::Integrity => "integrity",
        Protection::Private => "private",
    }
}
