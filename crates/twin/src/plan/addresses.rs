//! Who has which address.

use std::net::{Ipv4Addr, Ipv6Addr};

use model::network::Network;

use super::{Address, PlanError};

/// A /11 for each of the first two, a /10 for links: what 10.128.0.0/9 holds.
const NODES: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const PATHS: Ipv4Addr = Ipv4Addr::new(10, 160, 0, 0);
const LINKS: Ipv4Addr = Ipv4Addr::new(10, 192, 0, 0);
/// A unique local prefix (RFC 4193); for each kind a /64 of its own, numbered from 1.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6768, 0, 0, 0, 0, 0);

/// Nodes that have addresses at most, so that even a table with routes to all of them is made in seconds.
const MAX_NODES: usize = 10_000;
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
    numbered(NODES, index + 1, 1, index + 1)
}

/// The address of an end, 0 or 1, of a named path.
pub(super) fn path(index: usize, end: usize) -> Address {
    numbered(PATHS, index * 256 + end + 1, 2, (index << 16) + end + 1)
}

/// The address of an end, 0 or 1, of a link.
pub(super) fn link(index: usize, end: usize) -> Address {
    numbered(LINKS, index * 4 + end + 1, 3, (index << 16) + end + 1)
}

fn numbered(base: Ipv4Addr, v4: usize, subnet: u128, v6: usize) -> Address {
    // Both fit: `check` has counted.
    Address {
        v4: Ipv4Addr::from_bits(base.to_bits() + v4 as u32),
        v6: Ipv6Addr::from_bits(PREFIX.to_bits() | subnet << 64 | v6 as u128),
    }
}
