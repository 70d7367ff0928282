//! Connections of agents: each is greeted, and then messages go both ways until it ends.
//!
//! A connection has two tasks. One reads frames and hands messages to the core, and waits where the core is behind: so an agent that
//! says too much is slowed by TCP. The other writes what the core has for the agent, from a queue of [`OUT_MAX`]; where that is full
//! the connection is closed, and the agent comes again and is told what holds then.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::agent::{FromAgent, Hello, PING_MS, SILENCE_MS, ToAgent, Turned, Welcome};
use api::frame::{Decoder, FrameError, encode};
use mover::request::Fingerprint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// Messages that wait to be written to an agent.
pub const OUT_MAX: usize = 4096;
/// How long an agent may take to say who it is.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// How long the last words to an agent may take.
const LAST_TIME: Duration = Duration::from_secs(2);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Messages of a kind that is not known, one after the other, until the connection is closed.
const UNKNOWN_MAX: u32 = 100;

/// Names a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// What the core hears of connections.
#[derive(Debug)]
pub enum Heard {
    /// An agent says who it is and waits for an answer.
    Hello(Box<Arrival>),
    /// An agent that was welcomed says something.
    Said(ConnectionId, Box<FromAgent>),
    /// A connection that was welcomed has ended.
    Gone(ConnectionId, String),
}

/// An agent that says who it is.
#[derive(Debug)]
pub struct Arrival {
    /// Its connection.
    pub connection: ConnectionId,
    /// What it says.
    pub hello: Hello,
    /// The key that it proved to hold.
    pub fingerprint: Fingerprint,
    /// Where it connects from.
    pub from: SocketAddr,
    /// To tell it something, once it is welcomed.
    pub out: Out,
    /// The answer.
    pub answer: oneshot::Sender<Result<Welcome, Turned>>,
}

/// The way to an agent.
#[derive(Clone, Debug)]
pub struct Out(mpsc::Sender<ToAgent>);

impl Out {
    /// Tells the agent something; false if its connection is over, or must be ended for it takes nothing.
    pub fn tell(&self, message: ToAgent) -> bool {
        self.0.try_send(message).is_ok()
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Serves one connection to its end. `heard` is the core.
pub async fn serve<S>(stream: S, fingerprint: Option<Fingerprint>, from: SocketAddr, heard: mpsc::Sender<Heard>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let connection = ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed));
    let (read, mut write) = tokio::io::split(stream);
    let mut reader = Reader { read, bytes: vec![0; READ_BYTES], decoder: Decoder::default(), unknown: 0 };
    let (out, queue) = mpsc::channel(OUT_MAX);
    let welcome = match greet(&mut reader, connection, fingerprint, from, Out(out), &heard).await {
        Ok(welcome) => welcome,
        Err(Refused::Turned(turned)) => {
            tracing::warn!(%from, reason = %turned.reason, "turned an agent away");
            last_words(&mut write, &ToAgent::Turned(turned)).await;
            return;
        }
        Err(Refused::Silent(why)) => {
            tracing::debug!(%from, %why, "no agent");
            return;
        }
    };
    let host = welcome.host.clone();
    let why = tokio::select! {
        why = listen(&mut reader, connection, &heard) => why,
        why = talk(&mut write, welcome, queue) => why,
    };
    tracing::info!(%host, %from, %why, "an agent's connection has ended");
    let _ = heard.send(Heard::Gone(connection, why)).await;
    let _ = timeout(LAST_TIME, write.shutdown()).await;
}

/// Why a connection is not served.
enum Refused {
    Turned(Turned),
    Silent(String),
}

async fn greet<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    connection: ConnectionId,
    fingerprint: Option<Fingerprint>,
    from: SocketAddr,
    out: Out,
    heard: &mpsc::Sender<Heard>,
) -> Result<Welcome, Refused> {
    let first = timeout(HELLO_TIME, reader.message()).await;
    let first = first.map_err(|_| Refused::Silent(format!("it said nothing for {} s", HELLO_TIME.as_secs())))?;
    let hello = match first.map_err(Refused::Silent)? {
        FromAgent::Hello(hello) => hello,
        other => return Err(Refused::Silent(format!("it began with {other:?}"))),
    };
    let Some(fingerprint) = fingerprint else {
        let reason = "the agent showed no certificate: update longhaul on this host".to_owned();
        return Err(Refused::Turned(Turned { reason, again: false }));
    };
    let (answer, answered) = oneshot::channel();
    let arrival = Arrival { connection, hello, fingerprint, from, out, answer };
    let stops = || {
        let reason = "the controller stops".to_owned();
        Refused::Turned(Turned { reason, again: true })
    };
    heard.send(Heard::Hello(Box::new(arrival))).await.map_err(|_| stops())?;
    answered.await.map_err(|_| stops())?.map_err(Refused::Turned)
}

async fn last_words<W: AsyncWrite + Unpin>(write: &mut W, message: &ToAgent) {
    let said = async {
        write.write_all(&encode(message).map_err(std::io::Error::other)?).await?;
        write.shutdown().await
    };
    let _ = timeout(LAST_TIME, said).await;
}

/// Reads until the connection ends; gives why.
async fn listen<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    connection: ConnectionId,
    heard: &mpsc::Sender<Heard>,
) -> String {
    loop {
        let message = match timeout(Duration::from_millis(SILENCE_MS), reader.message()).await {
            Ok(Ok(message)) => message,
            Ok(Err(why)) => return why,
            Err(_) => return format!("it was silent for {} s", SILENCE_MS / 1000),
        };
        let message = match message {
            FromAgent::Ping => continue,
            FromAgent::Hello(_) => return "it said hello twice".to_owned(),
            message => message,
        };
        if heard.send(Heard::Said(connection, Box::new(message))).await.is_err() {
            return "the controller stops".to_owned();
        }
    }
}

/// Writes until the connection ends; gives why.
async fn talk<W: AsyncWrite + Unpin>(write: &mut W, welcome: Welcome, mut queue: mpsc::Receiver<ToAgent>) -> String {
    let mut next = Some(ToAgent::Welcome(welcome));
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => match timeout_at(Instant::now() + Duration::from_millis(PING_MS), queue.recv()).await {
                Ok(Some(message)) => message,
                Ok(None) => return "the controller ended it".to_owned(),
                Err(_) => ToAgent::Ping,
            },
        };
        let frame = match encode(&message) {
            Ok(frame) => frame,
            Err(error) => return error.to_string(),
        };
        match timeout(Duration::from_millis(SILENCE_MS), write.write_all(&frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return format!("it took nothing for {} s", SILENCE_MS / 1000),
        }
        // What waits goes along; the end of the queue is the end of a burst.
        if queue.is_empty()
            && let Err(error) = write.flush().await
        {
            return error.to_string();
        }
    }
}

/// The reading half of a connection.
struct Reader<R> {
    read: R,
    bytes: Vec<u8>,
    decoder: Decoder,
    /// Messages in a row that were not known.
    unknown: u32,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// The next message of a known kind, or why there is none.
    async fn message(&mut self) -> Result<FromAgent, String> {
        loop {
            match self.decoder.next_message::<FromAgent>() {
                Ok(Some(Ok(message))) => {
                    self.unknown = 0;
                    return Ok(message);
                }
                Ok(Some(Err(error))) => {
                    tracing::debug!(%error, "skipped a message of an agent");
                    self.unknown += 1;
                    if self.unknown > UNKNOWN_MAX {
                        return Err("it says nothing that is known here".to_owned());
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error @ (FrameError::Long(_) | FrameError::Json(_))) => return Err(error.to_string()),
            }
            match self.read.read(&mut self.bytes).await {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => self.decoder.push(&self.bytes[..count]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
