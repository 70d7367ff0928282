//! A cut of a link that carries a transfer, seen by the agents alone: the link is named, bytes go on over another path, and come back.
//!
//! Needs root and namespaces; without them it says so and passes.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::tree::left_behind;
use crate::twinned::Twinned;
use crate::world::{events, wait_for};

/// Two hosts, two ways across the sea that share nothing between the routers, and a host of the controller's at both of these.
const NETWORK: &str = r#"
name = "two-ways"
hosts = ["a", "b", "ctl"]
routers = ["ra", "rb"]

[[link]]
name = "ea"
ends = ["a", "ra"]
rate = "1 Gb/s"

[[link]]
name = "north"
ends = ["ra", "rb"]
rate = "100 Mb/s"
delay = "10 ms"
high_water = "80 %"

[[link]]
name = "south"
ends = ["ra", "rb"]
rate = "80 Mb/s"
delay = "15 ms"
high_water = "80 %"

[[link]]
name = "eb"
ends = ["rb", "b"]
rate = "1 Gb/s"

[[link]]
name = "ca"
ends = ["ctl", "ra"]

[[link]]
name = "cb"
ends = ["ctl", "rb"]

[[path]]
name = "over-north"
from = "a"
to = "b"
links = ["ea", "north", "eb"]

[[path]]
name = "over-south"
from = "a"
to = "b"
links = ["ea", "south", "eb"]
"#;

const SHARES: &str = "[[class]]\nname = \"cms\"\n";
/// At 80 Mb/s some 20 s.
const LENGTH: usize = 200 << 20;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_millis()).expect("it fits")
}

fn of_kind(told: &str, kind: &str) -> Vec<Value> {
    events(told).into_iter().filter(|event| event["kind"] == kind).collect()
}

/// A path of which something is known by now.
fn known(twin: &Twinned, name: &str) -> Option<Value> {
    let told = twin.json(&["topology", "paths"]);
    let path = told["paths"].as_array().expect("a list").iter().find(|path| path["name"] == name)?;
    (path["rtt_us"].is_object() && path["loss_ppm"].is_object()).then(|| path.clone())
}

#[test]
fn a_cut_is_named_survived_and_over_after_its_hold_down() {
    let Some(mut twin) = Twinned::new("paths", NETWORK, SHARES, "ctl", "[paths]\nhold = \"3 s\"\n") else { return };
    for host in ["a", "b"] {
        twin.agent(host);
        twin.endpoint(host, &[host]);
    }
    std::fs::write(twin.data("a").join("big"), vec![7; LENGTH]).expect("a file can be written");
    let told = twin.follow();
    let (from, to) = (twin.data("a").join("big"), twin.data("b").join("big"));
    let id = twin.submit(&format!("a:{}", from.display()), &format!("b:{}", to.display()), "cms");

    // The wider way, alone.
    wait_for("bytes over the north", || (twin.carried("north") > 5_000_000).then_some(()));
    assert!(twin.carried("south") < 200_000, "{} bytes went over the other path", twin.carried("south"));

    // Both are asked over, whichever is used; the emulated ocean is 10 or 15 ms wide each way.
    for (name, least_us, sessions) in [("over-north", 20_000, 1), ("over-south", 30_000, 0)] {
        let path = wait_for("a round trip and a loss", || known(&twin, name));
        assert_eq!((&path["state"], &path["sessions"]), (&"answering".into(), &sessions.into()), "{path:#}");
        let ends = |of: &str| ["low", "value", "high"].map(|end| path[of][end].as_u64().expect("a number"));
        let (rtt, loss) = (ends("rtt_us"), ends("loss_ppm"));
        assert!(rtt.is_sorted() && rtt[0] >= least_us && loss.is_sorted() && loss[2] > 0, "{path:#}");
        assert_eq!(path["links"][1], format!("{}:forward", name.trim_start_matches("over-")));
    }
    let table = twin.ask(&["topology", "paths"]).expect_code(0).out;
    assert!(table.starts_with("PATH") && table.lines().any(|line| line.starts_with("over-north")), "{table}");

    let (cut_ms, cut) = (now_ms(), Instant::now());
    twin.link("north", "--cut");
    let before = twin.carried("south");
    let moved = wait_for("bytes over the south", || (twin.carried("south") > before + 500_000).then(|| cut.elapsed()));
    let down = wait_for("the cut to be told", || of_kind(&told.out(), "link_down").first().cloned());
    let at = down["at"].as_str().expect("a time").parse::<units::Utc>().expect("it is one");
    let detected = Duration::from_millis(u64::try_from(at.0 / 1_000_000).expect("it is now").saturating_sub(cut_ms));
    // How fast it is, is measured by `bench/loop --only cut`.
    eprintln!("detected after {detected:?}, bytes over the other path after {moved:?}");
    assert_eq!(down["subject"], "north", "{down:#}");
    assert_eq!(of_kind(&told.out(), "link_down").len(), 1, "nothing else is accused: {}", told.out());

    let why = twin.json(&["explain", "link", "north:forward"])["text"].to_string();
    for part in ["down since", "over-north", &id] {
        assert!(why.contains(part), "{part} in {why}");
    }
    let why = twin.json(&["explain", "transfer", &id])["text"].to_string();
    assert!(
        why.contains("goes over path `over-south` since") && why.contains("before over path `over-north`"),
        "{why}"
    );
    // The rate is that of the other path.
    wait_for("the rate of the other path", || {
        let given = twin.json(&["transfer", "show", &id])["allocated_bps"].as_u64().expect("a number");
        (given.abs_diff(64_000_000) < 100_000).then_some(())
    });

    let healed = Instant::now();
    twin.link("north", "--heal");
    wait_for("the link to be up", || of_kind(&told.out(), "link_up").first().cloned());
    let up = healed.elapsed();
    wait_for("the hold-down to be over", || of_kind(&told.out(), "link_usable").first().cloned());
    let usable = healed.elapsed();
    let before = twin.carried("north");
    wait_for("bytes over the north again", || (twin.carried("north") > before + 500_000).then_some(()));
    eprintln!("up after {up:?}, usable after {usable:?}, bytes over it again after {:?}", healed.elapsed());
    assert!(usable >= up + Duration::from_secs(2), "it is held down: {usable:?} after {up:?}");

    let ended = twin.end_of(&id);
    assert_eq!(ended["state"], "done", "{ended:#}");
    let same = Command::new("cmp").args([&from, &to]).status().expect("cmp runs");
    assert!(same.success(), "what arrived is what was sent");
    assert!(left_behind(&twin.data("b")).is_empty());
    // One session from begin to end: neither the cut nor the way back ended it.
    assert_eq!(of_kind(&told.out(), "session_started").len(), 1, "{}", told.out());
}
