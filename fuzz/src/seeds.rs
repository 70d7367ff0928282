//! Inputs to begin with: one of everything that is right.

use std::fs;
use std::path::PathBuf;

use ledger::{
    ClassKnown, Digest, End, Endpoint, Enrolment, Event, Files, How, Limit, Location, Moment, NetworkKnown,
    Outcome as Ended, Page, Resource, SessionId, Settled, SharesKnown, State, Submission,
};
use proto::control::{Control, FileEnd, Outcome, ToDestination, ToSource, Want, Wanted};
use proto::record::{Header, Kind, LAST};
use proto::seal::{Protection, Sealer};
use proto::{frame, journal};
use twin::packet::Vnet;

use crate::machines::{destination_op as dst, source_op as src};

#[path = "../../crates/proto/tests/golden/samples.rs"]
mod samples;
mod texts;

/// Writes the seeds of a target into the first directory among the arguments: that is where libFuzzer puts
/// what it learns. Whoever plays back a file gives no directory.
///
/// # Panics
/// When they cannot be written.
pub fn plant(target: &str) {
    let Some(dir) = std::env::args().skip(1).map(PathBuf::from).find(|arg| arg.is_dir()) else { return };
    for (n, seed) in of(target).iter().enumerate() {
        fs::write(dir.join(format!("seed{n:02}")), seed).expect("the corpus can be written");
    }
}

/// The body of a frame.
macro_rules! body {
    ($message:expr) => {{
        let mut bytes = Vec::new();
        frame::encode($message, &mut bytes);
        bytes.split_off(frame::PREFIX)
    }};
}

fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "control" => samples::control().iter().map(|(_, message)| body!(message)).collect(),
        "record" => [Protection::Clear, Protection::Integrity, Protection::Private].into_iter().map(record).collect(),
        "hello" => vec![vec![0; 200], proto::hello::MAGIC.to_vec()],
        "instance" => instances(),
        "journal" => journals(),
        "path" => ["", "a", "a/b.c/d", "..", "é\n"].iter().map(|path| path.as_bytes().to_vec()).collect(),
        "replay" => vec![[0, 0, 1, 1, 2, 1, 0, 0, 1, 3, 1, 0, 1, 4, 255, 5, 1, 5, 0].to_vec()],
        "source" => vec![source()],
        "destination" => destination(),
        "probe" => probes(),
        "packet" => packets(),
        "ledger" => vec![events(), [&[1], &State::default().encode()[..]].concat()],
        text => texts::of(text),
    }
}

/// Hellos that name an instance, one in pieces; what is no hello; a data stream; what a door and an instance say.
fn instances() -> Vec<Vec<u8>> {
    let name = proto::instance::server_name(&[0xab; 32]);
    let two = |bytes: &[u8]| [&[0, bytes.len() as u8], bytes].concat();
    let names = two(&[&[0], &two(name.as_bytes())[..]].concat());
    let extensions = two(&[&[0, 0], &two(&names)[..], &[0, 43, 0, 3, 2, 3, 4]].concat());
    let body = [&[3, 3], &[7; 32][..], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let message = [&[1, 0], &two(&body)[..]].concat();
    let records = |each| message.chunks(each).flat_map(|part| [&[22, 3, 1], &two(part)[..]].concat()).collect();
    let said = [&[1], &[0; 34][..], &probe()].concat();
    vec![
        records(200),
        records(7),
        b"LHD1\x01\0\0\0abcdefghijklmnop".to_vec(),
        b"GET / HTTP/1.1".to_vec(),
        vec![0],
        vec![2; 33],
        said,
    ]
}

fn probe() -> [u8; proto::probe::BYTES] {
    let probe = proto::probe::Probe { is_answer: true, path: 1, number: 2, sent_us: 3 };
    probe.encode(&proto::hello::SessionKey([1; 32]))
}

/// An answer, and what comes back as it was.
fn probes() -> Vec<Vec<u8>> {
    vec![probe().to_vec(), vec![0; 89]]
}

/// TCP over IPv4 and UDP over IPv6, whole and in segments of 8 bytes that are left to be cut.
fn packets() -> Vec<Vec<u8>> {
    let tcp = |len: u8| {
        [&[0x10, 0, 0x14, 0xeb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], &vec![7; len.into()]]
            .concat()
    };
    let v4 = |len: u8| {
        [&[0x45, 2, 0, 40 + len, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &tcp(len)].concat()
    };
    let udp = |len: u8| [&[0x10, 0, 0x14, 0xeb, 0, 8 + len, 0, 0][..], &vec![7; len.into()]].concat();
    let v6 = |len: u8| [&[0x60, 0, 0, 0, 0, 8 + len, 17, 64][..], &[0xfd; 32], &udp(len)].concat();
    let left = |gso_type, gso_size, csum_start, csum_offset| Vnet {
        flags: Vnet::NEEDS_CSUM,
        gso_type,
        hdr_len: 0,
        gso_size,
        csum_start,
        csum_offset,
    };
    let with = |vnet: Vnet, packet: Vec<u8>| [&[1, 0, 2, 0, 9, 0, 0, 0], &vnet.encode()[..], &packet].concat();
    vec![
        with(Vnet::default(), v4(5)),
        with(left(Vnet::GSO_TCPV4, 8, 20, 16), v4(33)),
        with(Vnet::default(), v6(5)),
        with(left(Vnet::GSO_UDP_L4, 8, 40, 6), v6(33)),
    ]
}

/// A network, an endpoint, a host that comes, and a limit that comes and goes.
fn events() -> Vec<u8> {
    let text = |text: &str| text.to_owned();
    let names = |names: &[&str]| names.iter().map(|name| text(name)).collect();
    let (by, token) = (text("admin"), Digest([7; 32]));
    let network = NetworkKnown { text: text("n"), hosts: names(&["a", "b"]), links: names(&["ab"]) };
    let class = ClassKnown { tier: 1, weight: 3 };
    let shares = SharesKnown {
        text: text("s"),
        classes: [(text("lhc"), class)].into(),
        marks: names(&["ocean"]),
        half_life_ms: 1 << 40,
    };
    let resource = Resource::Link(text("ab"));
    let limit = Limit { rate_bps: 5, until: Some(Moment(9000)), by: by.clone(), why: text("a test") };
    let endpoint = |host: &str| Endpoint { hosts: [text(host)].into(), root: b"/data".to_vec() };
    let at = |endpoint: &str| Location { endpoint: text(endpoint), path: b"x".to_vec() };
    let submission = Submission {
        name: text("t"),
        collaboration: text("cms"),
        class: text("lhc"),
        sources: vec![at("geneva")],
        destinations: vec![at("boston")],
        files: Files::Path,
        urgency: 0,
        deadline: None,
        how: How::default(),
        after: [].into(),
        by: by.clone(),
        key: None,
        promise: None,
    };
    let (transfer, settled) =
        (State::default().next_transfer, Settled { done: 1, done_bytes: 3, ..Settled::default() });
    let session = SessionId(1);
    let events = [
        Event::NetworkSet { network, by: by.clone() },
        Event::SharesSet { shares, by: by.clone() },
        Event::EndpointSet { name: text("geneva"), endpoint: endpoint("a") },
        Event::EndpointSet { name: text("boston"), endpoint: endpoint("b") },
        Event::EnrolmentMade { token, enrolment: Enrolment { host: text("a"), until: Moment(99_000), by } },
        Event::Enrolled { token, host: text("a"), fingerprint: Digest([8; 32]) },
        Event::LimitSet { resource: resource.clone(), limit },
        Event::LimitLifted { resource },
        Event::LinkDown { link: text("ab"), evidence: text("probes") },
        Event::LinkUp { link: text("ab") },
        Event::Submitted { transfer, submission: Box::new(submission) },
        Event::PageListed { transfer, number: 0, page: Page { files: 1, bytes: 3 } },
        Event::ListingDone { transfer, directory: true },
        Event::SessionStarted {
            session,
            transfer,
            leg: 0,
            page: 0,
            source: 0,
            from: text("a"),
            to: text("b"),
            driver: End::Source,
            files: 1,
            bytes: 3,
            pick: vec![1],
            streams: 1,
        },
        Event::FilesSettled { session, settled },
        Event::SessionEnded { session, outcome: Ended::default() },
    ];
    let told = events.iter().flat_map(|event| [vec![1], block(&ledger::encode(event))].concat());
    std::iter::once(0).chain(told).collect()
}

/// Bytes behind their length.
fn block(bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).expect("seeds are short");
    [&[len], bytes].concat()
}

fn record(protection: Protection) -> Vec<u8> {
    let payload = [9; 20];
    let header = Header { kind: Kind::Small, flags: LAST, generation: 0, len: 20, parcel: 1, file: 2, offset: 0 };
    let mut sent = payload;
    let check = Sealer::new(protection, &[7; 32]).seal(&header.encode(), &payload, &mut sent);
    [&[protection as u8], &header.encode()[..], &check, &sent].concat()
}

fn journals() -> Vec<Vec<u8>> {
    let (mut whole, mut bodies) = (vec![0], vec![1]);
    for (_, record) in samples::journal() {
        let at = whole.len();
        journal::encode(&record, &mut whole);
        bodies.extend(block(&whole[at + 8..]));
    }
    vec![whole, bodies]
}

/// A big and a small file, wanted, read, sent, repaired, lost, landed and done.
fn source() -> Vec<u8> {
    let message = |message: ToSource| [vec![src::MESSAGE], block(&body!(&message))].concat();
    let have = proto::ChunkSet::full(1);
    let want = |disk, what| Want { disk, what };
    let steps = [
        vec![0, src::POLL],
        message(ToSource::Window(3)),
        message(ToSource::Wants(vec![
            (0, want(0, Wanted::Rest { have })),
            (1, want(1, Wanted::All)),
            (2, want(0, Wanted::All)),
        ])),
        [src::JOB, src::READ, 0, 3, src::SENT, 0, 1].repeat(4),
        message(ToSource::Repair(0)),
        vec![src::LOST, 1, 0, src::JOB, src::READ, 0, 3, src::JOB, src::READ, 0, 0, 20],
        vec![src::ENTRY, 4, src::JOB, src::READ, 0, 1, 0, src::FAIL, 2, src::POLL, src::POLL],
        message(ToSource::Landed(vec![0, 1, 2])),
        message(ToSource::Wants(vec![(4, want(0, Wanted::IfDiffers([1; 32])))])),
        vec![src::JOB, src::COMPARED, 4, 1, src::POLL],
        message(ToSource::Done(vec![(0, Outcome::Placed), (1, Outcome::Failed("no".into()))])),
    ];
    steps.concat()
}

/// The sample manifest, decided in different ways and received.
fn destination() -> Vec<Vec<u8>> {
    let message = |message: &ToDestination| [vec![dst::MESSAGE], block(&body!(message))].concat();
    let told = samples::control().into_iter().filter_map(|(_, m)| match m {
        Control::Source(m) => Some(message(&m)),
        _ => None,
    });
    let told: Vec<Vec<u8>> = told.collect();
    let page = told[0].clone();
    let end = |index, end| message(&ToDestination::FileEnd { index, end });
    let receive = |answer: u8| {
        let steps = [
            vec![3],
            page.clone(),
            [dst::ACT, answer].repeat(5),
            vec![dst::POLL, dst::DATA, 1, 0, 0, 1, dst::DATA, 2, 0, 0, 0, dst::PARCEL, 0, dst::CORRUPT, 1],
            end(2, FileEnd::Whole { size: 5 }),
            end(1, FileEnd::Failed { why: "no".into() }),
            message(&ToDestination::Listed { dir: 0, complete: true }),
            [dst::ACT, 1].repeat(5),
            message(&ToDestination::ScanDone { entries: 5 }),
            vec![dst::POLL; 4],
        ];
        steps.concat()
    };
    let mut seeds = vec![[vec![3], told.concat()].concat()];
    seeds.extend([1, 2, 3, 7].map(receive));
    seeds
}
