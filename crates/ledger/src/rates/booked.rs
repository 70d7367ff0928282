//! What others have booked: for its time there is that much less for sessions.

use std::collections::{BTreeMap, BTreeSet};

use model::bookings::{Booking, Bookings};
use model::network::{LinkIndex, Network};
use model::scenario::Way;
use model::shares::Shares;
use plan::allot::fillable;
use plan::calendar::{CAPACITY_MAX, Calendar};
use plan::graph::Graph;
use plan::share::RATE_MAX;
use units::{Moment, Rate, Window};

/// What is booked is not given out any more from so long before it begins: smaller leases are acknowledged within that. In ns.
pub const LEAD_NS: i64 = 2_000_000_000;

/// The calendars of what is booked, and of what is limited beside links.
#[derive(Clone, Debug, Default)]
pub struct Booked {
    of: Vec<Calendared>,
}

#[derive(Clone, Debug)]
struct Calendared {
    name: String,
    /// The way of a link that it is; else it is beside links.
    way: Option<(LinkIndex, Way)>,
    ways: Vec<(LinkIndex, Way)>,
    calendar: Calendar,
    /// In the order of the list.
    holds: Vec<Hold>,
}

/// A booking, on one thing that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What it is called.
    pub name: String,
    /// Its class of work.
    pub class: String,
    /// In b/s; what it takes by the steps in which this is booked.
    pub rate_bps: u64,
    /// When, in ns of Unix time.
    pub window: Window,
}

/// What bookings leave of something at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What it is called: unlike all other resources of a planning.
    pub name: String,
    /// The way of a link, if it is one; `None` for what is limited beside links.
    pub way: Option<(LinkIndex, Way)>,
    /// The ways of links that draw on it.
    pub ways: Vec<(LinkIndex, Way)>,
    /// For all sessions together.
    pub rate: Rate,
    /// The bookings that have the rest. Without them a way of a link is not limited by this.
    pub holds: Vec<Hold>,
}

impl Booked {
    /// What is booked of a network. What is left beside it has the bounds of links: their marks, and what is kept for traffic at large.
    #[must_use]
    pub fn of(network: &Network, shares: &Shares, bookings: &Bookings) -> Booked {
        let graph = Graph::of(network);
        let grains: BTreeMap<LinkIndex, Rate> = bookings.grains.iter().copied().collect();
        let mut ways: BTreeMap<(LinkIndex, usize), Vec<&Booking>> = BTreeMap::new();
        let mut beside: Vec<Vec<&Booking>> = vec![Vec::new(); bookings.resources.len()];
        for booking in &bookings.bookings {
            booking.links.iter().for_each(|(link, way)| ways.entry((*link, way.index())).or_default().push(booking));
            booking.resources.iter().for_each(|resource| beside[*resource].push(booking));
        }
        let of_way = |((link, index), booked): ((LinkIndex, usize), Vec<&Booking>)| {
            let edge = graph.edge(2 * link + index);
            let way = if index == 0 { Way::Forward } else { Way::Backward };
            let has_rate = edge.capacity < u64::MAX;
            let capacity = if has_rate { fillable(network, shares, link, edge.capacity) } else { CAPACITY_MAX };
            // Of a link without a limit only all of it can be booked.
            let counts = |booking: &&Booking| has_rate || booking.rate.is_none();
            let grain = grains.get(&link).copied().unwrap_or(Rate::from_bps(1));
            let name = format!("{} beside bookings", edge.name);
            Calendared::new(name, Some((link, way)), vec![(link, way)], capacity, grain)
                .with(booked.into_iter().filter(counts))
        };
        let taken: BTreeSet<&str> = shares.resources.iter().map(|resource| resource.name.as_str()).collect();
        let of_resource = |(resource, booked): (&model::bookings::Resource, Vec<&Booking>)| {
            let is_taken = taken.contains(resource.name.as_str());
            let name = if is_taken { format!("{} of the bookings", resource.name) } else { resource.name.clone() };
            Calendared::new(name, None, resource.ways.clone(), resource.rate.bps(), resource.grain)
                .with(booked.into_iter())
        };
        let ways = ways.into_iter().map(of_way);
        Booked { of: ways.chain(bookings.resources.iter().zip(beside).map(of_resource)).collect() }
    }

    /// What is left at a moment, and until [`LEAD_NS`] after it, of all of which something is ever booked, and of what is limited beside links.
    #[must_use]
    pub fn at(&self, now: Moment) -> Vec<Left> {
        self.ahead(now, LEAD_NS)
    }

    /// What is left at every moment from now on until so long after it, ns.
    #[must_use]
    pub fn ahead(&self, now: Moment, span_ns: i64) -> Vec<Left> {
        let Some(window) = Window::new(now, now.saturating_add(span_ns.saturating_add(1))) else { return Vec::new() };
        let left = |of: &Calendared| {
            let holds = of.holds.iter().filter(|hold| hold.window.common(window).is_some());
            let holds: Vec<Hold> = holds.cloned().collect();
            // What sessions draw on stays the same when a booking begins or ends, so that leases need not wait for that to be known.
            let is_free = of.way.is_some() && holds.is_empty();
            let left = u64::try_from(of.calendar.left(window)).unwrap_or(0);
            let rate = Rate::from_bps(if is_free { RATE_MAX } else { left });
            Left { name: of.name.clone(), way: of.way, ways: of.ways.clone(), rate, holds }
        };
        self.of.iter().map(left).collect()
    }

    /// When [`Booked::at`] is another one next; `None` if it stays as it is.
    #[must_use]
    pub fn change_after(&self, now: Moment) -> Option<Moment> {
        let holds = self.of.iter().flat_map(|of| &of.holds);
        let moments = holds.flat_map(|hold| [hold.window.start().saturating_sub(LEAD_NS), hold.window.end()]);
        moments.filter(|moment| *moment > now).min()
    }
}

impl Calendared {
    fn new(
        name: String,
        way: Option<(LinkIndex, Way)>,
        ways: Vec<(LinkIndex, Way)>,
        capacity: u64,
        grain: Rate,
    ) -> Self {
        let grain = std::num::NonZeroU64::new(grain.bps()).unwrap_or(std::num::NonZeroU64::MIN);
        Calendared { name, way, ways, calendar: Calendar::with_steps(capacity, &[], grain), holds: Vec::new() }
    }

    fn with<'a>(mut self, bookings: impl Iterator<Item = &'a Booking>) -> Self {
        for booking in bookings {
            let all = self.calendar.capacity_at(booking.window.start());
            let rate_bps = match booking.rate {
                Some(rate) => self.calendar.charge(rate.bps()).unwrap_or(CAPACITY_MAX),
                None => all,
            };
            // Booked beyond what calendars count: there is nothing left long before that.
            let _ = self.calendar.take(booking.window, rate_bps);
            let (name, class) = (booking.name.clone(), booking.class.clone());
            self.holds.push(Hold { name, class, rate_bps, window: booking.window });
        }
        self
    }
}

/// Links of which nothing is left either way: no path leads over them.
pub(super) fn closed(left: &[Left]) -> BTreeSet<LinkIndex> {
    let full = |link: LinkIndex, way: Way| {
        left.iter().any(|of| of.way == Some((link, way)) && of.rate.is_zero() && !of.holds.is_empty())
    };
    let links = left.iter().filter_map(|of| of.way).filter(|(_, way)| *way == Way::Forward).map(|(link, _)| link);
    links.filter(|link| full(*link, Way::Forward) && full(*link, Way::Backward)).collect()
}
