//! The networks that come along are what they say.

use std::collections::BTreeSet;
use std::time::Duration;

use model::network::{Network, NodeKind, Ratio, shipped};
use units::Rate;

#[test]
fn every_file_is_shipped_and_read() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies");
    let files: BTreeSet<String> =
        std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<String> = shipped().iter().map(|(name, _)| format!("{name}.toml")).collect();
    assert_eq!(files, names);

    for (name, text) in shipped() {
        let network = Network::from_toml(text, &format!("{name}.toml")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(network.name, *name);
        assert!(text.starts_with("# "), "{name} does not say where its numbers come from");
        assert!(network.about.is_some(), "{name}");
        assert_eq!(Network::from_toml(&network.to_toml(), name).unwrap(), network, "{name}");

        let hosts: Vec<usize> = (0..network.nodes.len()).filter(|n| network.nodes[*n].kind == NodeKind::Host).collect();
        assert!(hosts.len() >= 2, "{name}");
        for &to in &hosts {
            let routes = network.routes_to(to, |_| true);
            assert!((0..network.nodes.len()).all(|n| n == to || routes[n].is_some()), "{name}: not all reach {to}");
        }
    }
}

fn read(wanted: &str) -> Network {
    let (name, text) = shipped().iter().find(|(name, _)| *name == wanted).unwrap();
    Network::from_toml(text, name).unwrap()
}

fn delay_of(network: &Network, links: &[usize]) -> Duration {
    links.iter().map(|link| network.links[*link].forward.delay).sum()
}

#[test]
fn the_pair_is_as_documented() {
    let pair = read("pair");
    let hosts: Vec<&str> = pair.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(hosts, ["a", "b"]);
    let [link] = &pair.links[..] else { panic!("one link") };
    assert_eq!((link.name.as_str(), &link.forward), ("ab", &link.backward));
    assert_eq!((link.forward.rate, link.forward.delay), (Some(Rate::gbps(1)), Duration::from_millis(50)));
}

#[test]
fn the_atlantic_is_crossed_in_five_ways() {
    let network = read("transatlantic");
    let (caltech, cern) = (network.node("caltech").unwrap(), network.node("cern").unwrap());
    let crossings = ["ana-1", "ana-2", "ana-3", "amitie", "dunant"];
    for crossing in crossings {
        let path = network.paths.iter().find(|path| path.name == crossing).unwrap();
        assert_eq!((path.from, path.to), (caltech, cern));
        assert!(path.links.contains(&network.link(crossing).unwrap()), "{crossing}");
        let delay = delay_of(&network, &path.links);
        // Round trips between Caltech and CERN are 140 to 160 ms.
        assert!((60..80).contains(&delay.as_millis()), "{crossing}: {delay:?}");
    }
    assert_eq!(network.paths.len(), crossings.len());
    assert_eq!(network.links_named("ana").unwrap().len(), 3);

    // The cost of each link is its delay in units of 0.1 ms.
    for link in &network.links {
        let delay = link.forward.delay.as_micros() as f64 / 100.0;
        assert!((f64::from(link.cost) - delay).abs() <= 1.0, "{}: cost {}, delay {delay}", link.name, link.cost);
    }
}

#[test]
fn the_loops_are_as_long_as_they_were() {
    let network = read("ultrascience");
    let delays: Vec<u128> = network.links.iter().map(|link| link.forward.delay.as_micros()).collect();
    assert_eq!(delays, [1, 11_040, 52_046, 67_817]);
    assert!(network.links.iter().all(|link| link.forward.rate == Some(Rate::gbps(10))));
    assert_eq!(network.cheapest_path(0, 1), Some(vec![0]));
}

#[test]
fn known_networks_have_their_size() {
    for (name, routers, links) in [("abilene", 11, 14), ("geant", 40, 61), ("triangle", 3, 3)] {
        let network = read(name);
        assert_eq!(network.nodes.iter().filter(|node| node.kind == NodeKind::Router).count(), routers, "{name}");
        assert_eq!(network.links.iter().filter(|link| link.forward.rate.is_some()).count(), links, "{name}");
    }
}

#[test]
fn a_scaled_network_has_the_same_delays() {
    let network = read("transatlantic");
    let scaled = network.scaled("1/100".parse::<Ratio>().unwrap());
    for (link, full) in scaled.links.iter().zip(&network.links) {
        assert_eq!(link.forward.delay, full.forward.delay);
        assert_eq!(link.forward.rate.unwrap().saturating_mul(100), full.forward.rate.unwrap());
    }
}
