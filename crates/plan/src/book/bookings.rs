//! Bookings and their life.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::{Moment, Window};

use super::ResourceId;

/// Bookings of one chunk: what a change copies pointers of after a snapshot was taken.
const CHUNK: u64 = 256;

/// Names a booking. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BookingId(pub(super) u64);

/// Who booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its own name; not shown to others.
    pub name: String,
    /// The class of work, which others are shown: `"promise"`, `"maintenance"`, `"at-large"`.
    pub class: String,
}

/// What is taken of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// Of which.
    pub resource: ResourceId,
    /// When.
    pub window: Window,
    /// How much, in b/s: what the calendar charges, a multiple of its grain.
    pub rate: u64,
}

/// Where a booking is in its life.
///
/// ```text
///  hold ─▶ Held ─commit─▶ Committed ─its time comes─▶ Active ─its time is over─▶ Ended
///           │ │               │                         │
///           │ └─release───────┴────────release──────────┴─▶ Released
///           └─time out─▶ Expired       └──fail──────────┴─▶ Failed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Counts until then, unless it is committed before.
    Held {
        /// The first moment at which it does not count any more.
        expires: Moment,
    },
    /// Counts, and has not begun.
    Committed,
    /// Counts, and has begun.
    Active,
    /// Its time is over.
    Ended,
    /// Given back by its holder.
    Released,
    /// Held, and not committed in time.
    Expired,
    /// What it took is not there any more.
    Failed,
}

impl State {
    /// Whether it takes anything.
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, State::Held { .. } | State::Committed | State::Active)
    }
}

/// What somebody has of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Who.
    pub holder: Holder,
    /// Where it is in its life.
    pub state: State,
    /// From its first moment to its last.
    pub window: Window,
    /// Of what, in order of resource and time.
    pub takes: Vec<Take>,
    /// What it would take if what it takes failed.
    pub backup: Option<Backup>,
    /// Counts its modifications.
    pub version: u32,
}

/// A second path, for when the first fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// What would be taken.
    pub takes: Vec<Take>,
    /// What the first path fails with: what is taken for the backup is shared with bookings that fail with nothing of it.
    pub failures: Vec<Failure>,
}

/// What fails at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A link, both ways: the index of its first edge.
    Link(usize),
    /// A shared risk.
    Risk(usize),
}

/// All bookings that are not forgotten, by number.
#[derive(Clone, Debug, Default)]
pub struct Bookings {
    chunks: BTreeMap<u64, Arc<BTreeMap<BookingId, Booking>>>,
    count: usize,
}

impl Bookings {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The booking of that number.
    #[must_use]
    pub fn get(&self, id: BookingId) -> Option<&Booking> {
        self.chunks.get(&(id.0 / CHUNK))?.get(&id)
    }

    /// All, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (BookingId, &Booking)> {
        self.chunks.values().flat_map(|chunk| chunk.iter()).map(|(id, booking)| (*id, booking))
    }

    pub(super) fn get_mut(&mut self, id: BookingId) -> Option<&mut Booking> {
        Arc::make_mut(self.chunks.get_mut(&(id.0 / CHUNK))?).get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: BookingId, booking: Booking) {
        let chunk = Arc::make_mut(self.chunks.entry(id.0 / CHUNK).or_default());
        if chunk.insert(id, booking).is_none() {
            self.count += 1;
        }
    }

    pub(super) fn remove(&mut self, id: BookingId) {
        let number = id.0 / CHUNK;
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        let chunk = Arc::make_mut(chunk);
        if chunk.remove(&id).is_some() {
            self.count -= 1;
        }
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
    }
}
