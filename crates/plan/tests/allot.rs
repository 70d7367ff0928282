//! Who gets what of networks in files: names to a problem and back, changes, and explanations acted upon.

#[path = "common/cases.rs"]
mod cases;
#[path = "common/rng.rs"]
mod rng;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use cases::each_case;
use model::network::Network;
use model::shares::Shares;
use plan::allot::{AllotError, Effect, Held, Last, LastPath, Of, Outcome, Remedy, Snapshot, changed};
use plan::difference::Hysteresis;
use plan::share::{FINE_BITS, Fine, ResourceId};
use rng::Rng;
use units::Rate;

/// Two hosts beside each other over two ways, one of them through `c`; and a host behind a link without a rate.
const NETWORK: &str = r#"
name = "two-ways"
[[host]]
name = "x"
[[router]]
name = "a"
[[router]]
name = "b"
[[router]]
name = "c"
[[host]]
name = "y"
[[host]]
name = "z"
[[link]]
name = "xa"
ends = ["x", "a"]
rate = "20 Gb/s"
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "10 Gb/s"
cost = 1
high_water = "80 %"
[[link]]
name = "ac"
ends = ["a", "c"]
rate = "6 Gb/s"
cost = 1
[[link]]
name = "cb"
ends = ["c", "b"]
rate = "10 Gb/s"
cost = 1
[[link]]
name = "by"
ends = ["b", "y"]
rate = "20 Gb/s"
[[link]]
name = "za"
ends = ["z", "a"]
"#;

fn snapshot(shares: &str) -> Snapshot {
    let network = Network::from_toml(NETWORK, "two-ways.toml").unwrap();
    let shares = Shares::from_toml(shares, "shares.toml", &network).unwrap();
    Snapshot::new(network, shares)
}

fn flow(name: &str, rest: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"x\"\nto = \"y\"\n{rest}\n")
}

fn mbps(outcome: &Outcome<'_>) -> Vec<u64> {
    (0..outcome.snapshot.shares.flows.len()).map(|flow| outcome.rate(flow) / 1_000_000).collect()
}

/// The names of what holds a flow back on each of its paths.
fn held(outcome: &Outcome<'_>, flow: usize) -> Vec<String> {
    let Held::Back(paths) = outcome.held(flow) else { return Vec::new() };
    paths.concat().iter().map(|of| outcome.setup.resources[*of as usize].name.clone()).collect()
}

#[test]
fn links_are_filled_up_to_their_marks_by_weight() {
    let weights = flow("one", "weight = 2") + &flow("two", "");
    let of = snapshot(&weights);
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    // Up to 80 % of ab.
    assert_eq!(mbps(&outcome), [5333, 2666]);
    assert_eq!(held(&outcome, 0), ["ab a→b"]);
    // What is kept for others is below that mark first.
    let of = snapshot(&("at_large = \"30 %\"\n".to_owned() + &weights));
    assert_eq!(mbps(&of.allot().unwrap()), [4666, 2333]);
    // Over both ways: the first is filled first.
    let of = snapshot(&(flow("one", "weight = 2\npaths = 2") + &flow("two", "")));
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!(mbps(&outcome), [11_333, 2666]);
    assert_eq!(outcome.rates(0).iter().map(|rate| rate / 1_000_000).collect::<Vec<_>>(), [5333, 6000]);
    assert_eq!(held(&outcome, 0), ["ab a→b", "ac a→c"]);
}

#[test]
fn marks_and_caps_of_classes_are_for_all_below() {
    let classes = "[[class]]\nname = \"lhc\"\nweight = 2\ncap = \"5 Gb/s\"\n[[class]]\nname = \"cms\"\nparent = \"lhc\"\n\
                   [[class]]\nname = \"other\"\n";
    let flows = flow("cms", "class = \"cms\"") + &flow("lhc", "class = \"lhc\"") + &flow("other", "class = \"other\"");
    let of = snapshot(&format!("{classes}{flows}"));
    let outcome = of.allot().unwrap();
    assert_eq!(mbps(&outcome)[..2], [2500, 2500]);
    assert_eq!(held(&outcome, 0), ["cap of lhc"]);
    let mark = |rest: &str| format!("[[mark]]\nname = \"m\"\nclass = \"lhc\"\n{rest}\n");
    let one = mark("links = [\"ab\", \"ac\"]\nrate = \"1 Gb/s\"");
    let of = snapshot(&format!("{classes}{one}{flows}"));
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!(mbps(&outcome), [500, 500, 7000]);
    assert_eq!(held(&outcome, 1), ["mark m on ab a→b"]);
    let both = flow("cms", "class = \"cms\"\npaths = 2");
    let mbps_of = |text: &str| mbps(&snapshot(text).allot().unwrap());
    assert_eq!(mbps_of(&format!("{classes}{one}{both}")), [2000]);
    // One for both of them.
    let together = mark("links = [\"ab\", \"ac\"]\nrate = \"1 Gb/s\"\ntogether = true");
    assert_eq!(mbps_of(&format!("{classes}{together}{both}")), [1000]);
    let share = mark("links = [\"ab\", \"ac\"]\nshare = \"10 %\"\ntogether = true\nfrom = \"a\"");
    assert_eq!(mbps_of(&format!("{classes}{share}{both}")), [1600]);
    // Of the other way, which nobody takes.
    let other_way = mark("links = [\"ab\"]\nrate = \"1 Gb/s\"\nfrom = \"b\"");
    assert_eq!(mbps_of(&format!("{classes}{other_way}{both}")), [5000]);
}

#[test]
fn classes_share_by_their_weights_whatever_flows_they_have() {
    let class = |name: &str, rest: &str| format!("[[class]]\nname = \"{name}\"\n{rest}\n");
    let classes =
        class("a1", "parent = \"a\"\nweight = 2") + &class("a", "weight = 6") + &class("a2", "parent = \"a\"");
    let classes = classes + &class("b", "weight = 3") + &class("c", "");
    let of_class = |name: &str, class: &str, rest: &str| flow(name, &format!("class = \"{class}\"\n{rest}"));
    let flows = of_class("1", "a1", "") + &of_class("2", "a2", "weight = 3") + &of_class("3", "a2", "");
    let flows = flows + &of_class("4", "b", "") + &of_class("5", "b", "") + &of_class("6", "c", "weight = 100");
    let of = snapshot(&format!("{classes}{flows}"));
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    // 60 : 30 : 10 of 8 Gb/s.
    assert_eq!(mbps(&outcome), [3200, 1200, 400, 1200, 1200, 800]);
    for part in outcome.classes() {
        assert!(part.due.abs_diff(part.has) <= 1, "{part:?}");
        assert_eq!(part.asks.min(8_000_000_000), 8_000_000_000);
    }
    // What one cannot use goes to those beside it first.
    let of = snapshot(&format!("{classes}{}", flows.replacen("class = \"a1\"", "class = \"a1\"\ncap = \"1 Gb/s\"", 1)));
    assert_eq!(mbps(&of.allot().unwrap()), [1000, 2850, 950, 1200, 1200, 800]);
    let floor = class("c", "floor = \"4 Gb/s\"");
    let of = snapshot(&format!("{}{flows}", classes.replace(&class("c", ""), &floor)));
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!(mbps(&outcome).iter().sum::<u64>() / 10, 799);
    assert_eq!(mbps(&outcome)[5], 4000);
}

#[test]
fn who_used_more_than_its_part_has_less() {
    let class = |name: &str, rest: &str| format!("[[class]]\nname = \"{name}\"\n{rest}\n");
    let head = "now = 2026-03-15T00:00:00Z\n".to_owned();
    let flows = flow("1", "class = \"a\"") + &flow("2", "class = \"b\"") + &flow("3", "class = \"b\"");
    let of = |a: &str, b: &str| snapshot(&format!("{head}{}{}{flows}", class("a", a), class("b", b)));
    // Three times as much: 2^(1 − 3/2) and 2^(1 − 1/2), in 256ths.
    let three = of("used = \"300 TB\"", "used = \"100 TB\"");
    let outcome = three.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!(outcome.setup.usage_factor(0) * 2, outcome.setup.usage_factor(1));
    assert_eq!(mbps(&outcome), [2666, 2666, 2666]);
    // Two weeks ago, and half of it after each.
    let same = of("used = \"400 TB\"\nas_of = 2026-03-01T00:00:00Z", "used = \"100 TB\"");
    assert_eq!(mbps(&same.allot().unwrap()), [4000, 2000, 2000]);
    // What is below counts for what is above.
    let inner = class("c", "parent = \"a\"\nused = \"300 TB\"");
    let text = format!("{}{inner}{}{flows}", class("a", ""), class("b", "used = \"100 TB\""));
    assert_eq!(mbps(&snapshot(&text).allot().unwrap()), [2666, 2666, 2666]);
    // Levels are those of weights as the file has them.
    let [level, plain] = [&three, &of("", "")].map(|of| of.allot().unwrap().levels()[0].level);
    assert!(level > 3_000_000_000 && level < 8_000_000_000 && plain == 4_000_000_000, "{level} {plain}");
}

#[test]
fn urgent_flows_weigh_more_as_long_as_the_budget_lasts() {
    let of = |class: &str| {
        let class = format!("now = 2026-03-15T00:00:00Z\n[[class]]\nname = \"a\"\n{class}\n");
        let flows = flow("1", "class = \"a\"\nurgent = true") + &flow("2", "class = \"a\"") + &flow("3", "");
        snapshot(&format!("{class}{flows}"))
    };
    // Inside its class, and of no other.
    let some = of("urgent = \"30 TB\"\nurgent_used = \"29 TB\"");
    let outcome = some.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!((mbps(&outcome), outcome.setup.urgent_factor(0)), (vec![3555, 444, 4000], 8));
    let none = of("urgent = \"30 TB\"\nurgent_used = \"30 TB\"");
    assert_eq!(mbps(&none.allot().unwrap()), [2000, 2000, 4000]);
    let back = of("urgent = \"30 TB\"\nurgent_used = \"30 TB\"\nas_of = 2026-03-14T00:00:00Z");
    assert_eq!(mbps(&back.allot().unwrap()), [3555, 444, 4000]);
}

#[test]
fn flexible_marks_leave_room_for_others() {
    let of = |rest: &str| {
        let mark = format!("links = [\"xa\"]\nflexible = {{ share = \"50 %\", least = \"1 Gb/s\", {rest} }}");
        let text = format!("now = 2026-03-15T00:00:00Z\n[[mark]]\nname = \"m\"\n{mark}\n{}", flow("1", ""));
        mbps(&snapshot(&text).allot().unwrap())[0]
    };
    assert_eq!(of("at_large = \"4 Gb/s\", margin = \"500 Mb/s\""), 5500);
    assert_eq!(of("at_large = \"4 Gb/s\", most = \"3 Gb/s\""), 3000);
    assert_eq!(of("at_large = \"40 Gb/s\""), 1000);
    // An estimate is good until it expires; then it is the worst.
    assert_eq!(of("at_large = \"4 Gb/s\", expires = 2026-03-15T00:00:01Z"), 6000);
    assert_eq!(of("at_large = \"4 Gb/s\", expires = 2026-03-15T00:00:00Z"), 1000);
    // Down at once, and up by 2 % of the rate in 10 s.
    assert_eq!(of("at_large = \"4 Gb/s\", now = \"7 Gb/s\""), 6000);
    assert_eq!(of("at_large = \"4 Gb/s\", now = \"2 Gb/s\", as_of = 2026-03-14T23:59:40Z"), 2800);
}

#[test]
fn tiers_come_in_turn_and_the_lowest_keeps_its_part() {
    let text = "lowest = \"5 %\"\n[[class]]\nname = \"first\"\ncap = \"6 Gb/s\"\n[[class]]\nname = \"next\"\ntier = 1\n\
                [[class]]\nname = \"spare\"\nscavenger = true\n"
        .to_owned()
        + &flow("spare", "class = \"spare\"")
        + &flow("next", "class = \"next\"") + &flow("first", "class = \"first\"");
    let of = snapshot(&text);
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    assert_eq!(mbps(&outcome), [500, 1500, 6000]);
    let levels = outcome.levels();
    assert_eq!(levels.iter().map(|level| level.tier).collect::<Vec<_>>(), [0, 1, 9]);
    assert_eq!(levels.iter().map(|level| level.flows.len()).collect::<Vec<_>>(), [1; 3]);
    let parts = outcome.classes();
    let gbps = |rate: u64| rate / 1_000_000_000;
    assert_eq!((gbps(parts[0].asks), gbps(parts[0].due), gbps(parts[0].has)), (6, 6, 6));
    assert_eq!((gbps(parts[1].asks), gbps(parts[1].due + 1), gbps(parts[1].has)), (8, 1, 1));
}

#[test]
fn without_a_limit_a_flow_needs_a_cap() {
    let to_a = |rest: &str| snapshot(&format!("[[flow]]\nname = \"f\"\nfrom = \"z\"\nto = \"a\"\n{rest}\n"));
    let of = to_a("");
    let error = of.allot().unwrap_err();
    assert_eq!(error, AllotError::Unlimited { flow: "f".to_owned() });
    assert_eq!(error.to_string(), "flow `f`: no link on a path of it has a rate: give it a `cap`");
    let of = to_a("cap = \"3 Gb/s\"");
    let outcome = of.allot().unwrap();
    assert_eq!((mbps(&outcome), outcome.held(0)), (vec![3000], Held::HasAll));
}

#[test]
fn paths_without_an_order_are_all_used_alike() {
    // In order the first takes half of ab from the second, which has no other way; without an order it leaves that.
    let adaptive = |more: &str| flow("one", &format!("paths = 2\nsplit = \"adaptive\"\n{more}"));
    let of = snapshot(&(flow("one", "paths = 2") + &flow("two", "")));
    assert_eq!(mbps(&of.allot().unwrap()), [10_000, 4000]);
    let of = snapshot(&(adaptive("") + &flow("two", "")));
    let outcome = of.allot().unwrap();
    outcome.check().unwrap();
    assert!(mbps(&outcome).iter().all(|rate| (6993..=7007).contains(rate)), "{:?}", mbps(&outcome));
    let says = |text: &str| snapshot(text).allot().unwrap_err().to_string();
    let class = "[[class]]\nname = \"c\"\n";
    assert_eq!(
        says(&(class.to_owned() + &adaptive("") + &flow("two", "class = \"c\""))),
        "flow `two` is in a class, whose flows fill paths in order: leave out `class`, or `split = \"adaptive\"` everywhere"
    );
    assert_eq!(
        says(&(adaptive("") + &flow("two", "paths = 2"))),
        "flow `two` fills its paths in order, and others do not: write the same `split` for all that have several"
    );
}

#[test]
fn changes_are_seen_by_their_names() {
    let of = snapshot(&(flow("one", "paths = 2") + &flow("two", "cap = \"2 Gb/s\"") + &flow("back", "")));
    let before = of.allot().unwrap();
    let link = |name: &str| of.network.links_named(name).unwrap();
    let then = |effects: &[Effect]| {
        let changed = of.with(effects);
        let after = changed.allot().unwrap();
        after.check().unwrap();
        mbps(&after)
    };
    assert_eq!(mbps(&before), [9000, 2000, 3000]);
    // The one with the one path left goes over the other.
    assert_eq!(then(&[Effect::Cut(link("ab"))]), [2000; 3]);
    assert_eq!(then(&[Effect::Cut(link("ab")), Effect::Cut(link("cb"))]), [0; 3]);
    // Up to what is common to both ways.
    assert_eq!(then(&[Effect::Upgrade(link("ab"), Rate::gbps(20))]), [11_000, 2000, 7000]);
    assert_eq!(then(&[Effect::Shape(2, Rate::mbps(500))]), [11_500, 2000, 500]);
    // A cap stays, and a floor gives way.
    assert_eq!(then(&[Effect::Shape(1, Rate::gbps(5))]), mbps(&before));
    let cut = of.with(&[Effect::Cut(link("ab"))]);
    let (flows, resources) = changed(&before, &cut.allot().unwrap());
    let names: Vec<&str> = flows.iter().map(|it| of.shares.flows[it.of].name.as_str()).collect();
    assert_eq!(names, ["one", "back"]);
    assert_eq!((flows[0].before, flows[0].after, flows[0].by()), (9_000_000_000, 2_000_000_000, 7_000_000_000));
    let edge = |resource: &plan::allot::Changed<Of>| match resource.of {
        Of::Link(edge) => before.setup.graph.edge(edge).name.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(resources.iter().map(edge).collect::<Vec<_>>(), ["xa x→a", "ab a→b", "by b→y"]);
}

/// A ring of four routers with two ways across, a host at each, and who shares them.
fn random(rng: &mut Rng) -> Snapshot {
    let mut text = "name = \"ring\"\n".to_owned();
    for n in 0..4 {
        write!(text, "[[host]]\nname = \"h{n}\"\n[[router]]\nname = \"r{n}\"\n").unwrap();
    }
    let ends = [("h0", "r0"), ("h1", "r1"), ("h2", "r2"), ("h3", "r3")];
    let ring = [("r0", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "r0"), ("r0", "r2"), ("r1", "r3")];
    for (n, (from, to)) in ends.iter().chain(&ring).enumerate() {
        let (rate, cost) = (rng.size(1, 40), rng.size(1, 9));
        write!(
            text,
            "[[link]]\nname = \"l{n}\"\nends = [\"{from}\", \"{to}\"]\nrate = \"{rate} Gb/s\"\ncost = {cost}\n"
        )
        .unwrap();
        if rng.one_in(3) {
            writeln!(text, "high_water = \"{} %\"", rng.size(1, 100)).unwrap();
        }
    }
    let network = Network::from_toml(&text, "ring.toml").unwrap();
    let mut text = String::new();
    for key in ["at_large", "lowest"] {
        if rng.one_in(2) {
            writeln!(text, "{key} = \"{} %\"", rng.size(0, 20)).unwrap();
        }
    }
    let classes = rng.size(0, 4);
    for n in 0..classes {
        let place = match rng.size(0, 3) {
            0 => format!("tier = {}", rng.size(0, 2)),
            1 => "scavenger = true".to_owned(),
            _ if n > 0 => format!("parent = \"c{}\"", rng.size(0, n - 1)),
            _ => String::new(),
        };
        let cap = if rng.one_in(4) { format!("cap = \"{} Gb/s\"", rng.size(2, 30)) } else { String::new() };
        let floor = if rng.one_in(5) { format!("floor = \"{} Gb/s\"", rng.size(1, 2)) } else { String::new() };
        write!(text, "[[class]]\nname = \"c{n}\"\n{place}\nweight = {}\n{cap}\n{floor}\n", rng.size(1, 3)).unwrap();
    }
    let class = |rng: &mut Rng| match classes {
        0 => String::new(),
        _ if rng.one_in(4) => String::new(),
        _ => format!("class = \"c{}\"", rng.size(0, classes - 1)),
    };
    for n in 0..rng.size(0, 3) {
        let links = (rng.size(4, 6), rng.size(7, 9));
        let most = match rng.size(0, 1) {
            0 => format!("rate = \"{} Gb/s\"", rng.size(0, 30)),
            _ => format!("share = \"{} %\"", rng.size(1, 100)),
        };
        let (class, together) = (class(rng), rng.one_in(2));
        write!(
            text,
            "[[mark]]\nname = \"m{n}\"\n{class}\nlinks = [\"l{}\", \"l{}\"]\n{most}\ntogether = {together}\n",
            links.0, links.1
        )
        .unwrap();
    }
    for n in 0..rng.size(1, 8) {
        let from = rng.size(0, 3);
        let to = (from + rng.size(1, 3)) % 4;
        let cap = if rng.one_in(3) { format!("cap = \"{} Gb/s\"", rng.size(1, 20)) } else { String::new() };
        let (class, weight, paths) = (class(rng), rng.pick(&[1, 1, 2, 3]), rng.size(1, 3));
        write!(
            text,
            "[[flow]]\nname = \"f{n}\"\n{class}\nfrom = \"h{from}\"\nto = \"h{to}\"\nweight = {weight}\n{cap}\npaths = {paths}\n"
        )
        .unwrap();
    }
    let shares = Shares::from_toml(&text, "shares.toml", &network).unwrap_or_else(|error| panic!("{error}: {text}"));
    Snapshot::new(network, shares)
}

#[test]
fn what_holds_a_flow_back_is_full_and_every_remedy_works() {
    let (told, caps, vain) = (Cell::new(0_u64), Cell::new(0_u64), Cell::new(0_u64));
    let many = each_case(150, |rng| {
        let of = random(rng);
        let outcome = of.allot().unwrap();
        outcome.check().unwrap();
        for flow in 0..of.shares.flows.len() {
            let reason = outcome.why(flow);
            let rate = outcome.rate(flow);
            assert_eq!(reason.rate, rate);
            match &reason.held {
                Held::NoPath => panic!("a ring joins all"),
                Held::HasAll => assert!(rate + 1 >= of.shares.flows[flow].cap.map_or(u64::MAX, |cap| cap.bps())),
                Held::Back(paths) => {
                    assert_eq!(paths.len(), outcome.setup.paths[flow].len());
                    for by in paths {
                        assert!(!by.is_empty() && by.iter().all(|of| outcome.is_full(*of)), "flow {flow}: {of:?}");
                    }
                }
            }
            for remedy in &reason.remedies {
                match remedy {
                    Remedy::Raise { raise, rate: then, also } => {
                        let number = outcome.setup.number(flow).unwrap();
                        let with = |raise: &[(ResourceId, u64)]| -> u64 {
                            let raised = outcome.setup.solve_with(raise);
                            raised.rates[outcome.setup.problem.tunnels_of(number)].iter().sum()
                        };
                        let has = with(raise);
                        assert_eq!(has, *then);
                        assert!(*then > rate);
                        // Of several, what is enough of one may be less once another is less too.
                        for at in 0..raise.len() {
                            let mut less = raise.clone();
                            less[at].1 -= 1000.min(less[at].1);
                            vain.set(vain.get() + u64::from(with(&less) >= *then));
                        }
                        let capacity = |of: ResourceId| outcome.setup.resources[of as usize].capacity;
                        let more = raise.iter().map(|(of, to)| to - capacity(*of)).max().unwrap();
                        also.iter().for_each(|of| assert!(with(&[(*of, capacity(*of) + more)]) >= *then));
                        told.set(told.get() + 1);
                    }
                    Remedy::Cap { rate: then } => {
                        let mut other = of.clone();
                        other.shares.flows[flow].cap = Some(Rate::from_bps(*then));
                        assert_eq!(other.allot().unwrap().rate(flow), *then);
                        caps.set(caps.get() + 1);
                    }
                }
            }
        }
    });
    assert!(!many || vain.get() * 100 <= told.get(), "{} of {} ask for too much", vain.get(), told.get());
    assert!(!many || (told.get() > 300 && caps.get() > 25), "{} remedies, {} of caps", told.get(), caps.get());
}

#[test]
fn marks_hold_when_they_are_added_up_anew() {
    each_case(300, |rng| {
        let of = random(rng);
        let outcome = of.allot().unwrap();
        for (resource, it) in outcome.setup.resources.iter().enumerate() {
            let is_in = |edge: usize| match it.of {
                Of::Link(link) => link == edge,
                Of::Mark(_, Some(on)) => on == edge,
                Of::Mark(mark, None) => {
                    of.shares.marks[mark].ways.iter().any(|(link, way)| 2 * link + way.index() == edge)
                }
                Of::Class(_) => true,
                Of::Beside(_) | Of::Flow(_) => panic!("there are none"),
            };
            let class = match it.of {
                Of::Mark(mark, _) => of.shares.marks[mark].class,
                Of::Class(class) => Some(class),
                _ => None,
            };
            let mut used = 0;
            for (index, flow) in of.shares.flows.iter().enumerate() {
                let is_of = class.is_none_or(|class| of.shares.up(flow.class).any(|of| of == class));
                for (path, rate) in outcome.setup.paths[index].iter().zip(outcome.rates(index)) {
                    used += if is_of && path.edges.iter().any(|edge| is_in(*edge)) { *rate } else { 0 };
                }
            }
            let told = outcome.used(resource as u32);
            assert_eq!(told.used, used);
            assert!(used <= it.capacity, "{}: {used} of {}", it.name, it.capacity);
            assert_eq!(told.by_class.iter().map(|(_, rate)| rate).sum::<u64>(), used);
        }
        let all: u64 = (0..of.shares.flows.len()).map(|flow| outcome.rate(flow)).sum();
        assert_eq!(outcome.total(), all);
    });
}

#[test]
fn steps_from_what_is_in_force_overfill_nothing() {
    let (falls, rises) = (Cell::new(0_u64), Cell::new(0_u64));
    let many = each_case(200, |rng| {
        let old = random(rng);
        let before = old.allot().unwrap();
        let link = rng.size(4, 9) as usize;
        let effect = match rng.size(0, 2) {
            0 => Effect::Cut(vec![link]),
            1 => Effect::Upgrade(vec![link], Rate::gbps(rng.size(1, 40))),
            _ => Effect::Shape(rng.size(0, old.shares.flows.len() as u64 - 1) as usize, Rate::gbps(1)),
        };
        let new = old.with(&[effect]);
        let after = new.allot().unwrap();
        let mut rates: BTreeMap<LastPath, u64> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for (flow, of) in old.shares.flows.iter().enumerate() {
            for (path, rate) in before.setup.paths[flow].iter().zip(before.rates(flow)) {
                let key = LastPath { flow: of.name.clone(), edges: path.edges.clone() };
                rates.insert(key.clone(), *rate);
                last.insert(key, Last { rate: *rate, class: of.class });
            }
        }
        // What each link carries; nothing carries more than at the begin, or than it may.
        let carried = |rates: &BTreeMap<LastPath, u64>, edge: usize| -> u64 {
            rates.iter().filter(|(path, _)| path.edges.contains(&edge)).map(|(_, rate)| rate).sum()
        };
        let most: Vec<(usize, u64)> = after
            .setup
            .resources
            .iter()
            .filter_map(|of| match of.of {
                Of::Link(edge) => Some((edge, of.capacity.max(carried(&rates, edge)))),
                _ => None,
            })
            .collect();
        let steps = after.steps(&last, Hysteresis::default());
        for step in steps.difference.decreases.iter().chain(&steps.difference.increases) {
            assert_eq!(rates.insert(step.key.clone(), step.to).unwrap_or(0), step.from);
            most.iter().for_each(|(edge, most)| assert!(carried(&rates, *edge) <= *most, "{edge}: {steps:?}"));
        }
        falls.set(falls.get() + steps.difference.decreases.len() as u64);
        rises.set(rises.get() + steps.difference.increases.len() as u64);
        // What is left is what was found, but for small changes.
        rates.retain(|_, rate| *rate > 0);
        let then: BTreeMap<LastPath, u64> = steps.then.clone().into_iter().filter(|(_, rate)| *rate > 0).collect();
        assert_eq!(rates, then);
        let small = |path: &LastPath| steps.difference.left_out.contains(path);
        for (flow, of) in new.shares.flows.iter().enumerate() {
            for (path, rate) in after.setup.paths[flow].iter().zip(after.rates(flow)) {
                let key = LastPath { flow: of.name.clone(), edges: path.edges.clone() };
                assert!(small(&key) || rates.get(&key).copied().unwrap_or(0) == *rate);
            }
        }
        assert!(after.objective(Some(&last)).sum() >= after.objective(None).sum());
    });
    assert!(!many || (falls.get() > 100 && rises.get() > 100), "{} and {}", falls.get(), rises.get());
}

#[test]
fn an_upgrade_brings_what_it_says() {
    let told = Cell::new(0_u64);
    let many = each_case(60, |rng| {
        let of = random(rng);
        let outcome = of.allot().unwrap();
        for upgrade in outcome.upgrades() {
            let then = outcome.setup.solve_with(&[(upgrade.resource, upgrade.to)]);
            let total: u64 = then.rates.iter().sum();
            assert_eq!(i128::from(total) - i128::from(outcome.total()), upgrade.gain);
            // The first kilobit tells the gradient, if the upgrade goes so far.
            let more = 1000.min(upgrade.to - upgrade.from);
            let exactly = |allocation: &plan::share::Allocation| allocation.exact.iter().sum::<Fine>();
            let first = exactly(&outcome.setup.solve_with(&[(upgrade.resource, upgrade.from + more)]));
            let now = exactly(&outcome.allocation);
            let gained = (first as f64 - now as f64) / (1_u128 << FINE_BITS) as f64 / more as f64;
            assert!((gained - upgrade.gradient).abs() < 1e-3, "{gained} of {upgrade:?} of {of:?}");
            told.set(told.get() + 1);
        }
    });
    assert!(!many || told.get() > 60, "{}", told.get());
}
