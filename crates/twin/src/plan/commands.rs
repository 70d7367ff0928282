//! What is to be said to a namespace.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::network::{Network, NodeIndex, NodeKind};

use super::routes::Route;
use super::{Address, LinkEnd, LinkPlan, PathAddress, addresses};

/// Packets that wait in a TUN device for the emulator to read them: enough that the device drops none, since the link's
/// own queue is what drops. The kernel may take the emulator's processor away for 50 ms, in which 200,000 packets a second are 10,000.
pub(crate) const TUN_QUEUE: u32 = 20_000;

/// Files beneath `/proc/sys` and their values.
pub(super) fn sysctls(network: &Network, kind: NodeKind) -> Vec<(String, String)> {
    let forward = if kind == NodeKind::Router { "1" } else { "0" };
    let settings = [
        ("net/ipv4/ip_forward", forward),
        ("net/ipv6/conf/all/forwarding", forward),
        ("net/ipv6/conf/default/forwarding", forward),
        // The way back may be another than the way there.
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Containers are often without IPv6.
        ("net/ipv6/conf/all/disable_ipv6", "0"),
        ("net/ipv6/conf/default/disable_ipv6", "0"),
        // Nobody advertises anything here: nothing but what hosts send is to be seen on links.
        ("net/ipv6/conf/default/accept_ra", "0"),
        ("net/ipv6/conf/default/autoconf", "0"),
        ("net/ipv6/conf/default/router_solicitations", "0"),
        ("net/ipv6/conf/default/accept_dad", "0"),
        // As a data transfer node is set up (fasterdata.es.net): a host with the kernel's 6 MB would fill 0.5 Gb/s at
        // 100 ms, and say nothing of the network.
        ("net/ipv4/tcp_rmem", "4096 131072 1073741824"),
        ("net/ipv4/tcp_wmem", "4096 65536 1073741824"),
        // What one test finds out must not change the next.
        ("net/ipv4/tcp_no_metrics_save", "1"),
    ];
    // Answers carry the marks of questions, so that they come back along a path that is bound by them.
    let reflect = [("net/ipv4/tcp_reflect_tos", "1"), ("net/ipv6/flowlabel_reflect", "1")];
    let is_marked = network.paths.iter().any(|path| !path.marks.is_none());
    let all = settings.into_iter().chain(reflect.into_iter().filter(|_| is_marked));
    all.map(|(file, value)| (file.to_owned(), value.to_owned())).collect()
}

/// Lines for `ip -batch -`: addresses and devices, then routes.
pub(super) fn lines(links: &[LinkPlan], node: NodeIndex, ends: &[PathAddress], routes: &[Route]) -> Vec<String> {
    let mut lines = vec!["link set dev lo up".to_owned()];
    let mut own = vec![addresses::node(node)];
    own.extend(ends.iter().map(|end| end.address));
    // Paths that differ in marks only have the same.
    let mut seen = BTreeSet::new();
    own.retain(|address| seen.insert(*address));
    for address in own {
        lines.extend(add_address(address, (32, 128), "lo"));
    }
    for link in links {
        for end in link.ends.iter().filter(|end| end.node == node) {
            lines.extend(set_up(link, end));
        }
    }
    lines.extend(routes.iter().map(|route| add_route(&links[route.link], node, route)));
    lines
}

fn set_up(link: &LinkPlan, end: &LinkEnd) -> Vec<String> {
    let (device, mtu) = (&end.device, link.mtu);
    let mut lines = vec![format!("link set dev {device} mtu {mtu}")];
    if link.emulated {
        lines.push(format!("link set dev {device} txqueuelen {TUN_QUEUE}"));
    }
    if link.emulated && end.address.v6.is_some() {
        // Without an address of the link itself the kernel says nothing by itself on it. A veth needs one to find its
        // neighbour.
        lines.push(format!("link set dev {device} addrgenmode none"));
    }
    lines.push(format!("link set dev {device} up"));
    lines.extend(add_address(end.address, (30, 126), device));
    lines
}

fn add_address(address: Address, (v4, v6): (u8, u8), device: &str) -> impl Iterator<Item = String> {
    address.iter().map(move |address| match address {
        IpAddr::V4(address) => format!("addr add {address}/{v4} dev {device}"),
        // An address that is still looked for elsewhere cannot be used, and there is no elsewhere.
        IpAddr::V6(address) => format!("addr add {address}/{v6} dev {device} nodad"),
    })
}

fn add_route(link: &LinkPlan, node: NodeIndex, route: &Route) -> String {
    let [from, to] = &link.ends;
    let (end, far) = if from.node == node { (from, to.address) } else { (to, from.address) };
    let gateway = match route.to {
        IpAddr::V4(_) => IpAddr::V4(far.v4),
        IpAddr::V6(_) => IpAddr::V6(far.v6.expect("routes of IPv6 use only links that carry it")),
    };
    let Route { to, source, table, .. } = route;
    let table = table.map_or_else(String::new, |table| format!(" table {table}"));
    format!("route add {to} via {gateway} dev {} src {source}{table}", end.device)
}
