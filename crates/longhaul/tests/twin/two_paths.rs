//! A throughput test over two paths of which one loses packets.

use std::collections::BTreeSet;

use crate::Twins;
use crate::world::{under, wait_for};

/// The second loses one packet of a thousand, and is four times as long.
const NETWORK: &str = r#"
name = "two"
hosts = ["a", "b"]
[[link]]
name = "clean"
ends = ["a", "b"]
rate = "100 Mb/s"
delay = "10 ms"
[[link]]
name = "lossy"
ends = ["a", "b"]
rate = "100 Mb/s"
delay = "40 ms"
loss = 1e-3
[[path]]
name = "over-clean"
from = "a"
to = "b"
links = ["clean"]
[[path]]
name = "over-lossy"
from = "a"
to = "b"
links = ["lossy"]
"#;
/// A connection that has sent so much carries data.
const DATA: u64 = 500_000;

/// The congestion controls of the connections to an address that carry data, from `ss -Htni`: a line for the connection and one for what
/// the kernel knows of it, which begins with the congestion control.
fn controls(sockets: &str, to: &str) -> BTreeSet<String> {
    let lines: Vec<_> = sockets.lines().collect();
    let sent = |line: &str| line.split("bytes_sent:").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let peer = |line: &str| line.split_whitespace().nth(4).unwrap_or_default().replace(['[', ']'], "");
    let carries = |two: &&[&str]| peer(two[0]).starts_with(&format!("{to}:")) && sent(two[1]) > Some(DATA);
    let name = |two: &[&str]| two[1].split_whitespace().next().unwrap_or_default().to_owned();
    lines.windows(2).filter(carries).map(name).collect()
}

#[test]
fn streams_over_the_path_that_loses_packets_go_over_to_bbr_and_the_others_do_not() {
    let Some(mut twins) = Twins::new("two-paths") else { return };
    let name = twins.name("two");
    let network = twins.file("two.toml", NETWORK).display().to_string();
    twins.done(&format!("up {network} --name {name}"));
    twins.world.start_agent_under(&["ip", "netns", "exec", &format!("twin.{name}.b")], "[::]:4810");
    let on_a = |words: &str| twins.on(&name, "a", words);
    if !twins.has_bbr(&name) {
        return;
    }
    let known = |path: &str| twins.done(&format!("exec --twin {name} a -- getent hosts b.{path}"));
    let address = |path: &str| known(path).split_whitespace().next().unwrap().to_owned();
    let (clean, lossy) = (address("over-clean"), address("over-lossy"));
    assert_ne!(clean, lossy);

    let mut command = twins.world.command("test throughput", "--json --streams 4 --duration 30s");
    command.arg("b.over-clean:4810,b.over-lossy").args(["--fingerprint", twins.world.fingerprint()]);
    let exec = [env!("CARGO_BIN_EXE_longhaul"), "twin", "exec", "--twin", &name, "a", "--"];
    let mut test = twins.world.start(under(&exec, &command));
    let now = |to: &str| controls(&on_a("ss -Htni dport = :4810"), to);
    let only = |name: &str| BTreeSet::from([name.to_owned()]);
    wait_for("the streams over the lossy path to have bbr", || {
        assert!(!test.has_ended(), "{}{}", test.out(), test.err());
        assert!(!now(&clean).contains("bbr"), "no packet was lost on the way to {clean}");
        (now(&lossy) == only("bbr")).then_some(())
    });
    let others = now(&clean);
    assert!(!others.is_empty() && !others.contains("bbr"), "{others:?}");
}
