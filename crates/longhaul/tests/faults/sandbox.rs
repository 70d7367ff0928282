//! Hooks of an agent under the restrictions of the packaged unit, as far as they can be had without systemd: no
//! capability and no new privilege, another user, a file system that is read-only but for the agent's own
//! directory, and the filter of system calls, which strace plays.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::is_missing;
use crate::tree::assert_same;
use crate::world::World;

const NOBODY: u32 = 65534;
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/longhaul.service");
/// Sets of system calls within each other, as systemd has them.
const DEPTH_MAX: usize = 8;
const MOMENTS: [&str; 4] = ["before_file", "after_file", "before_dataset", "after_dataset"];

/// Does what hooks do, and tries what the sandbox is to refuse.
const HOOK: &str = r#"#!/bin/sh
log="$LONGHAUL_ROOT/../log"
if [ "$LONGHAUL_HOOK" = after_file ]; then
    mkdir -p "$log.d" && sha256sum "$LONGHAUL_ROOT/$LONGHAUL_PATH" | cut -c1-64 > "$log.d/new$$" || exit 1
    cp "$log.d/new$$" "$log.d/copy$$" && mv "$log.d/copy$$" "$log.d/sum" && date >> "$log.d/dates" || exit 1
    chown 0 "$log.d/sum" 2> /dev/null && echo chown >> "$log.broken"
    nice -n 5 true 2> /dev/null
fi
touch "$OUTSIDE" 2> /dev/null && echo outside >> "$log.broken"
echo "$LONGHAUL_HOOK" >> "$log"
"#;

/// The calls that a line of the unit names, sets taken apart.
fn calls_of(names: &str) -> BTreeSet<String> {
    let (mut calls, mut sets) = (BTreeSet::new(), names.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    for _ in 0..DEPTH_MAX {
        let (inner, plain): (Vec<_>, Vec<_>) = sets.into_iter().partition(|name| name.starts_with('@'));
        calls.extend(plain);
        sets = inner.iter().flat_map(|set| members(set)).collect();
    }
    assert!(sets.is_empty(), "sets lie deeper in each other than is looked: {sets:?}");
    calls
}

fn members(set: &str) -> Vec<String> {
    let output = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", set]).output();
    let text = String::from_utf8(output.expect("systemd-analyze runs").stdout).expect("names are text");
    let lines = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The calls that the unit lets through.
fn allowed() -> BTreeSet<String> {
    let unit = fs::read_to_string(UNIT).expect("the unit can be read");
    let mut allowed = calls_of("@default");
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        match line.strip_prefix('~') {
            Some(denied) => calls_of(denied).iter().for_each(|call| _ = allowed.remove(call)),
            None => allowed.extend(calls_of(line)),
        }
    }
    assert!(allowed.contains("execve") && !allowed.contains("chown"), "the filter is not understood: {allowed:?}");
    allowed
}

#[test]
fn hooks_run_in_the_sandbox_of_the_service() {
    if is_missing(&["systemd-analyze", "strace", "setpriv", "unshare", "sha256sum"], true) {
        return;
    }
    let mut world = World::still();
    let top = world.path("");
    if !Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x"])
        .arg(env!("CARGO_BIN_EXE_longhaul"))
        .status()
        .is_ok_and(|status| status.success())
    {
        return eprintln!("skipped: nobody else may run what was built here");
    }
    let hook = world.path("hook");
    let outside = top.with_extension("outside");
    fs::write(&hook, HOOK.replace("$OUTSIDE", outside.to_str().expect("a plain path"))).expect("it can be written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("it can be made executable");
    let lines = MOMENTS.map(|moment| format!("{moment} = \"{}\"\n", hook.display()));
    fs::write(world.path("serve.toml"), format!("[hooks]\n{}", lines.concat())).expect("it can be written");
    for name in ["", "rw", "ro", "run", "state"] {
        chown(world.path(name), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let allowed = allowed();
    let names = allowed.iter().map(|call| format!("?{call}")).collect::<Vec<_>>().join(",");
    let (at, trace) = (top.display(), world.path("trace"));
    let script = format!(
        "umask 0077; mount --bind {at} {at} && mount -o remount,bind,ro / && mount -o remount,bind,rw {at} || exit 1\n\
         exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --reuid={NOBODY} --regid={NOBODY} \
         --clear-groups strace -D -f -qq -o {} -e 'trace=!{names}' -e 'inject=!{names}:error=EPERM' \"$@\"",
        trace.display()
    );
    world.start_agent_under(&["unshare", "--mount", "--propagation=private", "sh", "-c", &script, "sh"], "127.0.0.1:0");
    for (name, length) in [("small", 1_000), ("big", (5 << 20) + 3)] {
        world.write(&format!("source/{name}"), length);
    }
    world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    world.copy("", &world.there("rw/tree/"), &world.here("back")).expect_code(0);
    assert_same(&world.path("source"), &world.path("back"));
    let log = fs::read_to_string(world.path("rw/log")).expect("hooks have run");
    let count = |hook: &str| log.lines().filter(|line| *line == hook).count();
    assert_eq!(MOMENTS.map(count), [4, 4, 2, 2], "{log}");
    assert!(fs::metadata(world.path("rw/log.d/sum")).is_ok_and(|meta| meta.len() == 65), "{log}");
    let broken = fs::read_to_string(world.path("rw/log.broken")).unwrap_or_default();
    assert!(!outside.exists() && broken.is_empty(), "the sandbox has a hole: {broken}");
    // What was refused is what was to be: changing owners and priorities.
    let traced = fs::read_to_string(&trace).expect("strace writes");
    // A call that another thread's came between has its end in a line `<... name resumed>) = …` of its own.
    let call = |line: &str| {
        let rest = line.split_once(' ')?.1.trim();
        let name = match rest.strip_prefix("<... ") {
            Some(resumed) => resumed.split_once(' ')?.0,
            None => rest.split_once('(')?.0,
        };
        Some(name.to_owned())
    };
    let refused: BTreeSet<String> =
        traced.lines().filter(|line| line.contains("(INJECTED)")).filter_map(call).collect();
    assert!(refused.contains("fchownat") || refused.contains("chown"), "nothing was filtered: {refused:?}");
    let expected = ["chown", "fchown", "lchown", "fchownat", "setpriority", "sched_setattr"];
    let surprising: Vec<_> = refused.iter().filter(|call| !expected.contains(&call.as_str())).collect();
    assert!(surprising.is_empty(), "the agent or a plain hook needs what the filter refuses: {surprising:?}");
}
