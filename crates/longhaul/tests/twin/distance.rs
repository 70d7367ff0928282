//! The mover over the distance of a twin.

use std::time::Duration;

use crate::Twins;
use crate::world::{World, under};

/// 100 Mb/s over 40 ms: 500 KB in flight, eight times the window that a connection begins with.
const NETWORK: &str = r#"
    name = "far"
    hosts = ["a", "b"]

    [[link]]
    name = "ab"
    ends = ["a", "b"]
    rate = "100 Mb/s"
    delay = "20 ms"
"#;

#[test]
fn the_window_of_one_stream_grows_to_what_the_path_holds() {
    let Some(twins) = Twins::new("window") else { return };
    let (file, name) = (twins.file("far.toml", NETWORK), twins.name("far"));
    twins.done(&format!("up {} --name {name}", file.display()));
    let far = World::with_agent_at("10.128.0.2:0", &format!("twin.{name}.b"));
    // Whether the window grows is decided within its first round trips, so it is to grow every time.
    for _ in 0..3 {
        let options = "--streams 1 --congestion cubic --protect clear --duration 2s --json";
        let mut command = far.command("test throughput", options);
        command.args(["--fingerprint", far.fingerprint(), far.address()]);
        let namespace = format!("twin.{name}.a");
        let ended = far.start(under(&["ip", "netns", "exec", &namespace], &command));
        let summary = ended.end_within(Duration::from_secs(60)).expect_code(0).summary();
        assert_ne!(summary["limited_by"], "receiver_window", "{summary}");
    }
}
