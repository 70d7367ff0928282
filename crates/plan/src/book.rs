//! The list of bookings, which feeds all calendars.
//!
//! One writer has the [`Book`]; whoever searches has a [`Snapshot`] of it and comes back with an [`Offer`], which is looked at
//! again before anything is taken: if what it takes is gone by then, the refusal names the resource that changed. What counts
//! against a calendar is what is in the list and [`State::counts`], and nothing else: reservations, maintenance, backups, the
//! floor of at-large traffic.

mod bookings;
mod change;
mod network;
mod offer;
mod shared;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use units::{Moment, Window};

use crate::calendar::{CAPACITY_MAX, Calendar};
use crate::graph::{EdgeId, Graph};
use change::{Change, Settled};

pub use bookings::{Backup, Booking, BookingId, Bookings, Failure, Holder, State, Take};
pub use network::AT_LARGE_CLASS;
pub use offer::{Offer, Part};
pub use snapshot::{RESOURCES_MAX, Resource, ResourceId, Snapshot};

/// Bookings that are not forgotten. A booking beyond is refused.
pub const BOOKINGS_MAX: usize = 1 << 20;

/// Why a book does not do what it is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// What was free when it was searched is not any more.
    #[error("`{resource}` changed since the search: search again")]
    Changed {
        /// The resource.
        resource: String,
    },
    /// It was never free.
    #[error("`{resource}` has not that much free")]
    NotFree {
        /// The resource.
        resource: String,
    },
    /// A backup would fail with what it is for.
    #[error("the backup fails with the first path: both depend on `{what}`")]
    Together {
        /// The link, by its first edge, or the shared risk.
        what: String,
    },
    /// There is nothing to switch to.
    #[error("the booking has no backup")]
    NoBackup,
    /// Above what calendars count.
    #[error("`{resource}` would have more than 4.6 Eb/s taken beyond its capacity")]
    OutOfRange {
        /// The resource.
        resource: String,
    },
    /// There is no such booking.
    #[error("no such booking: it was forgotten, or never made")]
    Unknown,
    /// The state does not allow it.
    #[error("a booking that {is} cannot be {done}")]
    State {
        /// What it is.
        is: &'static str,
        /// What was to be done.
        done: &'static str,
    },
    /// The booking takes nothing.
    #[error("nothing is taken: a booking has a rate and a window")]
    Nothing,
    /// The booking would have been over already.
    #[error("its time is over")]
    Past,
    /// The list is full.
    #[error("{BOOKINGS_MAX} bookings: forget those that are over")]
    Full,
}

/// The list of bookings, and the calendars that follow from it.
#[derive(Clone, Debug)]
pub struct Book {
    snapshot: Snapshot,
    next: u64,
    /// When the state of which booking changes by itself.
    agenda: BTreeSet<(Moment, BookingId)>,
}

impl Book {
    /// A book without bookings: each edge of a graph is a resource with its capacity at all times, sold by the b/s.
    #[must_use]
    pub fn new(graph: Graph) -> Book {
        Book { snapshot: Snapshot::new(graph), next: 0, agenda: BTreeSet::new() }
    }

    /// Gives the resource of an edge another calendar, before anything is booked.
    ///
    /// # Panics
    /// If there are bookings.
    pub fn set_calendar(&mut self, edge: EdgeId, calendar: Calendar) {
        assert!(self.snapshot.bookings.is_empty(), "calendars are given before anything is booked");
        self.snapshot.resources[edge].calendar = calendar;
    }

    /// Adds a resource that edges draw on beside their own: a port, a NIC, a storage, a high-water mark.
    ///
    /// # Panics
    /// If there are bookings, or [`RESOURCES_MAX`] resources.
    pub fn add_resource(&mut self, name: &str, calendar: Calendar, edges: &[EdgeId]) -> ResourceId {
        let Snapshot { resources, drawn, bookings, .. } = &mut self.snapshot;
        assert!(bookings.is_empty(), "resources are added before anything is booked");
        assert!(resources.len() < RESOURCES_MAX, "there are at most {RESOURCES_MAX} resources");
        let resource = resources.len();
        resources.push(Resource::new(name, calendar));
        let drawn = Arc::make_mut(drawn);
        edges.iter().copied().collect::<BTreeSet<_>>().into_iter().for_each(|edge| drawn[edge].push(resource));
        resource
    }

    /// What there is now, to search in. It does not change any more.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// What there is now.
    #[must_use]
    pub fn view(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Books what is so, whether it is free or not: maintenance, the floor of at-large traffic, what others have booked.
    ///
    /// # Errors
    /// If it takes nothing, is over, or is beyond the limits of the list or a calendar.
    pub fn impose(&mut self, holder: Holder, takes: Vec<Take>, now: Moment) -> Result<BookingId, BookError> {
        self.advance(now);
        let change = Change::of(&self.snapshot).take(&takes, None).settle();
        self.insert(holder, State::Committed, takes, None, &change, now)
    }

    /// Takes what a search found, until `expires`.
    ///
    /// # Errors
    /// If it is not free any more, and what [`Book::impose`] refuses.
    pub fn hold(
        &mut self,
        holder: Holder,
        offer: &Offer,
        expires: Moment,
        now: Moment,
    ) -> Result<BookingId, BookError> {
        self.hold_either(holder, offer, None, expires, now)
    }

    /// Takes what a search found, until `expires`, and keeps what the other offer takes for the case that a link or a shared
    /// risk of the first fails. That is shared with other backups of bookings that do not fail together.
    ///
    /// # Errors
    /// If both fail together, and what [`Book::hold`] refuses.
    pub fn hold_protected(
        &mut self,
        holder: Holder,
        offer: &Offer,
        backup: &Offer,
        expires: Moment,
        now: Moment,
    ) -> Result<BookingId, BookError> {
        self.hold_either(holder, offer, Some(backup), expires, now)
    }

    fn hold_either(
        &mut self,
        holder: Holder,
        offer: &Offer,
        backup: Option<&Offer>,
        expires: Moment,
        now: Moment,
    ) -> Result<BookingId, BookError> {
        self.advance(now);
        if expires <= now {
            return Err(BookError::Past);
        }
        let protection = self.backup(offer, backup)?;
        let change = Change::of(&self.snapshot).take(offer.takes(), protection.as_ref()).settle();
        self.check(&change, offer, backup, now)?;
        self.insert(holder, State::Held { expires }, offer.takes().to_vec(), protection, &change, now)
    }

    /// Makes a held booking last.
    ///
    /// # Errors
    /// If it is not held any more.
    pub fn commit(&mut self, id: BookingId, now: Moment) -> Result<(), BookError> {
        self.advance(now);
        let booking = self.booking(id)?;
        if !matches!(booking.state, State::Held { .. }) {
            return Err(refuse(booking.state, "committed"));
        }
        let window = booking.window;
        self.agenda.remove(&(self.due(id), id));
        self.set_state(id, State::Committed);
        self.agenda.insert((window.start(), id));
        self.advance(now);
        Ok(())
    }

    /// Gives a booking back.
    ///
    /// # Errors
    /// If it does not count any more.
    pub fn release(&mut self, id: BookingId, now: Moment) -> Result<(), BookError> {
        self.close(id, State::Released, "released", now)
    }

    /// Says that what a booking takes is not there any more.
    ///
    /// # Errors
    /// If it is not committed or active.
    pub fn fail(&mut self, id: BookingId, now: Moment) -> Result<(), BookError> {
        self.advance(now);
        let state = self.booking(id)?.state;
        if matches!(state, State::Held { .. }) {
            return Err(refuse(state, "failed"));
        }
        self.close(id, State::Failed, "failed", now)
    }

    /// Gives a booking that counts what another search found, and another backup or none. Only what is taken more than before
    /// must be free, so a shrink never fails.
    ///
    /// # Errors
    /// If what is taken more is not free, both fail together, or the booking does not count. Nothing changes then.
    pub fn modify(
        &mut self,
        id: BookingId,
        offer: &Offer,
        backup: Option<&Offer>,
        now: Moment,
    ) -> Result<(), BookError> {
        self.advance(now);
        let booking = self.booking(id)?;
        if !booking.state.counts() {
            return Err(refuse(booking.state, "modified"));
        }
        let window = offer::hull(offer.takes()).ok_or(BookError::Nothing)?;
        if window.end() <= now {
            return Err(BookError::Past);
        }
        let protection = self.backup(offer, backup)?;
        let change = Change::of(&self.snapshot).take(offer.takes(), protection.as_ref()).give_back(booking).settle();
        self.check(&change, offer, backup, now)?;
        self.apply(&change)?;
        self.replace(id, offer.takes().to_vec(), protection, window, now);
        Ok(())
    }

    /// Lets a booking take its backup instead of what failed. Its backup is gone then, and what others share may be less than
    /// they would need for the next failure: the calendar has less than nothing left there, until it is repaired.
    ///
    /// # Errors
    /// If it has no backup, or does not count.
    pub fn switch(&mut self, id: BookingId, now: Moment) -> Result<(), BookError> {
        self.advance(now);
        let booking = self.booking(id)?;
        if !booking.state.counts() {
            return Err(refuse(booking.state, "switched to its backup"));
        }
        let backup = booking.backup.clone().ok_or(BookError::NoBackup)?;
        let window = offer::hull(&backup.takes).ok_or(BookError::NoBackup)?;
        let change = Change::of(&self.snapshot).take(&backup.takes, None).give_back(booking).settle();
        self.apply(&change)?;
        self.replace(id, backup.takes, None, window, now);
        Ok(())
    }

    /// Lets time pass: what is held too long expires, what begins is active, what is over ends. Tells what changed, in order of
    /// time; the same times always give the same states, in one step or in many.
    pub fn advance(&mut self, now: Moment) -> Vec<(BookingId, State)> {
        let mut changed = Vec::new();
        // Each booking is due three times at most.
        while let Some((due, id)) = self.agenda.first().copied().filter(|(due, _)| *due <= now) {
            self.agenda.remove(&(due, id));
            let Some(booking) = self.snapshot.bookings.get(id) else { continue };
            let next = match booking.state {
                State::Held { .. } => State::Expired,
                State::Committed => State::Active,
                _ => State::Ended,
            };
            if next == State::Active {
                self.agenda.insert((booking.window.end(), id));
            } else {
                self.give_back(id);
            }
            self.set_state(id, next);
            changed.push((id, next));
        }
        changed
    }

    /// Forgets a booking that does not count any more.
    ///
    /// # Errors
    /// If it counts.
    pub fn forget(&mut self, id: BookingId) -> Result<(), BookError> {
        let state = self.booking(id)?.state;
        if state.counts() {
            return Err(refuse(state, "forgotten"));
        }
        self.snapshot.bookings.remove(id);
        Ok(())
    }

    fn insert(
        &mut self,
        holder: Holder,
        state: State,
        takes: Vec<Take>,
        backup: Option<Backup>,
        change: &Settled,
        now: Moment,
    ) -> Result<BookingId, BookError> {
        let window = offer::hull(&takes).ok_or(BookError::Nothing)?;
        if window.end() <= now {
            return Err(BookError::Past);
        }
        if self.snapshot.bookings.len() >= BOOKINGS_MAX {
            return Err(BookError::Full);
        }
        self.apply(change)?;
        let id = BookingId(self.next);
        self.next += 1;
        self.snapshot.bookings.insert(id, Booking { holder, state, window, takes, backup, version: 0 });
        self.agenda.insert((self.due(id), id));
        self.advance(now);
        Ok(id)
    }

    fn close(&mut self, id: BookingId, state: State, done: &'static str, now: Moment) -> Result<(), BookError> {
        self.advance(now);
        let is = self.booking(id)?.state;
        if !is.counts() {
            return Err(refuse(is, done));
        }
        self.agenda.remove(&(self.due(id), id));
        self.give_back(id);
        self.set_state(id, state);
        Ok(())
    }

    fn booking(&self, id: BookingId) -> Result<&Booking, BookError> {
        self.snapshot.bookings.get(id).ok_or(BookError::Unknown)
    }

    /// When a booking that counts changes by itself.
    fn due(&self, id: BookingId) -> Moment {
        self.snapshot.bookings.get(id).map_or(Moment::MAX, |booking| match booking.state {
            State::Held { expires } => expires.min(booking.window.end()),
            State::Committed => booking.window.start(),
            _ => booking.window.end(),
        })
    }

    fn set_state(&mut self, id: BookingId, state: State) {
        if let Some(booking) = self.snapshot.bookings.get_mut(id) {
            booking.state = state;
        }
    }

    fn give_back(&mut self, id: BookingId) {
        let Some(booking) = self.snapshot.bookings.get(id) else { return };
        let change = Change::of(&self.snapshot).give_back(booking).settle();
        self.apply(&change).expect("what was taken can be given back");
    }

    /// Gives a booking that counts other takes. The calendars have changed.
    fn replace(&mut self, id: BookingId, takes: Vec<Take>, backup: Option<Backup>, window: Window, now: Moment) {
        self.agenda.remove(&(self.due(id), id));
        if let Some(booking) = self.snapshot.bookings.get_mut(id) {
            booking.version += 1;
            (booking.takes, booking.backup, booking.window) = (takes, backup, window);
            if booking.state == State::Active && window.start() > now {
                booking.state = State::Committed;
            }
        }
        self.agenda.insert((self.due(id), id));
        self.advance(now);
    }

    /// The backup of an offer.
    fn backup(&self, offer: &Offer, backup: Option<&Offer>) -> Result<Option<Backup>, BookError> {
        let Some(backup) = backup else { return Ok(None) };
        let graph = self.snapshot.graph();
        let failures = offer.failures(graph);
        let together = backup.failures(graph).into_iter().find(|failure| failures.contains(failure));
        if let Some(failure) = together {
            let what = match failure {
                Failure::Link(edge) => graph.edge(edge).name.clone(),
                Failure::Risk(risk) => graph.risks()[risk].clone(),
            };
            return Err(BookError::Together { what });
        }
        Ok(Some(Backup { takes: backup.takes().to_vec(), failures }))
    }

    /// Whether what a change takes more is free from now on.
    fn check(&self, change: &Settled, offer: &Offer, backup: Option<&Offer>, now: Moment) -> Result<(), BookError> {
        for (resource, window, more) in change.pieces().filter(|piece| piece.2 > 0) {
            let Some(window) = window.from(now) else { continue };
            let Resource { name, calendar, version, .. } = &self.snapshot.resources[resource];
            if i128::from(calendar.left(window)) < more {
                let seen = offer.saw(resource).or_else(|| backup?.saw(resource));
                let resource = name.to_string();
                let changed = seen.is_some_and(|seen| seen != *version);
                return Err(if changed { BookError::Changed { resource } } else { BookError::NotFree { resource } });
            }
        }
        Ok(())
    }

    /// Changes the calendars: all, or none if one of them refuses.
    fn apply(&mut self, change: &Settled) -> Result<(), BookError> {
        let limit = i128::from(CAPACITY_MAX);
        let resources = &mut self.snapshot.resources;
        for (resource, window, more) in change.pieces() {
            let Resource { name, calendar, .. } = &resources[resource];
            if i128::from(calendar.left(window)) - more < -limit {
                return Err(BookError::OutOfRange { resource: name.to_string() });
            }
        }
        for (resource, window, more) in change.pieces() {
            let Resource { calendar, version, .. } = &mut resources[resource];
            let rate = u64::try_from(more.unsigned_abs()).expect("it is within what calendars count");
            let done = if more > 0 { calendar.take(window, rate) } else { calendar.give_back(window, rate) };
            done.expect("nothing is given back that was not taken, and what is taken is within what calendars count");
            *version += 1;
        }
        for (resource, loads) in &change.loads {
            resources[*resource].loads = Arc::clone(loads);
        }
        Ok(())
    }
}

fn refuse(is: State, done: &'static str) -> BookError {
    let is = match is {
        State::Held { .. } => "is held",
        State::Committed => "is committed",
        State::Active => "is active",
        State::Ended => "ended",
        State::Released => "was released",
        State::Expired => "expired",
        State::Failed => "failed",
    };
    BookError::State { is, done }
}
