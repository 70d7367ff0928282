//! The accepting end: sessions for whoever is let in.

mod asked;
mod delegate;
mod obey;
mod refusal;
mod relay;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::control::{
    Code, Control, CopyOptions, Direction, Opened, Refusal, Settings, VERSION_MAX, Welcome, Work, negotiate,
};
use proto::limits::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, CONGESTION_CHARS_MAX};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsStream;

use self::asked::Asked;
use self::delegate::{Delegations, Terms};
use self::refusal::refuse;
use crate::accept::{CONTROLS_MAX, Controller, DoorKeeper, Hub, accept_all};
use crate::connect::PROGRAM;
use crate::ends::{Sources, Target};
use crate::frame::chunk_max;
use crate::hook::Programs;
use crate::hook::owed::OwedByJob;
use crate::link::lasting::{Lasting, Renewal};
use crate::link::{self, Link, LinkError};
use crate::numa::Placement;
use crate::redial::Redial;
use crate::request::{Reach, Remote};
use crate::server::{Grant, Listener, ServeOptions};
use crate::session::streams::Ways;
use crate::session::{Context, SessionError, destination, memory, source};
use crate::way::Way;

/// How long a peer that was let in may think before it asks for something.
const ASK: Duration = Duration::from_secs(30);
/// How long an earlier session of the same command may take to end.
const SUPERSEDE: Duration = Duration::from_secs(15);
/// Least memory for the buffers of one session; below it the agent says that it is busy.
const SESSION_MEMORY_MIN: u64 = 32 << 20;
/// Most memory for the buffers of one session.
const SESSION_MEMORY_MAX: u64 = 256 << 20;
/// How long sessions may take to finish when the agent stops.
const STOP: Duration = Duration::from_secs(20);

/// Interval lines of a test that nobody reads here.
const INTERVAL: Duration = Duration::from_secs(1);

/// The accepting end's state.
struct Server {
    options: ServeOptions,
    hub: Arc<Hub>,
    sessions: tokio::sync::Semaphore,
    memory_left: Mutex<u64>,
    jobs: Mutex<HashMap<JobKey, Job>>,
    /// Hooks that sessions have left to the next one of the same copy.
    owed: Mutex<OwedByJob>,
    /// Copies that this agent may drive at once.
    relays: tokio::sync::Semaphore,
    delegations: Delegations,
    /// Connections at once that are refused before they are let in.
    turned_away: tokio::sync::Semaphore,
    /// Memory for lists of names, KiB.
    names: Arc<tokio::sync::Semaphore>,
    stop: watch::Receiver<bool>,
}

/// The driver, for an agent that connected back to it.
struct Back {
    remote: Remote,
    /// Its addresses, the one that answered first.
    to: Vec<SocketAddr>,
}

/// A command's copy has one session at each agent; where one agent is both ends and drives, these are apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum JobKey {
    /// Data move to or from a driver.
    Moved([u8; 16]),
    /// This agent drives.
    Driven([u8; 16]),
}

/// Who was let in.
struct Admitted {
    grant: Arc<dyn Grant>,
    /// With a delegated token: the one copy that it is for.
    terms: Option<Terms>,
    /// What it came with, for what is delegated further.
    token: String,
    from: SocketAddr,
}

/// A session that runs for a command.
struct Job {
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

/// Serves a listener until `stop` turns true; then sessions finish what is in flight.
///
/// # Errors
/// When the socket is of no use.
pub async fn serve(listener: Listener, options: ServeOptions, stop: watch::Receiver<bool>) -> std::io::Result<()> {
    let bounds = options.bounds;
    let hub = Hub::new(bounds.handshakes, bounds.streams, options.counters.clone());
    let (controls, mut arriving) = mpsc::channel(CONTROLS_MAX);
    let server = Arc::new(Server::new(options, hub.clone(), bounds.sessions, stop.clone()));
    let accepting = tokio::spawn({
        let stop = stop.clone();
        async move { accept_all(&listener, hub, controls, stop).await }
    });
    let mut running = tokio::task::JoinSet::new();
    while let Some(control) = arriving.recv().await {
        while running.try_join_next().is_some() {}
        let server = server.clone();
        running.spawn(async move { server.control(control).await });
    }
    // The channel closes when accepting has ended; what runs has heard of the stop too.
    let _ = tokio::time::timeout(STOP, async { while running.join_next().await.is_some() {} }).await;
    accepting.await.map_err(std::io::Error::other)?
}

impl Server {
    fn new(options: ServeOptions, hub: Arc<Hub>, sessions: usize, stop: watch::Receiver<bool>) -> Server {
        Server {
            hub,
            sessions: tokio::sync::Semaphore::new(sessions),
            memory_left: Mutex::new(options.bounds.memory_bytes),
            jobs: Mutex::default(),
            owed: Mutex::default(),
            // A copy from this agent to itself takes two places: with half of them there is one for its session.
            relays: tokio::sync::Semaphore::new((sessions / 2).max(1)),
            delegations: Delegations::default(),
            turned_away: tokio::sync::Semaphore::new(options.bounds.handshakes),
            names: Arc::new(tokio::sync::Semaphore::new(asked::NAMES_KIB)),
            stop,
            options,
        }
    }

    /// Lets in a token of the agent, or one that was delegated by whoever holds such a token still.
    fn admit(&self, token: String, from: SocketAddr) -> Result<Admitted, Refusal> {
        let (token, terms) = match self.delegations.find(&token, Instant::now()) {
            Some((by, terms)) => (by, Some(terms)),
            None => (token, None),
        };
        let grant = self.options.policy.admit(&token, from)?;
        Ok(Admitted { grant, terms, token, from })
    }

    async fn control(self: Arc<Server>, control: Controller) {
        let Controller { mut stream, hello, from } = control;
        let admitted = match negotiate(hello.versions) {
            None => Err(Refusal {
                code: Code::Version,
                text: format!("this agent speaks version {VERSION_MAX} of the protocol"),
            }),
            Some(version) => self.admit(hello.token, from).map(|admitted| (admitted, version)),
        };
        let (admitted, version) = match admitted {
            Ok(admitted) => admitted,
            Err(why) => {
                self.options.counters.refused.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%from, why = why.text, "not let in");
                return self.turn_away(stream, why).await;
            }
        };
        let welcome = Welcome { version, program: PROGRAM.to_owned() };
        if link::write(&mut stream, &Control::Welcome(welcome)).await.is_err() {
            return;
        }
        let asked = match asked::read(&mut stream, &self.names).await {
            Ok(asked) => asked,
            Err(Some(why)) => return refuse(stream, why).await,
            Err(None) => return tracing::info!(%from, "nothing was asked for"),
        };
        let open = &asked.open;
        let (token, delegated) = (admitted.grant.name(), admitted.terms.is_some());
        tracing::info!(%from, token, delegated, direction = ?open.direction, "session asked for");
        if admitted.terms.is_some() && admitted.terms != delegate::terms(&asked) {
            return refuse(stream, delegate::other_terms()).await;
        }
        match &open.work {
            Work::Delegate { .. } => self.delegate(stream, &asked, admitted).await,
            Work::Relay(_) => self.relay(stream, asked, admitted.grant).await,
            Work::Copy { .. } | Work::Memory { .. } => self.session(stream, asked, admitted.grant, None).await,
        }
    }

    /// Refuses whoever is not let in. It is waited for only so many of them to hear it.
    async fn turn_away(&self, mut stream: TlsStream<TcpStream>, why: Refusal) {
        match self.turned_away.try_acquire() {
            Ok(_place) => refuse(stream, why).await,
            Err(_) => _ = link::write(&mut stream, &Control::Refused(why)).await,
        }
    }

    /// One session, from what was asked for to its end.
    async fn session(&self, mut stream: TlsStream<TcpStream>, asked: Asked, grant: Arc<dyn Grant>, dial: Option<Back>) {
        let job = asked.open.job;
        let room = match self.room(JobKey::Moved(job)).await {
            Ok(room) => room,
            Err(why) => return refuse(stream, why).await,
        };
        let standing = grant.standing();
        match self.prepare(&stream, asked, grant, room.memory.bytes, room.stop.subscribe(), dial) {
            Err(why) => refuse(stream, why).await,
            Ok(mut prepared) => {
                let _obeys = standing.map(|standing| {
                    let (steering, obeys) = obey::begin(standing, room.stop.clone());
                    prepared.context.steer = Some(steering);
                    obeys
                });
                let owed = prepared.context.programs.owed.clone();
                if link::write(&mut stream, &Control::Opened(prepared.opened.clone())).await.is_ok() {
                    prepared.run(stream).await;
                }
                self.owed.lock().expect("no panic under the lock").keep(job, owed);
            }
        }
    }

    /// Takes what a session needs of the agent; what is left of an earlier one of the same job ends first.
    async fn room(&self, key: JobKey) -> Result<Room<'_>, Refusal> {
        // What it had, its place among them, is for the one that comes after it.
        self.supersede(&key).await;
        let place = self.sessions.try_acquire().map_err(|_| busy("this agent runs as many sessions as it may"))?;
        let memory =
            Memory::take(&self.memory_left).ok_or_else(|| busy("this agent has no memory left for another session"))?;
        let (stop, _) = watch::channel(*self.stop.borrow());
        let (ended, has_ended) = watch::channel(false);
        self.jobs.lock().expect("no panic under the lock").insert(key, Job { stop: stop.clone(), ended: has_ended });
        let forward = tokio::spawn(forward_stop(self.stop.clone(), stop.clone()));
        let counters = &self.options.counters;
        counters.sessions.fetch_add(1, Ordering::Relaxed);
        counters.sessions_active.fetch_add(1, Ordering::Relaxed);
        Ok(Room { server: self, key, memory, stop, ended, forward, _place: place })
    }

    /// Ends what is left of an earlier session of the same command, whose connection was lost.
    async fn supersede(&self, job: &JobKey) {
        let earlier = self.jobs.lock().expect("no panic under the lock").remove(job);
        if let Some(mut earlier) = earlier {
            let _ = earlier.stop.send(true);
            let _ = tokio::time::timeout(SUPERSEDE, earlier.ended.wait_for(|e| *e)).await;
        }
    }

    /// Checks what is asked for and makes everything ready that can fail.
    fn prepare(
        &self,
        stream: &TlsStream<TcpStream>,
        Asked { open, names }: Asked,
        grant: Arc<dyn Grant>,
        memory_bytes: u64,
        stop: watch::Receiver<bool>,
        dial: Option<Back>,
    ) -> Result<Prepared, Refusal> {
        let failed = |text: String| Refusal { code: Code::Failed, text };
        let session = open.session;
        let key = crate::tls::session_key(stream, &session).map_err(|e| failed(e.to_string()))?;
        let rate_max_bps = lesser(self.options.bounds.rate_bps, grant.rate_bps());
        let mut settings = self.within(open.settings)?;
        settings.chunk_size = settings.chunk_size.min(chunk_max(memory_bytes));
        let settings = Settings { rate_bps: lesser(settings.rate_bps, rate_max_bps), ..settings };
        let mut opened = Opened {
            settings: settings.clone(),
            single: false,
            source_key: [0; 16],
            addresses: self.options.addresses.clone(),
            rate_max_bps,
        };
        let programs = match &open.work {
            Work::Copy { options, .. } => {
                let owed = self.owed.lock().expect("no panic under the lock").take(open.job);
                Programs::going_on(grant.hooks(), options.dry_run, owed)
            }
            Work::Memory { .. } | Work::Relay(_) | Work::Delegate { .. } => Programs::default(),
        };
        let work = match open.work {
            Work::Memory { duration_ms } => {
                if !grant.may_test() {
                    return Err(Refusal {
                        code: Code::Denied,
                        text: "this token does not allow throughput tests".to_owned(),
                    });
                }
                Ready::Memory { push: open.direction == Direction::Push, duration: Duration::from_millis(duration_ms) }
            }
            Work::Copy { paths, options, single, source_key, reorder_chunks } => match open.direction {
                Direction::Pull => {
                    let sources = crate::ends::granted_sources(&*grant, &paths, names.list)?;
                    (opened.single, opened.source_key) = (sources.single, sources.key);
                    // A window of nothing would never move.
                    let reorder_chunks = reorder_chunks.map(|chunks| chunks.max(1));
                    Ready::Source { sources, options, reorder_chunks }
                }
                Direction::Push => {
                    let [path] = paths.as_slice() else {
                        return Err(Refusal { code: Code::Path, text: "a push has one destination".to_owned() });
                    };
                    let target = crate::ends::granted_target(&grant, path, single, options.dry_run)?;
                    Ready::Target { target, options, single, source_key, holder: holder(&grant.name()) }
                }
            },
            Work::Relay(_) | Work::Delegate { .. } => {
                let text = "whoever started this agent over ssh drives the copy itself".to_owned();
                return Err(Refusal { code: Code::Denied, text });
            }
        };
        let (ways, renewal, door) = match dial {
            Some(Back { remote, to }) => {
                let plain = crate::net::open::plain_settings();
                let rtt = crate::net::open::rtt(stream.get_ref().0.as_fd());
                // It was not connected from one of these either.
                let redial = Redial::new(remote, &Way::each(&to, &[], &[]), plain, session, rtt);
                let to = Way::each(&to, &self.options.limits.bind, &[]);
                (Ways::Dial { to, ahead: Vec::new(), in_order: false }, redial.renewal(), None)
            }
            None => {
                let door = self.hub.door(session, key.clone(), &settings);
                let (arrivals, door) = door.ok_or_else(|| {
                    let text = "another session has the number that was asked for".to_owned();
                    Refusal { code: Code::Protocol, text }
                })?;
                (Ways::Wait(arrivals.streams), Renewal::Wait(arrivals.controls), Some(door))
            }
        };
        let announced = &self.options.addresses;
        let placement = Placement::of_session(stream.get_ref().0.local_addr(), &ways, announced);
        let context = Context {
            link: Link::closed(),
            session,
            key,
            streams_max: settings.streams_max,
            auto_streams: false,
            settings,
            rate_max_bps,
            rtt: None,
            ways,
            placement,
            memory_bytes,
            limits: self.options.limits.clone(),
            driver: false,
            events: None,
            started: None,
            steer: None,
            stop,
            counters: self.options.counters.clone(),
            programs,
        };
        Ok(Prepared { opened, context, renewal, work, _door: door, _names: names.memory })
    }

    /// The driver's wish within this agent's bounds.
    fn within(&self, mut settings: Settings) -> Result<Settings, Refusal> {
        let bounds = &self.options.bounds;
        if settings.congestion.as_ref().is_some_and(|name| name.len() > CONGESTION_CHARS_MAX) {
            let text = format!("a congestion control has a name of at most {CONGESTION_CHARS_MAX} characters");
            return Err(Refusal { code: Code::Protocol, text });
        }
        settings.chunk_size = settings.chunk_size.clamp(CHUNK_SIZE_MIN, CHUNK_SIZE_MAX).next_power_of_two();
        let left = u16::try_from(self.hub.streams_left()).unwrap_or(u16::MAX);
        if left == 0 {
            return Err(Refusal {
                code: Code::Busy,
                text: "no data stream is left in the agent's budget: try again later".to_owned(),
            });
        }
        settings.streams_max = settings.streams_max.clamp(1, left);
        if let Some(most) = bounds.rate_bps {
            settings.rate_bps = Some(settings.rate_bps.map_or(most, |r| r.min(most)));
        }
        Ok(settings)
    }
}

/// Connects to a driver that waits for this agent (it was started over ssh and must connect back), and serves
/// the one session that is asked for.
///
/// # Errors
/// When the driver cannot be reached or is not the one meant.
pub async fn serve_connect(
    remote: Remote,
    options: ServeOptions,
    stop: watch::Receiver<bool>,
) -> Result<(), SessionError> {
    let Reach::Connect(addresses) = remote.reach.clone() else {
        return Err(SessionError::Fatal("no address to connect to".to_owned()));
    };
    let mut reached = None;
    let mut why = String::new();
    for (n, address) in addresses.iter().enumerate() {
        match crate::net::open::connect(Way::to(*address), &crate::net::open::plain_settings(), 0).await {
            Ok(tcp) => {
                reached = Some((n, tcp));
                break;
            }
            Err(error) => why = crate::session::chain(&error),
        }
    }
    let patience = options.limits.timeout.min(crate::connect::SHAKE);
    let Some((n, tcp)) = reached else { return Err(SessionError::Streams(why)) };
    let mut stream = crate::connect::tls_client(tcp, &remote, patience).await?;
    link::write(&mut stream, &crate::connect::hello(&remote, true)).await?;
    crate::connect::welcome(&mut stream, &remote, patience).await?;
    let memory = Arc::new(tokio::sync::Semaphore::new(asked::NAMES_KIB));
    let asked = match asked::read(&mut stream, &memory).await {
        Ok(asked) => asked,
        Err(Some(why)) => return Err(LinkError::Refused(why).into()),
        Err(None) => return Err(SessionError::Fatal("nothing was asked for".to_owned())),
    };
    let from = addresses[n];
    let grant = options.policy.admit(&remote.token, from).map_err(SessionError::Abandoned)?;
    let bounds = options.bounds;
    let hub = Hub::new(bounds.handshakes, bounds.streams, options.counters.clone());
    let server = Server::new(options, hub, 1, stop);
    let mut to = addresses;
    to.swap(0, n);
    server.session(stream, asked, grant, Some(Back { remote, to })).await;
    Ok(())
}

fn busy(text: &str) -> Refusal {
    Refusal { code: Code::Busy, text: format!("{text}: try again later") }
}

/// Who holds a lock, for others who find it.
pub(crate) fn holder(name: &str) -> String {
    format!("{name} on {} (process {})", sys::process::hostname(), std::process::id())
}

async fn forward_stop(mut from: watch::Receiver<bool>, to: watch::Sender<bool>) {
    crate::session::stopped(&mut from).await;
    let _ = to.send(true);
}

/// What a session takes of the agent, given back when it is dropped.
struct Room<'a> {
    server: &'a Server,
    key: JobKey,
    memory: Memory<'a>,
    /// Says that this session is to stop.
    stop: watch::Sender<bool>,
    ended: watch::Sender<bool>,
    forward: JoinHandle<()>,
    _place: tokio::sync::SemaphorePermit<'a>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.forward.abort();
        self.server.options.counters.sessions_active.fetch_sub(1, Ordering::Relaxed);
        {
            let mut jobs = self.server.jobs.lock().expect("no panic under the lock");
            // One that outlasted the patience of its successor is not to take that one's entry along.
            if jobs.get(&self.key).is_some_and(|job| job.stop.same_channel(&self.stop)) {
                jobs.remove(&self.key);
            }
        }
        self.ended.send_replace(true);
    }
}

/// The lesser of two bounds.
fn lesser(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Memory lent to a session.
struct Memory<'a> {
    left: &'a Mutex<u64>,
    bytes: u64,
}

impl<'a> Memory<'a> {
    fn take(left: &'a Mutex<u64>) -> Option<Memory<'a>> {
        let mut free = left.lock().expect("no panic under the lock");
        // Half of what is left, so that a first session does not starve the second.
        let bytes = (*free / 2).clamp(SESSION_MEMORY_MIN, SESSION_MEMORY_MAX);
        *free = free.checked_sub(bytes)?;
        Some(Memory { left, bytes })
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        *self.left.lock().expect("no panic under the lock") += self.bytes;
    }
}

/// A session that can begin.
struct Prepared {
    opened: Opened,
    context: Context,
    renewal: Renewal,
    work: Ready,
    _door: Option<DoorKeeper>,
    _names: OwnedSemaphorePermit,
}

enum Ready {
    Source { sources: Sources, options: CopyOptions, reorder_chunks: Option<u32> },
    Target { target: Target, options: CopyOptions, single: bool, source_key: [u8; 16], holder: String },
    Memory { push: bool, duration: Duration },
}

impl Prepared {
    async fn run(self, stream: TlsStream<TcpStream>) {
        let mut context = self.context;
        let (session, key, timeout) = (context.session, context.key.clone(), context.limits.timeout);
        let lasting = Lasting { session, key, renewal: self.renewal, said: Vec::new(), timeout };
        context.link = Link::lasting(stream, lasting, None);
        let counters = context.counters.clone();
        let (result, end) = match self.work {
            Ready::Source { sources, options, reorder_chunks } => {
                let Sources { root, specs, .. } = sources;
                let from = source::From::Tree { root, specs, early: None };
                let setup = source::Setup { context, from, options, reorder_chunks, every_file: false };
                let (result, end) = source::run(setup).await;
                counters.bytes_out.fetch_add(end.outlook.bytes, Ordering::Relaxed);
                (result, end)
            }
            Ready::Target { target, options, single, source_key, holder } => {
                let Target { root, is_new, single_name, label, is_shared } = target;
                let setup = destination::Setup {
                    context,
                    root,
                    root_is_new: is_new,
                    label,
                    single_name,
                    is_shared,
                    single,
                    options,
                    source_key,
                    holder,
                    every_file: false,
                };
                destination::run(setup).await
            }
            // The driver's direction is its own role: if it pushes, this end receives.
            Ready::Memory { push: true, duration } => memory::receive(context, duration, INTERVAL, "forward").await,
            Ready::Memory { push: false, duration } => memory::send(context, duration, INTERVAL, "forward").await,
        };
        counters.retransmits.fetch_add(end.outlook.sample.retransmits, Ordering::Relaxed);
        match result {
            Ok(()) => tracing::info!(
                bytes = end.outlook.bytes,
                files = end.tally.placed,
                failed = end.tally.failed,
                "session ended"
            ),
            Err(error) => tracing::warn!(error = crate::session::chain(&error), "session ended early"),
        }
    }
}
