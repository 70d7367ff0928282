//! Plans of small networks, and walks along their routes.

mod walk;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use model::network::{Jitter, Loss, Network, NodeIndex, NodeKind, Path, Probability, QueueLimit};
use proptest::prelude::*;
use units::{Marks, Rate};

use super::{Plan, PlanError};
use walk::{Walk, Walker, add_path, network};

fn plan(network: &Network) -> Plan {
    Plan::new(network, "t").unwrap()
}

fn pair() -> Network {
    network(&[("ab", "ha", "hb", 10)])
}

fn dumbbell() -> Network {
    network(&[
        ("h1-left", "h1", "left", 10),
        ("h2-left", "h2", "left", 10),
        ("waist", "left", "right", 10),
        ("h3-right", "h3", "right", 10),
        ("h4-right", "right", "h4", 10),
    ])
}

/// Three members between two routers, a path over each.
fn members() -> Network {
    let mut network = network(&[
        ("m2", "west", "east", 10),
        ("m1", "west", "east", 10),
        ("m3", "west", "east", 5),
        ("in", "h-in", "west", 10),
        ("out", "h-out", "east", 10),
        ("other", "h-other", "east", 10),
    ]);
    for member in ["m1", "m2", "m3"] {
        add_path(&mut network, &format!("by-{member}"), "h-in", "h-out", &["in", member, "out"]);
    }
    network
}

/// A host with links to two routers, a third and a host behind them, and a link between the hosts.
fn two_links() -> Network {
    let mut network = network(&[
        ("up", "h-two", "r1", 10),
        ("down", "r2", "h-two", 10),
        ("r1-r3", "r1", "r3", 10),
        ("r2-r3", "r2", "r3", 100),
        ("last", "r3", "h-far", 10),
        ("direct", "h-two", "h-far", 1000),
    ]);
    add_path(&mut network, "low", "h-far", "h-two", &["last", "r2-r3", "down"]);
    add_path(&mut network, "high", "h-two", "h-far", &["up", "r1-r3", "last"]);
    add_path(&mut network, "straight", "h-two", "h-far", &["direct"]);
    network
}

fn all() -> [Network; 4] {
    [pair(), dumbbell(), members(), two_links()]
}

/// The addresses of a host, beside those that nobody but its neighbours is told.
fn addresses(plan: &Plan, node: NodeIndex) -> Vec<IpAddr> {
    let of_node = &plan.nodes[node];
    let ends = plan.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == node);
    let all = [of_node.address].into_iter().chain(of_node.path_addresses.iter().map(|end| end.address));
    all.chain(ends.map(|end| end.address)).flat_map(super::Address::iter).collect()
}

/// Every node reaches every address of every host, every other node's own, and both ends of every path along it.
fn everything_is_reached(network: &Network) {
    let plan = plan(network);
    let walker = Walker::new(&plan);
    for from in 0..network.nodes.len() {
        for (to, node) in network.nodes.iter().enumerate() {
            let own: Vec<IpAddr> = plan.nodes[to].address.iter().collect();
            let reached = if node.kind == NodeKind::Host { addresses(&plan, to) } else { own.clone() };
            for address in reached {
                let walk = walker.walk(from, address).unwrap_or_else(|| panic!("{from} does not reach {address}"));
                let from_own = plan.nodes[from].address.iter().any(|own| own == walk.source);
                assert!(from_own || from == to || !own.contains(&address), "{from} is {} to {address}", walk.source);
            }
        }
    }
    paths_are_followed(network, &plan);
}

fn paths_are_followed(network: &Network, plan: &Plan) {
    let walker = Walker::new(plan);
    for path in &network.paths {
        let ends = [path.from, path.to].map(|node| {
            let ends = &plan.nodes[node].path_addresses;
            ends.iter().find(|end| end.path == path.name).expect("an address for each end").address
        });
        let back: Vec<usize> = path.links.iter().rev().copied().collect();
        for (near, far) in ends[0].iter().zip(ends[1].iter()) {
            let there = walker.walk_marked(path.from, near, far, path.marks);
            assert_eq!(there, Some(Walk { links: path.links.clone(), source: near }));
            let home = walker.walk_marked(path.to, far, near, path.marks);
            assert_eq!(home, Some(Walk { links: back.clone(), source: far }));
            if path.marks.is_none() {
                assert_eq!(walker.walk(path.from, far), there, "nothing else is looked at");
            }
        }
    }
}

#[test]
fn everybody_reaches_everybody() {
    all().iter().for_each(everything_is_reached);
}

#[test]
fn of_ways_that_cost_the_same_the_shorter_then_the_first_by_name_is_taken() {
    let network = network(&[
        ("m2", "a", "b", 10),
        ("m1", "a", "b", 10),
        ("m3", "a", "b", 11),
        ("b-z", "b", "z", 10),
        ("b-x", "b", "x", 10),
        ("x-end", "x", "end", 10),
        ("z-end", "z", "end", 10),
        ("long", "a", "c", 15),
        ("way", "c", "end", 15),
    ]);
    let plan = plan(&network);
    let walker = Walker::new(&plan);
    let names = |from: &str, to: &str| -> Vec<&str> {
        let [from, to] = [from, to].map(|name| network.nodes.iter().position(|node| node.name == name).unwrap());
        let walk = walker.walk(from, plan.nodes[to].address.v4.into()).unwrap();
        walk.links.iter().map(|link| network.links[*link].name.as_str()).collect()
    };
    assert_eq!(names("a", "b"), ["m1"]);
    assert_eq!(names("b", "end"), ["b-x", "x-end"]);
    assert_eq!(names("end", "b"), ["x-end", "b-x"]);
    assert_eq!(names("a", "end"), ["long", "way"]);
}

/// The link that an address is on is the one that it is reached by, though another is cheaper.
#[test]
fn links_of_a_host_are_reached_by_their_addresses() {
    let network = two_links();
    let plan = plan(&network);
    let walker = Walker::new(&plan);
    let far = network.nodes.iter().position(|node| node.name == "h-far").unwrap();
    for (name, links) in [("up", vec![4, 2, 0]), ("down", vec![4, 3, 1]), ("direct", vec![5])] {
        let link = plan.links.iter().find(|link| link.name == name).unwrap();
        let end = link.ends.iter().find(|end| end.node == 0).unwrap();
        for address in end.address.iter() {
            assert_eq!(walker.walk(far, address).unwrap().links, links, "{name}");
        }
    }
    assert_eq!(walker.walk(far, plan.nodes[0].address.v4.into()).unwrap().links, [4, 2, 0]);
}

/// Distances (cost, hops) of every node to another, by as many rounds as there are nodes (Bellman 1958).
fn distances(network: &Network, to: NodeIndex, usable: impl Fn(usize) -> bool) -> Vec<Option<(u64, u32)>> {
    let mut found = vec![None; network.nodes.len()];
    found[to] = Some((0, 0));
    for _ in &network.nodes {
        for (_, link) in network.links.iter().enumerate().filter(|(index, _)| usable(*index)) {
            for (near, far) in [(link.from, link.to), (link.to, link.from)] {
                let passes = far == to || network.nodes[far].kind == NodeKind::Router;
                let by = found[far].filter(|_| passes).map(|(cost, hops)| (cost + u64::from(link.cost), hops + 1));
                found[near] = [found[near], by].into_iter().flatten().min();
            }
        }
    }
    found
}

/// A network of up to 8 nodes, joined by chance, and walks through it that may be paths.
fn networks() -> impl Strategy<Value = Network> {
    const NAMES: [&str; 8] = ["h0", "h1", "h2", "r3", "r4", "r5", "r6", "r7"];
    let link = (0usize..8, 0usize..8, 1u32..4, prop::bool::weighted(0.2));
    let steps = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..6), 0..6);
    (prop::collection::vec(link, 1..16), steps).prop_map(|(links, walks)| {
        let names: Vec<String> = (0..links.len()).map(|index| format!("link{index}")).collect();
        let ends = links.iter().zip(&names).filter(|((from, to, ..), _)| from != to);
        let mut network =
            network(&ends.map(|((a, b, cost, _), name)| (&**name, NAMES[*a], NAMES[*b], *cost)).collect::<Vec<_>>());
        for (link, (.., narrow)) in network.links.iter_mut().zip(&links) {
            link.mtu = if *narrow { 576 } else { 1500 };
        }
        for (index, steps) in walks.iter().enumerate().filter(|_| !network.links.is_empty()) {
            let first = steps[0].index(network.links.len());
            let from = network.links[first].from;
            let (mut nodes, mut links) = (vec![from, network.links[first].to], vec![first]);
            for step in &steps[1..] {
                let at = nodes[nodes.len() - 1];
                let ways = network.links.iter().enumerate().filter_map(|(index, link)| {
                    let other = [(link.from, link.to), (link.to, link.from)].into_iter().find(|ends| ends.0 == at)?.1;
                    (!nodes.contains(&other)).then_some((index, other))
                });
                let ways: Vec<_> = ways.filter(|_| network.nodes[at].kind == NodeKind::Router).collect();
                if !ways.is_empty() {
                    let (link, other) = ways[step.index(ways.len())];
                    links.push(link);
                    nodes.push(other);
                }
            }
            let (name, to) = (format!("p{index}"), nodes[nodes.len() - 1]);
            let marks = Marks { dscp: (index % 3 > 0).then_some(1 + index as u8), flow_label: None };
            let path = Path { name, from, to, links, addresses: None, marks };
            network.paths.push(path);
        }
        network
    })
}

proptest! {
    #[test]
    fn ways_are_cheapest_and_end(network in networks()) {
        let plan = plan(&network);
        let walker = Walker::new(&plan);
        for to in 0..network.nodes.len() {
            for address in addresses(&plan, to) {
                for from in 0..network.nodes.len() {
                    // That it comes to an end is asserted there.
                    walker.walk(from, address);
                }
            }
            for address in plan.nodes[to].address.iter() {
                let usable = |link: usize| address.is_ipv4() || network.links[link].mtu >= 1280;
                for (from, distance) in distances(&network, to, usable).into_iter().enumerate() {
                    let walked = walker.walk(from, address).map(|walk| {
                        let cost = walk.links.iter().map(|link| u64::from(network.links[*link].cost)).sum::<u64>();
                        (cost, walk.links.len() as u32)
                    });
                    prop_assert_eq!(walked, distance);
                }
            }
        }
        paths_are_followed(&network, &plan);
    }
}

#[test]
fn paths_that_only_marks_tell_apart_share_their_addresses() {
    let mut network = two_links();
    network.name = "two".to_owned();
    let marks = |dscp, flow_label| Marks { dscp, flow_label };
    // `low` from far to two, `high` and `straight` back.
    network.paths[0].marks = marks(Some(18), None);
    network.paths[1].marks = marks(Some(18), Some(0x12345));
    network.paths[2].marks = marks(None, Some(7));
    let plan = plan(&network);
    let walker = Walker::new(&plan);
    let node = |name: &str| network.nodes.iter().position(|node| node.name == name).unwrap();
    let (two, far) = (node("h-two"), node("h-far"));
    let address = |node: NodeIndex| {
        let all: BTreeSet<_> = plan.nodes[node].path_addresses.iter().map(|end| end.address).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    };
    let (near, beyond) = (address(two), address(far));
    let v6 = |marks| walker.walk_marked(two, near.v6.unwrap().into(), beyond.v6.unwrap().into(), marks).unwrap().links;
    let back = |path: usize| -> Vec<usize> { network.paths[path].links.iter().rev().copied().collect() };
    assert_eq!(v6(marks(Some(18), Some(9))), back(0), "a label of nobody's: the code point is looked at");
    assert_eq!(v6(marks(Some(18), Some(0x12345))), network.paths[1].links, "two marks go before one");
    assert_eq!(v6(marks(Some(1), Some(7))), network.paths[2].links);
    let usual = walker.walk(two, plan.nodes[far].address.v4.into()).unwrap().links;
    assert_eq!(v6(Marks::NONE), usual);
    let v4 = walker.walk_marked(two, near.v4.into(), beyond.v4.into(), marks(Some(18), Some(0x12345)));
    assert_eq!(v4.unwrap().links, back(0), "IPv4 has no labels");

    let addressed = super::addressed(&network);
    assert!(addressed.paths[0].addresses.unwrap()[0].is_ipv4() && addressed.paths[1].addresses.unwrap()[0].is_ipv6());
    assert_eq!(Network::from_toml(&addressed.to_toml(), "again.toml").unwrap().paths, addressed.paths);
    assert!(plan.etc_hosts().lines().filter(|line| line.ends_with("h-two.high")).count() == 2);
    network.links[5].mtu = 576;
    let refused = Plan::new(&network, "t").unwrap_err().to_string();
    assert!(refused.starts_with("path `high`: it has a flow label"), "{refused}");
}

#[test]
fn lines_for_a_pair() {
    let plan = plan(&pair());
    let [a, b] = &plan.nodes[..] else { panic!("two nodes") };
    assert_eq!([&*a.namespace, &*b.namespace], ["twin.t.ha", "twin.t.hb"]);
    assert!(!plan.links[0].emulated);
    assert_eq!(
        a.commands,
        [
            "link set dev lo up",
            "addr add 10.128.0.1/32 dev lo",
            "addr add fd4c:6f6e:6768:1::1/128 dev lo nodad",
            "link set dev ab mtu 1500",
            "link set dev ab up",
            "addr add 10.192.0.1/30 dev ab",
            "addr add fd4c:6f6e:6768:3::1/126 dev ab nodad",
            "route add 10.128.0.2 via 10.192.0.2 dev ab src 10.128.0.1",
            "route add fd4c:6f6e:6768:1::2 via fd4c:6f6e:6768:3::2 dev ab src fd4c:6f6e:6768:1::1",
        ]
    );
}

#[test]
fn a_device_of_the_emulator_has_room_and_says_nothing() {
    let mut network = pair();
    network.links[0].backward.delay = Duration::from_millis(50);
    let plan = plan(&network);
    assert!(plan.links[0].emulated);
    assert_eq!(
        plan.nodes[1].commands[3..6],
        ["link set dev ab mtu 1500", "link set dev ab txqueuelen 20000", "link set dev ab addrgenmode none"]
    );
}

#[test]
fn a_narrow_link_is_without_ipv6() {
    let mut network = members();
    network.links[0].mtu = 1279;
    network.links[1].mtu = 1280;
    let plan = plan(&network);
    assert!(plan.links[0].ends.iter().all(|end| end.address.v6.is_none()));
    assert!(plan.links[1].ends.iter().all(|end| end.address.v6.is_some()));
    let v6 = plan.nodes[2].path_addresses.iter().map(|end| (&*end.path, end.address.v6.is_some()));
    assert_eq!(v6.collect::<Vec<_>>(), [("by-m1", true), ("by-m2", false), ("by-m3", true)]);
    paths_are_followed(&network, &plan);
}

#[test]
fn anything_that_befalls_packets_needs_the_emulator() {
    let edits: [fn(&mut model::network::Direction); 8] = [
        |link| link.rate = Some(Rate::mbps(1)),
        |link| link.delay = Duration::from_nanos(1),
        |link| link.jitter = Jitter { amount: Duration::from_nanos(1), reorder: false },
        |link| link.loss = Loss::Random(Probability::ONE),
        |link| link.queue = Some(QueueLimit::Packets(1)),
        |link| link.ecn = Some(QueueLimit::Packets(1)),
        |link| link.duplicate = Probability::ONE,
        |link| link.corrupt = Probability::ONE,
    ];
    for (index, edit) in edits.iter().enumerate() {
        for forward in [true, false] {
            let mut network = pair();
            let link = &mut network.links[0];
            edit(if forward { &mut link.forward } else { &mut link.backward });
            assert!(plan(&network).links[0].emulated, "{index}");
        }
    }
}

#[test]
fn hosts_do_not_forward() {
    let plan = plan(&dumbbell());
    for node in &plan.nodes {
        for file in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            let value = node.sysctls.iter().find(|(name, _)| name == file).map(|(_, value)| &**value);
            assert_eq!(value, Some(if node.name.starts_with('h') { "0" } else { "1" }), "{}", node.name);
        }
    }
}

#[test]
fn devices_have_names_that_devices_can_have() {
    let names = [
        "lo",
        "all",
        "default",
        "l0",
        "l7",
        "a/b",
        "a b",
        "fifteen-letters",
        "sixteen--letters",
        "-x",
        "l",
        "läng",
        "x",
    ];
    let links: Vec<_> = names.iter().map(|name| (*name, "ha", "hb", 1)).collect();
    let plan = plan(&network(&links));
    let devices: Vec<&str> = plan.links.iter().map(|link| &*link.ends[0].device).collect();
    assert_eq!(devices, ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "fifteen-letters", "l8", "l9", "l10", "l11", "x"]);
    assert_eq!(devices.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn hosts_file() {
    let mut network = pair();
    add_path(&mut network, "red", "ha", "hb", &["ab"]);
    let expected = "127.0.0.1 localhost\n::1 localhost\n\
        10.128.0.1 ha\nfd4c:6f6e:6768:1::1 ha\n10.160.0.1 ha.red\nfd4c:6f6e:6768:2::1 ha.red\n\
        10.128.0.2 hb\nfd4c:6f6e:6768:1::2 hb\n10.160.0.2 hb.red\nfd4c:6f6e:6768:2::2 hb.red\n";
    assert_eq!(plan(&network).etc_hosts(), expected);
}

#[test]
fn names_that_are_no_file_are_refused() {
    let message = |network: &Network, twin: &str| Plan::new(network, twin).unwrap_err().to_string();
    let long = "x".repeat(33);
    let rule = "write at most 32 letters, digits, `-`, `_` and `.`, a letter or a digit first";
    for bad in ["", "../t", "a b", "-t", ".t", "zürich", &long] {
        assert_eq!(message(&pair(), bad), format!("twin `{bad}`: {rule}"));
        let mut network = pair();
        network.nodes[1].name = bad.to_owned();
        assert_eq!(message(&network, "t"), format!("node `{bad}`: {rule}"));
    }
    let mut network = pair();
    add_path(&mut network, "a/b", "ha", "hb", &["ab"]);
    assert_eq!(message(&network, "t"), format!("path `a/b`: {rule}"));
}

#[test]
fn paths_that_lead_nowhere_are_refused() {
    for (from, to, links, why) in [
        ("h-in", "h-out", &[][..], "its links do not lead to its other end"),
        ("h-in", "h-out", &["in", "m1"], "its links do not lead to its other end"),
        ("h-in", "h-out", &["m1", "out"], "its links do not follow each other from its one end"),
        ("h-in", "h-out", &["in", "m1", "m2", "m3", "out"], "it comes twice to the same node"),
        ("h-in", "h-other", &["in", "m1", "out", "back", "other"], "it comes twice to the same node"),
        ("h-in", "far", &["in", "m1", "out", "beyond"], "it goes through a host, and hosts do not forward"),
    ] {
        let mut network = members();
        let more = walk::network(&[("back", "h-out", "east", 1), ("beyond", "h-out", "far", 1)]).links;
        network.nodes.push(model::network::Node { name: "far".to_owned(), kind: NodeKind::Router, site: None });
        for (mut link, (from, to)) in more.into_iter().zip([(3, 1), (3, 5)]) {
            (link.from, link.to) = (from, to);
            network.links.push(link);
        }
        assert_eq!([&*network.nodes[1].name, &*network.nodes[3].name], ["east", "h-out"]);
        add_path(&mut network, "bad", from, to, links);
        let refused = PlanError::Path { path: "bad".to_owned(), why };
        assert_eq!(Plan::new(&network, "t"), Err(refused), "{links:?}");
    }
}

#[test]
fn as_many_nodes_as_there_may_be() {
    let mut network = pair();
    network.links.clear();
    network.nodes =
        (0..1001).map(|index| model::network::Node { name: format!("n{index}"), ..network.nodes[0].clone() }).collect();
    let refused = PlanError::TooMany { what: "nodes", count: 1001, max: 1000 };
    assert_eq!(Plan::new(&network, "t"), Err(refused));
    network.nodes.pop();
    assert_eq!(plan(&network).nodes[999].address.v4.to_string(), "10.128.3.232");
}

#[test]
fn addresses_stay_apart_to_the_last() {
    let last = [
        super::addresses::node(999).v4,
        super::addresses::PathEnds::of(&members()).address(0, 0).v4,
        super::addresses::link(0, &pair().links[0], 0).v4,
        super::addresses::link(65_535, &pair().links[0], 1).v4,
    ];
    assert!(last.is_sorted());
    assert_eq!(last[3].to_string(), "10.195.255.254");
}
