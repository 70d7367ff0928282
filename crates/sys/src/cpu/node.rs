//! NUMA nodes, as `/sys` tells them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where Linux mounts sysfs.
pub const SYS: &str = "/sys";

/// More CPUs or nodes than any machine has; a list that goes beyond is not believed.
const NUMBER_MAX: usize = 1 << 16;

/// Interfaces that are looked at beneath one: ports of a bridge, members of bonds. Where there are more, nothing is known.
const BENEATH_MAX: usize = 64;

/// The NUMA nodes that are switched on, by the sysfs at `sys` ([`SYS`]); empty where the kernel knows none.
pub fn nodes(sys: &Path) -> Vec<u32> {
    let list = fs::read_to_string(sys.join("devices/system/node/online")).unwrap_or_default();
    parse_list(&list).unwrap_or_default().into_iter().map(|n| n as u32).collect()
}

/// The CPUs of a node, by the sysfs at `sys` ([`SYS`]).
///
/// # Errors
///
/// `NotFound` when there is no such node; `InvalidData` when what is there is no list.
pub fn node_cpus(sys: &Path, node: u32) -> io::Result<Vec<usize>> {
    parse_list(&fs::read_to_string(sys.join(format!("devices/system/node/node{node}/cpulist")))?)
}

/// The node that a network interface is attached to, by the sysfs at `sys` ([`SYS`]). A bond, a bridge or a VLAN is where the hardware
/// beneath it is, if all of that is on one node. `None` when it is virtual, or unknown, or the machine has but one node.
pub fn node_of_interface(sys: &Path, name: &str) -> Option<u32> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let mut found = None;
    let mut left = vec![sys.join("class/net").join(name)];
    for _ in 0..BENEATH_MAX {
        let Some(link) = left.pop() else { return found };
        // One that is another network namespace's does not show what it is.
        let Ok(at) = fs::canonicalize(link) else { continue };
        match node_above(sys, &at) {
            Some(node) if found.is_none_or(|other| other == node) => found = Some(node),
            Some(_) => return None,
            // Hardware that does not tell may be anywhere; what is virtual and has nothing beneath, such as a guest's port, is nowhere.
            None if at.join("device").exists() => return None,
            None => left.extend(beneath(&at)),
        }
    }
    found.filter(|_| left.is_empty())
}

/// The interfaces that one stands on.
fn beneath(interface: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(interface).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_lower = |path: &PathBuf| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"lower_"));
    entries.filter(is_lower).take(BENEATH_MAX).collect()
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
    use super::super::made_up::Tree;
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
        let sys = Path::new(SYS);
        for node in nodes(sys) {
            assert!(node_cpus(sys, node).is_ok());
        }
        assert_eq!(node_of_interface(sys, "lo"), None);
        for bad in ["", "..", "../../x", "no-such-interface"] {
            assert_eq!(node_of_interface(sys, bad), None, "{bad}");
        }
        assert_eq!(node_of_block_device(u64::MAX), None);
        assert!(node_cpus(sys, 60_000).is_err());
    }

    #[test]
    fn hardware_says_where_it_is_and_what_is_virtual_says_nothing() {
        let tree = Tree::new();
        tree.card("eth0", Some("1"));
        tree.card("eth1", Some("-1"));
        tree.card("eth2", None);
        tree.virtual_over("veth0", &[]);
        let node = |name: &str| node_of_interface(tree.path(), name);
        assert_eq!(["eth0", "eth1", "eth2", "veth0"].map(node), [Some(1), None, None, None]);
    }

    #[test]
    fn what_is_made_of_interfaces_is_where_all_its_hardware_is() {
        let tree = Tree::new();
        for (name, node) in [("a0", "0"), ("a1", "0"), ("b0", "1"), ("x0", "-1")] {
            tree.card(name, Some(node));
        }
        tree.virtual_over("vlan0", &["b0"]);
        tree.virtual_over("bond0", &["a0", "a1"]);
        tree.virtual_over("bond1", &["a0", "b0"]);
        tree.virtual_over("bond2", &["a0", "x0"]);
        tree.virtual_over("vlan1", &["bond0"]);
        tree.virtual_over("vlan2", &["bond1"]);
        tree.virtual_over("tap0", &[]);
        tree.virtual_over("bridge0", &["vlan1", "tap0"]);
        let node = |name: &str| node_of_interface(tree.path(), name);
        assert_eq!(["vlan0", "bond0", "vlan1", "bridge0"].map(node), [Some(1), Some(0), Some(0), Some(0)]);
        assert_eq!(["bond1", "bond2", "vlan2", "tap0"].map(node), [None; 4]);
    }

    #[test]
    fn only_so_many_interfaces_are_looked_at() {
        let tree = Tree::new();
        tree.card("eth0", Some("1"));
        let names: Vec<String> = (0..BENEATH_MAX).map(|n| format!("over{n}")).collect();
        let mut below = "eth0";
        for name in &names {
            tree.virtual_over(name, &[below]);
            below = name;
        }
        // Itself, and those beneath it down to the card.
        assert_eq!(node_of_interface(tree.path(), &names[BENEATH_MAX - 2]), Some(1));
        assert_eq!(node_of_interface(tree.path(), &names[BENEATH_MAX - 1]), None);
    }

    #[test]
    fn nodes_and_their_processors_are_read() {
        let tree = Tree::new();
        assert!(nodes(tree.path()).is_empty());
        tree.nodes(&[(0, "0-3,8-11\n"), (1, "4-7,x\n")]);
        assert_eq!(nodes(tree.path()), [0, 1]);
        assert_eq!(node_cpus(tree.path(), 0).unwrap(), [0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(node_cpus(tree.path(), 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(node_cpus(tree.path(), 2).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
