//! Who has which address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::network::{Link, Network};

use super::{Address, PlanError};

/// A /11 for each of the first two, a /10 for links: what 10.128.0.0/9 holds.
const NODES: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const PATHS: Ipv4Addr = Ipv4Addr::new(10, 160, 0, 0);
const LINKS: Ipv4Addr = Ipv4Addr::new(10, 192, 0, 0);
/// A unique local prefix (RFC 4193); for each kind a /64 of its own, numbered from 1.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6768, 0, 0, 0, 0, 0);

/// Nodes: each has routes to every other, which takes the kernel half a minute at this many.
const MAX_NODES: usize = 1_000;
/// Paths, 256 addresses apart.
const MAX_PATHS: usize = 1 << 13;
/// Links, so that the number of one fits 16 bits.
const MAX_LINKS: usize = 1 << 16;

/// # Errors
/// If there are more of a kind than addresses for it.
pub(super) fn check(network: &Network) -> Result<(), PlanError> {
    let kinds = [
        ("nodes", network.nodes.len(), MAX_NODES),
        ("paths", network.paths.len(), MAX_PATHS),
        ("links", network.links.len(), MAX_LINKS),
    ];
    for (what, count, max) in kinds {
        if count > max {
            return Err(PlanError::TooMany { what, count, max });
        }
    }
    Ok(())
}

/// The address of a node.
pub(super) fn node(index: usize) -> Address {
    numbered(NODES, index + 1, Some((1, index + 1)))
}

/// The addresses of named paths: each has its own, but those between the same hosts that only marks tell apart share them.
#[derive(Debug)]
pub(super) struct PathEnds(Vec<Ends>);

#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The first path that has these addresses.
    first: usize,
    /// It begins where that one ends.
    is_turned: bool,
    /// All paths that have these addresses carry IPv6.
    has_v6: bool,
    /// What packets between these addresses do that have no mark follows from this path.
    is_plain: bool,
}

/// Hosts, the lower first, and the addresses in the description, in their order: paths that have these alike differ in marks.
type Between = ([usize; 2], Option<[IpAddr; 2]>);

impl PathEnds {
    pub(super) fn of(network: &Network) -> PathEnds {
        let mut groups: BTreeMap<Between, Vec<usize>> = BTreeMap::new();
        let mut ends = Vec::with_capacity(network.paths.len());
        for (index, path) in network.paths.iter().enumerate() {
            let has_v6 = path.links.iter().all(|&link| carries_v6(&network.links[link]));
            ends.push(Ends { first: index, is_turned: false, has_v6, is_plain: true });
            if path.is_bound() {
                let low = path.from.min(path.to);
                groups.entry(([low, path.from.max(path.to)], path.addresses_from(low))).or_default().push(index);
            }
        }
        for group in groups.into_values() {
            let (first, has_v6) = (group[0], group.iter().all(|index| ends[*index].has_v6));
            let plain = group.iter().copied().find(|index| network.paths[*index].marks.is_none()).unwrap_or(first);
            for index in group {
                let is_turned = network.paths[index].from != network.paths[first].from;
                ends[index] = Ends { first, is_turned, has_v6, is_plain: index == plain };
            }
        }
        PathEnds(ends)
    }

    /// The address of an end, 0 or 1, of a path.
    pub(super) fn address(&self, index: usize, end: usize) -> Address {
        let Ends { first, is_turned, has_v6, .. } = self.0[index];
        let end = if is_turned { 1 - end } else { end };
        numbered(PATHS, first * 256 + end + 1, has_v6.then_some((2, (first << 16) + end + 1)))
    }

    /// Whether packets without a mark follow this path, or have their way from its ends at least.
    pub(super) fn is_plain(&self, index: usize) -> bool {
        self.0[index].is_plain
    }
}

/// The address of an end, 0 or 1, of a link.
pub(super) fn link(index: usize, link: &Link, end: usize) -> Address {
    numbered(LINKS, index * 4 + end + 1, carries_v6(link).then_some((3, (index << 16) + end + 1)))
}

/// Whether IPv6 goes over the link: it needs an MTU of 1280 (RFC 8200, section 5).
pub(super) fn carries_v6(link: &Link) -> bool {
    link.mtu >= 1280
}

fn numbered(base: Ipv4Addr, v4: usize, v6: Option<(u128, usize)>) -> Address {
    // Both fit: `check` has counted.
    Address {
        v4: Ipv4Addr::from_bits(base.to_bits() + v4 as u32),
        v6: v6.map(|(subnet, host)| Ipv6Addr::from_bits(PREFIX.to_bits() | subnet << 64 | host as u128)),
    }
}
