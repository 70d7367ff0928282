//! What a network becomes on this machine: namespaces, devices, addresses, routes.
//!
//! A [`Plan`] is only text and numbers; who carries it out makes, in this order,
//!
//! 1. a namespace for each node,
//! 2. the node's sysctls (before there are devices: some hold for those made later),
//! 3. a TUN device or a veth for each end of a link, by the name in its [`LinkEnd`],
//! 4. what [`NodePlan::commands`] says, by `ip -n NAMESPACE -batch -`,
//! 5. the [`NodePlan::rules`], by netlink: `ip` can say them in new versions only.
//!
//! # Addresses
//!
//! | of | IPv4 | IPv6 |
//! |---|---|---|
//! | node `n` (loopback) | 10.128.0.0/11, `n + 1` | fd4c:6f6e:6768:1::, `n + 1` |
//! | ends of path `p` (loopback), and of later ones that only marks tell from it | 10.160.0.0/11, 256 `p` + 1 and + 2 | fd4c:6f6e:6768:2::`p`:1 and :2 |
//! | ends of link `l` | 10.192.0.0/10, 4 `l` + 1 and + 2, /30 | fd4c:6f6e:6768:3::`l`:1 and :2, /126 |
//!
//! Numbers count from 0 in the order of the description. All are in namespaces: they may also be used outside.

mod addresses;
mod commands;
mod names;
mod routes;

#[cfg(test)]
mod tests;

pub(crate) use commands::TUN_QUEUE;
pub use names::{NAMESPACES, namespace_prefix};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use addresses::PathEnds;
use model::network::{Link, Network, NodeIndex, NodeKind};
use sys::netlink::rule::Rule;

/// The network as it is to be made on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the twin.
    pub name: String,
    /// By [`NodeIndex`].
    pub nodes: Vec<NodePlan>,
    /// By [`model::network::LinkIndex`].
    pub links: Vec<LinkPlan>,
}

/// A node: a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Its name in the description.
    pub name: String,
    /// Host or router.
    pub kind: NodeKind,
    /// Its namespace, `twin.TWIN.NODE`.
    pub namespace: String,
    /// The one that it answers by and sends from, whichever way packets go.
    pub address: Address,
    /// One for each named path that ends here.
    pub path_addresses: Vec<PathAddress>,
    /// Files beneath `/proc/sys` and what is to be written to them, in its namespace, before it has devices.
    pub sysctls: Vec<(String, String)>,
    /// Lines for `ip -batch -` in its namespace, once all its devices are there.
    pub commands: Vec<String>,
    /// What is routed by another table than the main one: packets with the marks of named paths.
    pub rules: Vec<Rule>,
}

/// An address of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// IPv4.
    pub v4: Ipv4Addr,
    /// IPv6; none on a link whose MTU is below what IPv6 needs, or on a path with such a link.
    pub v6: Option<Ipv6Addr>,
}

impl Address {
    /// One or both.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        [IpAddr::V4(self.v4)].into_iter().chain(self.v6.map(IpAddr::V6))
    }
}

/// The address of one end of a named path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathAddress {
    /// Name of the path.
    pub path: String,
    /// Packets to it go along the path if they carry its marks; so do those from here to the other end's.
    pub address: Address,
}

/// A link: a pair of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Its name in the description.
    pub name: String,
    /// `from` and `to` of the description.
    pub ends: [LinkEnd; 2],
    /// TUN devices and the emulator between them; else a veth pair.
    pub emulated: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// An end of a link: a device in a node's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Whose.
    pub node: NodeIndex,
    /// Name of the device in the node's namespace.
    pub device: String,
    /// Its address: a /30, and a /126.
    pub address: Address,
}

/// Why a network cannot be made on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A name of a twin, node or path that cannot be that of a namespace and of a host.
    #[error("{what} `{name}`: write at most {max} letters, digits, `-`, `_` and `.`, a letter or a digit first")]
    Name {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
        /// The most characters.
        max: usize,
    },
    /// More than there are addresses for.
    #[error("{count} {what}: there are addresses for {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A path that packets cannot take.
    #[error("path `{path}`: {why}")]
    Path {
        /// Name of the path.
        path: String,
        /// Why not.
        why: &'static str,
    },
}

/// The network with the addresses that a twin of it gives to the ends of its named paths.
#[must_use]
pub fn addressed(network: &Network) -> Network {
    let ends = PathEnds::of(network);
    let mut with = network.clone();
    for (index, path) in with.paths.iter_mut().enumerate() {
        let address = |end| {
            let Address { v4, v6 } = ends.address(index, end);
            v6.filter(|_| path.marks.flow_label.is_some()).map_or(IpAddr::V4(v4), IpAddr::V6)
        };
        path.addresses = Some([address(0), address(1)]);
    }
    with
}

impl Plan {
    /// The plan for `network` as the twin `name`.
    ///
    /// Everything follows from the arguments: the same description has the same addresses, devices and routes.
    ///
    /// # Errors
    /// If names cannot be used, there are too few addresses, or a path cannot be taken.
    pub fn new(network: &Network, name: &str) -> Result<Plan, PlanError> {
        names::check(network, name)?;
        addresses::check(network)?;
        let ends = PathEnds::of(network);
        routes::check(network, &ends)?;
        let links: Vec<LinkPlan> = network.links.iter().enumerate().map(|(i, link)| link_plan(i, link)).collect();
        let tables = routes::tables(network, &ends);
        let nodes = network.nodes.iter().enumerate().zip(tables).map(|((index, node), table)| {
            let path_addresses = path_addresses(network, &ends, index);
            NodePlan {
                name: node.name.clone(),
                kind: node.kind,
                namespace: names::namespace(name, &node.name),
                address: addresses::node(index),
                sysctls: commands::sysctls(network, node.kind),
                commands: commands::lines(&links, index, &path_addresses, &table),
                rules: routes::rules(network, &ends, index),
                path_addresses,
            }
        });
        Ok(Plan { name: name.to_owned(), nodes: nodes.collect(), links })
    }

    /// The text of `/etc/hosts` for all nodes: each has its name, and `NODE.PATH` for its end of a path.
    #[must_use]
    pub fn etc_hosts(&self) -> String {
        let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
        let mut line = |address: Address, name: &str| {
            address.iter().for_each(|address| text.push_str(&format!("{address} {name}\n")));
        };
        for node in &self.nodes {
            line(node.address, &node.name);
            for end in &node.path_addresses {
                line(end.address, &format!("{}.{}", node.name, end.path));
            }
        }
        text
    }
}

fn link_plan(index: usize, link: &Link) -> LinkPlan {
    let device = names::device(index, &link.name);
    let end = |node, end| LinkEnd { node, device: device.clone(), address: addresses::link(index, link, end) };
    LinkPlan {
        name: link.name.clone(),
        ends: [end(link.from, 0), end(link.to, 1)],
        emulated: !link.is_plain(),
        mtu: link.mtu,
    }
}

fn path_addresses(network: &Network, of: &PathEnds, node: NodeIndex) -> Vec<PathAddress> {
    let ends = network.paths.iter().enumerate().flat_map(|(index, path)| {
        [path.from, path.to].into_iter().enumerate().map(move |(end, at)| (at, index, end, path))
    });
    let here = ends.filter(|(at, ..)| *at == node);
    here.map(|(_, index, end, path)| PathAddress { path: path.name.clone(), address: of.address(index, end) }).collect()
}
