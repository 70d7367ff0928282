//! Opening a data stream: three messages that prove both ends hold the session's key.
//!
//! ```text
//! connecting end                                  accepting end
//!   "LHD1" version stream session nonce_c mac  ─▶
//!                                              ◀─  status nonce_a mac
//!                                         mac  ─▶
//!   records (either direction, as the session says)
//! ```
//!
//! The session's key is exported from its TLS 1.3 control connection (RFC 8446 section 7.5). Each MAC is
//! HMAC-SHA256 over everything said so far and the name of the message. The accepting end's nonce is fresh,
//! so a recorded hello cannot be played again: its third message does not fit.

use aws_lc_rs::{hkdf, hmac};

use crate::seal::expand;

/// First bytes of a data stream. A TLS connection begins with 0x16, so one port serves both.
pub const MAGIC: [u8; 4] = *b"LHD1";
/// Version of the data stream.
pub const STREAM_VERSION: u16 = 1;
/// Bytes of the first message.
pub const HELLO: usize = 72;
/// Bytes of the second message.
pub const REPLY: usize = 52;
/// Bytes of the third message.
pub const FINISH: usize = 32;

/// Label of the exporter for the session's key.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-longhaul-session-v1";

/// Names one session at both ends.
pub type SessionId = [u8; 16];

/// The session's key.
#[derive(Clone)]
pub struct SessionKey(pub [u8; 32]);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// Why a stream is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not the magic.
    #[error("not a longhaul data stream")]
    Magic,
    /// Another version.
    #[error("data stream of version {0}, this end speaks {STREAM_VERSION}")]
    Version(u16),
    /// The other end does not hold the key of the session.
    #[error("the other end of a connection does not hold the session's key")]
    Key,
    /// The accepting end says no; the number is its status.
    #[error("data stream refused: {}", status_text(*.0))]
    Refused(u8),
}

/// Status of a reply.
pub mod status {
    /// Welcome.
    pub const OK: u8 = 0;
    /// No such session.
    pub const NO_SESSION: u8 = 1;
    /// The session or the host has no stream left.
    pub const FULL: u8 = 2;
}

fn status_text(status: u8) -> &'static str {
    match status {
        status::NO_SESSION => "the session is not known there",
        status::FULL => "no stream is left in the budget there",
        _ => "no reason given",
    }
}

/// What the first message says, before anything in it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The session it claims to belong to.
    pub session: SessionId,
    /// Number of the stream in the session.
    pub stream: u16,
}

/// Secrets of an open stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSecrets {
    /// From the connecting to the accepting end.
    pub forward: [u8; 32],
    /// From the accepting to the connecting end.
    pub backward: [u8; 32],
}

/// The connecting end.
pub struct Connecting {
    key: SessionKey,
    hello: [u8; HELLO],
}

impl Connecting {
    /// Begins with the first message. The nonce must be random.
    #[must_use]
    pub fn new(key: SessionKey, session: SessionId, stream: u16, nonce: [u8; 16]) -> (Connecting, [u8; HELLO]) {
        let mut hello = [0; HELLO];
        hello[..4].copy_from_slice(&MAGIC);
        hello[4..6].copy_from_slice(&STREAM_VERSION.to_le_bytes());
        hello[6..8].copy_from_slice(&stream.to_le_bytes());
        hello[8..24].copy_from_slice(&session);
        hello[24..40].copy_from_slice(&nonce);
        let mac = mac(&key, b"hello", &[&hello[..40]]);
        hello[40..].copy_from_slice(&mac);
        (Connecting { key, hello }, hello)
    }

    /// Takes the second message, gives the third and the secrets.
    ///
    /// # Errors
    /// When the accepting end refuses or does not hold the key.
    pub fn reply(self, reply: &[u8; REPLY]) -> Result<([u8; FINISH], StreamSecrets), HelloError> {
        if reply[0] != status::OK {
            return Err(HelloError::Refused(reply[0]));
        }
        verify(&self.key, b"reply", &[&self.hello, &reply[..20]], &reply[20..])?;
        let finish = mac(&self.key, b"finish", &[&self.hello, reply]);
        Ok((finish, secrets(&self.key, &self.hello, reply)))
    }
}

/// The accepting end, after its reply.
pub struct Accepting {
    key: SessionKey,
    hello: [u8; HELLO],
    reply: [u8; REPLY],
}

/// Reads which session a first message claims.
///
/// # Errors
/// When it is no hello of this version.
pub fn announced(hello: &[u8; HELLO]) -> Result<Announced, HelloError> {
    if hello[..4] != MAGIC {
        return Err(HelloError::Magic);
    }
    let version = u16::from_le_bytes([hello[4], hello[5]]);
    if version != STREAM_VERSION {
        return Err(HelloError::Version(version));
    }
    Ok(Announced {
        session: hello[8..24].try_into().expect("16 bytes"),
        stream: u16::from_le_bytes([hello[6], hello[7]]),
    })
}

/// A reply that refuses; it carries no MAC, for there may be no key.
#[must_use]
pub fn refusal(status: u8) -> [u8; REPLY] {
    let mut reply = [0; REPLY];
    reply[0] = status;
    reply
}

impl Accepting {
    /// Checks the first message and replies. The nonce must be random.
    ///
    /// # Errors
    /// When the other end does not hold the key.
    pub fn new(key: SessionKey, hello: &[u8; HELLO], nonce: [u8; 16]) -> Result<(Accepting, [u8; REPLY]), HelloError> {
        verify(&key, b"hello", &[&hello[..40]], &hello[40..])?;
        let mut reply = [0; REPLY];
        reply[4..20].copy_from_slice(&nonce);
        let mac = mac(&key, b"reply", &[hello, &reply[..20]]);
        reply[20..].copy_from_slice(&mac);
        Ok((Accepting { key, hello: *hello, reply }, reply))
    }

    /// Checks the third message.
    ///
    /// # Errors
    /// When it does not fit: the hello was a replay.
    pub fn finish(self, finish: &[u8; FINISH]) -> Result<StreamSecrets, HelloError> {
        verify(&self.key, b"finish", &[&self.hello, &self.reply], finish)?;
        Ok(secrets(&self.key, &self.hello, &self.reply))
    }
}

pub(crate) fn mac(key: &SessionKey, label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
    let mut context = hmac::Context::with_key(&key);
    context.update(label);
    parts.iter().for_each(|p| context.update(p));
    context.sign().as_ref().try_into().expect("32 bytes")
}

pub(crate) fn verify(key: &SessionKey, label: &[u8], parts: &[&[u8]], tag: &[u8]) -> Result<(), HelloError> {
    let expected = mac(key, label, parts);
    aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).map_err(|_| HelloError::Key)
}

fn secrets(key: &SessionKey, hello: &[u8; HELLO], reply: &[u8; REPLY]) -> StreamSecrets {
    let mut salt = [0; 36];
    salt[..16].copy_from_slice(&hello[24..40]);
    salt[16..32].copy_from_slice(&reply[4..20]);
    salt[32..34].copy_from_slice(&hello[6..8]);
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(&key.0);
    let (mut forward, mut backward) = ([0; 32], [0; 32]);
    expand(&prk, &[b"longhaul stream forward"], &mut forward);
    expand(&prk, &[b"longhaul stream backward"], &mut backward);
    StreamSecrets { forward, backward }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SessionKey = SessionKey([5; 32]);

    #[test]
    fn both_ends_agree() {
        let (c, hello) = Connecting::new(KEY, [1; 16], 3, [2; 16]);
        assert_eq!(announced(&hello), Ok(Announced { session: [1; 16], stream: 3 }));
        let (a, reply) = Accepting::new(KEY, &hello, [4; 16]).unwrap();
        let (finish, ours) = c.reply(&reply).unwrap();
        assert_eq!(a.finish(&finish).unwrap(), ours);
        assert_ne!(ours.forward, ours.backward);
    }

    #[test]
    fn a_replayed_hello_does_not_open() {
        let (c, hello) = Connecting::new(KEY, [1; 16], 3, [2; 16]);
        let (_, reply) = Accepting::new(KEY, &hello, [4; 16]).unwrap();
        let (finish, _) = c.reply(&reply).unwrap();
        // The recorded first and third messages against a fresh nonce of the accepting end.
        let (a, _) = Accepting::new(KEY, &hello, [5; 16]).unwrap();
        assert_eq!(a.finish(&finish).err(), Some(HelloError::Key));
    }

    #[test]
    fn without_the_key_nothing_opens() {
        let (_, hello) = Connecting::new(SessionKey([6; 32]), [1; 16], 3, [2; 16]);
        assert_eq!(Accepting::new(KEY, &hello, [4; 16]).err(), Some(HelloError::Key));
        let (c, _) = Connecting::new(KEY, [1; 16], 3, [2; 16]);
        assert_eq!(c.reply(&refusal(status::FULL)).err(), Some(HelloError::Refused(2)));
    }
}
