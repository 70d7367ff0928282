//! The book of a network that is described in files.

use std::num::NonZeroU64;

use model::bookings::Bookings;
use model::network::Network;
use units::{Moment, Window};

use super::{Book, BookError, Holder, Take};
use crate::calendar::{CAPACITY_MAX, Calendar};
use crate::graph::Graph;

/// The class that has what is above the high-water mark of a link.
pub const AT_LARGE_CLASS: &str = "at-large";
/// A high-water mark that leaves nothing to traffic at large.
const ALL_PPM: u128 = 1_000_000;

impl Book {
    /// A network with what is booked of it from now on. What is above the high-water mark of a link is left to traffic at
    /// large.
    ///
    /// # Errors
    /// If there is more than calendars count.
    pub fn of(network: &Network, bookings: &Bookings, now: Moment) -> Result<Book, BookError> {
        let mut book = Book::new(Graph::of(network));
        // Edges 2 n and 2 n + 1 are the ways of link n.
        for (link, grain) in &bookings.grains {
            for edge in [2 * link, 2 * link + 1] {
                let capacity = book.view().graph().edge(edge).capacity;
                // Grains are checked to be above nothing.
                let grain = NonZeroU64::new(grain.bps()).unwrap_or(NonZeroU64::MIN);
                book.set_calendar(edge, Calendar::with_steps(capacity, &[], grain));
            }
        }
        // Resources beside those of links come behind them.
        let beside = book.view().resources().len();
        for resource in &bookings.resources {
            let grain = NonZeroU64::new(resource.grain.bps()).unwrap_or(NonZeroU64::MIN);
            let calendar = Calendar::with_steps(resource.rate.bps(), &[], grain);
            let edges: Vec<usize> = resource.ways.iter().map(|(link, way)| 2 * link + way.index()).collect();
            book.add_resource(&resource.name, calendar, &edges);
        }
        for (link, of_link) in network.links.iter().enumerate() {
            let Some(mark) = of_link.high_water_ppm else { continue };
            for resource in [2 * link, 2 * link + 1] {
                let capacity = book.view().graph().edge(resource).capacity;
                let filled = u128::from(capacity) * u128::from(mark).min(ALL_PPM) / ALL_PPM;
                // The mark of a link without a limit is none either.
                let floor = u64::try_from(u128::from(capacity) - filled).unwrap_or(0);
                if capacity <= CAPACITY_MAX && floor > 0 {
                    let holder = Holder { name: of_link.name.clone(), class: AT_LARGE_CLASS.to_owned() };
                    book.impose(holder, vec![Take { resource, window: Window::ALWAYS, rate: floor }], now)?;
                }
            }
        }
        for booking in bookings.bookings.iter().filter(|booking| booking.window.end() > now) {
            let links = booking.links.iter().map(|(link, way)| 2 * link + way.index());
            let takes = links.chain(booking.resources.iter().map(|resource| beside + resource)).map(|resource| {
                let calendar = book.view().resources()[resource].calendar();
                let all = calendar.capacity_at(now);
                let charge = |bps| calendar.charge(bps).unwrap_or(CAPACITY_MAX);
                let rate = booking.rate.map_or(all, |rate| charge(rate.bps()));
                Take { resource, window: booking.window, rate }
            });
            let takes: Vec<Take> = takes.filter(|take| take.rate > 0).collect();
            if !takes.is_empty() {
                let holder = Holder { name: booking.name.clone(), class: booking.class.clone() };
                book.impose(holder, takes, now)?;
            }
        }
        Ok(book)
    }
}
