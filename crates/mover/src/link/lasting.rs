//! A control connection of a session, and the ones after it: when one is cut, the end that connected connects again, both
//! ends say what they have, and the session goes on. It notices nothing but the pause.
//!
//! One task has all of it. While a connection is in force a second one reads from it.

mod connection;
mod pulse;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use proto::attach::{Attach, Binding};
use proto::control::Control;
use proto::frame;
use proto::hello::{SessionId, SessionKey};
use proto::limits::FRAME_MAX_UNAUTHENTICATED;
use proto::replay::{ReceiveBuffer, ReplayError, SendBuffer};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub(crate) use self::connection::Io;
use self::connection::{Arrived, Connection};
pub(super) use self::pulse::Pulse;
use super::{LinkError, lost, read, write};
use crate::way::Way;

/// Between two looks at the clock; also how long the other end waits at most to hear what was taken.
const LOOK: Duration = Duration::from_millis(100);
/// Something is said at least so often, so that the other end knows of the path.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// A connection is cut on which nothing was heard for so long: three words were missed, or were lost and sent again
/// twice.
const SILENCE: Duration = Duration::from_millis(1500);
/// Between the begins of two attempts to connect again that came to nothing.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
/// How long the other end may take to answer that it has the session.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a session is kept whose connection the other end's host has closed: if the program there lives it comes again
/// at once, and if it was killed its next one wants the destination, for which it waits a little longer than this.
pub(super) const CLOSED: Duration = Duration::from_secs(2);
/// Bytes written at once.
const BURST: usize = 64 << 10;

/// A connection with what binds proofs to it.
pub(crate) type Bound = (Box<dyn Io>, Binding);

/// Connects to the other end, to the given address first, however long that takes. It fails only if nobody is there any more.
pub(crate) type Dial =
    Box<dyn Fn(Option<Way>) -> Pin<Box<dyn Future<Output = io::Result<Bound>> + Send>> + Send + Sync>;

/// A connection that the other end opened to take the session up; its proof is right.
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn Io>,
    pub(crate) attach: Attach,
    pub(crate) binding: Binding,
}

/// How the connection after this one comes about.
pub(crate) enum Renewal {
    /// This end connects.
    Dial(Dial),
    /// The other end does.
    Wait(mpsc::Receiver<Arrival>),
}

/// What a session's link is set up with.
pub(crate) struct Lasting {
    pub(crate) session: SessionId,
    pub(crate) key: SessionKey,
    pub(crate) renewal: Renewal,
    /// What was written on the connection already.
    pub(crate) said: Vec<Control>,
    /// How long nothing may be heard before the link is lost.
    pub(crate) timeout: Duration,
}

/// What the task woke up for.
enum Wake {
    Send(Option<Control>),
    Arrived(Arrived),
    Wrote(io::Result<()>),
    /// The session takes another message.
    Room,
    /// The connection is to go over this address.
    Prefer(Way),
    Attach(Arrival),
    Dialed(io::Result<Bound>),
    Look,
}

/// The task of a link.
pub(super) struct Keeper {
    session: SessionId,
    key: SessionKey,
    renewal: Renewal,
    /// Which address the connection is to go over.
    prefer: watch::Receiver<Option<Way>>,
    /// The connection is being moved to that: what the one in force brings is no reason to stay.
    moving: bool,
    timeout: Duration,
    outbox: mpsc::Receiver<Control>,
    inbox: mpsc::Sender<Result<Control, LinkError>>,
    send: SendBuffer,
    receive: ReceiveBuffer<Control>,
    connection: Option<Connection>,
    dialing: JoinSet<io::Result<Bound>>,
    dialed: Option<Instant>,
    attempt: u32,
    heard: Instant,
    wrote: Instant,
    /// The other end's host has closed the connection: when, and how that was seen.
    closed: Option<(Instant, LinkError)>,
    /// The other end said goodbye.
    over: bool,
    /// The session says nothing more.
    closing: bool,
    pulse: Pulse,
}

impl Keeper {
    pub(super) fn new(
        stream: Box<dyn Io>,
        lasting: Lasting,
        outbox: mpsc::Receiver<Control>,
        inbox: mpsc::Sender<Result<Control, LinkError>>,
        prefer: watch::Receiver<Option<Way>>,
    ) -> (Keeper, Pulse) {
        let Lasting { session, key, renewal, said, timeout } = lasting;
        let now = Instant::now();
        let pulse = Pulse::new(now);
        let mut keeper = Keeper {
            session,
            key,
            renewal,
            prefer,
            moving: false,
            timeout,
            outbox,
            inbox,
            send: SendBuffer::default(),
            receive: ReceiveBuffer::default(),
            connection: Some(Connection::new(stream)),
            dialing: JoinSet::new(),
            dialed: None,
            attempt: 0,
            heard: now,
            wrote: now,
            closed: None,
            over: false,
            closing: false,
            pulse: pulse.clone(),
        };
        for message in &said {
            keeper.push(message);
            keeper.send.poll_frame();
        }
        (keeper, pulse)
    }

    /// Keeps the link until the session has closed it, or it is lost.
    pub(super) async fn run(mut self) {
        if let Err(error) = self.keep().await {
            let (inbox, is_heard) = (self.inbox.clone(), !self.closing);
            // Whoever waits for room is to see that it is lost.
            drop(self);
            if is_heard {
                let _ = inbox.send(Err(error)).await;
            }
        }
    }

    async fn keep(&mut self) -> Result<(), LinkError> {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.closing {
                // Nobody listens any more; what comes counts as taken.
                while self.receive.poll_message().is_some() {}
                if self.is_closed() {
                    if let Some(connection) = &mut self.connection {
                        let _ = connection.out.to.shutdown().await;
                    }
                    return Ok(());
                }
            }
            self.fill(false);
            match self.wake(&mut look).await {
                Wake::Send(Some(message)) => self.push(&message),
                Wake::Send(None) => self.closing = true,
                Wake::Arrived(Ok((message, bytes))) => self.hear(message, bytes)?,
                Wake::Arrived(Err(error)) => self.cut(error).await?,
                Wake::Wrote(result) => {
                    if let (Some(connection), Err(_)) = (&mut self.connection, result) {
                        connection.out.broken = true;
                    }
                }
                Wake::Room => {
                    if let Some(message) = self.receive.poll_message() {
                        // Nobody else sends, so there is room; a session that is gone takes nothing.
                        let _ = self.inbox.try_send(Ok(message));
                    }
                }
                Wake::Prefer(to) => self.move_to(to),
                Wake::Attach(arrival) => self.accept(arrival)?,
                Wake::Dialed(Ok(bound)) => self.attach(bound).await?,
                Wake::Dialed(Err(error)) => return Err(LinkError::Lost(error)),
                Wake::Look => self.look(Instant::now())?,
            }
        }
    }

    /// Waits for whatever is next. Cancel safe.
    async fn wake(&mut self, look: &mut tokio::time::Interval) -> Wake {
        let Keeper { outbox, inbox, connection, renewal, dialing, prefer, .. } = self;
        let (frames, out) = match connection {
            Some(Connection { frames, out, .. }) => (Some(frames), Some(out)),
            None => (None, None),
        };
        let arrived = async {
            match frames {
                // A reader that has told why it ended is not asked again.
                Some(frames) => frames.recv().await.unwrap_or_else(|| Err(lost(io::ErrorKind::UnexpectedEof.into()))),
                None => std::future::pending().await,
            }
        };
        let wrote = async {
            match out {
                Some(out) => out.write().await,
                None => std::future::pending().await,
            }
        };
        let attach = async {
            if let Renewal::Wait(arrivals) = renewal
                && let Some(arrival) = arrivals.recv().await
            {
                return arrival;
            }
            std::future::pending().await
        };
        let (may_send, has_mail) = (!self.closing && self.send.has_room(), !self.receive.is_empty());
        tokio::select! {
            message = outbox.recv(), if may_send => Wake::Send(message),
            arrived = arrived => Wake::Arrived(arrived),
            result = wrote => Wake::Wrote(result),
            Ok(_) = inbox.reserve(), if has_mail => Wake::Room,
            Ok(()) = prefer.changed() => {
                let to = *prefer.borrow_and_update();
                to.map_or(Wake::Look, Wake::Prefer)
            }
            arrival = attach => Wake::Attach(arrival),
            Some(dialed) = dialing.join_next(), if !dialing.is_empty() => match dialed {
                Ok(dialed) => Wake::Dialed(dialed),
                // Called off: something was heard after all.
                Err(_) => Wake::Look,
            },
            _ = look.tick() => Wake::Look,
        }
    }

    /// True if nothing is left to say, or nobody to say it to. What the other end was told before it said goodbye itself
    /// need not be acknowledged: it hears nothing more.
    fn is_closed(&self) -> bool {
        let Some(Connection { out, .. }) = &self.connection else { return self.over };
        self.send.is_written() && out.is_idle() && (self.over || self.send.is_empty())
    }

    fn push(&mut self, message: &Control) {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes);
        self.send.push(bytes);
    }

    /// Gives the connection something to write if it has nothing; with `tell` at least what was taken.
    fn fill(&mut self, tell: bool) {
        let Some(Connection { out, .. }) = &mut self.connection else { return };
        if out.waiting() > 0 || out.broken {
            return;
        }
        if tell || self.receive.is_due() || (self.receive.is_untold() && !self.send.is_written()) {
            let mut bytes = Vec::new();
            frame::encode(&Control::Received(self.receive.tell()), &mut bytes);
            out.push(&bytes);
        }
        while out.waiting() < BURST
            && let Some(frame) = self.send.poll_frame()
        {
            out.push(frame);
        }
        if out.waiting() > 0 {
            self.wrote = Instant::now();
        }
    }

    /// A message arrived.
    fn hear(&mut self, message: Control, bytes: usize) -> Result<(), LinkError> {
        self.heard = Instant::now();
        self.pulse.heard(self.heard);
        // The path was only slow.
        if !self.moving {
            self.dialing.abort_all();
        }
        match message {
            Control::Received(received) => self.send.handle_received(received).map_err(breach),
            Control::Attach(_) | Control::Attached(_) => {
                Err(LinkError::Protocol("a session was taken up in the middle of a connection".to_owned()))
            }
            message => {
                let is_last = matches!(message, Control::Bye(_) | Control::Refused(_));
                self.receive.handle_message(message, bytes).map_err(breach)?;
                if is_last {
                    self.over = true;
                    self.fill(true);
                }
                Ok(())
            }
        }
    }

    /// The connection has ended.
    async fn cut(&mut self, error: LinkError) -> Result<(), LinkError> {
        let LinkError::Lost(cause) = error else { return Err(error) };
        self.connection = None;
        if self.over {
            while let Some(message) = self.receive.poll_message() {
                // A session that is gone takes nothing.
                let _ = self.inbox.send(Ok(message)).await;
            }
            return Err(LinkError::Lost(cause));
        }
        tracing::warn!(error = %cause, "the control connection was cut; the session waits for another");
        match &self.renewal {
            Renewal::Dial(_) => self.dial(Instant::now()),
            Renewal::Wait(_) => {
                use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
                let is_closed =
                    matches!(cause.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe);
                self.closed = is_closed.then(|| (Instant::now(), LinkError::Lost(cause)));
            }
        }
        Ok(())
    }

    /// Begins to connect again, if it does not already and the last time is long enough ago.
    fn dial(&mut self, now: Instant) {
        let Renewal::Dial(dial) = &self.renewal else { return };
        let is_soon = self.dialed.is_some_and(|before| now.duration_since(before) < AGAIN);
        if self.dialing.is_empty() && !is_soon {
            self.dialed = Some(now);
            self.dialing.spawn(dial(*self.prefer.borrow()));
        }
    }

    /// Connects anew over an address; until that has come about the connection in force is used, if it is of use.
    fn move_to(&mut self, to: Way) {
        let Renewal::Dial(dial) = &self.renewal else { return };
        self.moving = true;
        self.dialing.abort_all();
        self.dialed = Some(Instant::now());
        self.dialing.spawn(dial(Some(to)));
    }

    /// Takes the session up over a connection that this end has opened.
    async fn attach(&mut self, (mut stream, binding): Bound) -> Result<(), LinkError> {
        // What would still arrive on the connection before is not counted, and comes again.
        self.connection = None;
        self.attempt += 1;
        let attach = Attach::new(&self.key, &binding, self.session, self.attempt, self.receive.detach());
        let exchange = async {
            write(&mut stream, &Control::Attach(attach.clone())).await?;
            read(&mut stream, FRAME_MAX_UNAUTHENTICATED).await
        };
        let answer = match tokio::time::timeout(ANSWER, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::debug!(%error, "taking up the session");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        match answer {
            Control::Attached(attached) if attached.verify(&self.key, &binding, &attach).is_ok() => {
                self.send.handle_attached(attached.received).map_err(breach)?;
                self.resume(stream);
                Ok(())
            }
            Control::Refused(_) => {
                let text = "the other end does not have the session any more";
                Err(LinkError::Lost(io::Error::new(io::ErrorKind::NotConnected, text)))
            }
            _ => Err(LinkError::Protocol("a session was not taken up as it should be".to_owned())),
        }
    }

    /// The other end takes the session up.
    fn accept(&mut self, arrival: Arrival) -> Result<(), LinkError> {
        let Arrival { stream, attach, binding } = arrival;
        self.connection = None;
        let received = self.receive.detach();
        self.send.handle_attached(attach.received).map_err(breach)?;
        let mut answer = Vec::new();
        frame::encode(&Control::Attached(attach.answer(&self.key, &binding, received)), &mut answer);
        self.closed = None;
        self.resume(stream);
        if let Some(connection) = &mut self.connection {
            connection.out.push(&answer);
        }
        Ok(())
    }

    fn resume(&mut self, stream: Box<dyn Io>) {
        let now = Instant::now();
        self.connection = Some(Connection::new(stream));
        self.moving = false;
        (self.heard, self.wrote) = (now, now);
        self.pulse.attached(now);
        tracing::info!("the session goes on over another control connection");
    }

    /// Looks at the clock.
    fn look(&mut self, now: Instant) -> Result<(), LinkError> {
        if self.receive.is_untold() || now.duration_since(self.wrote) >= HEARTBEAT {
            self.fill(true);
        }
        if let Some((at, _)) = &self.closed
            && now.duration_since(*at) > CLOSED
        {
            return Err(self.closed.take().map_or(LinkError::Silent(self.timeout), |(_, error)| error));
        }
        let unread = self.connection.as_ref().is_some_and(|connection| !connection.frames.is_empty());
        let silence = if unread { Duration::ZERO } else { now.duration_since(self.heard) };
        if silence > self.timeout {
            return Err(LinkError::Silent(self.timeout));
        }
        if self.connection.is_none() || silence > SILENCE {
            self.dial(now);
        }
        Ok(())
    }
}

fn breach(error: ReplayError) -> LinkError {
    LinkError::Protocol(error.to_string())
}

#[cfg(test)]
mod tests;
