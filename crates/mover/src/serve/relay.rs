//! Driving a copy with another agent for a command that only steers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use proto::RelPath;
use proto::control::{Bye, Code, Control, Direction, Open, Opened, Refusal, Relay, Settings, Work};
use proto::limits::RELAY_ADDRESSES_MAX;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit, mpsc};
use tokio_rustls::TlsStream;
use units::Bytes;

use super::asked::Asked;
use super::{JobKey, Room, Server, busy, refuse};
use crate::accept::Hub;
use crate::copy::{Driver, Early, drive};
use crate::event::{Event, Summary};
use crate::hook::Programs;
use crate::link::{self, Link, LinkError};
use crate::relay::wire::{Lines, line};
use crate::request::{BUFFER_SHARE, CopyRequest, Fingerprint, Limits, Place, Reach, Remote, STREAMS_AUTO_MAX, Steer};
use crate::server::Grant;
use crate::session::{CLOSE, SessionError, Steering, TICK, Wire, chain};

/// Events waiting for the command; at this number the copy waits.
const EVENTS_MAX: usize = 1024;
/// Changes waiting for the copy; further ones are dropped.
const STEERS_MAX: usize = 16;

/// A copy that can begin.
struct Driven<'a> {
    request: CopyRequest,
    /// The other agent proved to be the one meant.
    met: Arc<AtomicBool>,
    /// Where it is, for messages.
    address: SocketAddr,
    room: Room<'a>,
    budget: Budget<'a>,
    _place: SemaphorePermit<'a>,
    _names: OwnedSemaphorePermit,
}

/// Data streams that this end may open, taken from what the agent has.
struct Budget<'a> {
    hub: &'a Hub,
    taken: OwnedSemaphorePermit,
}

impl Budget<'_> {
    /// So many of the streams that are wished for; more are taken if there are.
    fn streams(&mut self, wished: u16) -> u16 {
        let have = |taken: &OwnedSemaphorePermit| u16::try_from(taken.num_permits()).unwrap_or(u16::MAX);
        let more = wished.saturating_sub(have(&self.taken));
        if let Some(permit) = self.hub.reserve(more) {
            self.taken.merge(permit);
        }
        wished.clamp(1, have(&self.taken).max(1))
    }
}

impl Server {
    /// Drives the copy that is asked for, to its end or until the command is gone.
    pub(super) async fn relay(&self, mut stream: TlsStream<TcpStream>, asked: Asked, grant: Arc<dyn Grant>) {
        let job = asked.open.job;
        let mut driven = match self.driven(asked, &grant).await {
            Ok(driven) => driven,
            Err(why) => return refuse(stream, why).await,
        };
        let opened = Opened {
            settings: driven.request.settings.clone(),
            single: false,
            source_key: [0; 16],
            rate_max_bps: self.options.bounds.rate_bps,
            addresses: Vec::new(),
        };
        if link::write(&mut stream, &Control::Opened(opened)).await.is_err() {
            return;
        }
        self.options.counters.relays.fetch_add(1, Ordering::Relaxed);
        let (token, peer) = (grant.name(), driven.address);
        match self.tell_of(Link::new(stream), job, &mut driven).await {
            Ok(summary) => {
                tracing::info!(token, %peer, files = summary.files, failed = summary.files_failed, "drove a copy");
            }
            Err(why) => tracing::warn!(token, %peer, why = why.text, "a copy with another agent ended early"),
        }
    }

    /// Checks what is asked for, as far as that can be done here.
    async fn driven(&self, asked: Asked, grant: &Arc<dyn Grant>) -> Result<Driven<'_>, Refusal> {
        let Asked { open: Open { job, direction, work, settings, .. }, names } = asked;
        let Work::Relay(relay) = work else { return Err(protocol("this is no copy between agents")) };
        if !grant.may_relay() {
            let text = "this agent does not drive copies with another one for this token: ask its operator for one made with `longhaul token new --relay`, and for [relay] allow = true";
            return Err(Refusal { code: Code::Denied, text: text.to_owned() });
        }
        check_paths(&relay, &names.list, direction, grant)?;
        let addresses = addresses(&relay)?;
        let place = self.relays.try_acquire().map_err(|_| busy("this agent drives as many copies as it may"))?;
        let (settings, streams) = self.relayed_settings(settings)?;
        let taken = self.hub.reserve(streams).ok_or_else(|| busy("no data stream is left in the agent's budget"))?;
        let budget = Budget { hub: &self.hub, taken };
        let room = self.room(JobKey::Driven(job)).await?;
        let (remote, met) = remote(&relay, addresses.clone());
        let own = Place::Served(grant.clone(), relay.paths);
        let other = Place::Agent(remote, relay.peer.paths);
        let (source, destination) = if direction == Direction::Push { (own, other) } else { (other, own) };
        let memory = Bytes::new(room.memory.bytes.saturating_mul(BUFFER_SHARE));
        let request = CopyRequest {
            source,
            destination,
            names: names.list,
            options: relay.options,
            settings,
            // The hooks of this agent's own configuration.
            hooks: grant.hooks(),
            limits: Limits { memory, ..self.options.limits.clone() },
            digests_file: None,
            every_file: relay.every_file,
        };
        let address = addresses[0];
        Ok(Driven { request, met, address, room, budget, _place: place, _names: names.memory })
    }

    /// The command's wish within this agent's bounds, and the streams that are set aside for it.
    fn relayed_settings(&self, wished: Settings) -> Result<(Settings, u16), Refusal> {
        let auto = wished.streams_max == 0;
        let wished_max = if auto { STREAMS_AUTO_MAX } else { wished.streams_max };
        let mut settings = self.within(Settings { streams_max: wished_max, ..wished })?;
        let streams = settings.streams_max;
        if auto && streams == STREAMS_AUTO_MAX {
            settings.streams_max = 0;
        }
        Ok((settings, streams))
    }

    /// Runs the copy; the command hears of it, and is heard.
    async fn tell_of(&self, link: Link, job: [u8; 16], driven: &mut Driven<'_>) -> Result<Summary, Refusal> {
        let Driven { request, room, budget, .. } = driven;
        let (tell, mut events) = mpsc::channel(EVENTS_MAX);
        let (steer, changes) = mpsc::channel(STEERS_MAX);
        let changes = Steering::new(changes);
        let programs = Programs::new(request.hooks.clone(), request.options.dry_run);
        let driver = Driver { job, counters: self.options.counters.clone(), stop: room.stop.subscribe(), programs };
        let mut wire = Wire::new(link, self.options.limits.timeout);
        let mut lines = Lines::default();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut work = Box::pin(drive(request, &driver, &tell, &changes));
        let mut gone = false;
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                Some(text) = lines.next(&mut events), if !gone && wire.link.has_room() => {
                    wire.link.send(Control::Event(text)).await;
                }
                message = wire.link.recv(), if !gone => {
                    gone = match message {
                        Ok(message) => !self.steered(&mut wire, message, budget, &steer).await,
                        Err(_) => true,
                    };
                }
                _ = tick.tick(), if !gone => gone = wire.tick(Instant::now()).await.is_err(),
            }
            if gone && !events.is_closed() {
                tracing::info!("the command of a copy is gone: the copy stops");
                // Nobody hears the rest; a closed queue holds nobody up.
                events.close();
                while events.try_recv().is_ok() {}
                room.stop.send_replace(true);
            }
        };
        drop(work);
        drop(tell);
        let result = result.map_err(|early| refusal(&early, driven.address, driven.met.load(Ordering::Relaxed)));
        if !gone {
            // A command that is slow to read still gets all of it.
            let farewell = farewell(&wire, lines, events, &result);
            let told = tokio::time::timeout(self.options.limits.timeout, farewell).await;
            tracing::debug!(in_time = told.is_ok(), "told the end of a copy");
            wire.link.close(CLOSE).await;
        }
        result
    }

    /// Heeds the command; false if it breaks the protocol, which is as if it were gone.
    async fn steered(
        &self,
        wire: &mut Wire,
        message: Control,
        budget: &mut Budget<'_>,
        steer: &mpsc::Sender<Steer>,
    ) -> bool {
        let change = match wire.hear(message).await {
            None => return true,
            Some(Control::SetRate(rate)) => {
                let most = self.options.bounds.rate_bps;
                Steer::Rate(match (rate, most) {
                    (Some(rate), Some(most)) => Some(rate.min(most)),
                    (rate, most) => rate.or(most),
                })
            }
            Some(Control::SetStreams(n)) => Steer::Streams(budget.streams(n)),
            // It waits until what is in flight has landed, and is told.
            Some(Control::Bye(_)) => Steer::Stop,
            Some(_) => return false,
        };
        // A copy that is between two attempts takes a few; who sends more of them loses some.
        if steer.try_send(change).is_err() {
            tracing::debug!("a change of a running copy was dropped");
        }
        true
    }
}

/// Tells what is left to tell, and how the copy ended.
async fn farewell(wire: &Wire, mut lines: Lines, mut events: mpsc::Receiver<Event>, result: &Result<Summary, Refusal>) {
    while let Some(text) = lines.next(&mut events).await {
        wire.link.send(Control::Event(text)).await;
    }
    let bye = match result {
        Ok(summary) => {
            wire.link.send(Control::Event(line(Event::Summary(Box::new(summary.clone()))))).await;
            Bye::Done
        }
        Err(why) => Bye::Abandoned(why.clone()),
    };
    wire.link.send(Control::Bye(bye)).await;
}

fn protocol(text: &str) -> Refusal {
    Refusal { code: Code::Protocol, text: text.to_owned() }
}

/// Says at once what the copy would fail with later.
fn check_paths(relay: &Relay, names: &[RelPath], direction: Direction, grant: &Arc<dyn Grant>) -> Result<(), Refusal> {
    match (direction, relay.paths.as_slice()) {
        (Direction::Push, paths) => {
            // What is asked of a source that names go with, one name asks too.
            let one = names.iter().take(1).cloned().collect();
            crate::ends::granted_sources(&**grant, paths, one).map(drop)
        }
        (Direction::Pull, [path]) => grant.resolve(Direction::Push, path).map(drop),
        (Direction::Pull, _) => Err(Refusal { code: Code::Path, text: "a copy has one destination".to_owned() }),
    }
}

fn addresses(relay: &Relay) -> Result<Vec<SocketAddr>, Refusal> {
    if relay.peer.addresses.is_empty() || relay.peer.addresses.len() > RELAY_ADDRESSES_MAX {
        return Err(protocol(&format!("the other agent has 1 to {RELAY_ADDRESSES_MAX} addresses")));
    }
    let parse = |text: &String| text.parse().map_err(|_| protocol("an address that is none"));
    relay.peer.addresses.iter().map(parse).collect()
}

/// The other agent, and the note that it proved to be itself.
fn remote(relay: &Relay, addresses: Vec<SocketAddr>) -> (Remote, Arc<AtomicBool>) {
    let met = Arc::new(AtomicBool::new(false));
    let (pin, note) = (Fingerprint(relay.peer.fingerprint), met.clone());
    let judge = Arc::new(move |found: &Fingerprint| {
        if *found != pin {
            return Err("another identity".to_owned());
        }
        note.store(true, Ordering::Relaxed);
        Ok(())
    });
    let label = addresses[0].to_string();
    let (reach, token) = (Reach::Connect(addresses), relay.peer.token.clone());
    (Remote { reach, expected: Some(pin), judge, token, label, gone: None }, met)
}

/// Why the copy ended, for the command. Whoever may have copies driven could have this agent knock anywhere, so of
/// whatever did not prove to be the agent that is meant, no more is told than that it did not.
fn refusal(early: &Early, address: SocketAddr, met: bool) -> Refusal {
    if !met && is_of_the_peer(&early.error) {
        let why = if timed_out(&early.error) { "no answer" } else { "refused, or another host answers there" };
        return Refusal { code: Code::Unreachable, text: format!("cannot connect to {address}: {why}") };
    }
    match &early.error {
        SessionError::Link(LinkError::Refused(Refusal { code, text }))
        | SessionError::Abandoned(Refusal { code, text }) => {
            Refusal { code: *code, text: format!("with {address}: {text}") }
        }
        error if error.is_network() => {
            let text = format!("the connection to {address} was lost (after {} attempts)", early.attempts);
            Refusal { code: Code::Stopping, text }
        }
        SessionError::Stopped => {
            Refusal { code: Code::Stopping, text: "stopped; the same command continues where it was".to_owned() }
        }
        error => Refusal { text: chain(error), ..error.refusal() },
    }
}

/// True if this came of connecting and letting in, not of the files of this host.
fn is_of_the_peer(error: &SessionError) -> bool {
    match error {
        SessionError::Link(LinkError::Refused(_)) | SessionError::Stopped | SessionError::Busy(_) => false,
        SessionError::Link(_) | SessionError::Fatal(_) | SessionError::Streams(_) | SessionError::Abandoned(_) => true,
        SessionError::Os { .. } => false,
    }
}

fn timed_out(error: &SessionError) -> bool {
    match error {
        SessionError::Link(LinkError::Silent(_)) => true,
        SessionError::Link(LinkError::Lost(error)) => error.kind() == std::io::ErrorKind::TimedOut,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::time::Duration;

    use super::*;

    fn told(error: SessionError, met: bool) -> (Code, String) {
        let address = "192.0.2.1:22".parse().expect("an address");
        let Refusal { code, text } =
            refusal(&Early { error, attempts: 1, begun: false, so_far: Box::default() }, address, met);
        (code, text)
    }

    fn lost(kind: ErrorKind) -> SessionError {
        LinkError::Lost(Error::new(kind, "SSH-2.0-OpenSSH")).into()
    }

    #[test]
    fn of_who_is_not_meant_nothing_is_told() {
        let refused =
            (Code::Unreachable, "cannot connect to 192.0.2.1:22: refused, or another host answers there".to_owned());
        let kinds = [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable, ErrorKind::InvalidData];
        for kind in kinds {
            assert_eq!(told(lost(kind), false), refused, "{kind}");
        }
        assert_eq!(told(LinkError::Protocol("SSH-2.0-OpenSSH".into()).into(), false), refused);
        assert_eq!(told(SessionError::Fatal("another identity".into()), false), refused);
        let silent = (Code::Unreachable, "cannot connect to 192.0.2.1:22: no answer".to_owned());
        assert_eq!(told(lost(ErrorKind::TimedOut), false), silent);
        assert_eq!(told(LinkError::Silent(Duration::from_secs(15)).into(), false), silent);
    }

    #[test]
    fn what_the_other_agent_says_is_told() {
        let no = Refusal { code: Code::Denied, text: "this token is for one copy".into() };
        let (code, text) = told(LinkError::Refused(no).into(), true);
        assert_eq!((code, text.as_str()), (Code::Denied, "with 192.0.2.1:22: this token is for one copy"));
        assert_eq!(told(lost(ErrorKind::ConnectionReset), true).0, Code::Stopping, "it can be resumed");
        assert_eq!(told(SessionError::Busy("held".into()), true), (Code::Busy, "held".into()));
    }

    #[test]
    fn streams_come_out_of_the_budget_of_the_agent() {
        let hub = Hub::new(1, 8, Arc::default());
        let mut budget = Budget { hub: &hub, taken: hub.reserve(2).expect("there are some") };
        assert_eq!((budget.streams(1), hub.streams_left()), (1, 6));
        assert_eq!((budget.streams(5), hub.streams_left()), (5, 3));
        assert_eq!((budget.streams(9), hub.streams_left()), (5, 3), "not so many are left");
        drop(budget);
        assert_eq!(hub.streams_left(), 8);
    }
}
