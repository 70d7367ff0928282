//! Agents that speak the protocol of [`api::agent`] over TLS and move no bytes: of each session they say that its files are in place, at a
//! pace that all of them share. What the real agent does for the protocol's sake they do too: a frame for each message, progress and files
//! once a second, and after a lost connection all is told again of sessions that have not ended long ago.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::Name;
use api::agent::{
    ALPN, Acknowledged, Cause, Ended, Failed, FileDone, Files, FromAgent, Granted, Held, Hello, Inventory, Lease, Mode,
    PING_MS, PROTOCOL, Prepared, Progress, Run, ToAgent,
};
use api::frame::{Decoder, encode};
use serde::Deserialize;
use service::Identity;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use crate::client::connect;

const MILLION: f64 = 1e6;
/// A pace without a bound: a session ends at once.
pub(crate) const MAX: u64 = u64::MAX;
/// Sessions that a host takes at once.
const SESSIONS: u32 = 4;
/// Files in one message, as the real agent sends them.
const FILES_MAX: u32 = 1_000;
/// Between two looks at what is to be said.
const LOOK: Duration = Duration::from_millis(100);
/// Between two words of a session.
const SECOND: Duration = Duration::from_secs(1);
/// For so long an end is told again on a new connection, as the real agent does.
const TAKEN_AFTER: Duration = Duration::from_secs(20);
/// What a file weighs.
const FILE_BYTES: u64 = 2_000_000_000;

/// A host of the controller's network, and its token to come in with.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) token: String,
}

/// What agents share.
pub(crate) struct Fleet {
    controller: SocketAddr,
    /// Files in a second of all together.
    pub(crate) pace: AtomicU64,
    running: AtomicU64,
    /// Of the pace what sessions that ended did not use, millionths of files: the next to look has it, so that the pace is kept.
    left: AtomicU64,
    pub(crate) tally: Tally,
}

/// What was said and done.
#[derive(Default)]
pub(crate) struct Tally {
    welcome: AtomicU64,
    lost: AtomicU64,
    heard: AtomicU64,
    said: AtomicU64,
    leases: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    files: AtomicU64,
}

impl Tally {
    pub(crate) fn told(&self) -> serde_json::Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        serde_json::json!({
            "welcome": of(&self.welcome), "lost": of(&self.lost), "heard": of(&self.heard), "said": of(&self.said),
            "leases": of(&self.leases), "begun": of(&self.begun), "ended": of(&self.ended), "files": of(&self.files),
        })
    }
}

fn count(of: &AtomicU64, more: u64) {
    of.fetch_add(more, Ordering::Relaxed);
}

impl Fleet {
    pub(crate) fn new(controller: SocketAddr) -> Fleet {
        let zero = AtomicU64::default;
        Fleet { controller, pace: zero(), running: zero(), left: zero(), tally: Tally::default() }
    }

    /// What one of the sessions that run gets done in a second.
    fn share(&self) -> f64 {
        match self.pace.load(Ordering::Relaxed) {
            MAX => f64::INFINITY,
            pace => pace as f64 / self.running.load(Ordering::Relaxed).max(1) as f64,
        }
    }
}

/// Connects for ever.
pub(crate) async fn run(fleet: Arc<Fleet>, host: Host) {
    let identity = service::ephemeral(&host.name).expect("a key can be made");
    let number = host.name.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut agent = Agent { fleet, host, identity, process: number, sessions: BTreeMap::new() };
    loop {
        let _ = agent.connection().await;
        count(&agent.fleet.tally.lost, 1);
        // As the real agent: from a half to the whole of a second, so that not all come at once.
        tokio::time::sleep(Duration::from_millis(500 + number % 500)).await;
    }
}

struct Agent {
    fleet: Arc<Fleet>,
    host: Host,
    identity: Identity,
    process: u64,
    sessions: BTreeMap<u64, Session>,
}

/// A session that it drives, or drove.
struct Session {
    generation: u64,
    rate_bps: u64,
    files: u32,
    /// In place.
    done: u32,
    /// Parts of files.
    owed: f64,
    begun: Instant,
    next: Instant,
    /// It was asked to stop.
    stopped: bool,
    ended: Option<(Instant, Ended)>,
}

impl Agent {
    async fn connection(&mut self) -> std::io::Result<()> {
        let stream = connect(self.fleet.controller, ALPN, Some(&self.identity)).await?;
        let (mut read, mut write) = tokio::io::split(stream);
        let mut decoder = Decoder::default();
        say(&mut write, &FromAgent::Hello(self.hello())).await?;
        let keep = loop {
            match next(&mut read, &mut decoder).await? {
                ToAgent::Welcome(welcome) => break welcome.keep,
                ToAgent::Ping => {}
                other => return Err(std::io::Error::other(format!("{other:?}"))),
            }
        };
        count(&self.fleet.tally.welcome, 1);
        let mut out = Vec::new();
        self.again(&keep, &mut out);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            for message in out.drain(..) {
                say(&mut write, &message).await?;
                count(&self.fleet.tally.said, 1);
                last = Instant::now();
            }
            tokio::select! {
                heard = next(&mut read, &mut decoder) => self.hear(heard?, &mut out),
                _ = look.tick() => {
                    self.look(&mut out);
                    if out.is_empty() && last.elapsed() >= Duration::from_millis(PING_MS) {
                        out.push(FromAgent::Ping);
                    }
                }
            }
        }
    }

    fn hello(&self) -> Hello {
        let held = |(id, session): (&u64, &Session)| {
            let (generation, rate_bps) =
                if session.ended.is_some() { (0, 0) } else { (session.generation, session.rate_bps) };
            Held { session: *id, generation, rate_bps }
        };
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            enrol: Some(self.host.token.clone()),
            process: self.process,
            sessions: self.sessions.iter().map(held).collect(),
            inventory: Inventory {
                hostname: self.host.name.clone(),
                // Nobody connects there: no bytes move.
                addresses: vec![SocketAddr::from(([127, 0, 0, 1], 4810))],
                fingerprint: "00".repeat(32),
                grants: vec![Granted {
                    collaboration: "*".to_owned(),
                    root: Name(b"/data".to_vec()),
                    read: true,
                    write: true,
                    rate_bps: None,
                    free_bytes: None,
                }],
                cores: 16,
                sessions_max: SESSIONS,
                streams_max: 256,
                ..Inventory::default()
            },
            mode: Mode::Active,
        }
    }

    /// On a new connection: what the last one may have lost.
    fn again(&mut self, keep: &[u64], out: &mut Vec<FromAgent>) {
        let fleet = &self.fleet;
        self.sessions.retain(|id, session| {
            let stays = keep.contains(id);
            if !stays && session.ended.is_none() {
                fleet.running.fetch_sub(1, Ordering::Relaxed);
            }
            stays
        });
        for (id, session) in &self.sessions {
            files(*id, 0..session.done, out);
            out.extend(session.ended.as_ref().map(|(_, ended)| FromAgent::Ended(ended.clone())));
        }
    }

    fn hear(&mut self, message: ToAgent, out: &mut Vec<FromAgent>) {
        count(&self.fleet.tally.heard, 1);
        match message {
            ToAgent::Prepare(prepare) => {
                let token = format!("lht_{:043}", prepare.session);
                out.push(FromAgent::Prepared(Prepared { session: prepare.session, token }));
            }
            ToAgent::Run(run) => self.begin(&run, out),
            ToAgent::Lease(lease) => self.lease(lease.session, &lease.lease, out),
            ToAgent::Stop { session } => {
                if let Some(session) = self.sessions.get_mut(&session).filter(|session| session.ended.is_none()) {
                    // It is told with the next look.
                    session.next = Instant::now();
                    session.stopped = true;
                }
            }
            ToAgent::List(list) => out.push(FromAgent::Failed(Failed {
                request: Some(list.request),
                session: None,
                cause: Cause::NotFound,
                text: "this host has lists of files only".to_owned(),
            })),
            // No bytes move, so there is nothing to ask over paths, and no other path to take.
            ToAgent::Probes { .. } | ToAgent::Path(_) => {}
            ToAgent::Welcome(_)
            | ToAgent::Turned(_)
            | ToAgent::Uncounted(_)
            | ToAgent::Taken { .. }
            | ToAgent::Revoke { .. }
            | ToAgent::Ping => {}
        }
    }

    fn begin(&mut self, run: &Run, out: &mut Vec<FromAgent>) {
        let now = Instant::now();
        let at_once = self.fleet.share().is_infinite();
        self.sessions.entry(run.session).or_insert_with(|| {
            count(&self.fleet.tally.begun, 1);
            count(&self.fleet.running, 1);
            Session {
                generation: 0,
                rate_bps: 0,
                files: u32::try_from(run.names.len().max(1)).expect("a page is bounded"),
                done: 0,
                owed: 0.0,
                begun: now,
                next: if at_once { now } else { now + SECOND },
                stopped: false,
                ended: None,
            }
        });
        self.lease(run.session, &run.lease, out);
    }

    fn lease(&mut self, id: u64, lease: &Lease, out: &mut Vec<FromAgent>) {
        count(&self.fleet.tally.leases, 1);
        let session = self.sessions.get_mut(&id).filter(|session| session.ended.is_none());
        let accepted = session.is_some();
        let rate_bps = lease.rates.first().map_or(0, |step| step.rate_bps);
        if let Some(session) = session {
            (session.generation, session.rate_bps) = (lease.generation, rate_bps);
        }
        out.push(FromAgent::Acknowledged(Acknowledged {
            session: id,
            generation: lease.generation,
            accepted,
            rate_bps,
        }));
    }

    /// What sessions have to say.
    fn look(&mut self, out: &mut Vec<FromAgent>) {
        let now = Instant::now();
        let fleet = self.fleet.clone();
        self.sessions.retain(|_, session| session.ended.as_ref().is_none_or(|(at, _)| at.elapsed() < TAKEN_AFTER));
        for (id, session) in &mut self.sessions {
            if session.ended.is_some() || session.next > now {
                continue;
            }
            session.next += SECOND;
            session.owed += fleet.share() + fleet.left.swap(0, Ordering::Relaxed) as f64 / MILLION;
            let whole = session.owed.min(f64::from(session.files - session.done)) as u32;
            session.owed = if session.owed.is_finite() { session.owed - f64::from(whole) } else { 0.0 };
            files(*id, session.done..session.done + whole, out);
            session.done += whole;
            count(&fleet.tally.files, u64::from(whole));
            if session.done < session.files && !session.stopped {
                out.push(FromAgent::Progress(session.progress(*id)));
                continue;
            }
            count(&fleet.left, (session.owed * MILLION) as u64);
            let ended = session.end(*id);
            out.push(FromAgent::Ended(ended.clone()));
            session.ended = Some((now, ended));
            fleet.running.fetch_sub(1, Ordering::Relaxed);
            count(&fleet.tally.ended, 1);
        }
    }
}

impl Session {
    fn progress(&self, id: u64) -> Progress {
        Progress {
            session: id,
            generation: self.generation,
            set_bps: self.rate_bps,
            bytes_done: u64::from(self.done) * FILE_BYTES,
            files_done: u64::from(self.done),
            rate_bps: self.rate_bps,
            goodput_bps: self.rate_bps / 100 * 96,
            streams: 4,
            limit: "rate_limit".to_owned(),
            rtt_us: 20_000,
            cwnd_bytes: 4 << 20,
            ..Progress::default()
        }
    }

    fn end(&self, id: u64) -> Ended {
        let bytes = u64::from(self.done) * FILE_BYTES;
        Ended {
            session: id,
            cause: self.stopped.then_some(Cause::Stopped),
            text: String::new(),
            bytes_done: bytes,
            bytes_sent: bytes,
            files_done: u64::from(self.done),
            retransmits: 0,
            ran_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// These files of a session are in place.
fn files(session: u64, numbers: std::ops::Range<u32>, out: &mut Vec<FromAgent>) {
    let done = |number| FileDone { number, size_bytes: None, cause: None, text: String::new(), digest: None };
    let mut from = numbers.start;
    while from < numbers.end {
        let to = numbers.end.min(from + FILES_MAX);
        out.push(FromAgent::Files(Files { session, files: (from..to).map(done).collect() }));
        from = to;
    }
}

async fn say(write: &mut WriteHalf<TlsStream<TcpStream>>, message: &FromAgent) -> std::io::Result<()> {
    write.write_all(&encode(message).map_err(std::io::Error::other)?).await?;
    write.flush().await
}

/// The next message. What was read of one that is not whole stays with the decoder, so it may be given up.
async fn next(read: &mut ReadHalf<TlsStream<TcpStream>>, decoder: &mut Decoder) -> std::io::Result<ToAgent> {
    let mut bytes = [0; 16 << 10];
    loop {
        if let Some(message) = decoder.next_message().map_err(std::io::Error::other)? {
            return message.map_err(std::io::Error::other);
        }
        match read.read(&mut bytes).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => decoder.push(&bytes[..count]),
        }
    }
}
