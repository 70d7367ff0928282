//! Data streams that have ended at one end only. What they carried is sent again when both have, and only what did not
//! arrive: a stream that ends in good order, or on a dead path, has carried much that did.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto::control::Arrived;

/// How long the destination may take to say how a stream ended: first by itself, then when it is asked. It empties the
/// kernel's buffers of both ends meanwhile, if the path is alive.
const LINGER: Duration = Duration::from_secs(5);

/// Streams on their way out; no more than there are streams.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// Closed here: since when it is waited, and whether the destination was asked to close its end.
    here: BTreeMap<u16, (Instant, bool)>,
    /// Ended at the destination, of those that are not closed here.
    there: BTreeMap<u16, Arrived>,
}

impl Endings {
    /// A stream is closed here. Gives what arrived over it if the destination has said so.
    pub(super) fn closed(&mut self, id: u16, now: Instant) -> Option<Arrived> {
        let arrived = self.there.remove(&id);
        if arrived.is_none() {
            // Asked before: it was given up.
            self.here.entry(id).or_insert((now, false)).0 = now;
        }
        arrived
    }

    /// The destination was told that a stream is given up.
    pub(super) fn given_up(&mut self, id: u16, now: Instant) {
        self.here.insert(id, (now, true));
    }

    /// The destination says what arrived. Gives it if the stream is closed here, else when it will be, if it `is_open`; a
    /// stream that is neither is none, or waited for no longer.
    pub(super) fn ended(&mut self, id: u16, arrived: Arrived, is_open: bool) -> Option<Arrived> {
        if !is_open {
            return self.here.remove(&id).map(|_| arrived);
        }
        self.here.remove(&id);
        self.there.insert(id, arrived);
        None
    }

    /// A stream that the destination is to close (`Ok`), or about which it will say nothing (`Err`): after too long a
    /// time, while the destination is heard.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Result<u16, u16>> {
        let (&id, waiting) = self.here.iter_mut().find(|(_, (since, _))| now.duration_since(*since) > LINGER)?;
        if waiting.1 {
            self.here.remove(&id);
            return Some(Err(id));
        }
        *waiting = (now, true);
        Some(Ok(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcels(whole: &[u64]) -> Arrived {
        Arrived { whole: whole.to_vec(), begun: None }
    }

    #[test]
    fn both_ends_are_waited_for_in_any_order() {
        let (mut endings, now) = (Endings::default(), Instant::now());
        assert_eq!(endings.closed(1, now), None);
        assert_eq!(endings.ended(1, parcels(&[7]), false), Some(parcels(&[7])));
        assert_eq!(endings.ended(1, parcels(&[7]), false), None, "it is over");
        assert_eq!(endings.ended(2, parcels(&[8]), true), None);
        assert_eq!(endings.closed(2, now), Some(parcels(&[8])));
        // It is given up, the destination is quick, and the thread that had it tells last.
        endings.given_up(3, now);
        assert_eq!(endings.ended(3, parcels(&[9]), true), None);
        assert_eq!(endings.closed(3, now), Some(parcels(&[9])));
        assert!(endings.overdue(now + 10 * LINGER).is_none());
    }

    #[test]
    fn a_destination_that_says_nothing_is_asked_and_then_not_waited_for() {
        let (mut endings, now) = (Endings::default(), Instant::now());
        assert_eq!(endings.closed(1, now), None);
        assert_eq!(endings.overdue(now + LINGER), None);
        let later = now + LINGER + Duration::from_millis(1);
        assert_eq!(endings.overdue(later), Some(Ok(1)));
        assert_eq!(endings.overdue(later), None);
        assert_eq!(endings.overdue(later + LINGER + Duration::from_millis(1)), Some(Err(1)));
        assert_eq!(endings.ended(1, parcels(&[7]), false), None, "it was sent again");
    }
}
