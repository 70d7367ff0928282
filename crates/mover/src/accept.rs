//! The accepting port: tells control connections from data streams by their first byte, and lets in who
//! proves to belong.

mod places;

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::attach::Attach;
use proto::control::{Code, Control, Hello, Refusal, Settings};
use proto::hello::{Announced, HELLO, SessionId, SessionKey, announced, refusal, status};
use proto::limits::FRAME_MAX_UNAUTHENTICATED;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{MutexGuard, Notify, Semaphore, mpsc, watch};
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::link::lasting::Arrival;
use crate::link::{self, LinkError};
use crate::net::Opened;
use crate::net::open;
use crate::server::{Counters, Listener, Port};
use crate::tls;

use places::Places;

/// How long a connection may take to prove itself.
const PROVE: Duration = Duration::from_secs(10);
/// How long a data stream may be here before its session. It sets out with what asks for that, and an agent may have to look at a few
/// things before it answers; who has the session refused, or waits longer for it, opens its streams later.
const EARLY: Duration = Duration::from_secs(2);
/// First byte of a TLS record that carries a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Authenticated control connections waiting for their session.
pub const CONTROLS_MAX: usize = 64;
/// Connections on which nothing was said yet, or whose session is not open yet, for each place in the handshakes: over a far path a driver
/// opens several ahead.
const SILENT_PER_HANDSHAKE: usize = 4;
/// Connections waiting to take up one session: a later one makes those before it void.
const ATTACHES_MAX: usize = 4;

/// A control connection that has said hello.
pub struct Controller {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// What it said.
    pub hello: Hello,
    /// Where it comes from.
    pub from: SocketAddr,
}

/// Where connections of a session go.
struct Door {
    key: SessionKey,
    settings: Settings,
    arrive: mpsc::Sender<Opened>,
    seen: HashSet<u16>,
    left: usize,
    attach: mpsc::Sender<Arrival>,
    /// The latest attempt to take the session up.
    attempt: u32,
}

/// What comes in by a session's door.
pub(crate) struct Arrivals {
    /// Data streams.
    pub(crate) streams: mpsc::Receiver<Opened>,
    /// Control connections that take the session up.
    pub(crate) controls: mpsc::Receiver<Arrival>,
}

/// What an accepting port shares with its sessions.
pub struct Hub {
    doors: Mutex<HashMap<SessionId, Door>>,
    /// A door was opened.
    opened: Notify,
    /// Connections on which nothing was said yet, or whose session is not open yet.
    silent: Places,
    handshakes: Places,
    /// Data streams that may still be opened.
    streams: Arc<Semaphore>,
    counters: Arc<Counters>,
}

/// A session's door; closed when it is dropped.
pub struct DoorKeeper {
    hub: Arc<Hub>,
    session: SessionId,
}

impl Drop for DoorKeeper {
    fn drop(&mut self) {
        self.hub.doors.lock().expect("no panic under the lock").remove(&self.session);
    }
}

impl Hub {
    /// A hub that lets in so many handshakes and streams at once, and several connections that say nothing yet for each
    /// handshake.
    #[must_use]
    pub fn new(handshakes: usize, streams: usize, counters: Arc<Counters>) -> Arc<Hub> {
        let streams = Arc::new(Semaphore::new(streams));
        let silent = Places::new(handshakes.saturating_mul(SILENT_PER_HANDSHAKE));
        Arc::new(Hub {
            doors: Mutex::default(),
            opened: Notify::new(),
            silent,
            handshakes: Places::new(handshakes),
            streams,
            counters,
        })
    }

    /// Data streams that may still be opened.
    #[must_use]
    pub fn streams_left(&self) -> usize {
        self.streams.available_permits()
    }

    /// Takes streams that this end will open itself out of the budget, while the answer is kept.
    pub(crate) fn reserve(&self, streams: u16) -> Option<tokio::sync::OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_many_owned(u32::from(streams)).ok()
    }

    /// Waits for what a connection does while that has one of the places; `None` if another one was given its place. A connection too many
    /// is counted and not logged: there may be many.
    async fn placed<T>(&self, places: &Places, work: impl Future<Output = T>) -> Option<T> {
        let mut place = places.take();
        tokio::select! {
            done = work => Some(done),
            () = place.lost() => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Waits until a session is open.
    async fn until_open(&self, session: &SessionId) {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            // A door that is opened between the look and the wait is noticed, too.
            opened.as_mut().enable();
            if self.doors.lock().expect("no panic under the lock").contains_key(session) {
                return;
            }
            opened.await;
        }
    }

    /// Opens the door for a session's streams and further control connections; `None` if there is one of this number.
    pub(crate) fn door(
        self: &Arc<Hub>,
        session: SessionId,
        key: SessionKey,
        settings: &Settings,
    ) -> Option<(Arrivals, DoorKeeper)> {
        let (arrive, streams) = mpsc::channel(usize::from(settings.streams_max).clamp(1, 64));
        let (attach, controls) = mpsc::channel(ATTACHES_MAX);
        let left = usize::from(u16::MAX);
        let settings = settings.clone();
        let door = Door { key, settings, arrive, seen: HashSet::new(), left, attach, attempt: 0 };
        match self.doors.lock().expect("no panic under the lock").entry(session) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => _ = place.insert(door),
        }
        self.opened.notify_waiters();
        Some((Arrivals { streams, controls }, DoorKeeper { hub: self.clone(), session }))
    }

    /// Lets in a control connection that takes a session up, if it proves the session's key; an attempt that was overtaken
    /// on the way does not push a later one aside.
    fn attach(&self, stream: TlsStream<TcpStream>, attach: Attach) -> Result<(), Box<TlsStream<TcpStream>>> {
        let Ok(binding) = crate::tls::binding(&stream, &attach.session) else { return Err(Box::new(stream)) };
        let mut doors = self.doors.lock().expect("no panic under the lock");
        let Some(door) = doors.get_mut(&attach.session) else { return Err(Box::new(stream)) };
        if attach.verify(&door.key, &binding).is_err() || attach.attempt <= door.attempt {
            return Err(Box::new(stream));
        }
        door.attempt = attach.attempt;
        // One that finds no place is closed, and comes again.
        let _ = door.attach.try_send(Arrival { stream: Box::new(stream), attach, binding });
        Ok(())
    }

    /// Finds the door of a stream that announces itself; a number is good once, so a stream cannot be played
    /// back or pushed aside.
    fn enter(&self, session: &SessionId, stream: u16) -> Option<(SessionKey, Settings, mpsc::Sender<Opened>)> {
        let mut doors = self.doors.lock().expect("no panic under the lock");
        let door = doors.get_mut(session)?;
        if door.left == 0 || door.seen.contains(&stream) {
            return None;
        }
        Some((door.key.clone(), door.settings.clone(), door.arrive.clone()))
    }

    /// Marks a stream's number as used, once it has proved itself.
    fn used(&self, session: &SessionId, stream: u16) -> bool {
        let mut doors = self.doors.lock().expect("no panic under the lock");
        doors.get_mut(session).is_some_and(|door| {
            door.left = door.left.saturating_sub(1);
            door.seen.insert(stream)
        })
    }
}

/// Accepts until `stop` turns true; control connections go to `controls`.
///
/// # Errors
/// When the socket is of no use.
pub async fn accept_all(
    listener: &Listener,
    hub: Arc<Hub>,
    controls: mpsc::Sender<Controller>,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let config = tls::server(&listener.identity, &[tls::ALPN], tls::AskClient::No).map_err(std::io::Error::other)?;
    let acceptor = TlsAcceptor::from(config);
    let mut source = Source::of(&listener.port).await?;
    loop {
        let accepted = tokio::select! {
            accepted = source.next() => accepted,
            () = crate::session::stopped(&mut stop) => return Ok(()),
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: neither ends the service.
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (hub, acceptor, controls) = (hub.clone(), acceptor.clone(), controls.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(PROVE, prove(stream, from, &hub, acceptor, controls)).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => {
                    hub.counters.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(%from, why, "connection refused");
                }
                Err(_) => {
                    hub.counters.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(%from, "connection took too long to prove itself");
                }
            }
        });
    }
}

/// Takes connections from a [`Port`]; a door's is one task's at a time.
enum Source<'a> {
    Own(tokio::net::TcpListener),
    Door(MutexGuard<'a, mpsc::Receiver<std::net::TcpStream>>),
}

impl Source<'_> {
    async fn of(port: &Port) -> std::io::Result<Source<'_>> {
        Ok(match port {
            Port::Own(socket) => {
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                Source::Own(tokio::net::TcpListener::from_std(socket)?)
            }
            Port::Door(handed) => Source::Door(handed.lock().await),
        })
    }

    async fn next(&mut self) -> std::io::Result<(TcpStream, SocketAddr)> {
        match self {
            Source::Own(socket) => socket.accept().await,
            Source::Door(handed) => match handed.recv().await {
                Some(stream) => {
                    stream.set_nonblocking(true)?;
                    let from = stream.peer_addr()?;
                    Ok((TcpStream::from_std(stream)?, from))
                }
                // Nobody hands anything over any more: whoever did ends this task, too.
                None => std::future::pending().await,
            },
        }
    }
}

/// Lets a connection prove itself while it has a place.
async fn prove(
    stream: TcpStream,
    from: SocketAddr,
    hub: &Arc<Hub>,
    acceptor: TlsAcceptor,
    controls: mpsc::Sender<Controller>,
) -> Result<(), String> {
    let mut first = [0];
    match hub.placed(&hub.silent, stream.peek(&mut first)).await {
        // It was made ahead, or to see which of several addresses answers first.
        None | Some(Ok(0)) => return Ok(()),
        Some(said) => said.map_err(|e| e.to_string())?,
    };
    if first[0] == TLS_HANDSHAKE {
        let shaken = hub.placed(&hub.handshakes, shake_hands(stream, from, hub, acceptor, controls)).await;
        return shaken.unwrap_or(Ok(()));
    }
    data_stream(stream, hub).await
}

async fn shake_hands(
    stream: TcpStream,
    from: SocketAddr,
    hub: &Arc<Hub>,
    acceptor: TlsAcceptor,
    controls: mpsc::Sender<Controller>,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    crate::net::open::try_again_soon(stream.as_fd());
    let tls = acceptor.accept(stream).await.map_err(|e| format!("TLS: {e}"))?;
    let mut tls = TlsStream::Server(tls);
    match link::read(&mut tls, FRAME_MAX_UNAUTHENTICATED).await {
        Ok(Control::Attach(attach)) => match hub.attach(tls, attach) {
            Ok(()) => Ok(()),
            Err(mut tls) => {
                let why = "no session that is open is named, or its key is not proved".to_owned();
                let refused = Control::Refused(Refusal { code: Code::Failed, text: why.clone() });
                link::write(&mut *tls, &refused).await.map_err(|e: LinkError| crate::session::chain(&e))?;
                let _ = tls.shutdown().await;
                Err(why)
            }
        },
        Ok(Control::Hello(hello)) => controls
            .try_send(Controller { stream: tls, hello, from })
            .map_err(|_| "too many connections wait for a session".to_owned()),
        Ok(_) => Err("it neither said hello nor named a session".to_owned()),
        Err(error) => Err(crate::session::chain(&error)),
    }
}

/// Reads the first message of a data stream, waits for its session if that is still asked for, and hands it over.
async fn data_stream(mut stream: TcpStream, hub: &Arc<Hub>) -> Result<(), String> {
    let mut hello = [0; HELLO];
    match hub.placed(&hub.handshakes, stream.read_exact(&mut hello)).await {
        None => return Ok(()),
        Some(read) => read.map_err(|e| e.to_string())?,
    };
    let said = announced(&hello).map_err(|e| e.to_string())?;
    let mut more = [0];
    let is_awaited = async {
        tokio::select! {
            biased;
            () = hub.until_open(&said.session) => Ok(true),
            () = tokio::time::sleep(EARLY) => Ok(true),
            more = stream.peek(&mut more) => match more {
                // It is not needed: the session was refused, say.
                Ok(0) => Ok(false),
                Ok(_) => Err("a data stream goes on before it is answered".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    };
    if !hub.placed(&hub.silent, is_awaited).await.unwrap_or(Ok(false))? {
        return Ok(());
    }
    let forwarded = hub.placed(&hub.handshakes, forward(stream, &hello, said, hub)).await;
    forwarded.unwrap_or(Ok(()))
}

async fn forward(
    mut stream: TcpStream,
    hello: &[u8; HELLO],
    Announced { session, stream: id }: Announced,
    hub: &Arc<Hub>,
) -> Result<(), String> {
    let Some((key, settings, arrive)) = hub.enter(&session, id) else {
        let _ = stream.write_all(&refusal(status::NO_SESSION)).await;
        return Err("a data stream names no session that is open, or a number that was used".to_owned());
    };
    let Ok(permit) = hub.streams.clone().try_acquire_owned() else {
        let _ = stream.write_all(&refusal(status::FULL)).await;
        return Err("no data stream is left in the budget".to_owned());
    };
    let mut opened = open::accept(stream, *hello, key, id, &settings).await.map_err(|e| crate::session::chain(&e))?;
    if !hub.used(&session, id) {
        return Err("the number of a data stream was used before".to_owned());
    }
    opened.permit = Some(Permit::new(permit, hub.counters.clone()));
    arrive.send(opened).await.map_err(|_| "the session has ended".to_owned())
}

/// A place in the budget of streams, given back when the stream is gone.
#[derive(Debug)]
pub struct Permit {
    _permit: tokio::sync::OwnedSemaphorePermit,
    counters: Arc<Counters>,
}

impl Permit {
    fn new(permit: tokio::sync::OwnedSemaphorePermit, counters: Arc<Counters>) -> Permit {
        counters.streams_active.fetch_add(1, Ordering::Relaxed);
        Permit { _permit: permit, counters }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let active: &AtomicU64 = &self.counters.streams_active;
        active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
