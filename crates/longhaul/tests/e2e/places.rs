//! Places that are no agent's: standard input and output, and both ends on one host.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use crate::tree::{assert_same, left_behind, make_awkward};
use crate::world::World;

/// Longer than what the source keeps of a pipe, and no multiple of a chunk.
const LONG: usize = (96 << 20) + 12_345;

/// Copies what is in a file through standard input.
fn from_input(world: &World, options: &str, input: &str, to: &str) -> crate::world::Ended {
    let input = File::open(world.path(input)).unwrap();
    let mut command = world.copy_command(options, "-".as_ref(), &world.there(to));
    world.spawn_with(&mut command, input.into(), None).end()
}

/// Copies a file to standard output.
fn to_output(world: &World, from: &str, output: Stdio) -> crate::world::Ended {
    let mut command = world.command("copy", "--quiet");
    command.args(["--fingerprint", world.fingerprint()]).arg(world.there(from)).arg("-");
    world.spawn_with(&mut command, Stdio::null(), Some(output)).end()
}

fn to_file(world: &World, from: &str, to: &str) -> crate::world::Ended {
    to_output(world, from, File::create(world.path(to)).unwrap().into())
}

#[test]
fn through_standard_input_and_output() {
    let world = World::new();
    for (name, length) in [("long", LONG), ("chunk", 4 << 20), ("small", 6), ("empty", 0)] {
        let file = world.write(name, length);
        let to = format!("rw/{name}");
        let summary = from_input(&world, "--checksum sha256", name, &to).expect_code(0).summary();
        assert_eq!(summary["bytes"], length, "{name}");
        assert!(summary["io"]["source"] == "pipe" && summary["io"]["destination"].is_string(), "{summary}");
        assert_eq!(summary["files_placed"], 1);
        assert!(fs::read(&file).unwrap() == fs::read(world.path(&to)).unwrap(), "{name}");
        let ended = to_file(&world, &to, "output").expect_code(0);
        assert!(fs::read(&file).unwrap() == fs::read(world.path("output")).unwrap(), "{name}: {}", ended.err);
    }
    assert!(left_behind(&world.path("rw")).is_empty());
}

#[test]
fn a_pipe_that_trickles() {
    let world = World::new();
    let content = fs::read(world.write("long", 9 << 20)).unwrap();
    let (read, mut write) = std::io::pipe().unwrap();
    let mut command = world.copy_command("--protect clear", "-".as_ref(), &world.there("rw/slow"));
    let running = world.spawn_with(&mut command, read.into(), None);
    // Pieces that are no multiple of anything, with a pause longer than the reader looks between two signals.
    for piece in content.chunks(1_000_003) {
        write.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(if piece.len() < 1_000_003 { 300 } else { 20 }));
    }
    drop((write, command));
    running.end().expect_code(0);
    assert!(content == fs::read(world.path("rw/slow")).unwrap());
}

#[test]
fn digests_are_told_whoever_drives() {
    let world = World::new();
    let content = fs::read(world.write("rw/tree/big", 9 << 20)).unwrap();
    world.write("rw/tree/small", 10);
    let ended = world.copy("--checksum sha256", &world.there("rw/tree/"), &world.here("back")).expect_code(0);
    let digests: Vec<_> = ended.events().into_iter().filter(|event| event["digest"].is_string()).collect();
    assert_eq!(digests.len(), 2, "{}", ended.out);
    let digest = digests.iter().find(|event| event["path"] == "big").unwrap()["digest"].as_str().unwrap().to_owned();
    let list = format!("{digest}  back/big\n");
    fs::write(world.path("list"), list).unwrap();
    let mut check = std::process::Command::new("sha256sum");
    check.current_dir(world.path("")).args(["--check", "--status", "list"]);
    assert!(check.status().unwrap().success(), "{digest}");
    assert_eq!(content.len(), 9 << 20);
}

#[test]
fn holes_come_out_as_zeros() {
    let world = World::new();
    let path = world.write("rw/sparse", 5_000);
    File::options().write(true).open(&path).unwrap().set_len(30 << 20).unwrap();
    to_file(&world, "rw/sparse", "output").expect_code(0);
    assert!(fs::read(&path).unwrap() == fs::read(world.path("output")).unwrap());
}

#[test]
fn what_a_pipe_cannot_be() {
    let world = World::new();
    world.write("file", 10);
    fs::create_dir(world.path("rw/dir")).unwrap();
    let ended = from_input(&world, "", "file", "rw/dir").expect_code(6);
    assert!(ended.summary()["errors"][0]["why"].as_str().unwrap().contains("has no name"), "{}", ended.out);
    let ended = to_file(&world, "rw/dir", "output").expect_code(2);
    assert!(ended.err.contains("standard output takes one file"), "{}", ended.err);
}

#[test]
fn a_reader_that_goes_away_is_told() {
    let world = World::new();
    world.write("rw/long", LONG);
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let ended = to_output(&world, "rw/long", write.into()).expect_code(1);
    assert!(ended.err.contains("closed by its reader"), "{}", ended.err);
}

#[test]
fn within_one_host() {
    let world = World::new();
    make_awkward(&world, "source");
    let copy = |options: &str| world.copy_here(options, &world.here("source/"), &world.here("new/deep/tree"));
    let summary = copy("").expect_code(0).summary();
    assert_eq!(summary["protection"], "clear");
    assert_same(&world.path("source"), &world.path("new/deep/tree"));
    assert!(left_behind(&world.path("new")).is_empty());
    assert_eq!(copy("--sync").expect_code(0).summary()["bytes_sent"], 0);
    world.copy_here("", &world.here("source"), &world.here("source/inside")).expect_code(2);
}
