//! A throughput test over a long path.

use std::time::{Duration, Instant};

use crate::Twins;
use crate::world::{events, under, wait_for};

/// Three round trips and more until a stream is open.
const NETWORK: &str = r#"
name = "far"
hosts = ["a", "b"]
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "100 Mb/s"
delay = "150 ms"
"#;
/// The streams of the other end, which are opened after a second, arrive when it has ended.
const DURATION: &str = "1300ms";
/// What an end that waits for the other one in vain waits at least.
const IN_VAIN: Duration = Duration::from_secs(5);

#[test]
fn streams_that_are_opened_when_a_test_ends_do_not_hold_it_up() {
    let Some(mut twins) = Twins::new("late-streams") else { return };
    let name = twins.name("far");
    let network = twins.file("far.toml", NETWORK).display().to_string();
    twins.done(&format!("up {network} --name {name}"));
    twins.world.start_agent_under(&["ip", "netns", "exec", &format!("twin.{name}.b")], "[::]:4810");
    let mut command =
        twins.world.command("test throughput", &format!("--json --reverse --streams 1 --duration {DURATION}"));
    command.arg("b:4810").args(["--fingerprint", twins.world.fingerprint()]);
    let on_a = [env!("CARGO_BIN_EXE_longhaul"), "twin", "exec", "--twin", &name, "a", "--"];
    let test = twins.world.start(under(&on_a, &command));
    let id = test.session();
    wait_for("the line of the first second", || {
        events(&test.out()).iter().any(|event| event["event"] == "interval").then_some(())
    });
    let asked = Instant::now();
    twins.world.run(twins.world.command("session set", &format!("{id} --streams 4"))).expect_code(0);
    let summary = test.end().expect_code(0).summary();
    assert!(asked.elapsed() < IN_VAIN, "{:?} after the streams were asked for: {summary}", asked.elapsed());
}
