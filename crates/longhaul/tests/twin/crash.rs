//! What is killed leaves nothing that `down` does not find.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::world::wait_for;
use crate::{ROOT, Twins, assert_gone, emulators, kill, runs};

/// A network with a link of each kind, and enough to do for `up` that it can be killed in the middle.
fn network() -> String {
    let hosts: Vec<String> = (0..12).map(|n| format!("\"h{n}\"")).collect();
    let mut text = format!("name = \"ring\"\nrouters = [{}]\n", hosts.join(", "));
    for n in 0..12 {
        let kind = if n % 2 == 0 { "delay = \"1 ms\"\n" } else { "" };
        text += &format!("[[link]]\nname = \"r{n}\"\nends = [\"h{n}\", \"h{}\"]\n{kind}", (n + 1) % 12);
    }
    text
}

fn exists(name: &str) -> bool {
    Path::new(ROOT).join(name).exists()
}

#[test]
fn the_emulator() {
    let Some(twins) = Twins::new("killed") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let (program, id) = twins.program(&name, "a", "exec sleep 600");
    let [emulator] = emulators(&name)[..] else { panic!("it has one emulator: {:?}", emulators(&name)) };
    kill(emulator);
    wait_for("it to be found dead", || (twins.listed(&name)?["state"] == "dead").then_some(()));
    assert_eq!(twins.listed(&name).expect("it is listed")["links"][0]["state"], "dead");
    assert!(twins.done("ls").contains(&format!("{name}: dead")));
    for words in ["stats", "link ab --cut"] {
        let said = twins.refused(&format!("{words} --twin {name}"), 1);
        assert!(said.contains(&format!("`longhaul twin down {name}` removes what is left")), "{said}");
    }
    assert!(twins.refused(&format!("up pair --name {name}"), 1).contains("is there already"));
    twins.done(&format!("down {name}"));
    assert!(!runs(id), "what ran on a host is gone too");
    drop(program);
    assert_gone(&name);
}

#[test]
fn an_emulator_that_hangs() {
    let Some(twins) = Twins::new("hangs") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let [emulator] = emulators(&name)[..] else { panic!("it has one emulator: {:?}", emulators(&name)) };
    let stopped = Command::new("kill").args(["-s", "STOP", &emulator.to_string()]).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    // Its file names a process that has nothing to do with it, as a file that is old does: the kernel knows better.
    let mut sleep = Command::new("sleep");
    sleep.arg("600");
    let mut bystander = twins.world.start(sleep);
    fs::write(Path::new(ROOT).join(&name).join("lock"), bystander.id().to_string()).expect("it can be written");
    twins.done(&format!("down {name}"));
    assert_gone(&name);
    assert!(!runs(emulator) && !bystander.has_ended());
}

#[test]
fn a_run() {
    let Some(twins) = Twins::new("run") else { return };
    let name = twins.name("run");
    let text = "network = \"pair\"\nduration = \"10m\"\n\
                [[run]]\nhost = \"a\"\ncommand = [\"sh\", \"-c\", \"echo $$ > PID; exec sleep 600\"]\n";
    let pid = twins.world.path("pid");
    let file = twins.file("scenario.toml", &text.replace("PID", &pid.display().to_string())).display().to_string();
    let run = twins.start(&format!("run --name {name} {file}"));
    let id: u32 = wait_for("the program", || fs::read_to_string(&pid).ok()?.trim().parse().ok());
    run.kill();
    assert!(runs(id) && twins.listed(&name).is_some(), "nobody was there to take it down");
    twins.done(&format!("down {name}"));
    assert!(!runs(id));
    assert_gone(&name);
}

#[test]
fn up_in_the_middle() {
    let Some(twins) = Twins::new("half") else { return };
    let file = twins.file("ring.toml", &network()).display().to_string();
    let whole = twins.name("whole");
    twins.done(&format!("up {file} --name {whole}"));
    twins.done(&format!("down {whole}"));
    let mut halves = 0;
    for (n, wait) in (0..16).map(|n| (n, Duration::from_millis(15 * n))) {
        let name = twins.name(&format!("n{n}"));
        let mut up = twins.start(&format!("up {file} --name {name}"));
        sleep(wait);
        let whole = up.has_ended();
        up.kill();
        if !exists(&name) {
            continue;
        }
        halves += u32::from(!whole);
        // It is listed, or said to be half made; either does not keep others from being listed.
        twins.done("ls");
        twins.done(&format!("down {name}"));
        assert_gone(&name);
        if whole {
            break;
        }
    }
    assert!(halves > 0, "no `up` was killed in the middle");
    assert_gone(twins.begin());
}

#[test]
fn all_leftovers_are_found() {
    let Some(twins) = Twins::new("all") else { return };
    let [whole, dead, nameless] = ["whole", "dead", "nameless"].map(|name| twins.name(name));
    for name in [&whole, &dead] {
        twins.done(&format!("up pair --name {name}"));
    }
    kill(emulators(&dead)[0]);
    // A namespace without a directory, as after a crash of the machine's `/run/longhaul`, and a directory without any.
    let added = Command::new("ip").args(["netns", "add", &format!("twin.{nameless}.a")]).status();
    assert!(added.is_ok_and(|status| status.success()));
    fs::create_dir(Path::new(ROOT).join(twins.name("empty"))).expect("it can be made");
    let said = twins.done(&format!("down --all --begin {}", twins.begin()));
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_gone(twins.begin());
    assert_eq!(twins.done(&format!("down --all --begin {}", twins.begin())), "there was no twin\n");
}
