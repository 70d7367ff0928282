//! What the last record says of a run: true of both ends, whoever drives.

use serde_json::{Value, json};

use crate::world::World;

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
