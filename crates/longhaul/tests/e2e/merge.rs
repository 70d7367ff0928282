//! Several sources into one directory, compared with what rsync makes of them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::tree::{entries, left_behind};
use crate::world::{Ended, World};

/// Sources beneath one directory of the world; a slash at the end means what is in it.
const SOURCES: [&[&str]; 6] = [
    &["a/", "b/"],
    &["b/", "a/", "c/"],
    &["a/d", "b/d", "c/file"],
    &["a/", "c/file", "b/d"],
    &["c/file", "b/file", "a/"],
    &["c/file", "b/file"],
];

fn is_missing_rsync() -> bool {
    let missing = !Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success());
    if missing {
        eprintln!("skipped: there is no rsync; scripts/bootstrap installs it");
    }
    missing
}

/// Three trees that have names in common: the same things, and files here that are directories or links there.
fn make_sources(world: &World, beneath: &str) {
    let write = |name: &str, length| drop(world.write(&format!("{beneath}/{name}"), length));
    for (number, tree) in ["a", "b", "c"].into_iter().enumerate() {
        for name in ["file", "d/same", "d/deep/same"] {
            write(&format!("{tree}/{name}"), 100 + number);
        }
        write(&format!("{tree}/d/only {tree}"), 10 + number);
        write(&format!("{tree}/only {tree}/deep/file"), 20 + number);
        write(&format!("{tree}/big"), (5 << 20) + number);
        symlink(tree, world.path(&format!("{beneath}/{tree}/link"))).expect("a link can be made");
        let mode = fs::Permissions::from_mode(0o700 + 5 * number as u32);
        fs::set_permissions(world.path(&format!("{beneath}/{tree}/d")), mode).expect("modes can be set");
    }
    write("a/file or directory", 30);
    write("b/file or directory/in", 31);
    write("a/directory or file/in", 32);
    write("b/directory or file", 33);
    write("b/link or directory/in", 34);
    symlink("d", world.path(&format!("{beneath}/a/link or directory"))).expect("a link can be made");
    set_times(&world.path(beneath));
}

/// Gives all beneath a directory times that go by its name: rsync leaves a directory alone that was changed in the
/// same second as its source.
fn set_times(dir: &Path) {
    for (name, entry) in entries(dir) {
        if entry.link.is_none() {
            let number = name.as_encoded_bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>();
            let file = fs::File::open(dir.join(name)).expect("it can be opened");
            file.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000 + number, 5)).expect("times can be set");
        }
    }
}

/// What was there before: some of it has to go.
fn make_destination(world: &World, name: &str) {
    for file in ["extra", "d/extra", "d/deep/same", "only b/extra/file", "only b/deep/file"] {
        world.write(&format!("{name}/{file}"), 50);
    }
    set_times(&world.path(name));
}

fn with_rsync(world: &World, sources: &[OsString], delete: bool, to: &str) {
    let mut command = Command::new("rsync");
    command.arg("-a").args(delete.then_some("--delete")).args(sources).arg(world.path(to));
    let output = command.output().expect("rsync runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Copies with both, into worlds that may be two, and compares.
fn as_rsync(from: &World, to: &World, [beneath, place]: [&str; 2], copy: impl Fn(&str, &[&str], &str) -> Ended) {
    if is_missing_rsync() {
        return;
    }
    make_sources(from, beneath);
    for (number, names) in SOURCES.into_iter().enumerate() {
        for delete in [false, true] {
            let (theirs, ours) = (format!("rsync-{number}-{delete}"), format!("{place}/{number}-{delete}"));
            make_destination(from, &theirs);
            make_destination(to, &ours);
            let names: Vec<String> = names.iter().map(|name| format!("{beneath}/{name}")).collect();
            let paths: Vec<OsString> = names.iter().map(|name| from.here(name)).collect();
            with_rsync(from, &paths, delete, &theirs);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let ended = copy(if delete { "--delete" } else { "" }, &names, &format!("{ours}/")).expect_code(0);
            let skipped = |event: &serde_json::Value| {
                event["event"] == "warning"
                    && event["text"].as_str().is_some_and(|text| text.contains(" is skipped: /"))
            };
            assert!(ended.events().iter().any(skipped), "{names:?}: nobody is told what is skipped: {}", ended.out);
            let [mut theirs, mut ours] = [from.path(&theirs), to.path(&ours)].map(|path| entries(&path));
            if !names.iter().any(|name| name.ends_with('/')) {
                // Nobody brings its time.
                drop((theirs.remove(&OsString::new()), ours.remove(&OsString::new())));
            }
            let all = theirs.keys().chain(ours.keys());
            let differ: Vec<_> = all.filter(|name| theirs.get(*name) != ours.get(*name)).collect();
            assert!(differ.is_empty(), "{names:?}, delete {delete}: {differ:?} differ from what rsync makes");
        }
    }
    assert!(left_behind(&to.path(place)).is_empty());
}

#[test]
fn a_push_merges_as_rsync_does() {
    let world = World::new();
    as_rsync(&world, &world, ["source", "rw"], |options, from, to| {
        let mut command = world.command("copy --json", options);
        command.args(["--fingerprint", world.fingerprint()]).args(from.iter().map(|name| world.here(name)));
        command.arg(world.there(to));
        world.run(command)
    });
}

#[test]
fn a_pull_merges_as_rsync_does() {
    let world = World::new();
    as_rsync(&world, &world, ["rw/source", "got"], |options, from, to| {
        let mut command = world.command("copy --json", options);
        command.args(["--fingerprint", world.fingerprint()]).args(from.iter().map(|name| world.there(name)));
        command.arg(world.here(to));
        world.run(command)
    });
}

#[test]
fn within_one_host_sources_merge_as_rsync_does() {
    let world = World::still();
    as_rsync(&world, &world, ["source", "got"], |options, from, to| {
        let mut command = world.bare_command("copy --json", options);
        command.args(from.iter().map(|name| world.here(name))).arg(world.here(to));
        world.run(command)
    });
}

#[test]
fn between_agents_sources_merge_as_rsync_does() {
    let (source, destination) = (World::new(), World::new());
    as_rsync(&source, &destination, ["ro/source", "rw"], |options, from, to| {
        let mut command = source.command("copy --json", options);
        command.arg("--token-file").arg(source.path("agent/token"));
        command.arg("--destination-token-file").arg(destination.path("agent/token"));
        command.args(from.iter().map(|name| source.there(name))).arg(destination.there(to));
        source.run(command)
    });
}

/// What was merged is continued, and made equal with `--sync`.
#[test]
fn a_merge_is_continued_and_repeated() {
    let world = World::new();
    make_sources(&world, "source");
    world.write("source/b/huge", crate::SLOW_LENGTH);
    let command = |options: &str| {
        let mut command = world.command("copy --json", options);
        command.args(["--fingerprint", world.fingerprint()]);
        command.args(["source/a/", "source/b/"].map(|name| world.here(name))).arg(world.there("rw/tree/"));
        command
    };
    let mut first = world.start(command(crate::SLOW_RATE));
    first.wait_for_progress();
    first.kill();
    let summary = world.run(command("")).expect_code(0).summary();
    assert!(summary["bytes_sent"].as_u64() < Some(crate::SLOW_LENGTH as u64), "all was sent again: {summary}");
    assert_eq!(world.run(command("--sync --delete")).expect_code(0).summary()["bytes_sent"], 0);
    let content = |name: &str| fs::read(world.path(name)).expect("it can be read");
    assert!(content("rw/tree/huge") == content("source/b/huge") && content("rw/tree/big") == content("source/a/big"));
    assert!(left_behind(&world.path("rw")).is_empty());
}
