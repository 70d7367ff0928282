//! From a checked configuration to a running agent, and to its end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mover::request::{Fingerprint, Limits};
use mover::server::{Counters, Listener, ServeLimits, ServeOptions};
use tokio::sync::watch;
use units::Bytes;

use crate::config::{Config, DataAddress, Listen};
use crate::error::{AgentError, Cut};
use crate::identity;
use crate::metrics::{self, Metrics};
use crate::policy::{AgentPolicy, Terms};
use crate::ready::{Ready, ReadyFile};
use crate::stop::{Stop, asked};
use crate::tokens::TokenStore;

/// How long sessions may take to finish their chunks after a first signal. Shorter than the 30 s after which
/// the service manager kills (`TimeoutStopSec` of the unit).
pub const STOP_GRACE: Duration = Duration::from_secs(25);

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: u16 = 1024;

/// Runs an agent until it is asked to stop; see [`crate::signals`].
///
/// When this returns an error after [`Stop::Now`], threads of sessions may still be in a system call: end
/// the process.
///
/// # Errors
/// When it cannot start, its socket fails, or it was not given the time to finish.
pub async fn run(config: Config, stop: watch::Receiver<Stop>) -> Result<(), AgentError> {
    let mut ready = config.ready_file.as_deref().map(ReadyFile::prepare).transpose()?;
    let (identity, is_new) = identity::load_or_make(&config.state_dir, &sys::process::hostname())?;
    let tokens = TokenStore::open(&config.state_dir)?;
    let token = tokens.main_token()?;
    let fingerprint = Fingerprint::of(&identity.certificate);
    let (socket, bound) =
        bind(config.listen).map_err(|source| AgentError::Listen { address: config.listen.address, source })?;
    let counters = Arc::new(Counters::default());
    let metrics = config.metrics.map(|address| bind_metrics(address, &config, &counters)).transpose()?;
    announce(&config, &tokens, bound, fingerprint, is_new);
    if let Some(metrics) = &metrics {
        tracing::info!(address = %metrics.bound, "serving metrics");
    }
    let options = serve_options(&config, tokens, bound, counters);
    if let Some(ready) = &mut ready {
        ready.write(&Ready::new(bound, &token, fingerprint, metrics.as_ref().map(|m| m.bound)))?;
    }
    let served = tokio::select! {
        served = serve(Listener { socket, identity }, options, stop.clone()) => served,
        failed = serve_metrics(metrics, stop) => Err(failed),
    };
    drop(ready);
    tracing::info!("ended");
    served
}

/// Serves until asked to stop, and then as long as sessions need to finish, within [`STOP_GRACE`].
pub(crate) async fn serve(
    listener: Listener,
    options: ServeOptions,
    stop: watch::Receiver<Stop>,
) -> Result<(), AgentError> {
    let (finish, finishing) = watch::channel(false);
    tokio::select! {
        served = mover::serve(listener, options, finishing) => served.map_err(AgentError::Serve),
        why = finish_in_time(stop, finish) => Err(AgentError::Cut(why)),
    }
}

/// Passes the wish to stop on to the mover; ends only when the time to heed it is over.
pub(crate) async fn finish_in_time(mut stop: watch::Receiver<Stop>, finish: watch::Sender<bool>) -> Cut {
    asked(&mut stop, Stop::Finish).await;
    finish.send_replace(true);
    tokio::select! {
        () = asked(&mut stop, Stop::Now) => Cut::Asked,
        () = tokio::time::sleep(STOP_GRACE) => Cut::Late,
    }
}

/// Never ends unless it fails.
async fn serve_metrics(bound: Option<BoundMetrics>, stop: watch::Receiver<Stop>) -> AgentError {
    let Some(BoundMetrics { listener, bound, metrics }) = bound else {
        return std::future::pending().await;
    };
    match metrics::serve(listener, metrics, stop).await {
        Err(source) => AgentError::Metrics { address: bound, source },
        Ok(()) => std::future::pending().await,
    }
}

/// Listens; where nobody named an address and the kernel has no IPv6, at 0.0.0.0.
pub(crate) fn bind(listen: Listen) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = match bind_to(listen.address) {
        // A port that is taken is taken over IPv4 too. Any other failure at "all addresses" is a kernel or a
        // sandbox without IPv6, whose error differs.
        Err(e) if listen.by_default && e.kind() != io::ErrorKind::AddrInUse => {
            bind_to((Ipv4Addr::UNSPECIFIED, listen.address.port()).into())?
        }
        bound => bound?,
    };
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

fn bind_to(address: SocketAddr) -> io::Result<TcpListener> {
    // Not blocking; an IPv6 one takes IPv4 too.
    Ok(sys::socket::listen(address, BACKLOG, |_| Ok(()))?.into())
}

struct BoundMetrics {
    listener: tokio::net::TcpListener,
    bound: SocketAddr,
    metrics: Arc<Metrics>,
}

fn bind_metrics(address: SocketAddr, config: &Config, counters: &Arc<Counters>) -> Result<BoundMetrics, AgentError> {
    let open = || {
        let socket = bind_to(address)?;
        let bound = socket.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(socket)?;
        let metrics = Arc::new(Metrics::new(counters.clone(), config.bounds, SystemTime::now()));
        Ok(BoundMetrics { listener, bound, metrics })
    };
    open().map_err(|source| AgentError::Metrics { address, source })
}

fn announce(config: &Config, tokens: &TokenStore, bound: SocketAddr, fingerprint: Fingerprint, is_new: bool) {
    if is_new {
        tracing::info!(state_dir = %config.state_dir.display(), "first start: made key, certificate and access token");
    }
    tracing::info!(address = %bound, %fingerprint, token_file = %tokens.main_file().display(), version = env!("CARGO_PKG_VERSION"), "listening");
    for root in config.roots.iter() {
        tracing::info!(path = %root.written(), write = root.write(), "serving");
        if tokens.state_dir().beneath(root.path()).is_some() {
            tracing::warn!(
                root = %root.written(), state_dir = %tokens.state_dir(),
                "this root holds the agent's own keys: whoever has the main token can copy them with a directory above; serve a narrower root, or keep the state elsewhere (--state-dir)"
            );
        }
    }
    if config.roots.is_empty() {
        tracing::warn!("no root is served: only tests and relaying work");
    }
    warn_of_useless_tokens(config, tokens);
}

fn warn_of_useless_tokens(config: &Config, tokens: &TokenStore) {
    let is_served = |path: &crate::path::AbsPath| {
        config.roots.find(path).is_some() || config.roots.iter().any(|root| root.path().beneath(path).is_some())
    };
    for token in tokens.list().unwrap_or_default() {
        for path in token.scope.read.iter().chain(&token.scope.write).filter(|path| !is_served(path)) {
            tracing::warn!(token = %token.name, %path, "this token is for a directory beneath no root: it opens nothing");
        }
    }
}

fn serve_options(config: &Config, tokens: TokenStore, bound: SocketAddr, counters: Arc<Counters>) -> ServeOptions {
    let terms =
        Terms { roots: config.roots.clone(), tests: config.tests, relay: config.relay, hooks: config.hooks.clone() };
    let address =
        |DataAddress { ip, port }: &DataAddress| SocketAddr::new(*ip, port.unwrap_or(bound.port())).to_string();
    ServeOptions {
        policy: Arc::new(AgentPolicy::new(tokens, terms, SystemTime::now)),
        bounds: config.bounds,
        limits: limits(config.bounds, config.io),
        counters,
        addresses: config.addresses.iter().map(address).collect(),
    }
}

/// What a session may use: all that the agent has, if it is alone; the mover divides.
pub(crate) fn limits(bounds: ServeLimits, io: mover::request::IoChoice) -> Limits {
    Limits { memory: Bytes::new(bounds.memory_bytes), io, ..Limits::default() }
}
