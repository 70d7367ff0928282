//! How many connections an address has.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An address, or what one subscriber has of them: of IPv6 a /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin(IpAddr);

impl Origin {
    pub(super) fn of(ip: IpAddr) -> Origin {
        match ip.to_canonical() {
            IpAddr::V6(ip) => Origin(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64))),
            ip => Origin(ip),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts, of addresses that have any.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<BTreeMap<Origin, usize>>);

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    origin: Origin,
}

impl Places {
    /// A place of this address, if it has less than `most`.
    pub(super) fn take(self: &Arc<Places>, origin: Origin, most: usize) -> Option<Place> {
        let mut counts = self.lock();
        let count = counts.entry(origin).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), origin })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.lock();
        if let Some(count) = counts.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    #[test]
    fn an_address_has_its_places_and_gives_them_back() {
        let places = Arc::new(Places::default());
        let (a, b) = (origin("192.0.2.1"), origin("192.0.2.2"));
        let first = places.take(a, 2).expect("the first");
        let _second = places.take(a, 2).expect("the second");
        assert!(places.take(a, 2).is_none());
        assert!(places.take(b, 2).is_some());
        drop(first);
        assert!(places.take(a, 2).is_some());
        assert_eq!(places.lock().len(), 1, "who has none is not remembered");
    }

    #[test]
    fn a_subscriber_is_one_origin() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
    }
}
