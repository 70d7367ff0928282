//! Hooks at both ends, in both directions.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tree::{assert_same, entries, left_behind};
use crate::world::{Ended, World, wait_for};

/// Moments and what their scripts do.
type Scripts<'a> = &'a [(&'a str, &'a str)];

const MOMENTS: [&str; 4] = ["before_file", "after_file", "before_dataset", "after_dataset"];
const BIG: usize = (9 << 20) + 17;

/// What stands before each script: a line in a log, and a complaint if the file is not where it is said to be.
const LOG: &str = r#"#!/bin/sh
exec 9>> "$0.log"
there=
if [ "$LONGHAUL_ROLE" = source ] || [ "$LONGHAUL_HOOK" = after_file ]; then
    [ -e "$LONGHAUL_ROOT/$LONGHAUL_PATH" ] || there=missing
fi
echo "$LONGHAUL_HOOK $LONGHAUL_ROLE $LONGHAUL_PATH $LONGHAUL_SIZE $LONGHAUL_OUTCOME $LONGHAUL_FILES $LONGHAUL_BYTES $there" | tr -s ' ' >&9
"#;

fn script(dir: &Path, side: &str, moment: &str, body: &str) -> PathBuf {
    // One log for all moments of a side, so that their order is seen.
    let log = dir.join(format!("{side}.log"));
    let path = dir.join(format!("{side}-{moment}"));
    let text = format!("{}{body}\n", LOG.replace("\"$0.log\"", log.to_str().expect("a plain path")));
    fs::write(&path, text).expect("a script can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be made executable");
    path
}

/// A world whose agent has these hooks, and a copy to or from it with hooks at this side.
struct Site {
    world: World,
    push: bool,
    here: Vec<(String, PathBuf)>,
}

impl Site {
    fn new(push: bool, here: Scripts, there: Scripts) -> Site {
        let world = World::configured(|dir| {
            let line = |(moment, body): &(&str, &str)| {
                format!("{moment} = \"{}\"\n", script(dir, "there", moment, body).display())
            };
            format!("[hooks]\n{}", there.iter().map(line).collect::<String>())
        });
        let here = here.iter().map(|(moment, body)| {
            (format!("--hook-{}", moment.replace('_', "-")), script(&world.path(""), "here", moment, body))
        });
        Site { here: here.collect(), world, push }
    }

    fn from(&self) -> &'static str {
        if self.push { "source" } else { "rw/source" }
    }

    fn to(&self) -> &'static str {
        if self.push { "rw/tree" } else { "tree" }
    }

    fn place(&self, name: &str) -> std::ffi::OsString {
        if name.starts_with("rw") { self.world.there(name) } else { self.world.here(name) }
    }

    fn source(&self, name: &str) -> PathBuf {
        self.world.path(self.from()).join(name)
    }

    fn target(&self, name: &str) -> PathBuf {
        self.world.path(self.to()).join(name)
    }

    fn write(&self, name: &str, length: usize) {
        self.world.write(&format!("{}/{name}", self.from()), length);
    }

    fn command(&self, options: &str) -> std::process::Command {
        let from = format!("{}/", self.from());
        let mut command = self.world.copy_command(options, &self.place(&from), &self.place(self.to()));
        for (option, path) in &self.here {
            command.arg(option).arg(path);
        }
        command
    }

    fn copy(&self, options: &str) -> Ended {
        self.world.run(self.command(options))
    }

    /// The log of a side, and the log begins anew.
    fn log(&self, side: &str) -> Vec<String> {
        let path = self.world.path(&format!("{side}.log"));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[track_caller]
    fn assert_copied(&self) {
        assert_same(&self.world.path(self.from()), &self.world.path(self.to()));
        assert!(left_behind(&self.world.path(self.to())).is_empty());
    }
}

/// The four places of a hook: at this side and at the agent, of a push and of a pull.
fn everywhere(scripts: Scripts, check: impl Fn(Site, bool)) {
    for (push, at_agent) in [(true, false), (true, true), (false, false), (false, true)] {
        let (here, there): (Scripts, Scripts) = if at_agent { (&[], scripts) } else { (scripts, &[]) };
        // The agent is the source of a pull.
        check(Site::new(push, here, there), push != at_agent);
    }
}

#[track_caller]
fn only_error(summary: &Value) -> String {
    let errors = summary["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 1, "{summary}");
    format!("{}: {}", errors[0]["path"].as_str().expect("a path"), errors[0]["why"].as_str().expect("a reason"))
}

fn all_four_run(push: bool) {
    let scripts = MOMENTS.map(|moment| (moment, ""));
    let site = Site::new(push, &scripts, &scripts);
    let sizes = BTreeMap::from([("a", 10), ("deep/er/b", 0), ("big", BIG)]);
    sizes.iter().for_each(|(name, size)| site.write(name, *size));
    symlink("a", site.source("link")).unwrap();
    let before = entries(&site.world.path(site.from()));
    site.copy("--dry-run").expect_code(0);
    assert!(site.log("here").is_empty() && site.log("there").is_empty(), "a dry run runs nothing");
    site.copy("").expect_code(0);
    site.assert_copied();
    assert_eq!(entries(&site.world.path(site.from())), before);
    let total: usize = sizes.values().sum();
    for side in ["here", "there"] {
        let role = if (side == "here") == push { "source" } else { "destination" };
        let log = site.log(side);
        let at = |line: &str| log.iter().position(|l| l == line).unwrap_or_else(|| panic!("{line}: {log:#?}"));
        assert_eq!(log.len(), 2 + 2 * sizes.len(), "{log:#?}");
        assert_eq!(at(&format!("before_dataset {role}")), 0);
        for (name, size) in &sizes {
            let before = at(&format!("before_file {role} {name} {size}"));
            assert!(before < at(&format!("after_file {role} {name} {size} placed")), "{log:#?}");
        }
        assert_eq!(at(&format!("after_dataset {role} ok 3 {total}")), log.len() - 1);
    }
    site.copy("--sync").expect_code(0);
    for side in ["here", "there"] {
        assert_eq!(site.log(side).len(), 2, "files that are not copied have no hooks");
    }
}

#[test]
fn all_four_hooks_run_at_both_ends_of_a_push() {
    all_four_run(true);
}

#[test]
fn all_four_hooks_run_at_both_ends_of_a_pull() {
    all_four_run(false);
}

#[test]
fn hooks_are_told_the_name_that_a_file_gets() {
    let site = Site::new(true, &[("after_file", "")], &[("after_file", "")]);
    site.write("file", 70_000);
    let mut command = site.world.copy_command("", &site.world.here("source/file"), &site.world.there("rw/renamed"));
    command.arg(&site.here[0].0).arg(&site.here[0].1);
    site.world.run(command).expect_code(0);
    assert_eq!(site.log("here"), ["after_file source file 70000 placed"]);
    assert_eq!(site.log("there"), ["after_file destination renamed 70000 placed"]);
}

#[test]
fn a_file_is_left_out_by_its_hook() {
    everywhere(&[("before_file", "case $LONGHAUL_PATH in *.tmp) exit 10;; esac")], |site, _| {
        for (name, size) in [("a", 10), ("b.tmp", 20), ("big.tmp", BIG), ("big", BIG)] {
            site.write(name, size);
        }
        let summary = site.copy("").expect_code(0).summary();
        assert_eq!((&summary["files_placed"], &summary["files_skipped"]), (&2.into(), &2.into()), "{summary}");
        let names: Vec<_> = entries(&site.world.path(site.to())).into_keys().collect();
        assert_eq!(names, ["", "a", "big"]);
    });
}

#[test]
fn a_file_whose_hook_fails_is_reported_and_the_others_arrive() {
    let body = "[ $LONGHAUL_PATH != b ] || { echo working; echo tape offline >&2; exit 3; }";
    everywhere(&[("before_file", body), ("after_dataset", "")], |site, _| {
        for name in ["a", "b", "c"] {
            site.write(name, 10);
        }
        let summary = site.copy("").expect_code(6).summary();
        let error = only_error(&summary);
        assert!(error.starts_with("b: hook before_file `/"), "{error}");
        assert!(error.ends_with("before_file` ended with status 3: tape offline"), "{error}");
        let names: Vec<_> = entries(&site.world.path(site.to())).into_keys().collect();
        assert_eq!(names, ["", "a", "c"]);
        let log = [site.log("here"), site.log("there")].concat();
        assert!(log.last().unwrap().ends_with(" failed 3 30"), "{log:?}");
    });
}

#[test]
fn a_staged_file_is_read_as_it_is_after_its_hook() {
    let body = r#"case $LONGHAUL_PATH in
        same) printf real > "$LONGHAUL_ROOT/same" ;;
        longer) head -c 3000000 /dev/zero | tr '\0' r > "$LONGHAUL_ROOT/longer" ;;
        empty) : > "$LONGHAUL_ROOT/empty" ;;
    esac"#;
    for push in [true, false] {
        let scripts: Scripts = &[("before_file", body)];
        let site = if push { Site::new(push, scripts, &[]) } else { Site::new(push, &[], scripts) };
        fs::create_dir_all(site.source("")).unwrap();
        for (name, stub) in [("same", "stub"), ("longer", "stub"), ("empty", "stub"), ("other", "other")] {
            fs::write(site.source(name), stub).unwrap();
        }
        let summary = site.copy("").expect_code(0).summary();
        site.assert_copied();
        assert_eq!(fs::read(site.target("same")).unwrap(), b"real", "{summary}");
        assert_eq!(fs::read(site.target("longer")).unwrap(), vec![b'r'; 3_000_000]);
        let side = if push { "here" } else { "there" };
        assert_eq!(site.log(side).len(), 4, "once for each file, though some start again");
    }
}

#[test]
fn a_dataset_is_refused_by_its_hook() {
    everywhere(&[("before_dataset", "echo no space left; exit 4"), ("after_dataset", "")], |site, _| {
        site.write("a", 10);
        let ended = site.copy("").expect_code(1);
        assert!(ended.err.contains("before_dataset` ended with status 4: no space left"), "{}", ended.err);
        // A command whose own hook refuses does not wait for the agent to clear up. Entries may vanish while they are
        // listed, so the directory is asked.
        wait_for("nothing to be left behind", || {
            fs::read_dir(site.world.path(site.to())).expect("it can be listed").next().is_none().then_some(())
        });
        let log = [site.log("here"), site.log("there")].concat();
        assert!(log.len() == 1 && log[0].starts_with("before_dataset"), "what did not begin has no end: {log:?}");
    });
}

#[test]
fn a_file_whose_hook_fails_afterwards_is_in_place() {
    everywhere(&[("after_file", "[ $LONGHAUL_PATH != b ] || { echo catalogue down; exit 1; }")], |site, _| {
        for name in ["a", "b", "c"] {
            site.write(name, 10);
        }
        let summary = site.copy("").expect_code(6).summary();
        let error = only_error(&summary);
        assert!(error.starts_with("b: in place, but hook after_file `/"), "{error}");
        assert!(error.ends_with("status 1: catalogue down"), "{error}");
        site.assert_copied();
    });
}

#[test]
fn a_dataset_whose_hook_fails_afterwards_is_in_place() {
    everywhere(&[("after_dataset", "echo nobody to tell; exit 1")], |site, _| {
        site.write("deep/a", 10);
        let summary = site.copy("").expect_code(6).summary();
        let error = only_error(&summary);
        assert!(error.contains("hook after_dataset `/") && error.ends_with("status 1: nobody to tell"), "{error}");
        site.assert_copied();
    });
}

/// A slow hook of the last file holds nothing up but the end, which still hears of it.
#[test]
fn the_end_of_a_copy_waits_for_slow_hooks() {
    everywhere(&[("after_file", "sleep 6; exit 1")], |site, _| {
        site.write("a", 10);
        let summary = site.copy("").expect_code(6).summary();
        assert!(only_error(&summary).contains("after_file"), "{summary}");
    });
}

#[test]
fn hooks_end_with_their_session() {
    everywhere(&[("before_file", "echo $$ > \"$0.pid\"; sleep 100")], |site, _| {
        site.write("a", 10);
        let copy = site.world.start(site.command(""));
        let at = |side: &str| site.world.path(&format!("{side}-before_file.pid"));
        let pid = wait_for("the hook to run", || {
            let read = |side| fs::read_to_string(at(side)).ok().filter(|pid| pid.ends_with('\n'));
            read("here").or_else(|| read("there"))
        });
        copy.interrupt();
        copy.end().expect_code(75);
        let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        wait_for("the hook to be gone", || {
            fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")).then_some(())
        });
    });
}

#[test]
fn a_hook_that_names_no_program_is_refused_at_once() {
    let site = Site::new(true, &[], &[]);
    site.write("a", 10);
    let mut command = site.command("");
    command.args(["--hook-after-file", " "]);
    let ended = site.world.run(command).expect_code(2);
    assert!(ended.err.contains("hook after_file names no program"), "{}", ended.err);
    assert!(!site.target("a").exists());
}
