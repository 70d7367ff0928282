//! Which way packets go: the cheapest for most, their own path's for the addresses of named paths.
//!
//! Hosts do not forward, so a way goes over routers only. Every node decides alone, by destination, and at each hop the
//! rest of the way becomes cheaper or as cheap and shorter: there are no loops.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use model::network::{Link, LinkIndex, Network, NodeIndex, NodeKind, Path};

use super::addresses;
use super::{Address, PlanError};

/// The least that IPv6 needs (RFC 8200, section 5).
const MIN_MTU: u32 = 1280;

/// A route in the table of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The one address that it leads to.
    pub(super) to: Address,
    /// Over this link of the node; the gateway is the link's other end.
    pub(super) link: LinkIndex,
    /// What packets carry as source unless their sender has chosen.
    pub(super) source: Address,
}

/// # Errors
/// If a link has too small an MTU for IPv6, or if packets cannot take a named path.
pub(super) fn check(network: &Network) -> Result<(), PlanError> {
    if let Some(link) = network.links.iter().find(|link| link.mtu < MIN_MTU) {
        return Err(PlanError::Mtu { link: link.name.clone(), mtu: link.mtu });
    }
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
/// What cannot be reached has none; neither has what a node reaches over a link of its own, on that link's subnet.
pub(super) fn tables(network: &Network) -> Vec<Vec<Route>> {
    let links_of = links_of(network);
    let to: Vec<Vec<Option<LinkIndex>>> =
        (0..network.nodes.len()).map(|node| next_links(network, &links_of, node)).collect();
    let mut tables = vec![Vec::new(); network.nodes.len()];
    for (node, table) in tables.iter_mut().enumerate() {
        let source = addresses::node(node);
        let nodes = to.iter().enumerate().map(|(other, next)| (addresses::node(other), next[node]));
        let links = network.links.iter().enumerate().flat_map(|(index, link)| {
            let ends = [(link.from, link.to, 0), (link.to, link.from, 1)];
            let host_ends = ends.into_iter().filter(|(end, ..)| network.nodes[*end].kind == NodeKind::Host);
            let others = host_ends.filter(|(end, far, _)| node != *end && node != *far);
            let to = &to;
            others.map(move |(end, far, at)| {
                let by_far = (network.nodes[far].kind == NodeKind::Router).then(|| to[far][node]).flatten();
                (addresses::link(index, at), by_far.or(to[end][node]))
            })
        });
        let routes = nodes.chain(links);
        table.extend(routes.filter_map(|(to, link)| link.map(|link| Route { to, link, source })));
    }
    for (index, path) in network.paths.iter().enumerate() {
        add_path(network, &to, (index, path), &mut tables);
    }
    tables
}

/// Adds routes to both ends of a path: along it from where it passes, as to its end from elsewhere.
fn add_path(
    network: &Network,
    to: &[Vec<Option<LinkIndex>>],
    (index, path): (usize, &Path),
    tables: &mut [Vec<Route>],
) {
    let nodes = nodes_of(network, path).expect("the caller has checked all paths");
    for (end, last, first) in [(0, path.from, path.to), (1, path.to, path.from)] {
        for (node, table) in tables.iter_mut().enumerate().filter(|(node, _)| *node != last) {
            let along =
                nodes.iter().position(|at| *at == node).map(|at| path.links[if end == 0 { at - 1 } else { at }]);
            let source = if node == first { addresses::path(index, 1 - end) } else { addresses::node(node) };
            let link = along.or(to[last][node]);
            table.extend(link.map(|link| Route { to: addresses::path(index, end), link, source }));
        }
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

/// For every node the link to take to `destination`; none at `destination` itself, and where no way leads.
///
/// Of several the cheapest, then of fewest hops, then to the node and by the link whose name is first.
fn next_links(network: &Network, links_of: &[Vec<LinkIndex>], destination: NodeIndex) -> Vec<Option<LinkIndex>> {
    let distances = distances(network, links_of, destination);
    let passes = |node: NodeIndex| node == destination || network.nodes[node].kind == NodeKind::Router;
    let next = |node: NodeIndex| {
        let ways = links_of[node].iter().filter_map(|&index| {
            let link = &network.links[index];
            let neighbour = other_end(link, node).filter(|&neighbour| passes(neighbour))?;
            let (cost, hops) = distances[neighbour]?;
            let names = (&network.nodes[neighbour].name, &link.name);
            Some((cost + u64::from(link.cost), hops, names, index))
        });
        ways.min().map(|(.., index)| index)
    };
    (0..network.nodes.len()).map(|node| (node != destination).then(|| next(node)).flatten()).collect()
}

/// Cost and hops from every node to `destination` (Dijkstra 1959).
fn distances(network: &Network, links_of: &[Vec<LinkIndex>], destination: NodeIndex) -> Vec<Option<(u64, u32)>> {
    let mut found: Vec<Option<(u64, u32)>> = vec![None; network.nodes.len()];
    // Holds at most one entry for each end of a link.
    let mut nearest = BinaryHeap::from([Reverse(((0, 0), destination))]);
    while let Some(Reverse(((cost, hops), node))) = nearest.pop() {
        if found[node].is_some() {
            continue;
        }
        found[node] = Some((cost, hops));
        if node != destination && network.nodes[node].kind == NodeKind::Host {
            continue;
        }
        for &index in &links_of[node] {
            let link = &network.links[index];
            if let Some(neighbour) = other_end(link, node).filter(|&neighbour| found[neighbour].is_none()) {
                nearest.push(Reverse(((cost + u64::from(link.cost), hops + 1), neighbour)));
            }
        }
    }
    found
}

/// The links of each node.
fn links_of(network: &Network) -> Vec<Vec<LinkIndex>> {
    let mut links_of = vec![Vec::new(); network.nodes.len()];
    for (index, link) in network.links.iter().enumerate() {
        links_of[link.from].push(index);
        links_of[link.to].push(index);
    }
    links_of
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
