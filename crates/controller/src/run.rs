//! From a checked configuration to a running controller, and to its end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{Digest, Event, Role};
use mover::request::Fingerprint;
use serde::Serialize;
use service::listen::bind;
use service::ready::reachable;
use service::stop::{Stop, asked};
use service::{IdentityError, PrivateDir, ReadyFile, StateError};
use tokio::sync::{oneshot, watch};

use crate::applied::Applied;
use crate::config::{Config, Text};
use crate::core::app::Face;
use crate::core::{Clock, Core, StartError, queues};
use crate::http::{FaceOptions, Port, token_digest};
use crate::hub;
use crate::store::{self, Copied, Place, StoreError};

/// The file of the admin's token.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";
/// What the admin's token is called.
const ADMIN: &str = "admin";
/// What the configuration is called where it sets something.
const BY: &str = "configuration";
/// The way out when the state directory cannot be used.
const ELSEWHERE: &str = "choose another place with --state-dir";

/// Why a controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Key or certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The admin's token cannot be made.
    #[error("cannot make a token")]
    Random(#[source] io::Error),
    /// Its store.
    #[error(transparent)]
    Start(#[from] StartError),
    /// What the configuration says of the network is refused.
    #[error("{path}: {text}")]
    World {
        /// The file.
        path: PathBuf,
        /// Why, and the way out.
        text: String,
    },
    /// It cannot listen.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its port failed.
    #[error("serving")]
    Serve(#[source] io::Error),
    /// The ready file cannot be written.
    #[error("cannot write {path}")]
    Ready {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its thread cannot be started, or has ended.
    #[error("the controller's own thread")]
    Thread(#[source] io::Error),
}

/// What the ready file says.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    address: String,
    admin_token: &'a str,
    fingerprint: String,
}

/// Brings a backup back, into a store that has nothing in it or a restore that was cut short. Numbers that agents may know of what came
/// after the backup are not given again.
///
/// # Errors
/// As of [`store::restore`].
pub fn restore(from: &Path, into: &Place) -> Result<Copied, StoreError> {
    let restored = (Clock::new().now().0, ledger::encode(&Event::Restored {}));
    store::restore(from, into, Some(restored))
}

/// Runs a controller until it is asked to stop.
///
/// # Errors
/// When it cannot start, or its port or thread fails.
pub async fn run(config: Config, stop: watch::Receiver<Stop>) -> Result<(), ControllerError> {
    let prepare = |path: &PathBuf| {
        ReadyFile::prepare(path).map_err(|source| ControllerError::Ready { path: path.clone(), source })
    };
    let mut ready = config.ready_file.as_ref().map(prepare).transpose()?;
    let dir = PrivateDir::open(&config.state_dir, ELSEWHERE)?;
    let (identity, _) = service::load_or_make(&dir, &sys::process::hostname())?;
    let fingerprint = Fingerprint::of(&identity.certificate);
    let admin = admin_token(&dir)?;
    let mut core = crate::core::open(&config.store, config.keep)?;
    core.hold_down(config.hold);
    core.desk.counting.trusted = config.counting.clone();
    let applied = Applied::load(&dir)?;
    set_up(&mut core, &config, &applied, &admin)?;
    if core.keep_set_up() {
        applied.with(&config).keep(&dir)?;
    }
    let listening = |source| ControllerError::Listen { address: config.listen.address, source };
    let (socket, bound) = bind(config.listen).map_err(listening)?;
    let (doors, queues) = queues();
    let heard = doors.heard.clone();
    let face = Arc::new(Face::new(doors, core.shared.clone(), fingerprint.to_string()));
    let (stop_core, stopping_core) = watch::channel(false);
    let (alive, died) = oneshot::channel::<()>();
    let thread = spawn(move || async move {
        let _alive = alive;
        core.run(queues, stopping_core).await;
    })?;
    let address = reachable(bound);
    tracing::info!(address = %bound, %fingerprint, admin_token_file = %dir.path_of(ADMIN_TOKEN_FILE).display(), version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(ready) = &mut ready {
        let content = Ready { address: address.to_string(), admin_token: &admin, fingerprint: fingerprint.to_string() };
        ready.write(&content).map_err(|source| ControllerError::Ready { path: ready.path().to_owned(), source })?;
    }
    let agents = move |stream, fingerprint, from| hub::serve(stream, fingerprint, from, heard.clone());
    let (stop_port, stopping_port) = watch::channel(false);
    let options = FaceOptions { open_metrics: config.open_metrics, ..FaceOptions::default() };
    let mut stop = stop;
    let port = crate::http::serve(Port { socket, identity }, face, options, agents, stopping_port);
    tokio::pin!(port);
    let served = tokio::select! {
        served = &mut port => served,
        // Without its thread it can answer nothing: better to end, and be started again, than to linger.
        _ = died => Ok(()),
        () = asked(&mut stop, Stop::Finish) => {
            stop_port.send_replace(true);
            tokio::select! {
                served = &mut port => served,
                () = asked(&mut stop, Stop::Now) => Ok(()),
            }
        }
    };
    // Requests are answered; what they recorded is written, and a snapshot.
    stop_core.send_replace(true);
    let ended = tokio::task::spawn_blocking(move || thread.join());
    let ended = ended.await.map_err(io::Error::other);
    drop(ready);
    served.map_err(ControllerError::Serve)?;
    match ended.map_err(ControllerError::Thread)? {
        Ok(()) => {
            tracing::info!("ended");
            Ok(())
        }
        Err(_) => Err(ControllerError::Thread(io::Error::other("it panicked; the log of the program says where"))),
    }
}

/// Runs work on a thread with a runtime of its own, so that its waits for the disk hold up nobody.
fn spawn<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<std::thread::JoinHandle<()>, ControllerError>
where
    F: Future<Output = ()>,
{
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(ControllerError::Thread)?;
    let named = std::thread::Builder::new().name("core".to_owned());
    named.spawn(move || runtime.block_on(work())).map_err(ControllerError::Thread)
}

/// The admin's token: what is in its file, or a new one.
fn admin_token(dir: &PrivateDir) -> Result<String, ControllerError> {
    for _ in 0..2 {
        if let Some(bytes) = dir.read(ADMIN_TOKEN_FILE)? {
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            if !text.is_empty() {
                return Ok(text);
            }
        }
        let token = crate::core::app::random_token("lhc_").map_err(ControllerError::Random)?;
        dir.replace(ADMIN_TOKEN_FILE, format!("{token}\n").as_bytes())?;
    }
    Err(ControllerError::Random(io::Error::other("the file of the admin's token stays empty")))
}

/// Brings the state in line with the configuration.
fn set_up(core: &mut Core, config: &Config, applied: &Applied, admin: &str) -> Result<(), ControllerError> {
    let digest = Digest(token_digest(admin));
    if core.state.tokens.get(ADMIN).is_none_or(|known| known.digest != digest) {
        if core.state.tokens.contains_key(ADMIN) {
            core.record_own(Event::TokenGone { name: ADMIN.to_owned() });
        }
        let made =
            Event::TokenMade { name: ADMIN.to_owned(), digest, role: Role::Admin, until: None, by: BY.to_owned() };
        core.record_own(made);
    }
    let known = core.state.network.as_ref().map(|known| known.text.as_str());
    if let Some(network) = applied.network(config, known) {
        let events = ledger::wish::set_network(&core.state, &network.text, BY);
        record(core, network, events)?;
    }
    let known = core.state.shares.as_ref().map(|known| known.text.as_str());
    if let Some(shares) = applied.shares(config, known) {
        let events = ledger::wish::set_shares(&core.state, &shares.text, BY);
        record(core, shares, events)?;
        if let Some(text) = core.uncounted_at_start() {
            return Err(ControllerError::World { path: shares.path.clone(), text });
        }
    }
    let known = core.state.bookings.as_ref().map(|known| known.text.as_str());
    if let Some(bookings) = applied.bookings(config, known) {
        let events = ledger::wish::set_bookings(&core.state, &bookings.text, BY);
        record(core, bookings, events)?;
    }
    core.share_tokens();
    Ok(())
}

fn record(core: &mut Core, of: &Text, events: Result<Vec<Event>, ledger::Refusal>) -> Result<(), ControllerError> {
    let world = |text: String| ControllerError::World { path: of.path.clone(), text };
    for event in events.map_err(|refusal| world(refusal.to_string()))? {
        core.record(event).map_err(|rejected| world(rejected.to_string()))?;
    }
    Ok(())
}
