//! Messages as frames on a stream of bytes: a length of 4 bytes (big endian) and that much JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::MESSAGE_MAX;

/// Bytes of the length.
const HEAD: usize = 4;

/// A message that cannot be sent, or what came and is none.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MESSAGE_MAX`].
    #[error("a message of {0} bytes is longer than {MESSAGE_MAX}")]
    Long(usize),
    /// What came is no message.
    #[error("what came is no message")]
    Json(#[from] serde_json::Error),
}

/// A message that is none of those that are known here: of another version. It may be skipped.
#[derive(Debug, thiserror::Error)]
#[error("the message `{kind}` cannot be read")]
pub struct Unread {
    /// Its type, as it calls itself: at most [`KIND_MAX`] characters, nothing that a terminal would obey.
    pub kind: String,
    /// Why.
    #[source]
    pub why: serde_json::Error,
}

/// Characters of [`Unread::kind`].
pub const KIND_MAX: usize = 40;

/// Every message has a type.
#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

/// A message as a frame.
///
/// # Errors
/// If it is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEAD;
    if length > MESSAGE_MAX {
        return Err(FrameError::Long(length));
    }
    let length = u32::try_from(length).expect("it is bounded");
    frame[..HEAD].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Finds frames in what arrives. It holds one message at most and what one read brought.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// What was taken of them.
    from: usize,
}

impl Decoder {
    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.from);
        self.from = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is there as a whole. One that is not known here, but has a type, is `Ok(Some(Err))`: it may be skipped.
    ///
    /// # Errors
    /// If the length is out of bounds, or it is no message at all: nothing that follows can be read.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<Result<T, Unread>>, FrameError> {
        let rest = &self.bytes[self.from..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > MESSAGE_MAX {
            return Err(FrameError::Long(length));
        }
        let Some(json) = rest.get(..length) else { return Ok(None) };
        self.from += HEAD + length;
        let why = match serde_json::from_slice(json) {
            Ok(message) => return Ok(Some(Ok(message))),
            Err(error) => error,
        };
        match serde_json::from_slice::<Typed>(json) {
            Ok(Typed { r#type }) => {
                let kind = r#type.chars().flat_map(char::escape_debug).take(KIND_MAX).collect();
                Ok(Some(Err(Unread { kind, why })))
            }
            Err(_) => Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{FromAgent, ToAgent};

    #[test]
    fn messages_come_through_however_they_are_cut() {
        let sent = [ToAgent::Ping, ToAgent::Stop { session: 7 }, ToAgent::Revoke { session: u64::MAX }];
        let bytes: Vec<u8> = sent.iter().flat_map(|message| encode(message).expect("it is short")).collect();
        for step in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut came = Vec::new();
            for part in bytes.chunks(step) {
                decoder.push(part);
                while let Some(message) = decoder.next_message::<ToAgent>().expect("they are frames") {
                    came.push(message.expect("it is one"));
                }
            }
            assert_eq!(came, sent);
        }
    }

    #[test]
    fn what_a_newer_version_says_is_skipped() {
        let mut decoder = Decoder::default();
        for message in [
            serde_json::json!({"type": "dance", "how": [1, 2]}),
            serde_json::json!({"type": "stop", "session": "x"}),
            serde_json::json!({"type": "stop", "session": 1, "gently": true}),
            serde_json::json!(7),
        ] {
            decoder.push(&encode(&message).expect("it is short"));
        }
        for kind in ["dance", "stop"] {
            let message = decoder.next_message::<ToAgent>().expect("it has a type").expect("it is there");
            assert_eq!(message.expect_err("it is of another version").kind, kind);
        }
        let known = decoder.next_message::<ToAgent>().expect("it has a type").expect("it is there");
        assert_eq!(known.expect("a field more is no harm"), ToAgent::Stop { session: 1 });
        assert!(matches!(decoder.next_message::<ToAgent>(), Err(FrameError::Json(_))));
    }

    #[test]
    fn a_type_is_as_short_as_it_says_once_it_is_escaped() {
        let mut decoder = Decoder::default();
        let message = serde_json::json!({"type": "\u{1b}".repeat(KIND_MAX)});
        decoder.push(&encode(&message).expect("it is short"));
        let message = decoder.next_message::<ToAgent>().expect("it has a type").expect("it is there");
        assert_eq!(message.expect_err("nobody knows it").kind.len(), KIND_MAX);
    }

    #[test]
    fn garbage_is_told_and_never_panics() {
        let mut decoder = Decoder::default();
        decoder.push(b"GET / HTTP/1.1\r\n\r\n");
        assert!(matches!(decoder.next_message::<FromAgent>(), Err(FrameError::Long(_))));
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 3, b'{', b'{', b'{']);
        assert!(matches!(decoder.next_message::<FromAgent>(), Err(FrameError::Json(_))));
        let long = "x".repeat(MESSAGE_MAX);
        assert!(matches!(encode(&long), Err(FrameError::Long(_))));
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let mut decoder = Decoder::default();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let bytes = state.to_be_bytes();
                decoder.push(&[&[0, 0, 0, bytes[0] % 9], &bytes[..]].concat());
                while let Ok(Some(_)) = decoder.next_message::<FromAgent>() {}
            }
        }
    }
}
