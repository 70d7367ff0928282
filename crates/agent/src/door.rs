//! The door: one port in front of several agents, which run as different users.
//!
//! It looks at the first bytes of each connection without taking them ([`proto::instance`]) and hands the socket to the **instance** that is
//! meant (`backend`); probes go through it both ways (`probes`). It has no key, no token, and reads no file but its configuration.
//!
//! ```text
//!  port ─▶ look at the first bytes ─▶ find ─▶ backend ═▶ instance's socket ─▶ behind ─▶ mover::serve
//!  UDP  ◀▶ probes ◀═════════════════════════▶ backend
//! ```

mod backend;
pub mod config;
mod look;
mod probes;
mod tally;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use proto::instance::Meant;
use serde::Serialize;
use service::ready::reachable;
use service::stop::{Stop, asked};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub(crate) use self::backend::Backend;
use self::backend::Refused;
use self::config::Config;
use self::probes::Probes;
pub(crate) use self::tally::Tally;
use crate::error::AgentError;
use crate::metrics::Metrics;
use crate::run::{bind_metrics, prepare, serve_metrics};

/// How long a connection may take to say whom it means; also how long the last ones have when the door is stopped.
pub const LOOK: Duration = Duration::from_secs(10);
/// After an error of accepting, such as no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// The first descriptor that a service manager hands over (sd_listen_fds(3)).
const FIRST_INHERITED: i32 = 3;

/// What the ready file of a door says.
#[derive(Debug, Serialize)]
struct Ready {
    /// `ip:port` that a client on this host can connect to.
    address: String,
    /// `ip:port` of metrics, if they are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
}

/// Runs a door until it is asked to stop.
///
/// # Errors
/// When it cannot start, or its socket fails.
pub async fn run(config: Config, stop: watch::Receiver<Stop>) -> Result<(), AgentError> {
    let mut ready = config.ready_file.as_deref().map(prepare).transpose()?;
    let (listener, bound) = listen(&config)?;
    let tally = Arc::new(Tally::default());
    let backends: Arc<[Arc<Backend>]> =
        config.instances.iter().map(|one| Arc::new(Backend::new(one.clone()))).collect();
    let probes = Arc::new(Probes::new(bound.port(), backends.clone(), tally.clone()));
    let metrics = Metrics::of_door(tally.clone(), backends.clone(), SystemTime::now());
    let metrics = config.metrics.map(|address| bind_metrics(address, metrics)).transpose()?;
    let mut keeping = JoinSet::new();
    for (number, backend) in backends.iter().enumerate() {
        // Those that are there are known before the first connection comes.
        backend.try_connect();
        keeping.spawn(backend.clone().keep(number, probes.clone()));
    }
    tracing::info!(address = %bound, instances = backends.len(), version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(ready) = &mut ready {
        let metrics = metrics.as_ref().map(|metrics| reachable(metrics.bound).to_string());
        let content = Ready { address: reachable(bound).to_string(), metrics };
        ready.write(&content).map_err(|source| AgentError::Ready { path: ready.path().to_owned(), source })?;
    }
    let places = Arc::new(Semaphore::new(config.connections));
    let front = Arc::new(Front { backends, default: config.default, tally });
    let mut looking = JoinSet::new();
    let mut stopping = stop.clone();
    let result = tokio::select! {
        failed = accept(&listener, &front, &places, &mut looking) => Err(failed),
        () = asked(&mut stopping, Stop::Finish) => Ok(()),
        failed = serve_metrics(metrics, stop) => Err(failed),
    };
    drop(listener);
    tokio::select! {
        _ = tokio::time::timeout(LOOK, async { while looking.join_next().await.is_some() {} }) => {}
        () = asked(&mut stopping, Stop::Now) => {}
    }
    tracing::info!("ended");
    result
}

/// The port: that of the service manager, if it has it.
fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), AgentError> {
    let address = config.listen.address;
    let failed = |source| AgentError::Listen { address, source };
    let (socket, bound) = if config.is_inherited {
        let system = |source| AgentError::System { what: "take the port that the service manager has", source };
        let socket = std::net::TcpListener::from(sys::socket::inherited_listener(FIRST_INHERITED).map_err(system)?);
        let bound = socket.local_addr().map_err(system)?;
        (socket, bound)
    } else {
        service::listen::bind(config.listen).map_err(failed)?
    };
    Ok((TcpListener::from_std(socket).map_err(failed)?, bound))
}

/// Accepts for ever.
async fn accept(
    listener: &TcpListener,
    front: &Arc<Front>,
    places: &Arc<Semaphore>,
    looking: &mut JoinSet<()>,
) -> AgentError {
    loop {
        while looking.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: neither ends the service.
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        front.tally.accepted.fetch_add(1, Ordering::Relaxed);
        let Ok(place) = places.clone().try_acquire_owned() else {
            front.tally.no_place.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let front = front.clone();
        looking.spawn(async move {
            front.pass(stream, from).await;
            drop(place);
        });
    }
}

/// What all connections share.
struct Front {
    backends: Arc<[Arc<Backend>]>,
    default: Option<usize>,
    tally: Arc<Tally>,
}

impl Front {
    /// Hands a connection to whom it means, or closes it.
    async fn pass(&self, stream: TcpStream, from: SocketAddr) {
        let tally = &self.tally;
        let (counter, why) = match tokio::time::timeout(LOOK, look::look(&stream)).await {
            // It was closed: it was made ahead, or to see which of several addresses answers first.
            Ok(Ok(None) | Err(_)) => (&tally.silent, "it ended before it said whom it means"),
            Err(_) => (&tally.silent, "it took too long to say whom it means"),
            Ok(Ok(Some(meant))) => match self.find(meant) {
                None if meant == Meant::Nothing => (&tally.unreadable, "it begins as nothing of ours does"),
                None => (&tally.nobody, "it means no instance of this door"),
                Some(backend) => match backend.hand(stream) {
                    Ok(()) => return tracing::debug!(%from, instance = backend.name(), "handed over"),
                    Err(Refused::Away) => (&tally.away, "the instance that it means is away"),
                    Err(Refused::Full) => (&tally.full, "the instance that it means takes no more"),
                },
            },
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%from, why, "closed a connection");
    }

    fn find(&self, meant: Meant) -> Option<&Arc<Backend>> {
        let named = match meant {
            Meant::Name(name) => self.backends.iter().find(|one| one.fingerprint().starts_with(&name)),
            Meant::Tag(tag) => self.backends.iter().find(|one| one.fingerprint().starts_with(&tag)),
            Meant::Anybody => None,
            Meant::Nothing | Meant::More => return None,
        };
        named.or_else(|| self.default.and_then(|at| self.backends.get(at)))
    }
}
