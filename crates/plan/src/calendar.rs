//! The calendar of a resource: what is free of it, when.
//!
//! A resource is anything with a limit: a directed member link, a port, a NIC, the reading or writing or space of a storage, a
//! high-water mark. Its capacity is a step function of time, and so is what bookings take of it; the calendar keeps the
//! difference. Everything is exact, in integers, over half-open windows: nothing that fits is refused, and nothing is booked
//! twice. What bookings impose (maintenance of a link that is in use) may go beyond the capacity; then less than nothing is
//! left, and nothing is free.
//!
//! A provider may sell in steps: with a grain of 150 Mb/s a booking of 100 Mb/s takes 150. So what is free is a multiple of
//! the grain, and what a booking takes is too.
//!
//! A calendar is cheap to copy: copies share what they have in common, which is what makes snapshots of it.

mod steps;

use std::num::NonZeroU64;
use std::sync::Arc;

use units::{Moment, Window};

use crate::starts::Starts;
use steps::{Steps, Wanted};

/// The greatest capacity, 4.6 Eb/s: more is taken as this much. What is booked beyond the capacity has the same limit.
pub const CAPACITY_MAX: u64 = 1 << 62;

/// What is free of a resource over time. Rates are in b/s, moments in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    grain: NonZeroU64,
    /// The capacity from each moment on, in order; the first holds before, too.
    capacity: Arc<[(Moment, u64)]>,
    /// Capacity less bookings, within ±[`CAPACITY_MAX`].
    left: Arc<Steps>,
}

/// A booking would make the sums of a calendar greater than [`CAPACITY_MAX`], or something was given back that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bookings are beyond 4.6 Eb/s above the capacity, or below nothing")]
pub struct OutOfRange;

impl Calendar {
    /// Of a resource with the same capacity at all times, sold by the b/s.
    #[must_use]
    pub fn new(capacity: u64) -> Calendar {
        Calendar::with_steps(capacity, &[], NonZeroU64::MIN)
    }

    /// Of a resource with the capacity `first`, and from each moment on another one, sold in multiples of `grain`.
    ///
    /// # Panics
    /// If the moments are not in order.
    #[must_use]
    pub fn with_steps(first: u64, changes: &[(Moment, u64)], grain: NonZeroU64) -> Calendar {
        assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes of a capacity are in order");
        let most = |capacity: u64| capacity.min(CAPACITY_MAX);
        let changes = changes.iter().map(|(from, capacity)| (*from, most(*capacity)));
        let capacity: Arc<[_]> = std::iter::once((Moment::MIN, most(first))).chain(changes).collect();
        let mut left = Steps::constant(signed(capacity[0].1));
        for change in capacity.windows(2) {
            if let Some(rest) = Window::ALWAYS.from(change[1].0) {
                left.add(rest, signed(change[1].1) - signed(change[0].1));
            }
        }
        Calendar { grain, capacity, left: Arc::new(left) }
    }

    /// What bookings take multiples of.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.grain.get()
    }

    /// The capacity at a moment.
    #[must_use]
    pub fn capacity_at(&self, moment: Moment) -> u64 {
        let after = self.capacity.partition_point(|(from, _)| *from <= moment);
        self.capacity[after.saturating_sub(1)].1
    }

    /// What a booking of `rate` takes: the next multiple of the grain. `None` if that is more than any capacity.
    #[must_use]
    pub fn charge(&self, rate: u64) -> Option<u64> {
        rate.checked_next_multiple_of(self.grain.get()).filter(|charge| *charge <= CAPACITY_MAX)
    }

    /// Takes exactly `rate` within a window, whether it is free or not. O(n / 256), with two pieces of time more at most.
    ///
    /// # Errors
    /// If that is beyond [`CAPACITY_MAX`]; nothing is taken then.
    pub fn take(&mut self, window: Window, rate: u64) -> Result<(), OutOfRange> {
        let delta = -signed(Some(rate).filter(|rate| *rate <= CAPACITY_MAX).ok_or(OutOfRange)?);
        // Sums of two numbers within ±2^62 do not overflow.
        if self.left.min(window) + delta < -signed(CAPACITY_MAX) {
            return Err(OutOfRange);
        }
        Arc::make_mut(&mut self.left).add(window, delta);
        Ok(())
    }

    /// Gives back what was taken. Once all is given back the calendar is as it was.
    ///
    /// # Errors
    /// If more is given back than there ever was; nothing is given back then.
    pub fn give_back(&mut self, window: Window, rate: u64) -> Result<(), OutOfRange> {
        let delta = signed(Some(rate).filter(|rate| *rate <= CAPACITY_MAX).ok_or(OutOfRange)?);
        if self.left.max(window) + delta > signed(CAPACITY_MAX) {
            return Err(OutOfRange);
        }
        Arc::make_mut(&mut self.left).add(window, delta);
        Ok(())
    }

    /// Capacity less bookings at a moment; below nothing where more is booked than there is.
    #[must_use]
    pub fn left_at(&self, moment: Moment) -> i64 {
        self.left.at(moment)
    }

    /// Capacity less bookings at the worst moment of a window.
    #[must_use]
    pub fn left(&self, window: Window) -> i64 {
        self.left.min(window)
    }

    /// What can be booked at a moment: a multiple of the grain.
    #[must_use]
    pub fn free_at(&self, moment: Moment) -> u64 {
        self.sold(self.left.at(moment))
    }

    /// What can be booked for all of a window: a multiple of the grain. O(log n + n / 256).
    #[must_use]
    pub fn free(&self, window: Window) -> u64 {
        self.sold(self.left.min(window))
    }

    /// Whether `rate` can be booked for all of a window.
    #[must_use]
    pub fn fits(&self, window: Window, rate: u64) -> bool {
        self.charge(rate).is_some_and(|charge| self.left.min(window) >= signed(charge))
    }

    /// The first moment within a window from which on `rate` can be booked for `nanos` that end within it.
    #[must_use]
    pub fn first_fit(&self, within: Window, rate: u64, nanos: NonZeroU64) -> Option<Moment> {
        let need = signed(self.charge(rate)?);
        let mut start = within.start();
        loop {
            let end = Window::lasting(start, nanos.get()).filter(|slot| slot.end() <= within.end())?.end();
            // Each turn begins after a stretch of time with too little, so it is as many turns as those at most.
            match self.left.next(start, Wanted::Below(need)) {
                Some(too_little) if too_little < end => start = self.left.next(too_little, Wanted::AtLeast(need))?,
                _ => return Some(start),
            }
        }
    }

    /// The last moment within a window from which on `rate` can be booked for `nanos` that end within it.
    #[must_use]
    pub fn latest_fit(&self, within: Window, rate: u64, nanos: NonZeroU64) -> Option<Moment> {
        let need = signed(self.charge(rate)?);
        let nanos = i64::try_from(nanos.get()).ok()?;
        let mut end = within.end();
        loop {
            let start = end.checked_sub(nanos).filter(|start| *start >= within.start())?;
            match self.left.last(end, Wanted::Below(need)) {
                Some(too_little) if too_little > start => end = self.left.last(too_little, Wanted::AtLeast(need))?,
                _ => return Some(start),
            }
        }
    }

    /// All moments within a window from which on `rate` can be booked for `nanos` that end within it. O(n in the window).
    #[must_use]
    pub fn starts(&self, within: Window, rate: u64, nanos: NonZeroU64) -> Starts {
        let Some(need) = self.charge(rate).map(signed) else { return Starts::none() };
        let mut starts = Starts::none();
        let mut close = |run: Option<Window>| {
            let last = run.and_then(|run| Some((run.start(), run.end().checked_sub_unsigned(nanos.get())?)));
            if let Some((first, last)) = last.filter(|(first, last)| first <= last) {
                starts.push(first, last);
            }
        };
        let mut run: Option<Window> = None;
        for (piece, left) in self.left.pieces(within) {
            if left < need {
                close(run.take());
            } else {
                run = Window::new(run.map_or(piece.start(), Window::start), piece.end());
            }
        }
        close(run);
        starts
    }

    /// What can be sent within a window at no more than `most`: rate × nanoseconds. O(n in the window).
    #[must_use]
    pub fn volume(&self, window: Window, most: u64) -> u128 {
        self.pieces(window).map(|(piece, free)| u128::from(free.min(most)) * u128::from(piece.nanos())).sum()
    }

    /// What is free within a window, piece by piece, in order.
    pub fn pieces(&self, window: Window) -> impl Iterator<Item = (Window, u64)> {
        self.left.pieces(window).map(|(piece, left)| (piece, self.sold(left)))
    }

    /// When what is left at a moment changes next; `None` if it never does.
    #[must_use]
    pub fn change_after(&self, moment: Moment) -> Option<Moment> {
        self.left.change_after(moment)
    }

    /// The first moment within a window at which as little is left as at any other.
    #[must_use]
    pub fn tightest(&self, window: Window) -> Moment {
        let least = self.left.min(window);
        // The least value is below the one above it, so it is found.
        self.left.next(window.start(), Wanted::Below(least + 1)).unwrap_or(window.start())
    }

    fn sold(&self, left: i64) -> u64 {
        let left = u64::try_from(left).unwrap_or(0);
        left - left % self.grain
    }
}

/// No capacity and no charge is above [`CAPACITY_MAX`].
fn signed(rate: u64) -> i64 {
    i64::try_from(rate).expect("a rate is at most 2^62")
}
