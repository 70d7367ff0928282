//! Paths, names and scale.

use std::time::Duration;

use model::network::{Network, QueueLimit, Ratio};
use units::{Bytes, Rate};

const DIAMOND: &str = r#"
name = "diamond"
hosts = ["a", "h", "b"]
routers = ["north", "south", "alone"]
link = [
  { name = "a-south", ends = ["a", "south"] },
  { name = "a-north", ends = ["north", "a"] },
  { name = "south-b", ends = ["south", "b"] },
  { name = "north-b-2", ends = ["north", "b"] },
  { name = "north-b-1", ends = ["b", "north"] },
  { name = "by-host", ends = ["a", "h"], cost = 1 },
  { name = "from-host", ends = ["h", "b"], cost = 1 },
]
"#;

fn names(network: &Network, from: &str, to: &str) -> Option<Vec<String>> {
    let path = network.cheapest_path(network.node(from).unwrap(), network.node(to).unwrap())?;
    Some(path.into_iter().map(|link| network.links[link].name.clone()).collect())
}

#[test]
fn ties_are_broken_by_name_and_hosts_do_not_forward() {
    let mut network = Network::from_toml(DIAMOND, "diamond.toml").unwrap();
    let path = |network: &Network, from, to| names(network, from, to).map(|names| names.join(" "));
    assert_eq!(path(&network, "a", "b").as_deref(), Some("a-north north-b-1"));
    assert_eq!(path(&network, "b", "a").as_deref(), Some("north-b-1 a-north"));
    assert_eq!(path(&network, "a", "h").as_deref(), Some("by-host"));
    assert_eq!(path(&network, "a", "a").as_deref(), Some(""));
    assert_eq!(path(&network, "a", "alone"), None);
    let north = network.link("a-north").unwrap();
    network.links[north].cost += 1;
    assert_eq!(path(&network, "a", "b").as_deref(), Some("a-south south-b"));
}

#[test]
fn names_are_found_or_suggested() {
    let network = Network::from_toml(DIAMOND, "diamond.toml").unwrap();
    let a = network.node("a").unwrap();
    let of_a: Vec<&str> = network.links_of(a).map(|link| network.links[link].name.as_str()).collect();
    assert_eq!(of_a, ["a-south", "a-north", "by-host"]);
    assert_eq!(network.node("nroth").unwrap_err().to_string(), "unknown node `nroth`; did you mean `north`?");
    let known = "a-south, a-north, south-b, north-b-2, north-b-1, by-host, from-host";
    let listed = format!("unknown link `chicago`; there are: {known}");
    assert_eq!(network.link("chicago").unwrap_err().to_string(), listed, "so few are listed");

    let text = DIAMOND.replace("\"by-host\"", "\"by-host\", members = 2");
    let bundled = Network::from_toml(&text, "diamond.toml").unwrap();
    assert_eq!(bundled.links_named("by-host").unwrap(), [5, 6]);
    assert_eq!(bundled.links_named("by-host-2").unwrap(), [6]);
    assert_eq!(
        bundled.links_named("by-hots").unwrap_err().to_string(),
        "unknown link `by-hots`; did you mean `by-host`?"
    );
}

#[test]
fn ratios_are_read_exactly() {
    for (text, shown) in [("1/100", "1/100"), ("0.01", "1/100"), ("2", "2/1"), ("1.50", "15/10"), (" 3 / 4 ", "3/4")] {
        assert_eq!(text.parse::<Ratio>().map(|ratio| ratio.to_string()).as_deref(), Ok(shown), "{text}");
    }
    for text in
        ["", "0", "0/1", "1/0", "-1/2", "+1", "1e-2", ".", "1/2/3", "99999999999999999999", "0.0000000000000001"]
    {
        let refused = text.parse::<Ratio>().unwrap_err().to_string();
        assert_eq!(refused, format!("`{text}` is no ratio: write for example `1/100` or `0.01`, above 0"));
    }
}

#[test]
fn scale_multiplies_rates_and_queues_and_leaves_delays() {
    let text = r#"name = "s"
hosts = ["a", "b"]
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "400 Gb/s"
delay = "50 ms"
queue = "50 MB"
ecn = "200 packets"
[link.back]
rate = "5 kb/s"
queue = "7 packets"
ecn = "3 ms"
"#;
    let scaled = Network::from_toml(text, "s.toml").unwrap().scaled("1/100".parse().unwrap());
    let (there, back) = (&scaled.links[0].forward, &scaled.links[0].backward);
    assert_eq!((there.rate, there.delay), (Some(Rate::gbps(4)), Duration::from_millis(50)));
    assert_eq!(there.queue, Some(QueueLimit::Bytes(Bytes::new(500_000))));
    assert_eq!(there.ecn, Some(QueueLimit::Packets(2)));
    assert_eq!(back.rate, Some(Rate::from_bps(1000)), "not below the least");
    assert_eq!(back.queue, Some(QueueLimit::Packets(1)), "never nothing");
    assert_eq!(back.ecn, Some(QueueLimit::Time(Duration::from_millis(3))));

    let smallest = Network::from_toml(text, "s.toml").unwrap().scaled("1/1000000".parse().unwrap());
    assert_eq!(smallest.links[0].forward.queue, Some(QueueLimit::Bytes(Bytes::new(1500))), "a packet still fits");
}
