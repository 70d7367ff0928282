//! Messages on the stream: a length of four bytes and that much JSON.

use std::io;

use api::agent::{FromAgent, MESSAGE_MAX, ToAgent};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read at a time: memory grows with what has come, not with what was announced.
const PIECE_BYTES: usize = 64 << 10;

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection.
    #[error("the connection to the controller was lost")]
    Lost(#[source] io::Error),
    /// Longer than any message.
    #[error("the controller announced a message of {0} bytes; {MESSAGE_MAX} are the most")]
    Long(usize),
    /// Not JSON, or no object with a type.
    #[error("the controller said what is no message: {0}")]
    NoMessage(String),
}

/// What came.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A message.
    Message(ToAgent),
    /// One that this program does not know, or with fields that it cannot read; the text says which.
    Unknown(String),
}

/// Reads the next message. Not to be cancelled: what was read of a message would be lost.
///
/// # Errors
/// When the connection ends, or what comes is no message.
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Heard, FrameError> {
    let length = from.read_u32().await.map_err(FrameError::Lost)? as usize;
    if length > MESSAGE_MAX {
        return Err(FrameError::Long(length));
    }
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let begin = bytes.len();
        bytes.resize(length.min(begin + PIECE_BYTES), 0);
        from.read_exact(&mut bytes[begin..]).await.map_err(FrameError::Lost)?;
    }
    parse(&bytes)
}

/// Any message has a type.
#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

/// Reads a message.
///
/// # Errors
/// When it is none.
pub fn parse(bytes: &[u8]) -> Result<Heard, FrameError> {
    let error = match serde_json::from_slice(bytes) {
        Ok(message) => return Ok(Heard::Message(message)),
        Err(error) => error,
    };
    match serde_json::from_slice::<Typed>(bytes) {
        Ok(typed) => {
            let name: String = typed.r#type.chars().take(40).flat_map(char::escape_debug).collect();
            let why: String = error.to_string().chars().take(200).flat_map(char::escape_debug).collect();
            Ok(Heard::Unknown(format!("this agent cannot read the message `{name}`: {why}")))
        }
        Err(error) => Err(FrameError::NoMessage(error.to_string().chars().take(200).collect())),
    }
}

/// Writes a message.
///
/// # Errors
/// When the connection ends, or the message is longer than any may be.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), message: &FromAgent) -> io::Result<()> {
    let json = serde_json::to_vec(message).map_err(io::Error::other)?;
    if json.len() > MESSAGE_MAX {
        return Err(io::Error::other(format!("a message of {} bytes is longer than {MESSAGE_MAX}", json.len())));
    }
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let frame = [&length.to_be_bytes()[..], &json].concat();
    to.write_all(&frame).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read_all(mut bytes: &[u8]) -> (Vec<Heard>, FrameError) {
        let mut heard = Vec::new();
        loop {
            match read(&mut bytes).await {
                Ok(message) => heard.push(message),
                Err(error) => return (heard, error),
            }
        }
    }

    fn framed(json: &str) -> Vec<u8> {
        [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
    }

    #[tokio::test]
    async fn what_is_not_known_is_skipped_and_what_is_no_message_ends_it() {
        let known = framed(r#"{"type":"ping","more":[1]}"#);
        let unknown = framed(r#"{"type":"dance","to":1}"#);
        let wrong = framed(r#"{"type":"stop","session":"x"}"#);
        let (heard, error) = read_all(&[known, unknown, wrong, framed("[]")].concat()).await;
        assert_eq!(heard[0], Heard::Message(ToAgent::Ping));
        for (n, name) in [(1, "dance"), (2, "stop")] {
            assert!(matches!(&heard[n], Heard::Unknown(text) if text.contains(name)), "{heard:?}");
        }
        assert!(matches!(error, FrameError::NoMessage(_)));
        let (_, error) = read_all(&[0xff; 64]).await;
        assert!(matches!(error, FrameError::Long(_)));
        let (_, error) = read_all(&[0, 0, 1, 0, b'{']).await;
        assert!(matches!(error, FrameError::Lost(_)));
        let deep = "[".repeat(100_000);
        assert!(matches!(read_all(&framed(&deep)).await.1, FrameError::NoMessage(_)));
    }

    #[tokio::test]
    async fn what_is_written_has_its_length_in_front() {
        let mut written = Vec::new();
        write(&mut written, &FromAgent::Ping).await.unwrap();
        assert_eq!(written, framed(r#"{"type":"ping"}"#));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(read_all(&bytes));
            let _ = parse(&bytes);
        }

        #[test]
        fn nor_does_a_damaged_message(at in 0..60_usize, byte in any::<u8>()) {
            let mut text = br#"{"type":"lease","session":7,"lease":{"generation":1,"rates":[{"after_ms":0,"rate_bps":9}],"length_ms":5,"fall_back_bps":0}}"#.to_vec();
            text[at] = byte;
            let _ = parse(&text);
        }
    }
}
