//! File systems and locks.

use std::fs;

use crate::file::lock::holder_in;

use super::*;

#[test]
fn describes_file_systems() {
    let temp = tempfile::tempdir().unwrap();
    let here = statfs(Dir::open(temp.path()).unwrap()).unwrap();
    assert!(here.total_bytes >= here.free_bytes && here.free_bytes >= here.available_bytes);
    assert!(here.block_bytes >= 512);
    assert!(!here.name.is_empty());
    let proc = statfs(fs::File::open("/proc/self/status").unwrap()).unwrap();
    assert_eq!(proc.name, "proc");
    assert!(!proc.is_remote());
    let remote = |name: &str| FileSystem { name: name.to_owned(), ..proc.clone() }.is_remote();
    assert!(remote("nfs") && remote("lustre") && remote("fuse.sshfs") && !remote("xfs"));
}

#[test]
fn finds_the_type_in_the_mount_table() {
    let table = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                 36 22 0:45 / /mnt/a\\040b rw,nosuid shared:3 master:1 - fuse.sshfs host:/ rw\n\
                 broken line\n";
    let find = crate::file::statfs::mounted_in;
    assert_eq!(find(table, 0, 45), Some("fuse.sshfs"));
    assert_eq!(find(table, 254, 0), Some("ext4"));
    assert_eq!(find(table, 0, 4), None);
}

#[test]
fn locks_exclude_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("lock");
    fs::write(&path, b"").unwrap();
    let open = || fs::File::open(&path).unwrap();
    let (a, b, c) = (open(), open(), open());
    assert_eq!(lock(&a, LockMode::Shared).unwrap(), Lock::Taken);
    assert_eq!(lock(&b, LockMode::Shared).unwrap(), Lock::Taken);
    assert!(matches!(lock(&c, LockMode::Exclusive).unwrap(), Lock::Held { .. }));
    unlock(&a).unwrap();
    unlock(&a).unwrap();
    drop(b);
    assert_eq!(lock(&c, LockMode::Exclusive).unwrap(), Lock::Taken);
    let Lock::Held { by } = lock(&a, LockMode::Shared).unwrap() else { panic!("not excluded") };
    if let Some(pid) = by {
        assert_eq!(pid, std::process::id());
    }
    // A duplicate shares the lock; with the last of them it goes.
    let duplicate = c.try_clone().unwrap();
    drop(c);
    assert!(matches!(lock(&a, LockMode::Shared).unwrap(), Lock::Held { .. }));
    drop(duplicate);
    assert_eq!(lock(&a, LockMode::Shared).unwrap(), Lock::Taken);
}

#[test]
fn finds_the_holder_of_a_lock() {
    let table = "1: POSIX  ADVISORY  WRITE 11 fe:01:77 0 EOF\n\
                 2: FLOCK  ADVISORY  WRITE 12 fe:01:77 0 EOF\n\
                 2: -> FLOCK  ADVISORY  WRITE 13 fe:01:78 0 EOF\n\
                 3: FLOCK  ADVISORY  READ -1 00:2d:79 0 EOF\n\
                 broken\n";
    let find = |table, major, minor, ino| holder_in(table, LockMode::Exclusive, major, minor, ino);
    assert_eq!(find(table, 0xfe, 1, 77), Some(12));
    assert_eq!(find(table, 0xfe, 1, 78), None);
    assert_eq!(find(table, 0, 0x2d, 79), None);
    // Who shares a lock is not in the way of another who would.
    let table = "1: FLOCK  ADVISORY  READ 12 00:1a:7 0 EOF\n2: FLOCK  ADVISORY  WRITE 13 00:1a:7 0 EOF\n";
    assert_eq!(find(table, 0, 0x1a, 7), Some(12));
    assert_eq!(holder_in(table, LockMode::Shared, 0, 0x1a, 7), Some(13));
}
