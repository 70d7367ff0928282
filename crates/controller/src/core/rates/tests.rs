//! What the planner is asked with.

use ledger::{Moment, Usage};
use model::network::Network;

use super::*;

/// Two pairs of hosts over one link of 8 Gb/s.
fn network() -> Network {
    let node = |kind: &str, name: &str| format!("[[{kind}]]\nname = \"{name}\"\n");
    let link = |name: &str, ends: [&str; 2], gbps: u64| {
        format!("[[link]]\nname = \"{name}\"\nends = {ends:?}\nrate = \"{gbps} Gb/s\"\n")
    };
    let nodes = ["a1", "a2", "b1", "b2"].map(|name| node("host", name)).concat();
    let routers = ["ra", "rb"].map(|name| node("router", name)).concat();
    let ends = [("a1", "ra"), ("a2", "ra"), ("b1", "rb"), ("b2", "rb")];
    let ends: String = ends.iter().map(|(host, to)| link(&format!("e{host}"), [host, to], 100)).collect();
    let text = format!("name = \"sea\"\n{nodes}{routers}{ends}{}", link("ocean", ["ra", "rb"], 8));
    Network::from_toml(&text, "sea").expect("a network")
}

/// What two sessions of classes with weights 3 and 1 get, Mb/s; the second class has this line more.
fn rates(top: &str, more: &str, state: &State, now: Moment, urgent: bool) -> [u64; 2] {
    let network = network();
    let text = format!("{top}\n[[class]]\nname = \"cms\"\nweight = 3\n{more}\n[[class]]\nname = \"atlas\"\n");
    let shares = Shares::from_toml(&text, "shares", &network).expect("shares");
    let shares = used_shares(&shares, state, nanos(now));
    let node = |name: &str| network.node(name).expect("it is there");
    let asked = |session: u64, class: usize, n: &str, urgent: bool| Asked {
        session,
        leg: (session, 0),
        class,
        from: node(&format!("a{n}")),
        to: node(&format!("b{n}")),
        urgent,
        most_bps: None,
        bytes: None,
        path: None,
    };
    // Beside the first session, another of its class that is never urgent; without urgency it is one of the other class.
    let sessions = [asked(1, 0, "1", urgent), asked(2, usize::from(!urgent), "2", false)];
    let down = BTreeSet::new();
    let situation =
        Situation { network: &network, shares: &shares, down: &down, limits: &[], booked: &[], sessions: &sessions };
    let rates = Rates::of(&situation).expect("rates");
    [1, 2].map(|session| rates.sessions[&session].rate_bps / 1_000_000)
}

#[test]
fn weights_are_those_of_the_file_unless_it_says_that_usage_counts() {
    let mut state = State::default();
    let now = Moment(1_800_000_000_000);
    let usage = Usage { recent_bytes: 1 << 50, as_of: now, ..Usage::default() };
    state.usage.insert("cms".to_owned(), usage);
    assert_eq!(rates("", "", &state, now, false), [6_000, 2_000], "3 to 1, whatever moved");
    // What was used counts: 3/4 of 2^(1 − 4/3) to 2, each of its own weight.
    let [cms, atlas] = rates("half_life = \"7d\"", "", &state, now, false);
    assert!(cms < 5_000 && atlas > 3_000 && cms + atlas >= 7_999, "{cms} {atlas}");
    let of_file = rates("now = 2026-03-01T00:00:00Z", "used = \"1 PB\"", &State::default(), now, false);
    assert_eq!(of_file, [cms, atlas], "what the file itself says that was used counts too");
}

#[test]
fn a_budget_for_urgent_work_runs_down_and_comes_back() {
    let mut state = State::default();
    let day = |n: u64| Moment(1_800_000_000_000 + n * 86_400_000);
    let budget = "urgent = \"30 TB\"";
    let urgent = |state: &State, now| rates("", budget, state, now, true);
    assert_eq!(urgent(&state, day(0)), [7_111, 888], "eight times the weight");
    let transfer = |state: &mut State, at: Moment, bytes: u64| {
        state.urgent.entry("cms".to_owned()).or_default().add(at, bytes);
    };
    transfer(&mut state, day(0), 31_000_000_000_000);
    assert_eq!(urgent(&state, day(0)), [4_000, 4_000], "nothing is left");
    assert_eq!(urgent(&state, day(0).after_ms(1)), [4_000, 4_000], "what was overdrawn has to come back first");
    assert_eq!(urgent(&state, day(2)), [7_111, 888], "2 TB are back");
}
