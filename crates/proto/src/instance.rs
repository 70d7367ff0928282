//! Whose a connection is, from its first bytes: several agents (**instances**) may share one port behind a door.
//!
//! A control connection begins with a TLS ClientHello (RFC 8446 section 4.1.2) whose server name (RFC 6066 section 3) is that of
//! [`server_name`]; a data stream begins with the number of its session, which ends with the first [`TAG`] bytes of the fingerprint
//! of the instance that made it ([`session_id`]): people tell sessions by their beginning. Nothing of this is a secret or a proof: the instance proves its key in the
//! handshake, and a stream its session's.

use crate::hello::{MAGIC, SessionId};
use crate::limits::FIRST_BYTES_MAX;

/// Bytes of a fingerprint in a server name.
pub const NAME: usize = 16;
/// Bytes of a fingerprint in the number of a session.
pub const TAG: usize = 4;
/// What a server name ends with, behind a dot; alone it is the name that is said where no fingerprint is known.
pub const NAME_END: &str = "longhaul";

/// First byte of a TLS record that carries a handshake.
const HANDSHAKE: u8 = 22;
/// Bytes before the content of a TLS record.
const RECORD_HEAD: usize = 5;
/// The longest content of a TLS record.
const RECORD_MAX: usize = 1 << 14;
/// Bytes before the body of a message of the handshake.
const MESSAGE_HEAD: usize = 4;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the first bytes of a connection say of whom is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// Not said yet: more bytes are needed.
    More,
    /// It is neither a ClientHello nor a data stream, or one that is longer than [`FIRST_BYTES_MAX`].
    Nothing,
    /// A control connection to whoever is there: no name, or one that is not of an instance.
    Anybody,
    /// A control connection to the instance whose fingerprint begins so.
    Name([u8; NAME]),
    /// A data stream of a session that the instance made whose fingerprint begins so.
    Tag([u8; TAG]),
}

/// The server name by which an agent with this fingerprint is asked for.
#[must_use]
pub fn server_name(fingerprint: &[u8; 32]) -> String {
    let hex: String = fingerprint[..NAME].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.{NAME_END}")
}

/// The number of a session at an agent with this fingerprint: of `random`, which must be, all but the last [`TAG`] bytes.
#[must_use]
pub fn session_id(fingerprint: &[u8; 32], random: SessionId) -> SessionId {
    let mut id = random;
    id[16 - TAG..].copy_from_slice(&fingerprint[..TAG]);
    id
}

/// Reads whom the first bytes of a connection mean. Takes all that has arrived, from the first byte on, and may be asked again with more;
/// with [`FIRST_BYTES_MAX`] bytes or more the answer is never [`Meant::More`]. Time is linear in the bytes.
#[must_use]
pub fn meant(first: &[u8]) -> Meant {
    match first.first() {
        None => Meant::More,
        Some(&HANDSHAKE) => hello(first),
        Some(_) => stream(first),
    }
}

fn stream(first: &[u8]) -> Meant {
    let said = first.len().min(MAGIC.len());
    if first[..said] != MAGIC[..said] {
        return Meant::Nothing;
    }
    // The end of the session's number, which is behind magic, version and the stream's number; other versions are for the instance to refuse.
    match first.get(24 - TAG..24) {
        Some(tag) => Meant::Tag(tag.try_into().expect("it was cut to that")),
        None => Meant::More,
    }
}

fn hello(first: &[u8]) -> Meant {
    let message = match message(first) {
        Ok(message) => message,
        Err(why) => return why,
    };
    match name(&message[MESSAGE_HEAD..]) {
        None => Meant::Nothing,
        Some(name) => name.and_then(instance).map_or(Meant::Anybody, Meant::Name),
    }
}

/// The first message of a handshake, put together from its records: a client may cut it anywhere.
fn message(first: &[u8]) -> Result<Vec<u8>, Meant> {
    let more = if first.len() < FIRST_BYTES_MAX { Meant::More } else { Meant::Nothing };
    let mut message = Vec::new();
    let mut rest = first;
    loop {
        let is_other = |at: usize, wanted: u8| rest.get(at).is_some_and(|byte| *byte != wanted);
        // The version of a record is 3 and something in every TLS.
        if is_other(0, HANDSHAKE) || is_other(1, 3) {
            return Err(Meant::Nothing);
        }
        let Some((head, behind)) = rest.split_at_checked(RECORD_HEAD) else { return Err(more) };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if length == 0 || length > RECORD_MAX {
            return Err(Meant::Nothing);
        }
        let (content, behind) = behind.split_at(length.min(behind.len()));
        message.extend_from_slice(content);
        if let Some(whole) = length_of(&message)?.filter(|whole| message.len() >= *whole) {
            message.truncate(whole);
            return Ok(message);
        }
        if content.len() < length {
            return Err(more);
        }
        rest = behind;
    }
}

/// How long a ClientHello is with its head, once that is said.
fn length_of(message: &[u8]) -> Result<Option<usize>, Meant> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(Meant::Nothing);
    }
    let Some(&[_, high, middle, low]) = message.first_chunk() else { return Ok(None) };
    let whole = MESSAGE_HEAD + usize::from(high) * 65_536 + usize::from(middle) * 256 + usize::from(low);
    if whole > FIRST_BYTES_MAX { Err(Meant::Nothing) } else { Ok(Some(whole)) }
}

/// The server name in the body of a ClientHello: `None` if the body is damaged, `Some(None)` if there is no name.
fn name(body: &[u8]) -> Option<Option<&[u8]>> {
    let mut body = Reader(body);
    // The legacy version and the random bytes; the session's number; the cipher suites; the compressions.
    body.take(2 + 32)?;
    body.block::<1>()?;
    body.block::<2>()?;
    body.block::<1>()?;
    if body.0.is_empty() {
        // Extensions could be left out before TLS 1.3.
        return Some(None);
    }
    let mut extensions = Reader(body.block::<2>()?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number::<2>()?;
        let content = extensions.block::<2>()?;
        if kind == usize::from(SERVER_NAME) && found.is_none() {
            found = host_name(Reader(content).block::<2>()?)?;
        }
    }
    Some(found)
}

/// The first name of a host in a list of names.
fn host_name(list: &[u8]) -> Option<Option<&[u8]>> {
    let mut list = Reader(list);
    while !list.0.is_empty() {
        let kind = list.number::<1>()?;
        let name = list.block::<2>()?;
        if kind == usize::from(HOST_NAME) {
            return Some(Some(name));
        }
    }
    Some(None)
}

/// What a server name says of a fingerprint; `None` if it is not of an instance.
fn instance(name: &[u8]) -> Option<[u8; NAME]> {
    let (hex, end) = name.split_at_checked(2 * NAME)?;
    if !end.strip_prefix(b".")?.eq_ignore_ascii_case(NAME_END.as_bytes()) {
        return None;
    }
    let mut found = [0; NAME];
    for (byte, pair) in found.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(found)
}

/// Reads what TLS is made of; `None` where it ends too early.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes, big endian.
    fn number<const BYTES: usize>(&mut self) -> Option<usize> {
        Some(self.take(BYTES)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes behind their length, which has so many bytes itself.
    fn block<const BYTES: usize>(&mut self) -> Option<&'a [u8]> {
        let length = self.number::<BYTES>()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests;
