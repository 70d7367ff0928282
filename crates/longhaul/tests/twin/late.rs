//! An emulator that does not get to run: what that does to packets is told.

use serde_json::Value;

use crate::world::{events, wait_for};
use crate::{Twins, assert_gone, emulators, signal};

/// Both directions of the only link, as `twin stats --json` has them.
fn ways(twins: &Twins, twin: &str) -> [Value; 2] {
    let stats: Value = serde_json::from_str(&twins.done(&format!("stats --twin {twin} --json"))).expect("it is JSON");
    [0, 1].map(|way| stats["directions"][way]["stats"].clone())
}

/// More pings at once than wait in a device; nobody waits for answers.
const FLOOD: &str = "ping -q -c 10500 -l 10500 -W 1 b";
const IN_FLOOD: u64 = 10_500;

#[test]
fn what_the_kernel_dropped_before_it_was_read_is_unplanned() {
    let Some(twins) = Twins::new("unread") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let emulator = emulators(&name)[0];
    signal(emulator, "STOP");
    let flood = twins.run(&format!("exec --twin {name} a -- {FLOOD}"));
    signal(emulator, "CONT");
    assert!(flood.out.contains(&format!("{IN_FLOOD} packets transmitted")), "{}", flood.out);
    let dropped = |way: &Value| way["unplanned"]["tx_dropped"].as_u64().expect("a number");
    let [there, back] = wait_for("every packet to be in one of the books", || {
        let ways = ways(&twins, &name);
        let arrived = ways[0]["arrived"]["packets"].as_u64().expect("a number");
        (arrived + dropped(&ways[0]) == IN_FLOOD).then_some(ways)
    });
    let dropped = (dropped(&there), dropped(&back));
    assert!(dropped.0 > 0 && dropped.1 == 0, "{dropped:?}");
    assert_eq!(there["conserved"], true);
    let shown = twins.done(&format!("stats --twin {name}"));
    assert!(shown.lines().nth(1).is_some_and(|line| line.contains(&format!("{} unplanned", dropped.0))), "{shown}");
}

#[test]
fn a_run_fails_when_the_kernel_dropped_packets() {
    let Some(twins) = Twins::new("lossy") else { return };
    let text = format!(
        "network = \"pair\"\nduration = \"20 s\"\n\
         [[run]]\nname = \"flood\"\nat = \"1 s\"\nhost = \"a\"\nexit_code = \"any\"\ncommand = [\"{}\"]\n",
        FLOOD.replace(' ', "\", \"")
    );
    let file = twins.file("scenario.toml", &text).display().to_string();
    let run = twins.start(&format!("run --json --name {} {file}", twins.name("run")));
    let told = |kind: &str| events(&run.out()).iter().any(|event| event["event"] == kind);
    wait_for("the begin", || told("up").then_some(()));
    let emulator = emulators(twins.begin())[0];
    signal(emulator, "STOP");
    wait_for("the flood to be over", || told("ended").then_some(()));
    signal(emulator, "CONT");
    let ended = run.end().expect_code(1);
    assert_gone(twins.begin());
    let failures = ended.summary()["failures"].to_string();
    assert!(failures.contains("dropped by the kernel before they could be read"), "{failures}");
}
