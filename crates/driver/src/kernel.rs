//! The kernel of this network namespace, over route netlink.
//!
//! Netlink and not the programs of iproute2: rates come back exact (`tc` rounds what it prints, and prints classes as no JSON), refusals come with
//! the kernel's words, and nothing depends on what is installed.

mod routes;
mod traffic;

use sys::interface;
use sys::netlink::{Change, Netlink, Refused};

use crate::difference::Step;
use crate::found::{Device, Found};
use crate::item::Item;
use crate::run::Kernel;

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
        let devices = interface::devices(&mut self.netlink)?.into_iter();
        let device = |interface::Device { index, sent, .. }| Device { index, sent, ..Device::default() };
        let devices = devices.map(|(name, of)| (name, device(of))).collect();
        let mut found = Found { devices, ..Found::default() };
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
