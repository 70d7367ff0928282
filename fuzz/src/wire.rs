//! Formats: any bytes decode or not, and what decodes can be encoded again.

use proto::control::Control;
use proto::door::{FromDoor, FromInstance};
use proto::hello::{Accepting, Connecting, FINISH, HELLO, REPLY, SessionKey, announced};
use proto::instance::{Meant, meant};
use proto::limits::FIRST_BYTES_MAX;
use proto::probe::Probe;
use proto::record::{CHECK, HEADER_COVERED, Header};
use proto::replay::{ReceiveBuffer, SendBuffer};
use proto::seal::{Protection, Sealer};
use proto::{RelPath, frame, journal};

use crate::input::Input;

/// A message of the control connection.
pub fn control(data: &[u8]) {
    let Ok(message) = frame::decode::<Control>(data) else { return };
    let mut bytes = Vec::new();
    frame::encode(&message, &mut bytes);
    assert_eq!(frame::decode(&bytes[frame::PREFIX..]), Ok(message));
}

/// A record: header, check and payload behind a byte that says how it is protected.
pub fn record(data: &[u8]) {
    let mut input = Input(data);
    let protection = [Protection::Clear, Protection::Integrity, Protection::Private][usize::from(input.byte() % 3)];
    let (header, check) = (input.array::<HEADER_COVERED>(), input.array::<CHECK>());
    if let Ok(decoded) = Header::decode(&header) {
        assert_eq!(decoded.encode(), header);
    }
    let mut payload = input.0.to_vec();
    let opened = Sealer::new(protection, &[7; 32]).open(&header, &check, &mut payload);
    // What an honest sender makes of the same.
    let mut sealed = input.0.to_vec();
    let honest = Sealer::new(protection, &[7; 32]).seal(&header, input.0, &mut sealed);
    if protection != Protection::Private {
        assert_eq!(opened.is_ok(), honest == check);
    }
    let again = Sealer::new(protection, &[7; 32]).open(&header, &honest, &mut sealed);
    assert_eq!((again, &sealed[..]), (Ok(()), input.0));
}

/// A handshake in which somebody flips bits: none, and it succeeds; any, and it does not.
pub fn hello(data: &[u8]) {
    let mut input = Input(data);
    let whole: [u8; HELLO] = input.array();
    let _ = announced(&whole);
    let _ = Accepting::new(SessionKey([1; 32]), &whole, [4; 16]);

    let mut input = Input(data);
    let (connecting, hello) = Connecting::new(SessionKey([1; 32]), [2; 16], 3, [3; 16]);
    let (hello, same) = flip(hello, input.array::<HELLO>());
    let Ok((accepting, reply)) = Accepting::new(SessionKey([1; 32]), &hello, [4; 16]) else { return assert!(!same) };
    assert!(same);
    let (reply, same) = flip(reply, input.array::<REPLY>());
    let Ok((finish, secrets)) = connecting.reply(&reply) else { return assert!(!same) };
    assert!(same);
    let (finish, same) = flip(finish, input.array::<FINISH>());
    match accepting.finish(&finish) {
        Ok(theirs) => assert!(same && theirs == secrets),
        Err(_) => assert!(!same),
    }
}

fn flip<const N: usize>(bytes: [u8; N], mask: [u8; N]) -> ([u8; N], bool) {
    (std::array::from_fn(|i| bytes[i] ^ mask[i]), mask == [0; N])
}

/// The first bytes of a connection, as they arrive; and a message between a door and an instance.
pub fn instance(data: &[u8]) {
    let whole = meant(data);
    // Who has decided does not change it when more comes.
    for cut in (0..data.len()).step_by(data.len() / 16 + 1) {
        let before = meant(&data[..cut]);
        assert!(before == Meant::More || before == whole);
    }
    assert!(whole != Meant::More || data.len() < FIRST_BYTES_MAX);
    if let Some(message) = FromDoor::decode(data) {
        assert_eq!(FromDoor::decode(&message.encode()), Some(message));
    }
    if let Some(message) = FromInstance::decode(data) {
        assert_eq!(FromInstance::decode(&message.encode()), Some(message));
    }
}

/// A datagram that asks over a path or answers: whoever has not the key makes none, and bits that somebody flips are seen.
pub fn probe(data: &[u8]) {
    let key = SessionKey([1; 32]);
    let path = Probe::path_of(data);
    if let Some(probe) = Probe::decode(data, &key) {
        assert_eq!((probe.encode(&key).as_slice(), path), (data, Some(probe.path)));
    }
    let mut input = Input(data);
    let is_answer = input.byte() % 2 == 1;
    let [path, number, sent_us] = [(); 3].map(|()| u64::from_le_bytes(input.array()));
    let probe = Probe { is_answer, path, number, sent_us };
    let (bytes, same) = flip(probe.encode(&key), input.array::<{ proto::probe::BYTES }>());
    assert_eq!(Probe::decode(&bytes, &key), same.then_some(probe));
    assert_eq!(Probe::decode(&bytes[..bytes.len() - 1], &key), None);
}

/// A journal as it is, or (first byte odd) bodies that are given their frames here, for nobody guesses a CRC.
pub fn journal(data: &[u8]) {
    let mut input = Input(data);
    let framed = input.byte() % 2 == 0;
    let bytes = if framed { input.0.to_vec() } else { frames(&mut input) };
    let Some((state, len)) = journal::replay(&bytes) else { return };
    assert!(len <= bytes.len());
    assert_eq!(journal::replay(&bytes[..len]), Some((state.clone(), len)));
    let mut compact = Vec::new();
    state.records().iter().for_each(|record| journal::encode(record, &mut compact));
    let (mut again, whole) = journal::replay(&compact).expect("what was written is sound");
    assert_eq!(whole, compact.len());
    // An epoch without directories says nothing.
    let mut state = state;
    [&mut state, &mut again].into_iter().for_each(|s| s.touched.retain(|_, dirs| !dirs.is_empty()));
    assert_eq!(state, again);
}

fn frames(input: &mut Input) -> Vec<u8> {
    let mut out = Vec::new();
    while !input.is_empty() {
        let body = input.block();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c(body).to_le_bytes());
        out.extend_from_slice(body);
    }
    out
}

fn crc32c(body: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !body.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// A link whose other end says anything: what it acknowledges is what was written, or a breach, and nothing is lost.
pub fn replay(data: &[u8]) {
    let mut input = Input(data);
    let (mut out, mut inbox) = (SendBuffer::default(), ReceiveBuffer::default());
    let (mut pushed, mut acknowledged, mut next) = (0u64, 0, 0);
    while !input.is_empty() {
        match input.byte() % 6 {
            0 if out.has_room() => {
                out.push(pushed.to_le_bytes().to_vec());
                pushed += 1;
            }
            1 => {
                if let Some(frame) = out.poll_frame() {
                    assert_eq!(frame, u64::to_le_bytes(next));
                    next += 1;
                }
            }
            op @ (2 | 3) => {
                let received = acknowledged + u64::from(input.byte()) - u64::from(input.byte() % 4).min(acknowledged);
                let result = if op == 2 { out.handle_received(received) } else { out.handle_attached(received) };
                assert_eq!(result.is_ok(), (acknowledged..=next).contains(&received));
                if result.is_ok() {
                    acknowledged = received;
                    next = if op == 3 { received } else { next };
                }
            }
            4 => drop(inbox.handle_message((), usize::from(input.byte()) << 16)),
            _ => {
                _ = if input.byte() % 8 == 0 {
                    inbox.detach()
                } else {
                    inbox.poll_message().map_or(0, |()| inbox.tell())
                }
            }
        }
        assert_eq!((out.is_empty(), out.is_written()), (acknowledged == pushed, next == pushed));
    }
}

/// A relative path.
pub fn path(data: &[u8]) {
    let Ok(path) = RelPath::new(data) else { return };
    assert_eq!(path.as_bytes(), data);
    let names: Vec<&[u8]> = path.names().collect();
    assert!(names.iter().all(|name| !matches!(*name, b"" | b"." | b"..") && !name.contains(&0)));
    assert_eq!(names.join(&b'/'), data);
    match path.parent() {
        Some(parent) => assert_eq!(parent.join(path.name()).as_ref(), Ok(&path)),
        None => assert!(path.is_root()),
    }
    assert!(path.to_string().chars().all(|c| !c.is_control()));
    let mut bytes = Vec::new();
    frame::encode(&path, &mut bytes);
    assert_eq!(frame::decode(&bytes[frame::PREFIX..]), Ok(path));
}
