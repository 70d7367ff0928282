//! `longhaul driver` through the program, in a network namespace, with a controller in it. Needs root; is skipped without.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::netns::Namespace;

/// How long anything may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

const FILE: &str = r#"
    [[interface]]
    name = "east"
    rate = "1Gb/s"
    at_large = "300Mb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "le" }]
    floor = "700Mb/s"
"#;

const LINKED: &str = r#"
    [[interface]]
    name = "east"
    link = "ocean:forward"
    [[interface.class]]
    name = "longhaul"
    match = [{ from = "10.1.0.0/16" }]
"#;

const NETWORK: &str = r#"
    name = "two"
    [[host]]
    name = "a"
    [[host]]
    name = "b"
    [[link]]
    name = "ocean"
    ends = ["a", "b"]
    rate = "1 Gb/s"
    high_water = "80 %"
    [[path]]
    name = "north"
    from = "a"
    to = "b"
    links = ["ocean"]
    addresses = ["10.9.0.1", "10.9.0.2"]
    dscp = "af21"
"#;

const ROUTED: &str = r#"
    [[route]]
    number = 3
    path = "north:backward"
    via = "10.1.0.2"
    interface = "east"
"#;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A namespace with a veth pair, and programs in it. All go with the test.
struct Rig {
    dir: tempfile::TempDir,
    namespace: Namespace,
    children: Vec<Child>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = self.namespace.delete();
    }
}

impl Rig {
    fn new(topic: &str) -> Option<Rig> {
        if sys::process::euid() != 0 {
            eprintln!("skipped: namespaces need root");
            return None;
        }
        let name = format!("lh-driver-{topic}-{}", std::process::id());
        let namespace = Namespace::create(&name).expect("root can make a namespace");
        let rig = Rig { dir: tempfile::tempdir().expect("a directory can be made"), namespace, children: Vec::new() };
        for line in [
            "link set dev lo up",
            "link add dev east type veth peer name far",
            "link set dev east up",
            "link set dev far up",
        ] {
            rig.outside("ip", line);
        }
        fs::write(rig.path("driver.toml"), FILE).expect("a file can be written");
        fs::write(rig.path("linked.toml"), LINKED).expect("a file can be written");
        fs::write(rig.path("routed.toml"), ROUTED).expect("a file can be written");
        fs::write(rig.path("network.toml"), NETWORK).expect("a file can be written");
        fs::write(rig.path("shares.toml"), "[[class]]\nname = \"cms\"\nweight = 1\n").expect("a file can be written");
        Some(rig)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn outside(&self, program: &str, line: &str) -> String {
        let output = Command::new(program).args(["-n", self.namespace.name()]).args(line.split(' ')).output();
        let output = output.expect("iproute2 is there");
        assert!(output.status.success(), "{program} {line}: {}", stderr(&output));
        stdout(&output)
    }

    /// The program, inside.
    fn longhaul(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(line.split_whitespace()).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.path("state")).env("RUNTIME_DIRECTORY", self.path("locks"));
        command.env_remove("LONGHAUL_TOKEN").env_remove("LONGHAUL_CONTROLLER");
        self.namespace.start_in(&mut command, None).expect("it is there");
        command
    }

    fn run(&self, line: &str, code: i32) -> Output {
        let output = self.longhaul(line).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{line}: {}{}", stdout(&output), stderr(&output));
        output
    }

    fn start(&mut self, command: &mut Command, log: &str) -> usize {
        let log = fs::File::create(self.path(log)).expect("a log can be written");
        self.children.push(command.stderr(log).stdout(Stdio::null()).spawn().expect("the program runs"));
        self.children.len() - 1
    }

    /// Starts a controller; its place among the children, and how it is reached.
    fn controller(&mut self) -> (usize, Reach) {
        let line = "controller --listen 127.0.0.1:0 --state-dir c --network network.toml --shares shares.toml --ready-file ready.json";
        let mut command = self.longhaul(line);
        let controller = self.start(&mut command, "controller.log");
        let ready: Value = wait_for("the controller", || {
            serde_json::from_slice(&fs::read(self.path("ready.json")).unwrap_or_default()).ok()
        });
        let text = |key: &str| ready[key].as_str().expect("it is complete").to_owned();
        let url = format!("https://{}#{}", text("address"), text("fingerprint"));
        (controller, Reach { url, token: text("admin_token") })
    }

    /// The program, inside, for that controller.
    fn with(&self, reach: &Reach, line: &str) -> Command {
        let mut command = self.longhaul(line);
        command.env("LONGHAUL_CONTROLLER", &reach.url).env("LONGHAUL_TOKEN", &reach.token);
        command
    }

    fn ask(&self, reach: &Reach, line: &str) -> Value {
        let output = self.with(reach, line).arg("--json").output().expect("the program runs");
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// How a controller is reached.
struct Reach {
    url: String,
    token: String,
}

#[track_caller]
fn wait_for<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn it_plans_applies_shows_and_undoes() {
    let Some(rig) = Rig::new("life") else { return };
    let before = rig.outside("tc", "qdisc show");
    let planned = stdout(&rig.run("driver plan driver.toml", 0));
    assert!(planned.starts_with("add    east: root htb 4c48:\n") && planned.lines().count() == 8, "{planned}");
    assert_eq!(rig.outside("tc", "qdisc show"), before, "a plan changes nothing");
    assert_eq!(stdout(&rig.run("driver apply driver.toml", 0)), planned);
    assert_eq!(stdout(&rig.run("driver apply driver.toml", 0)), "nothing to do: it is as wished\n");
    let shown: Value = serde_json::from_slice(&rig.run("driver show --json", 0).stdout).expect("it is JSON");
    let class = shown["items"].as_array().expect("a list").iter().find(|item| item["class"] == 3);
    assert_eq!(class.expect("it is there")["floor_bps"], 700_000_000, "{shown:#}");
    rig.run("driver undo", 0);
    assert_eq!(rig.outside("tc", "qdisc show"), before);
    assert_eq!(stdout(&rig.run("driver show", 0)), "nothing here is of the driver's making\n");
}

#[test]
fn what_it_cannot_do_it_says_with_the_way_out() {
    let Some(rig) = Rig::new("refused") else { return };
    rig.outside("tc", "qdisc add dev east root handle 7: tbf rate 1gbit burst 64kb latency 5ms");
    let refused = stderr(&rig.run("driver apply driver.toml", 2));
    assert!(refused.contains("tbf 7:") && refused.contains("tc qdisc del dev east root"), "{refused}");
    let no_controller = stderr(&rig.run("driver plan linked.toml", 2));
    assert!(
        no_controller.contains("the file names links") || no_controller.contains("no controller is named"),
        "{no_controller}"
    );
    let nothing_changes = stderr(&rig.run("driver follow driver.toml", 2));
    assert!(nothing_changes.contains("use `longhaul driver apply`"), "{nothing_changes}");
    fs::write(rig.path("bad.toml"), "[[interface]]\nname = \"east\"\nrate = 10\n").expect("a file can be written");
    let bad = stderr(&rig.run("driver plan bad.toml", 2));
    assert!(bad.contains("bad.toml:3:8"), "{bad}");
}

#[test]
fn it_follows_the_marks_of_a_controller_which_says_enforced() {
    let Some(mut rig) = Rig::new("follow") else { return };
    let (controller, reach) = rig.controller();
    let ask = |rig: &Rig, line: &str| rig.ask(&reach, line);
    // The planner says how far a link may be filled once it has planned.
    let mark = |rig: &Rig| {
        let links = ask(rig, "topology links");
        let ocean =
            links["links"].as_array().expect("a list").iter().find(|link| link["id"] == "ocean:forward").cloned();
        ocean.expect("it is there")["mark_bps"].as_u64()
    };
    wait_for("the mark", || (mark(&rig) == Some(800_000_000)).then_some(()));
    assert_eq!(ask(&rig, "explain link ocean:forward")["assurance"], "edge");

    let mut command = rig.with(&reach, "driver follow linked.toml --every 200ms");
    let follower = rig.start(&mut command, "driver.log");
    let classes = |rig: &Rig| rig.outside("tc", "class show dev east");
    let has = |rig: &Rig, at_large: &str, longhaul: &str| {
        wait_for(&format!("{at_large} and {longhaul}: {}", rig.log("driver.log")), || {
            let classes = classes(rig);
            let is = classes.contains(&format!("rate {at_large} ceil 1Gbit"))
                && classes.contains(&format!("rate {longhaul} ceil {longhaul}"));
            is.then_some(())
        });
    };
    has(&rig, "200Mbit", "800Mbit");
    wait_for("enforced", || (ask(&rig, "explain link ocean:forward")["assurance"] == "enforced").then_some(()));
    assert_eq!(ask(&rig, "explain link ocean:backward")["assurance"], "edge");

    // A limit from outside is in force in the kernel, and gone from it, within some rounds.
    ask(&rig, "limit set link:ocean --rate 250Mb/s --for 1h --why maintenance");
    has(&rig, "750Mbit", "250Mbit");
    ask(&rig, "limit lift link:ocean");
    has(&rig, "200Mbit", "800Mbit");

    // Without the controller, and without the driver, what is there stays.
    let before = classes(&rig);
    rig.children[controller].kill().expect("it runs");
    wait_for("a warning", || rig.log("driver.log").contains("what is there stays").then_some(()));
    assert_eq!(classes(&rig), before);
    let id = rig.children[follower].id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().is_ok_and(|status| status.success()));
    assert_eq!(rig.children[follower].wait().expect("it ends").code(), Some(0), "{}", rig.log("driver.log"));
    assert_eq!(classes(&rig), before);
    rig.run("driver undo", 0);
    assert_eq!(classes(&rig), "");
}

#[test]
fn it_follows_the_packets_of_a_path() {
    let Some(mut rig) = Rig::new("path") else { return };
    rig.outside("ip", "addr add 10.1.0.1/24 dev east");
    let (_, reach) = rig.controller();
    let no_controller = stderr(&rig.run("driver plan routed.toml", 2));
    assert!(
        no_controller.contains("links or paths") || no_controller.contains("no controller is named"),
        "{no_controller}"
    );
    wait_for("the network", || (!rig.ask(&reach, "topology paths")["paths"].as_array()?.is_empty()).then_some(()));
    let planned = rig.with(&reach, "driver plan routed.toml").output().expect("the program runs");
    assert_eq!(
        stdout(&planned),
        "add    route of table 24103: to 0.0.0.0/0 via 10.1.0.2 over east\n\
         add    rule 24103 (IPv4): from 10.9.0.2 to 10.9.0.1 marked af21 goes by table 24103\n"
    );

    let mut command = rig.with(&reach, "driver follow routed.toml --every 200ms");
    rig.start(&mut command, "driver.log");
    let rule = |rig: &Rig| {
        let shown: Value = serde_json::from_slice(&rig.run("driver show --json", 0).stdout).expect("it is JSON");
        shown["items"].as_array().expect("a list").iter().find(|item| item["kind"] == "rule").cloned()
    };
    let has = |rig: &Rig, point: &str, from: &str| {
        wait_for(&format!("{point} from {from}: {}", rig.log("driver.log")), || {
            let matched = rule(rig)?["match"].clone();
            (matched["dscp"] == point && matched["from"] == from).then_some(())
        });
    };
    has(&rig, "af21", "10.9.0.2");
    // The path is bound by something else.
    let other = NETWORK.replace("10.9.0.2", "10.9.0.4").replace("af21", "le");
    fs::write(rig.path("other.toml"), other).expect("a file can be written");
    rig.ask(&reach, "topology set other.toml");
    has(&rig, "le", "10.9.0.4");
    // Without the path what is there stays.
    fs::write(rig.path("none.toml"), NETWORK.split_once("[[path]]").expect("it has one").0)
        .expect("a file can be written");
    rig.ask(&reach, "topology set none.toml");
    wait_for("a warning", || rig.log("driver.log").contains("what is there stays").then_some(()));
    has(&rig, "le", "10.9.0.4");
}
