//! Sessions: one run of the mover between two ends. Each end is a source, a destination, or one end of a
//! memory test; each is one task that drives a state machine of `proto` and the threads of the byte path.

mod addresses;
pub mod auto;
pub mod destination;
pub mod disks;
pub mod hooks;
pub mod lanes;
pub mod memory;
pub mod output;
pub mod receiving;
pub mod sending;
pub mod source;
pub mod streams;
pub mod tally;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::control::{Bye, Code, Control, Refusal, Settings, StorageIo, Telemetry};
use proto::hello::{SessionId, SessionKey};
use tokio::sync::{mpsc, watch};

use crate::control::attribution::{Limit, Shares};
use crate::event::{Event, Started};
use crate::link::{Link, LinkError};
use crate::numa::Placement;
use crate::request::Steer;

/// Between two looks at the sockets.
pub const TICK: Duration = Duration::from_millis(50);
/// Between two samples for people.
pub const SECOND: Duration = Duration::from_secs(1);
/// Between two pings.
pub const PING: Duration = Duration::from_secs(5);
/// How long closing may take.
pub const CLOSE: Duration = Duration::from_secs(5);
/// How long parcels in flight may take to land when a session stops.
pub const DRAIN: Duration = Duration::from_secs(10);
/// News from threads waiting for the session's task.
pub const NEWS_MAX: usize = 1024;

/// Changes while a command runs; it outlives the sessions that the command needs.
#[derive(Clone)]
pub struct Steering {
    changes: Arc<tokio::sync::Mutex<mpsc::Receiver<Steer>>>,
    /// The last set point that was asked for, if any was.
    rate: Arc<Mutex<Option<Option<u64>>>>,
    /// A stop was asked for.
    is_stopped: Arc<AtomicBool>,
}

impl Steering {
    /// Steers by what comes out of a channel.
    #[must_use]
    pub fn new(changes: mpsc::Receiver<Steer>) -> Steering {
        Steering {
            changes: Arc::new(tokio::sync::Mutex::new(changes)),
            rate: Arc::default(),
            is_stopped: Arc::default(),
        }
    }

    /// The last set point that was asked for, b/s of IP packets, `None` in it for no limit; `None` if none was.
    #[must_use]
    pub fn rate(&self) -> Option<Option<u64>> {
        *self.rate.lock().expect("nobody panics with it")
    }

    /// A stop was asked for: no further session is to be begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) async fn next(&self) -> Option<Steer> {
        let change = self.changes.lock().await.recv().await;
        match change {
            Some(Steer::Rate(rate)) => *self.rate.lock().expect("nobody panics with it") = Some(rate),
            Some(Steer::Stop) => self.is_stopped.store(true, Ordering::Relaxed),
            Some(Steer::Streams(_) | Steer::Path { .. }) | None => {}
        }
        change
    }
}

/// Why a session ended before its work was done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The control connection.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// No stream can be opened any more.
    #[error("no data stream can be opened: {0}")]
    Streams(String),
    /// The operating system at this end.
    #[error("{doing}")]
    Os {
        /// What was tried.
        doing: String,
        /// Why not.
        #[source]
        error: std::io::Error,
    },
    /// Something that cannot be overcome: a full disk, say.
    #[error("{0}")]
    Fatal(String),
    /// This end was told to stop.
    #[error("stopped; the same command continues where it was")]
    Stopped,
    /// The destination is in use.
    #[error("{0}")]
    Busy(String),
    /// The other end gave up.
    #[error("the other end gave up: {}", .0.text)]
    Abandoned(Refusal),
}

impl SessionError {
    /// For the other end.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let code = match self {
            SessionError::Stopped => Code::Stopping,
            SessionError::Busy(_) => Code::Busy,
            SessionError::Link(LinkError::Protocol(_)) => Code::Protocol,
            _ => Code::Failed,
        };
        Refusal { code, text: chain(self) }
    }

    /// True if trying again may help: the network failed, not the work.
    #[must_use]
    pub fn is_network(&self) -> bool {
        match self {
            SessionError::Link(LinkError::Lost(_) | LinkError::Silent(_)) | SessionError::Streams(_) => true,
            SessionError::Link(LinkError::Refused(r)) | SessionError::Abandoned(r) => r.code == Code::Stopping,
            _ => false,
        }
    }
}

/// An error with its causes on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// What every session is given.
pub struct Context {
    /// The control connection, authenticated and opened.
    pub link: Link,
    /// The session.
    pub session: SessionId,
    /// Its key.
    pub key: SessionKey,
    /// What is in force.
    pub settings: Settings,
    /// Greatest set point that the agent of the session allows, b/s of IP packets.
    pub rate_max_bps: Option<u64>,
    /// Round trip of the control connection, where this end opened it.
    pub rtt: Option<Duration>,
    /// How streams come.
    pub ways: streams::Ways,
    /// Where its threads run and its frames lie.
    pub placement: Placement,
    /// Data streams at most at this end (its budget).
    pub streams_max: u16,
    /// True if the number of streams is to be found.
    pub auto_streams: bool,
    /// Memory for buffers, bytes: at least [`crate::frame::FRAMES_MIN`] chunks.
    pub memory_bytes: u64,
    /// Bounds of this end.
    pub limits: crate::request::Limits,
    /// True at the end that was asked by the user.
    pub driver: bool,
    /// Where events go.
    pub events: Option<mpsc::Sender<Event>>,
    /// What is told of the session once its first stream is set up.
    pub started: Option<Started>,
    /// Changes while it runs.
    pub steer: Option<Steering>,
    /// Turns true when this end is to stop.
    pub stop: watch::Receiver<bool>,
    /// Numbers of the agent.
    pub counters: std::sync::Arc<crate::server::Counters>,
    /// Programs run at this end.
    pub programs: crate::hook::Programs,
}

impl Context {
    /// Takes the context, leaving one of no use.
    #[must_use]
    pub fn take(&mut self) -> Context {
        let (_, stop) = watch::channel(true);
        Context {
            link: std::mem::replace(&mut self.link, Link::closed()),
            session: self.session,
            key: self.key.clone(),
            settings: self.settings.clone(),
            rate_max_bps: self.rate_max_bps,
            rtt: self.rtt,
            ways: std::mem::replace(&mut self.ways, streams::Ways::nowhere()),
            placement: self.placement.clone(),
            streams_max: self.streams_max,
            auto_streams: self.auto_streams,
            memory_bytes: self.memory_bytes,
            limits: self.limits.clone(),
            driver: self.driver,
            events: self.events.take(),
            started: self.started.take(),
            steer: self.steer.take(),
            stop: std::mem::replace(&mut self.stop, stop),
            counters: self.counters.clone(),
            programs: self.programs.clone(),
        }
    }
}

/// The control connection with its clock.
pub struct Wire {
    /// The link.
    pub link: Link,
    /// Last telemetry of the other end,
    pub peer: Telemetry,
    /// and the one before it.
    pub peer_before: Telemetry,
    /// What limited the other end, by what it told.
    pub limits: Shares,
    told: Instant,
    heard: Instant,
    pinged: Instant,
    timeout: Duration,
    /// The session's begin.
    pub begin: Instant,
}

impl Wire {
    /// Takes over the link of a session.
    #[must_use]
    pub fn of(context: &mut Context) -> Wire {
        Wire::new(std::mem::replace(&mut context.link, Link::closed()), context.limits.timeout)
    }

    /// Takes over a link.
    #[must_use]
    pub fn new(link: Link, timeout: Duration) -> Wire {
        let now = Instant::now();
        Wire {
            link,
            peer: Telemetry::default(),
            peer_before: Telemetry::default(),
            limits: Shares::default(),
            told: now,
            heard: now,
            pinged: now,
            timeout,
            begin: now,
        }
    }

    /// Notes that something was heard; answers pings, keeps telemetry. Gives what is left to the role.
    pub async fn hear(&mut self, message: Control) -> Option<Control> {
        self.heard = Instant::now();
        match message {
            Control::Ping(n) => self.link.send(Control::Pong(n)).await,
            Control::Pong(_) => {}
            Control::Telemetry(telemetry) => {
                // By our own clock: what the other end says of the time is not trusted.
                let span = self.heard - std::mem::replace(&mut self.told, self.heard);
                self.limits.add(Limit::of_code(telemetry.limit), span);
                self.peer_before = std::mem::replace(&mut self.peer, telemetry);
            }
            other => return Some(other),
        }
        None
    }

    /// Says what there is to say at the end: the last numbers, and how it ended.
    pub async fn say_goodbye(&self, last: Telemetry, result: &Result<(), SessionError>) {
        self.link.send(Control::Telemetry(last)).await;
        let bye = match result {
            Ok(()) => Bye::Done,
            Err(error) => Bye::Abandoned(error.refusal()),
        };
        self.link.send(Control::Bye(bye)).await;
    }

    /// What the other end still has to say, its goodbye too; `None` when it has said nothing for too long, or cannot any more. Its last
    /// numbers are kept.
    pub async fn until_goodbye(&mut self) -> Option<Control> {
        loop {
            let message = tokio::time::timeout(CLOSE, self.link.recv()).await;
            if let Some(message) = self.hear(message.ok()?.ok()?).await {
                return Some(message);
            }
        }
    }

    /// Keeps the connection alive and notices when it is dead.
    ///
    /// # Errors
    /// When nothing was heard for too long.
    pub async fn tick(&mut self, now: Instant) -> Result<(), SessionError> {
        if now.duration_since(self.heard) > self.timeout {
            return Err(LinkError::Silent(self.timeout).into());
        }
        if now.duration_since(self.pinged) > PING && self.link.has_room() {
            self.pinged = now;
            self.link.send(Control::Ping(now.duration_since(self.begin).as_micros() as u64)).await;
        }
        Ok(())
    }
}

/// Sleeps until the steering end says something; for ever if there is none.
pub async fn steered(steer: &mut Option<Steering>) -> Steer {
    if let Some(steering) = steer {
        if let Some(change) = steering.next().await {
            return change;
        }
        *steer = None;
    }
    std::future::pending().await
}

/// Sleeps until this end is told to stop.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone will never say stop.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What these rings move chunks with.
#[must_use]
pub fn storage_io(rings: &[sys::ring::Ring]) -> StorageIo {
    if rings.iter().all(sys::ring::Ring::is_asynchronous) { StorageIo::IoUring } else { StorageIo::Posix }
}

/// What an end moves data with that has these for its disks; memory if it has none.
#[must_use]
pub fn io_of_all(disks: impl Iterator<Item = StorageIo>) -> StorageIo {
    disks.reduce(|all, one| if all == one { all } else { StorageIo::Mixed }).unwrap_or(StorageIo::Memory)
}

/// CPU time of this process so far, µs.
#[must_use]
pub fn cpu_us() -> u64 {
    sys::cpu::process_time().map_or(0, |t| t.total().as_micros() as u64)
}
