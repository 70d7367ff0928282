//! Disks that are full, files that cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::tree::{assert_same, entries, left_behind};
use crate::world::{World, under};
use crate::{is_missing, run, tried};

/// A file system in memory; unmounted when it goes.
struct Memory(PathBuf);

impl Memory {
    fn mount(at: PathBuf, options: &str) -> Memory {
        run(&format!("mount -t tmpfs -o {options} longhaul-test"), &[&at]);
        Memory(at)
    }

    fn again(&self, options: &str) {
        run(&format!("mount -o remount,{options}"), &[&self.0]);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        tried("umount -l", &[&self.0]);
    }
}

/// What has its name is whole; gives how many files have.
fn whole_files(world: &World) -> usize {
    let source = entries(&world.path("source"));
    let there = entries(&world.path("rw/tree")).into_iter();
    let named = there
        .filter(|(name, entry)| entry.mode & 0o170_000 == 0o100_000 && !name.to_string_lossy().contains(".longhaul"));
    named.inspect(|(name, entry)| assert_eq!(Some(&entry.content), source.get(name).map(|e| &e.content))).count()
}

fn full(small_files: usize, big: usize, too_little: &str, enough: &str) {
    if is_missing(&["mount", "umount"], true) {
        return;
    }
    let mut world = World::still();
    let memory = Memory::mount(world.path("rw"), too_little);
    world.start_agent_under(&[], "127.0.0.1:0");
    for number in 0..small_files {
        world.write(&format!("source/{}/{number}", number % 5), 20_000 + number);
    }
    if big > 0 {
        world.write("source/big", big);
    }
    let copy = || world.copy("", &world.here("source/"), &world.there("rw/tree"));
    let ended = copy().expect_code(1);
    assert!(ended.err.contains("No space left") && ended.err.contains("free some space"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    let before = whole_files(&world);
    memory.again(enough);
    let summary = copy().expect_code(0).summary();
    assert!(summary["files_skipped"].as_u64() >= Some(before as u64), "{before} files were there: {summary}");
    assert!(before == 0 || summary["bytes_sent"].as_u64() < summary["bytes"].as_u64(), "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty());
    drop(world);
}

#[test]
fn a_disk_too_small_for_a_big_file() {
    full(20, 24 << 20, "size=16m", "size=64m");
}

#[test]
fn a_disk_too_small_for_many_files() {
    full(400, 0, "size=4m", "size=64m");
}

#[test]
fn a_disk_without_inodes() {
    full(400, 0, "size=64m,nr_inodes=200", "nr_inodes=2000");
}

/// One file of many cannot be read: the rest arrives, and the output names it.
fn one_is_left_out(world: &World, prefix: &[&str], name: &str, why: &str) {
    let report = world.path("report.json");
    let options = format!("--report {}", report.display());
    let command = world.copy_command(&options, &world.here("source/"), &world.there("rw/tree"));
    let ended = world.run(under(prefix, &command)).expect_code(6);
    assert_eq!(ended.summary()["files_failed"], 1, "{}", ended.out);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let failed = report["failed"].as_array().unwrap();
    assert!(failed.len() == 1 && failed[0]["path"] == name, "{report}");
    assert!(failed[0]["why"].as_str().is_some_and(|text| text.contains(why)), "{report}");
    let mut wanted = entries(&world.path("source"));
    wanted.retain(|path, _| path != name);
    assert_eq!(wanted.keys().collect::<Vec<_>>(), entries(&world.path("rw/tree")).keys().collect::<Vec<_>>());
    assert_eq!(whole_files(world), wanted.values().filter(|e| e.mode & 0o170_000 == 0o100_000).count());
}

fn source_of_many(world: &World) {
    for number in 0..30 {
        world.write(&format!("source/{number}"), 1_000 * number);
    }
    world.write("source/big", 9 << 20);
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    if is_missing(&["setpriv"], false) {
        return;
    }
    let world = World::new();
    source_of_many(&world);
    fs::set_permissions(world.path("source/7"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything until it gives that up.
    let is_root = fs::read(world.path("source/7")).is_ok();
    let give_up = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"];
    one_is_left_out(&world, if is_root { &give_up } else { &["env"] }, "7", "ermission denied");
}

fn read_error(environment: &[&str], name: &str, call: &str) {
    if is_missing(&["strace"], true) {
        return;
    }
    let world = World::new();
    source_of_many(&world);
    let path = world.path("source").join(name);
    let path = path.to_str().expect("the names of this test are text");
    let inject = format!("inject={call}:error=EIO");
    let trace = format!("trace={call}");
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", &trace, "-e", &inject, "env"];
    one_is_left_out(&world, &[&strace, environment].concat(), name, "Input/output error");
}

#[test]
fn a_small_file_with_a_read_error_is_named() {
    read_error(&["LONGHAUL_IO=posix"], "11", "pread64,preadv,?preadv2,read");
}

#[test]
fn a_big_file_with_a_read_error_is_named() {
    read_error(&["LONGHAUL_IO=posix"], "big", "pread64,preadv,?preadv2,read");
}

/// An ext4 has one block for the attributes of a file: what does not fit is the trouble of that file alone.
#[test]
fn an_attribute_too_large_for_the_destination_fails_its_file_only() {
    if is_missing(&["mkfs.ext4", "losetup", "mount", "umount"], true) {
        return;
    }
    let mut world = World::still();
    let source = world.path("source");
    fs::create_dir(&source).unwrap();
    let _memory = Memory::mount(source.clone(), "size=16m");
    for (name, length) in [("a", 1000), ("big", 3 << 20), ("marked", 1000), ("marked-big", 3 << 20), ("z", 1000)] {
        world.write(&format!("source/{name}"), length);
    }
    for name in ["marked", "marked-big"] {
        let file = fs::File::open(source.join(name)).unwrap();
        if let Err(error) = sys::file::set_xattr(file, b"user.large", &[b'x'; 10_000]) {
            return eprintln!("skipped: no file system in memory keeps such an attribute here ({error})");
        }
    }
    let image = crate::volatile::formatted(&world.path("run"));
    let disk = crate::volatile::Disk::mount(image, &world.path("rw"), "data=ordered");
    world.start_agent_under(&[], "127.0.0.1:0");
    let ended = world.copy("--preserve all", &world.here("source/"), &world.there("rw/tree")).expect_code(6);
    let summary = ended.summary();
    assert_eq!((&summary["files_placed"], &summary["files_failed"]), (&3.into(), &2.into()), "{summary}");
    for error in summary["errors"].as_array().expect("a list") {
        let (path, why) = (error["path"].as_str().unwrap(), error["why"].as_str().unwrap());
        assert!(path.starts_with("marked") && why.contains("extended attribute user.large"), "{error}");
    }
    for (name, is_there) in [("a", true), ("big", true), ("marked", false), ("marked-big", false), ("z", true)] {
        assert_eq!(world.path(&format!("rw/tree/{name}")).exists(), is_there, "{name}");
    }
    assert!(left_behind(&world.path("rw")).is_empty(), "{:?}", left_behind(&world.path("rw")));
    // Without it, it fits.
    world.copy("--sync", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    world.kill_agent();
    disk.remove();
}
