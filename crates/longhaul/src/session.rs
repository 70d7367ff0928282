//! The control socket of a running copy or test: look at it, change it, stop it.
//!
//! Each session listens on `$XDG_RUNTIME_DIR/longhaul/<session-id>.sock` ([`place`]). A request is one line of
//! JSON, the answer too ([`wire`]); [`Control`] is the listening side, [`client`] the asking one.

pub(crate) mod client;
pub(crate) mod place;
pub(crate) mod wire;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use mover::event::{Event, Started};
use mover::request::Steer;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::args::value::{STREAMS_MAX, SetPoint};
use crate::output::{End, Exporter, note};
use place::Place;
use wire::{Reply, Request, Status};

/// Connections at once; a further one waits.
const CONNECTIONS_MAX: usize = 8;
/// Bytes of a request.
const REQUEST_BYTES_MAX: u64 = 4096;
/// How long a connection may take to ask.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the session may take to accept a change.
const STEER_TIME_MAX: Duration = Duration::from_secs(5);

/// The listening side, as one of the outputs: it learns from events what it answers with.
pub(crate) struct Control {
    place: Place,
    status: Arc<Mutex<Status>>,
    steer: mpsc::Sender<Steer>,
    listening: Option<Listening>,
}

struct Listening {
    socket: PathBuf,
    task: JoinHandle<()>,
}

impl Control {
    /// For a command that does `what`; it listens from the moment the session has an id.
    pub(crate) fn new(place: Place, status: Status, steer: mpsc::Sender<Steer>) -> Control {
        Control { place, status: Arc::new(Mutex::new(status)), steer, listening: None }
    }

    fn started(&mut self, started: &Started) -> Result<()> {
        lock(&self.status).session.clone_from(&started.session);
        let socket = self.place.socket(&started.session)?;
        match &mut self.listening {
            // After a reconnect the session may have another id; whoever knows the old one asks in vain.
            Some(listening) => {
                std::fs::rename(&listening.socket, &socket)
                    .with_context(|| format!("cannot move to {}", socket.display()))?;
                listening.socket = socket;
            }
            None => {
                self.place.make()?;
                let listener =
                    UnixListener::bind(&socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
                let task = tokio::spawn(listen(listener, self.status.clone(), self.steer.clone()));
                self.listening = Some(Listening { socket, task });
            }
        }
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.task.abort();
            // A socket that is left behind is found dead and removed by `session ls`.
            let _ = std::fs::remove_file(&listening.socket);
        }
    }
}

impl Exporter for Control {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Started(state) => {
                if let Err(error) = self.started(state) {
                    // The copy goes on; only `longhaul session` does not reach it.
                    note(&format!("this session cannot be changed while it runs: {}", crate::exit::one_line(&error)));
                }
            }
            Event::Progress(state) => lock(&self.status).progress(state),
            Event::Interval(state) => lock(&self.status).interval(state),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _end: &End<'_>) -> Result<()> {
        Ok(())
    }
}

fn lock(status: &Mutex<Status>) -> std::sync::MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(listener: UnixListener, status: Arc<Mutex<Status>>, steer: mpsc::Sender<Steer>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (status, steer) = (status.clone(), steer.clone());
                tokio::spawn(async move {
                    // A client that goes away or is too slow has nobody to be told.
                    let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(stream, &status, &steer)).await;
                    drop(slot);
                });
            }
            // Out of descriptors: later there may be some.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// One request, one answer.
async fn answer(mut stream: UnixStream, status: &Mutex<Status>, steer: &mpsc::Sender<Steer>) -> std::io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let reply = if peer == sys::process::euid() || peer == 0 {
        let mut line = String::new();
        BufReader::new((&mut stream).take(REQUEST_BYTES_MAX)).read_line(&mut line).await?;
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => handle(&request, status, steer).await,
            Err(error) => Reply::no(format!("this is no request: {error}")),
        }
    } else {
        Reply::no(format!("this session belongs to user {}", sys::process::euid()))
    };
    let line = serde_json::to_string(&reply).map_err(std::io::Error::other)? + "\n";
    stream.write_all(line.as_bytes()).await
}

async fn handle(request: &Request, status: &Mutex<Status>, steer: &mpsc::Sender<Steer>) -> Reply {
    let change = match request {
        Request::Status => return Reply::status(lock(status).clone()),
        Request::Rate { rate } => match rate.parse::<SetPoint>() {
            Ok(set_point) => Steer::Rate(set_point.bps()),
            Err(error) => return Reply::no(error.to_string()),
        },
        Request::Streams { n } if (1..=STREAMS_MAX).contains(n) => Steer::Streams(*n),
        Request::Streams { n } => {
            return Reply::no(format!("{n} streams: 1 to {STREAMS_MAX} are possible"));
        }
        Request::Stop => Steer::Stop,
    };
    match tokio::time::timeout(STEER_TIME_MAX, steer.send(change)).await {
        Ok(Ok(())) => {
            let mut status = lock(status);
            if let Steer::Rate(rate_bps) = change {
                status.set_point_bps = rate_bps;
            }
            Reply::status(status.clone())
        }
        Ok(Err(_)) => Reply::no("the session is ending".into()),
        Err(_) => Reply::no("the session does not take changes right now: try again".into()),
    }
}

#[cfg(test)]
mod tests;
