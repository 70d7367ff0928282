//! NUMA nodes, as `/sys` tells them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SYS: &str = "/sys";

/// More CPUs or nodes than any machine has; a list that goes beyond is not believed.
const NUMBER_MAX: usize = 1 << 16;

/// The NUMA nodes that are switched on; empty where the kernel knows none.
pub fn nodes() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    parse_list(&list).unwrap_or_default().into_iter().map(|n| n as u32).collect()
}

/// The CPUs of a node.
///
/// # Errors
///
/// `NotFound` when there is no such node.
pub fn node_cpus(node: u32) -> io::Result<Vec<usize>> {
    parse_list(&fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?)
}

/// The node that a network interface is attached to; `None` when it is virtual, or unknown, or the
/// machine has but one node.
pub fn node_of_interface(name: &str) -> Option<u32> {
    node_of_interface_in(Path::new(SYS), name)
}

fn node_of_interface_in(sys: &Path, name: &str) -> Option<u32> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let direct = sys.join("class/net").join(name);
    node_above(sys, &direct).or_else(|| {
        // Bonds, bridges, VLANs: the first interface below that knows.
        let mut lower: Vec<PathBuf> = fs::read_dir(&direct)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"lower_")))
            .collect();
        lower.sort();
        lower.iter().find_map(|path| node_above(sys, path))
    })
}

/// The node that a block device, by its `st_dev`, is attached to; `None` as for interfaces.
pub fn node_of_block_device(dev: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let sys = Path::new(SYS);
    node_above(sys, &sys.join(format!("dev/block/{major}:{minor}")))
}

/// The nearest `numa_node` of the device at `link` or of what it hangs on.
fn node_above(sys: &Path, link: &Path) -> Option<u32> {
    let sys = fs::canonicalize(sys).ok()?;
    let device = fs::canonicalize(link).ok()?;
    device
        .ancestors()
        .take_while(|at| at.starts_with(&sys))
        .flat_map(|at| [at.join("numa_node"), at.join("device/numa_node")])
        .find_map(|file| fs::read_to_string(file).ok())
        // -1 is one node for all.
        .and_then(|text| text.trim().parse().ok())
}

/// A list such as `0-3,8,10-11`.
pub(super) fn parse_list(text: &str) -> io::Result<Vec<usize>> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("not a list of numbers: {text:?}"));
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().map_err(|_| bad())?;
        let last: usize = last.parse().map_err(|_| bad())?;
        if first > last || last > NUMBER_MAX {
            return Err(bad());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert!(parse_list("\n").unwrap().is_empty());
        for bad in ["x", "1-", "3-1", "-1", "0-99999999999", "1;2"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_answers() {
        for node in nodes() {
            assert!(node_cpus(node).is_ok());
        }
        assert_eq!(node_of_interface("lo"), None);
        for bad in ["", "..", "../../x", "no-such-interface"] {
            assert_eq!(node_of_interface(bad), None, "{bad}");
        }
        assert_eq!(node_of_block_device(u64::MAX), None);
        assert!(node_cpus(60_000).is_err());
    }

    #[test]
    fn finds_the_node_above_the_interface_and_below_a_bond() {
        let sys = tempfile::tempdir().unwrap();
        let pci = sys.path().join("devices/pci0000:80/0000:81:00.0");
        fs::create_dir_all(pci.join("net/eth0")).unwrap();
        fs::write(pci.join("numa_node"), "1\n").unwrap();
        let bond = sys.path().join("devices/virtual/net/bond0");
        fs::create_dir_all(&bond).unwrap();
        fs::create_dir_all(sys.path().join("class/net")).unwrap();
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
        link(&pci.join("net/eth0"), &sys.path().join("class/net/eth0"));
        link(&pci.join("net/eth0"), &bond.join("lower_eth0"));
        link(&bond, &sys.path().join("class/net/bond0"));
        assert_eq!(node_of_interface_in(sys.path(), "eth0"), Some(1));
        assert_eq!(node_of_interface_in(sys.path(), "bond0"), Some(1));
        fs::write(pci.join("numa_node"), "-1\n").unwrap();
        assert_eq!(node_of_interface_in(sys.path(), "eth0"), None);
    }
}
