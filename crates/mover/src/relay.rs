//! Copies between two agents, steered by a command that moves no data (third party).
//!
//! The command asks one agent to delegate: for a token that opens this copy and nothing else. It hands that to the
//! other agent, which drives the copy as if a user had started it there, and tells its events back. The token
//! of the one agent is never shown to the other. The source drives; if it cannot reach the destination, the
//! destination does.

pub mod wire;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use proto::control::{Bye, Code, Control, Direction, Peer, Refusal, Relay, Settings, Work};
use tokio::sync::mpsc;

use crate::connect::{Ask, reach};
use crate::control::retry::{Limits, Next, Retry};
use crate::copy::{Early, random};
use crate::event::{Event, Summary};
use crate::link::{Link, LinkError};
use crate::request::{CopyRequest, Fingerprint, Place, Reach, Remote, Steer};
use crate::session::{CLOSE, SessionError, Steering, TICK, Wire, chain, steered};

/// One agent's part.
#[derive(Clone, Copy)]
struct End<'a> {
    remote: &'a Remote,
    paths: &'a [Vec<u8>],
}

/// What the command knows from one attempt to the next.
struct Steered<'a> {
    request: &'a CopyRequest,
    job: [u8; 16],
    /// As asked for, and as changed since.
    settings: Settings,
    /// The role of the agent that drives.
    direction: Direction,
    events: &'a mpsc::Sender<Event>,
    steer: &'a Steering,
    /// Why the source does not drive.
    turned: Option<String>,
    /// The two agents found each other.
    began: bool,
    /// Most bytes that were in place.
    best: u64,
    /// The command was told to stop.
    stopping: bool,
}

/// Copies from one agent to another.
pub(crate) async fn steer(
    request: &CopyRequest,
    job: [u8; 16],
    events: &mpsc::Sender<Event>,
    steer: &Steering,
) -> Result<Summary, Early> {
    let (Place::Agent(source, from), Place::Agent(destination, to)) = (&request.source, &request.destination) else {
        let error = SessionError::Fatal("a relayed copy has an agent at each end".to_owned());
        return Err(Early { error, attempts: 0, begun: false, so_far: Box::default() });
    };
    let ends = (End { remote: source, paths: from }, End { remote: destination, paths: to });
    let begin = Instant::now();
    let settings = request.settings.clone();
    let direction = Direction::Push;
    let mut steered = Steered {
        request,
        job,
        settings,
        direction,
        events,
        steer,
        turned: None,
        began: false,
        best: 0,
        stopping: false,
    };
    let mut retry = Retry::new(Limits::default());
    let (mut tried, mut reconnects) = (0, 0);
    loop {
        let before = steered.best;
        let error = match steered.once(ends).await {
            Ok(summary) => return Ok(finished(summary, begin, reconnects)),
            Err(error) => error,
        };
        if steered.stopping {
            return Err(Early { error: SessionError::Stopped, attempts: 1, begun: true, so_far: Box::default() });
        }
        let error = match steered.turn(error, ends).await {
            Ok(()) => continue,
            Err(error) => error,
        };
        if steered.best > before {
            retry.progressed();
        }
        tried += 1;
        let worth_it = error.is_network() && steered.began;
        let Some(Next::Again { pause, attempt, of }) = worth_it.then(|| retry.failed(random())) else {
            return Err(Early {
                error,
                attempts: tried,
                begun: steered.began,
                so_far: Box::new(Summary { reconnects, ..Summary::default() }),
            });
        };
        reconnects += 1;
        let _ = events.send(Event::Reconnect { attempt, of, why: chain(&error) }).await;
        tokio::time::sleep(pause).await;
    }
}

/// What the driving agent told, as the command's own.
fn finished(mut summary: Summary, begin: Instant, reconnects: u32) -> Summary {
    summary.seconds = begin.elapsed().as_secs_f64();
    summary.reconnects += reconnects;
    summary
}

/// An answer with the name of who gave it.
fn of(remote: &Remote, error: SessionError) -> SessionError {
    match error {
        SessionError::Link(LinkError::Refused(Refusal { code, text })) => {
            LinkError::Refused(Refusal { code, text: format!("{}: {text}", remote.label) }).into()
        }
        other => other,
    }
}

impl Steered<'_> {
    /// The agent that drives, and the other one.
    fn roles<'a>(&self, (source, destination): (End<'a>, End<'a>)) -> (End<'a>, End<'a>) {
        match self.direction {
            Direction::Push => (source, destination),
            Direction::Pull => (destination, source),
        }
    }

    /// After an attempt in which the source could not connect: lets the destination drive. Any other error is given
    /// back; so is one that ends this way too, with what came of the first.
    async fn turn(&mut self, error: SessionError, ends: (End<'_>, End<'_>)) -> Result<(), SessionError> {
        let SessionError::Link(LinkError::Refused(Refusal { code, text })) = error else { return Err(error) };
        let again = |text| Err(LinkError::Refused(Refusal { code, text }).into());
        if let Some(first) = self.turned.as_ref().filter(|_| !self.began) {
            return again(format!("{first}; the other way: {text}"));
        }
        if code != Code::Unreachable || self.began {
            return again(text);
        }
        let (source, destination) = ends;
        let warning = format!("{text}: {} connects to {} instead", destination.remote.label, source.remote.label);
        let _ = self.events.send(Event::Warning { text: warning }).await;
        (self.direction, self.turned) = (Direction::Pull, Some(text));
        Ok(())
    }

    /// One attempt: a token from the one agent, a copy by the other, told to its end.
    async fn once(&mut self, ends: (End<'_>, End<'_>)) -> Result<Summary, SessionError> {
        let (driving, other) = self.roles(ends);
        let Reach::Connect(addresses) = &other.remote.reach else {
            return Err(SessionError::Fatal("both ends of a relayed copy must be agents that listen".to_owned()));
        };
        let limits = &self.request.limits;
        let (link, token, fingerprint) = self.delegation(other).await.map_err(|error| of(other.remote, error))?;
        let mut delegation = Delegation { wire: Some(Wire::new(link, limits.timeout)), lost: false };
        let peer = Peer {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            fingerprint: fingerprint.0,
            token,
            paths: other.paths.to_vec(),
        };
        let relay = Relay {
            paths: driving.paths.to_vec(),
            options: self.request.options.clone(),
            every_file: self.request.every_file,
            peer,
        };
        let ask = self.asks(self.direction, Work::Relay(relay));
        let session = async {
            reach(driving.remote, &self.settings, limits, false).await?.open(ask, &self.request.names, Vec::new()).await
        };
        let told = match session.await {
            Ok(session) => self.listen(session.link, &mut delegation).await,
            Err(error) => Err(error),
        };
        delegation.close().await;
        told.map_err(|error| of(driving.remote, error))
    }

    fn asks(&self, direction: Direction, work: Work) -> Ask {
        Ask { job: self.job, direction, work, settings: self.settings.clone() }
    }

    /// Asks the agent that will be connected to for a token, and notes who it is.
    async fn delegation(&self, end: End<'_>) -> Result<(Link, String, Fingerprint), SessionError> {
        let seen = Arc::new(Mutex::new(None));
        let (judge, note) = (end.remote.judge.clone(), seen.clone());
        let mut remote = end.remote.clone();
        remote.judge = Arc::new(move |found: &Fingerprint| {
            judge(found)?;
            *note.lock().expect("nobody panics with it") = Some(*found);
            Ok(())
        });
        // Only what is read is picked from by names; what is written is all that the source sends.
        let names = if self.direction == Direction::Pull { self.request.names.as_slice() } else { &[] };
        let work = Work::Delegate { paths: end.paths.to_vec(), options: self.request.options.clone() };
        let ask = self.asks(self.direction, work);
        let connected = reach(&remote, &self.settings, &self.request.limits, false).await?;
        let (link, delegated) = connected.delegate(ask, names).await?;
        let fingerprint = seen.lock().expect("nobody panics with it").take();
        let fingerprint =
            fingerprint.ok_or_else(|| SessionError::Fatal("the agent showed no certificate".to_owned()))?;
        Ok((link, delegated.token, fingerprint))
    }

    /// Hands on what the driving agent tells, and to it what the user changes.
    async fn listen(&mut self, link: Link, delegation: &mut Delegation) -> Result<Summary, SessionError> {
        let mut wire = Wire::new(link, self.request.limits.timeout);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut steer = Some(self.steer.clone());
        let mut summary = None;
        let result = loop {
            tokio::select! {
                message = wire.link.recv() => match message {
                    Ok(message) => match self.hear(&mut wire, message, &mut summary).await {
                        Ok(false) => {}
                        Ok(true) => break Ok(()),
                        Err(error) => break Err(error),
                    },
                    Err(error) => break Err(error.into()),
                },
                () = delegation.hear() => {}
                _ = tick.tick() => {
                    let now = Instant::now();
                    delegation.tick(now).await;
                    if let Err(error) = wire.tick(now).await {
                        break Err(error);
                    }
                }
                change = steered(&mut steer) => self.change(&wire, change).await,
            }
        };
        match result {
            Ok(()) => {
                wire.link.close(CLOSE).await;
                let missing = || LinkError::Protocol("a copy ended without a summary".to_owned()).into();
                summary.ok_or_else(missing)
            }
            // Its token may have ended with the connection; with a new one the copy goes on.
            Err(SessionError::Link(LinkError::Refused(why))) if delegation.lost && why.code == Code::Denied => {
                Err(LinkError::Refused(Refusal { code: Code::Stopping, text: why.text }).into())
            }
            Err(error) => Err(error),
        }
    }

    /// True when the copy is over.
    async fn hear(
        &mut self,
        wire: &mut Wire,
        message: Control,
        summary: &mut Option<Summary>,
    ) -> Result<bool, SessionError> {
        match wire.hear(message).await {
            None => Ok(false),
            Some(Control::Event(text)) => {
                for event in wire::unpack(&text).map_err(LinkError::Protocol)? {
                    match event {
                        Event::Summary(told) => *summary = Some(*told),
                        event => self.tell(event).await,
                    }
                }
                Ok(false)
            }
            Some(Control::Bye(Bye::Done)) => Ok(true),
            Some(Control::Bye(Bye::Abandoned(why)) | Control::Refused(why)) => Err(LinkError::Refused(why).into()),
            Some(other) => Err(LinkError::Protocol(format!("unexpected message {other:?}")).into()),
        }
    }

    async fn tell(&mut self, event: Event) {
        match &event {
            Event::Started(_) => self.began = true,
            Event::Progress(progress) => self.best = self.best.max(progress.bytes_done),
            _ => {}
        }
        let _ = self.events.send(event).await;
    }

    async fn change(&mut self, wire: &Wire, change: Steer) {
        match change {
            Steer::Rate(rate_bps) => {
                self.settings.rate_bps = rate_bps;
                wire.link.send(Control::SetRate(rate_bps)).await;
            }
            Steer::Streams(n) => {
                self.settings.streams_max = n;
                wire.link.send(Control::SetStreams(n)).await;
            }
            // The agents of a relayed copy find their paths themselves.
            Steer::Path { .. } => {}
            Steer::Stop => {
                self.stopping = true;
                let text = "the command was told to stop".to_owned();
                wire.link.send(Control::Bye(Bye::Abandoned(Refusal { code: Code::Stopping, text }))).await;
            }
        }
    }
}

/// The connection that keeps a token good. The copy goes on without it, until it has to connect again.
struct Delegation {
    wire: Option<Wire>,
    lost: bool,
}

impl Delegation {
    /// Answers a ping, or notes the loss. If it is cancelled, at most one ping has no answer.
    async fn hear(&mut self) {
        let Some(wire) = &mut self.wire else { return std::future::pending().await };
        match wire.link.recv().await {
            Ok(message) => drop(wire.hear(message).await),
            Err(_) => self.lose(),
        }
    }

    async fn tick(&mut self, now: Instant) {
        if let Some(wire) = &mut self.wire
            && wire.tick(now).await.is_err()
        {
            self.lose();
        }
    }

    fn lose(&mut self) {
        (self.wire, self.lost) = (None, true);
    }

    /// Says that the token is needed no more.
    async fn close(self) {
        if let Some(wire) = self.wire {
            wire.link.send(Control::Bye(Bye::Done)).await;
            wire.link.close(CLOSE).await;
        }
    }
}
