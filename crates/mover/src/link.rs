//! The control connection: frames of [`Control`] messages over TLS, in both directions at once. That of a session outlives
//! the connections that carry it (`lasting`).

pub(crate) mod lasting;

use std::io;
use std::time::{Duration, Instant};

use proto::control::{Control, Refusal};
use proto::frame::{self, PREFIX};
use proto::limits::FRAME_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use self::lasting::{Keeper, Lasting, Pulse};
use crate::request::Gone;
use crate::way::Way;

/// Messages waiting in either direction. The session stops producing at this number.
const QUEUE_MAX: usize = 64;

/// How long what the other end said before it went may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection failed or was closed.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// The peer said something that cannot be.
    #[error("the other end does not keep to the protocol: {0}")]
    Protocol(String),
    /// The peer refused, with its reason.
    #[error("{}", .0.text)]
    Refused(Refusal),
    /// Nothing was heard for too long.
    #[error("nothing was heard from the other end for {} s", .0.as_secs())]
    Silent(Duration),
    /// What kept the other end alive is gone: connecting again is of no use.
    #[error("{0}")]
    Gone(String),
}

impl From<frame::FrameError> for LinkError {
    fn from(error: frame::FrameError) -> Self {
        LinkError::Protocol(error.to_string())
    }
}

/// A connection that ends without a goodbye is told in our own words: those of the TLS library are not for users.
fn lost(error: io::Error) -> LinkError {
    LinkError::Lost(match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the other end is gone"),
        _ => error,
    })
}

/// Reads one message of at most `max` bytes.
///
/// # Errors
/// When the connection ends or the bytes are no message.
pub async fn read(stream: &mut (impl AsyncRead + Unpin), max: usize) -> Result<Control, LinkError> {
    let mut body = Vec::new();
    read_into(stream, max, &mut body).await
}

async fn read_into(
    stream: &mut (impl AsyncRead + Unpin),
    max: usize,
    body: &mut Vec<u8>,
) -> Result<Control, LinkError> {
    let mut prefix = [0; PREFIX];
    stream.read_exact(&mut prefix).await.map_err(lost)?;
    let len = frame::body_len(prefix, max)?;
    // Memory grows with what arrives, not with what is announced.
    body.clear();
    let got = stream.take(len as u64).read_to_end(body).await.map_err(lost)?;
    if got < len {
        return Err(lost(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(frame::decode(body)?)
}

/// Writes one message.
///
/// # Errors
/// When the connection fails.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &Control) -> Result<(), LinkError> {
    write_all(stream, std::slice::from_ref(message)).await
}

/// Writes several messages at once, so that they travel together.
///
/// # Errors
/// When the connection fails.
pub(crate) async fn write_all(stream: &mut (impl AsyncWrite + Unpin), messages: &[Control]) -> Result<(), LinkError> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| frame::encode(message, &mut bytes));
    stream.write_all(&bytes).await.map_err(LinkError::Lost)?;
    stream.flush().await.map_err(LinkError::Lost)
}

/// Why the other end is gone, when it is; waits for that.
pub(crate) async fn ended(mut gone: Gone) -> String {
    let why = gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
    match why {
        Some(why) => why,
        // Nobody watches any more.
        None => std::future::pending().await,
    }
}

/// A control connection with a task for each direction.
pub struct Link {
    out: mpsc::Sender<Control>,
    inbox: mpsc::Receiver<Result<Control, LinkError>>,
    /// Of a session's link.
    pulse: Option<Pulse>,
    /// Of a session's link: which address it is to go over.
    prefer: watch::Sender<Option<Way>>,
    /// What else tells, and last whoever writes.
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Link {
    /// Takes over the authenticated connection of a session, and goes on over another one when it is cut. If the other end
    /// lives only until it is `gone`, the link is lost soon after that, even if no packet says so.
    pub(crate) fn lasting(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        lasting: Lasting,
        gone: Option<Gone>,
    ) -> Link {
        let (out, outbox) = mpsc::channel(QUEUE_MAX);
        let (arrived, inbox) = mpsc::channel(QUEUE_MAX);
        let (prefer, preferred) = watch::channel(None);
        let (keeper, pulse) = Keeper::new(Box::new(stream), lasting, outbox, arrived.clone(), preferred);
        let mut tasks = Vec::new();
        if let Some(gone) = gone {
            tasks.push(tokio::spawn(async move {
                let why = ended(gone).await;
                tokio::time::sleep(LAST_WORDS).await;
                // A session that is over hears nothing more.
                let _ = arrived.send(Err(LinkError::Gone(why))).await;
            }));
        }
        tasks.push(tokio::spawn(keeper.run()));
        Link { out, inbox, pulse: Some(pulse), prefer, tasks }
    }

    /// Takes over an authenticated connection, and ends with it.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Link {
        let (mut from, mut to) = tokio::io::split(stream);
        let (arrived, inbox) = mpsc::channel(QUEUE_MAX);
        let (out, mut outbox) = mpsc::channel::<Control>(QUEUE_MAX);
        let reader = tokio::spawn(async move {
            let mut body = Vec::new();
            loop {
                let message = read_into(&mut from, FRAME_MAX, &mut body).await;
                let over = message.is_err();
                if arrived.send(message).await.is_err() || over {
                    break;
                }
            }
        });
        let writer = tokio::spawn(async move {
            let mut bytes = Vec::new();
            while let Some(message) = outbox.recv().await {
                bytes.clear();
                frame::encode(&message, &mut bytes);
                while bytes.len() < 64 << 10
                    && let Ok(message) = outbox.try_recv()
                {
                    frame::encode(&message, &mut bytes);
                }
                // A failed write shows as a failed read; the reader tells it.
                if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                    break;
                }
            }
            let _ = to.shutdown().await;
        });
        Link { out, inbox, pulse: None, prefer: watch::Sender::new(None), tasks: vec![reader, writer] }
    }

    /// A link that is closed: what stands where one was taken from.
    #[must_use]
    pub fn closed() -> Link {
        let (out, _) = mpsc::channel(1);
        let (_, inbox) = mpsc::channel(1);
        Link { out, inbox, pulse: None, prefer: watch::Sender::new(None), tasks: Vec::new() }
    }

    /// True if a message can be sent without waiting.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.out.capacity() > 0
    }

    /// Whether the other end of a session is heard.
    #[must_use]
    pub fn is_heard(&self, now: Instant) -> bool {
        self.pulse.as_ref().is_some_and(|pulse| pulse.is_heard(now))
    }

    /// Whether a path to the other end of a session works, and has for a while: a stream on which nothing comes back is on
    /// another one.
    #[must_use]
    pub fn works(&self, now: Instant) -> bool {
        self.pulse.as_ref().is_some_and(|pulse| pulse.works(now))
    }

    /// The link is to go over this address of the other end, if it is one that this end connects to.
    pub fn prefer(&self, to: Way) {
        self.prefer.send_replace(Some(to));
    }

    /// Sends a message; waits while the queue is full. A link that is lost swallows it: `recv` tells.
    pub async fn send(&self, message: Control) {
        let _ = self.out.send(message).await;
    }

    /// The next message. Cancel safe.
    ///
    /// # Errors
    /// When the link is of no use any more.
    pub async fn recv(&mut self) -> Result<Control, LinkError> {
        match self.inbox.recv().await {
            Some(message) => message,
            None => Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Sends what is queued and closes, within `timeout`.
    pub async fn close(mut self, timeout: Duration) {
        let (dead, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.out, dead));
        if let Some(writer) = self.tasks.pop() {
            let _ = tokio::time::timeout(timeout, writer).await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
