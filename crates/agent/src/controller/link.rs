//! The connection to the controller, made again for ever.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::agent::{ALPN, Cause, FromAgent, Hello, Inventory, Mode, PING_MS, PROTOCOL, SILENCE_MS, ToAgent, Welcome};
use api::frame::Unread;
use mover::request::{Fingerprint, Judge};
use mover::session::chain;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::asked::Asked;
use super::cause::shown;
use super::frame::{Ear, HeardError, say};
use super::{Site, Standing, inventory, lock, now, state};
use service::stop::{Stop, asked};

/// Shortest pause before the next attempt; it doubles with each that fails.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pause after the controller turned this agent away for good: its operator may have done something.
const PAUSE_TURNED: Duration = Duration::from_secs(300);
/// Between two looks whether an agent without a controller was given a new enrolment token, and at the inventory.
const LOOK: Duration = Duration::from_secs(10);
/// How long connecting and shaking hands may take, each.
const PATIENCE: Duration = Duration::from_secs(10);
const PING: Duration = Duration::from_millis(PING_MS);
const SILENCE: Duration = Duration::from_millis(SILENCE_MS);
/// Messages read ahead of what is done.
const AHEAD_MAX: usize = 4;
/// Bytes of an enrolment token's file.
const ENROL_BYTES_MAX: u64 = 4096;
/// How long the last words may take when the agent stops.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Between two looks at what waits for an answer to be written.
const ROOM: Duration = Duration::from_millis(20);

type Stream = TlsStream<TcpStream>;

/// Why a connection ended, or none came about.
#[derive(Debug)]
enum End {
    /// The network or the controller; it is tried again soon.
    Lost(String),
    /// The controller does not take this agent before somebody did something.
    Turned(String),
    /// The operator dropped the controller.
    Dropped,
    /// The agent stops, and has said what there was to say.
    Stopped,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Lost(why) | End::Turned(why) => f.write_str(why),
            End::Dropped => f.write_str("the controller was dropped by this host's operator"),
            End::Stopped => f.write_str("the agent stops"),
        }
    }
}

/// Connects until told to stop.
pub(super) async fn run(site: Arc<Site>, mut stop: watch::Receiver<Stop>) {
    let mut pause = PAUSE_MIN;
    loop {
        let (end, was_welcome) = match site.may_connect() {
            true => connection(&site, &stop).await,
            false => (End::Dropped, false),
        };
        if was_welcome {
            pause = PAUSE_MIN;
        }
        site.stands_alone(&end);
        let wait = match end {
            End::Stopped => break,
            End::Dropped => LOOK,
            End::Turned(_) => PAUSE_TURNED,
            End::Lost(_) => {
                let with_jitter = jittered(pause);
                pause = (pause * 2).min(PAUSE_MAX);
                with_jitter
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = asked(&mut stop, Stop::Finish) => break,
            // With a new token there is nothing to wait for.
            () = site.new_token(), if matches!(end, End::Turned(_)) => {}
        }
    }
    site.end_sessions().await;
}

/// From a half of the pause to the whole, so that agents that lost a controller together do not come back together.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 4];
    // Without randomness it is the shortest.
    let _ = sys::random::fill(&mut random);
    pause / 2 + (pause / 2).mul_f64(f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX))
}

/// One connection, from the first packet to its end; true if the controller took this agent.
async fn connection(site: &Arc<Site>, stop: &watch::Receiver<Stop>) -> (End, bool) {
    let mut stopping = stop.clone();
    let dropped = site.dropped.subscribe();
    let begun = async {
        let (stream, controller) = connect(site).await?;
        greet(site, stream, controller).await
    };
    let begun = tokio::select! {
        begun = begun => begun,
        () = asked(&mut stopping, Stop::Finish) => return (End::Stopped, false),
    };
    match begun {
        Ok(greeted) => (serve(site, greeted, stop, dropped).await, true),
        Err(end) => (end, false),
    }
}

async fn connect(site: &Site) -> Result<(Stream, Fingerprint), End> {
    let address = &site.address;
    let failed = |why: String| End::Lost(format!("cannot connect to the controller {address}: {why}"));
    let found = timeout(PATIENCE, tokio::net::lookup_host((address.host.as_str(), address.port))).await;
    let found = found.map_err(|_| failed("its name is not resolved in time".into()))?;
    let found: Vec<_> = found.map_err(|error| failed(error.to_string()))?.collect();
    let mut why = "its name has no address".to_owned();
    let mut tcp = None;
    for to in found {
        match timeout(PATIENCE, TcpStream::connect(to)).await {
            Ok(Ok(connected)) => {
                tcp = Some(connected);
                break;
            }
            Ok(Err(error)) => why = format!("{to}: {error}"),
            Err(_) => why = format!("{to} does not answer"),
        }
    }
    let tcp = tcp.ok_or_else(|| failed(why))?;
    let _ = tcp.set_nodelay(true);
    let seen = Arc::new(Mutex::new(None));
    let refusal = Arc::new(Mutex::new(None));
    let judge = site.judge(seen.clone()).map_err(End::Lost)?;
    let config = mover::tls::client(judge, refusal.clone(), &[ALPN], Some(&site.identity));
    let config = config.map_err(|error| failed(error.to_string()))?;
    let shaken = timeout(PATIENCE, TlsConnector::from(config).connect(mover::tls::server_name(None), tcp)).await;
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let refused = lock(&refusal).take();
            return Err(End::Lost(
                refused
                    .unwrap_or_else(|| format!("the controller {address} does not speak TLS with this agent: {error}")),
            ));
        }
        Err(_) => return Err(failed("it does not finish the handshake".into())),
    };
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(failed("what answers there is no controller".into()));
    }
    let controller = lock(&seen).take().ok_or_else(|| failed("it showed no certificate".into()))?;
    Ok((stream, controller))
}

/// A connection on which both sides know each other.
struct Greeted {
    from: Ear<ReadHalf<Stream>>,
    to: WriteHalf<Stream>,
    controller: Fingerprint,
    welcome: Welcome,
    inventory: Inventory,
}

async fn greet(site: &Arc<Site>, stream: Stream, controller: Fingerprint) -> Result<Greeted, End> {
    let lost = |why: String| End::Lost(format!("the controller {}: {why}", site.address));
    let inventory = site.inventory(controller).await;
    let enrol = site.enrol().await;
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        enrol: enrol.clone(),
        process: site.process,
        sessions: site.held(),
        inventory: inventory.clone(),
        mode: site.decided(),
    };
    let (from, mut to) = tokio::io::split(stream);
    let mut from = Ear::new(from);
    let said = timeout(SILENCE, say(&mut to, &FromAgent::Hello(hello))).await;
    said.map_err(|_| lost("it does not listen".into()))?.map_err(|error| lost(error.to_string()))?;
    let welcome = loop {
        let heard = timeout(SILENCE, from.hear()).await;
        match heard.map_err(|_| lost("it does not answer".into()))?.map_err(|error| lost(chain(&error)))? {
            Ok(ToAgent::Welcome(welcome)) => break welcome,
            Ok(ToAgent::Turned(turned)) => {
                let why = format!("the controller {} turned this agent away: {}", site.address, shown(&turned.reason));
                return Err(if turned.again { End::Lost(why) } else { End::Turned(why) });
            }
            // It speaks of nothing else before it knows who is there.
            Ok(ToAgent::Ping) | Err(_) => {}
            Ok(_) => return Err(lost("it did not say welcome first".into())),
        }
    };
    site.welcomed(controller, enrol.as_deref()).map_err(lost)?;
    Ok(Greeted { from, to, controller, welcome, inventory })
}

/// Talks until the connection ends.
async fn serve(
    site: &Arc<Site>,
    greeted: Greeted,
    stop: &watch::Receiver<Stop>,
    mut dropped: watch::Receiver<u64>,
) -> End {
    let Greeted { from, to, controller, welcome, mut inventory } = greeted;
    tracing::info!(controller = %site.address, fingerprint = %controller, host = shown(&welcome.host), "connected to the controller");
    let asked_for = Asked::new(site.clone(), controller);
    asked_for.keep(&welcome);
    site.connected(controller, &welcome);
    let (ahead, mut heard) = mpsc::channel(AHEAD_MAX);
    let reading = Abort(tokio::spawn(read_all(from, ahead)));
    let mut writing = Abort(tokio::spawn(write_all(site.clone(), to)));
    let mut stopping = stop.clone();
    let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
    let mut last = Instant::now();
    let mut ending = false;
    let end = loop {
        let quiet_until = last + SILENCE;
        tokio::select! {
            message = heard.recv() => match message {
                Some(Ok(message)) => {
                    last = Instant::now();
                    match message {
                        Ok(message) => asked_for.hear(message),
                        Err(unread) => {
                            let text = shown(&chain(&unread));
                            tracing::warn!(text, "the controller");
                            site.say(FromAgent::Failed(api::agent::Failed { request: None, session: None, cause: Cause::Other, text }));
                        }
                    }
                    // Who asks more than it hears is not listened to for a while.
                    while !lock(&site.outbox).has_room() && !writing.0.is_finished() {
                        tokio::time::sleep(ROOM).await;
                        last = Instant::now();
                    }
                }
                Some(Err(error)) => break End::Lost(format!("the controller {}: {}", site.address, chain(&error))),
                None => break End::Lost(format!("the connection to the controller {} was lost", site.address)),
            },
            ended = &mut writing.0 => break match ended {
                Ok(End::Stopped) => End::Stopped,
                Ok(why) => why,
                Err(error) => End::Lost(error.to_string()),
            },
            () = tokio::time::sleep_until(quiet_until) => {
                break End::Lost(format!("the controller {} was not heard for {} s", site.address, SILENCE.as_secs()));
            }
            changed = dropped.changed() => if changed.is_ok() { break End::Dropped },
            _ = look.tick() => {
                lock(&site.outbox).settle(now());
                let newer = site.inventory(controller).await;
                if newer != inventory {
                    inventory = newer.clone();
                    site.say(FromAgent::Inventory(newer));
                }
            }
            () = asked(&mut stopping, Stop::Finish), if !ending => {
                ending = true;
                site.stop_sessions();
            }
            () = site.all_told(), if ending => break End::Stopped,
        }
    };
    drop(reading);
    drop(asked_for);
    end
}

/// A message, one that is not known, or why there is none.
type Said = Result<Result<ToAgent, Unread>, HeardError>;

/// A task that ends with what needs it.
struct Abort<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_all(mut from: Ear<ReadHalf<Stream>>, to: mpsc::Sender<Said>) {
    loop {
        let heard = from.hear().await;
        let is_over = heard.is_err();
        if to.send(heard).await.is_err() || is_over {
            return;
        }
    }
}

async fn write_all(site: Arc<Site>, mut to: WriteHalf<Stream>) -> End {
    loop {
        let message = lock(&site.outbox).next(now());
        let message = match message {
            Some(message) => message,
            None => match timeout(PING, site.to_write.notified()).await {
                Ok(()) => continue,
                Err(_) => FromAgent::Ping,
            },
        };
        let why = match timeout(SILENCE, say(&mut to, &message)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it took nothing for {} s", SILENCE.as_secs()),
        };
        return End::Lost(format!("the connection to the controller {} was lost: {why}", site.address));
    }
}

impl Site {
    /// False after the operator dropped the controller, until there is a token that was not used.
    fn may_connect(&self) -> bool {
        !lock(&self.state).kept().forgotten || self.unused_token().is_some()
    }

    /// A token of the configured file that this agent did not enrol with.
    fn unused_token(&self) -> Option<String> {
        use std::io::Read as _;
        let file = std::fs::File::open(self.address.enrol_token_file.as_ref()?).ok()?;
        let mut text = String::new();
        file.take(ENROL_BYTES_MAX).read_to_string(&mut text).ok()?;
        let token = text.trim().to_owned();
        let used = state::used(&token);
        (!token.is_empty() && lock(&self.state).kept().enrolled_with.as_ref() != Some(&used)).then_some(token)
    }

    async fn enrol(self: &Arc<Site>) -> Option<String> {
        let site = self.clone();
        spawn_blocking(move || site.unused_token()).await.ok().flatten()
    }

    /// Sleeps until there is a token other than the one that is there now.
    async fn new_token(self: &Arc<Site>) {
        let before = self.enrol().await;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.enrol().await;
            if now.is_some() && now != before {
                return;
            }
        }
    }

    /// Says whether whoever answers is the controller: the one that is named, else the one that is pinned, else any.
    fn judge(&self, seen: Arc<Mutex<Option<Fingerprint>>>) -> Result<Judge, String> {
        let (named, state) = (self.address.fingerprint, lock(&self.state));
        let (pinned, path) = (if named.is_some() { None } else { state.pinned()? }, state.path());
        let address = self.address.clone();
        Ok(Arc::new(move |found: &Fingerprint| {
            *lock(&seen) = Some(*found);
            match (named, pinned) {
                (Some(named), _) if named != *found => Err(format!(
                    "the controller {address} has the fingerprint {found}, but the configuration names {named}: somebody may be in between; if it has a new identity, change the configuration"
                )),
                (_, Some(pinned)) if pinned != *found => Err(format!(
                    "the fingerprint of the controller {address} has changed: it is {found}, but {pinned} is pinned in {}. Somebody may be in between, or the controller has a new identity. If you know that it has, run `longhaul agent forget` and enrol again, or name it behind a `#` in the address",
                    path.display()
                )),
                _ => Ok(()),
            }
        }))
    }

    async fn inventory(self: &Arc<Site>, controller: Fingerprint) -> Inventory {
        let site = self.clone();
        let look = spawn_blocking(move || inventory::look(&site.fixed, &site.grants, Some(controller)));
        look.await.unwrap_or_default()
    }

    /// Sessions that go on, and those of which the end may not have arrived.
    fn held(&self) -> Vec<api::agent::Held> {
        let running = lock(&self.sessions);
        let ended = |session| api::agent::Held { session, generation: 0, rate_bps: 0 };
        let told = lock(&self.outbox);
        told.sessions().map(|session| running.get(&session).map_or(ended(session), |driven| driven.held())).collect()
    }

    /// The controller took this agent: from now on it is this one.
    fn welcomed(&self, controller: Fingerprint, enrol: Option<&str>) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.kept().forgotten && enrol.is_none() {
            return Err("this host's operator dropped it meanwhile".to_owned());
        }
        let kept = state.change(|kept| {
            kept.fingerprint = Some(controller.to_string());
            kept.forgotten = false;
            if let Some(token) = enrol {
                kept.enrolled_with = Some(state::used(token));
            }
        });
        kept.map_err(|error| chain(&error))
    }

    fn connected(&self, controller: Fingerprint, welcome: &Welcome) {
        let host = shown(&welcome.host);
        *lock(&self.standing) = Standing { controller: Some(controller), host, since: now(), problem: None };
        self.tally.connected.store(1, Ordering::Relaxed);
        self.tally.connections.fetch_add(1, Ordering::Relaxed);
        lock(&self.outbox).reconnected();
        let mode = self.mode();
        if mode.mode != Mode::Active {
            self.say(FromAgent::Mode(mode));
        }
        self.to_write.notify_one();
    }

    /// There is no connection.
    fn stands_alone(&self, end: &End) {
        let mut standing = lock(&self.standing);
        let problem = Some(end.to_string());
        self.tally.connected.store(0, Ordering::Relaxed);
        if standing.controller.is_some() || standing.problem != problem {
            tracing::warn!(why = %end, "no controller");
            *standing = Standing { controller: None, host: String::new(), since: now(), problem };
        }
        drop(standing);
        if matches!(end, End::Dropped) {
            lock(&self.outbox).clear();
        }
    }

    fn stop_sessions(&self) {
        lock(&self.sessions).values().for_each(|driven| driven.stop(Cause::Leaving));
    }

    /// Sleeps until no session goes on and all was written, or that takes too long.
    async fn all_told(&self) {
        while !lock(&self.sessions).is_empty() {
            tokio::time::sleep(ROOM).await;
        }
        let last_words = async {
            while lock(&self.outbox).is_waiting() {
                tokio::time::sleep(ROOM).await;
            }
            // What was taken out last is being written.
            tokio::time::sleep(5 * ROOM).await;
        };
        let _ = timeout(LAST_WORDS, last_words).await;
    }

    async fn end_sessions(&self) {
        self.stop_sessions();
        while !lock(&self.sessions).is_empty() {
            tokio::time::sleep(ROOM).await;
        }
    }
}
