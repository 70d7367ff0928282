//! What holds for every network: it reads back as it was written, in every format as far as that can carry it.

use std::time::Duration;

use model::network::{
    Direction, Format, Jitter, Link, Loss, Network, Node, NodeKind, Path, Probability, QueueLimit, Ratio, Site, limits,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use units::{Bytes, Marks, Rate};

fn nanos(most: Duration) -> impl Strategy<Value = Duration> {
    let most = most.as_nanos() as u64;
    prop_oneof![Just(0), 0..=most, (0..=most / 1_000_000).prop_map(|ms| ms * 1_000_000)].prop_map(Duration::from_nanos)
}

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), Just(1.0), 1e-9..=1.0, Just(1e-5)].prop_map(|p| Probability::new(p).unwrap())
}

fn chance() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(1.0), 1e-9..=1.0, Just(1e-5)].prop_map(|p| Probability::new(p).unwrap())
}

fn loss() -> impl Strategy<Value = Loss> {
    let bursts = (chance(), chance(), probability(), probability())
        .prop_map(|(to_bad, to_good, in_good, in_bad)| Loss::Bursts { to_bad, to_good, in_good, in_bad });
    prop_oneof![Just(Loss::None), chance().prop_map(Loss::Random), bursts]
}

fn limit(least: u64) -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (least..=limits::QUEUE_BYTES_MAX.get()).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
        (1..=limits::QUEUE_PACKETS_MAX).prop_map(QueueLimit::Packets),
        (1..=limits::QUEUE_TIME_MAX.as_nanos() as u64).prop_map(|ns| QueueLimit::Time(Duration::from_nanos(ns))),
    ]
}

/// Boxed, as the types of strategies within strategies take the stack of a test thread.
fn direction() -> BoxedStrategy<Direction> {
    let rate = limits::RATE.start().bps()..=limits::RATE.end().bps();
    let rate = prop_oneof![rate, Just(1_000_000_000)].prop_map(Rate::from_bps);
    let waits = option::of((rate, option::of(limit(u64::from(*limits::MTU.end()))), option::of(limit(1))));
    let times = (nanos(limits::DELAY_MAX), nanos(limits::DELAY_MAX), any::<bool>());
    (waits, times, loss(), probability(), probability())
        .prop_map(|(waits, times, loss, duplicate, corrupt)| {
            let (delay, amount, reorder) = times;
            let jitter = Jitter { amount, reorder: reorder && !amount.is_zero() };
            let (rate, queue, ecn) = waits.map_or((None, None, None), |(rate, queue, ecn)| (Some(rate), queue, ecn));
            Direction { rate, delay, jitter, loss, queue, ecn, duplicate, corrupt }
        })
        .boxed()
}

/// A link between any two of `nodes` nodes; its name gets its number.
fn link(nodes: usize) -> BoxedStrategy<Link> {
    let risks = vec("[a-z0-9][A-Za-z0-9_.-]{0,10}", 0..3);
    let own = (limits::MTU, risks, limits::COST, option::of(1_u32..=1_000_000));
    let both = prop_oneof![direction().prop_map(|one| (one.clone(), one)), (direction(), direction())];
    (0..nodes, 1..nodes, both, own)
        .prop_map(move |(from, further, (forward, backward), (mtu, risks, cost, high))| Link {
            name: String::new(),
            from,
            to: (from + further) % nodes,
            forward,
            backward,
            mtu,
            risks,
            cost,
            high_water_ppm: high,
            bundle: None,
        })
        .boxed()
}

/// Degrees to five decimals, about a metre: all that maps say, and all that JSON keeps to the last bit.
fn position() -> impl Strategy<Value = (f64, f64)> {
    let degrees = |most: i32| (-most * 100_000..=most * 100_000).prop_map(|steps| f64::from(steps) / 1e5);
    (degrees(90), degrees(180))
}

/// Networks whose sites are in the order of the nodes that have them, and links of one bundle where they are parallel.
fn network() -> impl Strategy<Value = Network> {
    let node = (any::<bool>(), option::of((0_usize..4, option::of(position()))));
    let about = option::of("[ -~]{0,40}|\\PC{0,20}|a\"b\\\\c\nd\t\u{7f}");
    (vec(node, 2..6), about).prop_flat_map(|(nodes, about)| {
        let count = nodes.len();
        vec(link(count), 0..8).prop_map(move |links| {
            let mut network = Network { name: "random-1".to_owned(), about: about.clone(), ..Network::default() };
            for (index, (host, site)) in nodes.iter().enumerate() {
                let kind = if *host { NodeKind::Host } else { NodeKind::Router };
                let site = site.map(|(site, position)| match site < network.sites.len() {
                    true => site,
                    false => {
                        network.sites.push(Site { name: format!("site-{index}"), position });
                        network.sites.len() - 1
                    }
                });
                network.nodes.push(Node { name: format!("n{index}"), kind, site });
            }
            for (index, mut link) in links.clone().into_iter().enumerate() {
                link.name = format!("l.{index}");
                link.bundle =
                    (index % 3 == 0).then(|| format!("b_{}_{}", link.from.min(link.to), link.from.max(link.to)));
                let ends = |n: usize| network.nodes[n].kind == NodeKind::Host;
                if ends(link.from) && ends(link.to) {
                    let (from, to, name) = (link.from, link.to, format!("p{index}"));
                    let ip = |end: usize| std::net::IpAddr::from([10, end as u8, 0, index as u8]);
                    let addresses = (index % 2 == 0).then(|| [ip(from), ip(to)]);
                    // No two are the same, with addresses or without.
                    let dscp = (index % 3 > 0).then(|| 1 + index as u8 % 63);
                    let marks = Marks { dscp, flow_label: addresses.is_none().then_some(1 + index as u32) };
                    network.paths.push(Path { name, from, to, links: vec![index], addresses, marks });
                }
                network.links.push(link);
            }
            network
        })
    })
}

proptest! {
    #[test]
    fn toml_reads_back_equal(network in network()) {
        let text = network.to_toml();
        let read = Network::from_toml(&text, "written.toml");
        prop_assert_eq!(read.as_ref(), Ok(&network), "\n{}", text);
    }

    #[test]
    fn formats_of_others_carry_nodes_and_links(network in network()) {
        let carried = Network { about: None, paths: Vec::new(), ..network.clone() };
        for format in [Format::Containerlab, Format::GraphMl, Format::TopoHub] {
            let exported = network.export(format);
            let notes = exported.notes.join("\n");
            prop_assert_eq!(network.about.is_some(), notes.contains("`about` is left out"));
            prop_assert_eq!(!network.paths.is_empty(), notes.contains("named paths are left out"));
            let read = Network::import(format, &exported.text, "written");
            let read = read.map(|imported| imported.network);
            prop_assert_eq!(read.as_ref(), Ok(&carried), "\n{}", exported.text);
        }
    }

    #[test]
    fn a_scaled_network_is_still_one(network in network(), numerator in 1_u64..1_000_000, denominator in 1_u64..1_000_000) {
        let scaled = network.scaled(Ratio::new(numerator, denominator).unwrap());
        prop_assert_eq!(Network::from_toml(&scaled.to_toml(), "scaled"), Ok(scaled));
    }

    #[test]
    fn anything_is_read_or_refused(text in "\\PC{0,200}|[a-z\\[\\]{}<>\"=:\n -]{0,200}") {
        for format in [Format::Toml, Format::Containerlab, Format::GraphMl, Format::TopoHub] {
            if let Err(error) = Network::import(format, &text, "any") {
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
    }

    #[test]
    fn the_cheapest_path_is_as_cheap_as_any(network in network()) {
        for to in 0..network.nodes.len() {
            let costs = costs_to(&network, to);
            for (from, cost) in costs.iter().enumerate() {
                let path = network.cheapest_path(from, to);
                prop_assert_eq!(path.is_some(), cost.is_some());
                let Some(path) = path else { continue };
                let mut at = from;
                for &link in &path {
                    prop_assert!(at == from || network.nodes[at].kind == NodeKind::Router);
                    at = network.far_end(link, at);
                }
                prop_assert_eq!(at, to);
                let sum: u64 = path.iter().map(|link| u64::from(network.links[*link].cost)).sum();
                prop_assert_eq!(Some(sum), *cost);
            }
        }
    }
}

/// By relaxing every link until nothing changes (Bellman and Ford).
fn costs_to(network: &Network, to: usize) -> Vec<Option<u64>> {
    let mut costs = vec![None; network.nodes.len()];
    costs[to] = Some(0);
    for _ in 0..network.nodes.len() {
        for link in &network.links {
            for (near, far) in [(link.from, link.to), (link.to, link.from)] {
                let through: Option<u64> =
                    costs[far].filter(|_| far == to || network.nodes[far].kind == NodeKind::Router);
                let cost = through.map(|cost| cost + u64::from(link.cost));
                costs[near] = [costs[near], cost].into_iter().flatten().min();
            }
        }
    }
    costs
}
