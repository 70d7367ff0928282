//! What there is to book, and what is booked, at one moment of planning.

use std::num::NonZeroU64;
use std::sync::Arc;

use units::{Moment, Window};

use super::bookings::Bookings;
use super::shared::Loads;
use crate::calendar::Calendar;
use crate::graph::{Edge, EdgeId, Graph};
use crate::starts::Starts;

/// Index of a resource. Those of edges come first: the resource with the index of an edge is its own.
pub type ResourceId = usize;

/// Resources, those of edges among them: what a snapshot copies a pointer of for each.
pub const RESOURCES_MAX: usize = 1 << 21;

const FULL_PPM: u128 = 1_000_000;

/// Something with a limit, and its calendar.
#[derive(Clone, Debug)]
pub struct Resource {
    pub(super) name: Arc<str>,
    pub(super) calendar: Calendar,
    /// What backups need of it.
    pub(super) loads: Arc<Loads>,
    /// Counts the changes of the calendar.
    pub(super) version: u64,
}

impl Resource {
    pub(super) fn new(name: &str, calendar: Calendar) -> Resource {
        Resource { name: name.into(), calendar, loads: Arc::default(), version: 0 }
    }

    pub(super) fn loads(&self) -> Loads {
        Loads::clone(&self.loads)
    }

    /// Its name: the edge's, or its own.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is free of it, when.
    #[must_use]
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// A number that is another one after every change of the calendar.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// A graph with the calendars of its resources: what questions are asked of. Nothing changes in it.
///
/// Copies share what they have in common: one costs a pointer for each resource and for each 256 bookings.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) graph: Arc<Graph>,
    pub(super) resources: Vec<Resource>,
    /// What each edge draws on, its own resource first.
    pub(super) drawn: Arc<Vec<Vec<ResourceId>>>,
    pub(super) bookings: Bookings,
}

impl Snapshot {
    pub(super) fn new(graph: Graph) -> Snapshot {
        let resource = |edge: &Edge| Resource::new(&edge.name, Calendar::new(edge.capacity));
        let resources: Vec<Resource> = graph.edges().iter().map(resource).collect();
        let drawn = (0..resources.len()).map(|own| vec![own]).collect();
        Snapshot { graph: Arc::new(graph), resources, drawn: Arc::new(drawn), bookings: Bookings::default() }
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The resources, by index.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The bookings.
    #[must_use]
    pub fn bookings(&self) -> &Bookings {
        &self.bookings
    }

    /// What an edge draws on, its own resource first.
    #[must_use]
    pub fn drawn(&self, edge: EdgeId) -> &[ResourceId] {
        &self.drawn[edge]
    }

    /// What a path draws on: each resource once, in order. A path takes its rate of a resource once, however many of its edges
    /// draw on it.
    #[must_use]
    pub fn drawn_by(&self, path: &[EdgeId]) -> Vec<ResourceId> {
        let mut drawn: Vec<ResourceId> = path.iter().flat_map(|edge| self.drawn(*edge)).copied().collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn
    }

    /// The greatest rate that can be booked over an edge for all of a window.
    #[must_use]
    pub fn free(&self, edge: EdgeId, window: Window) -> u64 {
        self.calendars(edge).map(|calendar| calendar.free(window)).min().unwrap_or(0)
    }

    /// How full the fullest resource of an edge is at its tightest moment in a window, in parts per million of its capacity then.
    #[must_use]
    pub fn load(&self, edge: EdgeId, window: Window) -> u64 {
        let load = |calendar: &Calendar| {
            let at = calendar.tightest(window);
            let (capacity, left) = (u128::from(calendar.capacity_at(at)), calendar.left_at(at).max(0).unsigned_abs());
            let free = (u128::from(left) * FULL_PPM).checked_div(capacity).unwrap_or(0);
            u64::try_from(FULL_PPM.saturating_sub(free)).unwrap_or(0)
        };
        self.calendars(edge).map(load).max().unwrap_or(0)
    }

    /// Whether a rate can be booked over an edge for all of a window.
    #[must_use]
    pub fn fits(&self, edge: EdgeId, window: Window, rate: NonZeroU64) -> bool {
        self.calendars(edge).all(|calendar| calendar.fits(window, rate.get()))
    }

    /// The first moment within a window from which on a rate can be booked over an edge for `nanos` that end within it.
    #[must_use]
    pub fn first_fit(&self, edge: EdgeId, within: Window, rate: NonZeroU64, nanos: NonZeroU64) -> Option<Moment> {
        let mut start = within.start();
        loop {
            let before = start;
            for calendar in self.calendars(edge) {
                start = calendar.first_fit(within.from(start)?, rate.get(), nanos)?;
            }
            // What fits all of them when none moved it. Each turn moves it past a booking.
            if start == before {
                return Some(start);
            }
        }
    }

    /// All moments within a window from which on a rate can be booked over an edge for `nanos` that end within it.
    #[must_use]
    pub fn starts(&self, edge: EdgeId, within: Window, rate: NonZeroU64, nanos: NonZeroU64) -> Starts {
        let mut all = self.calendars(edge).map(|calendar| calendar.starts(within, rate.get(), nanos));
        let own = all.next().unwrap_or_default();
        all.fold(own, |starts, other| starts.common(&other))
    }

    /// What can be booked over a path, piece by piece, in order, over all of a window.
    #[must_use]
    pub fn profile(&self, path: &[EdgeId], within: Window) -> Vec<(Window, u64)> {
        let drawn = self.drawn_by(path);
        let first = drawn.first().map(|first| self.resources[*first].calendar.pieces(within).collect());
        drawn.iter().skip(1).fold(first.unwrap_or_default(), |profile, resource| {
            least(&profile, self.resources[*resource].calendar.pieces(within))
        })
    }

    /// When what an edge has left at a moment changes next; `None` if it never does.
    #[must_use]
    pub fn change_after(&self, edge: EdgeId, moment: Moment) -> Option<Moment> {
        self.calendars(edge).filter_map(|calendar| calendar.change_after(moment)).min()
    }

    fn calendars(&self, edge: EdgeId) -> impl Iterator<Item = &Calendar> {
        self.drawn[edge].iter().map(|resource| &self.resources[*resource].calendar)
    }
}

/// The lesser of two step functions over the same window.
fn least(one: &[(Window, u64)], other: impl Iterator<Item = (Window, u64)>) -> Vec<(Window, u64)> {
    let mut least: Vec<(Window, u64)> = Vec::new();
    let mut one = one.iter().copied().peekable();
    for (piece, free) in other {
        while let Some((window, value)) = one.peek().copied() {
            let Some(common) = window.common(piece) else { break };
            match least.last_mut() {
                Some((before, same)) if *same == free.min(value) => {
                    *before = Window::new(before.start(), common.end()).expect("it grows");
                }
                _ => least.push((common, free.min(value))),
            }
            if window.end() > piece.end() {
                break;
            }
            one.next();
        }
    }
    least
}
