//! The program as its users meet it: exit codes, what is printed where, and whole runs on this machine.

mod place;
mod plan;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use place::{Agent, Place, stderr, stdout};

#[test]
fn usage_errors_are_2_and_go_to_standard_error() {
    let place = Place::new();
    for line in [
        "",
        "copy",
        "copy a",
        "copy a b --rate 8",
        "copy a lh://h/x --sync --overwrite never",
        "test",
        "serve --oneshot --check",
        "session set x",
    ] {
        let output = place.longhaul(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn help_version_and_completions_are_0() {
    let place = Place::new();
    let shells = ["bash", "zsh", "fish", "elvish", "powershell"].map(|shell| format!("completions {shell}"));
    let lines = ["--help", "-h", "--version", "copy --help", "help copy"].map(str::to_owned);
    for line in lines.iter().chain(&shells) {
        let output = place.longhaul(line).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    for line in ["completions bash", "--help"] {
        let mut child = place.longhaul(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn manual_pages_are_written() {
    let place = Place::new();
    assert!(place.longhaul("man pages").status().unwrap().success());
    let page = fs::read_to_string(place.path("pages/longhaul-copy.1")).unwrap();
    for part in [".TH", "longhaul copy [OPTIONS]", "\\-\\-protect", "EXIT STATUS", "LONGHAUL_TOKEN"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_configuration_can_be_checked() {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    let output =
        place.longhaul("serve --check --state-dir agent").arg("--root").arg(place.path("data")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("data (read and write)"), "{}", stdout(&output));
    let output = place.longhaul("serve --check --root none --state-dir agent").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_wrong_state_directory_is_told_and_not_made() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    for line in ["token ls --state-dir none", "token revoke main --state-dir none", "token ls --json --state-dir empty"]
    {
        let output = place.longhaul(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("there are no tokens of an agent in"), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("--state-dir"), "{line}: {}", stderr(&output));
    }
    assert!(!place.path("none").exists());
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0);
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    let made = place
        .longhaul("token new --name alice --expires 2d --state-dir agent --read")
        .arg(place.path("data"))
        .output()
        .unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).starts_with("lh1_") && stdout(&made).lines().count() == 1);
    let listed = place.longhaul("token ls --state-dir agent").output().unwrap();
    let text = stdout(&listed);
    assert!(text.contains("alice") && text.contains("in 1d23h") && text.contains("/data"), "{text}");
    assert!(!text.contains("lh1_"), "a list shows no secret");
    assert!(place.longhaul("token revoke alice --state-dir agent").status().unwrap().success());
    let again = place.longhaul("token revoke alice --state-dir agent").output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
}

#[test]
fn without_sessions_the_list_says_so() {
    let place = Place::new();
    let output = place.longhaul("session ls").output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "no session runs here\n"));
    let output = place.longhaul("session ls --json").output().unwrap();
    assert_eq!(stdout(&output), "{\"sessions\":[]}\n");
    assert_eq!(place.longhaul("session stop 3f").output().unwrap().status.code(), Some(2));
}

#[test]
fn files_go_to_an_agent_and_it_is_pinned() {
    let place = Place::new();
    let agent = Agent::start(&place);
    fs::write(place.path("file"), vec![7; 300_000]).unwrap();
    let to = agent.location("in/");
    let output = agent.client(&place, "copy --json file").arg(&to).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read(place.path("in/file")).unwrap(), vec![7; 300_000]);
    let text = stdout(&output);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["ok"], &last["bytes"]), (&"summary".into(), &true.into(), &300_000.into()));
    assert!(stderr(&output).contains("first contact"), "{}", stderr(&output));

    // Somebody else's fingerprint at the same address.
    let known = place.path("state/longhaul/known_hosts");
    let pinned = fs::read_to_string(&known).unwrap();
    let (name, _) = pinned.split_once(' ').unwrap();
    fs::write(&known, format!("{name} sha256:{}\n", "00".repeat(32))).unwrap();
    let output = agent.client(&place, "copy file").arg(&to).output().unwrap();
    assert!(!output.status.success());
    let text = stderr(&output);
    for part in ["has changed", "line 1", "known_hosts", "sed -i 1d"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What is given with the command counts, and nothing is pinned.
    let output =
        agent.client(&place, "copy --fingerprint").arg(agent.fingerprint()).arg("file").arg(&to).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_wrong_token_is_refused() {
    let place = Place::new();
    let agent = Agent::start(&place);
    fs::write(place.path("file"), b"x").unwrap();
    let output = agent
        .client(&place, "copy file")
        .arg(agent.location("in/"))
        .env("LONGHAUL_TOKEN", "lh1_wrong")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(!place.path("in/file").exists());
}
