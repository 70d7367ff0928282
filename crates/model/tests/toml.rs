//! What a description may say, and what is said of one that is wrong.

use std::time::Duration;

use model::network::{Direction, Loss, Network, Probability, QueueLimit};
use units::{Bytes, Rate};

const FULL: &str = r#"
name = "full"
about = "Everything that can be said."
hosts = ["a", "b"]

[[site]]
name = "geneva"
latitude = 46.2
longitude = 6

[[site]]
name = "chicago"
latitude = 41.88
longitude = -87.63

[[router]]
name = "r1"
site = "geneva"

[[host]]
name = "c"

[[router]]
name = "r2"
site = "chicago"

[[link]]
name = "ar1"
ends = ["a", "r1"]

[[link]]
name = "ocean"
ends = ["r1", "r2"]
rate = "100 Gb/s"
distance = "great-circle"
jitter = "1 ms"
reorder = true
loss = "0.01 %"
queue = "100 ms"
ecn = "5 ms"
duplicate = 1e-6
corrupt = 1e-7
mtu = 9000
risks = ["duct-7", "landing"]
cost = 20
high_water = "80 %"
members = 2
[link.back]
rate = "40 Gb/s"
delay = "50 ms"
loss = { bursts = { to_bad = 0.001, to_good = 0.1 } }
queue = "2 MB"
ecn = "none"

[[link]]
name = "r2b"
ends = ["r2", "b"]
rate = "1 Gb/s"
distance = "100 km"
loss = { mean = 1e-4, burst = 10 }
queue = "1000 packets"

[[path]]
name = "first"
from = "a"
to = "b"
links = ["ar1", "ocean-1", "r2b"]
addresses = ["2001:db8::1", "2001:db8:1::1"]
dscp = "af21"
flow_label = 0x12345
"#;

#[test]
fn everything_that_can_be_said_is_read() {
    let network = Network::from_toml(FULL, "full.toml").unwrap();
    let names: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "r1", "c", "r2"], "in the order of the file");
    assert_eq!(network.sites[0].position, Some((46.2, 6.0)));
    assert_eq!(network.links[0].forward, Direction::default());
    let links: Vec<&str> = network.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(links, ["ar1", "ocean-1", "ocean-2", "r2b"]);

    let [first, second] = &network.links[1..3] else { panic!("two members") };
    assert_eq!((&first.forward, &first.bundle), (&second.forward, &Some("ocean".to_owned())));
    // 7,039 km by air, 8,799 km by the rule of ITU-T G.826, at 4.9 us each.
    assert!((43_110..43_120).contains(&first.forward.delay.as_micros()), "{:?}", first.forward.delay);
    assert!(first.forward.jitter.reorder && first.backward.jitter.reorder);
    assert_eq!(first.forward.loss, Loss::Random(Probability::new(1e-4).unwrap()));
    assert_eq!(first.forward.ecn, Some(QueueLimit::Time(Duration::from_millis(5))));
    assert_eq!((first.mtu, first.cost, first.high_water_ppm), (9000, 20, Some(800_000)));
    assert_eq!(first.risks, ["duct-7", "landing"]);

    assert_eq!(first.backward.rate, Some(Rate::gbps(40)));
    assert_eq!(first.backward.delay, Duration::from_millis(50));
    assert_eq!(first.backward.queue, Some(QueueLimit::Bytes(Bytes::new(2_000_000))));
    assert_eq!(first.backward.ecn, None);
    assert_eq!(first.backward.duplicate, first.forward.duplicate, "what is not said is as on the way there");
    let Loss::Bursts { to_bad, to_good, in_good, in_bad } = first.backward.loss else { panic!("bursts") };
    assert_eq!([to_bad.as_f64(), to_good.as_f64()].map(|p| (p * 1e6).round()), [1e3, 1e5]);
    assert_eq!((in_good, in_bad), (Probability::ZERO, Probability::ONE));

    let Loss::Bursts { to_bad, to_good, .. } = network.links[3].forward.loss else { panic!("bursts") };
    let mean = to_bad.as_f64() / (to_bad.as_f64() + to_good.as_f64());
    assert!((mean - 1e-4).abs() < 1e-8 && (to_good.as_f64() - 0.1).abs() < 1e-8, "{mean}");
    assert_eq!(network.links[3].forward.delay, Duration::from_micros(490));
    assert_eq!(network.links[3].forward.queue, Some(QueueLimit::Packets(1000)));
    assert_eq!((network.paths[0].from, network.paths[0].to, &network.paths[0].links[..]), (0, 1, &[0, 1, 3][..]));
    let ip = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    assert_eq!(network.paths[0].addresses, Some([ip("2001:db8::1"), ip("2001:db8:1::1")]));
    assert_eq!(network.paths[0].marks, units::Marks { dscp: Some(18), flow_label: Some(0x12345) });

    assert_eq!(Network::from_toml(&network.to_toml(), "again").unwrap(), network);
}

/// A description that is right, with hosts `a` and `cern`, router `r`, and one link; further text can follow.
const GOOD: &str = r#"name = "good"
hosts = ["a", "cern"]
routers = ["r"]
[[link]]
name = "ab"
ends = ["a", "r"]
"#;

/// Each text is put behind [`GOOD`], so its first line is line 7; or stands alone, if it names a network.
#[test]
fn a_refusal_names_file_line_thing_and_the_way_out() {
    let cases: &[(&str, &str)] = &[
        // The file as a whole.
        ("", "x.toml:1: `name` is missing: write for example `name = \"pair\"`"),
        ("name = \"x\"\nhosts = [", "x.toml:2: unclosed array, expected `]`"),
        ("name = \"x\"\n", "x.toml:1: no host and no router: write for example `hosts = [\"a\", \"b\"]`"),
        ("name = \"x y\"", "x.toml:1: `x y` is no name: ` ` is not among letters, digits, `_`, `.` and `-`"),
        ("name = \"x\"\n\nhost = \"a\"", "x.toml:3: host: write `[[host]]`, once for each host"),
        ("name = \"x\"\nhosts = \"a\"", "x.toml:2: hosts: write a list of texts such as `[\"a\", \"b\"]`, not a text"),
        (
            "name = \"x\"\nhosts = [\"a\",\n  7]",
            "x.toml:3: hosts: write a list of texts such as `[\"a\", \"b\"]`, not a number",
        ),
        ("name = \"x\"\nhsots = [\"a\"]", "x.toml:2: unknown key `hsots`; did you mean `hosts`?"),
        (
            "name = \"x\"\nweather = 1",
            "x.toml:2: unknown key `weather`; its keys are name, about, hosts, routers, site, host, router, link, path",
        ),
        // Sites and nodes.
        ("[[site]]\nlatitude = 1", "x.toml:7: [[site]]: `name` is missing: write for example `name = \"cern\"`"),
        (
            "[[site]]\nname = \"s\"\nlatitude = 1",
            "x.toml:7: site `s`: `longitude` is missing: write for example `longitude = 6.05`",
        ),
        (
            "[[site]]\nname = \"s\"\nlatitude = \"1\"\nlongitude = 1",
            "x.toml:9: site `s`: latitude: write a number, not a text",
        ),
        (
            "[[site]]\nname = \"s\"\nlatitude = 91\nlongitude = 1",
            "x.toml:7: site `s`: latitude: 91 is not within -90 to 90",
        ),
        ("[[host]]\nname = \"a\"", "x.toml:7: host `a`: another node has that name: call one of them otherwise"),
        ("[[router]]\nname = \"q\"\nsite = \"s\"", "x.toml:9: router `q`: unknown site `s`"),
        // Links.
        ("[[link]]\nends = [\"a\", \"r\"]", "x.toml:7: [[link]]: `name` is missing: write for example `name = \"ab\"`"),
        ("[[link]]\nname = \"q\"", "x.toml:7: link `q`: `ends` is missing: write for example `ends = [\"a\", \"b\"]`"),
        ("[[link]]\nname = \"q\"\nends = [\"a\"]", "x.toml:9: link `q`: ends: a link joins two nodes, not 1"),
        (
            "[[link]]\nname = \"q\"\nends = [\"a\",\n\"cerm\"]",
            "x.toml:10: link `q`: unknown node `cerm`; did you mean `cern`?",
        ),
        (
            "[[link]]\nname = \"q\"\nends = [\"a\", \"a\"]",
            "x.toml:7: link `q`: both ends are `a`: a link joins two nodes",
        ),
        (
            "[[link]]\nname = \"ab\"\nends = [\"a\", \"r\"]",
            "x.toml:7: link `ab`: another link has that name: call one of them otherwise",
        ),
        ("dealy = \"5 ms\"", "x.toml:7: link `ab`: unknown key `dealy`; did you mean `delay`?"),
        (
            "[link.back]\nmtu = 1500",
            "x.toml:8: link `ab`: back: unknown key `mtu`; its keys are rate, delay, distance, jitter, reorder, loss, queue, ecn, duplicate, corrupt",
        ),
        ("rate = 8000", "x.toml:7: link `ab`: rate: `8000` has no unit: write `8000 b/s`, or for example `8 Gb/s`"),
        (
            "rate = \"8 gb/s\"",
            "x.toml:7: link `ab`: rate: `8 gb/s` is not a rate: `gb/s` is no unit, write `Gb/s` or `GB/s`",
        ),
        ("rate = \"1 b/s\"", "x.toml:7: link `ab`: rate: `1 b/s` is out of bounds: write 1 kb/s to 100 Tb/s"),
        ("rate = \"101 Tb/s\"", "x.toml:7: link `ab`: rate: `101 Tb/s` is out of bounds: write 1 kb/s to 100 Tb/s"),
        ("rate = true", "x.toml:7: link `ab`: rate: write a text in quotes, not true or false"),
        ("delay = \"11 s\"", "x.toml:7: link `ab`: delay: `11 s` is too much: write at most 10s"),
        ("[link.back]\ndelay = \"11 s\"", "x.toml:8: link `ab`: back: delay: `11 s` is too much: write at most 10s"),
        ("delay = \"1 ms\"\ndistance = \"1 km\"", "x.toml:4: link `ab`: `delay` and `distance`: write one of them"),
        (
            "distance = \"7 leagues\"",
            "x.toml:7: link `ab`: distance: `7 leagues` is no distance: write for example `7000 km`, `6600 mi` or `great-circle`",
        ),
        (
            "distance = \"3000000 km\"",
            "x.toml:7: link `ab`: distance: `3000000 km` is too far: the delay may be 10s at most, that is 2040816 km",
        ),
        (
            "distance = \"great-circle\"",
            "x.toml:7: link `ab`: distance: node `a` has no place: give it a site with latitude and longitude",
        ),
        (
            "reorder = true",
            "x.toml:4: link `ab`: `reorder` without `jitter`: packets overtake by jitter, write for example `1 ms`",
        ),
        ("reorder = 1", "x.toml:7: link `ab`: reorder: write true or false, not a number"),
        ("loss = 1.5", "x.toml:7: link `ab`: loss: `1.5` is no share: write 0 to 1, or a percentage such as `0.01 %`"),
        ("loss = 1e-12", "x.toml:7: link `ab`: loss: `1e-12` is too small: a chance is 2.4e-10 at least, or 0"),
        ("loss = { mean = 0.1 }", "x.toml:7: link `ab`: loss: `burst` is missing: write for example `burst = 10`"),
        (
            "loss = { mean = 0.1, burst = 0.5 }",
            "x.toml:7: link `ab`: loss: a burst of 0.5 packets is none: write 1 or more",
        ),
        (
            "loss = { mean = 1, burst = 2 }",
            "x.toml:7: link `ab`: loss: a mean of 1 in bursts of 2 cannot be: write a mean above 0 and below 1",
        ),
        (
            "loss = { bursts = { to_bad = 0.1 } }",
            "x.toml:7: link `ab`: loss: bursts: `to_good` is missing: write for example `to_good = 0.1`",
        ),
        (
            "loss = { bursts = { to_bad = 0.1, to_good = 0 } }",
            "x.toml:7: link `ab`: loss: bursts never begin or never end: write `to_bad` and `to_good` above 0",
        ),
        (
            "loss = { mean = 0.1, bursts = { to_bad = 1, to_good = 1 } }",
            "x.toml:7: link `ab`: loss: `bursts` and `mean`: write one of them",
        ),
        (
            "rate = \"1 Gb/s\"\nqueue = \"100\"",
            "x.toml:8: link `ab`: queue: `100` is no queue: write for example `100 ms`, `2 MB` or `1000 packets`",
        ),
        (
            "rate = \"1 Gb/s\"\nqueue = \"0 packets\"",
            "x.toml:8: link `ab`: queue: `0 packets` holds nothing: write more, or `none`",
        ),
        (
            "rate = \"1 Gb/s\"\nqueue = \"99999999 packets\"",
            "x.toml:8: link `ab`: queue: `99999999 packets` is no queue: write 1 to 16777216 packets",
        ),
        ("rate = \"1 Gb/s\"\nqueue = \"1 TB\"", "x.toml:8: link `ab`: queue: `1 TB` is too much: write at most 64 GiB"),
        (
            "rate = \"1 Gb/s\"\nqueue = \"1 kB\"",
            "x.toml:4: link `ab`: a queue of 1 kB holds no packet of 1500 bytes: write at least `1500 B`",
        ),
        ("queue = \"1 MB\"", "x.toml:4: link `ab`: `queue` without `rate`: nothing waits there, give the link a rate"),
        ("ecn = \"1 ms\"", "x.toml:4: link `ab`: `ecn` without `rate`: nothing waits there, give the link a rate"),
        ("mtu = 500", "x.toml:7: link `ab`: mtu: write a whole number from 576 to 65535"),
        ("cost = 0", "x.toml:7: link `ab`: cost: write a whole number from 1 to 16777215"),
        ("high_water = 0", "x.toml:7: link `ab`: high_water: `0` leaves nothing to fill: write for example `80 %`"),
        ("members = 65", "x.toml:7: link `ab`: members: write a whole number from 1 to 64"),
        (
            "members = 2\nbundle = \"q\"",
            "x.toml:4: link `ab`: `members` and `bundle`: the members' bundle has the link's name, leave `bundle` out",
        ),
        (
            "risks = [\"two words\"]",
            "x.toml:7: link `ab`: risks: `two words` is no name: ` ` is not among letters, digits, `_`, `.` and `-`",
        ),
        ("bundle = \"ab\"", "x.toml:4: link `ab`: `ab` names a link and a bundle: call one of them otherwise"),
        (
            "bundle = \"q\"\n[[link]]\nname = \"z\"\nends = [\"r\", \"cern\"]\nbundle = \"q\"",
            "x.toml:8: link `z`: bundle `q` joins other nodes: its members are parallel",
        ),
        // Paths: behind links `ab`, `rc` (two members) and `ac`.
        (
            "P from = \"a\"\nto = \"cern\"",
            "x.toml:15: path `p`: `links` is missing: write for example `links = [\"ab\"]`",
        ),
        ("P from = \"r\"\nto = \"cern\"", "x.toml:17: path `p`: `r` is a router: a path begins and ends at hosts"),
        ("P from = \"a\"\nto = \"cenr\"", "x.toml:18: path `p`: unknown node `cenr`; did you mean `cern`?"),
        ("P to = \"a\"", "x.toml:15: path `p`: `from` is missing: write for example `from = \"a\"`"),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ba\"]",
            "x.toml:19: path `p`: unknown link `ba`; did you mean `ab`?",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ab\",\n\"rc\"]",
            "x.toml:20: path `p`: `rc` is a bundle: name one of its members, such as `rc-1`",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"rc-1\"]",
            "x.toml:19: path `p`: link `rc-1` joins `r` and `cern`, but the path is at `a`: write its links in turn",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ab\"]",
            "x.toml:19: path `p`: links: end at `r`, not at `cern`: name the links from end to end in turn",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = []",
            "x.toml:19: path `p`: links: none: name the links from end to end in turn",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ab\", \"ab\"]",
            "x.toml:19: path `p`: link `ab` leads back to `a`: a path passes each node once",
        ),
        (
            "P from = \"cern\"\nto = \"q\"\nlinks = [\"ac\", \"aq\"]",
            "x.toml:19: path `p`: link `ac` leads to host `a`: hosts do not forward",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\"]",
            "x.toml:20: path `p`: addresses: a path has two, at its `from` and at its `to`, not 1",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\",\n\"cern\"]",
            "x.toml:21: path `p`: addresses: write IPv4 or IPv6 addresses such as `[\"192.0.2.1\", \"192.0.2.9\"]`",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]",
            "x.toml:15: path `p`: addresses: 192.0.2.1 and 2001:db8::1: write two of one family, that of each end",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"0.0.0.0\"]",
            "x.toml:15: path `p`: addresses: 0.0.0.0 is not an address of a host",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"192.0.2.2\"]\n[[path]]\nname = \"o\"\nfrom = \"cern\"\nto = \"a\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.2\", \"192.0.2.1\"]",
            "x.toml:21: path `o`: addresses: path `p` has the same: packets take one of them only",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"192.0.2.2\"]\n[[path]]\nname = \"o\"\nfrom = \"cern\"\nto = \"a\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"192.0.2.3\"]",
            "x.toml:21: path `o`: addresses: path `p` has 192.0.2.1 at another host",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\ndscp = \"af21\"\n[[path]]\nname = \"o\"\nfrom = \"cern\"\nto = \"a\"\nlinks = [\"ac\"]\ndscp = 18",
            "x.toml:21: path `o`: addresses, dscp, flow_label: path `p` has the same: packets take one of them only",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\ndscp = \"cs0\"",
            "x.toml:20: path `p`: dscp: a mark is 1 to 63 or a name such as af21; 0 is what all packets have",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\nflow_label = 0x80000",
            "x.toml:20: path `p`: flow_label: write 0x1 to 0x7ffff; Linux makes up those above",
        ),
        (
            "P from = \"a\"\nto = \"cern\"\nlinks = [\"ac\"]\naddresses = [\"192.0.2.1\", \"192.0.2.2\"]\nflow_label = 1",
            "x.toml:15: path `p`: flow_label: packets from 192.0.2.1 have none: write addresses of IPv6, or a dscp",
        ),
    ];
    for (text, expected) in cases {
        let paths = "[[link]]\nname = \"rc\"\nends = [\"r\", \"cern\"]\nmembers = 2\n\
                     [[link]]\nname = \"ac\"\nends = [\"a\", \"cern\"]\n\n[[path]]\nname = \"p\"\n";
        let text = match text.strip_prefix("P ") {
            Some(path) if path.contains("\"q\"") => {
                let more = GOOD.replace("[\"a\", \"cern\"]", "[\"a\", \"cern\", \"q\"]");
                format!("{more}{paths}{path}")
            }
            Some(path) => format!("{GOOD}{paths}{path}"),
            None if text.is_empty() || text.starts_with("name") => (*text).to_owned(),
            None => format!("{GOOD}{text}"),
        };
        let refused = Network::from_toml(&text, "x.toml").expect_err(&text).to_string();
        assert_eq!(refused, *expected, "\n{text}");
    }
}

#[test]
fn a_refusal_can_be_taken_apart() {
    let error = Network::from_toml(&format!("{GOOD}rate = 1"), "x.toml").unwrap_err();
    assert_eq!((error.file(), error.line(), error.thing()), ("x.toml", Some(7), Some("link `ab`")));
    assert!(error.problem().starts_with("rate: `1` has no unit"), "{}", error.problem());
}

#[test]
fn a_refusal_stays_on_one_short_line() {
    let long = "\\u001b[31m\\n".repeat(10_000);
    for text in
        [format!("name = \"{long}\""), format!("\"{long}\" = 1\nname = \"x\""), format!("{GOOD}rate = \"{long}\"")]
    {
        let message = Network::from_toml(&text, "x.toml").unwrap_err().to_string();
        assert!(message.len() < 500 && !message.contains(['\n', '\u{1b}']), "{message}");
    }
}

#[test]
fn too_many_are_refused_where_they_begin() {
    let hosts: Vec<String> = (0..4097).map(|n| format!("\"h{n}\",\n")).collect();
    let text = format!("name = \"x\"\nhosts = [\n{}]", hosts.concat());
    let message = Network::from_toml(&text, "x.toml").unwrap_err().to_string();
    assert_eq!(message, "x.toml:4099: node `h4096`: more than 4096 hosts and routers: make the network smaller");

    let link = |n| format!("[[link]]\nname = \"l{n}\"\nends = [\"a\", \"b\"]\nmembers = 64\n");
    let links: Vec<String> = (0..257).map(link).collect();
    let text = format!("name = \"x\"\nhosts = [\"a\", \"b\"]\n{}", links.concat());
    let message = Network::from_toml(&text, "x.toml").unwrap_err().to_string();
    assert_eq!(message, "x.toml:1027: link `l256`: more than 16384 links: make the network smaller");
}

#[test]
fn the_largest_network_is_read_and_routed() {
    let routers: Vec<String> = (0..4096).map(|n| format!("\"r{n}\"")).collect();
    // Four rings, each with longer steps.
    let ends = |n: usize| (n % 4096, (n + 1 + n / 4096 * 37) % 4096);
    let links = (0..16_384).map(|n| (n, ends(n)));
    let links = links.map(|(n, (from, to))| format!("[[link]]\nname = \"l{n}\"\nends = [\"r{from}\", \"r{to}\"]\n"));
    let text = format!("name = \"x\"\nrouters = [{}]\n{}", routers.join(","), links.collect::<String>());
    let network = Network::from_toml(&text, "x.toml").unwrap();
    assert_eq!(network.links.len(), 16_384);
    // Steps of 112 get there in about 18 and some small ones; the ring alone takes 2048.
    let path = network.cheapest_path(0, 2048).unwrap();
    assert!(path.len() < 40, "{}", path.len());
}
