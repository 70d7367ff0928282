//! An emulator that does not get to run: what that does to packets is told.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::world::{events, wait_for};
use crate::{Twins, assert_gone, emulators, signal};

/// Both directions of the only link, as `twin stats --json` has them.
fn ways(twins: &Twins, twin: &str) -> [Value; 2] {
    let stats: Value = serde_json::from_str(&twins.done(&format!("stats --twin {twin} --json"))).expect("it is JSON");
    [0, 1].map(|way| stats["directions"][way]["stats"].clone())
}

/// More pings at once than wait in a device; nobody waits for answers.
const FLOOD: &str = "ping -q -c 20500 -l 20500 -W 1 b";
const IN_FLOOD: u64 = 20_500;

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
    // They wait in the device until thousands before them are read; the link hears only then that they came.
    assert!(there["ingress_late"].as_u64() > Some(IN_FLOOD / 2), "{there}");
    assert_eq!(there["emulator_late"], true);
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

/// How often an emulator may be late although nobody stops it: others have the machine, too. In a bad hour of a virtual machine every second one was,
/// with nothing else to do; beside other tests five in a row.
const TRIES: usize = 20;
/// A second and a half of traffic.
const PINGS: &str = "ping -q -c 150 -i 0.01 b";

/// The emulator is stopped for a good third of the next 1.3 s.
fn stop_again_and_again(emulator: u32) {
    for _ in 0..8 {
        signal(emulator, "STOP");
        sleep(Duration::from_millis(60));
        signal(emulator, "CONT");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_late_emulator_is_marked_and_one_in_time_is_not() {
    let Some(twins) = Twins::new("marked") else { return };
    let shown = |name: &str| twins.done(&format!("stats --twin {name}"));
    let in_time = (0..TRIES).any(|n| {
        let name = twins.name(&format!("in-time-{n}"));
        twins.done(&format!("up pair --name {name}"));
        twins.done(&format!("exec --twin {name} a -- {PINGS}"));
        let is_late = ways(&twins, &name).iter().any(|way| way["emulator_late"] == true);
        assert_eq!(shown(&name).contains("emulator late"), is_late);
        twins.done(&format!("down {name}"));
        !is_late
    });
    assert!(in_time, "late {TRIES} times although it was not stopped");

    let name = twins.name("late");
    twins.done(&format!("up pair --name {name}"));
    let pings = twins.start(&format!("exec --twin {name} a -- {PINGS}"));
    stop_again_and_again(emulators(&name)[0]);
    pings.end().expect_code(0);
    for way in ways(&twins, &name) {
        assert_eq!(way["emulator_late"], true, "{way}");
        let late = way["late_packets"].as_u64().expect("a number");
        assert!(late > 150 / 100, "more than one in a hundred: {way}");
        assert!(way["lateness_ns"]["p99"].as_u64() > Some(1_000_000) && way["conserved"] == true, "{way}");
    }
    let shown = shown(&name);
    let marks: Vec<bool> = shown.lines().skip(1).take(2).map(|line| line.ends_with("emulator late")).collect();
    assert_eq!(marks, [true, true], "{shown}");
}

#[test]
fn a_run_says_that_its_emulator_was_late() {
    let Some(twins) = Twins::new("told-late") else { return };
    // The twin stays as long as its emulator is stopped.
    let text = format!(
        "network = \"pair\"\nduration = \"20 s\"\n[[run]]\nhost = \"b\"\ncommand = [\"sleep\", \"2\"]\n\
         [[run]]\nhost = \"a\"\ncommand = [\"{}\"]\n",
        PINGS.replace(' ', "\", \"")
    );
    let file = twins.file("scenario.toml", &text).display().to_string();
    let in_time = (0..TRIES).any(|_| {
        let ended = twins.run(&format!("run --json --name {} {file}", twins.name("in-time"))).expect_code(0);
        let warnings = ended.events().iter().filter(|event| event["event"] == "warning").count();
        let is_late = ended.summary()["emulator_late"].as_bool().expect("it says so");
        assert_eq!(warnings, usize::from(is_late), "{}", ended.out);
        !is_late
    });
    assert!(in_time, "late {TRIES} times although it was not stopped");

    let run = twins.start(&format!("run --name {} {file}", twins.name("late")));
    wait_for("the pings", || run.out().contains("starts on a").then_some(()));
    stop_again_and_again(emulators(&twins.name("late"))[0]);
    // It has not failed: what was asserted holds. But nobody can miss it.
    let ended = run.end().expect_code(0);
    let told = ended.out.lines().find(|line| line.contains("emulator late")).expect("it says so");
    assert!(told.contains("link ab a→b, p99 ") && told.contains("no number of this run is to be trusted"), "{told}");
    assert_gone(twins.begin());
}
