//! Putting a network together, whatever it was written in: what is added is checked against what is there.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::error::{quoted, thing};
use super::names::{self, Unknown};
use super::{Direction, Link, Network, Node, NodeIndex, NodeKind, Path, QueueLimit, Site, limits};

pub(super) const REORDER_WITHOUT_JITTER: &str =
    "`reorder` without `jitter`: packets overtake by jitter, write for example `1 ms`";

#[derive(Debug, Default)]
pub(super) struct Builder {
    network: Network,
    sites: BTreeMap<String, usize>,
    nodes: BTreeMap<String, NodeIndex>,
    links: BTreeMap<String, usize>,
    /// The ends that each bundle's members join.
    bundles: BTreeMap<String, [NodeIndex; 2]>,
    paths: BTreeSet<String>,
}

impl Builder {
    pub(super) fn new(name: &str, about: Option<String>) -> Result<Builder, String> {
        names::check(name)?;
        if about.as_ref().is_some_and(|about| about.chars().count() > limits::ABOUT_MAX) {
            return Err(format!("`about` is longer than {} characters: make it a sentence", limits::ABOUT_MAX));
        }
        Ok(Builder { network: Network { name: name.to_owned(), about, ..Network::default() }, ..Builder::default() })
    }

    pub(super) fn finish(self) -> Result<Network, String> {
        if self.network.nodes.is_empty() {
            return Err("no host and no router: write for example `hosts = [\"a\", \"b\"]`".to_owned());
        }
        Ok(self.network)
    }

    pub(super) fn add_site(&mut self, name: &str, position: Option<(f64, f64)>) -> Result<usize, String> {
        room("sites", self.network.sites.len(), limits::SITES_MAX)?;
        names::check(name)?;
        if let Some((latitude, longitude)) = position {
            bounded("latitude", latitude, 90.0)?;
            bounded("longitude", longitude, 180.0)?;
        }
        let index = self.network.sites.len();
        fresh("site", self.sites.insert(name.to_owned(), index).is_none())?;
        self.network.sites.push(Site { name: name.to_owned(), position });
        Ok(index)
    }

    pub(super) fn find_site(&self, name: &str) -> Result<usize, Unknown> {
        self.sites.get(name).copied().ok_or_else(|| Unknown::new("site", name, keys(&self.sites)))
    }

    pub(super) fn add_node(&mut self, name: &str, kind: NodeKind, site: Option<usize>) -> Result<NodeIndex, String> {
        room("hosts and routers", self.network.nodes.len(), limits::NODES_MAX)?;
        names::check(name)?;
        let index = self.network.nodes.len();
        fresh("node", self.nodes.insert(name.to_owned(), index).is_none())?;
        self.network.nodes.push(Node { name: name.to_owned(), kind, site });
        Ok(index)
    }

    pub(super) fn find_node(&self, name: &str) -> Result<NodeIndex, Unknown> {
        self.nodes.get(name).copied().ok_or_else(|| Unknown::new("node", name, keys(&self.nodes)))
    }

    pub(super) fn find_host(&self, name: &str) -> Result<NodeIndex, String> {
        let node = self.find_node(name).map_err(|unknown| unknown.to_string())?;
        match self.network.nodes[node].kind {
            NodeKind::Host => Ok(node),
            NodeKind::Router => Err(format!("`{}` is a router: a path begins and ends at hosts", quoted(name))),
        }
    }

    /// The position of a node's site.
    pub(super) fn position(&self, node: NodeIndex) -> Result<(f64, f64), String> {
        let node = &self.network.nodes[node];
        let position = node.site.and_then(|site| self.network.sites[site].position);
        position.ok_or_else(|| {
            format!("{} has no place: give it a site with latitude and longitude", thing("node", &node.name))
        })
    }

    pub(super) fn add_link(&mut self, link: Link) -> Result<(), String> {
        room("links", self.network.links.len(), limits::LINKS_MAX)?;
        names::check(&link.name)?;
        if link.from == link.to {
            let node = &self.network.nodes[link.from].name;
            return Err(format!("both ends are `{node}`: a link joins two nodes"));
        }
        if link.risks.len() > limits::RISKS_MAX {
            return Err(format!("more than {} risks: name fewer", limits::RISKS_MAX));
        }
        link.risks.iter().try_for_each(|risk| names::check(risk))?;
        link.forward.check(link.mtu, |_| true)?;
        link.backward.check(link.mtu, |_| true)?;
        if let Some(bundle) = &link.bundle {
            names::check(bundle)?;
            let ends = [link.from.min(link.to), link.from.max(link.to)];
            if *self.bundles.entry(bundle.clone()).or_insert(ends) != ends {
                return Err(format!("bundle `{bundle}` joins other nodes: its members are parallel"));
            }
        }
        let of_bundle = [Some(&link.name), link.bundle.as_ref()].into_iter().flatten();
        for name in of_bundle.filter(|name| self.bundles.contains_key(*name)) {
            if *name == link.name || self.links.contains_key(name) {
                return Err(format!("`{name}` names a link and a bundle: call one of them otherwise"));
            }
        }
        fresh("link", self.links.insert(link.name.clone(), self.network.links.len()).is_none())?;
        self.network.links.push(link);
        Ok(())
    }

    pub(super) fn find_link(&self, name: &str) -> Result<usize, String> {
        if self.bundles.contains_key(name) {
            let mut members = self.network.links.iter().filter(|link| link.bundle.as_deref() == Some(name));
            let first = members.next().map_or_else(String::new, |link| format!(", such as `{}`", link.name));
            return Err(format!("`{name}` is a bundle: name one of its members{first}"));
        }
        let found = self.links.get(name).copied();
        found.ok_or_else(|| Unknown::new("link", name, keys(&self.links)).to_string())
    }

    pub(super) fn check_path_name(&self, name: &str) -> Result<(), String> {
        room("paths", self.network.paths.len(), limits::PATHS_MAX)?;
        names::check(name)?;
        fresh("path", !self.paths.contains(name))
    }

    /// The node to which `link` leads on from `at`, on a path to `to` that has been at `seen`.
    pub(super) fn step(&self, seen: &[NodeIndex], link: usize, to: NodeIndex) -> Result<NodeIndex, String> {
        let at = *seen.last().expect("a path begins at a node");
        let (name, here) = (&self.network.links[link].name, &self.network.nodes[at].name);
        let ends = &self.network.links[link];
        if ends.from != at && ends.to != at {
            let (from, end) = (&self.network.nodes[ends.from].name, &self.network.nodes[ends.to].name);
            return Err(format!(
                "link `{name}` joins `{from}` and `{end}`, but the path is at `{here}`: write its links in turn"
            ));
        }
        let next = self.network.far_end(link, at);
        let node = &self.network.nodes[next];
        if seen.contains(&next) {
            return Err(format!("link `{name}` leads back to `{}`: a path passes each node once", node.name));
        }
        if node.kind == NodeKind::Host && next != to {
            return Err(format!("link `{name}` leads to host `{}`: hosts do not forward", node.name));
        }
        Ok(next)
    }

    pub(super) fn add_path(&mut self, path: Path) -> Result<(), String> {
        self.check_path_name(&path.name)?;
        self.check_binding(&path)?;
        self.paths.insert(path.name.clone());
        self.network.paths.push(path);
        Ok(())
    }

    /// What binds a path can, each address is at one host, and no other path between the same hosts is bound by the same.
    fn check_binding(&self, path: &Path) -> Result<(), String> {
        check_ends(path)?;
        for other in self.network.paths.iter().filter(|other| other.is_bound() && path.is_bound()) {
            let at = |path: &Path| path.addresses.map(|[from, to]| [(path.from, from), (path.to, to)]);
            let (ours, theirs) = (at(path), at(other));
            let elsewhere =
                |(node, ip): &(NodeIndex, IpAddr)| theirs.iter().flatten().any(|(n, of)| of == ip && n != node);
            if let Some((_, ip)) = ours.iter().flatten().find(|end| elsewhere(end)) {
                return Err(format!("addresses: path `{}` has {ip} at another host", other.name));
            }
            let same_hosts = [[path.from, path.to], [path.to, path.from]].contains(&[other.from, other.to]);
            let same_addresses = match (&ours, &theirs) {
                (Some(ours), Some(theirs)) => ours.iter().all(|end| theirs.contains(end)),
                (None, None) => same_hosts,
                _ => false,
            };
            if same_addresses && path.marks == other.marks {
                let what = if path.marks.is_none() { "addresses" } else { "addresses, dscp, flow_label" };
                return Err(format!("{what}: path `{}` has the same: packets take one of them only", other.name));
            }
        }
        Ok(())
    }

    pub(super) fn node_name(&self, node: NodeIndex) -> &str {
        &self.network.nodes[node].name
    }
}

/// Packets can be between the addresses of a path, and carry its marks.
fn check_ends(path: &Path) -> Result<(), String> {
    let Some([near, far]) = path.addresses else { return Ok(()) };
    for ip in [near, far] {
        let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            return Err(format!("addresses: {ip} is not an address of a host"));
        }
    }
    if near == far || near.is_ipv4() != far.is_ipv4() {
        return Err(format!("addresses: {near} and {far}: write two of one family, that of each end"));
    }
    if near.is_ipv4() && path.marks.flow_label.is_some() {
        return Err(format!("flow_label: packets from {near} have none: write addresses of IPv6, or a dscp"));
    }
    Ok(())
}

fn keys(of: &BTreeMap<String, usize>) -> impl Iterator<Item = &str> {
    of.keys().map(String::as_str)
}

fn room(what: &str, have: usize, most: usize) -> Result<(), String> {
    if have < most { Ok(()) } else { Err(format!("more than {most} {what}: make the network smaller")) }
}

fn fresh(kind: &str, fresh: bool) -> Result<(), String> {
    if fresh { Ok(()) } else { Err(format!("another {kind} has that name: call one of them otherwise")) }
}

fn bounded(key: &str, degrees: f64, most: f64) -> Result<(), String> {
    if (-most..=most).contains(&degrees) {
        Ok(())
    } else {
        Err(format!("{key}: {degrees} is not within -{most} to {most}"))
    }
}

impl Direction {
    /// Whether a link of this MTU can be so, as far as `is_given` says that a key was written: what waits for a rate needs one,
    /// what overtakes needs jitter, and a queue that cannot hold a packet lets none through.
    pub(super) fn check(&self, mtu: u32, is_given: impl Fn(&str) -> bool) -> Result<(), String> {
        let waits = [("queue", self.queue.is_some()), ("ecn", self.ecn.is_some())];
        if let Some((key, _)) = waits.into_iter().find(|(key, is_set)| *is_set && is_given(key) && self.rate.is_none())
        {
            return Err(format!("`{key}` without `rate`: nothing waits there, give the link a rate"));
        }
        if is_given("reorder") && self.jitter.reorder && self.jitter.amount.is_zero() {
            return Err(REORDER_WITHOUT_JITTER.to_owned());
        }
        match self.queue {
            Some(QueueLimit::Bytes(bytes)) if bytes.get() < u64::from(mtu) => {
                Err(format!("a queue of {bytes:#} holds no packet of {mtu} bytes: write at least `{mtu} B`"))
            }
            _ => Ok(()),
        }
    }
}
