//! Which way packets go: the cheapest for most, their own path's for the addresses of named paths.
//!
//! Hosts do not forward, so a way goes over routers only. Every node decides alone, by destination, and at each hop the
//! rest of the way becomes cheaper or as cheap and shorter: there are no loops.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::network::{Link, LinkIndex, Network, NodeIndex, NodeKind, Path};

use super::addresses;
use super::{Address, PlanError};

/// A route in the table of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The one address that it leads to.
    pub(super) to: IpAddr,
    /// Over this link of the node; the gateway is the link's other end.
    pub(super) link: LinkIndex,
    /// What packets carry as source unless their sender has chosen.
    pub(super) source: IpAddr,
}

/// Links that lead on, by the node where packets are and the node they are for.
struct Ways {
    family: Family,
    /// By destination, then by node.
    next: Vec<Vec<Option<LinkIndex>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(self, address: Address) -> Option<IpAddr> {
        match self {
            Family::V4 => Some(IpAddr::V4(address.v4)),
            Family::V6 => address.v6.map(IpAddr::V6),
        }
    }

    fn goes_over(self, link: &Link) -> bool {
        self == Family::V4 || addresses::carries_v6(link)
    }
}

/// # Errors
/// If packets cannot take a named path.
pub(super) fn check(network: &Network) -> Result<(), PlanError> {
    for path in &network.paths {
        nodes_of(network, path).map_err(|why| PlanError::Path { path: path.name.clone(), why })?;
    }
    Ok(())
}

/// The routes of every node, by [`NodeIndex`], to
///
/// - the address of every other node,
/// - the ends of links at hosts, by that very link if it leads to a router,
/// - the ends of named paths.
///
/// What cannot be reached has none; neither has the far end of a node's own link.
pub(super) fn tables(network: &Network) -> Vec<Vec<Route>> {
    let mut tables = vec![Vec::new(); network.nodes.len()];
    for family in [Family::V4, Family::V6] {
        let ways = Ways::new(network, family);
        for (node, table) in tables.iter_mut().enumerate() {
            let to = to_nodes(network, &ways, node).chain(to_links(network, &ways, node));
            table.extend(to.chain(to_paths(network, &ways, node)));
        }
    }
    tables
}

fn to_nodes(network: &Network, ways: &Ways, node: NodeIndex) -> impl Iterator<Item = Route> {
    (0..network.nodes.len())
        .filter_map(move |other| ways.route(node, addresses::node(other), ways.next[other][node], None))
}

/// Routes to the ends of links at hosts, so that each of a host's links can be chosen by its address.
fn to_links(network: &Network, ways: &Ways, node: NodeIndex) -> impl Iterator<Item = Route> {
    let is = move |node: NodeIndex, kind| network.nodes[node].kind == kind;
    let ends = network.links.iter().enumerate().flat_map(|(index, link)| {
        [(link.from, link.to, 0), (link.to, link.from, 1)]
            .map(|(host, far, end)| (host, far, addresses::link(index, link, end)))
    });
    let distant = ends.filter(move |(host, far, _)| is(*host, NodeKind::Host) && node != *host && node != *far);
    distant.filter_map(move |(host, far, address)| {
        let by_link = if is(far, NodeKind::Router) { ways.next[far][node] } else { None };
        ways.route(node, address, by_link.or(ways.next[host][node]), None)
    })
}

/// Routes to both ends of every path: along it where it passes, else as to its end. What has come to the path stays on it.
fn to_paths(network: &Network, ways: &Ways, node: NodeIndex) -> impl Iterator<Item = Route> {
    network.paths.iter().enumerate().flat_map(move |(index, path)| {
        let nodes = nodes_of(network, path).expect("all paths have been checked");
        let at = nodes.iter().position(|passed| *passed == node);
        let ends = [(path.from, path.to, 0), (path.to, path.from, 1)].into_iter();
        ends.filter(move |(last, ..)| node != *last).filter_map(move |(last, first, end)| {
            // Backwards to its end 0, forwards to its end 1.
            let along = at.map(|at| path.links[if end == 0 { at - 1 } else { at }]);
            let source = (node == first).then(|| addresses::path(network, index, 1 - end));
            ways.route(node, addresses::path(network, index, end), along.or(ways.next[last][node]), source)
        })
    })
}

impl Ways {
    fn new(network: &Network, family: Family) -> Ways {
        let next = (0..network.nodes.len()).map(|to| network.routes_to(to, |link| family.goes_over(link)));
        Ways { family, next: next.collect() }
    }

    /// The route of `node` to an address, if it has one and there is a way; from its own address if no other is given.
    fn route(&self, node: NodeIndex, to: Address, link: Option<LinkIndex>, source: Option<Address>) -> Option<Route> {
        let source = source.unwrap_or_else(|| addresses::node(node));
        Some(Route { to: self.family.of(to)?, link: link?, source: self.family.of(source)? })
    }
}

/// The nodes of a path in turn; or why packets cannot take it.
fn nodes_of(network: &Network, path: &Path) -> Result<Vec<NodeIndex>, &'static str> {
    let mut nodes = vec![path.from];
    let mut at = path.from;
    for link in &path.links {
        let link = network.links.get(*link).ok_or("a link of it does not exist")?;
        at = other_end(link, at).ok_or("its links do not follow each other from its one end")?;
        nodes.push(at);
    }
    if at != path.to || path.links.is_empty() {
        return Err("its links do not lead to its other end");
    }
    if nodes.iter().collect::<BTreeSet<_>>().len() < nodes.len() {
        return Err("it comes twice to the same node");
    }
    if nodes[1..nodes.len() - 1].iter().any(|node| network.nodes[*node].kind != NodeKind::Router) {
        return Err("it goes through a host, and hosts do not forward");
    }
    Ok(nodes)
}

/// Where `link` leads from `node`, if it is there at all.
fn other_end(link: &Link, node: NodeIndex) -> Option<NodeIndex> {
    if link.from == node {
        Some(link.to)
    } else if link.to == node {
        Some(link.from)
    } else {
        None
    }
}
