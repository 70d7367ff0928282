//! What an operator keeps of a controller: tokens that are made and taken back, and backups while it works.

use std::process::Command;

use crate::fleet::Fleet;
use crate::tree::assert_same;
use crate::world::{Ended, wait_for};

/// A command with another token than the admin's.
fn ask_with(fleet: &Fleet, token: &str, arguments: &[&str]) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let mut command = fleet.asking(&arguments);
    command.env("LONGHAUL_TOKEN", token);
    fleet.world.run(command)
}

#[test]
fn tokens_are_made_for_roles_and_taken_back() {
    let fleet = Fleet::new("10 Gb/s", &["w1", "e1"]);
    fleet.world.write("west-data/one", 1_000);
    let new = |name: &str, role: &[&str]| {
        let made = fleet.json(&[&["controller", "token", "new", name, "--role"], role].concat());
        made["token"].as_str().expect("it is shown").to_owned()
    };
    let viewer = new("dashboard", &["viewer"]);
    let alice = new("alice", &["submitter", "--collaboration", "cms", "--expires", "1d"]);
    ask_with(&fleet, &viewer, &["agent", "ls"]).expect_code(0);
    let refused = ask_with(&fleet, &viewer, &["limit", "set", "ocean", "--rate", "1Gb/s", "--for", "1h", "--why", "x"]);
    assert!(refused.code() == Some(2) && refused.err.contains("viewer"), "{}", refused.err);
    let submit = |token: &str, class: &str, to: &str| {
        let (from, to) = (fleet.place("west:one"), fleet.place(to));
        ask_with(&fleet, token, &["transfer", "submit", &from, &to, "--class", class, "--collaboration", class])
    };
    submit(&alice, "cms", "east:copy").expect_code(0);
    assert_eq!(submit(&alice, "atlas", "east:other").code(), Some(2));
    let all = fleet.json(&["controller", "token", "ls"]);
    let names: Vec<&str> =
        all["tokens"].as_array().expect("a list").iter().filter_map(|of| of["name"].as_str()).collect();
    assert_eq!(names, ["admin", "alice", "dashboard"]);
    assert!(!all.to_string().contains(&alice), "secrets are not kept");
    fleet.ask(&["controller", "token", "revoke", "alice", "dashboard"]).expect_code(0);
    assert_eq!(ask_with(&fleet, &viewer, &["agent", "ls"]).code(), Some(2));
    let last = fleet.ask(&["controller", "token", "revoke", "admin"]);
    assert!(last.code() != Some(0) && last.err.contains("make another first"), "{}", last.err);
}

#[test]
fn what_was_set_by_api_stays_over_a_restart() {
    let mut fleet = Fleet::new("80 Mb/s", &["w1", "e1"]);
    fleet.world.write("west-data/one", 30_000_000);
    let file = fleet.world.path("shares.toml");
    let begun_with = std::fs::read_to_string(&file).expect("it was written");
    let other = fleet.world.path("other.toml");
    std::fs::write(&other, format!("{begun_with}\n[[class]]\nname = \"guests\"\n")).expect("a file can be written");
    fleet.ask(&["class", "set", &other.display().to_string()]).expect_code(0);
    // It does not end before the restart: without its class the controller could not begin with the file.
    let id = fleet.submit("west:one", "east:one", "guests", &[]);
    fleet.kill_controller();
    fleet.start_controller();
    let classes = |fleet: &Fleet| {
        let all = fleet.json(&["class", "ls"]);
        let names =
            all["classes"].as_array().expect("a list").iter().map(|class| class["name"].as_str().map(str::to_owned));
        names.collect::<Option<Vec<String>>>().expect("they have names")
    };
    assert!(classes(&fleet).contains(&"guests".to_owned()), "{:?}", classes(&fleet));
    assert_eq!(fleet.end_of(&id)["state"], "done");
    // A file that has changed is what its operator wants.
    std::fs::write(&file, format!("{begun_with}\n[[class]]\nname = \"night\"\n")).expect("a file can be written");
    fleet.stop_controller();
    fleet.start_controller();
    let now = classes(&fleet);
    assert!(now.contains(&"night".to_owned()) && !now.contains(&"guests".to_owned()), "{now:?}");
}

/// A command about the store in that state directory.
fn longhaul(fleet: &Fleet, arguments: &[&str], state: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments).arg("--state-dir").arg(fleet.world.path(state));
    fleet.world.run(command)
}

#[test]
fn a_backup_of_a_controller_at_work_is_whole() {
    let mut fleet = Fleet::new("80 Mb/s", &["w1", "e1"]);
    for number in 0..40 {
        fleet.world.write(&format!("west-data/run/{number}"), 700_000);
    }
    let id = fleet.submit("west:run", "east:run", "cms", &[]);
    wait_for("bytes to move", || {
        (fleet.json(&["transfer", "show", &id])["bytes_done"].as_u64() > Some(0)).then_some(())
    });
    let backup = fleet.world.path("backup");
    let backup = backup.to_str().expect("it is text");
    let copied = longhaul(&fleet, &["controller", "backup", backup], "controller").expect_code(0);
    assert!(copied.out.contains("pages of files are in"), "{}", copied.out);
    let nowhere = longhaul(&fleet, &["controller", "backup", backup], "no-controller");
    assert!(nowhere.code() != Some(0) && nowhere.err.contains("there is no store"), "{}", nowhere.err);
    assert!(!fleet.world.path("no-controller/store").exists(), "looking makes nothing");
    longhaul(&fleet, &["controller", "restore", backup], "other").expect_code(0);
    let replay = longhaul(&fleet, &["controller", "replay", "--verify", "--json"], "other").expect_code(0);
    let told: serde_json::Value = serde_json::from_str(&replay.out).expect("one object");
    assert_eq!((&told["ok"], &told["transfers"]), (&true.into(), &1.into()), "{told}");
    // The controller noticed nothing. After the loss of its store it goes on from the backup.
    fleet.kill_controller();
    let store = fleet.world.path("controller/store");
    std::fs::remove_dir_all(&store).expect("it can be removed");
    longhaul(&fleet, &["controller", "restore", backup], "controller").expect_code(0);
    fleet.start_controller();
    let told = fleet.end_of(&id);
    assert_eq!(told["state"], "done", "{told:#}");
    assert_same(&fleet.data("west").join("run"), &fleet.data("east").join("run"));
}
