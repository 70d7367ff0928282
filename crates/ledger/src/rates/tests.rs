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
    let situation =
        Situation { network: &network, shares: &shares, down: &BTreeSet::new(), limits, booked: &[], sessions };
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
    assert_eq!(limited(Limited::Link(2)), [(1, 750), (2, 250)].into());
    let above_the_mark = rates(&sessions, &[(Limited::Link(2), Rate::gbps(9))]);
    assert_eq!(above_the_mark, [(1, 6000), (2, 2000)].into(), "the lower of limit and mark counts");
    assert_eq!(limited(Limited::Class(0)), [(1, 1000), (2, 7000)].into());
    let closed = rates(&sessions, &[(Limited::Class(0), Rate::ZERO)]);
    assert_eq!(closed, [(1, 0), (2, 8000)].into(), "a class may have nothing for a time");
    assert_eq!(limited(Limited::Host(asked(0, 0, 0, 0).from)), [(1, 1000), (2, 7000)].into());
    assert_eq!(limited(Limited::Host(asked(0, 0, 0, 0).to)), [(1, 750), (2, 250)].into());
    let back = Asked { from: sessions[0].to, to: sessions[0].from, ..asked(3, 3, 0, 0) };
    let both_ways = rates(&[asked(1, 1, 0, 0), back], &[(Limited::Cores(sessions[0].from), Rate::gbps(1))]);
    assert_eq!(both_ways, [(1, 500), (3, 500)].into(), "what is sent and what is received together");
    let more = rates(&sessions, &[(Limited::Class(0), Rate::gbps(100))]);
    assert_eq!(more, rates(&sessions, &[]), "a limit raises nothing");
}

#[test]
fn a_limit_on_a_class_is_above_the_floors_of_those_in_it() {
    let (network, _) = files();
    let text = format!("{SHARES}[[class]]\nname = \"cms\"\nparent = \"lhc\"\nfloor = \"5 Gb/s\"\n");
    let shares = Shares::from_toml(&text, "shares.toml", &network).expect("shares");
    let limits = [(Limited::Class(0), Rate::gbps(1))];
    let (down, sessions) = (BTreeSet::new(), [asked(1, 1, 2, 0), asked(2, 2, 1, 1)]);
    let situation = Situation {
        network: &network,
        shares: &shares,
        down: &down,
        limits: &limits,
        booked: &[],
        sessions: &sessions,
    };
    let rates = Rates::of(&situation).expect("a problem").sessions;
    assert_eq!([1, 2].map(|session| rates[&session].rate_bps), [1_000_000_000, 7_000_000_000]);
}

#[test]
fn a_limit_on_one_way_lowers_that_and_beside_one_on_the_link_the_lower_counts() {
    let there = asked(1, 1, 0, 0);
    let back = Asked { from: there.to, to: there.from, ..asked(2, 2, 0, 0) };
    let limited = |limits: &[(Limited, u64)]| {
        let limits: Vec<_> = limits.iter().map(|(of, gbps)| (*of, Rate::gbps(*gbps))).collect();
        rates(&[there.clone(), back.clone()], &limits)
    };
    let forward = Limited::Way(2, Way::Forward);
    assert_eq!(limited(&[(forward, 1)]), [(1, 1000), (2, 8000)].into());
    assert_eq!(limited(&[(Limited::Way(2, Way::Backward), 1)]), [(1, 8000), (2, 1000)].into());
    assert_eq!(limited(&[(Limited::Link(2), 3), (forward, 1)]), [(1, 1000), (2, 3000)].into());
    assert_eq!(limited(&[(Limited::Link(2), 3), (forward, 5)]), [(1, 3000), (2, 3000)].into());
    // Both are told by their own names, to be raised by them.
    let (network, shares) = files();
    let limits = [(Limited::Link(2), Rate::gbps(3)), (forward, Rate::gbps(1))];
    let (down, sessions) = (BTreeSet::new(), [there]);
    let situation = Situation {
        network: &network,
        shares: &shares,
        down: &down,
        limits: &limits,
        booked: &[],
        sessions: &sessions,
    };
    let capacities = Rates::of(&situation).expect("a problem").capacities;
    let of = |way| limits_on("rb", way).map(|name| capacities.get(name.as_str()).copied());
    assert_eq!(of(Way::Forward), [Some(3_000_000_000), Some(1_000_000_000)]);
    assert_eq!(of(Way::Backward), [Some(3_000_000_000), None]);
}

#[test]
fn a_cut_leaves_a_session_without_a_path() {
    let (network, shares) = files();
    let sessions = [asked(1, 1, 0, 0)];
    let situation = Situation {
        network: &network,
        shares: &shares,
        down: &[0].into(),
        limits: &[],
        booked: &[],
        sessions: &sessions,
    };
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
            booked: &[],
            sessions: &sessions,
        };
        let rates = Rates::of(&situation).expect("a problem");
        assert_eq!(rates.sessions[&1].rate_bps, 2_000_000_000, "{most} {together}");
    }
}

const BOOKINGS: &str = r#"
[[booking]]
name = "reprocessing"
class = "production"
links = ["rb"]
from = "r"
rate = "3 Gb/s"
start = "2026-03-01T00:00:00Z"
end = "2026-03-01T06:00:00Z"

[[booking]]
name = "splice"
class = "maintenance"
links = ["rb"]
start = "2026-03-01T06:00:00Z"
end = "2026-03-01T07:00:00Z"

[[booking]]
name = "port"
resources = ["read"]
rate = "1.5 Gb/s"
start = "2026-03-02T00:00:00Z"
end = "2026-03-02T01:00:00Z"

[[grain]]
link = "rb"
rate = "2 Gb/s"

[[resource]]
name = "read"
node = "a"
way = "out"
rate = "5 Gb/s"
"#;

/// The first of March 2026, and so many seconds.
fn at(seconds: i64) -> units::Moment {
    let day: units::Utc = "2026-03-01T00:00:00Z".parse().expect("a moment");
    day.0 + seconds * 1_000_000_000
}

fn rates_at(seconds: i64, sessions: &[Asked]) -> (BTreeMap<u64, u64>, Vec<Left>) {
    let (network, shares) = files();
    let bookings = model::bookings::Bookings::from_toml(BOOKINGS, "bookings.toml", &network).expect("bookings");
    let left = Booked::of(&network, &shares, &bookings).at(at(seconds));
    let down = BTreeSet::new();
    let situation = Situation { network: &network, shares: &shares, down: &down, limits: &[], booked: &left, sessions };
    let rates = Rates::of(&situation).expect("a problem");
    (rates.sessions.iter().map(|(session, rated)| (*session, rated.rate_bps / 1_000_000)).collect(), left)
}

#[test]
fn bookings_leave_less_for_their_time() {
    let sessions = [asked(1, 1, 0, 0), asked(2, 2, 1, 1)];
    // 8 Gb/s up to the mark, of which 3 are booked, in steps of 2.
    let (during, left) = rates_at(3_600, &sessions);
    assert_eq!(during, [(1, 3000), (2, 1000)].into());
    let rb = left.iter().find(|left| left.name == "rb r→b beside bookings").expect("it is one");
    assert_eq!((rb.rate, rb.holds.len(), rb.holds[0].rate_bps), (Rate::gbps(4), 1, 4_000_000_000));
    assert_eq!((rb.holds[0].name.as_str(), rb.holds[0].window.end()), ("reprocessing", at(6 * 3600)));
    // It comes down a little before the begin, and not long before. The port limits the first session to 5 Gb/s at all times.
    assert_eq!(rates_at(-1, &sessions).0, during);
    assert_eq!(rates_at(-3, &sessions).0, [(1, 5000), (2, 3000)].into());
    // All of it is booked: nothing leads over it.
    assert_eq!(rates_at(6 * 3600, &sessions).0, [(1, 0), (2, 0)].into());
    assert_eq!(rates_at(7 * 3600, &sessions).0, [(1, 5000), (2, 3000)].into());
    assert_eq!(rates_at(86_400, &sessions).0, [(1, 3500), (2, 4500)].into());
}

#[test]
fn a_planning_is_due_when_bookings_begin_and_end() {
    let (network, shares) = files();
    let bookings = model::bookings::Bookings::from_toml(BOOKINGS, "bookings.toml", &network).expect("bookings");
    let booked = Booked::of(&network, &shares, &bookings);
    let mut now = at(-86_400);
    let mut changes = Vec::new();
    while let Some(next) = booked.change_after(now) {
        let before = booked.at(next - 1);
        assert_ne!(before, booked.at(next), "nothing changes at {next}");
        changes.push((next - at(0)) / 1_000_000_000);
        now = next;
    }
    assert_eq!(changes, [-2, 6 * 3600 - 2, 6 * 3600, 7 * 3600, 86_400 - 2, 86_400 + 3600]);
    assert_eq!(Booked::default().change_after(at(0)), None);
}

#[test]
fn a_link_without_a_rate_is_free_or_closed() {
    let text =
        NETWORK.replace("ends = [\"r\", \"b\"]\nrate = \"10 Gb/s\"\nhigh_water = \"80 %\"", "ends = [\"r\", \"b\"]");
    let network = Network::from_toml(&text, "two.toml").expect("a network");
    let shares = Shares::from_toml(SHARES, "shares.toml", &network).expect("shares");
    let bookings = model::bookings::Bookings::from_toml(BOOKINGS, "bookings.toml", &network).expect("bookings");
    let booked = Booked::of(&network, &shares, &bookings);
    let on_link = |seconds: i64| {
        booked
            .at(at(seconds))
            .into_iter()
            .filter(|left| left.way.is_some() && !left.holds.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(on_link(3_600), [], "3 Gb/s of what has no end");
    let closed = on_link(6 * 3600);
    assert!(closed.len() == 2 && closed.iter().all(|left| left.rate.is_zero()), "{closed:?}");
}
