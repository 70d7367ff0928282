//! A reservation asked for, and a refusal that says what binds and what there is instead.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use units::{Moment, Window};

use crate::book::{BookingId, Bookings, Offer, Part, ResourceId, Snapshot};
use crate::paths::Path;
use crate::slots::{Ends, Highest, Slot, Slots};
use crate::volume::{Ask, CANDIDATES, NoSplit, Volume};

/// The class that refusals name for what is kept free for backups.
pub const BACKUP_CLASS: &str = "backup";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where from and to.
    pub ends: Ends,
    /// In b/s.
    pub rate: NonZeroU64,
    /// When.
    pub slot: Window,
    /// Until when something else would still be of use.
    pub horizon: Moment,
    /// Of equal paths, the least loaded instead of the first by names.
    pub balance: bool,
}

/// A path, and what is to be booked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The cheapest that is free; of paths that only names tell apart the one that was asked for.
    pub path: Path,
    /// To be held.
    pub offer: Offer,
}

/// Why not, and what instead. Each alternative is accepted when it is asked for at once, and is the best of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// All that would have to be freed or be larger for the one or the other path; none if there is no path at all.
    pub binding: Vec<Binding>,
    /// The highest rate in the same slot.
    pub highest: Result<Highest, Absent>,
    /// The first slot of the same length from the begin of the slot on, with the same rate.
    pub first: Result<Slot, Absent>,
    /// The same volume, at no more than the rate, finished as early as can be.
    pub finish: Result<Finish, Absent>,
}

/// When a volume is sent at the earliest, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The first moment at which it is all sent.
    pub at: Moment,
    /// Over which paths it goes.
    pub over: Over,
    /// At which rates, in order of time.
    pub parts: Vec<Part>,
}

/// Over which paths a volume goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All of them at once.
    AllPaths,
    /// The best of the first so many: a resource limits several links together, so the volume is not split.
    OneOf(usize),
}

/// Why there is no such alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// Nothing connects the ends, booked or not.
    #[error("no path leads there")]
    NoPath,
    /// Every path has a moment in the slot at which nothing is free.
    #[error("every path is full at some moment of the slot")]
    Full,
    /// Nothing that is late enough, or large enough, before the horizon.
    #[error("not before the horizon")]
    NotInTime,
}

/// A resource with less free than is asked for, and who has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Which.
    pub resource: ResourceId,
    /// Its tightest moment in the slot.
    pub at: Moment,
    /// What can be booked of it for all of the slot, in b/s.
    pub free: u64,
    /// What there is of it at that moment, in b/s.
    pub capacity: u64,
    /// Who has it at that moment, by class.
    pub holders: Vec<Holds>,
}

/// What a class holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// The class.
    pub class: String,
    /// In b/s, all its bookings together.
    pub rate: u64,
    /// When the last of these bookings gives it back.
    pub until: Moment,
}

impl Slots<'_> {
    /// Asks for a reservation. Nothing is taken before the offer is held.
    ///
    /// # Errors
    /// What binds, and what there is instead.
    pub fn reserve(&self, request: &Request) -> Result<Granted, Box<Refusal>> {
        let Request { ends, rate, slot, balance, .. } = *request;
        let path = if balance { self.balanced(ends, rate, slot) } else { self.fixed(ends, rate, slot) };
        let granted = path.and_then(|path| {
            let part = Part { path: path.edges.clone(), window: slot, rate: rate.get() };
            let offer = self.snapshot().offer(&[part])?;
            Some(Granted { path, offer })
        });
        granted.ok_or_else(|| Box::new(self.refuse(request)))
    }

    fn refuse(&self, request: &Request) -> Refusal {
        let Request { ends, rate, slot, horizon, .. } = *request;
        if !self.reached(ends, |_| true)[ends.to()] {
            let none = Absent::NoPath;
            return Refusal { binding: Vec::new(), highest: Err(none), first: Err(none), finish: Err(none) };
        }
        let within = Window::new(slot.start(), horizon).ok_or(Absent::NotInTime);
        let nanos = NonZeroU64::new(slot.nanos()).expect("no window is empty");
        Refusal {
            binding: self.binding(request),
            highest: self.highest(ends, slot).ok_or(Absent::Full),
            first: within.and_then(|within| self.first(ends, rate, nanos, within).ok_or(Absent::NotInTime)),
            finish: within.and_then(|within| {
                self.finish(&Ask { ends, volume: Volume::of_rate(rate, nanos), most: rate, within })
            }),
        }
    }

    /// The earliest finish of all that can be found.
    fn finish(&self, ask: &Ask) -> Result<Finish, Absent> {
        match self.volume_over_paths(ask) {
            Ok(found) => Ok(Finish { at: found.finish, over: Over::AllPaths, parts: found.parts }),
            Err(NoSplit::NotInTime) => Err(Absent::NotInTime),
            Err(NoSplit::Shared { .. }) => {
                let found = self.volume_at_variable_rate(ask, &self.candidates(ask.ends, CANDIDATES));
                let found = found.ok_or(Absent::NotInTime)?;
                Ok(Finish { at: found.finish, over: Over::OneOf(CANDIDATES), parts: found.parts })
            }
        }
    }

    /// The cut: what lies between what is reached at the rate and what leads on to the end.
    fn binding(&self, request: &Request) -> Vec<Binding> {
        let Request { ends, rate, slot, .. } = *request;
        let snapshot = self.snapshot();
        let reached = self.reached(ends, |edge| snapshot.fits(edge, slot, rate));
        let leads_on = self.leads_on(ends);
        let edges = self.leaving(ends, &reached).filter(|edge| leads_on[snapshot.graph().edge(*edge).to]);
        let mut binding: Vec<ResourceId> = edges.flat_map(|edge| snapshot.drawn(edge)).copied().collect();
        binding.sort_unstable();
        binding.dedup();
        binding.retain(|resource| !snapshot.resources()[*resource].calendar().fits(slot, rate.get()));
        binding.into_iter().map(|resource| bound(snapshot, resource, slot)).collect()
    }

    /// The nodes from which something leads to the end, booked or not.
    fn leads_on(&self, ends: Ends) -> Vec<bool> {
        let graph = self.snapshot().graph();
        let mut into = vec![Vec::new(); graph.names().len()];
        for edge in (0..graph.edges().len()).filter(|edge| ends.may_use(graph, *edge)) {
            into[graph.edge(edge).to].push(graph.edge(edge).from);
        }
        let mut leads_on = vec![false; into.len()];
        leads_on[ends.to()] = true;
        let mut waiting = vec![ends.to()];
        while let Some(node) = waiting.pop() {
            for from in into[node].iter().copied() {
                if !std::mem::replace(&mut leads_on[from], true) {
                    waiting.push(from);
                }
            }
        }
        leads_on
    }
}

/// What is free of a resource and who has the rest. O(n) for n bookings.
fn bound(snapshot: &Snapshot, resource: ResourceId, slot: Window) -> Binding {
    let calendar = snapshot.resources()[resource].calendar();
    let at = calendar.tightest(slot);
    let capacity = calendar.capacity_at(at);
    let mut classes: BTreeMap<&str, (u64, Moment)> = BTreeMap::new();
    let mut backups_until = None;
    for (_, booking) in counting(snapshot.bookings()) {
        let now = |take: &&crate::book::Take| take.resource == resource && take.window.contains(at);
        for take in booking.takes.iter().filter(now) {
            let (rate, until) = classes.entry(&booking.holder.class).or_insert((0, take.window.end()));
            *rate = rate.saturating_add(take.rate);
            *until = (*until).max(take.window.end());
        }
        let backup = booking.backup.iter().flat_map(|backup| &backup.takes).filter(now);
        backups_until = backup.map(|take| take.window.end()).max().max(backups_until);
    }
    // What is taken and in no booking of its own is what backups share.
    let taken: u64 = classes.values().fold(0, |sum, (rate, _)| sum.saturating_add(*rate));
    let shared = i128::from(capacity) - i128::from(calendar.left_at(at)) - i128::from(taken);
    if let Some((until, shared)) = backups_until.zip(u64::try_from(shared).ok().filter(|shared| *shared > 0)) {
        let (rate, last) = classes.entry(BACKUP_CLASS).or_insert((0, until));
        *rate = rate.saturating_add(shared);
        *last = (*last).max(until);
    }
    let holders = classes.into_iter().map(|(class, (rate, until))| Holds { class: class.to_owned(), rate, until });
    Binding { resource, at, free: calendar.free(slot), capacity, holders: holders.collect() }
}

fn counting(bookings: &Bookings) -> impl Iterator<Item = (BookingId, &crate::book::Booking)> {
    bookings.iter().filter(|(_, booking)| booking.state.counts())
}
