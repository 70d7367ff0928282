//! One connection of a link: what is written on it, and what was read.

use std::io;

use proto::control::Control;
use proto::limits::FRAME_MAX;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::{LinkError, read_into};

/// Messages that are read ahead.
const READ_AHEAD: usize = 16;

/// A connection, whatever carries it.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What is written on a connection.
pub(super) struct Out {
    pub(super) to: WriteHalf<Box<dyn Io>>,
    bytes: Vec<u8>,
    written: usize,
    flushed: bool,
    /// Writing failed: reading will too, and tells more.
    pub(super) broken: bool,
}

impl Out {
    pub(super) fn is_idle(&self) -> bool {
        self.written == self.bytes.len() && self.flushed
    }

    /// Bytes that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes on; waits for ever when there is nothing to write. Cancel safe.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        if self.broken || self.is_idle() {
            return std::future::pending().await;
        }
        if self.written < self.bytes.len() {
            let n = self.to.write(&self.bytes[self.written..]).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += n;
            return Ok(());
        }
        self.to.flush().await?;
        self.flushed = true;
        Ok(())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.flushed = false;
    }
}

/// What was read: a message and the bytes of its frame.
pub(super) type Arrived = Result<(Control, usize), LinkError>;

/// A connection in force.
pub(super) struct Connection {
    pub(super) out: Out,
    pub(super) frames: mpsc::Receiver<Arrived>,
    /// Ended with the connection.
    _reader: JoinSet<()>,
}

impl Connection {
    pub(super) fn new(stream: Box<dyn Io>) -> Connection {
        let (mut from, to) = tokio::io::split(stream);
        let (arrived, frames) = mpsc::channel(READ_AHEAD);
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let mut body = Vec::new();
            loop {
                let message = read_into(&mut from, FRAME_MAX, &mut body).await;
                let over = message.is_err();
                if arrived.send(message.map(|message| (message, body.len()))).await.is_err() || over {
                    break;
                }
            }
        });
        let out = Out { to, bytes: Vec::new(), written: 0, flushed: true, broken: false };
        Connection { out, frames, _reader: reader }
    }
}
