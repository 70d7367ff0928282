//! What is there: what bears our marks, and what stands in the way.

use std::collections::BTreeMap;

use sys::interface::Traffic;

use crate::difference::Items;
use crate::item::{self, Item};

/// Foreign things of an interface that are told.
const FOREIGN_TOLD_MAX: usize = 8;

/// What a kernel says is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Interfaces by name.
    pub devices: BTreeMap<String, Device>,
    /// What bears our marks.
    pub items: Items,
    /// What a class has carried, by interface and minor number.
    pub carried: BTreeMap<(String, u16), Carried>,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The kernel's number.
    pub index: i32,
    /// The root qdisc that somebody else made, such as `htb 1:`.
    pub foreign_root: Option<String>,
    /// What others have hung into our tree, such as `filter 7`.
    pub foreign: Vec<String>,
    /// All that it has sent.
    pub sent: Traffic,
}

/// What a class has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packets for which there was no room.
    pub dropped: u64,
    /// Bytes that wait.
    pub waiting_bytes: u64,
}

/// Why nothing is begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The interface is not there.
    #[error("there is no interface `{device}`: see `ip link`")]
    NoDevice {
        /// Its name.
        device: String,
    },
    /// Somebody else shapes it.
    #[error(
        "`{device}` has a qdisc that is not ours ({qdisc}): remove it (`tc qdisc del dev {device} root`), or leave `{device}` out"
    )]
    ForeignRoot {
        /// The interface.
        device: String,
        /// What is there.
        qdisc: String,
    },
    /// Somebody else has hung something into what we would remove.
    #[error(
        "others have hung {what} into our tree on `{device}`, which would go with it: remove that first (`tc filter show dev {device}`, `tc class show dev {device}`)"
    )]
    ForeignInside {
        /// The interface.
        device: String,
        /// What is there.
        what: String,
    },
}

impl Found {
    pub(crate) fn add(&mut self, item: Item) {
        self.items.insert(item.key(), item);
    }

    pub(crate) fn device(&mut self, name: &str) -> &mut Device {
        self.devices.entry(name.to_owned()).or_default()
    }

    pub(crate) fn foreign(&mut self, device: &str, what: String) {
        let all = &mut self.device(device).foreign;
        // The kernel tells of one filter in several messages.
        if !all.contains(&what) && all.len() < FOREIGN_TOLD_MAX {
            all.push(what);
        }
    }

    /// Whether what is wished can be there without removing what is not ours.
    ///
    /// # Errors
    /// The first thing that stands in the way.
    pub fn allows(&self, wish: &Items) -> Result<(), Refusal> {
        for item in wish.values() {
            let device = match item {
                Item::Route(route) => &route.device,
                Item::Root { device } => device,
                _ => continue,
            };
            let Some(found) = self.devices.get(device) else {
                return Err(Refusal::NoDevice { device: device.clone() });
            };
            if let (Item::Root { .. }, Some(qdisc)) = (item, &found.foreign_root) {
                return Err(Refusal::ForeignRoot { device: device.clone(), qdisc: qdisc.clone() });
            }
        }
        let gone = self.items.iter().filter(|(key, _)| !wish.contains_key(key));
        for device in gone.filter_map(|(_, item)| item.shapes()) {
            let found = self.devices.get(device).filter(|found| !found.foreign.is_empty());
            if let Some(found) = found {
                let what = found.foreign.join(", ");
                return Err(Refusal::ForeignInside { device: device.to_owned(), what });
            }
        }
        Ok(())
    }

    /// Traffic in each class of an interface, with the class.
    pub fn classes<'a>(&'a self, device: &'a str) -> impl Iterator<Item = (u16, Carried)> + 'a {
        let of = self.carried.range((device.to_owned(), 0)..=(device.to_owned(), u16::MAX));
        of.filter(|((_, minor), _)| item::is_our_minor(*minor)).map(|((_, minor), carried)| (*minor, *carried))
    }
}
