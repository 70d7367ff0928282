//! The kernel of this network namespace, over route netlink.
//!
//! Netlink and not the programs of iproute2: rates come back exact (`tc` rounds what it prints, and prints classes as no JSON), refusals come with
//! the kernel's words, and nothing depends on what is installed.

mod routes;
mod traffic;

use sys::netlink::{self, Change, Netlink, Refused};

use crate::difference::Step;
use crate::found::{Device, Found, Sent};
use crate::item::Item;
use crate::run::Kernel;

const RTM_GETLINK: u16 = 18;
const IFINFO_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;

/// The kernel.
#[derive(Debug)]
pub struct Linux {
    netlink: Netlink,
}

impl Linux {
    /// That of the network namespace of this thread.
    ///
    /// # Errors
    /// When it cannot be spoken to.
    pub fn open() -> std::io::Result<Linux> {
        Ok(Linux { netlink: Netlink::open()? })
    }
}

/// What a message says: kind, how, and body.
type Said = (u16, Change, Vec<u8>);

/// What is done to an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Add,
    Change,
    Remove,
}

impl Kernel for Linux {
    fn read(&mut self) -> Result<Found, Refused> {
        let mut found = Found { devices: links(&mut self.netlink)?, ..Found::default() };
        traffic::read(&mut self.netlink, &mut found)?;
        routes::read(&mut self.netlink, &mut found)?;
        Ok(found)
    }

    fn act(&mut self, step: &Step, found: &Found) -> Result<(), Refused> {
        match step {
            // The kernel knows these by what they say, so each goes and comes back as another.
            Step::Change { from: from @ (Item::Filter(_) | Item::Rule(_)), to } => {
                self.say(from, Deed::Remove, found)?;
                let said = self.say(to, Deed::Add, found);
                if said.is_err() {
                    // A step that fails has done nothing. If this fails too, whoever rolls back is told by the next step.
                    let _ = self.say(from, Deed::Add, found);
                }
                said
            }
            Step::Change { to, .. } => self.say(to, Deed::Change, found),
            Step::Add(item) => self.say(item, Deed::Add, found),
            Step::Remove(item) => self.say(item, Deed::Remove, found),
        }
    }
}

impl Linux {
    fn say(&mut self, item: &Item, deed: Deed, found: &Found) -> Result<(), Refused> {
        let (kind, change, body) = said(item, deed, found)?;
        self.netlink.change(kind, change, &body)
    }
}

fn said(item: &Item, deed: Deed, found: &Found) -> Result<Said, Refused> {
    match item {
        Item::Rule(rule) => Ok(routes::say_rule(rule, deed)),
        Item::Route(route) => Ok(routes::say_route(route, deed, index_of(&route.device, found)?)),
        Item::Root { device } => Ok(traffic::say_root(deed, index_of(device, found)?)),
        Item::Class(class) => Ok(traffic::say_class(class, deed, index_of(&class.device, found)?)),
        Item::Queue { device, minor, limit } => Ok(traffic::say_queue(*minor, *limit, deed, index_of(device, found)?)),
        Item::Filter(filter) => Ok(traffic::say_filter(filter, deed, index_of(&filter.device, found)?)),
    }
}

fn index_of(device: &str, found: &Found) -> Result<i32, Refused> {
    let index = found.devices.get(device).map(|device| device.index);
    index.ok_or_else(|| Refused { text: Some(format!("there is no interface `{device}`")), source: no_device() })
}

fn no_device() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::NotFound)
}

fn links(kernel: &mut Netlink) -> Result<std::collections::BTreeMap<String, Device>, Refused> {
    let links = kernel.dump(RTM_GETLINK, &[0; IFINFO_BYTES])?;
    let read = links.iter().filter_map(|link| {
        let index = netlink::number(&link.body, 4).map(i32::from_ne_bytes)?;
        let attributes = link.body.get(IFINFO_BYTES..)?;
        let name = netlink::attribute(attributes, IFLA_IFNAME).map(netlink::text)?;
        // struct rtnl_link_stats64: packets received, packets sent, bytes received, bytes sent, ….
        let stats = netlink::attribute(attributes, IFLA_STATS64).unwrap_or_default();
        let number = |at: usize| netlink::number(stats, at * 8).map_or(0, u64::from_ne_bytes);
        Some((name, Device { index, sent: Sent { packets: number(1), bytes: number(3) }, ..Device::default() }))
    });
    Ok(read.collect())
}
