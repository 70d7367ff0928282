//! What is to be said to a namespace.

use model::network::{Network, NodeIndex, NodeKind};

use super::routes::Route;
use super::{Address, LinkPlan, addresses};

/// Packets that wait in a TUN device for the emulator to read them: enough that the device drops none, since what is to be
/// dropped is dropped by the link's own queue.
const TUN_QUEUE: u32 = 10_000;

/// Files beneath `/proc/sys` and their values.
pub(super) fn sysctls(kind: NodeKind) -> Vec<(String, String)> {
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
    settings.map(|(file, value)| (file.to_owned(), value.to_owned())).to_vec()
}

/// Lines for `ip -batch -`: addresses first, then devices, then routes.
pub(super) fn lines(network: &Network, links: &[LinkPlan], node: NodeIndex, routes: &[Route]) -> Vec<String> {
    let mut lines = vec!["link set dev lo up".to_owned()];
    let own = std::iter::once(addresses::node(node));
    for address in own.chain(super::path_addresses(network, node).into_iter().map(|end| end.address)) {
        lines.extend(add_address(address, (32, 128), "lo"));
    }
    for (link, end) in links.iter().flat_map(|link| link.ends.iter().map(move |end| (link, end))) {
        if end.node == node {
            let (device, mtu) = (&end.device, link.mtu);
            let queue = if link.emulated { format!(" txqueuelen {TUN_QUEUE}") } else { String::new() };
            lines.push(format!("link set dev {device} mtu {mtu}{queue}"));
            if link.emulated {
                // Without an address of the link itself the kernel has nothing to say on it by its own. A veth needs
                // one to find its neighbour.
                lines.push(format!("link set dev {device} addrgenmode none"));
            }
            lines.push(format!("link set dev {device} up"));
            lines.extend(add_address(end.address, (30, 126), device));
        }
    }
    lines.extend(routes.iter().flat_map(|route| add_route(links, node, route)));
    lines
}

fn add_address(address: Address, (v4, v6): (u8, u8), device: &str) -> [String; 2] {
    [format!("addr add {}/{v4} dev {device}", address.v4), format!("addr add {}/{v6} dev {device} nodad", address.v6)]
}

fn add_route(links: &[LinkPlan], node: NodeIndex, route: &Route) -> [String; 2] {
    let [from, to] = &links[route.link].ends;
    let (end, gateway) = if from.node == node { (from, to.address) } else { (to, from.address) };
    let (device, to, source) = (&end.device, route.to, route.source);
    [
        format!("route add {}/32 via {} dev {device} src {}", to.v4, gateway.v4, source.v4),
        format!("route add {}/128 via {} dev {device} src {}", to.v6, gateway.v6, source.v6),
    ]
}
