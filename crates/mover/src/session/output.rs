//! The destination end of a copy to standard output: one file, in order, kept nowhere.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use proto::control::{Bye, Control, Outcome, StorageIo, Telemetry, ToDestination, ToSource};
use proto::destination::{Action, Decision, Destination};
use proto::{ChunkSet, Entry, EntryKind, RelPath};
use tokio::sync::mpsc;

use super::receiving::{Queues, Receiving, wakers};
use super::source::End;
use super::tally::Tally;
use super::{CLOSE, Context, NEWS_MAX, SECOND, SessionError, TICK, Wire, steered, stopped};
use crate::control::attribution::Limit;
use crate::event::Event;
use crate::frame::Pool;
use crate::io::busy::Busy;
use crate::io::output::{OutputWriter, REORDER_CHUNKS, Shared};
use crate::io::write::WriteEvent;
use crate::link::LinkError;
use crate::net::NetEvent;
use crate::report::Outlook;
use crate::request::Steer;

/// What a session that writes standard output is given beside the context.
pub struct Setup {
    /// Connection and bounds.
    pub context: Context,
    /// Where the bytes go.
    pub output: OwnedFd,
    /// Report every entry.
    pub every_file: bool,
}

/// Copies one file to a pipe.
pub async fn run(setup: Setup) -> (Result<(), SessionError>, End) {
    let Setup { mut context, output, every_file } = setup;
    let mut end = End { tally: Tally::default(), outlook: Outlook::new(&mut context) };
    end.outlook.io = Some(StorageIo::Pipe);
    let chunk_size = context.settings.chunk_size;
    // What waits for its turn must leave frames for what is due.
    let frames = (context.memory_bytes / u64::from(chunk_size)).clamp(2 * u64::from(REORDER_CHUNKS), 4096) as usize;
    let placement = context.placement.clone();
    let made = wakers(&placement)
        .and_then(|wakers| Ok((Pool::new(frames, chunk_size as usize, wakers.clone(), placement)?, wakers)));
    let (pool, wakers) = match made {
        Ok(made) => made,
        Err(error) => return (Err(SessionError::Os { doing: "getting memory for buffers".to_owned(), error }), end),
    };
    let (tell, written) = mpsc::channel(NEWS_MAX);
    let size = AtomicU64::new(u64::MAX);
    let shared = Arc::new(Shared { pool: pool.clone(), events: tell, chunk_size, size, busy: Busy::default() });
    let (frames, queue) = bounded(pool.count());
    let writer = OutputWriter::new(shared.clone(), output);
    // Nobody waits for this thread's end: it may hang on a reader that does not read.
    let spawned = pool.placement().spawn("lh-output".to_owned(), move || writer.run(&queue));
    if let Err(error) = spawned {
        return (Err(SessionError::Os { doing: "starting the thread that writes".to_owned(), error }), end);
    }
    let config = proto::destination::Config { chunk_size, delete: false, links: false, dry_run: false };
    let wire = Wire::of(&mut context);
    let queues = Queues { chunks: frames.clone(), batches: frames, backlog: None };
    let receiving = Receiving::new(&mut context, pool, wakers, queues);
    let mut session = Session {
        machine: Destination::new(config),
        wire,
        receiving,
        written,
        shared,
        entry: None,
        context,
        every_file,
        last_second: Instant::now(),
        bye: None,
    };
    let result = session.run(&mut end).await;
    session.close(&result, &mut end).await;
    (result, end)
}

struct Session {
    machine: Destination,
    wire: Wire,
    receiving: Receiving,
    written: mpsc::Receiver<WriteEvent>,
    shared: Arc<Shared>,
    /// The one file, by its index.
    entry: Option<(u64, Entry)>,
    context: Context,
    every_file: bool,
    last_second: Instant,
    bye: Option<Bye>,
}

impl Session {
    async fn run(&mut self, end: &mut End) -> Result<(), SessionError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut stop = self.context.stop.clone();
        let mut steer = self.context.steer.take();
        loop {
            self.advance(end).await?;
            if self.machine.is_done() {
                return Ok(());
            }
            if let Some(Bye::Abandoned(why)) = &self.bye {
                return Err(SessionError::Abandoned(why.clone()));
            }
            tokio::select! {
                message = self.wire.link.recv() => self.hear(message?, end).await?,
                Some(event) = self.written.recv() => self.wrote(event, end)?,
                Some(event) = self.receiving.events.recv() => self.network(event).await,
                opened = self.receiving.streams.next() => self.receiving.add(opened)?,
                _ = tick.tick() => self.tick(end).await?,
                change = steered(&mut steer) => self.steer(change).await?,
                () = stopped(&mut stop) => return Err(SessionError::Stopped),
            }
        }
    }

    async fn advance(&mut self, end: &mut End) -> Result<(), SessionError> {
        while let Some(action) = self.machine.poll_action() {
            self.act(action)?;
        }
        while self.wire.link.has_room() {
            let Some(message) = self.machine.poll_message() else { break };
            match &message {
                ToSource::Repair(_) => end.tally.repaired += 1,
                ToSource::Done(done) => {
                    for (index, outcome) in done {
                        self.finished(*index, outcome, end).await;
                    }
                }
                _ => {}
            }
            self.wire.link.send(Control::Destination(message)).await;
        }
        Ok(())
    }

    async fn finished(&mut self, index: u64, outcome: &Outcome, end: &mut End) {
        let Some((_, entry)) = self.entry.take_if(|(own, _)| *own == index) else { return };
        if let Some(event) = end.tally.finished(index, &entry, outcome, false, self.every_file) {
            self.tell(Event::File(event)).await;
        }
    }

    fn act(&mut self, action: Action) -> Result<(), SessionError> {
        match action {
            Action::Decide { index, entry } => {
                let decision = self.decide(index, &entry);
                self.machine.handle_decision(index, decision);
            }
            // What is written cannot be taken back.
            Action::Discard { .. } => {
                return Err(SessionError::Fatal(
                    "the file changed while it was read or could not be read, and part of it may be on standard output: copy it again".to_owned(),
                ));
            }
            Action::Publish { index, .. } | Action::Refresh { index } | Action::CloseDir { index, .. } => {
                self.machine.handle_published(index, Outcome::Placed);
            }
            Action::Delete { .. } => {}
        }
        Ok(())
    }

    fn decide(&mut self, index: u64, entry: &Entry) -> Decision {
        let refused =
            |what: &str| Decision::Settled(Outcome::Failed(format!("{what}: standard output takes one file")));
        match &entry.kind {
            EntryKind::File(_) | EntryKind::Stream => {
                if self.entry.as_ref().is_some_and(|(own, _)| *own != index) {
                    return refused("a second file");
                }
                self.shared.size.store(entry.size().unwrap_or(u64::MAX), Ordering::Release);
                Decision::Receive { have: ChunkSet::new(), disk: 0 }
            }
            EntryKind::Dir => refused("a directory"),
            EntryKind::Symlink { .. } => refused("a symbolic link is copied as such; name the file that it leads to"),
            EntryKind::HardLink { .. } => refused("a hard link"),
        }
    }

    async fn hear(&mut self, message: Control, end: &mut End) -> Result<(), SessionError> {
        let Some(message) = self.wire.hear(message).await else { return Ok(()) };
        match message {
            Control::Source(message) => {
                match &message {
                    ToDestination::Page { first, entries } => {
                        for (index, entry) in (*first..).zip(entries) {
                            end.tally.entry(entry);
                            self.entry.get_or_insert_with(|| (index, entry.clone()));
                        }
                    }
                    ToDestination::Problem { path, why } => {
                        let event = end.tally.problem(path, why.clone());
                        self.tell(Event::File(event)).await;
                    }
                    ToDestination::Warning(text) => self.tell(Event::Warning { text: text.clone() }).await,
                    ToDestination::Digest { path, size, value } => {
                        self.digest(path, *size, value).await;
                    }
                    ToDestination::ScanDone { .. } => end.tally.scanned = true,
                    // All bytes go through a pipe.
                    ToDestination::Holes { .. } => {
                        return Err(LinkError::Protocol("holes for a pipe".to_owned()).into());
                    }
                    _ => {}
                }
                self.machine.handle_message(message).map_err(|e| LinkError::Protocol(e.to_string()))?;
            }
            Control::Bye(bye) => self.bye = Some(bye),
            Control::Refused(why) => return Err(LinkError::Refused(why).into()),
            Control::SetStreams(n) => self.receiving.set_streams(n),
            Control::StreamLost(id) => self.receiving.abandon(id),
            Control::SetRate(_) => {}
            Control::Congestion(congestion) => end.outlook.congestion_told(&congestion).await?,
            other => return Err(LinkError::Protocol(format!("unexpected message {other:?}")).into()),
        }
        Ok(())
    }

    fn wrote(&mut self, event: WriteEvent, end: &mut End) -> Result<(), SessionError> {
        match event {
            WriteEvent::Landed { parcel, items } => {
                let chunk_size = u64::from(self.context.settings.chunk_size);
                for (index, generation, offset, file_end) in items {
                    let size = self.machine.entry(index).and_then(Entry::size).unwrap_or(u64::MAX);
                    let begin = offset / chunk_size * chunk_size;
                    end.tally.landed(index, size.saturating_sub(begin).min(chunk_size));
                    self.machine.handle_landed(index, generation, offset, file_end);
                }
                self.machine.handle_parcel(parcel);
                self.receiving.forget(parcel);
                Ok(())
            }
            WriteEvent::Failed { why, .. } => Err(SessionError::Fatal(why)),
        }
    }

    async fn network(&mut self, event: NetEvent) {
        match event {
            NetEvent::Closed { id, why, arrived } => {
                self.receiving.closed(id, why.as_deref());
                self.wire.link.send(Control::StreamEnded { stream: id, arrived }).await;
            }
            NetEvent::Corrupt { parcel, .. } => self.machine.handle_corrupt(parcel),
            NetEvent::Sending { .. } => {}
        }
    }

    async fn tick(&mut self, end: &mut End) -> Result<(), SessionError> {
        let now = Instant::now();
        self.wire.tick(now).await?;
        self.receiving.tick(now, &self.wire)?;
        let span = now.duration_since(self.last_second);
        if span >= SECOND {
            self.last_second = now;
            self.second(span, end).await;
        }
        Ok(())
    }

    async fn second(&mut self, span: Duration, end: &mut End) {
        let telemetry = self.look(end);
        end.outlook.limit = Limit::of_code(self.wire.peer.limit);
        let (bytes, streams) = (self.receiving.bytes(), self.receiving.streams.len());
        if let Some(n) = self.receiving.tune(span, &end.outlook, &self.wire.peer) {
            self.wire.link.send(Control::SetStreams(n)).await;
        }
        if self.wire.link.has_room() {
            self.wire.link.send(Control::Telemetry(telemetry)).await;
        }
        end.outlook.second().await;
        let progress = end.tally.progress(&mut end.outlook.clock, bytes, streams, end.outlook.limit);
        self.tell(Event::Progress(progress)).await;
    }

    fn look(&mut self, end: &mut End) -> Telemetry {
        self.receiving.look(self.shared.busy.take(1), &mut end.outlook)
    }

    async fn steer(&mut self, change: Steer) -> Result<(), SessionError> {
        match change {
            Steer::Rate(rate) => {
                self.receiving.paced(rate);
                self.wire.link.send(Control::SetRate(rate)).await;
            }
            Steer::Streams(n) => {
                self.receiving.set_streams(n);
                self.wire.link.send(Control::SetStreams(n)).await;
            }
            Steer::Path { to, is_cut } => {
                self.wire.link.prefer(to);
                self.receiving.prefer(to, is_cut);
            }
            Steer::Stop => return Err(SessionError::Stopped),
        }
        Ok(())
    }

    async fn digest(&self, path: &RelPath, size: u64, value: &str) {
        if let Some(event) = super::tally::digest_event(path, size, value) {
            self.tell(Event::File(event)).await;
        }
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.context.events {
            let _ = events.send(event).await;
        }
    }

    async fn close(mut self, result: &Result<(), SessionError>, end: &mut End) {
        let (bytes, parcels) = (self.receiving.bytes(), self.receiving.parcels());
        let telemetry = self.look(end);
        self.wire.say_goodbye(telemetry, result).await;
        if result.is_ok() {
            while let Some(message) = self.wire.until_goodbye().await {
                match message {
                    Control::Bye(_) => break,
                    Control::Source(ToDestination::Digest { path, size, value }) => {
                        self.digest(&path, size, &value).await
                    }
                    _ => {}
                }
            }
        }
        end.outlook.received_last(bytes, parcels, &self.wire);
        self.wire.link.close(CLOSE).await;
        let receiving = self.receiving;
        let _ = tokio::task::spawn_blocking(move || drop(receiving)).await;
    }
}
