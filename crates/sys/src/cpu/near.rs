//! Which processors are near a network device.

use std::path::Path;

use super::node::{node_cpus, node_of_interface, nodes};

/// A NUMA node to work on, and those of its processors that may be used: some, and not all that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The node's number.
    pub node: u32,
    /// Its processors, by number.
    pub cpus: Vec<usize>,
}

/// Why no node is better than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Anywhere {
    /// There is nothing to choose.
    #[error("this machine has one node")]
    OneNode,
    /// An interface is virtual, or its hardware or the node does not tell.
    #[error("a network interface is on no node that is known")]
    Unknown,
    /// The interfaces are on different nodes.
    #[error("the network interfaces are on different nodes")]
    Apart,
    /// Whoever started this process keeps it off the node.
    #[error("no processor of the node may be used")]
    Barred,
    /// Whoever started this process keeps it on the node, or there are no processors elsewhere.
    #[error("the node has all processors that may be used")]
    Here,
}

/// Finds the node that all these network interfaces are on, by the sysfs at `sys` ([`SYS`](super::SYS)), for a process that may use the
/// `allowed` CPUs. Reads a handful of small files.
///
/// # Errors
///
/// When it is to be left to the scheduler where threads run.
pub fn near(sys: &Path, interfaces: &[&str], allowed: &[usize]) -> Result<Near, Anywhere> {
    if nodes(sys).len() < 2 {
        return Err(Anywhere::OneNode);
    }
    let on: Vec<Option<u32>> = interfaces.iter().map(|name| node_of_interface(sys, name)).collect();
    let node = agreed(&on)?;
    let cpus = node_cpus(sys, node).map_err(|_| Anywhere::Unknown)?;
    within(Near { node, cpus }, allowed)
}

fn agreed(on: &[Option<u32>]) -> Result<u32, Anywhere> {
    let known: Option<Vec<u32>> = on.iter().copied().collect();
    match known.as_deref() {
        None | Some([]) => Err(Anywhere::Unknown),
        Some([first, rest @ ..]) if rest.iter().all(|node| node == first) => Ok(*first),
        Some(_) => Err(Anywhere::Apart),
    }
}

/// What may be used of a node.
fn within(all: Near, allowed: &[usize]) -> Result<Near, Anywhere> {
    let cpus: Vec<usize> = all.cpus.into_iter().filter(|cpu| allowed.contains(cpu)).collect();
    match cpus.len() {
        0 => Err(Anywhere::Barred),
        all if all == allowed.len() => Err(Anywhere::Here),
        _ => Ok(Near { cpus, ..all }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::Tree;
    use super::*;

    fn two_nodes() -> Tree {
        let tree = Tree::new();
        tree.nodes(&[(0, "0-3,8-11"), (1, "4-7,12-15")]);
        for (name, node) in [("a0", "0"), ("a1", "0"), ("b0", "1"), ("x0", "-1")] {
            tree.card(name, Some(node));
        }
        tree
    }

    #[test]
    fn threads_go_where_the_interfaces_are_and_no_further_than_they_may() {
        let tree = two_nodes();
        tree.virtual_over("bond0", &["a0", "a1"]);
        let all: Vec<usize> = (0..16).collect();
        let near = |interfaces: &[&str], allowed: &[usize]| near(tree.path(), interfaces, allowed);
        let first = Near { node: 0, cpus: vec![0, 1, 2, 3, 8, 9, 10, 11] };
        assert_eq!(near(&["a0"], &all), Ok(first.clone()));
        assert_eq!(near(&["a0", "bond0", "a1"], &all), Ok(first));
        assert_eq!(near(&["b0"], &all), Ok(Near { node: 1, cpus: vec![4, 5, 6, 7, 12, 13, 14, 15] }));
        assert_eq!(near(&["b0"], &[2, 3, 4, 5]), Ok(Near { node: 1, cpus: vec![4, 5] }));
    }

    #[test]
    fn where_nothing_is_known_or_won_threads_run_anywhere() {
        let tree = two_nodes();
        let all: Vec<usize> = (0..16).collect();
        let near = |interfaces: &[&str], allowed: &[usize]| near(tree.path(), interfaces, allowed).unwrap_err();
        assert_eq!(near(&[], &all), Anywhere::Unknown);
        assert_eq!(near(&["x0"], &all), Anywhere::Unknown);
        assert_eq!(near(&["a0", "gone0"], &all), Anywhere::Unknown);
        assert_eq!(near(&["a0", "b0"], &all), Anywhere::Apart);
        assert_eq!(near(&["a0"], &[4, 5]), Anywhere::Barred);
        assert_eq!(near(&["a0"], &[]), Anywhere::Barred);
        assert_eq!(near(&["a0"], &[1, 2]), Anywhere::Here);
        // A node that has memory and no processors.
        tree.nodes(&[(0, "\n"), (1, "0-15")]);
        assert_eq!(near(&["a0"], &all), Anywhere::Barred);
        assert_eq!(near(&["b0"], &all), Anywhere::Here);
        tree.nodes(&[(0, "0-3,8-y"), (1, "4-7")]);
        assert_eq!(near(&["a0"], &all), Anywhere::Unknown);
        tree.nodes(&[(0, "0-7")]);
        assert_eq!(near(&["a0"], &all), Anywhere::OneNode);
    }
}
