//! A cut of a link that carries a transfer, seen by the agents alone: the link is named, bytes go on over another path, and come back. Paths
//! are bound by addresses, or by what packets carry between the same two.
//!
//! Needs root and namespaces; without them it says so and passes.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::tree::left_behind;
use crate::twinned::Twinned;
use crate::world::{Running, events, wait_for};

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

/// Waits until no link is in trouble: on a machine that stood still, answers may have been missing on one that works. How many were, so far.
#[track_caller]
fn all_work(told: &Running) -> usize {
    wait_for("links that all work", || {
        let told = told.out();
        let down = of_kind(&told, "link_down").len();
        (of_kind(&told, "link_usable").len() == down).then_some(down)
    })
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

    // The wider way, alone, unless it was accused before.
    wait_for("bytes over the north", || (twin.carried("north") > 5_000_000).then_some(()));
    let south = twin.carried("south");
    assert!(south < 200_000 || all_work(&told) > 0, "{south} bytes went over the other path: {}", told.out());

    all_work(&told);
    // Both are asked over, whichever is used; the emulated ocean is 10 or 15 ms wide each way, and may be some microseconds short of it.
    for (name, least_us, sessions) in [("over-north", 19_500, 1), ("over-south", 29_500, 0)] {
        let path = wait_for("a round trip and a loss", || known(&twin, name));
        assert_eq!((&path["state"], &path["sessions"]), (&"answering".into(), &sessions.into()), "{path:#}");
        let ends = |of: &str| ["low", "value", "high"].map(|end| path[of][end].as_u64().expect("a number"));
        let (rtt, loss) = (ends("rtt_us"), ends("loss_ppm"));
        assert!(rtt.is_sorted() && rtt[0] >= least_us && loss.is_sorted() && loss[2] > 0, "{path:#}");
        assert_eq!(path["links"][1], format!("{}:forward", name.trim_start_matches("over-")));
    }
    let table = twin.ask(&["topology", "paths"]).expect_code(0).out;
    assert!(table.starts_with("PATH") && table.lines().any(|line| line.starts_with("over-north")), "{table}");

    let earlier = all_work(&told);
    let (cut_ms, cut) = (now_ms(), Instant::now());
    twin.link("north", "--cut");
    let before = twin.carried("south");
    let moved = wait_for("bytes over the south", || (twin.carried("south") > before + 500_000).then(|| cut.elapsed()));
    let down = wait_for("the cut to be told", || of_kind(&told.out(), "link_down").get(earlier).cloned());
    let at = down["at"].as_str().expect("a time").parse::<units::Utc>().expect("it is one");
    let detected = Duration::from_millis(u64::try_from(at.0 / 1_000_000).expect("it is now").saturating_sub(cut_ms));
    // How fast it is, is measured by `bench/loop --only cut`.
    eprintln!("detected after {detected:?}, bytes over the other path after {moved:?}");
    assert_eq!(down["subject"], "north", "{down:#}");
    assert_eq!(of_kind(&told.out(), "link_down").len(), earlier + 1, "nothing else is accused: {}", told.out());

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
    wait_for("the link to be up", || of_kind(&told.out(), "link_up").get(earlier).cloned());
    let up = healed.elapsed();
    wait_for("the hold-down to be over", || of_kind(&told.out(), "link_usable").get(earlier).cloned());
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

#[test]
fn who_is_limited_on_one_path_goes_over_to_the_other() {
    let Some(mut twin) = Twinned::new("balance", NETWORK, SHARES, "ctl", "") else { return };
    for host in ["a", "b"] {
        twin.agent(host);
        twin.endpoint(host, &[host]);
    }
    std::fs::write(twin.data("a").join("big"), vec![7; LENGTH / 2]).expect("a file can be written");
    let told = twin.follow();
    let (from, to) = (twin.data("a").join("big"), twin.data("b").join("big"));
    let id = twin.submit(&format!("a:{}", from.display()), &format!("b:{}", to.display()), "cms");
    wait_for("bytes over the north", || (twin.carried("north") > 5_000_000).then_some(()));

    let before = twin.carried("south");
    twin.ask(&["limit", "set", "north", "--rate", "10Mb/s", "--for", "10m", "--why", "amplifier test"]).expect_code(0);
    wait_for("bytes over the south", || (twin.carried("south") > before + 2_000_000).then_some(()));
    // What the kernel held of it does not go on over the path that is limited.
    let (north, at) = (twin.carried("north"), twin.carried("south"));
    wait_for("more bytes over the south", || (twin.carried("south") > at + 8_000_000).then_some(()));
    let stray = twin.carried("north") - north;
    assert!(stray < 500_000, "{stray} bytes went over the north after that");
    let why = twin.json(&["explain", "transfer", &id])["text"].to_string();
    let moved = "before over path `over-north`: 64 Mb/s over this, 10 Mb/s over that";
    assert!(why.contains("goes over path `over-south` since") && why.contains(moved), "{why}");
    let [event] = &of_kind(&told.out(), "transfer_path")[..] else { panic!("one move: {}", told.out()) };
    let text = "a session goes over path `over-south` now: 64 Mb/s over this, 10 Mb/s over path `over-north`";
    assert_eq!(event["text"], text, "{event:#}");

    let ended = twin.end_of(&id);
    assert_eq!(ended["state"], "done", "{ended:#}");
    let same = Command::new("cmp").args([&from, &to]).status().expect("cmp runs");
    assert!(same.success(), "what arrived is what was sent");
    // The same session from begin to end.
    assert_eq!(of_kind(&told.out(), "session_started").len(), 1, "{}", told.out());
    assert_eq!(of_kind(&told.out(), "transfer_path").len(), 1, "{}", told.out());
}

/// At 64 Mb/s some 10 s: long after the cut.
const MARKED_LENGTH: usize = 80 << 20;

/// The network with marks in place of addresses for each path; the twin gives both paths the same two.
fn marked(north: &str, south: &str) -> String {
    let bound = |network: String, links: &str, marks: &str| {
        assert!(network.contains(links), "{network}");
        network.replace(links, &format!("{links}\n{marks}"))
    };
    let network = bound(NETWORK.to_owned(), "links = [\"ea\", \"north\", \"eb\"]", north);
    bound(network, "links = [\"ea\", \"south\", \"eb\"]", south)
}

/// Bytes go over the one path, it is cut, and they go over the other, both ways: between the same addresses.
#[track_caller]
fn goes_by_marks(topic: &str, [north, south]: [&str; 2], told_marks: &str) {
    let Some(mut twin) = Twinned::new(topic, &marked(north, south), SHARES, "ctl", "") else { return };
    for host in ["a", "b"] {
        twin.agent(host);
        twin.endpoint(host, &[host]);
    }
    let paths = twin.json(&["topology", "paths"])["paths"].as_array().expect("a list").clone();
    let of = |id: &str| paths.iter().find(|path| path["id"] == id).expect("it is one of them").clone();
    let (over_north, over_south) = (of("over-north:forward"), of("over-south:backward"));
    assert_eq!(over_north["from_address"], over_south["to_address"], "{over_north:#}{over_south:#}");
    assert_eq!(over_north["to_address"], over_south["from_address"]);
    assert!(twin.ask(&["topology", "paths"]).expect_code(0).out.contains(told_marks));

    let send = |name: &str, from: &str, to: &str| {
        let (here, there) = (twin.data(from).join(name), twin.data(to).join(name));
        std::fs::write(&here, vec![7; MARKED_LENGTH]).expect("a file can be written");
        let id = twin.submit(&format!("{from}:{}", here.display()), &format!("{to}:{}", there.display()), "cms");
        (id, here, there)
    };
    let told = twin.follow();
    let (id, from, to) = send("big", "a", "b");
    wait_for("bytes over the north", || (twin.carried("north") > 5_000_000).then_some(()));

    let earlier = all_work(&told);
    twin.link("north", "--cut");
    let before = twin.carried("south");
    wait_for("bytes over the south", || (twin.carried("south") > before + 5_000_000).then_some(()));
    wait_for("the cut to be told", || of_kind(&told.out(), "link_down").get(earlier).cloned());
    wait_for("the session's way to be told", || {
        let moves = of_kind(&told.out(), "transfer_path");
        moves.iter().any(|event| event.to_string().contains("over-south")).then_some(())
    });
    let ended = twin.end_of(&id);
    assert_eq!(ended["state"], "done", "{ended:#}");
    assert!(Command::new("cmp").args([&from, &to]).status().expect("cmp runs").success());
    assert_eq!(of_kind(&told.out(), "session_started").len(), 1, "{}", told.out());

    // While it is cut a new session can only begin with connections that are answered over the south, too.
    let before = twin.carried("south");
    let (id, from, to) = send("back", "b", "a");
    let ended = twin.end_of(&id);
    assert_eq!(ended["state"], "done", "{ended:#}");
    assert!(Command::new("cmp").args([&from, &to]).status().expect("cmp runs").success());
    assert!(twin.carried("south") > before + MARKED_LENGTH as u64, "it went over the south");
}

// One after the other: each has a twin of its own, and what is late on a busy machine looks like a cut.
#[test]
fn sessions_take_paths_between_the_same_addresses_by_their_marks() {
    goes_by_marks("dscp", ["dscp = \"af21\"", "dscp = \"af22\""], "DSCP af22");
    let labels = ["flow_label = 0x12345", "dscp = 40\nflow_label = 0x54321"];
    goes_by_marks("label", labels, "DSCP cs5, flow label 0x54321");
}

#[test]
fn a_host_that_would_answer_without_marks_says_so_and_the_path_is_left() {
    // The south is bound by addresses, which the twin makes up.
    let network = marked("dscp = \"af21\"", "addresses = [\"192.0.2.1\", \"192.0.2.2\"]");
    let Some(mut twin) = Twinned::new("mute", &network, SHARES, "ctl", "") else { return };
    twin.sysctl("b", "net/ipv4/tcp_reflect_tos", "0");
    for host in ["a", "b"] {
        twin.agent(host);
        twin.endpoint(host, &[host]);
    }
    let (from, to) = (twin.data("a").join("big"), twin.data("b").join("big"));
    std::fs::write(&from, vec![7; LENGTH]).expect("a file can be written");
    let id = twin.submit(&format!("a:{}", from.display()), &format!("b:{}", to.display()), "cms");
    let said = wait_for("what is to be done", || {
        let log = twin.log_of("b");
        log.lines().find(|line| line.contains("does not answer connections with the marks")).map(str::to_owned)
    });
    assert!(said.contains("sysctl -w net.ipv4.tcp_reflect_tos=1"), "{said}");
    assert!(!twin.log_of("a").contains("does not answer connections"));
    // The wider path is one that was never answered: the other one is better.
    wait_for("bytes over the south", || (twin.carried("south") > 5_000_000).then_some(()));
    assert_eq!(twin.end_of(&id)["state"], "done");
}
