//! Two disks below one source, of which one hangs.

use std::fs;

use crate::is_missing;
use crate::tree::{assert_same, left_behind};
use crate::volatile::{Disk, formatted};
use crate::world::{World, wait_for};

/// More chunks than readers and their queues take at once.
const BIG: usize = 12 << 20;
const CHUNK: &str = "--chunk-size 1MiB";

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
    let files = |dir: &str| {
        let small = (0..20).map(|n| (format!("{dir}/small-{n}"), 5000 + n));
        let big = [0, 1].map(|n| (format!("{dir}/big-{n}"), BIG + n));
        small.chain(big).collect::<Vec<_>>()
    };
    let (slow, fast) = (files("slow"), files("fast"));
    slow.iter().chain(&fast).for_each(|(name, length)| _ = world.write(name, *length));
    // Mounted anew, nothing of it is in memory but what a look at its names brings there.
    let disk = Disk::mount(disk.remove(), &at, "data=ordered");
    fs::read_dir(&at).unwrap().for_each(|entry| _ = entry.unwrap().metadata().unwrap());

    let mut command = world.copy_command(CHUNK, &world.here("slow"), &world.here("fast"));
    command.arg(world.there("rw/tree/")).env_remove("LONGHAUL_IO");
    if plain {
        command.env("LONGHAUL_IO", "posix");
    }
    let is_there = |(name, length): &(String, usize)| {
        fs::metadata(world.path("rw/tree").join(name)).is_ok_and(|meta| meta.len() == *length as u64)
    };
    let mut copy;
    let hanging = disk.hang();
    copy = world.start(command);
    wait_for("the files of the fast disk", || {
        assert!(!copy.has_ended(), "it ended early: {}", copy.out());
        fast.iter().all(is_there).then_some(())
    });
    assert!(!slow.iter().any(is_there), "the slow disk did not hang");
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
