//! Lists of names, longer than any frame.

use std::fs;
use std::time::Duration;

use crate::world::World;

/// Names in the list; of 30 bytes each, so more than two frames.
const NAMES: usize = 300_000;
/// Every so many of them is there; the others have gone since the list was made.
const EACH_THERE: usize = 300;
/// The longest that a copy of them may take.
const TIME_MAX: Duration = Duration::from_secs(300);

fn name(n: usize) -> String {
    format!("directory-of-many/{:03}/{n:08}", n / 1000)
}

/// Makes what is there of the list, and one file that is not in it; writes the list.
fn make(world: &World, source: &str) {
    let mut list = String::new();
    for n in 0..NAMES {
        let name = name(n);
        if n % EACH_THERE == 0 {
            world.write(&format!("{source}/{name}"), 10);
        }
        list.push_str(&name);
        list.push('\n');
    }
    world.write(&format!("{source}/directory-of-many/not-listed"), 10);
    fs::write(world.path("list"), list).expect("a list can be written");
}

#[test]
fn a_list_of_300000_names_is_pulled() {
    let world = World::new();
    make(&world, "ro/source");
    let mut command = world.copy_command("", &world.there("ro/source/"), &world.here("back"));
    command.arg("--files-from").arg(world.path("list"));
    let summary = world.start(command).end_within(TIME_MAX).expect_code(6).summary();
    let there = NAMES / EACH_THERE;
    assert_eq!((&summary["files_placed"], &summary["files_failed"]), (&there.into(), &(NAMES - there).into()));
    for n in [0, NAMES / 2, NAMES - EACH_THERE] {
        assert!(world.path("back").join(name(n)).exists(), "{n}");
    }
    assert!(!world.path("back/directory-of-many/not-listed").exists());
}

#[test]
fn a_list_goes_with_a_copy_between_agents() {
    let world = World::new();
    for name in ["ro/source/a/1", "ro/source/a/2", "ro/source/b"] {
        world.write(name, 10);
    }
    fs::write(world.path("list"), "a/2\nb\n").unwrap();
    let mut command = world.command("copy", "--json --files-from");
    command.arg(world.path("list")).arg(world.there("ro/source/")).arg(world.there("rw/tree"));
    let summary = world.run(command).expect_code(0).summary();
    assert_eq!(summary["files_placed"], 2, "{summary}");
    assert!(world.path("rw/tree/a/2").exists() && !world.path("rw/tree/a/1").exists());
}

#[test]
fn a_list_is_for_one_source() {
    let world = World::new();
    fs::write(world.path("list"), "a\n").unwrap();
    let mut command = world.command("copy", "--json --files-from");
    command.arg(world.path("list")).args(["--fingerprint", world.fingerprint()]);
    command.args([world.there("ro/x/"), world.there("ro/y/"), world.here("back")]);
    let ended = world.run(command).expect_code(2);
    assert!(ended.err.contains("one source"), "{}", ended.err);
}
