//! What `make install` puts where, and that `make uninstall` takes it away; the sandbox of the service.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The greatest exposure that `systemd-analyze security` may find, in tenths; 100 is the worst.
const EXPOSURE_TENTHS: &str = "20";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files beneath a directory with their modes.
fn files(dir: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(path).expect("it can be listed") {
            let entry = entry.expect("it is listed");
            let meta = entry.metadata().expect("it can be looked at");
            if meta.is_dir() {
                left.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir).expect("it is beneath").display().to_string();
                found.insert(name, meta.permissions().mode() & 0o7777);
            }
        }
    }
    found
}

fn make(target: &str, destination: &Path) {
    let mut command = Command::new("make");
    command.arg("-C").arg(top()).args([target, "PREFIX=/opt/longhaul"]);
    command
        .arg(format!("PROGRAM={}", env!("CARGO_BIN_EXE_longhaul")))
        .arg(format!("DESTDIR={}", destination.display()));
    // What the make that runs the tests was given is not for this one.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    let output = command.output().expect("make runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_installed_can_be_uninstalled() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let destination = dir.path().join("a root");
    make("install", &destination);
    let found = files(&destination);
    let wanted = [
        ("etc/longhaul/serve.toml", 0o640),
        ("opt/longhaul/bin/longhaul", 0o755),
        ("opt/longhaul/lib/systemd/system/longhaul.service", 0o644),
        ("opt/longhaul/lib/systemd/system/longhaul-controller.service", 0o644),
        ("opt/longhaul/lib/systemd/system/longhaul-driver.service", 0o644),
        ("opt/longhaul/lib/systemd/system/longhaul-door.service", 0o644),
        ("opt/longhaul/lib/systemd/system/longhaul-door.socket", 0o644),
        ("opt/longhaul/lib/systemd/system/longhaul@.service", 0o644),
        ("opt/longhaul/lib/sysusers.d/longhaul.conf", 0o644),
        ("opt/longhaul/lib/tmpfiles.d/longhaul.conf", 0o644),
        ("opt/longhaul/share/bash-completion/completions/longhaul", 0o644),
        ("opt/longhaul/share/fish/vendor_completions.d/longhaul.fish", 0o644),
        ("opt/longhaul/share/longhaul/controller.toml", 0o644),
        ("opt/longhaul/share/longhaul/door.toml", 0o644),
        ("opt/longhaul/share/longhaul/driver.toml", 0o644),
        ("opt/longhaul/share/longhaul/roots.conf", 0o644),
        ("opt/longhaul/share/longhaul/serve.toml", 0o644),
        ("opt/longhaul/share/man/man1/longhaul-copy.1", 0o644),
        ("opt/longhaul/share/man/man1/longhaul-serve.1", 0o644),
        ("opt/longhaul/share/man/man1/longhaul.1", 0o644),
        ("opt/longhaul/share/zsh/site-functions/_longhaul", 0o644),
    ];
    for (name, mode) in wanted {
        assert_eq!(found.get(name), Some(&mode), "{name} in {found:#?}");
        assert!(fs::metadata(destination.join(name)).expect("it is there").len() > 0, "{name} is empty");
    }
    let pages = found.keys().filter(|name| name.contains("/man/")).count();
    assert_eq!(found.len() - pages, wanted.len() - 3, "something else was installed: {found:#?}");
    let unit = fs::read_to_string(destination.join(wanted[2].0)).expect("it is text");
    assert!(unit.contains("ExecStart=/opt/longhaul/bin/longhaul serve"), "{unit}");

    // What somebody wrote there stays, both times.
    fs::write(destination.join(wanted[0].0), "mine").expect("it can be written");
    make("install", &destination);
    make("uninstall", &destination);
    assert_eq!(files(&destination).into_keys().collect::<Vec<_>>(), [wanted[0].0]);
    assert_eq!(fs::read(destination.join(wanted[0].0)).expect("it is there"), b"mine");
}

#[test]
fn the_services_are_in_tight_sandboxes() {
    let help = Command::new("systemd-analyze").args(["security", "--help"]).output();
    if !help.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("--offline")) {
        eprintln!("skipped: there is no systemd-analyze that reads a unit offline");
        return;
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--no-pager", "--offline=true", "--threshold", EXPOSURE_TENTHS]);
    let units = ["longhaul", "longhaul@", "longhaul-door", "longhaul-controller", "longhaul-driver"]
        .map(|unit| format!("packaging/{unit}.service"));
    let output = command.args(units.map(|unit| top().join(unit))).output().expect("it ran before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
