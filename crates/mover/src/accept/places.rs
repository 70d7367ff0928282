//! Places for connections that have proved nothing yet.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::oneshot;

/// So many places. Who comes when all are taken has that of the connection that is there longest: one that belongs here is done
/// within some round trips, one that only takes a place stays, so those who do keep nobody out.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// The oldest first.
    places: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A place, given back when it is dropped.
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
    lost: oneshot::Receiver<()>,
}

impl Places {
    /// So many, at least one.
    pub(super) fn new(most: usize) -> Places {
        Places { most: most.max(1), taken: Mutex::default() }
    }

    /// Takes a place, that of the oldest if there is none.
    pub(super) fn take(&self) -> Place<'_> {
        let mut taken = self.taken.lock().expect("no panic under the lock");
        while taken.places.len() >= self.most {
            // Its connection learns of it by what is dropped here.
            taken.places.pop_front();
        }
        let (held, lost) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        taken.places.push_back((number, held));
        Place { places: self, number, lost }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.taken.lock().unwrap().places.len()
    }
}

impl Place<'_> {
    /// Ends when another connection has been given the place.
    pub(super) async fn lost(&mut self) {
        // Nothing is ever sent.
        let _ = (&mut self.lost).await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().expect("no panic under the lock");
        if let Ok(at) = taken.places.binary_search_by_key(&self.number, |(number, _)| *number) {
            taken.places.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(place: &mut Place<'_>) -> bool {
        place.lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_makes_room() {
        let places = Places::new(2);
        let (mut first, mut second) = (places.take(), places.take());
        assert!(!is_lost(&mut first) && !is_lost(&mut second));
        let mut third = places.take();
        assert!(is_lost(&mut first) && !is_lost(&mut second) && !is_lost(&mut third));
        assert_eq!(places.len(), 2);
    }

    #[test]
    fn who_is_done_makes_room_too() {
        let places = Places::new(2);
        let (mut first, second) = (places.take(), places.take());
        drop(second);
        let mut third = places.take();
        assert!(!is_lost(&mut first) && !is_lost(&mut third));
        drop(first);
        drop(third);
        assert_eq!(places.len(), 0);
    }

    #[test]
    fn who_has_lost_its_place_takes_nobody_elses_along() {
        let places = Places::new(1);
        let first = places.take();
        let mut second = places.take();
        drop(first);
        assert!(!is_lost(&mut second));
        assert_eq!(places.len(), 1);
    }
}
