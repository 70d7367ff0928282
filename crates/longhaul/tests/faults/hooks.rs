//! Hooks where the connection is lost in the middle, several times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::proxy::Proxy;
use crate::tree::{assert_same, left_behind};
use crate::world::{Running, World, events, wait_for};

const FILES: usize = 300;
/// With [`RATE`] the copy lasts some ten seconds.
const FILE_LENGTH: usize = 40_000;
const RATE: &str = "--rate 10Mb/s --chunk-size 256KiB --timeout 20s";
/// When the connection is cut: shares of the files that are done, in percent.
const CUTS: [u64; 3] = [15, 40, 65];
/// How long it is away: longer than an agent keeps a session whose connections were closed.
const AWAY: Duration = Duration::from_secs(3);
const MOMENTS: [&str; 4] = ["before_file", "after_file", "before_dataset", "after_dataset"];

/// A program that writes down what it is run for.
fn script(dir: &Path, side: &str) -> String {
    let (path, log) = (dir.join(format!("{side}-hook")), dir.join(format!("{side}.log")));
    let text = format!("#!/bin/sh\necho \"$LONGHAUL_HOOK $LONGHAUL_PATH $LONGHAUL_OUTCOME\" >> {}\n", log.display());
    fs::write(&path, text).expect("a script can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be made executable");
    path.display().to_string()
}

fn wait_for_files(copy: &mut Running, percent: u64) {
    wait_for("files in place", || {
        assert!(!copy.has_ended(), "it ended early: {}", copy.out());
        let done = |event: &serde_json::Value| {
            event["event"] == "progress" && event["files_done"].as_u64() >= Some(FILES as u64 * percent / 100)
        };
        events(&copy.out()).iter().any(done).then_some(())
    });
}

/// What the log of a side says: for each file how often each hook ran, and the hooks of the dataset.
fn read_log(world: &World, side: &str) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let text = fs::read_to_string(world.path(&format!("{side}.log"))).expect("hooks have run");
    let (mut files, mut dataset) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [hook, rest @ ..] if hook.ends_with("_dataset") => dataset.push([&[*hook], rest].concat().join(" ")),
            [hook, path, rest @ ..] => {
                files.entry((*path).to_owned()).or_default().push([&[*hook], rest].concat().join(" "));
            }
            _ => panic!("{line}"),
        }
    }
    (files, dataset)
}

fn interrupted(push: bool) {
    let hook = |dir: &Path| script(dir, "there");
    let world = World::configured(|dir| {
        format!("[hooks]\n{}", MOMENTS.map(|moment| format!("{moment} = \"{}\"\n", hook(dir))).concat())
    });
    let (from, to) = if push { ("source", "rw/tree") } else { ("rw/source", "tree") };
    for number in 0..FILES {
        world.write(&format!("{from}/{}/{number}", number % 7), FILE_LENGTH + number);
    }
    let wire = Proxy::sound(world.address());
    let place =
        |name: &str| if name.starts_with("rw") { world.there_by(&wire.address(), name) } else { world.here(name) };
    let mut command = world.copy_command(RATE, &place(&format!("{from}/")), &place(to));
    for moment in MOMENTS {
        command.arg(format!("--hook-{}", moment.replace('_', "-"))).arg(script(&world.path(""), "here"));
    }
    let mut copy = world.start(command);
    for percent in CUTS {
        wait_for_files(&mut copy, percent);
        wire.down(true);
        sleep(AWAY);
        wire.down(false);
    }
    let summary = copy.end().expect_code(0).summary();
    assert!(summary["reconnects"].as_u64() >= Some(CUTS.len() as u64), "{summary}");
    assert_same(&world.path(from), &world.path(to));
    assert!(left_behind(&world.path(to)).is_empty());
    for side in ["here", "there"] {
        let (files, dataset) = read_log(&world, side);
        let wrong: Vec<_> = files
            .iter()
            .filter(|(_, hooks)| {
                let (last, before) = hooks.split_last().expect("a hook has run");
                // What was under way when the connection was cut is begun again; what was in place is not.
                last != "after_file placed" || before.is_empty() || before.iter().any(|hook| hook != "before_file")
            })
            .collect();
        assert!(wrong.is_empty(), "{side}: {wrong:#?}");
        assert_eq!(files.len(), FILES, "{side}");
        let ends: Vec<_> = dataset.iter().map(String::as_str).collect();
        match side {
            "here" => assert_eq!(ends, ["before_dataset", "after_dataset ok"]),
            // The agent's are for sessions: each is whole, and the last one is well.
            _ => {
                let whole = |pair: &[&str]| pair[0] == "before_dataset" && pair[1].starts_with("after_dataset ");
                assert!(ends.len() > 2 * CUTS.len() && ends.chunks(2).all(whole), "{ends:?}");
                assert_eq!(ends.last(), Some(&"after_dataset ok"), "{ends:?}");
            }
        }
    }
}

#[test]
fn hooks_of_a_push_run_once_however_often_it_connects() {
    interrupted(true);
}

#[test]
fn hooks_of_a_pull_run_once_however_often_it_connects() {
    interrupted(false);
}
