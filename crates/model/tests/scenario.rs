//! Scenarios as they are written: what they mean, and what is refused with which words.

use std::time::Duration;

use model::network::{Network, Ratio, shipped};
use model::scenario::{Counter, Driver, ENTRIES_MAX, Scenario, Step, Way};

fn load(name: &str) -> Result<Network, String> {
    let (_, text) = shipped().iter().find(|(known, _)| *known == name).ok_or_else(|| format!("no network `{name}`"))?;
    Network::from_toml(text, name).map_err(|error| error.to_string())
}

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_toml(text, "x.toml", load).map_err(|error| error.to_string())
}

const HEAD: &str = "network = \"pair\"\nduration = \"30 s\"\n";

#[test]
fn everything_that_can_be_written() {
    let text = r#"
        about = "all of it"
        network = "transatlantic"
        scale = "1/10"
        seed = 7
        duration = "30 s"
        [[event]]
        at = "2 s"
        link = "newyork-london"
        rate = "500 Mb/s"
        loss = 0.01
        jitter = "1 ms"
        reorder = true
        way = "backward"
        [[run]]
        name = "server"
        host = "cern"
        command = ["iperf3", "-s"]
        background = true
        exit_code = "any"
        [[run]]
        at = "1 s"
        host = "caltech"
        command = ["/usr/bin/ping", "cern"]
        timeout = "20 s"
        exit_code = 1
        stdout_contains = "packets"
        [[run]]
        host = "caltech"
        command = ["ping"]
        [[assert]]
        link = "newyork-london"
        way = "forward"
        counter = "rate"
        since = "1 s"
        at = "2 s"
        min = "90 Mb/s"
        max = "1 Gb/s"
        [[assert]]
        link = "newyork-london"
        counter = "dropped.queue"
        max = 5
    "#;
    let network = load("transatlantic").unwrap();
    let link = &network.links.iter().find(|link| link.bundle.is_some()).expect("it has parallel members");
    let text = text.replace("newyork-london", link.bundle.as_deref().expect("just looked for"));
    let scenario = read(&text).unwrap();
    assert_eq!((scenario.scale, scenario.seed), (Ratio::new(1, 10).unwrap(), 7));
    let event = &scenario.events[0];
    assert!(event.links.len() > 1, "all members are meant");
    assert_eq!((event.up, event.way), (None, Some(Way::Backward)));
    let changes: Vec<_> = event.changes.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    assert_eq!(changes, [("rate", "500 Mb/s"), ("jitter", "1 ms"), ("reorder", "true"), ("loss", "0.01")]);
    let names: Vec<_> = scenario.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["server", "ping@caltech", "ping@caltech-2"]);
    let codes: Vec<_> = scenario.programs.iter().map(|program| program.exit_code).collect();
    assert_eq!(codes, [None, Some(1), Some(0)]);
    let [rate, drops] = &scenario.assertions[..] else { panic!("{:?}", scenario.assertions) };
    assert_eq!((rate.counter, rate.min, rate.max), (Counter::Rate, Some(90_000_000), Some(1_000_000_000)));
    assert_eq!(rate.bounds(), "at least 90 Mb/s and at most 1 Gb/s");
    assert!(!rate.holds(89_999_999) && rate.holds(90_000_000) && !rate.holds(1_000_000_001));
    assert_eq!((drops.at, drops.since, drops.min, drops.max), (None, None, None, Some(5)));
}

#[test]
fn steps_are_in_order() {
    let text = format!(
        "{HEAD}[[run]]\nat = \"2 s\"\nhost = \"a\"\ncommand = [\"x\"]\n\
         [[event]]\nat = \"2 s\"\nlink = \"ab\"\ncut = true\n\
         [[event]]\nat = \"1 s\"\nlink = \"ab\"\nheal = true\n\
         [[assert]]\nat = \"2 s\"\nlink = \"ab\"\ncounter = \"rate\"\nmax = \"1 Gb/s\"\n"
    );
    let steps = read(&text).unwrap().steps();
    let at = Duration::from_secs;
    // A mean is since the begin: so there is a look.
    let expected = [
        (at(0), Step::Look),
        (at(1), Step::Event(1)),
        (at(2), Step::Look),
        (at(2), Step::Event(0)),
        (at(2), Step::Start(0)),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let event = |keys: &str| format!("{HEAD}[[event]]\nat = \"1 s\"\nlink = \"ab\"\n{keys}");
    let run = |keys: &str| format!("{HEAD}[[run]]\nhost = \"a\"\ncommand = [\"x\"]\n{keys}");
    let assert = |keys: &str| format!("{HEAD}[[assert]]\nlink = \"ab\"\n{keys}");
    for (text, message) in [
        ("network = ", "x.toml:1: "),
        ("duration = \"1 s\"", "x.toml:1: `network` is missing"),
        ("network = \"pair\"", "x.toml:1: `duration` is missing"),
        ("network = \"pear\"\nduration = \"1 s\"", "x.toml:1: network: no network `pear`"),
        ("network = \"pair\"\nduration = \"1\"", "x.toml:2: duration: "),
        ("network = \"pair\"\nduration = \"8d\"", "x.toml:2: duration: `8d` is too long"),
        ("network = \"pair\"\nscale = \"0\"", "x.toml:2: scale: `0` is no ratio"),
        ("network = \"pair\"\nseed = -1", "x.toml:2: seed: write a whole number"),
        ("network = \"pair\"\nspeed = 1", "x.toml:2: unknown key `speed`; did you mean `seed`?"),
        (&event(""), "x.toml:3: [[event]]: nothing happens"),
        (&event("cut = false"), "x.toml:6: [[event]]: cut: write `cut = true`"),
        (&event("cut = true\nheal = true"), "x.toml:3: [[event]]: `cut` and `heal`"),
        (&event("cut = true\nway = \"forward\""), "x.toml:3: [[event]]: `way` with `cut`"),
        (&event("rate = \"fast\""), "x.toml:6: [[event]]: rate: "),
        (&event("lose = 1"), "x.toml:6: [[event]]: unknown key `lose`; did you mean `loss`?"),
        (&event("loss = 2"), "x.toml:6: [[event]]: loss: `2` is no share"),
        (&event("rate = \"none\"\necn = \"1 MB\""), "x.toml:3: [[event]]: link `ab`: `ecn` without `rate`"),
        (&event("queue = \"100 B\""), "x.toml:3: [[event]]: link `ab`: a queue of 100 B holds no packet of 1500 bytes"),
        (&event("reorder = true"), "x.toml:3: [[event]]: link `ab`: `reorder` without `jitter`"),
        (&event("cut = true").replace("\"ab\"", "\"ba\""), "x.toml:5: [[event]]: link: unknown link `ba`"),
        (&event("cut = true").replace("\"1 s\"", "\"31 s\""), "x.toml:4: [[event]]: at: `31 s` is after the end"),
        (&event("cut = true").replace("at = \"1 s\"\n", ""), "x.toml:3: [[event]]: `at` is missing"),
        (&run("host = \"a\""), "x.toml:6: "),
        (&run("").replace("\"a\"", "\"c\""), "x.toml:4: [[run]]: host: unknown node `c`; there are: a, b"),
        (&run("").replace("[\"x\"]", "[]"), "x.toml:3: [[run]]: `command` is missing"),
        (&run("").replace("[\"x\"]", "\"x y\""), "x.toml:5: [[run]]: command: write a list of texts"),
        (&run("name = \"a b\""), "x.toml:6: run `a b`: name: "),
        (&run("background = true\ntimeout = \"1 s\""), "x.toml:3: [[run]]: `background` and `timeout`"),
        (&run("timeout = \"0 s\""), "x.toml:6: [[run]]: timeout: write more than 0 s"),
        (&run("exit_code = 256"), "x.toml:6: [[run]]: exit_code: write a number from 0 to 255"),
        (&run("at = \"end\""), "x.toml:6: [[run]]: at: "),
        (&assert("max = 1"), "x.toml:3: [[assert]]: `counter` is missing"),
        (&assert("counter = \"dropped\""), "x.toml:3: [[assert]]: it asserts nothing"),
        (
            &assert("counter = \"dropped.cue\"\nmax = 1"),
            "x.toml:5: [[assert]]: counter: unknown counter `dropped.cue`; did you mean",
        ),
        (&assert("counter = \"rate\"\nmax = 1"), "x.toml:6: [[assert]]: max: "),
        (&assert("counter = \"dropped\"\nmax = \"1 Gb/s\""), "x.toml:6: [[assert]]: max: write a whole number"),
        (&assert("counter = \"dropped\"\nmin = 2\nmax = 1"), "x.toml:3: [[assert]]: `min` is above `max`"),
        (
            &assert("counter = \"dropped\"\nsince = \"2 s\"\nat = \"2 s\"\nmax = 1"),
            "x.toml:3: [[assert]]: `since` is not before",
        ),
        (
            &assert("counter = \"queue.p99\"\nsince = \"2 s\"\nmax = \"1 MB\""),
            "x.toml:3: [[assert]]: `since` with `queue.p99`",
        ),
        (&assert("counter = \"dropped\"\nway = \"up\"\nmax = 1"), "x.toml:6: [[assert]]: way: `up` is no way"),
    ] {
        let told = read(text).unwrap_err();
        assert!(told.starts_with(message), "{text}\n{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn what_an_event_may_change_is_what_those_before_it_left() {
    let event = |at: u32, keys: &str| format!("[[event]]\nat = \"{at} s\"\nlink = \"ab\"\n{keys}\n");
    let (unlimited, queue) = (event(2, "rate = \"none\""), |at| event(at, "queue = \"10 MB\"\nway = \"forward\""));
    // The order is that of the times, not of the file.
    let told = read(&format!("{HEAD}{}{unlimited}", queue(3))).unwrap_err();
    assert!(told.starts_with("x.toml:3: [[event]]: link `ab`: `queue` without `rate`"), "{told}");
    for text in
        [format!("{HEAD}{unlimited}{}", queue(1)), format!("{HEAD}{unlimited}{}", event(3, "rate = \"1 Gb/s\""))]
    {
        assert!(read(&text).is_ok(), "{text}");
    }
}

#[test]
fn two_of_a_name_are_refused() {
    let run = "[[run]]\nname = \"x\"\nhost = \"a\"\ncommand = [\"x\"]\n";
    let told = read(&format!("{HEAD}{run}{run}")).unwrap_err();
    assert_eq!(told, "x.toml:7: [[run]]: another run has the name `x` too: rename one");
}

#[test]
fn a_plain_link_is_only_cut_and_healed() {
    let plain = |_: &str| {
        let text = "name = \"p\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\n";
        Network::from_toml(text, "p").map_err(|error| error.to_string())
    };
    let read = |rest: &str| {
        let read = Scenario::from_toml(&format!("{HEAD}{rest}"), "x.toml", plain);
        read.map_err(|error| error.to_string())
    };
    let cut = read("[[event]]\nat = \"1 s\"\nlink = \"ab\"\ncut = true\n").unwrap();
    assert_eq!((cut.events[0].up, &cut.events[0].links[..]), (Some(false), &[0][..]));
    for (rest, line, kind) in [
        ("[[event]]\nat = \"1 s\"\nlink = \"ab\"\ncut = true\ndelay = \"1 ms\"\n", 5, "event"),
        ("[[assert]]\nlink = \"ab\"\ncounter = \"dropped\"\nmax = 0\n", 4, "assert"),
    ] {
        let told = read(rest).unwrap_err();
        let begin = format!("x.toml:{line}: [[{kind}]]: link: `ab` is plain, it can only be cut and healed");
        assert!(told.starts_with(&begin), "{told}");
    }
}

#[test]
fn netem_is_taken_where_nothing_is_counted() {
    let driver = |value: &str, rest: &str| read(&format!("driver = \"{value}\"\n{HEAD}{rest}"));
    assert_eq!(read(HEAD).unwrap().driver, Driver::Own);
    assert_eq!(driver("own", "").unwrap().driver, Driver::Own);
    assert_eq!(driver("netem", "").unwrap().driver, Driver::Netem);
    let told = driver("kernel", "").unwrap_err();
    assert_eq!(told, "x.toml:1: driver: `kernel` is no driver: write `own` or `netem`");
    let told = driver("netem", "[[assert]]\nlink = \"ab\"\ncounter = \"dropped\"\nmax = 0\n").unwrap_err();
    assert!(told.starts_with("x.toml:1: driver: netem does not count"), "{told}");
}

#[test]
fn there_is_an_end_to_what_is_written() {
    let one = "[[event]]\nat = \"1 s\"\nlink = \"ab\"\ncut = true\n";
    assert!(read(&format!("{HEAD}{}", one.repeat(ENTRIES_MAX))).is_ok());
    let told = read(&format!("{HEAD}{}", one.repeat(ENTRIES_MAX + 1))).unwrap_err();
    assert!(told.starts_with(&format!("x.toml:{}: more than 10000 `[[event]]`", 3 + 4 * ENTRIES_MAX)), "{told}");
    let told = read(&" ".repeat((1 << 20) + 1)).unwrap_err();
    assert!(told.starts_with("x.toml: longer than 1 MiB"), "{told}");
}

#[test]
fn shipped_scenarios_are_good() {
    for text in [include_str!("../../../scenarios/cut.toml"), include_str!("../../../scenarios/full.toml")] {
        assert!(read(text).unwrap().about.is_some());
    }
}

#[test]
fn the_reference_is_true() {
    let reference = include_str!("../../../docs/scenarios.md");
    let (_, example) = reference.split_once("```toml\n").expect("it has an example");
    let (example, _) = example.split_once("```").expect("which ends");
    assert_eq!(read(example).unwrap().events.len(), 2);
    for name in Counter::names() {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
}
