//! One of everything. The functions without a use keep the lists complete: a new variant does not compile
//! until it is named there, and then it belongs in the list above.

use proto::attach::{Attach, Attached};
use proto::control::{
    Arrived, Begun, Bye, Code, Congestion, Control, CopyOptions, Delegated, DigestKind, Direction, FileEnd, FilterRule,
    FlowLabel, Hello, Open, Opened, Outcome, Overwrite, Peer, Refusal, Relay, Settings, StorageIo, Telemetry,
    ToDestination, ToSource, Want, Wanted, Welcome, Work,
};
use proto::journal::{Record, VERSION};
use proto::seal::Protection;
use proto::{ChunkSet, Entry, EntryKind, Identity, RelPath, Time};

pub(crate) fn control() -> Vec<(&'static str, Control)> {
    let mut all = session();
    all.extend(to_destination().into_iter().map(|(name, m)| (name, Control::Source(m))));
    all.extend(to_source().into_iter().map(|(name, m)| (name, Control::Destination(m))));
    all.iter().for_each(|(_, message)| listed(message));
    all
}

fn session() -> Vec<(&'static str, Control)> {
    let refusal = |code, text: &str| Refusal { code, text: text.into() };
    let program = || "longhaul 0.1.0".to_owned();
    let hello = Hello { versions: (1, 1), token: "t0k3n".into(), program: program(), reverse: false };
    let begun = Begun { parcel: 300, file: 2, offset: 5 << 20 };
    let names = vec![path("a/b"), path("c")];
    let open = |direction, work| {
        Control::Open(Open {
            job: [0xa1; 16],
            session: [0xc3; 16],
            direction,
            work,
            settings: settings(),
            names: names.len() as u32,
        })
    };
    vec![
        ("Hello", Control::Hello(hello)),
        ("Welcome", Control::Welcome(Welcome { version: 1, program: program() })),
        ("Open Copy", open(Direction::Push, copy())),
        ("Open Memory", open(Direction::Pull, Work::Memory { duration_ms: 10_000 })),
        ("Open Relay", open(Direction::Push, relay())),
        ("Open Delegate", open(Direction::Push, delegate())),
        ("Opened", Control::Opened(opened())),
        ("Refused Denied", Control::Refused(refusal(Code::Denied, "no"))),
        ("Refused Path", Control::Refused(refusal(Code::Path, "no"))),
        ("Refused Busy", Control::Refused(refusal(Code::Busy, "no"))),
        ("Refused Protocol", Control::Refused(refusal(Code::Protocol, "no"))),
        ("Refused Stopping", Control::Refused(refusal(Code::Stopping, "no"))),
        ("Refused Failed", Control::Refused(refusal(Code::Failed, "no"))),
        ("Refused Version", Control::Refused(refusal(Code::Version, "no"))),
        ("Refused Unreachable", Control::Refused(refusal(Code::Unreachable, "no"))),
        ("Telemetry", Control::Telemetry(telemetry())),
        ("SetRate", Control::SetRate(Some(8_000_000_000))),
        ("SetRate none", Control::SetRate(None)),
        ("SetStreams", Control::SetStreams(16)),
        ("Event", Control::Event("{}\n".into())),
        ("Ping", Control::Ping(300)),
        ("Pong", Control::Pong(300)),
        ("Bye Done", Control::Bye(Bye::Done)),
        ("Bye Abandoned", Control::Bye(Bye::Abandoned(refusal(Code::Stopping, "later")))),
        ("Delegated", Control::Delegated(Delegated { token: "t0k3n".into(), grace_ms: 120_000 })),
        ("Names", Control::Names(names.clone())),
        ("Congestion", Control::Congestion(congestion())),
        ("Attach", Control::Attach(attach())),
        ("Attached", Control::Attached(Attached { received: 300, proof: [0xf6; 32] })),
        ("Received", Control::Received(300)),
        ("StreamLost", Control::StreamLost(5)),
        ("StreamEnded", Control::StreamEnded { stream: 5, arrived: arrived(None) }),
        ("StreamEnded begun", Control::StreamEnded { stream: 5, arrived: arrived(Some(begun)) }),
    ]
}

fn arrived(begun: Option<Begun>) -> Arrived {
    Arrived { whole: vec![7, 300], begun }
}

fn attach() -> Attach {
    Attach { session: [0xc3; 16], attempt: 1, received: 70_000, proof: [0xf6; 32] }
}

fn congestion() -> Congestion {
    Congestion { name: Some("cubic".into()), reason: Some("no".into()), refused: true }
}

fn copy() -> Work {
    let paths = vec![b"/data/".to_vec()];
    Work::Copy { paths, options: options(), single: false, source_key: [0xb2; 16], reorder_chunks: Some(4) }
}

fn relay() -> Work {
    let peer = Peer {
        addresses: vec!["192.0.2.1:4810".into()],
        fingerprint: [0xe5; 32],
        token: "t0k3n".into(),
        paths: vec![b"/in".to_vec()],
    };
    let paths = vec![b"/data/".to_vec()];
    Work::Relay(Relay { paths, options: CopyOptions::default(), every_file: true, peer })
}

fn delegate() -> Work {
    Work::Delegate { paths: vec![b"/in".to_vec()], options: CopyOptions::default() }
}

fn options() -> CopyOptions {
    let filter = FilterRule { include: false, glob: "*.tmp".into() };
    CopyOptions {
        overwrite: Overwrite::Changed,
        by_checksum: true,
        delete: true,
        dry_run: false,
        preserve_all: true,
        filters: vec![filter],
        digest: Some(DigestKind::Sha256),
    }
}

fn settings() -> Settings {
    Settings {
        protection: Protection::Integrity,
        chunk_size: 4 << 20,
        streams_max: 8,
        congestion: Some("bbr".into()),
        rate_bps: Some(10_000_000_000),
        polite: true,
        dscp: Some(8),
        flow_label: Some(FlowLabel { first: 0x3_0044, entropy: 0xc_0103 }),
    }
}

fn opened() -> Opened {
    Opened {
        settings: settings(),
        single: true,
        source_key: [0xd4; 16],
        rate_max_bps: Some(10_000_000_000),
        addresses: vec!["[2001:db8::1]:4810".into()],
    }
}

fn telemetry() -> Telemetry {
    Telemetry {
        bytes: 1 << 40,
        cpu_us: 2,
        rss_bytes: 3,
        records_checked: 4,
        parcels_checked: 5,
        net_busy: 600,
        disk_busy: 7,
        starved: 8,
        host_busy: 9,
        deleted: 10,
        at_us: 11,
        limit: 1,
        retransmits: 12,
        rtt_us: 100_000,
        min_rtt_us: 99_000,
        loss_ppm: 13,
        cwnd_bytes: 1 << 30,
        io: Some(StorageIo::IoUring),
    }
}

fn to_destination() -> Vec<(&'static str, ToDestination)> {
    let end = |end| ToDestination::FileEnd { index: 3, end };
    let why = || "no".to_owned();
    let mut chunks = ChunkSet::full(2);
    chunks.insert(5);
    vec![
        ("Page", ToDestination::Page { first: 0, entries: entries() }),
        ("Listed", ToDestination::Listed { dir: 0, complete: true }),
        ("ScanDone", ToDestination::ScanDone { entries: 5 }),
        ("FileEnd Whole", end(FileEnd::Whole { size: 1 << 30 })),
        ("FileEnd Same", end(FileEnd::Same)),
        ("FileEnd Failed", end(FileEnd::Failed { why: why() })),
        ("FileEnd Changed", end(FileEnd::Changed { why: why() })),
        ("FileEnd Corrupt", end(FileEnd::Corrupt { why: why() })),
        ("FileEnd LeftOut", end(FileEnd::LeftOut)),
        ("Problem", ToDestination::Problem { path: path("d"), why: why() }),
        ("Restart", ToDestination::Restart { index: 1, entry: entries().remove(1) }),
        ("Digest", ToDestination::Digest { path: path("a/b"), size: 300, value: "0a1b2c3d".into() }),
        ("Holes", ToDestination::Holes { index: 1, chunks }),
        ("SourceWarning", ToDestination::Warning(why())),
    ]
}

fn entries() -> Vec<Entry> {
    let mtime = Time { sec: -1, nsec: 999_999_999 };
    let identity = Identity { size: 1 << 30, mtime, ctime: Time { sec: 1_700_000_000, nsec: 5 }, ino: 77, dev: 2049 };
    let entry = |name, kind| Entry { path: path(name), kind, mode: 0o644, mtime, owner: None, xattrs: Vec::new() };
    vec![
        Entry { mode: 0o755, ..entry("", EntryKind::Dir) },
        Entry {
            owner: Some((1000, 100)),
            xattrs: vec![(b"user.k".to_vec(), b"v".to_vec())],
            path: RelPath::new(b"d\xff".to_vec()).expect("a path"),
            ..entry("", EntryKind::File(identity))
        },
        entry("p", EntryKind::Stream),
        entry("s", EntryKind::Symlink { target: b"../t".to_vec() }),
        entry("h", EntryKind::HardLink { target: path("p") }),
    ]
}

fn to_source() -> Vec<(&'static str, ToSource)> {
    let mut have = ChunkSet::new();
    [0, 1, 2, 300].into_iter().for_each(|chunk| _ = have.insert(chunk));
    let want = |disk, what| Want { disk, what };
    let wants = vec![
        (1, want(0, Wanted::All)),
        (2, want(1, Wanted::Rest { have })),
        (300, want(15, Wanted::IfDiffers([0xe5; 32]))),
    ];
    let outcomes = vec![
        (0, Outcome::Placed),
        (1, Outcome::Equal),
        (2, Outcome::Kept),
        (3, Outcome::Would),
        (4, Outcome::Failed("no".into())),
        (300, Outcome::Corrupt("no".into())),
    ];
    vec![
        ("Wants", ToSource::Wants(wants)),
        ("Landed", ToSource::Landed(vec![1, 128, 1 << 32])),
        ("Repair", ToSource::Repair(7)),
        ("Done", ToSource::Done(outcomes)),
        ("WouldDelete", ToSource::WouldDelete(vec![path("a"), path("a/b")])),
        ("Warning", ToSource::Warning("no".into())),
        ("Window", ToSource::Window(300)),
    ]
}

/// Names every variant of what can be told.
fn listed(message: &Control) {
    match message {
        Control::Hello(_) | Control::Welcome(_) | Control::Opened(_) | Control::Event(_) | Control::Delegated(_) => {}
        Control::Open(open) => match open.work {
            Work::Copy { .. } | Work::Memory { .. } | Work::Relay(_) | Work::Delegate { .. } => {}
        },
        Control::Refused(refusal) => match refusal.code {
            Code::Denied | Code::Path | Code::Busy | Code::Protocol | Code::Stopping | Code::Failed => {}
            Code::Version | Code::Unreachable => {}
        },
        Control::Source(ToDestination::FileEnd { end, .. }) => match end {
            FileEnd::Whole { .. } | FileEnd::Same | FileEnd::LeftOut => {}
            FileEnd::Failed { .. } | FileEnd::Changed { .. } | FileEnd::Corrupt { .. } => {}
        },
        Control::Source(ToDestination::Page { .. } | ToDestination::Listed { .. } | ToDestination::ScanDone { .. }) => {
        }
        Control::Source(ToDestination::Problem { .. } | ToDestination::Restart { .. }) => {}
        Control::Source(ToDestination::Digest { .. }) => {}
        Control::Source(ToDestination::Holes { .. } | ToDestination::Warning(_)) => {}
        Control::Destination(ToSource::Wants(_) | ToSource::Landed(_) | ToSource::Repair(_) | ToSource::Done(_)) => {}
        Control::Destination(ToSource::WouldDelete(_) | ToSource::Warning(_) | ToSource::Window(_)) => {}
        Control::Telemetry(_) | Control::SetRate(_) | Control::SetStreams(_) => {}
        Control::Ping(_) | Control::Pong(_) | Control::Congestion(_) | Control::Names(_) => {}
        Control::Attach(_) | Control::Attached(_) | Control::Received(_) | Control::StreamLost(_) => {}
        Control::StreamEnded { .. } => {}
        Control::Bye(Bye::Done | Bye::Abandoned(_)) => {}
    }
}

pub(crate) fn journal() -> Vec<(&'static str, Record)> {
    let mut chunks = ChunkSet::new();
    [0, 1, 5].into_iter().for_each(|chunk| _ = chunks.insert(chunk));
    let identity = Identity { size: 40 << 20, ..Identity::default() };
    let partial = |slot| Record::Partial { slot, path: path("a/b"), identity, chunk_size: 4 << 20 };
    vec![
        (
            "Start",
            Record::Start { version: VERSION, source_key: [0xb2; 16], started: Time { sec: 1_700_000_000, nsec: 0 } },
        ),
        ("Touched", Record::Touched { epoch: 1, dirs: vec![path(""), path("a")] }),
        ("Partial", partial(0)),
        ("Chunks", Record::Chunks { slot: 0, chunks }),
        ("Partial again", partial(1)),
        ("Close", Record::Close { slot: 1 }),
        ("Settled", Record::Settled { epoch: 1 }),
    ]
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).expect("a path")
}
