//! Questions to a network: what is called so, what is beside it, which way leads there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::names::Unknown;
use super::{Link, LinkIndex, Network, NodeIndex, NodeKind};

/// Something of a network that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A host or router.
    Node(NodeIndex),
    /// A link, or all members of a bundle.
    Links(Vec<LinkIndex>),
    /// A shared risk: the links that it concerns.
    Risk(Vec<LinkIndex>),
}

impl Network {
    /// The node of that name.
    ///
    /// # Errors
    /// Names the one that was probably meant.
    pub fn node(&self, name: &str) -> Result<NodeIndex, Unknown> {
        find("node", name, self.nodes.iter().map(|node| node.name.as_str()))
    }

    /// The link of that name.
    ///
    /// # Errors
    /// Names the one that was probably meant.
    pub fn link(&self, name: &str) -> Result<LinkIndex, Unknown> {
        find("link", name, self.links.iter().map(|link| link.name.as_str()))
    }

    /// The links of that name: the one, or all members of the bundle.
    ///
    /// # Errors
    /// Names the one that was probably meant.
    pub fn links_named(&self, name: &str) -> Result<Vec<LinkIndex>, Unknown> {
        let bundle = self.links.iter().enumerate().filter(|(_, link)| link.bundle.as_deref() == Some(name));
        let members: Vec<LinkIndex> = bundle.map(|(index, _)| index).collect();
        if !members.is_empty() {
            return Ok(members);
        }
        let bundles = self.links.iter().filter_map(|link| link.bundle.as_deref());
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).chain(bundles).collect();
        self.link(name).map(|link| vec![link]).map_err(|_| Unknown::new("link", name, names.into_iter()))
    }

    /// Everything of that name, one of each kind at most: a node, links (one, a bundle's members), a shared risk as the links
    /// that it concerns.
    ///
    /// # Errors
    /// Names the one that was probably meant.
    pub fn things_named(&self, name: &str) -> Result<Vec<Thing>, Unknown> {
        let at_risk = |link: &Link| link.risks.iter().any(|risk| risk == name);
        let at_risk = self.links.iter().enumerate().filter(|(_, link)| at_risk(link)).map(|(index, _)| index);
        let at_risk: Vec<LinkIndex> = at_risk.collect();
        let node = self.node(name).ok().map(Thing::Node);
        let links = self.links_named(name).ok().map(Thing::Links);
        let risk = (!at_risk.is_empty()).then_some(Thing::Risk(at_risk));
        let things: Vec<Thing> = [node, links, risk].into_iter().flatten().collect();
        if things.is_empty() {
            let nodes = self.nodes.iter().map(|node| node.name.as_str());
            let links = self
                .links
                .iter()
                .flat_map(|link| [&link.name].into_iter().chain(&link.bundle).chain(&link.risks).map(String::as_str));
            return Err(Unknown::new("node, link or risk", name, nodes.chain(links)));
        }
        Ok(things)
    }

    /// The links of a node, in the order of the file. Takes a look at every link.
    pub fn links_of(&self, node: NodeIndex) -> impl Iterator<Item = LinkIndex> + '_ {
        let of =
            move |(index, link): (LinkIndex, &super::Link)| (link.from == node || link.to == node).then_some(index);
        self.links.iter().enumerate().filter_map(of)
    }

    /// The node at the other end of a link, seen from `node`, which must be one of its ends.
    #[must_use]
    pub fn far_end(&self, link: LinkIndex, node: NodeIndex) -> NodeIndex {
        let link = &self.links[link];
        if link.from == node { link.to } else { link.from }
    }

    /// The cheapest path, as links in turn: by cost, then by fewest hops, then at each hop by the name of the next node and
    /// of the link. Hosts do not forward.
    ///
    /// `None` if no path leads there; empty from a node to itself.
    #[must_use]
    pub fn cheapest_path(&self, from: NodeIndex, to: NodeIndex) -> Option<Vec<LinkIndex>> {
        let next = self.routes_to(to, |_| true);
        let mut path = Vec::new();
        let mut at = from;
        // Every step is nearer by a hop, or cheaper, so no node comes twice.
        while at != to {
            let link = next[at]?;
            path.push(link);
            at = self.far_end(link, at);
        }
        Some(path)
    }

    /// For each node the link that its cheapest path to `to` over usable links begins with, as [`Network::cheapest_path`]
    /// goes; `None` at `to` and where no path leads there.
    ///
    /// One search answers for all nodes, so these are the routes to one destination, and agree from hop to hop.
    #[must_use]
    pub fn routes_to(&self, to: NodeIndex, usable: impl Fn(&Link) -> bool) -> Vec<Option<LinkIndex>> {
        let beside = self.neighbours(usable);
        let distances = self.distances(&beside, to);
        let first = |node: NodeIndex| {
            let ways = beside[node].iter().filter_map(|&link| {
                let other = self.far_end(link, node);
                let (cost, hops) = distances[other].filter(|_| self.forwards(other, to))?;
                let names = (&self.nodes[other].name, &self.links[link].name);
                Some((cost + u64::from(self.links[link].cost), hops, names, link))
            });
            ways.min().map(|(.., link)| link).filter(|_| node != to)
        };
        (0..self.nodes.len()).map(first).collect()
    }

    /// Cost and hops from every node to `to` (Dijkstra 1959).
    fn distances(&self, beside: &[Vec<LinkIndex>], to: NodeIndex) -> Vec<Option<(u64, u32)>> {
        let mut found: Vec<Option<(u64, u32)>> = vec![None; self.nodes.len()];
        // Holds at most one entry for each end of a link.
        let mut nearest = BinaryHeap::from([Reverse(((0, 0), to))]);
        while let Some(Reverse(((cost, hops), node))) = nearest.pop() {
            if found[node].is_some() {
                continue;
            }
            found[node] = Some((cost, hops));
            if !self.forwards(node, to) {
                continue;
            }
            for &link in &beside[node] {
                let other = self.far_end(link, node);
                if found[other].is_none() {
                    nearest.push(Reverse(((cost + u64::from(self.links[link].cost), hops + 1), other)));
                }
            }
        }
        found
    }

    /// Whether a path to `to` may go on from this node.
    fn forwards(&self, node: NodeIndex, to: NodeIndex) -> bool {
        node == to || self.nodes[node].kind == NodeKind::Router
    }

    fn neighbours(&self, usable: impl Fn(&Link) -> bool) -> Vec<Vec<LinkIndex>> {
        let mut beside = vec![Vec::new(); self.nodes.len()];
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| usable(link)) {
            beside[link.from].push(index);
            beside[link.to].push(index);
        }
        beside
    }
}

fn find<'a>(kind: &'static str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<usize, Unknown> {
    names.clone().position(|known| known == name).ok_or_else(|| Unknown::new(kind, name, names))
}
