//! Which paths there are, and in which order.

use super::*;

/// Two hosts, three ways across, each with an address; the third shares a duct with the first.
const NETWORK: &str = r#"
name = "sea"
hosts = ["a", "b"]
routers = ["ra", "rb"]
[[link]]
name = "ea"
ends = ["a", "ra"]
rate = "40 Gb/s"
[[link]]
name = "north"
ends = ["ra", "rb"]
rate = "10 Gb/s"
risks = ["duct"]
[[link]]
name = "south"
ends = ["rb", "ra"]
rate = "8 Gb/s"
cost = 20
[[link]]
name = "middle"
ends = ["ra", "rb"]
rate = "10 Gb/s"
cost = 30
risks = ["duct"]
[[link]]
name = "eb"
ends = ["rb", "b"]
rate = "40 Gb/s"
[[path]]
name = "n"
from = "a"
to = "b"
links = ["ea", "north", "eb"]
addresses = ["10.0.0.1", "10.0.1.1"]
[[path]]
name = "s"
from = "b"
to = "a"
links = ["eb", "south", "ea"]
addresses = ["10.0.1.2", "10.0.0.2"]
[[path]]
name = "m"
from = "a"
to = "b"
links = ["ea", "middle", "eb"]
addresses = ["10.0.0.3", "10.0.1.3"]
[[path]]
name = "without-addresses"
from = "a"
to = "b"
links = ["ea", "north", "eb"]
"#;

fn network() -> Network {
    Network::from_toml(NETWORK, "n.toml").expect("it is right")
}

#[test]
fn paths_with_addresses_are_taken_and_the_usual_one_if_it_is_none_of_them() {
    let network = network();
    let mut known = Known::of(&network);
    let found = between(&mut known, &network, [1, 0]);
    let routes: Vec<Route> = found.into_iter().map(|(route, _)| route).collect();
    assert_eq!(routes, [Route::Named(0), Route::Named(1), Route::Named(2)], "the usual one is the first of them");
    assert_eq!(known.bound.len(), 6);
    let mut dearer = network.clone();
    dearer.paths.remove(0);
    let mut known = Known::of(&dearer);
    let found = between(&mut known, &dearer, [0, 1]);
    assert_eq!(found[2], (Route::Usual(0, 1), vec![0, 1, 4]));
    assert_eq!(Route::Usual(0, 1).name(&dearer), "the usual path");
}

#[test]
fn the_widest_goes_first_and_then_what_fails_with_it_least() {
    let network = network();
    let mut known = Known::of(&network);
    let mut order = |on: &[(LinkIndex, u64)]| {
        let all = between(&mut known, &network, [0, 1]);
        rank(&network, all, 0, &Load { on: on.iter().copied().collect(), ..Load::default() })
    };
    let [n, s, m] = [0, 1, 2].map(Route::Named);
    assert_eq!(order(&[]), [n, s, m], "the cheaper of those that are as wide; the other is in the same duct");
    // With a session on it the next takes the other one, and south after two.
    assert_eq!(order(&[(1, 1)]), [m, s, n]);
    assert_eq!(order(&[(1, 1), (3, 1)]), [s, n, m]);
    // A limit from outside on both north and middle.
    let all = between(&mut known, &network, [0, 1]);
    let mut load = Load::default();
    [(1, 7_000_000_000), (3, 6_000_000_000)].into_iter().for_each(|(link, bps)| load.limit(link, None, bps));
    assert_eq!(rank(&network, all.clone(), 0, &load), [s, n, m]);
    // A limit on one way is none for sessions that go the other way; with one on both the lower counts.
    let (north, way) = directed(&network, &known.links(&network, n).expect("links"), 0).expect("it leads there")[1];
    assert_eq!(north, 1);
    let mut load = Load::default();
    load.limit(north, Some(way), 1_000_000_000);
    assert_eq!(rank(&network, all.clone(), 0, &load).last(), Some(&n));
    assert_eq!(rank(&network, all.clone(), 1, &load), [n, s, m]);
    load.limit(north, None, 7_000_000_000);
    let limits = |load: &Load| load.limits.values().copied().collect::<BTreeSet<u64>>();
    assert_eq!(limits(&load), [1_000_000_000, 7_000_000_000].into());
    load.limit(north, None, 500_000_000);
    assert_eq!(limits(&load), [500_000_000].into());
}

#[test]
fn links_are_gone_from_either_end() {
    let network = network();
    let there = directed(&network, &[0, 2, 4], 0).expect("it leads there");
    assert_eq!(there, [(0, Way::Forward), (2, Way::Backward), (4, Way::Forward)]);
    let back = directed(&network, &[0, 2, 4], 1).expect("it leads back");
    assert_eq!(back, [(4, Way::Backward), (2, Way::Forward), (0, Way::Backward)]);
    assert_eq!(directed(&network, &[0, 4], 0), None);
}
