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
/// The streams of the other end, which are opened after half a second, arrive when it has ended.
const DURATION: &str = "1300ms";
/// What an end that waits for the other one in vain waits at least.
const IN_VAIN: Duration = Duration::from_secs(5);

/// As often as a loaded machine may be too late with what a test does at a certain time.
const TRIES_MAX: u32 = 4;

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
    let mut refused = String::new();
    for _ in 0..TRIES_MAX {
        let test = far.test(&format!("--reverse --streams 1 --duration {DURATION} --interval 500ms"));
        let id = test.session();
        wait_for("the line of the first half second", || (!intervals(&test).is_empty()).then_some(()));
        let asked = Instant::now();
        let world = &far.twins.world;
        let set = world.run(world.command("session set", &format!("{id} --streams 4")));
        let summary = test.end().expect_code(0).summary();
        let took = asked.elapsed();
        if set.code() == Some(0) {
            assert!(took < IN_VAIN, "{took:?} after the streams were asked for: {summary}");
            return;
        }
        eprintln!("once more: the test was at its end when it was asked for streams: {}", set.err);
        refused = set.err;
    }
    panic!("no streams could be asked for, {TRIES_MAX} times: {refused}");
}

/// What names the connection that has sent most to `ip rule`, from `ss -Htni state established`, which names no state: a line for the
/// connection and one for what the kernel knows of it.
fn busiest(sockets: &str) -> Option<String> {
    let lines: Vec<_> = sockets.lines().collect();
    let sent = |line: &str| line.split("bytes_sent:").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let both = lines.windows(2).filter_map(|two| Some((sent(two[1])?, two[0])));
    let local = both.max_by_key(|&(sent, _)| sent)?.1.split_whitespace().nth(2)?;
    let family = if local.starts_with('[') { "-6" } else { "-4" };
    Some(format!("{family} rule add pref 1 ipproto tcp sport {} blackhole", local.rsplit(':').next()?))
}

/// How late the cut of a stream may be: it is to be in the last second, and before its last round trip.
const CUT_LATE_MAX: Duration = Duration::from_millis(400);

#[test]
fn a_stream_that_does_not_end_does_not_hold_up_a_test_and_its_numbers_are_of_its_end() {
    let Some(far) = Far::new("no-end", NETWORK) else { return };
    for _ in 0..TRIES_MAX {
        let test = far.test("--streams 3 --duration 5s");
        let wait = |seconds| wait_for("a line", || (intervals(&test).len() >= seconds).then_some(()));
        wait(3);
        // Not one that an earlier cut keeps from ending.
        let rule = busiest(&far.on_a("ss -Htni state established dport = :4810")).expect("a data stream");
        wait(4);
        let begin = Instant::now();
        // Nothing of this stream leaves the host any more. Earlier it would be given up for others, and that is another story.
        far.on_a(&format!("ip {rule}"));
        let cut = Instant::now();
        let ended = test.end().expect_code(0);
        if cut - begin > CUT_LATE_MAX {
            eprintln!("once more: the cut took {:?}", cut - begin);
            continue;
        }
        // One second of the test is left; then each end waits 4 s, one after the other, and some round trips.
        let took = cut.elapsed();
        assert!(took < Duration::from_secs(12), "{took:?} after the stream was cut");
        assert!(took > Duration::from_secs(4), "{took:?}: the stream did end");
        let summary = ended.summary();
        let seconds = summary["seconds"].as_f64().unwrap();
        assert!((4.5..6.5).contains(&seconds), "the time in which data were sent: {summary}");
        // 300 ms and a queue as long are on their way when the test ends, and the start takes two seconds.
        assert!(summary["bytes"].as_u64().unwrap() > 15_000_000, "{summary}");
        return;
    }
    panic!("this machine is too slow to cut a stream in time, {TRIES_MAX} times");
}

#[test]
fn an_end_that_receives_and_decides_goes_by_the_losses_of_the_end_that_sends() {
    let Some(far) = Far::new("told", LOSSY) else { return };
    if !far.twins.has_bbr(&far.name) {
        return;
    }
    let test = far.test("--reverse --duration 30s");
    wait_for("all streams", || intervals(&test).iter().any(|second| second["streams"] == STREAMS_LOSSY).then_some(()));
    // One that was opened last goes over to bbr a moment after it is counted.
    wait_for("bbr on all of them, but for the control connection", || {
        let on_b = far.twins.on(&far.name, "b", "ss -Htni sport = :4810");
        let (all, bbr) = (on_b.matches("bytes_sent:").count(), on_b.matches(" bbr ").count());
        (bbr as u64 >= STREAMS_LOSSY && all <= bbr + 1).then_some(())
    });
}
