//! Numbers of physical disks: what an end does on one of them does not wait for another.

use std::collections::BTreeMap;

use proto::limits::DISKS_MAX;
use sys::device::Device;

/// Devices whose number is remembered. Further ones are spread over the disks there are: who has so many mounts has
/// them on few disks, and they are not looked up again for each entry.
pub const DEVICES_MAX: usize = 1024;

/// What does the work beneath a file.
#[derive(Debug, PartialEq, Eq)]
enum Disk {
    /// A block device in `/sys`.
    Block(String),
    /// By its number: network file systems, overlays, tmpfs, file systems over several disks.
    Other(u64),
}

impl Disk {
    fn of(device: u64) -> Disk {
        Device::by_id(device).physical.map_or(Disk::Other(device), Disk::Block)
    }
}

/// The disks that an end has met, numbered from 0; at most [`DISKS_MAX`], further ones share their numbers.
#[derive(Debug, Default)]
pub struct Disks {
    /// By number.
    known: Vec<Disk>,
    devices: BTreeMap<u64, u8>,
}

impl Disks {
    /// The number of the disk beneath a device (`st_dev`). A disk that is new gets the next one, if `start` makes what
    /// a disk needs; else it shares. Looks into `/sys` once for each device.
    pub fn number(&mut self, device: u64, start: impl FnOnce(u8) -> bool) -> u8 {
        if let Some(&number) = self.devices.get(&device) {
            return number;
        }
        let count = self.known.len().max(1);
        if self.devices.len() >= DEVICES_MAX {
            return (device % count as u64) as u8;
        }
        let disk = Disk::of(device);
        let number = match self.known.iter().position(|known| *known == disk) {
            Some(number) => number as u8,
            None if self.known.len() < usize::from(DISKS_MAX) && start(self.known.len() as u8) => {
                self.known.push(disk);
                self.known.len() as u8 - 1
            }
            None => (self.devices.len() % count) as u8,
        };
        self.devices.insert(device, number);
        number
    }

    /// Devices whose number is remembered.
    #[cfg(test)]
    pub fn devices(&self) -> usize {
        self.devices.len()
    }
}
