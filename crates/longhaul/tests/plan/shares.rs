//! Questions about shares, on a network that comes along and the example of who shares it.

use std::fs;

use serde_json::Value;

use super::is_golden;
use crate::place::{Place, stderr, stdout};

/// What every question is asked of.
const ASKED: &str = "shares.toml --topology transatlantic";

/// Every form of answer.
const ANSWERS: &[(&str, &str)] = &[
    ("share", "share --check"),
    ("share-json", "share --json --check"),
    ("share-svg", "share --svg -"),
    ("bottlenecks", "bottlenecks --top 2"),
    ("bottlenecks-json", "bottlenecks --json"),
    ("whatif", "whatif --cut dunant --shape images=50Gb/s"),
    ("whatif-json", "whatif --upgrade ana=400Gb/s --json"),
    ("explain", "explain cms-caltech"),
    ("explain-json", "explain tapes --json"),
    ("explain-cap", "explain conditions"),
];

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("shares.toml"), include_str!("../../../../shares/transatlantic.toml")).unwrap();
    place
}

fn answer(place: &Place, line: &str) -> String {
    let output = place.longhaul(&format!("plan {line} {ASKED}")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    stdout(&output)
}

fn json(place: &Place, line: &str) -> Value {
    serde_json::from_str(&answer(place, &format!("{line} --json"))).unwrap()
}

#[test]
fn answers_are_as_they_were() {
    let place = place();
    let mut stale = Vec::new();
    for (name, line) in ANSWERS {
        let text = answer(&place, line);
        let is_wide = |text: &str| text.lines().any(|line| line.chars().count() > 100);
        assert!(line.contains("json") || line.contains("svg") || !is_wide(&text), "{line}: {text}");
        stale.extend((!is_golden(name, &text)).then_some(*name));
    }
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test writes anew, after a look: {stale:?}");
}

#[test]
fn a_picture_goes_to_a_file_beside_the_table() {
    let place = place();
    let table = answer(&place, "share");
    assert_eq!(answer(&place, "share --svg shares.svg"), table);
    assert_eq!(fs::read_to_string(place.path("shares.svg")).unwrap(), answer(&place, "share --svg -"));
}

#[test]
fn an_explanation_holds_when_the_link_is_upgraded() {
    let place = place();
    let explained = json(&place, "explain images");
    let remedy = &explained["remedies"][0];
    assert_eq!(remedy["raise"].as_array().unwrap().len(), 1, "{explained}");
    let rate = remedy["raise"][0]["link_rate_bps"].as_u64().unwrap();
    let then = json(&place, &format!("whatif --upgrade dunant={rate}b/s"));
    let flows = then["flows"].as_array().unwrap();
    let images = flows.iter().find(|flow| flow["name"] == "images").unwrap();
    assert_eq!(images["after_bps"], remedy["rate_bps"], "{then}");
    assert_eq!(images["before_bps"], explained["rate_bps"]);
    // A little less is not enough.
    let then = json(&place, &format!("whatif --upgrade dunant={}b/s", rate - 1000));
    let flows = then["flows"].as_array().unwrap();
    let images = flows.iter().find(|flow| flow["name"] == "images").unwrap();
    assert!(images["after_bps"].as_u64() < remedy["rate_bps"].as_u64(), "{then}");
}

#[test]
fn steps_lead_from_what_is_in_force_and_end_there() {
    let place = place();
    let save = |line: &str| fs::write(place.path("last.json"), answer(&place, &format!("{line} --json"))).unwrap();
    save("share");
    assert!(answer(&place, "share --last last.json").contains("\nwhat is in force stays\n"));
    let less = fs::read_to_string(place.path("shares.toml")).unwrap().replace("\"320 Gb/s\"", "\"300 Gb/s\"");
    fs::write(place.path("shares.toml"), less).unwrap();
    let text = answer(&place, "share --last last.json");
    assert!(is_golden("share-last", &text), "UPDATE_GOLDEN=1 cargo test writes anew, after a look: {text}");
    let steps = json(&place, "share --last last.json");
    let [falls, rises] = ["decreases", "increases"].map(|key| steps["difference"][key].as_array().unwrap().clone());
    assert!(falls.iter().all(|step| step["from_bps"].as_u64() > step["to_bps"].as_u64()), "{steps}");
    for rise in &rises {
        let waits: Vec<u64> = rise["after"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
        assert!(waits.iter().all(|at| (*at as usize) < falls.len()), "{steps}");
        let freed = |at: &u64| {
            falls[*at as usize]["from_bps"].as_u64().unwrap() - falls[*at as usize]["to_bps"].as_u64().unwrap()
        };
        let more = rise["to_bps"].as_u64().unwrap() - rise["from_bps"].as_u64().unwrap();
        assert!(waits.iter().map(freed).sum::<u64>() + 1 >= more, "{steps}");
    }
    assert!(!falls.is_empty() && !rises.is_empty() && steps["objective"]["changes"] == 20.0, "{steps}");
    save("share --last last.json");
    let text = answer(&place, "share --last last.json");
    assert!(text.contains("\n1 small change is left out\n") && !text.contains("step "), "{text}");
}

#[test]
fn what_changes_nothing_says_so() {
    let text = answer(&place(), "whatif --cut london-amsterdam");
    assert!(text.starts_with("nothing changes: all flows together "), "{text}");
}

#[test]
fn what_has_no_path_left_says_so() {
    let place = place();
    let text = answer(&place, "whatif --cut frankfurt-kit");
    for flow in ["cms-kit ", "atlas-kit ", "tapes "] {
        let line = text.lines().find(|line| line.starts_with(flow)).unwrap();
        assert!(line.ends_with("no path is left"), "{text}");
    }
    let networks = "name = \"n\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
                    [[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\nrate = \"1 Gb/s\"\n";
    fs::write(place.path("net.toml"), networks).unwrap();
    let flows = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"c\"\n[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\n";
    fs::write(place.path("flows.toml"), flows).unwrap();
    let of = |line: &str| {
        let output = place.longhaul(&format!("plan {line} flows.toml --topology net.toml")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        stdout(&output)
    };
    assert!(of("share").contains("no path leads there"));
    assert!(of("explain f").contains("no path leads there: "));
    assert!(of("share").contains("all flows together 1 Gb/s"));
}

#[test]
fn without_a_bottleneck_there_is_none() {
    let place = Place::new();
    fs::write(place.path("none.toml"), "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncap = \"1 Mb/s\"\n").unwrap();
    let output = place.longhaul("plan bottlenecks none.toml --topology pair").output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "nothing holds a flow back\n"));
}

#[test]
fn refusals_name_the_thing_and_the_way_out() {
    let place = place();
    fs::write(place.path("bad.toml"), "[[class]]\nname = \"a\"\nweight = 0\n").unwrap();
    let no_rate = "name = \"n\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\n";
    fs::write(place.path("net.toml"), no_rate).unwrap();
    fs::write(place.path("empty.json"), "{}").unwrap();
    let path = |nodes: &str| format!("{{\"rate_bps\":1,\"links\":[\"dunant\"],\"nodes\":[{nodes}]}}");
    let last = |paths: &str| format!("{{\"flows\":[{{\"name\":\"f\",\"class\":null,\"paths\":[{paths}]}}]}}");
    fs::write(place.path("short.json"), last(&path("\"paris\""))).unwrap();
    let whole = path("\"washington\",\"paris\"");
    fs::write(place.path("twice.json"), last(&format!("{whole},{whole}"))).unwrap();
    fs::write(place.path("flow.toml"), "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n").unwrap();
    for (line, code, says) in [
        ("share bad.toml --topology transatlantic".to_owned(), 2, "bad.toml:3: class `a`: weight: "),
        ("share none.toml --topology transatlantic".to_owned(), 2, "cannot read none.toml"),
        (
            "share flow.toml --topology net.toml".to_owned(),
            2,
            "flow.toml: flow `f`: no link on a path of it has a rate: give it a `cap`",
        ),
        (format!("share {ASKED} --svg none/shares.svg"), 1, "cannot write none/shares.svg"),
        (format!("share {ASKED} --last none.json"), 2, "cannot read none.json"),
        (format!("share {ASKED} --last empty.json"), 2, "empty.json: missing field `flows`"),
        (format!("share {ASKED} --last short.json"), 2, "flow `f`: a path has not one node more than links: give what"),
        (format!("share {ASKED} --last twice.json"), 2, "flow `f`: a path is there twice"),
        (format!("whatif {ASKED} --cut dunan"), 2, "did you mean `dunant`?"),
        (format!("whatif {ASKED} --cut dunant --upgrade dunant=1Tb/s"), 2, "--upgrade dunant: something else is said"),
        (format!("whatif {ASKED} --cut ana --cut ana-2"), 2, "--cut ana-2: something else is said of it already"),
        (format!("whatif {ASKED} --upgrade dunant=0b/s"), 2, "write more, or --cut dunant"),
        (format!("whatif {ASKED} --upgrade dunant"), 2, "write a name and a rate, such as `dunant=800Gb/s`"),
        (format!("whatif {ASKED} --upgrade dunant=3"), 2, "`3` has no unit"),
        (format!("whatif {ASKED} --shape cms=1Gb/s"), 2, "unknown flow `cms`"),
        (format!("whatif {ASKED} --shape tapes=1Gb/s --shape tapes=2Gb/s"), 2, "it is said twice"),
        (format!("whatif {ASKED}"), 2, "--cut <LINK>"),
        (format!("bottlenecks {ASKED} --top 0"), 2, "--top"),
        (format!("explain image {ASKED}"), 2, "unknown flow `image`; did you mean `images`?"),
    ] {
        let output = place.longhaul(&format!("plan {line}")).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(says) && output.stdout.is_empty(), "{line}: {text}");
    }
}
