//! The block device under a file.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::file::Meta;

/// Devices on top of each other, such as a volume on encryption on a RAID.
const STACKED_MAX: usize = 8;

/// What holds a file.
///
/// Network file systems, tmpfs, overlays and file systems over several devices have an `id` of
/// their own with nothing behind it in `/sys`: then the rest is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// `st_dev`: files with the same one share a file system.
    pub id: u64,
    /// The block device, such as `nvme0n1p2` or `dm-0`.
    pub name: Option<String>,
    /// The whole disk it is part of, such as `nvme0n1`; the same as `name` when it is no partition.
    pub disk: Option<String>,
    /// The disk that does the work: beneath a dm or md device that stands on a single one, else the same as `disk`.
    pub physical: Option<String>,
    /// Whether it spins. Virtual disks and RAID controllers often do not know.
    pub rotational: Option<bool>,
    /// Its logical block in bytes, the grain of direct I/O.
    pub logical_block_bytes: Option<u32>,
    /// The NUMA node it is attached to.
    pub node: Option<u32>,
}

impl Device {
    /// Of an open file or directory.
    ///
    /// # Errors
    ///
    /// What the file system says of the file; what `/sys` does not say is `None`.
    pub fn of(fd: impl AsFd) -> io::Result<Device> {
        Ok(Device::by_id(Meta::of(fd)?.dev))
    }

    /// Of a path, which is followed.
    ///
    /// # Errors
    ///
    /// `NotFound`, `PermissionDenied`.
    pub fn of_path(path: impl AsRef<Path>) -> io::Result<Device> {
        use std::os::unix::fs::MetadataExt;
        Ok(Device::by_id(fs::metadata(path)?.dev()))
    }

    /// By its `st_dev`.
    pub fn by_id(id: u64) -> Device {
        let device = Device::in_sys(Path::new("/sys"), id);
        let node = crate::cpu::node_of_block_device(id);
        Device { node, ..device }
    }

    fn in_sys(sys: &Path, id: u64) -> Device {
        let (major, minor) = (rustix::fs::major(id), rustix::fs::minor(id));
        let at = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok();
        let disk = at.as_deref().and_then(disk_of);
        let number = |file: &str| -> Option<u32> {
            fs::read_to_string(disk?.join("queue").join(file)).ok()?.trim().parse().ok()
        };
        Device {
            id,
            name: at.as_deref().and_then(last),
            disk: disk.and_then(last),
            physical: disk.and_then(|disk| last(&beneath(disk))),
            rotational: number("rotational").map(|n| n != 0),
            logical_block_bytes: number("logical_block_size"),
            node: None,
        }
    }
}

/// A partition is a directory in that of its disk.
fn disk_of(at: &Path) -> Option<&Path> {
    if at.join("partition").exists() { at.parent() } else { Some(at) }
}

/// Follows dm and md devices down to a real disk, or to one that is spread over several.
fn beneath(disk: &Path) -> PathBuf {
    let mut disk = disk.to_owned();
    for _ in 0..STACKED_MAX {
        let Ok(mut slaves) = fs::read_dir(disk.join("slaves")) else { break };
        let (Some(Ok(only)), None) = (slaves.next(), slaves.next()) else { break };
        let Ok(slave) = fs::canonicalize(only.path()) else { break };
        let Some(under) = disk_of(&slave) else { break };
        disk = under.to_owned();
    }
    disk
}

fn last(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_path_agree() {
        let dir = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile_in(dir.path()).unwrap();
        let device = Device::of(&file).unwrap();
        assert_eq!(device, Device::of_path(dir.path()).unwrap());
        if device.name.is_some() {
            assert!(device.rotational.is_some() && device.disk.is_some());
            assert!(device.logical_block_bytes.unwrap() >= 512);
        }
    }

    #[test]
    fn what_has_no_block_device_says_so() {
        let device = Device::of_path("/proc").unwrap();
        assert_eq!((device.name, device.disk, device.rotational, device.node), (None, None, None, None));
    }

    #[test]
    fn a_partition_asks_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/block/sdx");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sdx1")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        fs::write(disk.join("queue/logical_block_size"), "4096\n").unwrap();
        fs::write(disk.join("sdx1/partition"), "1\n").unwrap();
        std::os::unix::fs::symlink(disk.join("sdx1"), sys.path().join("dev/block/8:1")).unwrap();
        let device = Device::in_sys(sys.path(), rustix::fs::makedev(8, 1));
        assert_eq!(device.name.as_deref(), Some("sdx1"));
        assert_eq!(device.disk.as_deref(), Some("sdx"));
        assert_eq!((device.rotational, device.logical_block_bytes), (Some(true), Some(4096)));
        assert_eq!(Device::in_sys(sys.path(), rustix::fs::makedev(8, 2)).name, None);
    }

    #[test]
    fn a_volume_asks_what_it_stands_on() {
        let sys = tempfile::tempdir().unwrap();
        let block = sys.path().join("devices/block");
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        for partition in ["sdx/sdx1", "sdy/sdy1"] {
            fs::create_dir_all(block.join(partition)).unwrap();
            fs::write(block.join(partition).join("partition"), "1\n").unwrap();
        }
        // dm-0 encrypts sdx1, dm-1 is a volume on it, dm-2 is spread over both disks.
        for (n, slaves) in [(0, vec!["sdx/sdx1"]), (1, vec!["dm-0"]), (2, vec!["dm-0", "sdy/sdy1"])] {
            let disk = block.join(format!("dm-{n}"));
            fs::create_dir_all(disk.join("slaves")).unwrap();
            for slave in slaves {
                let name = slave.rsplit('/').next().unwrap();
                std::os::unix::fs::symlink(block.join(slave), disk.join("slaves").join(name)).unwrap();
            }
            std::os::unix::fs::symlink(&disk, sys.path().join(format!("dev/block/253:{n}"))).unwrap();
        }
        let of = |n| Device::in_sys(sys.path(), rustix::fs::makedev(253, n));
        assert_eq!([0, 1, 2].map(|n| of(n).physical.unwrap()), ["sdx", "sdx", "dm-2"]);
        assert_eq!(of(1).disk.as_deref(), Some("dm-1"));
    }
}
