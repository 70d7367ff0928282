//! Two hosts: network namespaces joined by two cables, with addresses of both kinds.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::tree::{self, assert_same, left_behind, make_awkward};
use crate::world::{Running, World, events, under, wait_for};
use crate::{is_missing, run, tried};

/// Flow label with the bits of a SciTag: which bits are the tag, the rest are random.
const TAG_BITS: u32 = 0x3_fefc;
const PORT: &str = "4810";

/// Two namespaces; removed, with what is in them, when they go.
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    /// `name` keeps tests of one process apart.
    fn join(name: &str) -> Hosts {
        let names = ["a", "b"].map(|end| format!("lh{}{name}{end}", std::process::id()));
        let hosts = Hosts { names };
        let [a, b] = &hosts.names;
        for host in [a, b] {
            run(&format!("ip netns add {host}"), &[]);
            run(&format!("ip -n {host} link set lo up"), &[]);
        }
        for cable in [1, 2] {
            run(&format!("ip -n {a} link add v{cable} type veth peer name v{cable} netns {b}"), &[]);
            for (host, end) in [(a, 1), (b, 2)] {
                run(&format!("ip -n {host} addr add 10.77.{cable}.{end}/24 dev v{cable}"), &[]);
                run(&format!("ip -n {host} addr add fd77:{cable}::{end}/64 dev v{cable} nodad"), &[]);
                run(&format!("ip -n {host} link set v{cable} up"), &[]);
            }
        }
        hosts
    }

    /// What a program is to be run with to be at this end: 0 the command's, 1 the agent's.
    fn at(&self, end: usize) -> [&str; 4] {
        ["ip", "netns", "exec", &self.names[end]]
    }

    /// Bytes that arrived over a cable at the far end.
    fn carried(&self, cable: u32) -> u64 {
        let text = run(&format!("ip -s -j -n {} link show v{cable}", self.names[1]), &[]);
        let links: serde_json::Value = serde_json::from_str(&text).expect("ip prints JSON");
        links[0]["stats64"]["rx"]["bytes"].as_u64().expect("a number")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            tried(&format!("ip netns del {name}"), &[]);
        }
    }
}

fn cannot_run() -> bool {
    is_missing(&["ip"], true)
}

fn copy(
    world: &World,
    hosts: &Hosts,
    options: &str,
    from: &std::ffi::OsStr,
    to: &std::ffi::OsStr,
) -> serde_json::Value {
    let command = world.copy_command(options, from, to);
    world.run(under(&hosts.at(0), &command)).expect_code(0).summary()
}

/// A tree goes there and back through the addresses of the far end.
fn reached(name: &str, address: &str, any: &str) {
    if cannot_run() {
        return;
    }
    let hosts = Hosts::join(name);
    let mut world = World::still();
    world.start_agent_under(&hosts.at(1), &format!("{any}:{PORT}"));
    let there = |name: &str| world.there_by(&format!("{address}:{PORT}"), name);
    tree::there_and_back(
        &world,
        "rw/tree",
        || drop(copy(&world, &hosts, "", &world.here("source/"), &there("rw/tree"))),
        || drop(copy(&world, &hosts, "", &there("rw/tree/"), &world.here("back"))),
    );
    assert!(hosts.carried(1) > 1 << 20, "the data did not go over the cable");
}

#[test]
fn a_host_is_reached_by_ipv4() {
    reached("four", "10.77.1.2", "10.77.1.2");
}

#[test]
fn a_host_is_reached_by_ipv6() {
    reached("six", "[fd77:1::2]", "[fd77:1::2]");
}

/// Stands for ssh: the far command runs at the far end, which learns where it was called from.
fn ssh_between(world: &World, hosts: &Hosts) -> PathBuf {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo hostname 10.77.1.2; exit; fi\n\
         export SSH_CONNECTION='10.77.1.1 1 10.77.1.2 22'\nexec ip netns exec {} sh -c \"$2\"\n",
        hosts.names[1]
    );
    let ssh = world.path("ssh");
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    ssh
}

/// A push of the source over that.
fn push_over(ssh: &Path, world: &World, hosts: &Hosts, options: &str, to: &str) -> Command {
    let mut command = world.command("copy --json", options);
    command.args(["--remote-longhaul", env!("CARGO_BIN_EXE_longhaul"), "--ssh"]).arg(ssh);
    command.arg(world.here("source/")).arg(format!("user@host:{}", world.path(to).display()));
    under(&hosts.at(0), &command)
}

#[test]
fn an_agent_connects_back() {
    if cannot_run() {
        return;
    }
    let hosts = Hosts::join("back");
    let world = World::new();
    make_awkward(&world, "source");
    let ssh = ssh_between(&world, &hosts);
    for (options, to) in [("--reverse-connect", "rw/reversed"), ("", "rw/straight")] {
        world.run(push_over(&ssh, &world, &hosts, options, to)).expect_code(0);
        assert_same(&world.path("source"), &world.path(to));
    }
    assert!(hosts.carried(1) > 1 << 20, "the data did not go over the cable");
}

/// How long the only cable is unplugged: long enough for its control connection to count as cut.
const UNPLUGGED: Duration = Duration::from_secs(4);
/// How soon after that bytes arrive again.
const RESUMED: Duration = Duration::from_secs(2);

/// The only cable is unplugged and plugged in again: whichever end connected comes back, and the session goes on.
fn the_only_cable_is_unplugged(name: &str, options: &str) {
    if cannot_run() {
        return;
    }
    let hosts = Hosts::join(name);
    run(&format!("ip -n {} link set v2 down", hosts.names[1]), &[]);
    let world = World::new();
    world.write("source/big", 40 << 20);
    let ssh = ssh_between(&world, &hosts);
    let options = format!("{options} --streams 2 --rate 40Mb/s --timeout 30s");
    let mut copy = world.start(push_over(&ssh, &world, &hosts, &options, "rw/tree"));
    copy.wait_for_progress();
    run(&format!("ip -n {} link set v1 down", hosts.names[1]), &[]);
    sleep(UNPLUGGED);
    let before = hosts.carried(1);
    run(&format!("ip -n {} link set v1 up", hosts.names[1]), &[]);
    let begin = Instant::now();
    wait_for("bytes to arrive again", || (hosts.carried(1) > before + (1 << 20)).then_some(()));
    assert!(begin.elapsed() < RESUMED, "it took {:?}", begin.elapsed());
    let ended = copy.end().expect_code(0);
    assert_eq!(ended.summary()["reconnects"], 0, "{}", ended.out);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn an_agent_that_connected_back_does_so_again() {
    the_only_cable_is_unplugged("again", "--reverse-connect");
}

#[test]
fn the_only_path_is_waited_for() {
    the_only_cable_is_unplugged("only", "");
}

#[test]
fn streams_use_all_addresses_of_both_ends() {
    if cannot_run() {
        return;
    }
    let hosts = Hosts::join("two");
    let mut world = World::still();
    world.write("source/big", 40 << 20);
    world.start_agent_under(&hosts.at(1), &format!("0.0.0.0:{PORT}"));
    let to = world.there_by(&format!("10.77.1.2:{PORT},10.77.2.2"), "rw/tree");
    let before = [1, 2].map(|cable| hosts.carried(cable));
    copy(&world, &hosts, "--streams 4 --bind 10.77.1.1 --bind 10.77.2.1", &world.here("source/"), &to);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    for (cable, before) in [1, 2].into_iter().zip(before) {
        let carried = hosts.carried(cable) - before;
        assert!(carried > 4 << 20, "cable {cable} carried {carried} bytes");
    }
}

/// What is on its way when a cable is cut, at most: at two streams a record in the making and what the kernels' buffers hold.
/// A chunk that has come in part is not among it.
const IN_FLIGHT: u64 = 2 * (1 << 20);

/// A cable is pulled in the middle, and stays so: the session goes on over the other one, and sends again only what was
/// on its way.
fn one_of_two_cables_is_cut(name: &str, cut: u32, end: usize, push: bool) {
    if cannot_run() {
        return;
    }
    let hosts = Hosts::join(name);
    let mut world = World::still();
    let (from, to) = if push { ("source", "rw/tree") } else { ("rw/source", "tree") };
    world.write(&format!("{from}/big"), 96 << 20);
    world.write(&format!("{from}/small"), 1_000);
    world.start_agent_under(&hosts.at(1), &format!("0.0.0.0:{PORT}"));
    let there = |name: &str| world.there_by(&format!("10.77.1.2:{PORT},10.77.2.2"), name);
    let place = |name: &str, there_is: bool| if there_is { there(name) } else { world.here(name) };
    let options = "--streams 4 --chunk-size 8MiB --rate 160Mb/s --timeout 5s --bind 10.77.1.1 --bind 10.77.2.1";
    let command = world.copy_command(options, &place(&format!("{from}/"), !push), &place(to, push));
    let mut copy = world.start(under(&hosts.at(0), &command));
    copy.wait_for_progress();
    for cable in [1, 2] {
        assert!(!push || hosts.carried(cable) > 2 << 20, "cable {cable} carried {} bytes", hosts.carried(cable));
    }
    run(&format!("ip -n {} link set v{cut} down", hosts.names[end]), &[]);
    let other = 3 - cut;
    let before = hosts.carried(other);
    let ended = copy.end().expect_code(0);
    let summary = ended.summary();
    assert_same(&world.path(from), &world.path(to));
    assert!(left_behind(&world.path(to)).is_empty());
    assert!(!push || hosts.carried(other) - before > 1 << 20, "cable {other} did not carry the rest");
    assert_eq!(summary["reconnects"], 0, "{summary}");
    let started = events(&ended.out).iter().filter(|event| event["event"] == "started").count();
    assert_eq!(started, 1, "a new session began: {}", ended.out);
    assert!(summary["streams_lost"].as_u64() > Some(0), "{summary}");
    let number = |name: &str| summary[name].as_u64().expect("a number");
    let again = number("bytes_sent") - number("bytes");
    assert!(again <= IN_FLIGHT, "{again} bytes were sent again: {summary}");
}

#[test]
fn without_the_cable_of_some_streams_the_others_go_on() {
    one_of_two_cables_is_cut("cutb", 2, 1, true);
    one_of_two_cables_is_cut("cutd", 2, 1, false);
}

#[test]
fn without_the_cable_of_the_control_connection_the_other_is_taken() {
    one_of_two_cables_is_cut("cuta", 1, 0, true);
    one_of_two_cables_is_cut("cutc", 1, 1, true);
    one_of_two_cables_is_cut("cute", 1, 0, false);
    one_of_two_cables_is_cut("cutf", 1, 1, false);
}

/// What arrives at the far end, from when this returns until it is killed.
fn capture(world: &World, hosts: &Hosts, file: &Path) -> Running {
    let mut tcpdump = Command::new("tcpdump");
    // Not another user's, who may not write here; and each packet at once.
    tcpdump.args(["-Z", "root", "-U", "--immediate-mode", "-n", "-i", "v1", "-s", "128", "-w"]).arg(file);
    tcpdump.args(["tcp", "and", "dst", "port", PORT]);
    let mut running = world.start(under(&hosts.at(1), &tcpdump));
    wait_for("the capture to begin", || {
        assert!(!running.has_ended(), "tcpdump ended");
        file.metadata().is_ok_and(|meta| meta.len() >= 24).then_some(())
    });
    running
}

/// The first four bytes of each IP header in a capture, with the length of the packet.
fn headers(file: &Path) -> Vec<(u32, usize)> {
    const FILE_HEAD: usize = 24;
    const PACKET_HEAD: usize = 16;
    const ETHERNET: usize = 14;
    let bytes = fs::read(file).expect("it was captured");
    let mut found = Vec::new();
    let mut at = FILE_HEAD;
    while let Some(head) = bytes.get(at..at + PACKET_HEAD) {
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (kept, length) = (number(8), number(12));
        let Some(packet) = bytes.get(at + PACKET_HEAD..at + PACKET_HEAD + kept) else { break };
        found.push((u32::from_be_bytes(packet[ETHERNET..ETHERNET + 4].try_into().expect("4 bytes")), length));
        at += PACKET_HEAD + kept;
    }
    found
}

#[test]
fn packets_are_marked() {
    if cannot_run() || is_missing(&["tcpdump"], true) {
        return;
    }
    const LENGTH: usize = 8 << 20;
    let hosts = Hosts::join("mark");
    let mut world = World::still();
    world.write("source/big", LENGTH);
    world.start_agent_under(&hosts.at(1), &format!("[fd77:1::2]:{PORT}"));
    let to = world.there_by(&format!("[fd77:1::2]:{PORT}"), "rw/tree");
    // Experiment 5 is 101000000 with its lowest bit first, activity 14 is 001110.
    let tag = 0b1_0100_0000 << 9 | 14 << 2;
    let marks = [
        ("--dscp cs1 --scitag 5:14", 8, TAG_BITS, tag, true),
        ("--polite --flow-label 0x6789a", 1, 0xf_ffff, 0x6_789a, false),
    ];
    for (n, (option, dscp, bits, expected, differ)) in marks.into_iter().enumerate() {
        let file = world.path(&format!("capture-{n}"));
        let running = capture(&world, &hosts, &file);
        copy(&world, &hosts, &format!("--streams 4 {option}"), &world.here("source/"), &to);
        running.kill();
        let packets = headers(&file);
        let data: Vec<_> = packets.iter().filter(|(_, length)| *length > 1_000).collect();
        let bytes: usize = data.iter().map(|(_, length)| length).sum();
        assert!(bytes > LENGTH, "{bytes} bytes of large packets in {} packets", packets.len());
        for (word, _) in data {
            let (version, class, label) = (word >> 28, word >> 20 & 0xff, word & 0xf_ffff);
            assert_eq!((version, class >> 2, label & bits), (6, dscp, expected), "{option}: {word:08x}");
        }
        // Each stream, also one that carried no file, has a label of its own if it may. What the kernel sends for a
        // connection that is closed, without payload, has any label.
        let said = packets.iter().filter(|(_, length)| *length > 100);
        let labels: BTreeSet<u32> = said.map(|(word, _)| word & 0xf_ffff).collect();
        assert_eq!(labels.len() > 1, differ, "{option}: {labels:x?}");
    }
}
