//! Copies over the ssh of the system, to a real server.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sshd::Sshd;
use crate::tree::{assert_same, left_behind, make_awkward};
use crate::world::{Ended, World};
use crate::{SLOW_LENGTH, SLOW_RATE};

/// How long it may take to notice that ssh has ended; far less than `--timeout`.
const NOTICED_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Ports that are let through, beside the first.
const PORTS: u16 = 20;

/// A world with a server; tests pass where there can be none.
fn worlds() -> Option<(World, Sshd)> {
    let world = World::still();
    let sshd = Sshd::start(&world)?;
    Some((world, sshd))
}

fn copy(at: &(World, Sshd), options: &str, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Ended {
    let (world, sshd) = at;
    world.run(sshd.copy_command(world, options, from.as_ref(), to.as_ref()))
}

/// With a slash at its end.
fn inside(path: &Path) -> OsString {
    path.join("").into()
}

fn there_and_back(options: &str) {
    let Some(at) = worlds() else { return };
    let (world, sshd) = &at;
    make_awkward(world, "source");
    copy(&at, options, inside(&world.path("source")), sshd.user_there(world.path("there"))).expect_code(0);
    assert_same(&world.path("source"), &world.path("there"));
    assert!(left_behind(&world.path("there")).is_empty());
    copy(&at, options, sshd.there(inside(&world.path("there"))), world.path("back")).expect_code(0);
    assert_same(&world.path("source"), &world.path("back"));
    assert!(left_behind(&world.path("back")).is_empty());
}

#[test]
fn a_tree_goes_there_and_back() {
    there_and_back("");
}

#[test]
fn a_tree_goes_there_and_back_where_the_far_end_connects() {
    there_and_back("--reverse-connect");
}

#[test]
fn the_far_end_keeps_to_the_ports_that_are_let_through() {
    let Some(at) = worlds() else { return };
    let (world, sshd) = &at;
    let file = world.write("file", SLOW_LENGTH);
    let used = listening();
    let free = |low: &u16| (*low..=low + PORTS).all(|port| !used.contains(&port));
    let low = (42_000..48_000).find(free).expect("ports are free");
    let high = low + PORTS;
    for reverse in ["", " --reverse-connect"] {
        let options = format!("{SLOW_RATE} --ssh-port-range {low}-{high}{reverse}");
        let mut command =
            world.start(sshd.copy_command(world, &options, file.as_os_str(), &sshd.there(world.path("ranged"))));
        command.wait_for_progress();
        let ports = listening();
        assert!((low..=high).any(|port| ports.contains(&port)), "{options}: {ports:?}");
        command.kill();
    }
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port is free");
    let port = taken.local_addr().expect("it has an address").port();
    let ended = copy(&at, &format!("--ssh-port-range {port}-{port}"), &file, sshd.there("x")).expect_code(1);
    assert!(ended.err.contains(&format!("no port from {port} to {port} is free")), "{}", ended.err);
}

/// Ports of this host on which somebody listens.
fn listening() -> Vec<u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let port = |line: &str| {
        let mut words = line.split_whitespace();
        let port = words.nth(1)?.rsplit(':').next()?.to_owned();
        (words.nth(1) == Some("0A")).then(|| u16::from_str_radix(&port, 16).ok()).flatten()
    };
    tables.iter().flat_map(|table| table.lines()).filter_map(port).collect()
}

#[test]
fn relative_places_begin_at_the_home_of_the_login() {
    let Some(at) = worlds() else { return };
    let (world, sshd) = &at;
    let file = world.write("file", 1000);
    copy(&at, "", &file, sshd.there("in/deep/file")).expect_code(0);
    assert_eq!(fs::read(world.path("home/in/deep/file")).unwrap(), fs::read(&file).unwrap());
    copy(&at, "", sshd.there("in/deep/"), world.path("got")).expect_code(0);
    assert_eq!(fs::read(world.path("got/file")).unwrap(), fs::read(&file).unwrap());
    copy(&at, "", &file, sshd.there("")).expect_code(0);
    assert_eq!(fs::read(world.path("home/file")).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn no_shell_reads_the_names() {
    let Some(at) = worlds() else { return };
    let (world, sshd) = &at;
    let names: [&[u8]; 7] = [
        b"two words",
        b"it's \"quoted\"",
        b"$(touch x)`touch y`;&|",
        b"* ? [a] ~ \\",
        b"two\nlines",
        b"not-\xff\xfe-utf8",
        b"--delete",
    ];
    for name in names {
        let (name, content) = (OsStr::from_bytes(name), [name, b"content"].concat());
        fs::write(world.path("file"), &content).unwrap();
        copy(&at, "", world.path("file"), sshd.there(name)).expect_code(0);
        assert_eq!(fs::read(world.path("home").join(name)).unwrap(), content, "{name:?}");
        copy(&at, "", sshd.there(world.path("home").join(name)), world.path("back")).expect_code(0);
        assert_eq!(fs::read(world.path("back")).unwrap(), content, "{name:?}");
    }
    let mut found: Vec<_> = fs::read_dir(world.path("home")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let mut wanted = names.map(|name| OsStr::from_bytes(name).to_owned());
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn what_cannot_be_started_is_told() {
    let Some((world, sshd)) = worlds() else { return };
    let file = world.write("file", 10);
    let refused = |options: &[&str], code: i32, part: &str| {
        let mut command = world.bare_command("copy", "");
        command.args(options).arg(&file).arg(sshd.there("file"));
        let ended = world.run(command).expect_code(code);
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
        assert!(!world.path("home/file").exists());
    };
    let (ours, strange) = (sshd.command("key"), sshd.command("stranger"));
    refused(&["--remote-longhaul", "no-such-program", "--ssh", &ours], 1, "there is no `no-such-program` at 127.0.0.1");
    refused(
        &["--remote-longhaul", "/no/such/program", "--ssh", &ours],
        1,
        "there is no `/no/such/program` at 127.0.0.1",
    );
    refused(&["--remote-longhaul", "true", "--ssh", &ours], 1, "cannot start longhaul at 127.0.0.1");
    refused(&["--ssh", &strange], 1, "the login at 127.0.0.1 failed");
    refused(&["--ssh", "no-such-ssh"], 1, "cannot run no-such-ssh");
}

fn killed_copy_continues(push: bool) {
    let Some(at) = worlds() else { return };
    let (world, sshd) = &at;
    world.write("source/big", SLOW_LENGTH);
    world.write("source/small", 100);
    let (near, far) = if push { ("source", "there") } else { ("there", "source") };
    let (near, far) = (inside(&world.path(near)), sshd.there(inside(&world.path(far))));
    let (from, to) = if push { (near, far) } else { (far, near) };
    let mut first = world.start(sshd.copy_command(world, SLOW_RATE, &from, &to));
    first.wait_for_progress();
    first.kill();
    assert!(!world.path("there/big").exists(), "a part was published");
    let summary = copy(&at, "", &from, &to).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(SLOW_LENGTH as u64), "all was sent again: {summary}");
    assert_same(&world.path("source"), &world.path("there"));
    assert!(left_behind(&world.path("there")).is_empty(), "{:?}", left_behind(&world.path("there")));
}

#[test]
fn a_killed_push_continues() {
    killed_copy_continues(true);
}

#[test]
fn a_killed_pull_continues() {
    killed_copy_continues(false);
}

fn server_dies(options: &str) {
    let Some(mut at) = worlds() else { return };
    let (world, sshd) = &mut at;
    world.write("source/big", SLOW_LENGTH);
    let from = inside(&world.path("source"));
    let to = sshd.there(world.path("there"));
    // With chunks of the default size all of them may land at once, at the end.
    let chunks = "--chunk-size 256KiB";
    let options = format!("{SLOW_RATE} {chunks} {options}");
    let mut first = world.start(sshd.copy_command(world, &options, &from, &to));
    first.wait_for_progress();
    sshd.kill();
    // The far end ends with its login; what is left can be continued.
    let begin = std::time::Instant::now();
    let ended = first.end().expect_code(75);
    assert!(begin.elapsed() < NOTICED_MAX, "it took {:?}", begin.elapsed());
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.contains("the login at 127.0.0.1 is over"), "{}", ended.err);
    assert!(last.contains("255") && last.contains("the same command continues"), "{}", ended.err);
    // What ssh says itself stands in it, and above it.
    assert!(ended.err.matches("closed").count() >= 2 || ended.err.matches("reset").count() >= 2, "{}", ended.err);
    assert!(!world.path("there/big").exists(), "a part was published");
    sshd.restart(world);
    let summary = copy(&at, chunks, &from, &to).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(SLOW_LENGTH as u64), "all was sent again: {summary}");
    assert_same(&at.0.path("source"), &at.0.path("there"));
}

#[test]
fn a_copy_whose_server_dies_can_be_continued() {
    server_dies("");
}

#[test]
fn a_reversed_copy_whose_server_dies_can_be_continued() {
    server_dies("--reverse-connect");
}
