//! What the last record says of a run: true of both ends, whoever drives.

use serde_json::{Value, json};

use crate::world::{Ended, World};

/// What this kernel's files are moved with when nothing is forced: both ends are here.
fn usual(summary: &Value) -> Value {
    let io = &summary["io"];
    assert!(io["source"] == "io_uring" || io["source"] == "posix", "{summary}");
    assert_eq!(io["source"], io["destination"], "{summary}");
    io["source"].clone()
}

#[test]
fn both_ends_tell_what_they_read_and_write_with() {
    let world = World::new();
    world.write("source/file", 5 << 20);
    let (here, there, back) = (world.here("source/"), world.there("rw/tree"), world.here("back"));
    let usual = usual(&world.copy("", &here, &there).expect_code(0).summary());
    let copy = |from, to| {
        let mut command = world.copy_command("", from, to);
        command.env("LONGHAUL_IO", "posix");
        world.run(command).expect_code(0).summary()["io"].clone()
    };
    assert_eq!(copy(&here, &there), json!({"source": "posix", "destination": usual}));
    assert_eq!(copy(&world.there("rw/tree/"), &back), json!({"source": usual, "destination": "posix"}));
    let file = world.path("report.json");
    let mut command = world.copy_command("", &here, &there);
    command.arg("--report").arg(&file);
    world.run(command).expect_code(0);
    let report: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(report["summary"]["io"], json!({"source": usual, "destination": usual}));
}

#[test]
fn a_test_reads_and_writes_nothing() {
    let world = World::new();
    for direction in ["", " --reverse"] {
        let mut command = world.command("test throughput", &format!("--duration 1s --json{direction}"));
        command.arg(world.address()).args(["--fingerprint", world.fingerprint()]);
        let summary = world.run(command).expect_code(0).summary();
        assert_eq!(summary["io"], json!({"source": "memory", "destination": "memory"}), "{direction}");
    }
}

#[test]
fn lines_come_as_often_as_asked() {
    let world = World::new();
    for direction in ["", " --reverse"] {
        let mut command =
            world.command("test throughput", &format!("--duration 2s --interval 200ms --json{direction}"));
        command.arg(world.address()).args(["--fingerprint", world.fingerprint()]);
        let ended = world.run(command).expect_code(0);
        let lines: Vec<_> = ended.events().into_iter().filter(|event| event["event"] == "interval").collect();
        assert!((6..=11).contains(&lines.len()), "{direction}: {lines:?}");
        assert!(lines.iter().all(|line| line["rate_bps"].as_u64() > Some(0)), "{lines:?}");
    }
}

#[test]
fn the_summary_says_where_the_digests_are() {
    let world = World::new();
    world.write("file", 1000);
    let mut command = world.copy_command("--checksum sha256", &world.here("file"), &world.there("rw"));
    command.arg("--digests").arg(world.path("sums"));
    let summary = world.run(command).expect_code(0).summary();
    assert_eq!(summary["digests_file"], world.path("sums").to_str().unwrap());
    assert!(std::fs::read_to_string(world.path("sums")).unwrap().ends_with("  file\n"));
}

/// The congestion control of a socket that asks for none.
fn kernels_choice() -> String {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    let name = std::fs::read_to_string(path).expect("the kernel says").trim().to_owned();
    // On a path as short as this bbr is not left in place.
    if name == "bbr" { "cubic".to_owned() } else { name }
}

/// The one event of that name.
fn the(ended: &Ended, name: &str) -> Value {
    let mut found = ended.events().into_iter().filter(|event| event["event"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {name}: {}", ended.out));
    assert!(found.next().is_none(), "twice {name}: {}", ended.out);
    first
}

#[test]
fn the_congestion_control_is_the_one_of_the_end_that_sends() {
    let world = World::new();
    world.write("source/file", 1 << 20);
    let kernels = kernels_choice();
    let places = [(world.here("source/"), world.there("rw/tree")), (world.there("rw/tree/"), world.here("back"))];
    for (from, to) in &places {
        let ended = world.copy("", from, to).expect_code(0);
        for record in [the(&ended, "started"), ended.summary()] {
            assert_eq!(record["congestion"], kernels, "{record}");
            assert!(record["congestion_reason"].is_string(), "{record}");
        }
        // Every kernel has it, and everybody may use it.
        let ended = world.copy("--congestion reno", from, to).expect_code(0);
        for record in [the(&ended, "started"), ended.summary()] {
            assert_eq!((&record["congestion"], &record["congestion_reason"]), (&json!("reno"), &Value::Null));
        }
        let ended = world.copy("--congestion nosuch", from, to).expect_code(0);
        let warning = the(&ended, "warning")["text"].clone();
        assert!(warning.as_str().is_some_and(|text| text.contains("nosuch cannot be set")), "{warning}");
        for record in [the(&ended, "started"), ended.summary()] {
            assert_eq!((&record["congestion"], &record["congestion_reason"]), (&json!(kernels), &warning));
        }
    }
}

#[test]
fn a_test_names_its_congestion_control() {
    let world = World::new();
    for direction in ["", " --reverse"] {
        let mut command = world.command("test throughput", &format!("--duration 300ms --json{direction}"));
        command.arg(world.address()).args(["--fingerprint", world.fingerprint()]);
        let ended = world.run(command).expect_code(0);
        assert_eq!(the(&ended, "started")["congestion"], kernels_choice(), "{direction}");
        assert_eq!(ended.summary()["congestion"], kernels_choice(), "{direction}");
    }
}

/// Runs of a busy host that are tried until one is short enough.
const TRIES: u32 = 10;

/// A copy that took less than a second; `None` if this host is too busy for any.
fn short(copy: impl Fn() -> Ended) -> Option<Value> {
    let is_short = |summary: &Value| summary["seconds"].as_f64() < Some(1.0);
    let summary = (0..TRIES).map(|_| copy().expect_code(0).summary()).find(is_short);
    if summary.is_none() {
        eprintln!("skipped: no copy took less than a second");
    }
    summary
}

/// What most of the time was put down to, and its share. All of the time is put down to something.
fn limits(summary: &Value) -> (String, f64) {
    let limits = summary["limits"].as_object().expect("there are some");
    let sum: f64 = limits.values().filter_map(Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 0.001, "{summary}");
    let most = summary["limited_by"].as_str().expect("there is one").to_owned();
    (most.clone(), limits[&most].as_f64().expect("it is one of them"))
}

#[test]
fn a_run_of_less_than_a_second_names_its_limit() {
    let world = World::new();
    // It takes 0.8 s at the rate.
    world.write("source/file", 2_000_000);
    let places = [(world.here("source/"), world.there("rw/tree")), (world.there("rw/tree/"), world.here("back"))];
    for (from, to) in places {
        let Some(summary) = short(|| world.copy("--rate 20Mb/s --streams 1", &from, &to)) else { return };
        let (most, share) = limits(&summary);
        assert!(most == "rate_limit" && share > 0.5, "{summary}");
    }
}

#[test]
fn a_run_in_which_nothing_is_slow_blames_nobody() {
    let world = World::new();
    world.write("source/file", 1000);
    let places = [(world.here("source/"), world.there("rw/tree")), (world.there("rw/tree/"), world.here("back"))];
    for (from, to) in places {
        let Some(summary) = short(|| world.copy("", &from, &to)) else { return };
        let (most, _) = limits(&summary);
        let blamed = ["network_path", "network_loss", "sender_window", "receiver_window", "rate_limit"];
        assert!(!blamed.contains(&most.as_str()), "{summary}");
    }
}
