//! Reaching an agent: TCP, TLS, then Hello and Open together.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use proto::control::{
    Code, Control, Delegated, Direction, Hello, Open, Opened, Refusal, Settings, VERSION_MAX, VERSION_MIN, Welcome,
    Work, negotiate,
};
use proto::frame::fits;
use proto::hello::{SessionId, SessionKey};
use proto::limits::{FRAME_MAX, FRAME_MAX_UNAUTHENTICATED};
use proto::{RelPath, instance, names};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::{TlsConnector, TlsStream};
use units::Marks;

use crate::accept::{CONTROLS_MAX, Hub, accept_all};
use crate::link::lasting::{Lasting, Renewal};
use crate::link::{self, Link, LinkError};
use crate::net::ahead::Ahead;
use crate::net::open::{connect as connect_tcp, rtt};
use crate::numa::Placement;
use crate::redial::Redial;
use crate::request::{Gone, Limits, Reach, Remote};
use crate::server::Counters;
use crate::session::SessionError;
use crate::session::streams::Ways;
use crate::way::Way;

/// How long the handshake after TCP may take, if nobody wants to know sooner.
pub(crate) const SHAKE: Duration = Duration::from_secs(15);
/// Between an attempt to connect to one address of an agent and to the next.
pub(crate) const STAGGER: Duration = Duration::from_millis(300);
/// How long an agent may take to hear a message, and to answer what it is asked.
const ANSWER: Duration = Duration::from_secs(60);
/// Name and version of this program, for logs of the other end.
pub const PROGRAM: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// Open is sent before it is known which version is in force.
const _: () = assert!(VERSION_MIN == VERSION_MAX, "the encoding of Open depends on the answer to Hello");

/// A connection to an agent that is the one meant.
pub struct Connected {
    stream: TlsStream<TcpStream>,
    /// The agent let us in; else Hello is still to be said.
    is_in: bool,
    reached: Reached,
    /// Connections for its first streams.
    ahead: Vec<Ahead>,
    /// Round trip of the connection, if the kernel says it: of its opening, where this end opened it, which nobody's reckoning makes longer.
    rtt: Option<Duration>,
    remote: Remote,
    settings: Settings,
    timeout: Duration,
}

enum Reached {
    Dial { to: Vec<SocketAddr>, from: Vec<IpAddr>, marks: Vec<Marks>, in_order: bool },
    Wait { hub: Arc<Hub>, stop: watch::Sender<bool> },
}

/// What an agent is asked for.
pub struct Ask {
    /// Names the user's command.
    pub job: [u8; 16],
    /// This end's role.
    pub direction: Direction,
    /// What is moved.
    pub work: Work,
    /// How.
    pub settings: Settings,
}

/// A session that is open at the other end.
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// The control connection.
    pub link: Link,
    /// What the agent answered.
    pub opened: Opened,
    /// The session's key.
    pub key: SessionKey,
    /// Round trip of the control connection.
    pub rtt: Option<Duration>,
    /// How its streams come.
    pub ways: Ways,
    /// Where its threads are to run.
    pub placement: Placement,
    /// Kept while the session runs: the port that the agent connects to.
    pub keep: Option<Keep>,
}

/// Keeps the accepting port of a reversed connection open.
pub struct Keep {
    _door: crate::accept::DoorKeeper,
    _stop: watch::Sender<bool>,
}

/// Reaches an agent. Hello goes out with what it is asked for. If that is a session, and no list of names for which the agent has to wait,
/// connections for its streams are made meanwhile (`is_ahead`): over a far path their round trip costs nothing then.
///
/// # Errors
/// When it cannot be reached or is not the one meant.
pub async fn reach(
    remote: &Remote,
    settings: &Settings,
    limits: &Limits,
    is_ahead: bool,
) -> Result<Connected, SessionError> {
    if let Some(why) = remote.gone.as_ref().and_then(|gone| gone.borrow().clone()) {
        return Err(LinkError::Gone(why).into());
    }
    match &remote.reach {
        Reach::Connect(addresses) => {
            let (n, tcp) = first_to_answer(remote, addresses, settings, limits).await?;
            // The address that answered comes first for streams too, and what it was reached from with it: with an
            // address of another network packets may come back over a dead path.
            let (mut to, mut from, mut marks) = (addresses.clone(), limits.bind.clone(), limits.marks.clone());
            to.rotate_left(n);
            from.rotate_left(n % limits.bind.len().max(1));
            marks.rotate_left(n % limits.marks.len().max(1));
            let (rtt, in_order) = (rtt(tcp.as_fd()), limits.in_order);
            let first = if in_order { &to[..1] } else { &to[..] };
            let ways = if is_ahead { Way::each(first, &from, &marks) } else { Vec::new() };
            let ahead = Ahead::dial(&ways, settings, rtt);
            let stream = tls_client(tcp, remote, limits.timeout.min(SHAKE)).await?;
            let reached = Reached::Dial { to, from, marks, in_order };
            Ok(Connected { ahead, rtt, ..Connected::new(stream, reached, remote, settings, limits) })
        }
        Reach::Accept(listener) => {
            let (controls, mut arriving) = mpsc::channel(CONTROLS_MAX);
            let (stop, stopped) = watch::channel(false);
            let hub = Hub::new(16, 256, Arc::new(Counters::default()));
            let (listener, accepting) = (listener.clone(), hub.clone());
            tokio::spawn(async move { accept_all(&listener, accepting, controls, stopped).await });
            let wait = async {
                loop {
                    let mut control = arriving.recv().await?;
                    if control.hello.reverse
                        && verify_slices_are_equal(control.hello.token.as_bytes(), remote.token.as_bytes()).is_ok()
                    {
                        let welcome = Welcome { version: VERSION_MAX, program: PROGRAM.to_owned() };
                        link::write(&mut control.stream, &Control::Welcome(welcome)).await.ok()?;
                        return Some(control.stream);
                    }
                }
            };
            let stream = tokio::select! {
                stream = tokio::time::timeout(limits.timeout, wait) => stream.ok().flatten(),
                why = ended(remote.gone.clone()) => return Err(LinkError::Gone(why).into()),
            };
            let lost = || LinkError::Lost(std::io::Error::other(format!("{} did not connect back", remote.label)));
            Ok(Connected::new(stream.ok_or_else(lost)?, Reached::Wait { hub, stop }, remote, settings, limits))
        }
    }
}

/// Connects to whichever address answers first; each is tried a little after the one before it (RFC 8305), so that a dead
/// path costs little and the order counts.
async fn first_to_answer(
    remote: &Remote,
    addresses: &[SocketAddr],
    settings: &Settings,
    limits: &Limits,
) -> Result<(usize, TcpStream), SessionError> {
    let mut attempts = JoinSet::new();
    for (n, way) in Way::each(addresses, &limits.bind, &limits.marks).into_iter().enumerate() {
        let settings = settings.clone();
        attempts.spawn(async move {
            tokio::time::sleep(STAGGER * n as u32).await;
            (n, connect_tcp(way, &settings, 0).await)
        });
    }
    let mut last = None;
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok((n, Ok(tcp))) => return Ok((n, tcp)),
            Ok((_, Err(error))) => last = Some(error),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    let (kind, why) = last
        .map_or((std::io::ErrorKind::InvalidInput, "no address".to_owned()), |e| (e.kind(), crate::session::chain(&e)));
    Err(LinkError::Lost(std::io::Error::new(kind, format!("{}: {why}", remote.label))).into())
}

/// Why an end is gone that lives only as long as something at this one; for ever if it lives by itself.
async fn ended(gone: Option<Gone>) -> String {
    match gone {
        Some(gone) => link::ended(gone).await,
        None => std::future::pending().await,
    }
}

/// TLS to an agent whose fingerprint the judge accepts.
pub(crate) async fn tls_client(
    tcp: TcpStream,
    remote: &Remote,
    patience: Duration,
) -> Result<TlsStream<TcpStream>, SessionError> {
    let refusal = Arc::new(Mutex::new(None));
    let config = crate::tls::client(remote.judge.clone(), refusal.clone(), &[crate::tls::ALPN], None)
        .map_err(|e| SessionError::Fatal(e.to_string()))?;
    let _ = tcp.set_nodelay(true);
    crate::net::open::try_again_soon(tcp.as_fd());
    let connector = TlsConnector::from(config);
    let name = crate::tls::server_name(remote.expected.as_ref());
    let shaken = tokio::time::timeout(patience, connector.connect(name, tcp)).await;
    match shaken {
        Ok(Ok(stream)) => Ok(TlsStream::Client(stream)),
        Ok(Err(error)) => match refusal.lock().expect("nobody panics with it").take() {
            Some(text) => Err(SessionError::Fatal(text)),
            None => Err(LinkError::Lost(error).into()),
        },
        Err(_) => Err(LinkError::Silent(patience).into()),
    }
}

/// What a connecting end says first.
pub(crate) fn hello(remote: &Remote, reverse: bool) -> Control {
    Control::Hello(Hello {
        versions: (VERSION_MIN, VERSION_MAX),
        token: remote.token.clone(),
        program: PROGRAM.to_owned(),
        reverse,
    })
}

/// Waits for the welcome.
pub(crate) async fn welcome(
    stream: &mut TlsStream<TcpStream>,
    remote: &Remote,
    patience: Duration,
) -> Result<(), SessionError> {
    let answer = tokio::time::timeout(patience, link::read(stream, FRAME_MAX_UNAUTHENTICATED));
    match answer.await.map_err(|_| LinkError::Silent(patience))?? {
        Control::Welcome(welcome) if negotiate((welcome.version, welcome.version)).is_some() => {
            tracing::debug!(peer = welcome.program, version = welcome.version, "welcome");
            Ok(())
        }
        Control::Welcome(welcome) => {
            let text = format!(
                "{} speaks version {} of the protocol, this end {VERSION_MIN} to {VERSION_MAX}",
                remote.label, welcome.version
            );
            Err(LinkError::Refused(Refusal { code: Code::Version, text }).into())
        }
        Control::Refused(why) => Err(LinkError::Refused(why).into()),
        other => Err(LinkError::Protocol(format!("unexpected answer {other:?}")).into()),
    }
}

impl Connected {
    fn new(
        stream: TlsStream<TcpStream>,
        reached: Reached,
        remote: &Remote,
        settings: &Settings,
        limits: &Limits,
    ) -> Connected {
        let (remote, settings) = (remote.clone(), settings.clone());
        let is_in = matches!(reached, Reached::Wait { .. });
        let rtt = rtt(stream.get_ref().0.as_fd());
        Connected { stream, is_in, reached, ahead: Vec::new(), rtt, remote, settings, timeout: limits.timeout }
    }

    /// Asks for a session, for what the names pick; empty is everything. Without names, what the session `says` first goes along: it is there
    /// when the agent is ready for it.
    ///
    /// # Errors
    /// When the agent does not let us in or refuses, or the list of names is too long.
    pub async fn open(mut self, ask: Ask, names: &[RelPath], says: Vec<Control>) -> Result<Session, SessionError> {
        // The connection of a relayed copy carries events: it has no streams, and is not gone on with over another one.
        let lasts = matches!(ask.work, Work::Copy { .. } | Work::Memory { .. });
        let id = self.session_id()?;
        let failed = |e: rustls::Error| SessionError::Fatal(format!("deriving the session's key: {e}"));
        let key = crate::tls::session_key(&self.stream, &id).map_err(failed)?;
        self.ahead.iter_mut().for_each(|ahead| ahead.begin(id, &key));
        let opened = match self.ask(id, ask, names, says.clone()).await? {
            Control::Opened(opened) => opened,
            other => return Err(LinkError::Protocol(format!("unexpected answer {other:?}")).into()),
        };
        let (rtt, mut ahead) = (self.rtt, self.ahead);
        let marks = |s: &Settings| (s.dscp, s.flow_label);
        if marks(&opened.settings) != marks(&self.settings) {
            ahead.clear();
        }
        let gone = self.remote.gone.clone();
        let (ways, renewal, keep) = match self.reached {
            Reached::Dial { mut to, from, marks, in_order } => {
                // Addresses in order are paths: each has the one that it is reached from, and its marks.
                if !in_order {
                    to.extend(opened.addresses.iter().filter_map(|a| a.parse::<SocketAddr>().ok()));
                    let mut seen = std::collections::HashSet::new();
                    to.retain(|a| seen.insert(*a));
                }
                let to = Way::each(&to, &from, &marks);
                let redial = Redial::new(self.remote, &to, self.settings, id, rtt);
                (Ways::Dial { to, ahead, in_order }, redial.renewal(), None)
            }
            Reached::Wait { hub, stop } => {
                let door = hub.door(id, key.clone(), &opened.settings);
                let (arrivals, door) = door.expect("this end has no other session there");
                let keep = Keep { _door: door, _stop: stop };
                (Ways::Wait(arrivals.streams), Renewal::Wait(arrivals.controls), Some(keep))
            }
        };
        let here = || Placement::of_session(self.stream.get_ref().0.local_addr(), &ways, &[]);
        let placement = lasts.then(here).unwrap_or_default();
        let link = if lasts {
            let lasting = Lasting { session: id, key: key.clone(), renewal, said: says, timeout: self.timeout };
            Link::lasting(self.stream, lasting, gone)
        } else {
            Link::new(self.stream)
        };
        Ok(Session { id, link, opened, key, rtt, ways, placement, keep })
    }

    /// Asks for a token that another agent can come with. It lasts as long as the link is open.
    ///
    /// # Errors
    /// When the agent does not let us in or refuses, or the list of names is too long.
    pub async fn delegate(mut self, ask: Ask, names: &[RelPath]) -> Result<(Link, Delegated), SessionError> {
        let id = self.session_id()?;
        match self.ask(id, ask, names, Vec::new()).await? {
            Control::Delegated(delegated) => Ok((Link::new(self.stream), delegated)),
            other => Err(LinkError::Protocol(format!("unexpected answer {other:?}")).into()),
        }
    }

    /// A new number for a session at the accepting end: of an agent, a part of its fingerprint says which one.
    fn session_id(&self) -> Result<SessionId, SessionError> {
        let mut random = [0; 16];
        let filled = sys::random::fill(&mut random);
        filled.map_err(|error| SessionError::Os { doing: "getting random bytes".to_owned(), error })?;
        Ok(crate::tls::peer(&self.stream).map_or(random, |print| instance::session_id(&print.0, random)))
    }

    async fn ask(
        &mut self,
        session: SessionId,
        Ask { job, direction, work, settings }: Ask,
        list: &[RelPath],
        says: Vec<Control>,
    ) -> Result<Control, SessionError> {
        debug_assert!(list.is_empty() || says.is_empty(), "names come right behind Open");
        let refused = |text| LinkError::Refused(Refusal { code: Code::Path, text });
        let names = names::count(list).map_err(|e| refused(e.to_string()))?;
        let message = Control::Open(Open { job, session, direction, work, settings, names });
        if !fits(&message, FRAME_MAX) {
            let text = "the sources are too many for one copy: name the directory that they are in".to_owned();
            return Err(refused(text).into());
        }
        let is_short = fits(&message, FRAME_MAX_UNAUTHENTICATED);
        let mut first = vec![message];
        first.extend(says);
        if !self.is_in {
            // What is long is not said to somebody who may not listen.
            let along = if is_short { std::mem::take(&mut first) } else { Vec::new() };
            self.greet(along).await?;
        }
        for message in first.into_iter().chain(names::pages(list).map(Control::Names)) {
            let written = tokio::time::timeout(ANSWER, link::write(&mut self.stream, &message));
            written.await.map_err(|_| LinkError::Silent(ANSWER))??;
        }
        let answer = tokio::time::timeout(ANSWER, link::read(&mut self.stream, FRAME_MAX));
        match answer.await.map_err(|_| LinkError::Silent(ANSWER))?? {
            Control::Refused(why) => Err(LinkError::Refused(why).into()),
            answer => Ok(answer),
        }
    }

    /// Says hello, with what is asked for right behind it, and waits to be let in.
    async fn greet(&mut self, along: Vec<Control>) -> Result<(), SessionError> {
        let patience = self.timeout.min(SHAKE);
        let mut first = vec![hello(&self.remote, false)];
        first.extend(along);
        link::write_all(&mut self.stream, &first).await?;
        welcome(&mut self.stream, &self.remote, patience).await?;
        self.is_in = true;
        Ok(())
    }
}
