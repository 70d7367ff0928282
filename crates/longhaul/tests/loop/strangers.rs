//! Those who are not who they say they are.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::Fleet;
use crate::rest::{Reply, Rest};
use crate::world::wait_for;

#[test]
fn an_enrolment_is_good_once() {
    let fleet = Fleet::new("1 Gb/s", &["w1", "e1"]);
    let fingerprint = || {
        let agents = fleet.json(&["agent", "ls"]);
        let agents = agents["agents"].as_array().expect("a list").clone();
        let host = agents.into_iter().find(|agent| agent["host"] == "w1").expect("it is enrolled");
        assert_eq!(host["state"], "online");
        host["fingerprint"].clone()
    };
    let before = fingerprint();
    // Somebody has read the token of w1 on its way, and comes with a key of their own.
    let mut thief = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    thief.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(fleet.world.path("w1").join("serve.toml"));
    thief.arg("--state-dir").arg(fleet.world.path("thief")).env("LONGHAUL_LOG", "info,agent=debug");
    let mut thief = fleet.world.start(thief);
    wait_for("the thief to be turned away", || {
        assert!(!thief.has_ended(), "it ended: {}", thief.err());
        thief.err().contains("turned this agent away").then_some(())
    });
    assert!(thief.err().contains("make a new one with `agent token`"), "the way out is told: {}", thief.err());
    assert_eq!(fingerprint(), before, "w1 is who it was");
}

#[test]
fn a_token_that_is_none_or_not_enough_does_nothing() {
    let fleet = Fleet::new("1 Gb/s", &["w1", "e1"]);
    fs::write(fleet.data("west").join("file"), "content").expect("a file can be written");
    let place = |site: &str| format!("{site}:{}/file", fleet.data(site).display());
    let body = json!({
        "sources": [place("west")], "destination": place("east"), "class": "cms", "collaboration": "cms",
    });
    let wrong = Rest::new(&fleet.address, &fleet.fingerprint, &format!("{}x", fleet.token));
    let no = |reply: Reply, status: u16| {
        assert!(matches!(&reply, Reply::Said(said, _) if *said == status), "{reply:?}");
    };
    no(wrong.get("/transfers"), 401);
    no(wrong.post("/transfers", Some(&body), Some("key")), 401);
    let made = |role: serde_json::Value| {
        let admin = Rest::new(&fleet.address, &fleet.fingerprint, &fleet.token);
        let reply = admin.post("/tokens", Some(&role), None);
        let Reply::Said(201, told) = reply else { panic!("{reply:?}") };
        Rest::new(&fleet.address, &fleet.fingerprint, told["token"].as_str().expect("it is shown"))
    };
    let viewer = made(json!({"name": "see", "role": "viewer"}));
    no(viewer.get("/transfers"), 200);
    no(viewer.post("/transfers", Some(&body), None), 403);
    // For its own collaboration only, and of others' transfers it stops none.
    let id = fleet.submit("west:file", "east:copy", "cms", &[]);
    let atlas = made(json!({"name": "atlas", "role": "submitter", "collaboration": "atlas"}));
    no(atlas.post("/transfers", Some(&body), None), 403);
    no(atlas.post(&format!("/transfers/{id}/cancel"), Some(&json!({"reason": "mine"})), None), 403);
    assert_eq!(fleet.end_of(&id)["state"], "done");
    assert!(!fleet.data("east").join("file").exists());
}

#[test]
fn who_says_nothing_or_too_much_holds_up_nobody() {
    /// As many as one address may have on their way in, less those that others of this test need.
    const SILENT: usize = 100;
    let fleet = Fleet::new("1 Gb/s", &["w1", "e1"]);
    fs::write(fleet.data("west").join("file"), "content").expect("a file can be written");
    let rest = Rest::new(&fleet.address, &fleet.fingerprint, &fleet.token);
    let begin = Instant::now();
    let connect = |_| TcpStream::connect(&fleet.address).expect("the port is open");
    let mut silent: Vec<TcpStream> = (0..SILENT).map(connect).collect();
    let id = fleet.submit("west:file", "east:copy", "cms", &[]);
    assert_eq!(fleet.end_of(&id)["state"], "done", "others are served");
    let large = json!({ "sources": ["x".repeat(9 << 20)], "destination": "east:/x", "class": "cms" });
    // It is refused by its length; its end may not be read any more.
    let reply = rest.post("/transfers", Some(&large), None);
    assert!(matches!(reply, Reply::Said(413, _) | Reply::Lost(_)), "{reply:?}");
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
        let ended = stream.read(&mut [0; 16]);
        let is_closed = match &ended {
            Ok(read) => *read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(is_closed, "it is still there after {:?}: {ended:?}", begin.elapsed());
    }
    assert!(matches!(rest.get("/transfers"), Reply::Said(200, _)));
}
