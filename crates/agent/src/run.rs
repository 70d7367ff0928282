//! From a checked configuration to a running agent, and to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mover::request::{Fingerprint, Limits};
use mover::server::{Counters, Identity, Listener, Port, ServeLimits, ServeOptions};
use service::listen::{bind, bind_to};
use service::stop::{Stop, asked};
use service::{IdentityError, PrivateDir, ReadyFile};
use tokio::sync::watch;
use units::Bytes;

use crate::behind::{self, Behind, DoorProbes};
use crate::config::{Config, DataAddress};
use crate::controller::inventory::Fixed;
use crate::controller::{self, Site};
use crate::error::{AgentError, Cut};
use crate::metrics::{self, Metrics};
use crate::policy::{AgentPolicy, Terms};
use crate::ready::Ready;
use crate::tokens::TokenStore;

/// How long sessions may take to finish their chunks after a first signal. Shorter than the 30 s after which
/// the service manager kills (`TimeoutStopSec` of the unit).
pub const STOP_GRACE: Duration = Duration::from_secs(25);

/// The way out when the state directory cannot be used.
pub(crate) const ELSEWHERE: &str = "choose another place with --state-dir";

/// Runs an agent until it is asked to stop; see [`crate::signals`].
///
/// When this returns an error after [`Stop::Now`], threads of sessions may still be in a system call: end
/// the process.
///
/// # Errors
/// When it cannot start, its socket fails, or it was not given the time to finish.
pub async fn run(config: Config, stop: watch::Receiver<Stop>) -> Result<(), AgentError> {
    let mut ready = config.ready_file.as_deref().map(prepare).transpose()?;
    let dir = PrivateDir::open(&config.state_dir, ELSEWHERE).map_err(IdentityError::State)?;
    let (identity, is_new) = service::load_or_make(&dir, &sys::process::hostname())?;
    let tokens = TokenStore::open(&config.state_dir)?;
    let token = tokens.main_token()?;
    let fingerprint = Fingerprint::of(&identity.certificate);
    let (port, bound, behind) = port(&config)?;
    let counters = Arc::new(Counters::default());
    let site = site(&config, &identity, bound, &counters, behind.as_ref().map(Behind::probes))?;
    let metrics = Metrics::new(counters.clone(), config.bounds, SystemTime::now());
    let metrics = match &site {
        Some(site) => metrics.with_controller(site.tally()),
        None => metrics,
    };
    let metrics = config.metrics.map(|address| bind_metrics(address, metrics)).transpose()?;
    announce(&config, &tokens, bound, fingerprint, is_new);
    if let Some(metrics) = &metrics {
        tracing::info!(address = %metrics.bound, "serving metrics");
    }
    // Taken away again when this function ends.
    let _asked_here = site.as_ref().and_then(|site| host_socket(site, &config));
    let _probing = site
        .as_ref()
        .map(Site::probe)
        .transpose()
        .map_err(|source| AgentError::System { what: "start the thread that asks over paths", source })?;
    let options = serve_options(&config, tokens, bound, counters, site.as_ref());
    if let Some(ready) = &mut ready {
        let content = Ready::new(bound, &token, fingerprint, metrics.as_ref().map(|m| m.bound));
        ready.write(&content).map_err(|source| AgentError::Ready { path: ready.path().to_owned(), source })?;
    }
    let served = tokio::select! {
        served = serve_both(Listener { port, identity }, options, site, stop.clone()) => served,
        failed = serve_metrics(metrics, stop) => Err(failed),
        never = listen_to_door(behind) => match never {},
    };
    drop(ready);
    tracing::info!("ended");
    served
}

/// The port, or the share of one behind a door; where others connect to; and the socket of the door.
fn port(config: &Config) -> Result<(Port, SocketAddr, Option<Behind>), AgentError> {
    match &config.door {
        None => {
            let address = config.listen.address;
            let (socket, bound) = bind(config.listen).map_err(|source| AgentError::Listen { address, source })?;
            Ok((Port::Own(socket), bound, None))
        }
        Some(door) => {
            let listened = behind::listen(door);
            let (behind, handed) = listened.map_err(|source| AgentError::Door { path: door.socket.clone(), source })?;
            Ok((Port::Door(tokio::sync::Mutex::new(handed)), config.listen.address, Some(behind)))
        }
    }
}

/// Takes what a door hands over, if there is one, until nobody wants it; ends never.
async fn listen_to_door(behind: Option<Behind>) -> Infallible {
    if let Some(behind) = behind {
        behind.run().await;
    }
    std::future::pending().await
}

pub(crate) fn prepare(path: &std::path::Path) -> Result<ReadyFile, AgentError> {
    ReadyFile::prepare(path).map_err(|source| AgentError::Ready { path: path.to_owned(), source })
}

/// The agent's side of its controller, if it has one.
fn site(
    config: &Config,
    identity: &Identity,
    bound: SocketAddr,
    counters: &Arc<Counters>,
    door: Option<Arc<DoorProbes>>,
) -> Result<Option<Arc<Site>>, AgentError> {
    let Some(address) = config.controller.clone() else { return Ok(None) };
    let (_, bounds) = controller::halves(config.bounds);
    let fixed = Fixed {
        bound,
        addresses: config.addresses.clone(),
        fingerprint: Fingerprint::of(&identity.certificate),
        budget: address.budget,
        bounds,
        sessions_max: controller::sessions_max(&bounds),
    };
    let site = Site::open(controller::Setup {
        address,
        grants: config.grants.clone(),
        interfaces: config.counters.clone(),
        hooks: config.hooks.clone(),
        identity: identity.clone(),
        fixed,
        door,
        limits: limits(bounds, config.io),
        counters: counters.clone(),
        state_dir: &config.state_dir,
    });
    site.map(Some).map_err(AgentError::Controller)
}

fn host_socket(site: &Arc<Site>, config: &Config) -> Option<controller::host::Listening> {
    let listening = controller::host::listen(site.clone(), &config.state_dir);
    listening
        .inspect_err(|error| {
            tracing::warn!(%error, state_dir = %config.state_dir.display(), "cannot listen for `longhaul agent` of this host");
        })
        .ok()
}

/// Serves, and does what the controller asks.
async fn serve_both(
    listener: Listener,
    options: ServeOptions,
    site: Option<Arc<Site>>,
    stop: watch::Receiver<Stop>,
) -> Result<(), AgentError> {
    let Some(site) = site else { return serve(listener, options, stop).await };
    let mut stopping = stop.clone();
    let run = site.run(stop.clone());
    let driving = async {
        let late = async {
            asked(&mut stopping, Stop::Finish).await;
            let _ = tokio::time::timeout(STOP_GRACE, asked(&mut stopping, Stop::Now)).await;
        };
        tokio::select! {
            () = run => {}
            () = late => {}
        }
    };
    tokio::join!(serve(listener, options, stop), driving).0
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
pub(crate) async fn serve_metrics(bound: Option<BoundMetrics>, stop: watch::Receiver<Stop>) -> AgentError {
    let Some(BoundMetrics { listener, bound, metrics }) = bound else {
        return std::future::pending().await;
    };
    match metrics::serve(listener, metrics, stop).await {
        Err(source) => AgentError::Metrics { address: bound, source },
        Ok(()) => std::future::pending().await,
    }
}

/// The port of metrics, and what is told there.
pub(crate) struct BoundMetrics {
    listener: tokio::net::TcpListener,
    pub(crate) bound: SocketAddr,
    metrics: Arc<Metrics>,
}

pub(crate) fn bind_metrics(address: SocketAddr, metrics: Metrics) -> Result<BoundMetrics, AgentError> {
    let open = || {
        let socket = bind_to(address)?;
        let bound = socket.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(socket)?;
        Ok((listener, bound))
    };
    let opened: std::io::Result<_> = open();
    let (listener, bound) = opened.map_err(|source| AgentError::Metrics { address, source })?;
    Ok(BoundMetrics { listener, bound, metrics: Arc::new(metrics) })
}

fn announce(config: &Config, tokens: &TokenStore, bound: SocketAddr, fingerprint: Fingerprint, is_new: bool) {
    if is_new {
        tracing::info!(state_dir = %config.state_dir.display(), "first start: made key, certificate and access token");
    }
    tracing::info!(address = %bound, %fingerprint, token_file = %tokens.main_file().display(), version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(door) = &config.door {
        tracing::info!(socket = %door.socket.display(), uid = door.uid, "waiting for the door that has this address");
    }
    for root in config.roots.iter() {
        tracing::info!(path = %root.written(), write = root.write(), "serving");
        if tokens.state_dir().beneath(root.path()).is_some() {
            tracing::warn!(
                root = %root.written(), state_dir = %tokens.state_dir(),
                "this root holds the agent's own keys: whoever has the main token can copy them with a directory above; serve a narrower root, or keep the state elsewhere (--state-dir)"
            );
        }
    }
    if config.roots.is_empty() && config.controller.is_none() {
        tracing::warn!("no root is served: only tests and relaying work");
    }
    for grant in config.grants.iter() {
        let controller = grant.controller.map_or_else(|| "*".to_owned(), |controller| controller.to_string());
        tracing::info!(root = %grant.root.written(), read = grant.read, write = grant.write, collaboration = grant.collaboration, controller, "granted");
    }
    match (&config.controller, config.grants.iter().next()) {
        (Some(_), None) => tracing::warn!("the controller may ask for nothing: there is no [[grant]]"),
        (None, Some(_)) => tracing::warn!("the grants are for a controller, and there is none: give --controller"),
        _ => {}
    }
    if config.controller.is_none() && !config.counters.is_empty() {
        tracing::warn!("the counters are for a controller, and there is none: give --controller");
    }
    for counter in &config.counters {
        tracing::info!(interface = counter.interface, link = counter.link, sends = ?counter.sends, "counting");
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

fn serve_options(
    config: &Config,
    tokens: TokenStore,
    bound: SocketAddr,
    counters: Arc<Counters>,
    site: Option<&Arc<Site>>,
) -> ServeOptions {
    let terms =
        Terms { roots: config.roots.clone(), tests: config.tests, relay: config.relay, hooks: config.hooks.clone() };
    let address =
        |DataAddress { ip, port }: &DataAddress| SocketAddr::new(*ip, port.unwrap_or(bound.port())).to_string();
    let policy = AgentPolicy::new(tokens, terms, SystemTime::now);
    let (policy, bounds) = match site {
        Some(site) => (policy.with_sessions(site.tokens()), controller::halves(config.bounds).0),
        None => (policy, config.bounds),
    };
    ServeOptions {
        policy: Arc::new(policy),
        bounds,
        limits: limits(bounds, config.io),
        counters,
        addresses: config.addresses.iter().map(address).collect(),
    }
}

/// What a session may use: all that the agent has, if it is alone; the mover divides.
pub(crate) fn limits(bounds: ServeLimits, io: mover::request::IoChoice) -> Limits {
    Limits { memory: Bytes::new(bounds.memory_bytes), io, ..Limits::default() }
}
