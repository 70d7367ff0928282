//! The bytes on the wire and in the journal. If they change, other versions cannot read them any more.
//!
//! `UPDATE_GOLDEN=1` writes the files anew.

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proto::attach::{Attach, BINDING_LABEL, Binding};
use proto::control::Control;
use proto::hello::{Accepting, Connecting, EXPORTER_LABEL, SessionKey};
use proto::journal;
use proto::record::{CHECK, Header, Kind, LAST, REST};
use proto::seal::{Protection, Sealer};

/// Name of a sample and its bytes.
type Samples = Vec<(String, Vec<u8>)>;

#[test]
fn control_frames() {
    let frames = samples::control().into_iter().map(|(name, message)| {
        let mut bytes = Vec::new();
        proto::frame::encode(&message, &mut bytes);
        let decoded = proto::frame::decode(&bytes[proto::frame::PREFIX..]);
        assert_eq!(decoded, Ok(message), "{name}");
        (name.to_owned(), bytes)
    });
    check("control", frames.collect());
}

/// Header, check and payload of the first and of the second record of a stream.
#[test]
fn records() {
    let mut samples = Samples::new();
    for (name, protection) in
        [("clear", Protection::Clear), ("integrity", Protection::Integrity), ("private", Protection::Private)]
    {
        let mut sealer = Sealer::new(protection, &[0x11; 32]);
        for (number, len) in [(0u8, 16), (1, 0)] {
            let payload: Vec<u8> = (0..len).collect();
            let header = Header {
                kind: Kind::Chunk,
                flags: LAST,
                generation: number,
                len: u32::from(len),
                parcel: 7,
                file: 3,
                offset: 4 << 20,
            };
            let header = header.encode();
            let mut sent = payload.clone();
            let check: [u8; CHECK] = sealer.seal(&header, &payload, &mut sent);
            samples.push((format!("{name} {number}"), [&header[..], &check, &sent].concat()));
        }
    }
    let end = Header { kind: Kind::End, flags: 0, generation: 0, len: 0, parcel: 0, file: 0, offset: 0 };
    samples.push(("header end".into(), end.encode().to_vec()));
    let rest = Header { kind: Kind::Chunk, flags: REST, generation: 1, len: 0, parcel: 7, file: 3, offset: 5 << 20 };
    samples.push(("header rest".into(), rest.encode().to_vec()));
    check("records", samples);
}

#[test]
fn hellos() {
    let key = SessionKey([0x22; 32]);
    let (connecting, hello) = Connecting::new(key.clone(), [0x33; 16], 5, [0x44; 16]);
    let (accepting, reply) = Accepting::new(key, &hello, [0x55; 16]).unwrap();
    let (finish, secrets) = connecting.reply(&reply).unwrap();
    assert_eq!(accepting.finish(&finish), Ok(secrets.clone()));
    let samples = [
        ("exporter label", EXPORTER_LABEL.to_vec()),
        ("hello", hello.to_vec()),
        ("reply", reply.to_vec()),
        ("finish", finish.to_vec()),
        ("secret forward", secrets.forward.to_vec()),
        ("secret backward", secrets.backward.to_vec()),
        ("refusal", proto::hello::refusal(proto::hello::status::FULL).to_vec()),
    ];
    check("hello", samples.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect());
}

#[test]
fn journals() {
    let (mut samples, mut whole) = (Samples::new(), Vec::new());
    for (name, record) in samples::journal() {
        let from = whole.len();
        journal::encode(&record, &mut whole);
        samples.push((name.to_owned(), whole[from..].to_vec()));
    }
    let (state, len) = journal::replay(&whole).expect("a sound journal");
    assert_eq!((state.partials.len(), len), (1, whole.len()));
    check("journal", samples);
}

/// The table of limits in the document.
#[test]
fn limits_are_written_down() {
    macro_rules! limits {
        ($($name:ident)*) => { [$((stringify!($name), proto::limits::$name as u64)),*] };
    }
    let known = limits!(
        RECORD_PAYLOAD_MAX CHUNK_SIZE_DEFAULT CHUNK_SIZE_MIN CHUNK_SIZE_MAX BATCH_FILES_MAX FRAME_MAX
        FRAME_MAX_UNAUTHENTICATED PATH_MAX NAME_MAX OUTSTANDING_ENTRIES_MAX OUTSTANDING_ENTRY_BYTES_MAX ENTRY_BYTES_MAX
        PAGE_ENTRIES_MAX PAGE_BYTES_MAX NAMES_MAX NAMES_BYTES_MAX REPAIRS_PER_PARCEL_MAX LOSSES_PER_PARCEL_MAX RESTARTS_PER_FILE_MAX PARCELS_UNLANDED_MAX
        REASON_BYTES_MAX CONGESTION_CHARS_MAX DIGEST_CHARS_MAX WOULD_DELETE_MAX DELETE_NAMES_BYTES_MAX FAILED_NAMES_MAX
        CHUNK_RANGES_MAX EVENTS_BYTES_MAX RELAY_ADDRESSES_MAX DISKS_MAX UNACKNOWLEDGED_BYTES_MAX
        ARRIVED_PARCELS_MAX FIRST_BYTES_MAX PROBE_ADDRESSES_MAX
    );
    let docs = docs();
    for (name, value) in known {
        let row = format!("| `{name}` | {} |", grouped(value));
        assert!(docs.contains(&row), "docs/protocol.md lacks: {row}");
    }
    let source = include_str!("../../src/limits.rs");
    assert_eq!(source.matches("pub const ").count(), known.len(), "a limit is missing in this list");
}

/// With a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).expect("digits")).collect();
    groups.join(",")
}

/// The proofs of a connection that takes up a session: what goes over it, and the label of its binding.
#[test]
fn attaching() {
    let (key, binding) = (SessionKey([0x22; 32]), Binding([0x66; 32]));
    let attach = Attach::new(&key, &binding, [0x33; 16], 1, 300);
    let attached = attach.answer(&key, &binding, 70_000);
    let frame = |message: &Control| {
        let mut bytes = Vec::new();
        proto::frame::encode(message, &mut bytes);
        bytes
    };
    let samples = [
        ("binding label", BINDING_LABEL.to_vec()),
        ("Attach", frame(&Control::Attach(attach))),
        ("Attached", frame(&Control::Attached(attached))),
    ];
    check("attach", samples.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect());
}

/// Compares with the stored bytes, and what `docs/protocol.md` quotes of them too.
fn check(file: &str, samples: Samples) {
    let path = golden_dir().join(format!("{file}.hex"));
    let now: String = samples.iter().map(|(name, bytes)| entry(name, bytes)).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &now).expect("the golden file can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let (now, stored) = (parse(&now), parse(&stored));
    for name in now.keys().chain(stored.keys()) {
        assert_eq!(now.get(name), stored.get(name), "{file}.hex, {name}: the bytes have changed");
    }
    for (name, hex) in quotes(&docs(), file) {
        assert_eq!(now.get(&name), Some(&hex), "docs/protocol.md quotes `{name}` of {file}.hex wrongly");
    }
}

fn docs() -> String {
    fs::read_to_string(golden_dir().join("../../../../docs/protocol.md")).expect("the protocol is written down")
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The name on a line, then the bytes, 32 on a line.
fn entry(name: &str, bytes: &[u8]) -> String {
    let mut out = format!("# {name}\n");
    for line in bytes.chunks(32) {
        line.iter().for_each(|b| write!(out, "{b:02x}").expect("a string takes all"));
        out.push('\n');
    }
    out
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let entries = text.split("# ").skip(1).filter_map(|entry| entry.split_once('\n'));
    entries.map(|(name, hex)| (name.to_owned(), hex.split_whitespace().collect())).collect()
}

/// Blocks of the document that begin with "```golden FILE".
fn quotes(docs: &str, file: &str) -> BTreeMap<String, String> {
    let begin = format!("```golden {file}\n");
    let blocks = docs.split(&begin).skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.flat_map(|(block, _)| parse(block)).collect()
}
