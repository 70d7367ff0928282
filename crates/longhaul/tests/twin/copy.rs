//! A copy over a twin with two paths.

use std::fs;

use serde_json::Value;

use crate::Twins;
use crate::world::{Running, events, under, wait_for};

/// Two links of 60 Mb/s, and a name for the way over each.
const NETWORK: &str = r#"
name = "two"
hosts = ["a", "b"]
[[link]]
name = "one"
ends = ["a", "b"]
rate = "60 Mb/s"
delay = "10 ms"
[[link]]
name = "two"
ends = ["a", "b"]
rate = "60 Mb/s"
delay = "10 ms"
[[path]]
name = "over-one"
from = "a"
to = "b"
links = ["one"]
[[path]]
name = "over-two"
from = "a"
to = "b"
links = ["two"]
"#;
/// 5 s over both links, all of it, and 10 s over one.
const BYTES: usize = 72 << 20;
/// More than a few words about whether anything flows.
const FLOWS: u64 = 2 << 20;
/// What the other link carries in 3 s: by then those that were cut off have been given up.
const MEANWHILE: u64 = 22 << 20;

/// Bytes that have left each link from a to b, and what each has lost to a cut.
fn carried(twins: &Twins, twin: &str) -> [(u64, u64); 2] {
    let stats: Value = serde_json::from_str(&twins.done(&format!("stats --twin {twin} --json"))).expect("it is JSON");
    ["one", "two"].map(|link| {
        let ways = stats["directions"].as_array().expect("a list");
        let there = ways.iter().find(|way| way["link"] == link && way["from"] == "a").expect("it is counted");
        assert_eq!(there["stats"]["conserved"], true, "{there}");
        let bytes = |of: &Value| of["bytes"].as_u64().expect("a number");
        (bytes(&there["stats"]["departed"]), bytes(&there["stats"]["dropped"]["cut"]))
    })
}

#[test]
fn a_copy_leaves_a_path_that_is_cut_and_comes_back_when_it_is_healed() {
    let Some(mut twins) = Twins::new("paths") else { return };
    let name = twins.name("two");
    let network = twins.file("two.toml", NETWORK).display().to_string();
    twins.done(&format!("up {network} --name {name}"));
    twins.world.write("source/big", BYTES);
    twins.world.start_agent_under(&["ip", "netns", "exec", &format!("twin.{name}.b")], "[::]:4810");
    let places = (twins.world.here("source/"), twins.world.there_by("b.over-one:4810,b.over-two", "rw/copy"));
    let command = twins.world.copy_command("", &places.0, &places.1);
    let on_a = [env!("CARGO_BIN_EXE_longhaul"), "twin", "exec", "--twin", &name, "a", "--"];
    let mut copy = twins.world.start(under(&on_a, &command));
    let until = |what: &str, copy: &mut Running, holds: &dyn Fn([(u64, u64); 2]) -> bool| {
        wait_for(what, || {
            assert!(!copy.has_ended(), "the copy ended before {what}: {}{}", copy.out(), copy.err());
            Some(carried(&twins, &name)).filter(|now| holds(*now))
        })
    };

    let [one, two] = until("both paths to carry", &mut copy, &|[one, two]| one.0 > FLOWS && two.0 > FLOWS);
    assert_eq!((one.1, two.1), (0, 0));
    twins.done(&format!("link --twin {name} one --cut"));
    let [at_cut, other] = carried(&twins, &name);
    let [cut, _] = until("the other path to go on", &mut copy, &|[_, two]| two.0 > other.0 + MEANWHILE);
    assert_eq!(cut.0, at_cut.0, "nothing leaves a link that is cut");
    assert!(cut.1 > 0, "something was on it");
    twins.done(&format!("link --twin {name} one --heal"));
    until("the healed path to carry again", &mut copy, &|[one, _]| one.0 > cut.0 + FLOWS);

    let ended = copy.end().expect_code(0);
    let (summary, started) = (ended.summary(), events(&ended.out));
    let started = started.iter().filter(|event| event["event"] == "started").count();
    assert_eq!((&summary["ok"], started), (&true.into(), 1), "{summary}");
    assert!(summary["streams_lost"].as_u64() > Some(0), "{summary}");
    let [from, to] = ["source/big", "rw/copy/big"].map(|file| fs::read(twins.world.path(file)).expect("it is there"));
    assert!(from == to, "the copy is what was copied");
}
