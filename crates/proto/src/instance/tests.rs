//! Hellos that are made here, whole and in pieces.

use proptest::prelude::*;

use super::*;
use crate::hello::{Connecting, SessionKey};

const FINGERPRINT: [u8; 32] = {
    let mut bytes = [0xab; 32];
    (bytes[0], bytes[3], bytes[15]) = (0x01, 0x9f, 0xf0);
    bytes
};

/// Bytes behind their length of two bytes.
fn block(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &block(content)[..]].concat()
}

fn host(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &block(&[&[HOST_NAME], &block(name)[..]].concat()))
}

/// A ClientHello with these extensions, without records.
fn client_hello(extensions: &[u8]) -> Vec<u8> {
    let suites = block(&[0x13, 0x01, 0x13, 0x02]);
    let body = [&[3, 3], &[7; 32][..], &[32], &[9; 32], &suites, &[1, 0], &block(extensions)].concat();
    [&[CLIENT_HELLO, 0], &block(&body)[..]].concat()
}

/// In records of at most this many bytes.
fn records(message: &[u8], each: usize) -> Vec<u8> {
    message.chunks(each).flat_map(|part| [&[HANDSHAKE, 3, 1], &block(part)[..]].concat()).collect()
}

fn hello_to(name: &[u8]) -> Vec<u8> {
    let other = [extension(43, &[2, 3, 4]), extension(51, &[5; 1200])].concat();
    client_hello(&[other, host(name), extension(16, &[0; 9])].concat())
}

fn own_name() -> Meant {
    Meant::Name(FINGERPRINT[..NAME].try_into().unwrap())
}

#[test]
fn a_hello_is_read_however_it_is_cut() {
    let message = hello_to(server_name(&FINGERPRINT).as_bytes());
    for each in [RECORD_MAX, 1000, 100, 5, 1] {
        let bytes = records(&message, each);
        assert_eq!(meant(&bytes), own_name(), "records of {each}");
        for cut in 0..bytes.len() {
            assert_eq!(meant(&bytes[..cut]), Meant::More, "records of {each}, {cut} bytes");
        }
        // What is sent behind it changes nothing.
        assert_eq!(meant(&[bytes, vec![0xff; 40]].concat()), own_name());
    }
}

#[test]
fn names_of_no_instance_are_anybody() {
    let own = server_name(&FINGERPRINT);
    assert_eq!(own, "01abab9fabababababababababababf0.longhaul");
    let upper = own.to_uppercase();
    assert_eq!(meant(&records(&hello_to(upper.as_bytes()), 500)), own_name());
    let changed = [own.replace('f', "g"), own.replace(".longhaul", ".longhaul."), own.replace('.', "0")];
    let plain = ["longhaul", "", ".longhaul", "dtn.example.org"].map(str::to_owned);
    let mut names: Vec<Vec<u8>> = changed.into_iter().chain(plain).map(String::into_bytes).collect();
    names.push(vec![0xff; 41]);
    for name in names {
        assert_eq!(meant(&records(&hello_to(&name), 500)), Meant::Anybody, "{name:?}");
    }
    let nameless = [client_hello(&[]), client_hello(&extension(43, &[2, 3, 4])), client_hello(&extension(0, &[0, 0]))];
    for message in nameless {
        assert_eq!(meant(&records(&message, 500)), Meant::Anybody);
    }
}

#[test]
fn what_is_no_hello_is_nothing_at_once() {
    let whole = hello_to(server_name(&FINGERPRINT).as_bytes());
    let bytes = records(&whole, RECORD_MAX);
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        bytes
    };
    for bad in [changed(1, 2), changed(5, 2), changed(6, 1), changed(43, 255), changed(0, 21)] {
        assert_eq!(meant(&bad), Meant::Nothing);
    }
    for text in ["GET / HTTP/1.1\r\n", "SSH-2.0-", "LHD2", "\0"] {
        assert_eq!(meant(text.as_bytes()), Meant::Nothing, "{text}");
    }
    // An empty record would be one of endlessly many.
    assert_eq!(meant(&[HANDSHAKE, 3, 1, 0, 0]), Meant::Nothing);
    assert_eq!(meant(&[HANDSHAKE, 3, 1, 0x40, 1]), Meant::Nothing);
}

#[test]
fn a_hello_that_is_too_long_is_nothing() {
    let long = |extra: usize| client_hello(&[host(b"longhaul"), extension(99, &vec![1; extra])].concat());
    let overhead = long(0).len();
    let fits = records(&long(FIRST_BYTES_MAX - overhead - RECORD_HEAD), RECORD_MAX);
    assert_eq!((fits.len(), meant(&fits)), (FIRST_BYTES_MAX, Meant::Anybody));
    // Said in its head, it is refused before it comes.
    let over = records(&long(FIRST_BYTES_MAX - overhead + 1), RECORD_MAX);
    assert_eq!(meant(&over[..RECORD_HEAD + MESSAGE_HEAD]), Meant::Nothing);
    // Cut into many records it is longer than what is looked at.
    let many = records(&long(FIRST_BYTES_MAX - overhead - RECORD_HEAD), 1);
    assert_eq!(meant(&many[..FIRST_BYTES_MAX - 1]), Meant::More);
    assert_eq!(meant(&many[..FIRST_BYTES_MAX]), Meant::Nothing);
}

#[test]
fn a_stream_names_the_instance_of_its_session() {
    let session = session_id(&FINGERPRINT, [5; 16]);
    let (_, hello) = Connecting::new(SessionKey([1; 32]), session, 3, [2; 16]);
    for cut in 0..hello.len() {
        let expected = if cut < 24 { Meant::More } else { Meant::Tag([0x01, 0xab, 0xab, 0x9f]) };
        assert_eq!(meant(&hello[..cut]), expected, "{cut} bytes");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decided_within_the_bound(mut bytes in prop::collection::vec(any::<u8>(), 0..300), is_hello: bool) {
        if is_hello && bytes.len() > 5 {
            bytes[..3].copy_from_slice(&[HANDSHAKE, 3, 1]);
            bytes[5] = CLIENT_HELLO;
        }
        let whole = meant(&bytes);
        // Who has decided does not change it when more comes.
        for cut in 0..bytes.len() {
            let before = meant(&bytes[..cut]);
            prop_assert!(before == Meant::More || before == whole, "{cut}: {before:?}, then {whole:?}");
        }
        bytes.resize(FIRST_BYTES_MAX, 1);
        prop_assert_ne!(meant(&bytes), Meant::More);
    }

    #[test]
    fn a_flipped_bit_panics_nowhere(at in 0_usize..1300, bit in 0_u8..8, each in 1_usize..1500) {
        let mut bytes = records(&hello_to(server_name(&FINGERPRINT).as_bytes()), each);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let _ = meant(&bytes);
    }
}
