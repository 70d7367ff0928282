//! Seeds of text.

use mover::event::{Event, FileEvent, Summary};
use mover::relay::wire::line;

pub(super) fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "relay" => relay(),
        "agent" => agent(),
        "request" => numbered(&REQUESTS),
        "network" => networks(),
        "plan" => numbered(&[
            include_str!("../../../scenarios/cut.toml"),
            BOOKINGS,
            SHARES,
            include_str!("../../../requirements/hl-lhc.toml"),
        ]),
        "questions" => texts(&QUESTIONS),
        "wish" => texts(&[WISH]),
        "hosts" => hosts(),
        "paths" => texts(&["[]", r#"[{"path":"a","streams":3,"at_s":1700000000,"rate":1000000000}]"#]),
        "emulator" => texts(&EMULATOR),
        other => unreachable!("no target {other}"),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Each behind its number.
fn numbered(texts: &[&str]) -> Vec<Vec<u8>> {
    (0..).zip(texts).map(|(number, text)| [&[number], text.as_bytes()].concat()).collect()
}

fn relay() -> Vec<Vec<u8>> {
    let why = Some("no\n".to_owned());
    let failed =
        FileEvent { path: "a/b".into(), path_bytes: Some(vec![255]), outcome: "failed", size: 1, why, digest: None };
    let summary = Summary { exit_code: 6, errors: vec![failed.clone()], ..Summary::default() };
    let events = [
        Event::Progress(mover::event::Progress::default()),
        Event::File(failed),
        Event::Warning { text: "careful".into() },
        Event::Reconnect { attempt: 1, of: 5, why: "lost".into() },
        Event::Summary(Box::new(summary)),
    ];
    let mut seeds: Vec<Vec<u8>> = events.into_iter().map(|event| line(event).into_bytes()).collect();
    seeds.push(
        br#"{"event":"started","session":"3f2a","protection":"integrity","congestion":"bbr","congestion_reason":null}"#
            .to_vec(),
    );
    seeds.push(seeds.concat());
    seeds
}

/// What either says, each in a stream of its own, in pieces.
fn agent() -> Vec<Vec<u8>> {
    let frame = |text: &&str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let stream = |first: u8, texts: &[&str]| [vec![first], texts.iter().flat_map(frame).collect()].concat();
    vec![stream(14, &FROM_AGENT), stream(254, &FROM_AGENT), stream(15, &TO_AGENT), stream(255, &TO_AGENT)]
}

const FROM_AGENT: [&str; 7] = [
    r#"{"type":"hello","protocol":1,"version":"1","process":7,"sessions":[{"session":1,"generation":2,"rate_bps":3}],"inventory":{"interfaces":[{"name":"eth1","addresses":["10.0.0.1"],"mtu":9000}],"grants":[{"collaboration":"cms","root":"/a","read":true,"write":false}],"cores":2,"sessions_max":4,"streams_max":8},"mode":"active"}"#,
    r#"{"type":"mode","mode":"draining","reason":"a disk"}"#,
    r#"{"type":"listed","request":1,"page":0,"entries":[{"name":"a%ff","size_bytes":3,"kind":"file"}],"directory":true,"last":true}"#,
    r#"{"type":"counted","counts":[{"interface":"eth1","link":"ocean","sends":"backward","sent_bytes":7,"received_bytes":8,"read_ms":5000}]}"#,
    r#"{"type":"dance","how":[1,2]}"#,
    r#"{"type":"\u001b as long as a type is shown at most\u001b\u001b"}"#,
    r#"{"type":"ping"}"#,
];

const TO_AGENT: [&str; 7] = [
    r#"{"type":"welcome","host":"a","protocol":1,"keep":[1]}"#,
    r#"{"type":"turned","reason":"no","again":true}"#,
    r#"{"type":"list","request":1,"collaboration":"cms","path":"/a","after":{"name":"b","page":2}}"#,
    r#"{"type":"probes","probes":[{"path":1,"key":"00","here":"10.0.0.1","there":"[fd00::1]:4810","asks":true}]}"#,
    r#"{"type":"uncounted","link":"ocean","reason":"it is not there"}"#,
    r#"{"type":"stop","session":7}"#,
    r#"{"type":"ping"}"#,
];

/// In the order of the target's numbers.
const REQUESTS: [&str; 8] = [
    r#"{"name":"x","sources":["geneva:/a%ff/"],"destinations":["boston:/b"],"files":["a","b%0a"],"class":"cms","urgency":3,"deadline":"2026-03-01T00:00:00Z","checksum":"md5","streams":4}"#,
    r#"{"class":"cms","urgency":1}"#,
    r#"{"hosts":["a","ana@b"],"root":"/data"}"#,
    r#"{"rate_bps":1000000000,"for_seconds":60,"why":"a test"}"#,
    r#"{"source":"snmp","samples":[{"link":"ocean:forward","rate_bps":1,"total_bytes":null,"age_ms":5}]}"#,
    r#"{"host":"ana@a","good_seconds":60}"#,
    r#"{"reason":"a disk"}"#,
    r#"{"name":"t","role":"submitter","collaboration":"cms","good_seconds":60}"#,
];

/// One in each format.
fn networks() -> Vec<Vec<u8>> {
    let texts = [include_str!("../../../topologies/triangle.toml"), CONTAINERLAB, GRAPHML, TOPOHUB];
    let mut seeds = numbered(&texts);
    seeds.push([&[0], include_str!("../../../topologies/pair.toml").as_bytes()].concat());
    seeds
}

const CONTAINERLAB: &str = r#"name: lab
topology:
  nodes:
    a:
      kind: linux
      labels:
        longhaul.site: geneva
        longhaul.latitude: 46.2
        longhaul.longitude: 6
    b: {}
  links:
    - endpoints: ["a:e1", "b:e1"]
      mtu: 9000
      labels:
        longhaul.name: ocean
        longhaul.rate: 1 Gb/s
        longhaul.delay: 50 ms
        longhaul.back.loss: "{ mean = 1e-4, burst = 10 }"
    - type: veth
      endpoints:
        - node: a
          interface: e2
        - node: b
          interface: e2
"#;

const GRAPHML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key attr.name="Latitude" attr.type="double" for="node" id="d0"/>
<key attr.name="label" attr.type="string" for="node" id="d1"/><key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d2"/>
<graph edgedefault="undirected"><node id="0"><data key="d0">46.2</data><data key="d1">Geneva</data></node><node id="1"/>
<edge source="0" target="1"><data key="d2">1000000000.0</data></edge></graph></graphml>
"#;

const TOPOHUB: &str = r#"{"directed":false,"graph":{"name":"g"},"nodes":[{"id":0,"name":"A","pos":[6.0,46.2]},{"id":1,"name":"B"}],"edges":[{"source":0,"target":1,"dist":700.5}]}"#;

const BOOKINGS: &str = r#"[[booking]]
name = "splice"
class = "maintenance"
links = ["ab"]
rate = "280 Mb/s"
start = 2026-03-01T04:00:00Z
end = 2026-03-01T08:00:00Z

[[grain]]
link = "ab"
rate = "1 Mb/s"

[[resource]]
name = "read"
node = "a"
way = "out"
rate = "360 Mb/s"

[[booking]]
name = "nightly"
class = "disk-backup"
resources = ["read"]
rate = "100 Mb/s"
start = 2026-03-01T22:00:00Z
end = 2026-03-02T06:00:00Z
"#;

const SHARES: &str = r#"at_large = "5 %"
lowest = "1 %"
now = 2026-03-01T00:00:00Z

[[class]]
name = "lhc"
tier = 1
weight = 3
floor = "20 Mb/s"

[[class]]
name = "cms"
parent = "lhc"
used = "5 PB"
cap = "200 Mb/s"

[[mark]]
name = "ocean"
class = "lhc"
links = ["ab"]
together = true

[[flow]]
name = "one"
class = "cms"
from = "a"
to = "b"
"#;

const QUESTIONS: [&str; 4] = [
    include_str!("../../../crates/plan/tests/vectors/calendar.json"),
    include_str!("../../../crates/plan/tests/vectors/maxmin.json"),
    include_str!("../../../crates/plan/tests/vectors/paths.json"),
    include_str!("../../../crates/plan/tests/vectors/usn_small.json"),
];

const WISH: &str = r#"[[interface]]
name = "eth1"
rate = "10 Gb/s"
at_large = "2 Gb/s"

[[interface.class]]
name = "longhaul"
match = [{ dscp = "le" }, { from = "2001:db8:1::/64", to = "2001:db8:7::/64" }]
floor = "8 Gb/s"
ceiling = "10 Gb/s"

[[route]]
number = 1
from = "2001:db8:1::12"
via = "2001:db8:f::1"
interface = "eth2"
"#;

/// The agent pinned, with another fingerprint, and not there.
fn hosts() -> Vec<Vec<u8>> {
    let text = format!("# mine\n\nother:1 sha256:{}\nhost:4810 sha256:{}", "09".repeat(32), "01".repeat(32));
    let of = |name: &str, byte| [super::block(name.as_bytes()), vec![byte], text.as_bytes().to_vec()].concat();
    vec![of("host:4810", 1), of("host:4810", 2), of("[::1]:4810", 3)]
}

const EMULATOR: [&str; 5] = [
    r#"{"ask":"links"}"#,
    r#"{"ask":"change","link":0,"way":"forward","changes":[["rate","500 Mb/s"],["delay","20 ms"],["loss","1e-4 in bursts of 10"],["queue","100 packets"],["jitter","1 ms"],["corrupt","0.1 %"]]}"#,
    r#"{"ask":"drop","link":0,"counts":[3,0]}"#,
    r#"{"answer":"refused","why":"no"}"#,
    r#"{"answer":"links","links":[null]}"#,
];
