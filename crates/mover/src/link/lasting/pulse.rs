//! When the other end was heard.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::SILENCE;

/// The path works on which something was heard so lately: what must be said, and a little for its way. Streams are stalled
/// after longer than this, so one that stopped together with the link is not thought to be on another path.
const FRESH: Duration = Duration::from_millis(700);

/// What the session can see of its link.
#[derive(Debug, Clone)]
pub(in crate::link) struct Pulse(Arc<Mutex<Beat>>);

#[derive(Debug)]
struct Beat {
    heard: Instant,
    /// Since when it was never silent for long.
    since: Instant,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Pulse {
        Pulse(Arc::new(Mutex::new(Beat { heard: now, since: now })))
    }

    pub(super) fn heard(&self, now: Instant) {
        let mut beat = self.0.lock().expect("no panic under the lock");
        if now.saturating_duration_since(beat.heard) > SILENCE {
            beat.since = now;
        }
        beat.heard = now;
    }

    pub(super) fn attached(&self, now: Instant) {
        let mut beat = self.0.lock().expect("no panic under the lock");
        (beat.heard, beat.since) = (now, now);
    }

    /// Whether the link is not silent.
    pub(in crate::link) fn is_heard(&self, now: Instant) -> bool {
        let beat = self.0.lock().expect("no panic under the lock");
        now.saturating_duration_since(beat.heard) <= SILENCE
    }

    /// Whether the path of the link works, and has for so long that what was lost on it is sent again.
    pub(in crate::link) fn works(&self, now: Instant) -> bool {
        let beat = self.0.lock().expect("no panic under the lock");
        now.saturating_duration_since(beat.heard) <= FRESH && now.saturating_duration_since(beat.since) >= SILENCE
    }
}
