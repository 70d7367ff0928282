use model::network::Network;

use super::*;

const NETWORK: &str = r#"
name = "two"

[[host]]
name = "a"
[[host]]
name = "a2"
[[router]]
name = "r"
[[host]]
name = "b"

[[link]]
name = "ar"
ends = ["a", "r"]
rate = "10 Gb/s"
[[link]]
name = "a2r"
ends = ["a2", "r"]
rate = "10 Gb/s"
[[link]]
name = "rb"
ends = ["r", "b"]
rate = "10 Gb/s"
high_water = "80 %"
"#;

const SHARES: &str = r#"
[[class]]
name = "lhc"
weight = 3
[[class]]
name = "rest"
weight = 1
"#;

fn files() -> (Network, Shares) {
    let network = Network::from_toml(NETWORK, "two.toml").expect("a network");
    let shares = Shares::from_toml(SHARES, "shares.toml", &network).expect("shares");
    (network, shares)
}

fn asked(session: u64, leg: u64, class: usize, from: usize) -> Asked {
    let (network, _) = files();
    let node = |name: &str| network.nodes.iter().position(|node| node.name == name).expect("it is one");
    let (from, to) = (node(["a", "a2"][from]), node("b"));
    Asked { session, leg: (leg, 1), class, from, to, urgent: false, most_bps: None, bytes: None, path: None }
}

fn rates(sessions: &[Asked], limits: &[(Limited, Rate)]) -> BTreeMap<u64, u64> {
    let (network, shares) = files();
    let situation = Situation { network: &network, shares: &shares, down: &BTreeSet::new(), limits, sessions };
    let rates = Rates::of(&situation).expect("a problem");
    rates.sessions.iter().map(|(session, rated)| (*session, rated.rate_bps / 1_000_000)).collect()
}

#[test]
fn classes_share_up_to_the_mark() {
    assert_eq!(rates(&[asked(1, 1, 0, 0), asked(2, 2, 1, 1)], &[]), [(1, 6000), (2, 2000)].into());
}

#[test]
fn a_leg_counts_once_however_many_sessions_it_has() {
    let sessions = [asked(1, 1, 0, 0), asked(2, 1, 0, 1), asked(3, 2, 0, 0)];
    assert_eq!(rates(&sessions, &[]), [(1, 2000), (2, 2000), (3, 4000)].into());
    // What one of its sessions cannot use goes to the other.
    let slow = Asked { most_bps: Some(500_000_000), ..asked(2, 1, 0, 1) };
    assert_eq!(rates(&[asked(1, 1, 0, 0), slow, asked(3, 2, 0, 0)], &[]), [(1, 3500), (2, 500), (3, 4000)].into());
}

#[test]
fn limits_from_outside_lower_what_there_is() {
    let sessions = [asked(1, 1, 0, 0), asked(2, 2, 1, 1)];
    let limited = |of| rates(&sessions, &[(of, Rate::gbps(1))]);
    assert_eq!(limited(Limited::Link(2)), [(1, 600), (2, 200)].into(), "the mark is a share of what is left");
    assert_eq!(limited(Limited::Class(0)), [(1, 1000), (2, 7000)].into());
    assert_eq!(limited(Limited::Host(asked(0, 0, 0, 0).from)), [(1, 1000), (2, 7000)].into());
    assert_eq!(limited(Limited::Host(asked(0, 0, 0, 0).to)), [(1, 750), (2, 250)].into());
    let more = rates(&sessions, &[(Limited::Class(0), Rate::gbps(100))]);
    assert_eq!(more, rates(&sessions, &[]), "a limit raises nothing");
}

#[test]
fn a_cut_leaves_a_session_without_a_path() {
    let (network, shares) = files();
    let sessions = [asked(1, 1, 0, 0)];
    let situation =
        Situation { network: &network, shares: &shares, down: &[0].into(), limits: &[], sessions: &sessions };
    assert_eq!(Rates::of(&situation).expect("a problem").sessions[&1], Rated::default());
}

#[test]
fn marks_of_every_kind_are_lowered() {
    let (network, _) = files();
    for (most, together) in [("share = \"50 %\"", true), ("share = \"50 %\"", false), ("rate = \"5 Gb/s\"", true)] {
        let text =
            format!("{SHARES}[[mark]]\nname = \"m\"\nlinks = [\"ar\", \"a2r\"]\n{most}\ntogether = {together}\n");
        let shares = Shares::from_toml(&text, "shares.toml", &network).expect("shares");
        let sessions = [asked(1, 1, 0, 0)];
        let limits = [(Limited::Mark(0), Rate::gbps(2))];
        let situation = Situation {
            network: &network,
            shares: &shares,
            down: &BTreeSet::new(),
            limits: &limits,
            sessions: &sessions,
        };
        let rates = Rates::of(&situation).expect("a problem");
        assert_eq!(rates.sessions[&1].rate_bps, 2_000_000_000, "{most} {together}");
    }
}
