//! A twin from `up` to `down`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::world::wait_for;
use crate::{Twins, assert_gone, runs};

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Mean round trip of `count` pings in milliseconds; none if none came back.
fn ping(twins: &Twins, twin: &str, from: &str, to: &str) -> Option<f64> {
    let ended = twins.run(&format!("exec --twin {twin} {from} -- ping -i 0.1 -c 3 -W 1 {to}"));
    let line = ended.out.lines().find(|line| line.starts_with("rtt"))?.to_owned();
    line.split('/').nth(4)?.parse().ok()
}

/// A round trip of `rtt` ms is one over a path of `set` ms. How near it has to be is asked in `tests/truth`, of a median: the mean of three may be some
/// microseconds short of it, and much longer on a busy machine.
#[track_caller]
fn assert_takes(rtt: f64, set: f64) {
    assert!((set - 0.5..set + 30.0).contains(&rtt), "{rtt} ms, and {set} were set");
}

#[test]
fn it_is_listed_as_it_is() {
    let Some(twins) = Twins::new("ls") else { return };
    let name = twins.name("pair");
    let told: Value = serde_json::from_str(&twins.done(&format!("up pair --name {name} --json"))).unwrap();
    let twin = twins.listed(&name).expect("it is up");
    assert_eq!(told, twin, "`up --json` tells the same");
    assert!(keys(&twin).is_superset(&["name", "hosts", "links"].into()), "{twin}");
    let host = |n: usize| &twin["hosts"][n];
    assert_eq!(keys(host(0)), ["name", "namespace", "addresses"].into());
    assert_eq!((&host(0)["name"], &host(1)["name"]), (&"a".into(), &"b".into()));
    assert_eq!(host(0)["namespace"], format!("twin.{name}.a"));
    for address in host(1)["addresses"].as_array().expect("a list") {
        let address = address.as_str().expect("a text");
        assert!(address.parse::<core::net::IpAddr>().is_ok(), "{address}");
        assert!(ping(&twins, &name, "a", address).is_some(), "{address} answers");
    }
    let link = &twin["links"][0];
    assert_eq!(keys(link), ["name", "from", "to", "rate_bps", "delay_ms", "state"].into());
    let expected = serde_json::json!({
        "name": "ab", "from": "a", "to": "b", "rate_bps": 1_000_000_000, "delay_ms": 50.0, "state": "up"
    });
    assert_eq!(link, &expected);
    twins.done(&format!("down {name}"));
    assert_eq!(twins.listed(&name), None);
    assert_gone(&name);
}

#[test]
fn programs_run_on_hosts() {
    let Some(twins) = Twins::new("exec") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let rtt = ping(&twins, &name, "a", "b").expect("a knows b by its name");
    assert_takes(rtt, 100.0);
    assert_eq!(twins.done(&format!("exec --twin {name} a -- echo one two")), "one two\n");
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255)] {
        let mut command = twins.command(&format!("exec --twin {name} b -- sh -c"));
        command.arg(script);
        twins.world.run(command).expect_code(code);
    }
    let mut by_environment = twins.command("exec a -- hostname");
    by_environment.env("LONGHAUL_TWIN", &name);
    twins.world.run(by_environment).expect_code(0);
    let unknown = twins.refused(&format!("exec --twin {name} bb -- true"), 2);
    assert!(unknown.contains("unknown node `bb`; there are: a, b"), "{unknown}");
    let long = twins.name("long");
    twins.done(&format!("up dumbbell --scale 1/100 --name {long}"));
    let slip = twins.refused(&format!("exec --twin {long} lfet -- true"), 2);
    assert!(slip.contains("; did you mean `left`?"), "{slip}");
    let missing = twins.refused(&format!("exec --twin {name} a -- no-such-program"), 1);
    assert!(missing.contains("cannot run `no-such-program` on a"), "{missing}");
}

#[test]
fn links_change_while_they_run() {
    let Some(twins) = Twins::new("link") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let link = |words: &str| twins.done(&format!("link --twin {name} ab {words}"));
    let state = || twins.listed(&name).expect("it is up")["links"][0].clone();

    assert_eq!(link("--cut"), "link ab: cut\n");
    assert_eq!(state()["state"], "cut");
    assert_eq!(ping(&twins, &name, "a", "b"), None, "nothing gets through");
    assert_eq!(link("--heal --delay 10ms --rate 50Mb/s"), "link ab: healed, rate 50Mb/s, delay 10ms\n");
    assert_eq!((&state()["state"], &state()["rate_bps"]), (&"up".into(), &50_000_000.into()));
    let rtt = ping(&twins, &name, "a", "b").expect("it is healed");
    assert_takes(rtt, 20.0);
    link("--way backward --delay 30ms");
    assert_eq!((&state()["delay_ms"], &state()["back"]["delay_ms"]), (&10.0.into(), &30.0.into()));
    let rtt = ping(&twins, &name, "a", "b").expect("it is up");
    assert_takes(rtt, 40.0);
    link("--loss 1");
    assert_eq!(ping(&twins, &name, "a", "b"), None, "all is lost");

    let stats: Value = serde_json::from_str(&twins.done(&format!("stats --twin {name} --json"))).unwrap();
    let ways = stats["directions"].as_array().expect("a list");
    assert_eq!(ways.len(), 2);
    let mut seen = [0, 0];
    for way in ways {
        let count = |key: &str| way["stats"][key]["packets"].as_u64().expect("a number");
        let dropped = |cause: &str| way["stats"]["dropped"][cause]["packets"].as_u64().expect("a number");
        let drops = dropped("queue") + dropped("loss") + dropped("cut") + dropped("delay_line");
        assert_eq!(way["stats"]["conserved"], true);
        assert_eq!(
            count("arrived") + count("duplicated"),
            count("departed") + drops + count("queued") + count("in_flight"),
            "{way}"
        );
        seen = [seen[0] + dropped("cut"), seen[1] + dropped("loss")];
    }
    assert!(seen[0] >= 3 && seen[1] >= 3, "three pings were sent into the cut and three into the loss: {seen:?}");

    for (words, says) in [
        ("ba --cut", "unknown link `ba`; did you mean `ab`?"),
        ("ab", "what is to change?"),
        ("ab --rate fast", "--rate: "),
        ("ab --loss 2", "--loss: "),
        ("ab --cut --way forward", "both ways"),
    ] {
        let said = twins.refused(&format!("link --twin {name} {words}"), 2);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_plain_link_is_cut_in_silence() {
    let Some(twins) = Twins::new("plain") else { return };
    let text = "name = \"plain\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
                [[link]]\nname = \"ar\"\nends = [\"a\", \"r\"]\n[[link]]\nname = \"rb\"\nends = [\"r\", \"b\"]\n";
    let file = twins.file("plain.toml", text).display().to_string();
    let name = twins.name("plain");
    twins.done(&format!("up {file} --name {name}"));
    let at = |host: &str, words: &str| twins.done(&format!("exec --twin {name} {host} -- {words}"));
    let states = || {
        let links = twins.listed(&name).expect("it is up")["links"].clone();
        [links[0]["state"].clone(), links[1]["state"].clone()]
    };
    let known = ["ip route", "ip -6 route", "ip -br link show ar"].map(|words| at("a", words));
    assert_eq!(states(), ["plain", "plain"]);

    assert_eq!(twins.done(&format!("link --twin {name} ar --cut")), "link ar: cut\n");
    // A second time changes nothing.
    twins.done(&format!("link --twin {name} ar --cut"));
    assert_eq!(states(), ["cut", "plain"]);
    assert_eq!(["ip route", "ip -6 route", "ip -br link show ar"].map(|words| at("a", words)), known);
    // A neighbour that is asked for anew is known: else the kernel would say that the host is unreachable.
    at("a", "ip neigh flush all");
    for family in ["-4", "-6"] {
        let ping = twins.run(&format!("exec --twin {name} a -- ping {family} -c 3 -i 0.5 -W 4 b")).expect_code(1);
        assert!(ping.out.contains("100% packet loss") && !ping.out.contains("errors"), "{}", ping.out);
    }
    let back = twins.run(&format!("exec --twin {name} b -- ping -c 2 -i 0.2 -W 1 a")).expect_code(1);
    assert!(back.out.contains("100% packet loss"), "both ways: {}", back.out);

    assert_eq!(twins.done(&format!("link --twin {name} ar --heal")), "link ar: healed\n");
    twins.done(&format!("link --twin {name} ar --heal"));
    assert_eq!(states(), ["plain", "plain"]);
    assert!(ping(&twins, &name, "a", "b").is_some());
    for words in ["--delay 1ms", "--drop 1", "--cut --rate 1Gb/s"] {
        let said = twins.refused(&format!("link --twin {name} ar {words}"), 2);
        assert!(said.contains("link `ar` is plain, it can only be cut and healed: give it a rate"), "{said}");
    }
    assert_eq!(states(), ["plain", "plain"], "what is refused changes nothing");
    twins.done(&format!("down {name}"));
    assert_gone(twins.begin());
}

#[test]
fn what_runs_on_hosts_ends_with_it() {
    let Some(twins) = Twins::new("ends") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let (ordinary, a) = twins.program(&name, "a", "exec sleep 600");
    let (deaf, b) = twins.program(&name, "b", "trap '' TERM; while :; do sleep 0.1; done");
    assert!(runs(a) && runs(b));
    twins.done(&format!("down {name}"));
    assert!(!runs(a) && !runs(b), "one ends when it is asked to, one is killed");
    drop((ordinary, deaf));
    assert_gone(&name);
}

#[test]
fn two_are_apart() {
    let Some(twins) = Twins::new("two") else { return };
    let names = [twins.name("one"), twins.name("other")];
    for name in &names {
        twins.done(&format!("up pair --name {name}"));
    }
    twins.done(&format!("link --twin {} ab --cut", names[0]));
    assert_eq!(ping(&twins, &names[0], "a", "b"), None);
    assert!(ping(&twins, &names[1], "a", "b").is_some(), "the same addresses, and another network");
    let which = twins.refused("exec a -- true", 2);
    assert!(names.iter().all(|name| which.contains(name)), "{which}");
    twins.done(&format!("down {}", names[0]));
    assert_gone(&names[0]);
    assert!(ping(&twins, &names[1], "a", "b").is_some());
    twins.done(&format!("down {}", names[1]));
    assert_gone(twins.begin());
}

#[test]
fn numbers_are_watched() {
    let Some(twins) = Twins::new("watch") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let watch = twins.start(&format!("stats --twin {name} ab --json --watch"));
    let lines = || watch.out().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    assert!(ping(&twins, &name, "a", "b").is_some());
    let second = wait_for("a second look", || lines().get(1).cloned());
    assert!(second["directions"][0]["utilisation"].is_number(), "{second}");
    let once: Value = serde_json::from_str(&twins.done(&format!("stats --twin {name} ab --json"))).unwrap();
    let way = &once["directions"][0];
    assert!(way["utilisation"].as_f64().is_some_and(|used| used > 0.0 && used < 0.01), "{way}");
    for spread in ["queue_bytes", "lateness_ns"] {
        let buckets = way["stats"][spread]["histogram"].as_array().expect("buckets");
        let counted: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
        assert_eq!(counted, 3, "a ping each: {way}");
    }
    let shown = twins.done(&format!("stats --twin {name} ab"));
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[1][..3].to_vec(), rows[1][5]), (vec!["ab", "a→b", "3"], "0.0%"), "{shown}");
    assert!(rows[5][2..6] == ["queue", "0", "B", "0"] && rows[6][0] == "late", "{shown}");
    // Whoever watches sees the end.
    twins.done(&format!("down {name}"));
    let ended = watch.end_within(Duration::from_secs(10)).expect_code(1);
    assert!(ended.err.contains(&name), "{}", ended.err);
}

#[test]
fn other_formats_come_up_too() {
    let Some(twins) = Twins::new("format") else { return };
    for ending in ["clab.yml", "graphml", "json", "toml"] {
        let file = twins.world.path(&format!("lab.{ending}")).display().to_string();
        twins.done(&format!("convert pair {file}"));
        let name = twins.name(&ending.replace('.', "-"));
        twins.done(&format!("up {file} --name {name}"));
        let twin = twins.listed(&name).expect("it is up");
        let link = &twin["links"][0];
        assert_eq!((&link["rate_bps"], &link["delay_ms"]), (&1_000_000_000.into(), &50.0.into()), "{ending}: {twin}");
        twins.done(&format!("down {name}"));
        let again = twins.refused(&format!("convert pair {file}"), 2);
        assert!(again.contains("remove it, or give another name"), "{again}");
    }
    let odd = twins.refused("convert pair /nowhere/lab.odd", 2);
    assert!(odd.contains("its name says no format"), "{odd}");
}
