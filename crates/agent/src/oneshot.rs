//! An agent for one ssh login: the far end of `longhaul copy … host:/path`.
//!
//! The near end starts it over the user's own ssh and writes one JSON line to its standard input:
//! `{"key": "…", "connect": null}` for "listen", or `{"key": "…", "connect": ["ip:port"], "fingerprint": "sha256:…"}`
//! for "connect back to me" (the far site lets nobody in). The answer is one line on standard output:
//! `{"port": 40123, "addresses": ["192.0.2.1"], "fingerprint": "sha256:…", "version": "0.1.0"}`, where port and
//! fingerprint are null when it connects back. Bytes then flow over direct TCP; ssh only keeps the two together:
//! when standard input closes, the agent ends.
//!
//! It may do what the user may, beneath `/`: the ssh login is the permission. Nothing is kept on disk, and the
//! key opens nothing but this process.

mod grant;
mod local;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mover::request::{Fingerprint, IoChoice, Judge, Reach, Remote};
use mover::server::{Counters, Listener, Port, ServeLimits, ServeOptions};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::config::Listen;
use crate::error::AgentError;
use crate::run::{finish_in_time, limits, serve};
use grant::OneKey;
pub use local::LocalAgent;
use service::listen::bind;
use service::stop::{Stop, asked};

/// How long the near end may take to say what it wants, and then to come.
const WAIT_FIRST: Duration = Duration::from_secs(60);
/// How long the near end may be away between two sessions (a lost connection) before it is given up.
const WAIT_AGAIN: Duration = Duration::from_secs(300);
/// Bytes of the line on standard input.
const CALL_BYTES_MAX: u64 = 64 << 10;
/// A shorter key is no secret.
const KEY_CHARS_MIN: usize = 16;
/// Addresses of this host that are offered.
const OFFERED_MAX: usize = 64;
/// Connecting back: failed attempts in a row, and the pause between them.
const ATTEMPTS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_secs(2);

/// What the command line and the login give.
#[derive(Debug, Clone)]
pub struct OneshotOptions {
    /// Ports that it may listen on (a hole in a firewall); any if there are none.
    pub ports: Option<RangeInclusive<u16>>,
    /// What relative paths start from: the directory of the login.
    pub start: PathBuf,
    /// The server's address as ssh saw it: the third word of `SSH_CONNECTION`. It is offered first.
    pub reached_at: Option<IpAddr>,
    /// Bounds; a login is one user.
    pub bounds: ServeLimits,
    /// Which storage I/O may be used.
    pub io: IoChoice,
}

impl Default for OneshotOptions {
    fn default() -> OneshotOptions {
        OneshotOptions {
            ports: None,
            start: PathBuf::from("/"),
            reached_at: None,
            // Two sessions, for the one that lost its connection may not have noticed when the next begins.
            bounds: ServeLimits { sessions: 2, streams: 256, handshakes: 64, memory_bytes: 512 << 20, rate_bps: None },
            io: IoChoice::Measure,
        }
    }
}

/// What the near end says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    key: String,
    connect: Option<Vec<SocketAddr>>,
    fingerprint: Option<String>,
}

/// What it is told.
#[derive(Serialize)]
struct Answer {
    port: Option<u16>,
    addresses: Vec<IpAddr>,
    fingerprint: Option<String>,
    version: &'static str,
}

/// Serves whoever started this process over ssh, until `input` closes, nobody comes, or it is asked to stop.
///
/// Reading standard input blocks a thread of its own: end the process when this returns.
///
/// # Errors
/// When it was told nothing that makes sense, no port is free, or the near end cannot be reached.
pub async fn oneshot(
    options: OneshotOptions,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    stop: watch::Receiver<Stop>,
) -> Result<(), AgentError> {
    let mut input = BufReader::new(input);
    let call = read_call(&mut input).await?;
    let counters = Arc::new(Counters::default());
    let policy = Arc::new(OneKey::new(&call.key, options.start.clone()));
    let serving = || ServeOptions {
        policy: policy.clone(),
        bounds: options.bounds,
        limits: limits(options.bounds, options.io),
        counters: counters.clone(),
        addresses: Vec::new(),
    };
    match call.connect {
        None => {
            let identity = service::ephemeral(&sys::process::hostname())?;
            let (socket, bound) = bind_one_of(options.ports.clone())?;
            let answer = Answer {
                port: Some(bound.port()),
                addresses: offered(options.reached_at)?,
                fingerprint: Some(Fingerprint::of(&identity.certificate).to_string()),
                version: env!("CARGO_PKG_VERSION"),
            };
            say(&mut output, &answer).await?;
            let (ask, asked) = watch::channel(Stop::No);
            tokio::select! {
                served = serve(Listener { port: Port::Own(socket), identity }, serving(), asked) => served,
                () = end(input, &counters, stop, ask) => Ok(()),
            }
        }
        Some(addresses) => {
            let peer = call.fingerprint.as_deref().map(str::parse::<Fingerprint>);
            let Some(Ok(peer)) = peer else {
                return Err(AgentError::Call("to connect back it needs the fingerprint of the other end".into()));
            };
            say(
                &mut output,
                &Answer { port: None, addresses: Vec::new(), fingerprint: None, version: env!("CARGO_PKG_VERSION") },
            )
            .await?;
            let remote = Remote {
                reach: Reach::Connect(addresses),
                expected: Some(peer),
                judge: only(peer),
                token: call.key,
                label: "the other end".into(),
                gone: None,
            };
            let (ask, asked) = watch::channel(Stop::No);
            tokio::select! {
                served = connect_back(remote, serving, asked) => served,
                () = end(input, &counters, stop, ask) => Ok(()),
            }
        }
    }
}

async fn read_call(input: &mut (impl AsyncBufReadExt + Unpin)) -> Result<Call, AgentError> {
    let call = |text: String| AgentError::Call(text);
    let mut line = Vec::new();
    let mut bounded = input.take(CALL_BYTES_MAX);
    match timeout(WAIT_FIRST, bounded.read_until(b'\n', &mut line)).await {
        Err(_) => {
            return Err(call(format!("standard input said nothing for {} s", WAIT_FIRST.as_secs())));
        }
        Ok(Err(source)) => {
            return Err(AgentError::System { what: "read standard input", source });
        }
        Ok(Ok(_)) => {}
    }
    if line.last() != Some(&b'\n') {
        return Err(call("standard input ended, or went on for too long, within its first line".into()));
    }
    // What stands in the line is a secret: it is not repeated.
    let parsed: Call = serde_json::from_slice(&line)
        .map_err(|e| call(format!("standard input is not the JSON it should be (column {})", e.column())))?;
    if parsed.key.chars().count() < KEY_CHARS_MIN {
        return Err(call(format!("a one-time key has at least {KEY_CHARS_MIN} characters")));
    }
    Ok(parsed)
}

async fn say(output: &mut (impl AsyncWrite + Unpin), answer: &Answer) -> Result<(), AgentError> {
    let line = serde_json::to_string(answer).expect("plain fields") + "\n";
    let written = async {
        output.write_all(line.as_bytes()).await?;
        output.flush().await
    };
    written.await.map_err(|source| AgentError::System { what: "write to standard output", source })
}

fn bind_one_of(ports: Option<RangeInclusive<u16>>) -> Result<(TcpListener, SocketAddr), AgentError> {
    let address = |port| SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    let try_port = |port| bind(Listen { address: address(port), by_default: true });
    let Some(ports) = ports else {
        return try_port(0).map_err(|source| AgentError::Listen { address: address(0), source });
    };
    let (first, last) = (*ports.start(), *ports.end());
    let mut refused = std::io::Error::from(std::io::ErrorKind::InvalidInput);
    for port in ports {
        match try_port(port) {
            Ok(bound) => return Ok(bound),
            Err(e) => refused = e,
        }
    }
    Err(AgentError::Ports { first, last, source: refused })
}

/// Addresses that the near end may try: first the one that ssh itself reached.
fn offered(reached_at: Option<IpAddr>) -> Result<Vec<IpAddr>, AgentError> {
    let all = sys::socket::interfaces()
        .map_err(|source| AgentError::System { what: "list the addresses of this host", source })?;
    let is_usable = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        // A link-local address is of no use without its interface.
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let mut offered: Vec<IpAddr> = reached_at.into_iter().map(|ip| ip.to_canonical()).collect();
    for ip in all.into_iter().map(|(_, ip)| ip).filter(is_usable) {
        if !offered.contains(&ip) && offered.len() < OFFERED_MAX {
            offered.push(ip);
        }
    }
    Ok(offered)
}

fn only(peer: Fingerprint) -> Judge {
    Arc::new(move |seen: &Fingerprint| match *seen == peer {
        true => Ok(()),
        false => {
            Err(format!("the other end has the fingerprint {seen}, not {peer} as ssh said: somebody is in between"))
        }
    })
}

/// Connects to the near end and serves the session it asks for; again when the connection was lost.
async fn connect_back(
    remote: Remote,
    options: impl Fn() -> ServeOptions,
    stop: watch::Receiver<Stop>,
) -> Result<(), AgentError> {
    let (finish, finishing) = watch::channel(false);
    let serving = async {
        let mut failed = 0;
        while *stop.borrow() == Stop::No {
            match mover::serve_connect(remote.clone(), options(), finishing.clone()).await {
                Ok(()) => failed = 0,
                Err(_) if failed + 1 < ATTEMPTS_MAX => failed += 1,
                Err(error) => return Err(AgentError::ConnectBack(error)),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    };
    tokio::select! {
        served = serving => served,
        why = finish_in_time(stop.clone(), finish) => Err(AgentError::Cut(why)),
    }
}

/// Passes on when it is time to end, then waits for ever: the serving side ends by itself.
async fn end(
    input: impl AsyncRead + Unpin,
    counters: &Counters,
    mut stop: watch::Receiver<Stop>,
    ask: watch::Sender<Stop>,
) {
    let mut patience = stop.clone();
    tokio::select! {
        () = closed(input) => tracing::info!("the ssh login has ended"),
        () = deserted(counters) => tracing::info!("nobody comes"),
        () = asked(&mut stop, Stop::Finish) => {}
    }
    ask.send_replace(Stop::Finish);
    asked(&mut patience, Stop::Now).await;
    ask.send_replace(Stop::Now);
    std::future::pending::<()>().await;
}

async fn closed(mut input: impl AsyncRead + Unpin) {
    let mut ignored = [0; 512];
    while matches!(input.read(&mut ignored).await, Ok(n) if n > 0) {}
}

/// Ends when no session came in time, or none followed the last.
async fn deserted(counters: &Counters) {
    let mut alone_since = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = counters.sessions.load(Ordering::Relaxed);
        if counters.sessions_active.load(Ordering::Relaxed) > 0 {
            alone_since = Instant::now();
        }
        let patience = if began == 0 { WAIT_FIRST } else { WAIT_AGAIN };
        if alone_since.elapsed() > patience {
            return;
        }
    }
}
