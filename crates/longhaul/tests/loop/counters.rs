//! Flexible marks follow traffic at large: as the emulator of a twin counts it, or an interface of an agent's host.
//!
//! Needs root and namespaces; without them it says so and passes.

use std::time::Instant;

use serde_json::Value;

use crate::twinned::Twinned;
use crate::world::{Ended, wait_for};

/// Two hosts with an ocean between them, and one of the controller's beside the first.
const NETWORK: &str = r#"
name = "one-way"
hosts = ["a", "b", "ctl"]
routers = ["ra", "rb"]

[[link]]
name = "ea"
ends = ["a", "ra"]
rate = "1 Gb/s"

[[link]]
name = "ocean"
ends = ["ra", "rb"]
rate = "100 Mb/s"
delay = "5 ms"

[[link]]
name = "eb"
ends = ["rb", "b"]
rate = "1 Gb/s"

[[link]]
name = "ca"
ends = ["ctl", "ra"]
"#;

const SHARES: &str = "[[class]]\nname = \"cms\"\n";

const FLEXIBLE: &str = r#"
[[class]]
name = "cms"

[[mark]]
name = "sea"
links = ["ocean"]
from = "ra"
flexible = { share = "90 %", least = "5 Mb/s" }
"#;

/// 2 % of 100 Mb/s in 10 s.
const RISE_BPS_PER_S: f64 = 200_000.0;

fn twin(topic: &str, config: &str) -> Option<Twinned> {
    let twin = Twinned::new(topic, NETWORK, SHARES, "ctl", config)?;
    std::fs::write(twin.world.path("flexible.toml"), FLEXIBLE).expect("a file can be written");
    Some(twin)
}

fn set_flexible(twin: &Twinned) -> Ended {
    twin.ask(&["class", "set", &twin.world.path("flexible.toml").display().to_string()])
}

fn link(twin: &Twinned, id: &str) -> Value {
    let links = twin.json(&["topology", "links"]);
    let found = links["links"].as_array().expect("a list").iter().find(|link| link["id"] == id).cloned();
    found.expect("it is there")
}

/// Waits until the mark is accepted, for somebody counts, and is where it is to be: at 90 % less what agents and the controller say.
fn accepted(twin: &Twinned) {
    wait_for("somebody to count", || (set_flexible(twin).code() == Some(0)).then_some(()));
    let is_there = |mark: &u64| (80_000_000..=90_000_000).contains(mark);
    wait_for("the mark", || link(twin, "ocean:forward")["mark_bps"].as_u64().filter(is_there));
}

/// Has traffic at large come and go, and sees the mark follow it.
fn follows(twin: &Twinned) {
    let mark = || link(twin, "ocean:forward")["mark_bps"].as_u64().expect("it has one");
    let begun = Instant::now();
    let mut traffic = twin.at_large("a", "b", "40Mb/s");
    let mut low = wait_for("the mark to fall", || {
        assert!(!traffic.has_ended(), "{}{}", traffic.out(), traffic.err());
        Some(mark()).filter(|mark| *mark < 60_000_000)
    });
    assert!(low >= 5_000_000, "it is never below its least: {low}");
    let counted = link(twin, "ocean:forward")["total_bps"].as_u64().expect("it is counted");
    assert!((25_000_000..80_000_000).contains(&counted), "{counted}");
    drop(traffic);
    // It may fall still, as what was counted before is told.
    wait_for("the mark to rise", || {
        let is = mark();
        low = low.min(is);
        (is > low + 1_000_000).then_some(())
    });
    // However slow this machine is: since it began to fall it cannot have risen by more.
    let (is, most) = (mark(), low as f64 + RISE_BPS_PER_S * begun.elapsed().as_secs_f64());
    assert!(is as f64 <= most, "{is} b/s from {low} b/s in {:?}", begun.elapsed());
}

#[test]
fn a_mark_follows_the_counters_of_a_twin() {
    let Some(mut twin) = twin("stats", "") else { return };
    for host in ["a", "b"] {
        twin.agent(host);
    }
    let refused = set_flexible(&twin);
    assert_ne!(refused.code(), Some(0), "nobody counts");
    for part in ["`sea` is flexible", "`ocean:forward`", "[[counter]]", "twin stats --to", "POST /api/v1/counters"] {
        assert!(refused.err.contains(part), "{part} in {}", refused.err);
    }
    let counting = twin.counting();
    accepted(&twin);
    let link = link(&twin, "ocean:forward");
    assert!(link["counted_by"].as_str().expect("somebody does").starts_with("twin-"), "{link:#}");
    follows(&twin);
    counting.signal("TERM");
    let ended = counting.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.err);
}

#[test]
fn a_mark_follows_an_interface_of_an_agent_that_is_trusted() {
    let Some(mut twin) = twin("iface", "[[counter]]\nagent = \"a\"\nlinks = [\"ocean\"]\n") else { return };
    // All that leaves `a` crosses the ocean, but for what goes to the controller.
    let counter = |link: &str| format!("[[counter]]\ninterface = \"ea\"\nlink = \"{link}\"\nsends = \"forward\"\n");
    twin.agent_with("a", &(counter("ea") + &counter("ocean")));
    twin.agent_with("b", &counter("ocean").replace("\"ea\"", "\"eb\""));
    accepted(&twin);
    for way in ["ea:forward", "ea:backward", "ocean:forward"] {
        wait_for(way, || (link(&twin, way)["counted_by"] == "agent a interface ea").then_some(()));
    }
    assert!(link(&twin, "eb:forward")["counted_by"].is_null());
    follows(&twin);
    let why = twin.json(&["explain", "link", "ocean:forward"])["text"].to_string();
    assert!(why.contains("as `agent a interface ea` counted"), "{why}");
    // The other agent's word for a link that is not its own is left aside; it was told.
    wait_for("the other agent to be told", || twin.log_of("b").contains("[[counter]]").then_some(()));
}

#[test]
fn a_controller_does_not_begin_with_a_mark_that_nobody_can_count_for() {
    let world = crate::world::World::still();
    for (file, text) in [("network.toml", NETWORK), ("shares.toml", FLEXIBLE)] {
        std::fs::write(world.path(file), text).expect("a file can be written");
    }
    let mut command = world.bare_command("controller", "--listen 127.0.0.1:0");
    command.arg("--state-dir").arg(world.path("controller")).arg("--network").arg(world.path("network.toml"));
    command.arg("--shares").arg(world.path("shares.toml"));
    let ended = world.run(command);
    assert_ne!(ended.code(), Some(0));
    for part in ["shares.toml", "`sea` is flexible", "`longhaul class set` once somebody counts"] {
        assert!(ended.err.contains(part), "{part} in {}", ended.err);
    }
}
