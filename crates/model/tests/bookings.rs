//! Bookings as people write them.

use model::bookings::Bookings;
use model::network::Network;
use model::scenario::Way;
use units::{Rate, Utc};

const NETWORK: &str = r#"
name = "line"
[[host]]
name = "a"
[[router]]
name = "b"
[[host]]
name = "c"
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "10 Gb/s"
[[link]]
name = "cb"
ends = ["c", "b"]
rate = "10 Gb/s"
"#;

fn read(text: &str) -> Result<Bookings, String> {
    let network = Network::from_toml(NETWORK, "line.toml").unwrap();
    Bookings::from_toml(text, "bookings.toml", &network).map_err(|error| error.to_string())
}

fn booking(rest: &str) -> String {
    format!("[[booking]]\nname = \"x\"\n{rest}\n")
}

#[test]
fn links_are_booked_both_ways_or_along_a_path() {
    let text = booking(
        "links = [\"ab\", \"cb\"]\nfrom = \"a\"\nrate = \"4 Gb/s\"\nstart = 2026-03-01T00:00:00Z\nend = \"2026-03-01T07:00:00+01:00\"",
    ) + &booking(
        "class = \"maintenance\"\nlinks = [\"ab\"]\nstart = 2026-03-01T00:00:00Z\nend = 2026-03-01T00:00:01Z",
    ) + "[[grain]]\nlink = \"cb\"\nrate = \"150 Mb/s\"\n";
    let Bookings { bookings, grains, resources } = read(&text).unwrap();
    assert_eq!(bookings[0].links, [(0, Way::Forward), (1, Way::Backward)]);
    assert_eq!((bookings[0].class.as_str(), bookings[0].rate), ("reservation", Some(Rate::gbps(4))));
    assert_eq!(bookings[0].window.end(), "2026-03-01T06:00:00Z".parse::<Utc>().unwrap().0);
    assert_eq!(bookings[1].links, [(0, Way::Forward), (0, Way::Backward)]);
    assert_eq!((bookings[1].class.as_str(), bookings[1].rate), ("maintenance", None));
    assert_eq!((grains, resources), (vec![(1, Rate::mbps(150))], vec![]));
    assert_eq!(read("").unwrap(), Bookings::default());
}

#[test]
fn resources_limit_what_leaves_or_enters_a_node() {
    let resource = |name: &str, rest: &str| format!("[[resource]]\nname = \"{name}\"\nnode = \"b\"\n{rest}\n");
    let text = resource("all", "way = \"in\"\nrate = \"5 Gb/s\"")
        + &resource("some", "way = \"out\"\nrate = \"2 Gb/s\"\ngrain = \"1 Gb/s\"\nlinks = [\"ab\"]")
        + &booking("resources = [\"some\", \"all\"]\nstart = 2026-03-01T00:00:00Z\nend = 2026-03-01T06:00:00Z");
    let Bookings { bookings, resources, .. } = read(&text).unwrap();
    let [all, some] = &resources[..] else { panic!("{resources:?}") };
    assert_eq!(all.ways, [(0, Way::Forward), (1, Way::Forward)]);
    assert_eq!((all.rate, all.grain), (Rate::gbps(5), Rate::from_bps(1)));
    assert_eq!((&some.ways[..], some.grain), (&[(0, Way::Backward)][..], Rate::gbps(1)));
    assert_eq!((&bookings[0].links[..], &bookings[0].resources[..]), (&[][..], &[0, 1][..]));
}

#[test]
fn refusals_name_line_and_thing() {
    let times = "start = 2026-03-01T00:00:00Z\nend = 2026-03-01T06:00:00Z";
    for (text, says) in [
        ("bookings = 1", "bookings.toml:1: unknown key `bookings`; did you mean `booking`?"),
        (&booking(times), "bookings.toml:1: booking `x`: `links` is missing: write for example `links = [\"ab\"]`"),
        (&booking(&format!("links = [\"ac\"]\n{times}")), "bookings.toml:3: booking `x`: links: "),
        (
            &booking(&format!("links = [\"cb\"]\nfrom = \"a\"\n{times}")),
            "`cb` is not at `a`: name links in turn from there",
        ),
        (
            &booking(&format!("links = [\"ab\"]\nrate = 4\n{times}")),
            "bookings.toml:4: booking `x`: rate: `4` has no unit",
        ),
        (&booking(&format!("links = [\"ab\"]\nrate = \"0 b/s\"\n{times}")), "write more than 0 b/s"),
        (
            &booking("links = [\"ab\"]\nstart = 2026-03-01"),
            "booking `x`: start: `2026-03-01` is no date and time with its offset",
        ),
        (&booking("links = [\"ab\"]\nstart = 2026-03-01T00:00:00Z\nend = 2026-03-01T00:00:00Z"), "which is not after"),
        ("[[grain]]\nlink = \"ab\"", "[[grain]]: `rate` is missing"),
        (
            "[[resource]]\nname = \"ab\"",
            "bookings.toml:1: resource `ab`: a link, a bundle or another resource is called so",
        ),
        ("[[resource]]\nname = \"r\"\nnode = \"a\"\nway = \"up\"", "bookings.toml:4: resource `r`: way: write `out`"),
        ("[[resource]]\nname = \"r\"\nnode = \"a\"\nway = \"in\"\nlinks = [\"cb\"]", "`cb` is not at `a`"),
        ("[[resource]]\nname = \"r\"\nnode = \"a\"\nway = \"in\"", "resource `r`: `rate` is missing"),
        (&booking(&format!("resources = [\"r\"]\n{times}")), "resources: no `[[resource]]` is called `r`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}
