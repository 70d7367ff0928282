//! Networks made by hand, and their routing tables walked hop by hop, as the lines for `ip` say.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::network::{Direction, Link, LinkIndex, Network, Node, NodeIndex, NodeKind, Path};
use sys::netlink::rule::Rule;
use units::Marks;

use crate::plan::Plan;

/// A network of links `name: from to cost`; names of hosts begin with `h`, all others are routers.
pub(super) fn network(links: &[(&str, &str, &str, u32)]) -> Network {
    let mut network = Network::default();
    for (name, from, to, cost) in links {
        let [from, to] = [from, to].map(|name| {
            let known = network.nodes.iter().position(|node| node.name == *name);
            known.unwrap_or_else(|| {
                let kind = if name.starts_with('h') { NodeKind::Host } else { NodeKind::Router };
                network.nodes.push(Node { name: (*name).to_owned(), kind, site: None });
                network.nodes.len() - 1
            })
        });
        network.links.push(Link {
            name: (*name).to_owned(),
            from,
            to,
            forward: Direction::default(),
            backward: Direction::default(),
            mtu: 1500,
            risks: Vec::new(),
            cost: *cost,
            high_water_ppm: None,
            bundle: None,
        });
    }
    network
}

/// Adds a path over links by name, from the node named first.
pub(super) fn add_path(network: &mut Network, name: &str, from: &str, to: &str, links: &[&str]) {
    let node = |name: &str| network.nodes.iter().position(|node| node.name == name).unwrap();
    let link = |name: &&str| network.links.iter().position(|link| link.name == *name).unwrap();
    let path = Path {
        name: name.to_owned(),
        from: node(from),
        to: node(to),
        links: links.iter().map(link).collect(),
        addresses: None,
        marks: Marks::NONE,
    };
    network.paths.push(path);
}

/// What a kernel would know of one node after its commands.
#[derive(Default)]
struct Table {
    /// With the device and the bits of the prefix.
    addresses: Vec<(IpAddr, String, u8)>,
    /// Gateway, device and source, by table and destination.
    routes: BTreeMap<(Option<u32>, IpAddr), (IpAddr, String, IpAddr)>,
}

/// All tables of a plan.
pub(super) struct Walker<'a> {
    plan: &'a Plan,
    tables: Vec<Table>,
}

/// How a packet went.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) links: Vec<LinkIndex>,
    pub(super) source: IpAddr,
}

impl<'a> Walker<'a> {
    pub(super) fn new(plan: &'a Plan) -> Walker<'a> {
        Walker { plan, tables: plan.nodes.iter().map(|node| Table::of(&node.commands)).collect() }
    }

    /// The way of a packet between nodes; none if a node on it has no route. Loops are failures.
    pub(super) fn walk(&self, from: NodeIndex, to: IpAddr) -> Option<Walk> {
        self.walk_with(from, to, |_| None)
    }

    /// The same of a packet from an address with marks: at each node the rules are asked before the main table.
    pub(super) fn walk_marked(&self, from: NodeIndex, source: IpAddr, to: IpAddr, marks: Marks) -> Option<Walk> {
        self.walk_with(from, to, |at| {
            let fits = |rule: &&Rule| {
                let ends =
                    [rule.from, rule.to] == [source, to].map(|ip| Some((ip, if ip.is_ipv4() { 32 } else { 128 })));
                let has = |wanted: Option<u32>, has| wanted.is_none() || wanted == has;
                let dscp = |marks: Option<u8>| marks.map(u32::from);
                ends && has(dscp(rule.dscp), dscp(marks.dscp)) && has(rule.flow_label, marks.flow_label)
            };
            self.plan.nodes[at].rules.iter().filter(fits).min_by_key(|rule| rule.priority).map(|rule| rule.table)
        })
    }

    fn walk_with(&self, from: NodeIndex, to: IpAddr, table: impl Fn(NodeIndex) -> Option<u32>) -> Option<Walk> {
        let (mut at, mut links, mut source) = (from, Vec::new(), None);
        while !self.tables[at].has(to) {
            assert!(links.len() < self.plan.nodes.len(), "{to} from {from} goes in circles: {links:?}");
            let forwards = ("net/ipv4/ip_forward".to_owned(), "1".to_owned());
            assert!(at == from || self.plan.nodes[at].sysctls.contains(&forwards), "{at} does not forward");
            let (gateway, device, own) = self.tables[at].route(table(at), to)?;
            let is_out = |link: &LinkIndex| {
                self.end(*link, at).is_some_and(|end| self.plan.links[*link].ends[end].device == device)
            };
            let link = (0..self.plan.links.len()).find(is_out).expect("a device of the plan");
            let far = &self.plan.links[link].ends[1 - self.end(link, at).unwrap()];
            assert!(far.address.iter().any(|address| address == gateway), "{gateway} is not beyond {device} at {at}");
            assert!(self.tables[at].has(own), "{own} is not an address of {at}");
            source = source.or(Some(own));
            links.push(link);
            at = far.node;
        }
        Some(Walk { links, source: source.unwrap_or(to) })
    }

    /// Which end of a link a node is.
    fn end(&self, link: LinkIndex, node: NodeIndex) -> Option<usize> {
        self.plan.links[link].ends.iter().position(|end| end.node == node)
    }
}

impl Table {
    fn of(commands: &[String]) -> Table {
        let mut table = Table::default();
        for line in commands {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["addr", "add", address, "dev", device] | ["addr", "add", address, "dev", device, "nodad"] => {
                    let (address, bits) = address.split_once('/').unwrap();
                    table.addresses.push((address.parse().unwrap(), device.to_owned(), bits.parse().unwrap()));
                }
                ["route", "add", to, "via", gateway, "dev", device, "src", source, ref rest @ ..] => {
                    let number = match rest {
                        ["table", number] => Some(number.parse().unwrap()),
                        rest => rest.is_empty().then_some(()).map_or_else(|| panic!("{line}"), |()| None),
                    };
                    let route = (gateway.parse().unwrap(), device.to_owned(), source.parse().unwrap());
                    let double = table.routes.insert((number, to.parse().unwrap()), route);
                    assert_eq!(double, None, "{line}");
                }
                ["link", "set", "dev", ..] => {}
                _ => panic!("an unknown command: {line}"),
            }
        }
        table
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, ..)| *own == address)
    }

    /// Gateway, device and source for an address: a route of its own, or that of a subnet.
    fn route(&self, table: Option<u32>, to: IpAddr) -> Option<(IpAddr, String, IpAddr)> {
        let on_subnet =
            |(own, device, bits): &(IpAddr, String, u8)| in_subnet(to, *own, *bits).then(|| (to, device.clone(), *own));
        // What is in no table of a rule is looked for in the main one.
        let found = self.routes.get(&(table, to)).or_else(|| self.routes.get(&(None, to)));
        found.cloned().or_else(|| self.addresses.iter().find_map(on_subnet))
    }
}

fn in_subnet(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
        _ => false,
    }
}
