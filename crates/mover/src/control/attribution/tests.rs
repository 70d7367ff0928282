//! Every line of the table, and what lies next to it.

use proptest::prelude::*;

use super::*;
use Limit::*;

fn per(thousandths: u16) -> PerMille {
    PerMille::new(thousandths)
}

/// A second in which the network was the limit: all is fluent, data wait, the window is full.
fn fluent() -> Second {
    let busy = Duration::from_secs(1);
    Second {
        outstanding: true,
        moved: true,
        held: per(0),
        polite: PerMille::default(),
        source: Source { empty: per(20), readers: per(400), hashing: per(200), net: per(500), host: per(600) },
        tcp: Tcp { busy, segments: 100_000, window_full: Some(per(900)), ..Tcp::default() },
        destination: Destination { net: per(600), disk: per(300), starved: per(10), host: per(600) },
    }
}

fn check(named: Limit, why: &str, change: impl Fn(&mut Second)) {
    let mut second = fluent();
    change(&mut second);
    assert_eq!(attribute(&second), named, "{why}");
}

#[test]
fn the_set_point() {
    check(RateLimit, "reached", |s| s.held = per(990));
    check(RateLimit, "reached, whatever else", |s| {
        (s.held, s.source.empty, s.destination.starved) = (per(500), per(900), per(900))
    });
    check(NetworkPath, "a larger shortfall has another cause", |s| s.held = per(499));
}

#[test]
fn giving_way() {
    check(Politeness, "what was left was used", |s| s.polite = per(700));
    check(NetworkPath, "it was not", |s| s.polite = per(499));
    check(RateLimit, "the set point was less", |s| (s.held, s.polite) = (per(600), per(400)));
}

#[test]
fn nothing_to_send() {
    let quiet = |s: &mut Second| (s.moved, s.source.empty, s.source.readers) = (false, per(1000), per(0));
    check(Latency, "an answer is awaited", quiet);
    check(DestinationDisk, "what has arrived is made durable", |s| {
        quiet(s);
        (s.outstanding, s.destination.disk) = (false, per(1000));
    });
    check(Idle, "nothing is outstanding", |s| {
        quiet(s);
        s.outstanding = false;
    });
    assert_eq!(
        attribute(&Second { source: Source { empty: per(1000), ..Source::default() }, ..Second::default() }),
        Idle
    );
}

#[test]
fn the_destination_has_no_buffer() {
    check(DestinationDisk, "writers are busy", |s| (s.destination.starved, s.destination.disk) = (per(700), per(900)));
    check(DestinationCpu, "writers wait for the host", |s| {
        (s.destination.starved, s.destination.host) = (per(700), per(980))
    });
    check(Latency, "a commit", |s| s.destination.starved = per(700));
    check(DestinationDisk, "the source runs dry of buffers then, but is not the cause", |s| {
        (s.destination.starved, s.destination.disk, s.source.empty) = (per(700), per(900), per(900));
    });
}

#[test]
fn no_parcel_is_ready() {
    check(SourceDisk, "readers are busy", |s| (s.source.empty, s.source.readers) = (per(700), per(990)));
    check(SourceDisk, "and nothing arrived yet", |s| {
        (s.moved, s.source.empty, s.source.readers) = (false, per(700), per(990))
    });
    check(SourceCpu, "readers hash", |s| {
        (s.source.empty, s.source.readers, s.source.hashing) = (per(700), per(990), per(800))
    });
    check(SourceCpu, "the host is full", |s| (s.source.empty, s.source.host) = (per(700), per(990)));
    check(Latency, "readers wait for what is wanted", |s| (s.source.empty, s.source.readers) = (per(700), per(100)));
}

#[test]
fn windows() {
    let receiver = |s: &mut Second| s.tcp.receiver_limited = Duration::from_millis(600);
    check(ReceiverWindow, "it is too small", receiver);
    check(NetworkPath, "it is only half of half", |s| s.tcp.receiver_limited = Duration::from_millis(300));
    check(DestinationCpu, "it is not read in time", |s| {
        receiver(s);
        s.destination.net = per(950);
    });
    check(DestinationDisk, "its reader waits for buffers", |s| {
        receiver(s);
        s.destination.starved = per(400);
    });
    let buffer = |s: &mut Second| s.tcp.buffer_limited = Duration::from_millis(600);
    check(SenderWindow, "it is too small", buffer);
    check(SourceCpu, "it is not filled in time", |s| {
        buffer(s);
        s.source.net = per(950);
    });
}

#[test]
fn processors() {
    check(SourceCpu, "its network thread", |s| s.source.net = per(990));
    check(SourceCpu, "its host", |s| s.source.host = per(990));
    check(DestinationCpu, "its network thread", |s| s.destination.net = per(990));
    check(DestinationCpu, "its host", |s| s.destination.host = per(990));
    check(DestinationCpu, "both ends on one full host", |s| (s.source.host, s.destination.host) = (per(990), per(990)));
    check(SourceCpu, "the fuller of both", |s| (s.source.net, s.destination.net) = (per(990), per(920)));
}

#[test]
fn the_network() {
    check(NetworkPath, "it is full", |_| {});
    check(NetworkPath, "windows were not sampled", |s| s.tcp.window_full = None);
    check(NetworkLoss, "it loses", |s| s.tcp.lost = 100);
    check(NetworkPath, "it loses little", |s| s.tcp.lost = 99);
    check(Unknown, "nothing was to be sent", |s| s.tcp = Tcp::default());
    check(Latency, "it has room", |s| s.tcp.window_full = Some(per(100)));
}

#[test]
fn names_and_codes() {
    for (i, limit) in Limit::ALL.into_iter().enumerate() {
        assert_eq!(limit.code(), i as u8);
        assert_eq!(Limit::of_code(limit.code()), limit);
        let json = serde_json::to_string(&limit).expect("a string");
        assert_eq!(json, format!("\"{}\"", limit.name()));
        assert_eq!(serde_json::from_str::<Limit>(&json).expect("its own"), limit);
    }
    assert_eq!((Limit::of_code(0), Limit::of_code(13)), (Unknown, Unknown));
    assert_eq!(DestinationDisk.to_string(), "destination disk");
    assert_eq!(SourceCpu.to_string(), "source CPU");
}

#[test]
fn shares_of_the_time() {
    let mut shares = Shares::default();
    assert_eq!((shares.dominant(), shares.shares().len()), (Unknown, 0));
    shares.add(Idle, Duration::from_secs(6));
    shares.add(Unknown, Duration::ZERO);
    assert_eq!(shares.dominant(), Idle);
    shares.add(NetworkPath, Duration::from_secs(2));
    shares.add(SourceDisk, Duration::from_secs(1));
    assert_eq!(shares.dominant(), NetworkPath, "having nothing to do is no limit");
    let found = shares.shares();
    assert_eq!((found["idle"], found["network_path"], found["source_disk"]), (0.6667, 0.2222, 0.1111));
}

#[test]
fn telemetry_is_taken_over() {
    let telemetry = Telemetry { net_busy: 1, disk_busy: 2, starved: 3, host_busy: 2_000, ..Telemetry::default() };
    let expected = Destination { net: per(1), disk: per(2), starved: per(3), host: PerMille::ALL };
    assert_eq!(Destination::from(&telemetry), expected);
}

proptest! {
    #[test]
    fn shares_add_up(times in prop::collection::vec((0..Limit::ALL.len(), 1..10_000_u64), 1..50)) {
        let mut shares = Shares::default();
        for (limit, ms) in times {
            shares.add(Limit::ALL[limit], Duration::from_millis(ms));
        }
        let sum: f64 = shares.shares().values().sum();
        prop_assert!((sum - 1.0).abs() < 0.001, "{sum}");
    }

    #[test]
    fn a_share_is_a_share(part: u64, whole: u64) {
        prop_assert!(PerMille::of(part, whole) <= PerMille::ALL);
    }
}
