//! Scenarios through the program.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{Ended, Running, events, under, wait_for};
use crate::{Twins, assert_gone, runs, shipped};

impl Twins {
    fn scenario(&self, text: &str) -> Ended {
        let file = self.file("scenario.toml", text).display().to_string();
        let ended = self.run(&format!("run --json --name {} {file}", self.name("run")));
        assert_gone(self.begin());
        ended
    }
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_cut_under_a_ping() {
    let Some(twins) = Twins::new("cut") else { return };
    let file = shipped("scenarios/cut.toml").display().to_string();
    let ended = twins.run(&format!("run --json --name {} {file}", twins.name("run"))).expect_code(0);
    assert_gone(twins.begin());
    let events = ended.events();
    let summary = ended.summary();
    assert_eq!((&summary["ok"], &summary["failures"]), (&true.into(), &serde_json::json!([])));
    assert!(summary["checks"].as_u64() >= Some(5), "{summary}");
    assert_eq!(summary["links"].as_array().map(Vec::len), Some(2), "both ways: {summary}");
    let changes: Vec<_> = of(&events, "link").iter().map(|event| (&event["link"], &event["change"][0])).collect();
    assert_eq!(changes, [(&"ab".into(), &"cut".into()), (&"ab".into(), &"healed".into())]);
    let seconds: Vec<f64> = events.iter().filter_map(|event| event["seconds"].as_f64()).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");
    let program = of(&events, "ended")[0];
    assert_eq!((&program["program"], &program["host"]), (&"ping".into(), &"a".into()));
    assert!(program["stdout"].as_str().is_some_and(|text| text.contains("50 packets transmitted")));
}

#[test]
fn tcp_fills_a_link_that_gets_slower() {
    let Some(twins) = Twins::new("full") else { return };
    if std::process::Command::new("iperf3").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no iperf3; scripts/bootstrap bench installs it");
    }
    let file = shipped("scenarios/full.toml").display().to_string();
    let ended = twins.run(&format!("run --name {} {file}", twins.name("run"))).expect_code(0);
    assert!(ended.out.lines().last().is_some_and(|line| line.contains("ok: all")), "{}", ended.out);
    assert_gone(twins.begin());
}

#[test]
fn what_does_not_hold_is_told() {
    let Some(twins) = Twins::new("fails") else { return };
    let ended = twins.scenario(
        r#"
        network = "pair"
        duration = "3 s"
        [[run]]
        name = "wrong-code"
        host = "a"
        command = ["sh", "-c", "echo said; echo complained >&2; exit 3"]
        [[run]]
        name = "right-code"
        host = "a"
        command = ["sh", "-c", "exit 4"]
        exit_code = 4
        [[run]]
        name = "any-code"
        host = "a"
        command = ["sh", "-c", "exit 5"]
        exit_code = "any"
        [[run]]
        name = "lacks"
        host = "b"
        command = ["echo", "one", "two"]
        stdout_contains = "three"
        [[run]]
        name = "slow"
        host = "b"
        command = ["sh", "-c", "sleep 600 & sleep 600"]
        timeout = "0.5 s"
        [[run]]
        name = "absent"
        host = "b"
        command = ["no-such-program"]
        [[run]]
        name = "server"
        host = "b"
        command = ["sleep", "600"]
        background = true
        [[run]]
        name = "environment"
        at = "0.2 s"
        host = "a"
        command = ["sh", "-c", "echo twin $LONGHAUL_TWIN"]
        stdout_contains = "twin lh"
        [[assert]]
        link = "ab"
        way = "forward"
        counter = "departed.packets"
        min = 1000
        "#,
    );
    let ended = ended.expect_code(1);
    let events = ended.events();
    let how: Vec<_> =
        of(&events, "ended").into_iter().map(|event| (event["program"].as_str().unwrap(), event)).collect();
    let why = |name: &str| how.iter().find(|(program, _)| *program == name).expect("it was told").1["why"].clone();
    for (name, expected) in [
        ("wrong-code", "it ended with 3, not 0"),
        ("lacks", "its output lacks `three`"),
        ("slow", "it took longer than 500ms"),
    ] {
        assert_eq!(why(name), expected, "{name}");
    }
    assert!(why("absent").as_str().is_some_and(|why| why.contains("cannot run `no-such-program`")));
    for name in ["right-code", "any-code", "server", "environment"] {
        assert_eq!(why(name), Value::Null, "{name}");
    }
    let wrong = how.iter().find(|(name, _)| *name == "wrong-code").expect("it was told").1;
    assert_eq!((&wrong["stdout"], &wrong["stderr"]), (&"said\n".into(), &"complained\n".into()));
    let summary = ended.summary();
    assert_eq!((&summary["ok"], summary["failures"].as_array().map(Vec::len)), (&false.into(), Some(5)), "{summary}");
}

#[test]
fn the_end_comes_in_time() {
    let Some(twins) = Twins::new("late") else { return };
    let begin = Instant::now();
    let ended = twins.scenario(
        "network = \"pair\"\nduration = \"1 s\"\n\
         [[run]]\nname = \"long\"\nhost = \"a\"\ncommand = [\"sleep\", \"600\"]\n",
    );
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(ended.expect_code(1).summary()["failures"], serde_json::json!(["long: it still ran at the end"]));
}

#[test]
fn changes_take_effect() {
    let Some(twins) = Twins::new("change") else { return };
    let ended = twins.scenario(
        r#"
        network = "pair"
        duration = "20 s"
        seed = 3
        [[event]]
        at = "0 s"
        link = "ab"
        delay = "5 ms"
        duplicate = 1
        [[event]]
        at = "1.5 s"
        link = "ab"
        way = "forward"
        loss = "100 %"
        [[run]]
        at = "0.1 s"
        host = "a"
        command = ["ping", "-c", "5", "-i", "0.1", "-W", "1", "b"]
        stdout_contains = "+"
        [[run]]
        at = "1.6 s"
        host = "a"
        command = ["ping", "-c", "3", "-i", "0.1", "-W", "1", "b"]
        exit_code = 1
        stdout_contains = "100% packet loss"
        [[assert]]
        at = "1.5 s"
        link = "ab"
        counter = "duplicated"
        min = 5
        [[assert]]
        since = "1.5 s"
        link = "ab"
        way = "forward"
        counter = "dropped.loss"
        min = 3
        [[assert]]
        at = "1.5 s"
        link = "ab"
        counter = "dropped"
        max = 0
        "#,
    );
    let events = ended.expect_code(0).events();
    let programs: Vec<_> = of(&events, "ended").into_iter().map(|event| event["program"].clone()).collect();
    assert_eq!(programs, ["ping@a", "ping@a-2"]);
    // Five pings and, with every copy copied, ten answers and twenty copies of them.
    let late: Vec<_> = of(&events, "assertion").into_iter().filter(|event| event["counter"] == "duplicated").collect();
    assert_eq!(late.len(), 2, "both ways");
}

/// A run whose program sleeps, once that program runs; and the program's id.
fn endless(twins: &Twins) -> (Running, u32) {
    let text = "network = \"pair\"\nduration = \"10m\"\n[[run]]\nname = \"long\"\nhost = \"a\"\n\
                command = [\"sh\", \"-c\", \"echo $$ > PID; sleep 600 & sleep 600\"]\n";
    let pid = twins.world.path("pid");
    // Of the run before.
    let _ = std::fs::remove_file(&pid);
    let file = twins.file("scenario.toml", &text.replace("PID", &pid.display().to_string())).display().to_string();
    let run = twins.command(&format!("run --json --name {} {file}", twins.name("run")));
    // Also where the tests run under nohup.
    let run = twins.world.start(under(&["env", "--default-signal=HUP"], &run));
    let id: u32 = wait_for("the program", || std::fs::read_to_string(&pid).ok()?.trim().parse().ok());
    assert!(runs(id));
    (run, id)
}

#[test]
fn a_signal_takes_the_twin_down() {
    let Some(twins) = Twins::new("stop") else { return };
    // HUP is what a terminal sends that closes.
    for signal in ["INT", "TERM", "HUP"] {
        let (run, id) = endless(&twins);
        run.signal(signal);
        let ended = run.end_within(Duration::from_secs(15)).expect_code(1);
        assert!(!runs(id), "{signal}");
        assert_gone(twins.begin());
        let failures = ended.summary()["failures"].to_string();
        assert!(failures.contains("interrupted"), "{signal}: {failures}");
    }
}

#[test]
fn without_hangups_it_goes_on() {
    let Some(twins) = Twins::new("nohup") else { return };
    let text = "network = \"pair\"\nduration = \"10 s\"\n[[run]]\nhost = \"a\"\ncommand = [\"sleep\", \"1\"]\n";
    let file = twins.file("scenario.toml", text).display().to_string();
    let run = twins.command(&format!("run --json --name {} {file}", twins.name("run")));
    let run = twins.world.start(under(&["nohup"], &run));
    wait_for("the begin", || (!events(&run.out()).is_empty()).then_some(()));
    run.signal("HUP");
    run.end().expect_code(0);
    assert_gone(twins.begin());
}

#[test]
fn a_plain_link_is_cut_on_time() {
    let Some(twins) = Twins::new("fibre") else { return };
    twins.file(
        "plain.toml",
        "name = \"plain\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\n",
    );
    let ended = twins.scenario(
        r#"
        network = "plain.toml"
        duration = "10 s"
        [[event]]
        at = "0 s"
        link = "ab"
        cut = true
        [[event]]
        at = "2 s"
        link = "ab"
        heal = true
        [[run]]
        host = "a"
        command = ["ping", "-c", "3", "-i", "0.1", "-W", "1", "b"]
        exit_code = 1
        stdout_contains = "100% packet loss"
        [[run]]
        at = "2 s"
        host = "a"
        command = ["ping", "-c", "3", "-i", "0.1", "-W", "1", "b"]
        "#,
    );
    assert_eq!(ended.expect_code(0).summary()["failures"], serde_json::json!([]));
}

#[test]
fn netem_where_the_kernel_has_it() {
    let Some(twins) = Twins::new("netem") else { return };
    let text = "network = \"pair\"\nduration = \"2 s\"\n[[event]]\nat = \"0 s\"\nlink = \"ab\"\ndelay = \"5 ms\"\n\
                [[run]]\nat = \"0.1 s\"\nhost = \"a\"\ncommand = [\"ping\", \"-c\", \"1\", \"b\"]\n";
    let name = twins.name("run");
    for (option, key) in [("--driver netem", ""), ("", "driver = \"netem\"\n")] {
        let file = twins.file("scenario.toml", &format!("{key}{text}")).display().to_string();
        let ended = twins.run(&format!("run --json {option} --name {name} {file}"));
        assert_gone(twins.begin());
        if ended.code() == Some(0) {
            assert_eq!(ended.summary()["links"], serde_json::json!([]), "it keeps no books");
            continue;
        }
        assert!(ended.err.contains("the kernel refuses netem on link `ab`: leave out netem"), "{}", ended.err);
        // Longhaul's own is there all the same.
        twins.run(&format!("run --driver own --name {name} {file}")).expect_code(0);
    }
    let text = format!("{text}[[assert]]\nlink = \"ab\"\ncounter = \"dropped\"\nmax = 0\n");
    let file = twins.file("scenario.toml", &text).display().to_string();
    let said = twins.refused(&format!("run --driver netem {file}"), 2);
    assert!(said.contains("--driver: netem does not count"), "{said}");
}

#[test]
fn the_emulators_end_is_an_end() {
    let Some(twins) = Twins::new("dies") else { return };
    let text = "network = \"pair\"\nduration = \"30 s\"\n[[event]]\nat = \"2 s\"\nlink = \"ab\"\ncut = true\n";
    let file = twins.file("scenario.toml", text).display().to_string();
    let run = twins.start(&format!("run --json --name {} {file}", twins.name("run")));
    wait_for("the begin", || (!events(&run.out()).is_empty()).then_some(()));
    crate::kill(crate::emulators(twins.begin())[0]);
    let ended = run.end().expect_code(1);
    assert_gone(twins.begin());
    let failures = ended.summary()["failures"].to_string();
    assert!(failures.contains("does not answer"), "{failures}");
}

#[test]
fn the_twin_of_another_is_left_alone() {
    let Some(twins) = Twins::new("taken") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let file = twins.file("scenario.toml", "network = \"pair\"\nduration = \"1 s\"\n").display().to_string();
    let ended = twins.run(&format!("run --json --name {name} {file}")).expect_code(1);
    assert!(ended.summary()["error"].as_str().is_some_and(|why| why.contains("is there already")), "{}", ended.out);
    assert!(ended.err.contains("is there already"), "{}", ended.err);
    assert_eq!(twins.listed(&name).expect("it is still up")["links"][0]["state"], "up");
}

#[test]
fn a_file_that_is_no_scenario() {
    let Some(twins) = Twins::new("nofile") else { return };
    for (text, says) in [
        (
            "network = \"pair\"\nduration = \"5 s\"\n[[event]]\nat = \"9 s\"\nlink = \"ab\"\ncut = true\n",
            ":4: [[event]]: at: ",
        ),
        ("network = \"pear\"\nduration = \"5 s\"\n", ":1: network: cannot read "),
        ("network = 3\n", ":1: network: write a text"),
    ] {
        let file = twins.file("bad.toml", text).display().to_string();
        let said = twins.refused(&format!("run {file}"), 2);
        assert!(said.contains(&format!("bad.toml{says}")), "{said}");
    }
    let said = twins.refused("run /nowhere/no.toml", 2);
    assert!(said.contains("cannot read /nowhere/no.toml"), "{said}");
    // The network lies beside the scenario.
    twins.file(
        "near.toml",
        "name = \"near\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"n\"\nends = [\"a\", \"b\"]\ndelay = \"1 ms\"\n",
    );
    let ended = twins.scenario(
        "network = \"near.toml\"\nduration = \"1 s\"\n[[assert]]\nlink = \"n\"\ncounter = \"dropped\"\nmax = 0\n",
    );
    assert_eq!(ended.expect_code(0).summary()["ok"], true);
}
