//! Two disks below one source or one destination, of which one hangs.

use std::fs;
use std::path::Path;

use crate::is_missing;
use crate::tree::{assert_same, left_behind};
use crate::volatile::{Disk, formatted};
use crate::world::{Running, World, wait_for};

/// More chunks than readers and their queues take at once.
const BIG: usize = 12 << 20;
const CHUNK: &str = "--chunk-size 1MiB";

/// Small files and big ones.
fn files(dir: &str, big: usize) -> Vec<(String, usize)> {
    let small = (0..20).map(|n| (format!("{dir}/small-{n}"), 5000 + n));
    let big = [0, 1].map(|n| (format!("{dir}/big-{n}"), big + n));
    small.chain(big).collect()
}

fn is_there(tree: &Path, (name, length): &(String, usize)) -> bool {
    fs::metadata(tree.join(name)).is_ok_and(|meta| meta.len() == *length as u64)
}

/// Waits until the files of the fast disk are in place, and sees that those of the one that hangs are not.
fn only_the_fast_arrive(copy: &mut Running, tree: &Path, fast: &[(String, usize)], slow: &[(String, usize)]) {
    wait_for("the files of the fast disk", || {
        assert!(!copy.has_ended(), "it ended early: {}", copy.out());
        fast.iter().all(|file| is_there(tree, file)).then_some(())
    });
    assert!(!slow.iter().any(|file| is_there(tree, file)), "the slow disk did not hang");
}

/// Files of the disk that answers arrive while the other one, which comes before it, hangs.
fn a_disk_that_hangs_holds_up_no_other(plain: bool) {
    if is_missing(&["losetup", "mkfs.ext4"], true) {
        return;
    }
    let world = World::new();
    let at = world.path("slow");
    fs::create_dir_all(&at).unwrap();
    fs::create_dir_all(world.path("rw/tree")).unwrap();
    let disk = Disk::mount(formatted(&world.path("run")), &at, "data=ordered");
    fs::remove_dir(at.join("lost+found")).unwrap();
    let (slow, fast) = (files("slow", BIG), files("fast", BIG));
    slow.iter().chain(&fast).for_each(|(name, length)| _ = world.write(name, *length));
    // Mounted anew, nothing of it is in memory but what a look at its names brings there.
    let disk = Disk::mount(disk.remove(), &at, "data=ordered");
    fs::read_dir(&at).unwrap().for_each(|entry| _ = entry.unwrap().metadata().unwrap());

    let mut command = world.copy_command(CHUNK, &world.here("slow"), &world.here("fast"));
    command.arg(world.there("rw/tree/")).env_remove("LONGHAUL_IO");
    if plain {
        command.env("LONGHAUL_IO", "posix");
    }
    let tree = world.path("rw/tree");
    let mut copy;
    let hanging = disk.hang();
    copy = world.start(command);
    only_the_fast_arrive(&mut copy, &tree, &fast, &slow);
    drop(hanging);
    copy.end().expect_code(0);
    ["slow", "fast"].iter().for_each(|dir| assert_same(&world.path(dir), &world.path("rw/tree").join(dir)));
    assert!(left_behind(&world.path("rw")).is_empty());
}

#[test]
fn a_disk_that_hangs_holds_up_no_other_measured() {
    a_disk_that_hangs_holds_up_no_other(false);
}

#[test]
fn a_disk_that_hangs_holds_up_no_other_with_plain_calls() {
    a_disk_that_hangs_holds_up_no_other(true);
}

/// The least memory of an agent: a session gets half of it.
const LITTLE_MEMORY: &str = "[limits]\nmemory = \"64 MiB\"\n";
/// Four files of this length fill that memory and more.
const FOURTH: usize = 12 << 20;

/// A destination with two disks below it: files of the one that writes get their names while the other one, whose files
/// come first and are more than there is room for, hangs.
fn a_destination_disk_that_hangs_holds_up_no_other(plain: bool) {
    if is_missing(&["losetup", "mkfs.ext4"], true) {
        return;
    }
    let mut world = World::still();
    fs::write(world.path("serve.toml"), LITTLE_MEMORY).unwrap();
    let tree = world.path("rw/tree");
    let mount = |dir: &str| {
        let at = tree.join(dir);
        fs::create_dir_all(&at).unwrap();
        let disk = Disk::mount(formatted(&world.path("run")), &at, "data=ordered");
        fs::remove_dir(at.join("lost+found")).unwrap();
        disk
    };
    let (hangs, _writes) = (mount("1-slow"), mount("2-fast"));
    // Of a directory that was there and one that is made.
    let both = |dir: &str| [files(dir, FOURTH), files(&format!("{dir}/new"), FOURTH)].concat();
    let (slow, fast) = (both("1-slow"), both("2-fast"));
    slow.iter().chain(&fast).for_each(|(name, length)| _ = world.write(&format!("source/{name}"), *length));
    let way = if plain { "LONGHAUL_IO=posix" } else { "--unset=LONGHAUL_IO" };
    let mut copy;
    let hanging = hangs.hang_writes();
    world.start_agent_under(&["env", way], "127.0.0.1:0");
    copy = world.start(world.copy_command(CHUNK, &world.here("source/"), &world.there("rw/tree")));
    only_the_fast_arrive(&mut copy, &tree, &fast, &slow);
    drop(hanging);
    copy.end().expect_code(0);
    ["1-slow", "2-fast"].iter().for_each(|dir| assert_same(&world.path("source").join(dir), &tree.join(dir)));
    assert!(left_behind(&world.path("rw")).is_empty());
    // Nobody uses the disks any more when they are unmounted.
    world.kill_agent();
}

#[test]
fn a_destination_disk_that_hangs_holds_up_no_other_measured() {
    a_destination_disk_that_hangs_holds_up_no_other(false);
}

#[test]
fn a_destination_disk_that_hangs_holds_up_no_other_with_plain_calls() {
    a_destination_disk_that_hangs_holds_up_no_other(true);
}
