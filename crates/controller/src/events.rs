//! What happened, kept for a while, and told to those who listen.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::rest::{Event, Time};
use tokio::sync::broadcast;

/// Events that are kept for listeners who come back.
pub const EVENTS_KEPT: usize = 10_000;
/// Events that a listener may be behind before it is let go.
pub const EVENTS_AHEAD: usize = 1024;

/// Events as they come. One place publishes, any number listen.
#[derive(Debug)]
pub struct EventHub {
    kept: Mutex<Kept>,
    live: broadcast::Sender<Event>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Event>,
    /// Number of the next one.
    next: u64,
}

/// What a listener gets.
#[derive(Debug)]
pub struct Listening {
    /// What is kept of what it has not seen, in order; begins with an [`Event::GAP`] if some of it is not.
    pub missed: Vec<Event>,
    /// What comes. Who lags behind by more than [`EVENTS_AHEAD`] is told so once and is to be let go.
    pub live: broadcast::Receiver<Event>,
}

impl EventHub {
    /// No events yet; the first gets the number `first`, which is to be above all that an earlier run of the controller gave.
    #[must_use]
    pub fn new(first: u64) -> EventHub {
        EventHub {
            kept: Mutex::new(Kept { events: VecDeque::new(), next: first.max(1) }),
            live: broadcast::Sender::new(EVENTS_AHEAD),
        }
    }

    /// Tells everybody, and keeps it.
    pub fn publish(&self, at: Time, kind: &str, subject: &str, text: impl Into<String>) -> u64 {
        let mut kept = self.lock();
        let id = kept.next;
        kept.next += 1;
        let event = Event { id, at, kind: kind.to_owned(), subject: subject.to_owned(), text: text.into() };
        if kept.events.len() == EVENTS_KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Under the lock, so that nobody misses one between what is kept and what comes. An error: nobody listens.
        let _ = self.live.send(event);
        id
    }

    /// Listens from now on, and to what came after the event of this number if there is one. `now` is for the word that some
    /// are not kept any more.
    pub fn listen(&self, after: Option<u64>, now: Time) -> Listening {
        let kept = self.lock();
        let live = self.live.subscribe();
        let Some(after) = after else { return Listening { missed: Vec::new(), live } };
        let first = kept.events.front().map_or(kept.next, |event| event.id);
        // Above the next one: the number is of another controller, or of this one before it lost its store.
        let is_gap = after.saturating_add(1) < first || after >= kept.next;
        let gap = is_gap.then(|| Event {
            id: first - 1,
            at: now,
            kind: Event::GAP.to_owned(),
            subject: String::new(),
            text: format!("events after {after} are not kept any more: look at the state anew"),
        });
        let from = if is_gap { 0 } else { after };
        let missed = gap.into_iter().chain(kept.events.iter().filter(|event| event.id > from).cloned()).collect();
        Listening { missed, live }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(0);

    fn ids(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn who_comes_back_gets_what_it_missed_and_nothing_twice() {
        let hub = EventHub::new(5);
        for subject in ["t1", "t2", "t3"] {
            hub.publish(NOW, "transfer_done", subject, "it is done");
        }
        let mut back = hub.listen(Some(5), NOW);
        assert_eq!(ids(&back.missed), [6, 7]);
        assert_eq!(hub.publish(NOW, "link_down", "ana:forward", "three probes are missing"), 8);
        assert_eq!(back.live.try_recv().map(|event| event.id), Ok(8));
        assert!(hub.listen(None, NOW).missed.is_empty());
        assert!(hub.listen(Some(8), NOW).missed.is_empty());
        assert_eq!(ids(&hub.listen(Some(4), NOW).missed), [5, 6, 7, 8], "all that there ever were: no gap");
    }

    #[test]
    fn what_is_not_kept_any_more_is_a_gap() {
        let hub = EventHub::new(1);
        for _ in 0..=EVENTS_KEPT {
            hub.publish(NOW, "x", "", "");
        }
        let missed = hub.listen(Some(0), NOW).missed;
        assert_eq!((missed.len(), missed[0].kind.as_str(), missed[0].id), (EVENTS_KEPT + 1, Event::GAP, 1));
        assert_eq!(missed[1].id, 2);
        assert_eq!(ids(&hub.listen(Some(1), NOW).missed).len(), EVENTS_KEPT, "just all that is kept: no gap");
        let foreign = hub.listen(Some(u64::MAX), NOW).missed;
        assert_eq!(foreign[0].kind, Event::GAP, "a number that was never given");
        let empty = EventHub::new(100).listen(Some(7), NOW).missed;
        assert_eq!((empty.len(), empty[0].kind.as_str()), (1, Event::GAP), "events of an earlier run");
    }

    #[test]
    fn who_is_too_slow_is_told() {
        let hub = EventHub::new(1);
        let mut slow = hub.listen(None, NOW).live;
        for _ in 0..=EVENTS_AHEAD {
            hub.publish(NOW, "x", "", "");
        }
        assert!(matches!(slow.try_recv(), Err(broadcast::error::TryRecvError::Lagged(1))));
    }
}
