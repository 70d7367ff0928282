//! A throughput test over a long path.

use std::time::{Duration, Instant};

use crate::Twins;
use crate::world::{Running, events, under, wait_for};

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
/// One packet of a thousand is lost on both ways.
const LOSSY: &str = r#"
name = "far"
hosts = ["a", "b"]
[[link]]
name = "ab"
ends = ["a", "b"]
rate = "100 Mb/s"
delay = "40 ms"
loss = 1e-3
"#;
/// Streams that a session over a far path that loses packets has, which are all that it may have by itself.
const STREAMS_LOSSY: u64 = 16;
/// The streams of the other end, which are opened after a second, arrive when it has ended.
const DURATION: &str = "1300ms";
/// What an end that waits for the other one in vain waits at least.
const IN_VAIN: Duration = Duration::from_secs(5);

/// A twin with an agent on `b`; what is started ends with it.
struct Far {
    twins: Twins,
    name: String,
}

impl Far {
    /// None, with a message, where twins cannot be made.
    fn new(topic: &str, network: &str) -> Option<Far> {
        let mut twins = Twins::new(topic)?;
        let name = twins.name("far");
        let network = twins.file("far.toml", network).display().to_string();
        twins.done(&format!("up {network} --name {name}"));
        twins.world.start_agent_under(&["ip", "netns", "exec", &format!("twin.{name}.b")], "[::]:4810");
        Some(Far { twins, name })
    }

    /// Begins a test on `a`.
    fn test(&self, options: &str) -> Running {
        let mut command = self.twins.world.command("test throughput", &format!("--json {options}"));
        command.arg("b:4810").args(["--fingerprint", self.twins.world.fingerprint()]);
        let on_a = [env!("CARGO_BIN_EXE_longhaul"), "twin", "exec", "--twin", &self.name, "a", "--"];
        self.twins.world.start(under(&on_a, &command))
    }

    /// What a program says on `a`.
    fn on_a(&self, words: &str) -> String {
        self.twins.on(&self.name, "a", words)
    }
}

fn intervals(test: &Running) -> Vec<serde_json::Value> {
    events(&test.out()).into_iter().filter(|event| event["event"] == "interval").collect()
}

#[test]
fn streams_that_are_opened_when_a_test_ends_do_not_hold_it_up() {
    let Some(far) = Far::new("late-streams", NETWORK) else { return };
    let test = far.test(&format!("--reverse --streams 1 --duration {DURATION}"));
    let id = test.session();
    wait_for("the line of the first second", || (!intervals(&test).is_empty()).then_some(()));
    let asked = Instant::now();
    let world = &far.twins.world;
    world.run(world.command("session set", &format!("{id} --streams 4"))).expect_code(0);
    let summary = test.end().expect_code(0).summary();
    assert!(asked.elapsed() < IN_VAIN, "{:?} after the streams were asked for: {summary}", asked.elapsed());
}

/// The local port of the connection that has sent most, from `ss -Htni`: a line for the connection and one for what the kernel knows of it.
fn busiest_port(sockets: &str) -> Option<u16> {
    let lines: Vec<_> = sockets.lines().collect();
    let sent = |line: &str| line.split("bytes_sent:").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let both = lines.windows(2).filter_map(|two| Some((sent(two[1])?, two[0])));
    let local = both.max_by_key(|&(sent, _)| sent)?.1.split_whitespace().nth(3)?;
    local.rsplit(':').next()?.parse().ok()
}

#[test]
fn a_stream_that_does_not_end_does_not_hold_up_a_test_and_its_numbers_are_of_its_end() {
    let Some(far) = Far::new("no-end", NETWORK) else { return };
    // A loaded machine has some seconds for what is done between the fourth of them and the last.
    let (begin, duration) = (Instant::now(), Duration::from_secs(8));
    let test = far.test(&format!("--streams 3 --duration {}s", duration.as_secs()));
    wait_for("the line of the fourth second", || (intervals(&test).len() >= 4).then_some(()));
    let port = busiest_port(&far.on_a("ss -Htni dport = :4810")).expect("a data stream");
    // Nothing of this stream leaves the host any more.
    for family in ["-4", "-6"] {
        far.on_a(&format!("ip {family} rule add pref 1 ipproto tcp sport {port} blackhole"));
    }
    let ended = test.end().expect_code(0);
    // Each end waits 4 s, one after the other, and some round trips.
    let took = begin.elapsed();
    assert!(took < duration + Duration::from_secs(12), "{took:?}: it held up the test");
    assert!(took > duration + Duration::from_secs(4), "{took:?}: the stream did end");
    let summary = ended.summary();
    let seconds = summary["seconds"].as_f64().unwrap();
    assert!((7.5..9.5).contains(&seconds), "the time in which data were sent: {summary}");
    // 300 ms and a queue as long are on their way when the test ends, and the start takes two seconds.
    assert!(summary["bytes"].as_u64().unwrap() > 30_000_000, "{summary}");
}

#[test]
fn an_end_that_receives_and_decides_goes_by_the_losses_of_the_end_that_sends() {
    let Some(far) = Far::new("told", LOSSY) else { return };
    if !far.twins.has_bbr(&far.name) {
        return;
    }
    let test = far.test("--reverse --duration 30s");
    wait_for("all streams", || intervals(&test).iter().any(|second| second["streams"] == STREAMS_LOSSY).then_some(()));
    let on_b = far.twins.on(&far.name, "b", "ss -Htni sport = :4810");
    let (all, bbr) = (on_b.matches("bytes_sent:").count(), on_b.matches(" bbr ").count());
    assert!(bbr as u64 >= STREAMS_LOSSY && all <= bbr + 1, "all but the control connection: {on_b}");
}
