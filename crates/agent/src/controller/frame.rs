//! Messages of a controller, as they come.

use std::io;

use api::agent::{FromAgent, ToAgent};
use api::frame::{Decoder, FrameError, Unread, encode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read at a time: memory grows with what has come, not with what was announced.
const PIECE_BYTES: usize = 64 << 10;

/// Why nothing more can be heard.
#[derive(Debug, thiserror::Error)]
pub enum HeardError {
    /// The connection.
    #[error("the connection to the controller was lost")]
    Lost(#[source] io::Error),
    /// Not what a controller says.
    #[error("the controller said what is no message")]
    Frame(#[from] FrameError),
}

/// Where a controller is heard.
#[derive(Debug)]
pub struct Ear<R> {
    from: R,
    decoder: Decoder,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Ear<R> {
    /// Nothing was heard yet.
    pub fn new(from: R) -> Ear<R> {
        Ear { from, decoder: Decoder::default(), piece: vec![0; PIECE_BYTES] }
    }

    /// The next message; the inner error is one that this program does not know. It may be cancelled: nothing is lost.
    ///
    /// # Errors
    /// When the connection ends, or what comes is no message.
    pub async fn hear(&mut self) -> Result<Result<ToAgent, Unread>, HeardError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            match self.from.read(&mut self.piece).await {
                Ok(0) => return Err(HeardError::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.decoder.push(&self.piece[..count]),
                Err(error) => return Err(HeardError::Lost(error)),
            }
        }
    }
}

/// Says a message.
///
/// # Errors
/// When the connection ends, or the message is longer than any may be.
pub async fn say(to: &mut (impl AsyncWrite + Unpin), message: &FromAgent) -> io::Result<()> {
    let frame = encode(message).map_err(io::Error::other)?;
    to.write_all(&frame).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_known_is_skipped_and_the_end_is_told() {
        let frames = [
            encode(&serde_json::json!({"type": "dance", "to": 1})).unwrap(),
            encode(&ToAgent::Ping).unwrap(),
            vec![0, 0, 1, 0, b'{'],
        ];
        let bytes = frames.concat();
        let mut ear = Ear::new(&bytes[..]);
        assert_eq!(ear.hear().await.unwrap().unwrap_err().kind, "dance");
        assert_eq!(ear.hear().await.unwrap().unwrap(), ToAgent::Ping);
        assert!(matches!(ear.hear().await, Err(HeardError::Lost(_))));
        let mut ear = Ear::new(&[0xff; 64][..]);
        assert!(matches!(ear.hear().await, Err(HeardError::Frame(FrameError::Long(_)))));
    }

    #[tokio::test]
    async fn what_is_said_is_heard() {
        let mut written = Vec::new();
        say(&mut written, &FromAgent::Ping).await.unwrap();
        assert_eq!(written, encode(&FromAgent::Ping).unwrap());
    }
}
