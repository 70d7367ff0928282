//! What a copy makes of what is there already: equal files, other files, and what copies themselves have left.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::tree::{assert_same, entries};
use crate::world::World;

/// Travels in chunks.
const BIG: usize = 3 << 20;

/// Two trees of the same names and sizes; in `source`, `same` and `big-same` differ from `rw/tree` in time only, `other` and
/// `big-other` in a byte too.
fn two_trees(world: &World) {
    for (name, length, differs) in
        [("same", 5000, false), ("big-same", BIG, false), ("other", 5001, true), ("big-other", BIG + 1, true)]
    {
        let source = world.write(&format!("source/{name}"), length);
        let there = world.write(&format!("rw/tree/{name}"), length);
        let mut content = fs::read(&source).unwrap();
        content[length / 2] ^= u8::from(differs);
        fs::write(&there, content).unwrap();
        File::open(&source)
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5))
            .unwrap();
    }
}

#[test]
fn equal_content_is_not_sent_again() {
    let world = World::new();
    two_trees(&world);
    let same = fs::metadata(world.path("rw/tree/same")).unwrap();
    // Whoever owns a file may set its time without being allowed to write it.
    for name in ["source/same", "rw/tree/same"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    let summary =
        world.copy("--sync --by-checksum", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert_eq!(summary["bytes_sent"], 5001 + BIG + 1, "{summary}");
    assert_eq!(fs::metadata(world.path("rw/tree/same")).unwrap().ino(), same.ino(), "it was written anew");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

/// Of a file that is one hole no chunk travels.
#[test]
fn a_hole_replaces_what_is_of_its_size() {
    let world = World::new();
    fs::create_dir(world.path("source")).unwrap();
    File::create(world.path("source/hole")).unwrap().set_len(BIG as u64).unwrap();
    world.write("rw/tree/hole", BIG);
    let summary =
        world.copy("--sync --by-checksum", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert_eq!((&summary["files_placed"], &summary["bytes_sent"]), (&1.into(), &0.into()), "{summary}");
    assert_eq!(fs::metadata(world.path("rw/tree/hole")).unwrap().blocks(), 0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

#[test]
fn a_dry_run_by_checksum_ends_and_changes_nothing() {
    let world = World::new();
    two_trees(&world);
    let before = entries(&world.path("rw"));
    let copy =
        |options: &str| world.copy(options, &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    let summary = copy("--sync --by-checksum --dry-run");
    assert_eq!((&summary["files_placed"], &summary["files_skipped"]), (&2.into(), &2.into()), "{summary}");
    assert_eq!(entries(&world.path("rw")), before);
}

#[test]
fn what_is_there_stays_or_is_replaced_as_asked() {
    let world = World::new();
    two_trees(&world);
    let copy =
        |options: &str| world.copy(options, &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    let before = entries(&world.path("rw/tree"));
    let summary = copy("--overwrite never");
    assert_eq!(summary["files_skipped"], 4, "{summary}");
    assert_eq!(
        entries(&world.path("rw/tree"))["other".as_ref() as &std::ffi::OsStr],
        before["other".as_ref() as &std::ffi::OsStr]
    );
    copy("--overwrite changed");
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert_eq!(copy("--overwrite changed")["bytes_sent"], 0);
    let summary = copy("--overwrite always");
    assert_eq!(summary["files_placed"], 4, "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

/// A source that is itself the destination of other copies: one that was interrupted, and one that runs.
#[test]
fn what_other_copies_keep_in_a_source_is_left_out() {
    let world = World::new();
    world.write("source/d/big", BIG);
    let own = ["source/.longhaul/tree.lock", "source/.longhaul/tree.journal", "source/d/.longhaul-0123456789abcdef.0"];
    own.iter().for_each(|name| drop(world.write(name, 100)));
    let ended = world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    let arrived = entries(&world.path("rw/tree"));
    let names: Vec<_> = arrived.keys().map(|name| name.to_string_lossy()).collect();
    assert_eq!(names, ["", "d", "d/big"]);
    assert!(ended.out.contains(".longhaul-0123456789abcdef.0") && ended.out.contains("left out"), "{}", ended.out);

    // From several sources at once, too.
    world.write("more/d/small", 10);
    let mut command = world.copy_command("", &world.here("source/"), &world.here("more/"));
    command.arg(world.there("rw/both"));
    world.run(command).expect_code(0);
    let names: Vec<_> = entries(&world.path("rw/both")).into_keys().collect();
    assert_eq!(names, ["", "d", "d/big", "d/small"]);
}

#[test]
fn a_name_of_our_own_is_refused_at_the_destination() {
    let world = World::new();
    world.write(".longhaul-data", 100);
    let ended = world.copy("", &world.here(".longhaul-data"), &world.there("rw")).expect_code(6);
    assert!(ended.out.contains("a name that a copy gives its own files"), "{}", ended.out);
    assert!(!world.path("rw/.longhaul-data").exists());
}

/// More big files than there are descriptors: those that are received wait for those that are published.
#[test]
fn many_big_files_need_few_descriptors() {
    const FILES: usize = 400;
    let limit = "ulimit -n 160; exec \"$@\"";
    let mut world = World::still();
    world.start_agent_under(&["sh", "-c", limit, "sh"], "127.0.0.1:0");
    fs::create_dir(world.path("source")).unwrap();
    for n in 0..FILES {
        File::create(world.path(&format!("source/{n}"))).unwrap().set_len((2 << 20) + n as u64).unwrap();
    }
    let command = world.copy_command("", &world.here("source/"), &world.there("rw/tree"));
    let summary = world.run(crate::world::under(&["sh", "-c", limit, "sh"], &command)).expect_code(0).summary();
    assert_eq!(summary["files_placed"], FILES, "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

/// Whoever owns a file may set what describes it without being allowed to write it; root would not notice.
#[test]
fn equal_files_that_nobody_may_write_are_equal_for_their_owner_too() {
    use std::os::unix::fs::chown;
    const NOBODY: u32 = 65534;

    let mut world = World::still();
    two_trees(&world);
    // Nothing can be made in this directory, and nothing need be.
    for name in ["source/closed", "rw/tree/closed"] {
        world.write(&format!("{name}/big-same"), BIG + 2);
        let closed = fs::Permissions::from_mode(0o555);
        fs::set_permissions(world.path(name), closed).unwrap();
    }
    File::open(world.path("source/closed/big-same")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let names =
        ["same", "big-same", "other", "big-other", "closed", "closed/big-same"].map(|name| format!("rw/tree/{name}"));
    for name in ["", "run", "rw", "rw/tree"].into_iter().chain(names.iter().map(String::as_str)) {
        if let Err(error) = chown(world.path(name), Some(NOBODY), Some(NOBODY)) {
            return eprintln!("skipped: only root acts for others ({error})");
        }
    }
    for name in ["source/same", "source/big-same", "rw/tree/same", "rw/tree/big-same"] {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    world.start_agent_under(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], "127.0.0.1:0");
    let summary =
        world.copy("--sync --by-checksum", &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert_eq!((&summary["files_skipped"], &summary["files_placed"]), (&3.into(), &2.into()), "{summary}");
    assert_same(&world.path("source"), &world.path("rw/tree"));
}
