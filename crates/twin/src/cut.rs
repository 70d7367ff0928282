//! Cuts of links that are a veth pair: what comes is dropped at both ends before anybody sees it.
//!
//! A filter at the ingress of each end, and not a device that is set down: the sender is told nothing, carrier and routes
//! stay. A drop on the way out would be told to the sender's TCP. What Ethernet needs to know who is beyond goes on: else
//! the kernel would find the neighbour gone after some seconds, and say so to the programs. A TUN link has no neighbours.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use model::network::LinkIndex;

use crate::plan::{LinkEnd, Plan};
use crate::tc::tc;

/// Classic BPF, over the frame with its Ethernet header: passes ARP and the neighbour discovery of IPv6 (ICMPv6 types 133
/// to 137), drops all else. It needs `cls_bpf` and no action module, and kernels that have no other classifier have it.
const DROP: &str = "10,\
    40 0 0 12,\
    21 7 0 2054,\
    21 0 5 34525,\
    48 0 0 20,\
    21 0 3 58,\
    48 0 0 54,\
    53 0 1 133,\
    37 0 1 137,\
    6 0 0 2,\
    6 0 0 4294967295";

/// Cuts a link without an emulator, or heals it. Either may be so already.
///
/// # Errors
/// When the kernel cannot filter what comes; the link is as it was then.
pub(crate) fn set_up(plan: &Plan, link: LinkIndex, up: bool) -> Result<()> {
    let planned = &plan.links[link];
    if up {
        return planned.ends.iter().try_for_each(|end| heal(plan, end));
    }
    let cut = planned.ends.iter().try_for_each(|end| cut(plan, end));
    if cut.is_err() {
        // That it cannot be cut is what is told.
        let _ = planned.ends.iter().try_for_each(|end| heal(plan, end));
    }
    cut.with_context(|| {
        let name = &planned.name;
        format!("the kernel cannot cut the veth of link `{name}` (it needs sch_ingress and cls_bpf): give `{name}` a delay in the network")
    })
}

/// Of the links without an emulator among `links`, those that are cut.
///
/// # Errors
/// When `tc` cannot be run, or a namespace is gone.
pub(crate) fn cut_links(plan: &Plan, links: &[LinkIndex]) -> Result<BTreeSet<LinkIndex>> {
    let mut cut = BTreeSet::new();
    let nodes: BTreeSet<usize> = links.iter().map(|&link| plan.links[link].ends[0].node).collect();
    for node in nodes {
        // All devices of a node at once.
        let filtered = filtered(plan, node)?;
        cut.extend(links.iter().copied().filter(|&link| {
            let end = &plan.links[link].ends[0];
            end.node == node && filtered.contains(&end.device)
        }));
    }
    Ok(cut)
}

fn cut(plan: &Plan, end: &LinkEnd) -> Result<()> {
    let namespace = &plan.nodes[end.node].namespace;
    let device = &end.device;
    tc(namespace, &["qdisc", "replace", "dev", device, "ingress"])?;
    let filter = ["filter", "replace", "dev", device, "ingress", "pref", "1", "handle", "1", "protocol", "all"];
    tc(namespace, &[&filter[..], &["bpf", "bytecode", DROP, "direct-action"]].concat()).map(drop)
}

fn heal(plan: &Plan, end: &LinkEnd) -> Result<()> {
    if !filtered(plan, end.node)?.contains(&end.device) {
        return Ok(());
    }
    let namespace = &plan.nodes[end.node].namespace;
    let healed = tc(namespace, &["qdisc", "del", "dev", &end.device, "ingress"]).map(drop);
    healed.with_context(|| format!("cannot heal the device {} in {namespace}", end.device))
}

/// Devices of a node whose ingress is filtered.
fn filtered(plan: &Plan, node: usize) -> Result<BTreeSet<String>> {
    let namespace = &plan.nodes[node].namespace;
    let shown = tc(namespace, &["qdisc", "show"]).with_context(|| format!("cannot look at {namespace}"))?;
    Ok(ingress_devices(&shown).map(str::to_owned).collect())
}

/// A line is `qdisc ingress ffff: dev NAME parent ffff:fff1 …`.
fn ingress_devices(shown: &str) -> impl Iterator<Item = &str> {
    shown.lines().filter_map(|line| {
        let mut words = line.strip_prefix("qdisc ingress ")?.split_whitespace();
        words.find(|word| *word == "dev").and_then(|_| words.next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ingress_is_a_cut() {
        let shown = "qdisc noqueue 0: dev lo root refcnt 2 \n\
                     qdisc noqueue 0: dev ab root refcnt 2 \n\
                     qdisc ingress ffff: dev ab parent ffff:fff1 ---------------- \n\
                     qdisc clsact ffff: dev l3 parent ffff:fff1 \n";
        assert_eq!(ingress_devices(shown).collect::<Vec<_>>(), ["ab"]);
        assert_eq!(ingress_devices("").count(), 0);
    }

    #[test]
    fn the_filter_is_as_long_as_it_says() {
        let (count, rest) = DROP.split_once(',').unwrap();
        assert_eq!(count.parse(), Ok(rest.split(',').count()));
    }
}
