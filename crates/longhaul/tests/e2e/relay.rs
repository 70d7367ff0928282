//! Copies from one agent to another, which the command only steers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::{assert_same, entries, left_behind, make_awkward};
use crate::world::{Ended, World};

/// Length of the file that is interrupted.
const LENGTH: usize = 48 << 20;
/// Makes its copy last four seconds.
const SLOW: &str = "--rate 100Mb/s";
/// Makes it last 20 s, if nobody changes that.
const VERY_SLOW: &str = "--rate 20Mb/s";

/// Two agents with a token each, and a command that has both.
struct Pair {
    from: World,
    to: World,
}

impl Pair {
    fn new() -> Pair {
        Pair { from: World::new(), to: World::new() }
    }

    fn tokens(&self) -> [PathBuf; 2] {
        [self.from.path("agent/token"), self.to.path("agent/token")]
    }

    fn command(&self, options: &str, tokens: &[PathBuf; 2], from: &str, to: &str) -> Command {
        let mut command = self.from.command("copy", options);
        command.arg("--json").arg("--token-file").arg(&tokens[0]).arg("--destination-token-file").arg(&tokens[1]);
        command.arg(self.from.there(from)).arg(self.to.there(to));
        command
    }

    fn copy(&self, options: &str, from: &str, to: &str) -> Ended {
        self.from.run(self.command(options, &self.tokens(), from, to))
    }
}

/// A token of an agent that may read what is read-only and write what is not, and what else is said.
fn scoped(world: &World, options: &str) -> PathBuf {
    let mut command = world.command("token new", options);
    command.arg("--read").arg(world.path("ro")).arg("--write").arg(world.path("rw"));
    command.arg("--state-dir").arg(world.path("agent"));
    let text = world.run(command).expect_code(0).out;
    let path = world.path("scoped");
    fs::write(&path, text).expect("a token can be written");
    path
}

#[test]
fn a_tree_is_faithful_between_agents() {
    let pair = Pair::new();
    make_awkward(&pair.from, "ro/source");
    let ended = pair.copy("--checksum sha256", "ro/source/", "rw/tree").expect_code(0);
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
    assert!(left_behind(&pair.to.path("rw")).is_empty());
    let io = &ended.summary()["io"];
    assert!(io["source"].is_string() && io["source"] == io["destination"], "{io}");
    assert!(ended.events()[0]["event"] == "started" && ended.events()[0]["congestion"].is_string(), "{}", ended.out);
    let digests = ended.events().iter().filter(|event| event["digest"].is_string()).count();
    let files =
        entries(&pair.from.path("ro/source")).values().filter(|entry| entry.mode & 0o170_000 == 0o100_000).count();
    assert_eq!(digests, files);
    assert_eq!(pair.copy("--sync", "ro/source/", "rw/tree").expect_code(0).summary()["bytes_sent"], 0);
}

#[test]
fn one_agent_can_be_both() {
    let world = World::new();
    make_awkward(&world, "ro/source");
    world.copy("", &world.there("ro/source/"), &world.there("rw/tree")).expect_code(2);
    let mut command = world.command("copy", "--json");
    command.arg(world.there("ro/source/")).arg(world.there("rw/tree"));
    world.run(command).expect_code(0);
    assert_same(&world.path("ro/source"), &world.path("rw/tree"));
}

#[test]
fn each_agent_asks_for_its_own_token_and_its_own_permission() {
    let pair = Pair::new();
    pair.from.write("ro/file", 10);
    let [from, to] = pair.tokens();
    let refused = |tokens: [PathBuf; 2], places: [&str; 2], parts: [&str; 2]| {
        let ended = pair.from.run(pair.command("", &tokens, places[0], places[1])).expect_code(2);
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{parts:?}: {}", ended.err);
    };
    let good = ["ro/file", "rw/file"];
    refused([from.clone(), from.clone()], good, [pair.to.address(), "does not take this token"]);
    refused([to.clone(), to.clone()], good, [pair.from.address(), "does not take this token"]);
    refused([from.clone(), to.clone()], ["ro/file", "ro/file"], [pair.to.address(), "only read"]);
    refused([from.clone(), to.clone()], ["outside", "rw/file"], [pair.from.address(), "cannot be read"]);
    refused([from, to.clone()], ["ro/none", "rw/file"], [pair.from.address(), "No such file"]);
    refused([scoped(&pair.from, "--name plain"), to.clone()], good, [pair.from.address(), "--relay"]);
    assert_eq!(entries(&pair.to.path("rw")).len(), 1, "nothing was begun");
    // The other agent only lets in, for which a token needs no more than to write.
    let relaying = [scoped(&pair.from, "--name relaying --relay"), scoped(&pair.to, "--name writing")];
    pair.from.run(pair.command("", &relaying, "ro/file", "rw/file")).expect_code(0);
    assert_eq!(entries(&pair.to.path("rw")).len(), 2);
}

#[test]
fn another_identity_gets_no_token() {
    let pair = Pair::new();
    pair.from.write("ro/file", 10);
    let pinned = format!("lh://sha256:{}@{}{}", "00".repeat(32), pair.to.address(), pair.to.path("rw/file").display());
    let mut command = pair.from.command("copy", "--json");
    command.arg("--token-file").arg(pair.from.path("agent/token"));
    command.arg("--destination-token-file").arg(pair.to.path("agent/token"));
    command.arg(pair.from.there("ro/file")).arg(pinned);
    let ended = pair.from.run(command).expect_code(1);
    assert!(ended.err.contains("fingerprint"), "{}", ended.err);
    assert_eq!(entries(&pair.to.path("rw")).len(), 1);
}

#[test]
fn a_killed_command_ends_the_copy_and_continues_it() {
    let pair = Pair::new();
    pair.from.write("ro/source/big", LENGTH);
    pair.from.write("ro/source/small", 100);
    let mut copy = pair.from.start(pair.command(SLOW, &pair.tokens(), "ro/source/", "rw/tree"));
    copy.wait_for_progress();
    copy.kill();
    assert!(!pair.to.path("rw/tree/big").exists(), "a part was published");
    // At once: the first copy must have let go of the place.
    let summary = pair.copy("", "ro/source/", "rw/tree").expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(LENGTH as u64), "all was sent again: {summary}");
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
    assert!(left_behind(&pair.to.path("rw")).is_empty());
}

#[test]
fn a_stopped_command_says_how_to_go_on() {
    let pair = Pair::new();
    pair.from.write("ro/source/big", LENGTH);
    let copy = pair.from.start(pair.command(SLOW, &pair.tokens(), "ro/source/", "rw/tree"));
    let id = copy.session();
    pair.from.run(pair.from.command("session stop", &id)).expect_code(0);
    let ended = copy.end().expect_code(75);
    assert!(ended.err.contains("the same command continues"), "{}", ended.err);
    pair.copy("", "ro/source/", "rw/tree").expect_code(0);
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
}

#[test]
fn the_command_finds_the_driving_agent_again() {
    let mut pair = Pair::new();
    pair.from.write("ro/source/big", LENGTH);
    let mut copy = pair.from.start(pair.command(SLOW, &pair.tokens(), "ro/source/", "rw/tree"));
    copy.wait_for_progress();
    pair.from.kill_agent();
    pair.from.restart_agent();
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["reconnects"].as_u64() > Some(0), "{summary}");
    assert!(summary["bytes_sent"].as_u64() < Some(LENGTH as u64), "all was sent again: {summary}");
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
    assert!(left_behind(&pair.to.path("rw")).is_empty());
}

#[test]
fn the_agents_find_each_other_again() {
    let mut pair = Pair::new();
    pair.from.write("ro/source/big", LENGTH);
    let mut copy = pair.from.start(pair.command(SLOW, &pair.tokens(), "ro/source/", "rw/tree"));
    copy.wait_for_progress();
    // With it go the delegated tokens.
    pair.to.kill_agent();
    pair.to.restart_agent();
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["reconnects"].as_u64() > Some(0), "{summary}");
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
}

#[test]
fn the_rate_is_changed_while_it_runs() {
    let pair = Pair::new();
    pair.from.write("ro/source/big", LENGTH);
    let copy = pair.from.start(pair.command(VERY_SLOW, &pair.tokens(), "ro/source/", "rw/tree"));
    let id = copy.session();
    pair.from.run(pair.from.command("session set", &format!("{id} --rate 2Gb/s"))).expect_code(0);
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["seconds"].as_f64() < Some(15.0), "{summary}");
}

#[test]
fn a_file_that_fails_is_told() {
    let pair = Pair::new();
    for name in ["ro/source/file", "ro/source/other"] {
        pair.from.write(name, 10);
    }
    pair.to.write("rw/tree/file/in the way", 10);
    let ended = pair.copy("", "ro/source/", "rw/tree").expect_code(6);
    let failed = |event: &serde_json::Value| event["event"] == "file" && event["path"] == "file";
    assert!(ended.events().iter().any(failed), "{}", ended.out);
    assert_eq!(ended.summary()["errors"][0]["path"], "file");
    assert!(pair.to.path("rw/tree/other").exists());
}

/// A network namespace with an address that this host reaches; from inside, what listens on loopback here is not
/// reached.
struct Namespace {
    name: String,
    address: String,
}

impl Namespace {
    /// `None` where this user may not make one.
    fn new() -> Option<Namespace> {
        let process = std::process::id();
        let name = format!("lh-{process}");
        let net = format!("10.213.{}", process % 250);
        let made = Namespace { address: format!("{net}.2"), name: name.clone() };
        let (here, there) = (format!("lha{process}"), format!("lhb{process}"));
        let steps = [
            format!("netns add {name}"),
            format!("link add {here} type veth peer name {there} netns {name}"),
            format!("addr add {net}.1/30 dev {here}"),
            format!("link set {here} up"),
            format!("-n {name} addr add {net}.2/30 dev {there}"),
            format!("-n {name} link set {there} up"),
            format!("-n {name} link set lo up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(made)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_destination_connects_where_the_source_cannot() {
    let Some(namespace) = Namespace::new() else {
        eprintln!("skipped: this user makes no network namespaces");
        return;
    };
    let from = World::with_agent_at(&format!("{}:0", namespace.address), &namespace.name);
    let pair = Pair { from, to: World::new() };
    make_awkward(&pair.from, "ro/source");
    let tokens = [pair.from.path("agent/token"), scoped(&pair.to, "--name writing")];
    let refused = pair.from.run(pair.command("", &tokens, "ro/source/", "rw/tree")).expect_code(2);
    assert!(refused.err.contains("cannot connect") && refused.err.contains("--relay"), "{}", refused.err);
    let ended = pair.copy("", "ro/source/", "rw/tree").expect_code(0);
    assert_same(&pair.from.path("ro/source"), &pair.to.path("rw/tree"));
    assert!(left_behind(&pair.to.path("rw")).is_empty());
    let text = |event: &serde_json::Value| event["text"].as_str().unwrap_or_default().to_owned();
    let warned = ended.events().iter().any(|event| text(event).contains("connects to"));
    assert!(warned, "{}", ended.out);
    interrupted(&pair, Path::new("rw/again"));
}

/// Killed and begun again, also in this direction.
fn interrupted(pair: &Pair, to: &Path) {
    pair.from.write("ro/more/big", LENGTH);
    let name = to.to_str().expect("it is plain");
    let mut copy = pair.from.start(pair.command(SLOW, &pair.tokens(), "ro/more/", name));
    copy.wait_for_progress();
    copy.kill();
    let summary = pair.copy("", "ro/more/", name).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(LENGTH as u64), "all was sent again: {summary}");
    assert_same(&pair.from.path("ro/more"), &pair.to.path(name));
}
