use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Wish, String> {
    Wish::parse(text, Path::new("d.toml")).map_err(|error| error.to_string())
}

const HEAD: &str = "[[interface]]\nname = \"eth1\"\nrate = \"10Gb/s\"\nat_large = \"2Gb/s\"\n";
const CLASS: &str = "[[interface.class]]\nname = \"l\"\nmatch = [{ dscp = \"le\" }]\nfloor = \"8Gb/s\"\n";

#[test]
fn a_class_comes_to_its_items() {
    let items = parse(&format!("{HEAD}{CLASS}")).expect("it is right").items().expect("all rates are given");
    let shown: Vec<String> = items.values().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "eth1: root htb 4c48:",
            "eth1: class 4c48:1 (all together), 10 Gb/s in any case, 10 Gb/s at most",
            "eth1: class 4c48:2 (at large), 2 Gb/s in any case, 10 Gb/s at most",
            "eth1: class 4c48:3 (a class of the wish), 8 Gb/s in any case, 10 Gb/s at most",
            "eth1: queue 4c4a: of class 4c48:2, 125 MB",
            "eth1: queue 4c4b: of class 4c48:3, 125 MB",
            "eth1: filter 19528 (IPv4): marked le goes into class 4c48:3",
            "eth1: filter 19529 (IPv6): marked le goes into class 4c48:3",
        ]
    );
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_way_out() {
    let route = |rest: &str| format!("[[route]]\nnumber = 1\nvia = \"10.0.0.1\"\ninterface = \"eth1\"\n{rest}");
    let cases = [
        ("x = 1".to_owned(), "unknown field `x`"),
        (HEAD.to_owned(), "d.toml:2:8: interface.class: `eth1` needs one to 32"),
        (format!("{HEAD}{CLASS}{HEAD}{CLASS}"), "d.toml:10:8: interface.name: `eth1` is there twice"),
        (format!("{HEAD}{CLASS}{CLASS}"), "interface.class.name: `l` is there twice"),
        (format!("{HEAD}{}", CLASS.replace("8Gb/s", "9Gb/s")), "11 Gb/s together, `eth1` has 10 Gb/s"),
        (format!("{HEAD}{}", CLASS.replace("8Gb/s", "8")), "has no unit"),
        (format!("{HEAD}{}", CLASS.replace("8Gb/s", "1kb/s")), "64 kb/s are the least"),
        (format!("{HEAD}{CLASS}ceiling = \"11Gb/s\"\n"), "d.toml:9:11: interface.class.ceiling"),
        (format!("{HEAD}{}", CLASS.replace("{ dscp = \"le\" }", "")), "nothing would go into `l`"),
        (format!("{HEAD}{}", CLASS.replace("dscp = \"le\"", "")), "it says nothing"),
        (format!("{HEAD}{}", CLASS.replace("\"le\"", "\"af14\"")), "a DSCP is a number from 0 to 63"),
        (HEAD.replace("eth1", "eth/1") + CLASS, "is no name of an interface"),
        (HEAD.replace("at_large = \"2Gb/s\"\n", "") + CLASS, "give `rate` and `at_large`, or `link`"),
        (format!("[[interface]]\nname = \"e\"\nlink = \"ana\"\n{CLASS}"), "`ana` is no direction of a link"),
        (
            format!("[[interface]]\nname = \"e\"\nlink = \"ana:forward\"\n{CLASS}"),
            "with a `link` the controller says it",
        ),
        (route(""), "it says nothing"),
        (route("from = \"::1\""), "10.0.0.1 is of another family"),
        (route("from = \"10.0.0.1/8\""), "has bits behind its length"),
        (route("from = \"10.1.1.1\"\nto = \"::/0\""), "they are of two families"),
        (route("path = \"north\""), "route.path: `north` is no direction of a path"),
        (route("path = \"north:forward\"\ndscp = \"le\""), "the controller says which packets"),
        (route("flow_label = 0x12345"), "10.0.0.1 is of another family"),
        (route("flow_label = 0x100000"), "a flow label is 0x1 to 0xfffff"),
        (route("from = \"10.1.1.1\"\nflow_label = 1"), "packets of IPv4 have no flow label"),
        (route("dscp = \"le\"").replace("number = 1", "number = 0"), "from 1 to 255"),
        (route("dscp = \"le\"\n") + &route("dscp = \"le\""), "a route has a number of its own"),
    ];
    for (text, part) in cases {
        let error = parse(&text).expect_err(&text);
        assert!(error.starts_with("d.toml:") && error.contains(part), "{error}\nlacks {part}");
    }
}

#[test]
fn there_is_a_bound_for_everything() {
    let many: String =
        (0..=INTERFACES_MAX).map(|n| format!("{}{CLASS}", HEAD.replace("eth1", &format!("e{n}")))).collect();
    assert!(parse(&many).expect_err("there are too many").contains("more than 64 interfaces"));
    let class = |n: u16| CLASS.replace("\"l\"", &format!("\"c{n}\"")).replace("8Gb/s", "1Mb/s");
    let classes = |count: u16| HEAD.to_owned() + &(0..count).map(class).collect::<String>();
    assert!(parse(&classes(item::CLASSES_MAX)).is_ok());
    assert!(parse(&classes(item::CLASSES_MAX + 1)).expect_err("there are too many").contains("one to 32"));
    let matches = vec!["{ dscp = \"le\" }"; usize::from(item::FILTERS_MAX) / 2 + 1].join(", ");
    let text = HEAD.to_owned() + &CLASS.replace("{ dscp = \"le\" }", &matches);
    assert!(parse(&text).expect_err("there are too many").contains("258 filters, 256 are the most"));
}

#[test]
fn a_link_is_filled_by_the_controller() {
    let text = "[[interface]]\nname = \"eth1\"\nlink = \"ana:forward\"\n[[interface.class]]\nname = \"l\"\nmatch = [{ dscp = \"le\" }]\n";
    let wish = parse(text).expect("it is right");
    assert!(wish.items().expect_err("nobody was asked").to_string().contains("give --controller URL"));
    assert_eq!(wish.links().into_iter().collect::<Vec<_>>(), ["ana:forward"]);
    let filled = |rate: &str, mark: &str| {
        let rates = LinkRates { rate: rate.parse().expect("a rate"), mark: mark.parse().expect("a rate") };
        wish.clone().filled(&BTreeMap::from([("ana:forward".to_owned(), rates)]), &BTreeMap::new())
    };
    let full = filled("10Gb/s", "8Gb/s").expect("there is something to share");
    assert_eq!(full.held_to("eth1"), Some(Rate::gbps(8)));
    let items = full.items().expect("all rates are given");
    assert!(items.values().any(|item| item.to_string().ends_with("(at large), 2 Gb/s in any case, 10 Gb/s at most")));
    assert!(filled("10Gb/s", "10Gb/s").expect_err("nothing is kept").to_string().contains("set a mark on it"));
    assert!(filled("0b/s", "0b/s").expect_err("nobody knows its rate").to_string().contains("too little to share"));
    // A link that may not be used at all is as good as that: the kernel has no 0.
    let shut = filled("10Gb/s", "0b/s").expect("there is something to share");
    assert_eq!(shut.held_to("eth1"), Some(RATE_LEAST));
    assert!(wish.filled(&BTreeMap::new(), &BTreeMap::new()).is_err());
}

#[test]
fn a_path_is_filled_by_the_controller() {
    let text = "[[route]]\nnumber = 7\npath = \"north:backward\"\nvia = \"fd00::f\"\ninterface = \"eth1\"\n";
    let wish = parse(text).expect("it is right");
    assert!(wish.follows() && wish.links().is_empty());
    assert_eq!(wish.paths().into_iter().collect::<Vec<_>>(), ["north:backward"]);
    assert!(wish.items().expect_err("nobody was asked").to_string().contains("give --controller URL"));
    let filled = |from: &str, to: &str| {
        let marks = Marks { dscp: Some(18), flow_label: Some(0x12345) };
        let path = PathPackets { from: from.parse().expect("one"), to: to.parse().expect("one"), marks };
        wish.clone().filled(&BTreeMap::new(), &BTreeMap::from([("north:backward".to_owned(), path)]))
    };
    let items = filled("fd00::2", "fd00::1").expect("it is right").items().expect("all is known");
    let shown: Vec<String> = items.values().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "route of table 24107: to ::/0 via fd00::f over eth1",
            "rule 24107 (IPv6): from fd00::2 to fd00::1 marked af21 with flow label 0x12345 goes by table 24107",
        ]
    );
    let refused = filled("10.0.0.2", "10.0.0.1").expect_err("the next hop is of IPv6").to_string();
    assert_eq!(
        refused,
        "route 7, path north:backward: it goes from 10.0.0.2 to 10.0.0.1: fd00::f is no next hop for that"
    );
    assert!(wish.filled(&BTreeMap::new(), &BTreeMap::new()).is_err());
}

#[test]
fn bursts_hold_at_any_rate() {
    for bps in [RATE_LEAST.bps(), 1_000_000, 10_000_000_000, 800_000_000_000] {
        let rate = Rate::from_bps(bps);
        let ns = u128::from(burst_ticks(rate)) * TICK_NS;
        assert!(ns >= u128::from(BURST_BYTES) * 8 * 1_000_000_000 / u128::from(bps), "{rate} cannot send one packet");
        assert!(ns < 10_000_000_000, "{rate} may send for {ns} ns at once");
    }
}
