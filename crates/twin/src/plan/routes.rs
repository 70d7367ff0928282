//! Which way packets go: the cheapest for most, their own path's for the addresses of named paths, and for those with marks of one.
//!
//! Hosts do not forward, so a way goes over routers only. Every node decides alone, by destination, and at each hop the
//! rest of the way becomes cheaper or as cheap and shorter: there are no loops.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::network::{Link, LinkIndex, Network, NodeIndex, NodeKind, Path};
use sys::netlink::rule::Rule;
use units::Marks;

use super::addresses::{self, PathEnds};
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
    /// In this table, which rules lead to; `None` for the main one.
    pub(super) table: Option<u32>,
}

/// Table of the first path on the way to its first end: two for each path. Far above what people number.
const FIRST_TABLE: u32 = 100_000;
/// Rules for packets with two marks are asked before those for one: a path with a code point alone is for all others with that.
const PRIORITY: [u32; 2] = [1_000, 2_000];
/// Who makes the rules: as `ip` would be (`RTPROT_BOOT`).
const PROTOCOL: u8 = 3;

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
pub(super) fn check(network: &Network, ends: &PathEnds) -> Result<(), PlanError> {
    for (index, path) in network.paths.iter().enumerate() {
        let refused = |why| PlanError::Path { path: path.name.clone(), why };
        nodes_of(network, path).map_err(refused)?;
        if path.marks.flow_label.is_some() && ends.address(index, 0).v6.is_none() {
            return Err(refused("it has a flow label, and a link of it carries no IPv6: make its MTU 1280 or more"));
        }
    }
    Ok(())
}

/// The routes of every node, by [`NodeIndex`], to
///
/// - the address of every other node,
/// - the ends of links at hosts, by that very link if it leads to a router,
/// - the ends of named paths, twice for those with marks: by where packets go, and along the path in a table of its own.
///
/// What cannot be reached has none; neither has the far end of a node's own link.
pub(super) fn tables(network: &Network, ends: &PathEnds) -> Vec<Vec<Route>> {
    let mut tables = vec![Vec::new(); network.nodes.len()];
    for family in [Family::V4, Family::V6] {
        let ways = Ways::new(network, family);
        for (node, table) in tables.iter_mut().enumerate() {
            let to = to_nodes(network, &ways, node).chain(to_links(network, &ways, node));
            table.extend(
                to.chain(to_paths(network, &ways, ends, node)).chain(along_marked(network, ends, family, node)),
            );
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
fn to_paths(network: &Network, ways: &Ways, of: &PathEnds, node: NodeIndex) -> impl Iterator<Item = Route> {
    network.paths.iter().enumerate().filter(|(index, _)| of.is_plain(*index)).flat_map(move |(index, path)| {
        let nodes = nodes_of(network, path).expect("all paths have been checked");
        // Without its marks packets between its ends are as any.
        let at = nodes.iter().position(|passed| *passed == node).filter(|_| path.marks.is_none());
        let ends = [(path.from, path.to, 0), (path.to, path.from, 1)].into_iter();
        ends.filter(move |(last, ..)| node != *last).filter_map(move |(last, first, end)| {
            // Backwards to its end 0, forwards to its end 1.
            let along = at.map(|at| path.links[if end == 0 { at - 1 } else { at }]);
            let source = (node == first).then(|| of.address(index, 1 - end));
            ways.route(node, of.address(index, end), along.or(ways.next[last][node]), source)
        })
    })
}

/// A packet's way along a path with marks, as a node has it: the next link to an end, and the packets for it.
struct Marked {
    route: Route,
    rule: Rule,
}

/// What a node has for packets with the marks of paths that pass it.
fn marked(network: &Network, of: &PathEnds, family: Family, node: NodeIndex) -> impl Iterator<Item = Marked> {
    let paths = network.paths.iter().enumerate().filter(|(_, path)| !path.marks.is_none());
    let paths = paths.filter(move |(_, path)| family == Family::V6 || path.marks.flow_label.is_none());
    paths.flat_map(move |(index, path)| {
        let nodes = nodes_of(network, path).expect("all paths have been checked");
        let at = nodes.iter().position(|passed| *passed == node);
        [0, 1].into_iter().filter_map(move |end| {
            // Backwards to its end 0, forwards to its end 1.
            let link = if end == 0 { at?.checked_sub(1)? } else { at? };
            let (to, from) = (family.of(of.address(index, end))?, family.of(of.address(index, 1 - end))?);
            let table = FIRST_TABLE + 2 * u32::try_from(index).ok()? + end as u32;
            let Marks { dscp, flow_label } = path.marks;
            let bits = if family == Family::V6 { 128 } else { 32 };
            let rule = Rule {
                is_v6: family == Family::V6,
                priority: PRIORITY[usize::from(dscp.is_none() || flow_label.is_none())],
                table,
                protocol: PROTOCOL,
                from: Some((from, bits)),
                to: Some((to, bits)),
                dscp,
                flow_label,
            };
            let is_first = node == if end == 0 { path.to } else { path.from };
            let source = if is_first { from } else { family.of(addresses::node(node))? };
            let route = Route { to, link: *path.links.get(link)?, source, table: Some(table) };
            Some(Marked { route, rule })
        })
    })
}

fn along_marked(network: &Network, of: &PathEnds, family: Family, node: NodeIndex) -> impl Iterator<Item = Route> {
    marked(network, of, family, node).map(|marked| marked.route)
}

/// The rules of a node: packets with the marks of a path go by its table.
pub(super) fn rules(network: &Network, of: &PathEnds, node: NodeIndex) -> Vec<Rule> {
    let of_family = |family| marked(network, of, family, node).map(|marked| marked.rule);
    of_family(Family::V4).chain(of_family(Family::V6)).collect()
}

impl Ways {
    fn new(network: &Network, family: Family) -> Ways {
        let next = (0..network.nodes.len()).map(|to| network.routes_to(to, |link| family.goes_over(link)));
        Ways { family, next: next.collect() }
    }

    /// The route of `node` to an address, if it has one and there is a way; from its own address if no other is given.
    fn route(&self, node: NodeIndex, to: Address, link: Option<LinkIndex>, source: Option<Address>) -> Option<Route> {
        let source = source.unwrap_or_else(|| addresses::node(node));
        Some(Route { to: self.family.of(to)?, link: link?, source: self.family.of(source)?, table: None })
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
