//! What is wished of a host or router, checked, and the items that it comes to.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use units::{Bytes, Marks, Rate};

use crate::difference::{Items, items};
use crate::item::{self, Class, Filter, Item, Match, Route, Rule, Selector};
use crate::prefix::Prefix;

/// Interfaces of a wish.
pub const INTERFACES_MAX: usize = 64;
/// Bytes of the file.
pub(crate) const TEXT_MAX: u64 = 1 << 20;

/// The least that a class has: less than a packet in some hundred milliseconds would be as good as nothing, and the kernel knows no 0.
pub(crate) const RATE_LEAST: Rate = Rate::from_bps(64_000);
/// A class may send this at once, and on top what its rate carries in [`BURST_TIME`]: one packet as network cards take it (GSO).
const BURST_BYTES: u64 = 64 << 10;
/// Of the order of a tick of a kernel without fine timers, and far below the second that rates are measured over.
const BURST_TIME: Duration = Duration::from_millis(1);
/// A queue holds what the ceiling carries in this time: a usual round trip, as with the twin's queues.
const QUEUE_TIME: Duration = Duration::from_millis(100);
const QUEUE_LEAST: u64 = 256 << 10;
/// Some hundred megabytes of packets are what a kernel should hold for one interface at most.
const QUEUE_MOST: u64 = 256 << 20;
/// Of the kernel: more in one turn is unfair, less than a packet is slow.
const QUANTUM_MOST: u64 = 200_000;
const QUANTUM_LEAST: u64 = 10_000;
/// Units of the kernel's bursts.
const TICK_NS: u128 = 64;

/// A checked wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Interfaces with classes, by name.
    pub(crate) interfaces: BTreeMap<String, Shape>,
    /// Policy routes, by number.
    pub(crate) routes: BTreeMap<u32, PolicyRoute>,
}

/// What is wished of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rates: Rates,
    pub(crate) classes: Vec<Wanted>,
}

/// Where the rates of an interface come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rates {
    /// The file.
    Given {
        /// Of all together.
        rate: Rate,
        /// What traffic at large has in any case.
        at_large: Rate,
    },
    /// The controller, for this direction of a link. There is one class, which fills it up to its mark.
    Link(String),
}

/// A class of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What it is called.
    pub(crate) name: String,
    /// What goes into it: what fits one of these.
    pub(crate) matches: Vec<Match>,
    pub(crate) floor: Rate,
    pub(crate) ceiling: Rate,
}

/// Which packets those of a policy route are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// What the file says.
    Given {
        /// Addresses and code point.
        what: Match,
        /// IPv6 flow label.
        flow_label: Option<u32>,
    },
    /// What the controller says of this direction of a path.
    Path(String),
}

/// What a controller says of a direction of a path: its packets have all of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPackets {
    /// The address at the end where they come from.
    pub from: IpAddr,
    /// The address at the other end.
    pub to: IpAddr,
    /// What they carry.
    pub marks: Marks,
}

/// Packets that go another way than all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRoute {
    pub(crate) what: Packets,
    pub(crate) via: IpAddr,
    pub(crate) device: String,
}

/// What a controller says of a direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRates {
    /// What it carries.
    pub rate: Rate,
    /// How far Longhaul may fill it.
    pub mark: Rate,
}

impl Wish {
    /// The directions of links that a controller must be asked about.
    #[must_use]
    pub fn links(&self) -> BTreeSet<String> {
        let links = self.interfaces.values().filter_map(|shape| match &shape.rates {
            Rates::Link(link) => Some(link.clone()),
            Rates::Given { .. } => None,
        });
        links.collect()
    }

    /// The directions of paths that a controller must be asked about.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let paths = self.routes.values().filter_map(|route| match &route.what {
            Packets::Path(path) => Some(path.clone()),
            Packets::Given { .. } => None,
        });
        paths.collect()
    }

    /// Whether a controller must be asked at all.
    #[must_use]
    pub fn follows(&self) -> bool {
        !self.links().is_empty() || !self.paths().is_empty()
    }

    /// The link that an interface leads to, for those that name one.
    #[must_use]
    pub fn devices_of_links(&self) -> BTreeMap<String, String> {
        let pairs = self.interfaces.iter().filter_map(|(device, shape)| match &shape.rates {
            Rates::Link(link) => Some((link.clone(), device.clone())),
            Rates::Given { .. } => None,
        });
        pairs.collect()
    }

    /// The same with what the controller says in place of links and paths.
    ///
    /// # Errors
    /// When it says nothing of a link, or one without a mark below its rate: then there is nothing to keep for others. When it says nothing
    /// of a path, or addresses of another family than the next hop's.
    pub fn filled(
        mut self,
        links: &BTreeMap<String, LinkRates>,
        paths: &BTreeMap<String, PathPackets>,
    ) -> Result<Wish, WishError> {
        for (number, route) in &mut self.routes {
            route.fill(*number, paths)?;
        }
        for (device, shape) in &mut self.interfaces {
            let Rates::Link(link) = &shape.rates else { continue };
            let wrong = |text: String| WishError { what: format!("interface {device}, link {link}"), text };
            let of = links.get(link).ok_or_else(|| wrong("no controller said anything of it".to_owned()))?;
            let least = RATE_LEAST.bps();
            if of.rate.bps() < 2 * least {
                return Err(wrong(format!("a rate of {} is too little to share", of.rate)));
            }
            if of.mark >= of.rate {
                let text = "it may be filled wholly, so nothing is kept for traffic at large: set a mark on it (high_water of \
                            the link, or [[mark]] of the shares)";
                return Err(wrong(text.to_owned()));
            }
            let mark = Rate::from_bps(of.mark.bps().clamp(least, of.rate.bps() - least));
            shape.rates = Rates::Given { rate: of.rate, at_large: Rate::from_bps(of.rate.bps() - mark.bps()) };
            for class in &mut shape.classes {
                (class.floor, class.ceiling) = (mark, mark);
            }
        }
        Ok(self)
    }

    /// The most that the classes of an interface have together, if its rates are known.
    #[must_use]
    pub fn held_to(&self, device: &str) -> Option<Rate> {
        let shape = self.interfaces.get(device)?;
        let Rates::Given { rate, .. } = shape.rates else { return None };
        let sum = shape.classes.iter().fold(0_u64, |sum, class| sum.saturating_add(class.ceiling.bps()));
        Some(Rate::from_bps(sum).min(rate))
    }

    /// What is to be there.
    ///
    /// # Errors
    /// When rates of a link, or the packets of a path, are still to come from a controller.
    pub fn items(&self) -> Result<Items, WishError> {
        let mut all = Vec::new();
        for (number, route) in &self.routes {
            all.extend(route.items(*number)?);
        }
        for (device, shape) in &self.interfaces {
            match &shape.rates {
                Rates::Given { rate, at_large } => shape_items(device, *rate, *at_large, &shape.classes, &mut all),
                Rates::Link(link) => {
                    let text = "its rates come from a controller: give --controller URL";
                    return Err(WishError { what: format!("interface {device}, link {link}"), text: text.to_owned() });
                }
            }
        }
        Ok(items(all))
    }
}

/// Why a wish cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {text}")]
pub struct WishError {
    /// Of what.
    what: String,
    /// Why, and the way out.
    text: String,
}

impl PolicyRoute {
    /// Puts what a controller says in place of the path, if the route is for one.
    fn fill(&mut self, number: u32, paths: &BTreeMap<String, PathPackets>) -> Result<(), WishError> {
        let Packets::Path(path) = &self.what else { return Ok(()) };
        let wrong = |text: String| WishError { what: format!("route {number}, path {path}"), text };
        let of = paths.get(path).ok_or_else(|| wrong("no controller said anything of it".to_owned()))?;
        if of.from.is_ipv6() != self.via.is_ipv6() {
            let text = format!("it goes from {} to {}: {} is no next hop for that", of.from, of.to, self.via);
            return Err(wrong(text));
        }
        let Marks { dscp, flow_label } = of.marks;
        let what = Match { dscp, from: Some(Prefix::host(of.from)), to: Some(Prefix::host(of.to)) };
        self.what = Packets::Given { what, flow_label };
        Ok(())
    }

    fn items(&self, number: u32) -> Result<[Item; 2], WishError> {
        let table = item::FIRST_TABLE + number;
        let is_v6 = self.via.is_ipv6();
        let (Match { dscp, from, to }, flow_label) = match &self.what {
            Packets::Given { what, flow_label } => (*what, *flow_label),
            Packets::Path(path) => {
                let text = "its packets come from a controller: give --controller URL";
                return Err(WishError { what: format!("route {number}, path {path}"), text: text.to_owned() });
            }
        };
        let route = Route {
            table,
            to: Prefix::all(is_v6),
            metric: item::METRIC,
            via: Some(self.via),
            device: self.device.clone(),
        };
        Ok([Item::Route(route), Item::Rule(Rule { priority: table, is_v6, from, to, dscp, flow_label, table })])
    }
}

fn shape_items(device: &str, rate: Rate, at_large: Rate, classes: &[Wanted], all: &mut Vec<Item>) {
    let class = |minor: u16, floor: Rate, ceiling: Rate, priority: u32| Class {
        device: device.to_owned(),
        minor,
        floor: whole_bytes(floor),
        ceiling: whole_bytes(ceiling),
        burst_ticks: (burst_ticks(floor), burst_ticks(ceiling)),
        quantum: quantum(floor, rate),
        priority,
    };
    all.push(Item::Root { device: device.to_owned() });
    all.push(Item::Class(class(item::WHOLE_MINOR, rate, rate, 0)));
    // What is left over goes to traffic at large first: classes fill up what it leaves.
    all.push(Item::Class(class(item::AT_LARGE_MINOR, at_large, rate, 0)));
    all.push(queue(device, item::AT_LARGE_MINOR, rate));
    let mut preference = item::FIRST_PREFERENCE;
    for (wanted, minor) in classes.iter().zip(item::FIRST_MINOR..) {
        all.push(Item::Class(class(minor, wanted.floor, wanted.ceiling, 1)));
        all.push(queue(device, minor, wanted.ceiling));
        for what in &wanted.matches {
            for is_v6 in what.families() {
                let (device, selector) = (device.to_owned(), Selector::Of(*what));
                all.push(Item::Filter(Filter { device, preference, is_v6, selector, minor }));
                preference += 1;
            }
        }
    }
}

/// The kernel counts bytes per second.
fn whole_bytes(rate: Rate) -> Rate {
    Rate::from_bps(rate.bps() / 8 * 8)
}

fn burst_ticks(rate: Rate) -> u32 {
    let packet_ns = u128::from(BURST_BYTES) * 8 * 1_000_000_000 / u128::from(rate.bps().max(1));
    u32::try_from((packet_ns + BURST_TIME.as_nanos()) / TICK_NS).unwrap_or(u32::MAX)
}

fn quantum(floor: Rate, whole: Rate) -> u32 {
    let share = Rate::from_bps(QUANTUM_MOST).scaled(floor.bps(), whole.bps()).bps();
    u32::try_from(share.clamp(QUANTUM_LEAST, QUANTUM_MOST)).unwrap_or(u32::MAX)
}

fn queue(device: &str, minor: u16, ceiling: Rate) -> Item {
    let bytes = ceiling.in_flight(QUEUE_TIME).get().clamp(QUEUE_LEAST, QUEUE_MOST);
    Item::Queue { device: device.to_owned(), minor, limit: Bytes::new(bytes) }
}

#[cfg(test)]
mod tests;
