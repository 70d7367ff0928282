//! Who shares a network, as people write it.

use std::fmt::Write as _;
use std::time::Duration;

use model::network::Network;
use model::scenario::Way;
use model::shares::{Amount, Most, Paths, Shares, Split, TIER_SCAVENGER, Used};
use units::{Bytes, Rate, Utc};

/// A square `a b d c` with a host at each of its ends, a bundle, and one link without a rate.
const NETWORK: &str = r#"
name = "square"
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
[[link]]
name = "xa"
ends = ["x", "a"]
rate = "10 Gb/s"
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "10 Gb/s"
members = 2
[[link]]
name = "bc"
ends = ["c", "b"]
rate = "10 Gb/s"
[[link]]
name = "ac"
ends = ["a", "c"]
[[link]]
name = "cy"
ends = ["c", "y"]
rate = "10 Gb/s"
"#;

fn read(text: &str) -> Result<Shares, String> {
    let network = Network::from_toml(NETWORK, "square.toml").unwrap();
    Shares::from_toml(text, "shares.toml", &network).map_err(|error| error.to_string())
}

fn class(name: &str, rest: &str) -> String {
    format!("[[class]]\nname = \"{name}\"\n{rest}\n")
}

fn mark(rest: &str) -> String {
    format!("[[mark]]\nname = \"m\"\n{rest}\n")
}

fn flow(rest: &str) -> String {
    format!("[[flow]]\nname = \"f\"\nfrom = \"x\"\nto = \"y\"\n{rest}\n")
}

fn moment(text: &str) -> i64 {
    text.parse::<Utc>().unwrap().0
}

#[test]
fn what_nobody_says_is_so() {
    let shares = read("").unwrap();
    assert_eq!((shares.at_large, shares.lowest, shares.now), (None, None, None));
    assert_eq!((shares.half_life, shares.half_life_said), (Duration::from_secs(7 * 86_400), false));
    assert!(shares.classes.is_empty() && shares.marks.is_empty() && shares.flows.is_empty());
    let shares = read(&(class("all", "") + &flow(""))).unwrap();
    let all = &shares.classes[0];
    assert_eq!((all.parent, all.tier, all.weight.get()), (None, 0, 1));
    assert_eq!((all.floor, all.cap, all.used, all.urgent), (Rate::ZERO, None, None, None));
    let flow = &shares.flows[0];
    assert_eq!((flow.class, flow.weight.get(), flow.floor, flow.cap), (None, 1, Rate::ZERO, None));
    assert_eq!((&flow.paths, flow.split, flow.bytes, flow.urgent), (&Paths::Cheapest(1), Split::Ordered, None, false));
    assert_eq!(shares.tier(flow), 0);
}

#[test]
fn classes_are_a_tree_in_any_order() {
    let text =
        class("cms", "parent = \"lhc\"\nweight = 2\nused = \"120 TB\"\nurgent = \"5 TB\"\nurgent_used = \"1 TB\"")
            + &class("lhc", "tier = 3\nfloor = \"1 Gb/s\"\ncap = \"50 Gb/s\"")
            + &class("spare", "scavenger = true")
            + &class("run", "parent = \"cms\"\nused = \"1 TB\"\nas_of = 2026-02-28T00:00:00Z")
            + &flow("class = \"run\"\nurgent = false");
    let shares = read(&("now = 2026-03-01T00:00:00Z\n".to_owned() + &text)).unwrap();
    let tiers: Vec<u8> = shares.classes.iter().map(|class| class.tier).collect();
    assert_eq!(tiers, [3, 3, TIER_SCAVENGER, 3]);
    assert_eq!(shares.up(Some(3)).collect::<Vec<_>>(), [3, 0, 1]);
    assert_eq!(shares.up(None).count(), 0);
    assert_eq!((shares.classes[1].floor, shares.classes[1].cap), (Rate::gbps(1), Some(Rate::gbps(50))));
    let tb = |count: u64| Bytes::new(count * 1_000_000_000_000);
    assert_eq!(shares.classes[0].used, Some(Used { bytes: tb(120), as_of: None }));
    let urgent = shares.classes[0].urgent.unwrap();
    assert_eq!((urgent.budget, urgent.used, urgent.as_of), (tb(5), tb(1), None));
    let as_of = Some(moment("2026-02-28T00:00:00Z"));
    assert_eq!(shares.classes[3].used, Some(Used { bytes: tb(1), as_of }));
    assert_eq!(shares.now, Some(moment("2026-03-01T00:00:00Z")));
    assert_eq!(shares.tier(&shares.flows[0]), 3);
    // A branch may be as deep as eight.
    let deep = |depth: usize| {
        let below = |n: usize| class(&format!("c{n}"), &format!("parent = \"c{}\"", n - 1));
        (1..depth).fold(class("c0", ""), |text, n| text + &below(n))
    };
    assert!(read(&deep(8)).is_ok());
    assert!(
        read(&deep(9)).unwrap_err().contains("class `c8`: parent: `c8` is within itself, or deeper than 8 classes")
    );
}

#[test]
fn marks_are_on_ways_of_links() {
    let of = |rest: &str| read(&(class("cms", "") + &mark(rest))).unwrap().marks.remove(0);
    let both = of("links = [\"bc\", \"ab\", \"ab-1\"]\nrate = \"4 Gb/s\"");
    let ways = [(1, Way::Forward), (1, Way::Backward), (2, Way::Forward), (2, Way::Backward)];
    assert_eq!(both.ways, [&ways[..], &[(3, Way::Forward), (3, Way::Backward)]].concat());
    assert_eq!((both.class, both.together, both.most), (None, false, Most::Rate(Rate::gbps(4))));
    let leaving = of("links = [\"ab\", \"bc\"]\nfrom = \"b\"\ntogether = true\nclass = \"cms\"\nshare = \"80 %\"");
    assert_eq!(leaving.ways, [(1, Way::Backward), (2, Way::Backward), (3, Way::Backward)]);
    assert_eq!((leaving.class, leaving.together, leaving.most), (Some(0), true, Most::Share(800_000)));
    let [one, two] = ["from = \"a\"", "from = [\"a\", \"c\"]"]
        .map(|from| of(&format!("links = [\"ab-2\", \"ac\"]\n{from}\nrate = \"1 Gb/s\"")).ways);
    assert_eq!((one.len(), two.len()), (2, 3));
    let flexible = of(
        "links = [\"bc\"]\nflexible = { share = \"90 %\", margin = \"1 Gb/s\", least = \"2 Gb/s\", at_large = \"3 Gb/s\" }",
    );
    let Most::Flexible(flexible) = flexible.most else { panic!("{flexible:?}") };
    assert_eq!((flexible.share_ppm, flexible.margin, flexible.least), (900_000, Rate::gbps(1), Rate::gbps(2)));
    assert_eq!((flexible.at_large, flexible.most, flexible.now), (Some(Rate::gbps(3)), None, None));
}

#[test]
fn paths_are_counted_or_written() {
    let of = |rest: &str| read(&flow(rest)).unwrap().flows.remove(0);
    assert_eq!(of("paths = 3").paths, Paths::Cheapest(3));
    let given = of("split = \"adaptive\"\npaths = [[\"xa\", \"ac\", \"cy\"], [\"xa\", \"ab-2\", \"bc\", \"cy\"]]");
    let (forward, backward) = (Way::Forward, Way::Backward);
    let second = vec![(0, forward), (2, forward), (3, backward), (5, forward)];
    assert_eq!(given.paths, Paths::Given(vec![vec![(0, forward), (4, forward), (5, forward)], second]));
    assert_eq!(given.split, Split::Adaptive);
}

#[test]
fn parts_are_of_rates() {
    let shares = read("at_large = \"5 %\"\nlowest = \"2 Gb/s\"\nhalf_life = \"1h\"\n").unwrap();
    assert_eq!((shares.at_large, shares.lowest), (Some(Amount::Share(50_000)), Some(Amount::Rate(Rate::gbps(2)))));
    assert_eq!((shares.half_life, shares.half_life_said), (Duration::from_secs(3600), true));
    assert_eq!(shares.at_large.map(|at_large| at_large.of(1019)), Some(50));
    assert_eq!(shares.lowest.map(|lowest| lowest.of(1_000_000_000)), Some(1_000_000_000));
    assert_eq!(Amount::Share(1_000_000).of(u64::MAX), u64::MAX);
    assert_eq!(read("at_large = \"0 %\"\nlowest = \"0 b/s\"").unwrap(), read("").unwrap());
    let ports = "[[resource]]\nname = \"nic\"\nnode = \"a\"\nway = \"in\"\nrate = \"5 Gb/s\"\n";
    assert_eq!(read(ports).unwrap().resources[0].rate, Rate::gbps(5));
}

#[test]
fn refusals_name_line_and_thing() {
    let now = "now = 2026-03-01T00:00:00Z\n";
    let budget = class("cms", "urgent = \"1 TB\"");
    let deep = class("a", "parent = \"b\"") + &class("b", "parent = \"a\"");
    for (text, says) in [
        ("clas = 1", "shares.toml:1: unknown key `clas`; did you mean `class`?"),
        ("at_large = \"5\"", "shares.toml:1: at_large: "),
        ("lowest = \"101 %\"", "or a rate such as `5 Gb/s`"),
        ("half_life = \"1s\"", "half_life: 1s is out of bounds: write 1m to 3650d"),
        ("now = 2026-03-01", "now: `2026-03-01` is no date and time with its offset"),
        ("[[class]]\nweight = 2", "shares.toml:1: [[class]]: `name` is missing"),
        (&class("cms", "rate = \"1 Gb/s\""), "class `cms`: unknown key `rate`"),
        (&(class("cms", "") + &class("cms", "")), "shares.toml:4: class `cms`: another class has that name"),
        (&class("cms", "weight = 0"), "class `cms`: weight: write a whole number from 1 to 1000000"),
        (&class("cms", "tier = 9"), "class `cms`: tier: write a whole number from 0 to 8"),
        (&class("cms", "parent = \"lhc\""), "parent: no `[[class]]` is called `lhc`"),
        (&(class("lhc", "") + &class("cms", "parent = \"lhk\"")), "unknown class `lhk`; did you mean `lhc`?"),
        (&deep, "class `a`: parent: `a` is within itself, or deeper than 8 classes: name one higher up"),
        (&(class("lhc", "") + &class("cms", "parent = \"lhc\"\ntier = 1")), "`tier` beside `parent`"),
        (&(class("lhc", "") + &class("cms", "parent = \"lhc\"\nscavenger = true")), "`scavenger` beside `parent`"),
        (&class("cms", "tier = 1\nscavenger = true"), "`tier` beside `scavenger`"),
        (&class("cms", "floor = \"2 Gb/s\"\ncap = \"1 Gb/s\""), "`cap` 1 Gb/s is below `floor` 2 Gb/s"),
        (&class("cms", "urgent_used = \"1 TB\""), "class `cms`: `urgent` is missing: write for example"),
        (&class("cms", "used = \"1 TB\"\nas_of = 2026-03-01T00:00:00Z"), "write at the top for example `now = 2026-"),
        (&(now.to_owned() + &class("cms", "as_of = 2026-03-01T00:00:00Z")), "class `cms`: `used` is missing"),
        (
            &(now.to_owned() + &class("cms", "used = \"1 TB\"\nas_of = 2026-03-01T00:00:01Z")),
            "shares.toml:2: class `cms`: as_of: 2026-03-01T00:00:01Z is after `now`, 2026-03-01T00:00:00Z",
        ),
        (&mark("rate = \"1 Gb/s\""), "mark `m`: `links` is missing"),
        (&mark("links = [\"ab\"]"), "mark `m`: write one of `rate`, `share` and `flexible`"),
        (&mark("links = [\"ab\"]\nrate = \"1 Gb/s\"\nshare = \"5 %\""), "write one of `rate`, `share` and `flexible`"),
        (&mark("links = [\"ad\"]\nrate = \"1 Gb/s\""), "shares.toml:3: mark `m`: links: "),
        (&mark("links = [\"ab\"]\nfrom = \"c\"\nrate = \"1 Gb/s\""), "links: `ab-1` is at no node that `from` names"),
        (&mark("links = [\"ab\"]\nfrom = [\"d\"]\nrate = \"1 Gb/s\""), "shares.toml:4: mark `m`: from: "),
        (&mark("links = [\"ac\"]\nshare = \"5 %\""), "link `ac` has no rate to have a share of: write `rate` instead"),
        (&mark("links = [\"ab\"]\nflexible = { margin = \"1 Gb/s\" }"), "`share` is missing"),
        (
            &mark("links = [\"ab\"]\nflexible = { share = \"5 %\", least = \"2 Gb/s\", most = \"1 Gb/s\" }"),
            "`most` 1 Gb/s is below `least` 2 Gb/s",
        ),
        (
            &(now.to_owned()
                + &mark("links = [\"ab\"]\nflexible = { share = \"5 %\", expires = 2026-03-01T00:00:00Z }")),
            "`expires` without `at_large`",
        ),
        (
            &(now.to_owned() + &mark("links = [\"ab\"]\nflexible = { share = \"5 %\", as_of = 2026-03-01T00:00:00Z }")),
            "`as_of` without `now`",
        ),
        ("[[flow]]\nname = \"f\"\nto = \"y\"", "flow `f`: `from` is missing"),
        ("[[flow]]\nname = \"f\"\nfrom = \"z\"", "shares.toml:3: flow `f`: from: "),
        ("[[flow]]\nname = \"f\"\nfrom = \"y\"\nto = \"y\"", "flow `f`: `y` is both ends"),
        (&flow("class = \"cms\""), "flow `f`: class: no `[[class]]` is called `cms`"),
        (&flow("urgent = true"), "`urgent` without a budget"),
        (&(class("cms", "") + &flow("class = \"cms\"\nurgent = true")), "`urgent` without a budget"),
        (&(budget + &flow("class = \"cms\"\nurgent = 1")), "flow `f`: urgent: "),
        (&flow("split = \"even\""), "shares.toml:5: flow `f`: split: write `ordered`"),
        (&flow("paths = 0"), "shares.toml:5: flow `f`: paths: write how many, 1 to 16, or so many lists"),
        (&flow("paths = 17"), "paths: write how many, 1 to 16"),
        (&flow("paths = []"), "paths: write how many, 1 to 16"),
        (&flow("paths = [\"xa\"]"), "paths: write how many, 1 to 16"),
        (&flow("paths = [[3]]"), "paths: write how many, 1 to 16"),
        (&flow("paths = [[\"xa\", \"ad\"]]"), "flow `f`: paths: "),
        (&flow("paths = [[\"xa\", \"ab\"]]"), "`ab` is a bundle: name one of its members, such as `ab-1`"),
        (&flow("paths = [[\"xa\", \"bc\"]]"), "link `bc` joins `c` and `b`, but the path is at `a`"),
        (&flow("paths = [[\"xa\", \"xa\"]]"), "link `xa` leads back to `x`: a path passes each node once"),
        (&flow("paths = [[\"xa\", \"ac\"]]"), "the path ends at `c`, not at `y`: name all its links"),
        (&flow("paths = [[]]"), "the path ends at `x`, not at `y`"),
        (&flow("paths = [[\"xa\", \"ac\", \"cy\", \"cy\"]]"), "link `cy` is behind `y`, where the path ends"),
        (
            "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"y\"\npaths = [[\"xa\", \"xa\"]]",
            "link `xa` leads to host `x`: hosts do not forward",
        ),
        (&flow("paths = [[\"xa\", \"ac\", \"cy\"], [\"xa\", \"ac\", \"cy\"]]"), "that path is there already"),
        ("[[resource]]\nname = \"r\"\ngrain = \"1 Gb/s\"", "resource: `grain` is for bookings: leave it out"),
        ("[[resource]]\nname = \"r\"\nnode = \"a\"\nway = \"in\"", "resource `r`: `rate` is missing"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn too_much_is_refused_at_once() {
    let many = |count: usize, kind: &str| {
        let table = |text: String, n: usize| {
            let mut text = text;
            write!(text, "[[{kind}]]\nname = \"n{n}\"\n").unwrap();
            text
        };
        (0..count).fold(String::new(), table)
    };
    assert!(read(&many(4097, "class")).unwrap_err().ends_with("more than 4096 `[[class]]`: leave out what is over"));
    assert!(read(&many(4097, "mark")).unwrap_err().contains("more than 4096 `[[mark]]`"));
    assert!(read(&many(100_001, "flow")).unwrap_err().contains("more than 100000 `[[flow]]`"));
    let long = "#".repeat(model::shares::TEXT_MAX + 1);
    assert_eq!(read(&long).unwrap_err(), "shares.toml: longer than 64 MiB: leave out what is over");
}

#[test]
fn what_comes_along_is_read() {
    let file = |name: &str| {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let network = Network::from_toml(&file("topologies/transatlantic.toml"), "transatlantic.toml").unwrap();
    let shares = Shares::from_toml(&file("shares/transatlantic.toml"), "transatlantic.toml", &network).unwrap();
    assert!(shares.classes.len() > 3 && shares.flows.len() > 5);
}
