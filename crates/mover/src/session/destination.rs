//! The destination end of a copy.

mod hooks;
mod lanes;
mod start;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::control::{Bye, Control, CopyOptions, FileEnd, Outcome, Telemetry, ToDestination, ToSource};
use proto::destination::{Action, Decision, Destination};
use proto::limits::WOULD_DELETE_MAX;
use proto::{ChunkSet, Entry, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use self::lanes::{Ask, Lanes};
use super::hooks::SessionHooks;
use super::receiving::Receiving;
use super::source::End;
use super::tally::Tally;
use super::{CLOSE, Context, NEWS_MAX, SECOND, SessionError, TICK, Wire, steered, stopped};
use crate::control::attribution::Limit;
use crate::event::{Event, Progress};
use crate::io::commit::{BATCH_FILES, Commit, CommitEvent};
use crate::io::decide::Decided;
use crate::io::place::Place;
use crate::io::target::Targets;
use crate::io::write::WriteEvent;
use crate::link::LinkError;
use crate::net::NetEvent;
use crate::report::Outlook;
use crate::request::Steer;

/// How long a destination may be in use before a session gives up: an ended session needs a moment to let go.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// What a destination session is given beside the context.
pub struct Setup {
    /// Connection and bounds.
    pub context: Context,
    /// The destination directory.
    pub root: Dir,
    /// True if it was made for this copy.
    pub root_is_new: bool,
    /// For messages: what the user called it.
    pub label: String,
    /// The name of the one thing that is copied, if it gets a new one.
    pub single_name: Option<Vec<u8>>,
    /// Other copies may write other names into the directory at the same time.
    pub is_shared: bool,
    /// True if the source is one thing that is no directory.
    pub single: bool,
    /// How the dataset is copied.
    pub options: CopyOptions,
    /// Names the source.
    pub source_key: [u8; 16],
    /// Who we are, for others who find the lock.
    pub holder: String,
    /// Report every entry.
    pub every_file: bool,
}

/// Runs the destination end of a copy to its end.
pub async fn run(setup: Setup) -> (Result<(), SessionError>, End) {
    let mut setup = setup;
    let mut end = End { tally: Tally::default(), outlook: Outlook::new(&mut setup.context) };
    let patience = Instant::now() + LOCK_PATIENCE;
    let started = loop {
        match Session::start(&mut setup, &mut end) {
            // Whoever was killed a moment ago may not be quite gone: its session still writes its journal.
            Err(SessionError::Busy(_)) if Instant::now() < patience => tokio::time::sleep(TICK).await,
            started => break started,
        }
    };
    let mut session = match started {
        Ok(session) => session,
        Err(error) => {
            let link = std::mem::replace(&mut setup.context.link, crate::link::Link::closed());
            link.send(Control::Refused(error.refusal())).await;
            link.close(CLOSE).await;
            return (Err(error), end);
        }
    };
    session.end = end;
    let result = session.run().await;
    session.shutdown(result).await
}

struct Session {
    machine: Destination,
    wire: Wire,
    receiving: Option<Receiving>,
    /// Until shutdown.
    lanes: Option<Lanes>,
    decided: mpsc::Receiver<(u64, Decided)>,
    written: mpsc::Receiver<WriteEvent>,
    committed: mpsc::Receiver<CommitEvent>,
    targets: Arc<Targets>,
    /// Until shutdown.
    place: Option<Arc<Place>>,
    journal: Option<Arc<Mutex<crate::io::journal::JournalFile>>>,
    /// Entries by index, for tally and report, until they are done.
    entries: BTreeMap<u64, Entry>,
    /// Files that the source gave up because they kept changing.
    changed: HashSet<u64>,
    root_entry: Option<Entry>,
    flushed: bool,
    context: Context,
    setup_options: CopyOptions,
    every_file: bool,
    hooks: SessionHooks,
    /// What waits for hooks of files, by index.
    held: HashMap<u64, hooks::Held>,
    /// The last message of a complete copy, while the hook after the dataset runs.
    last: Option<ToSource>,
    single_name: Option<Vec<u8>>,
    end: End,
    last_second: Instant,
    bye: Option<Bye>,
}

impl Session {
    async fn run(&mut self) -> Result<(), SessionError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut stop = self.context.stop.clone();
        let mut steer = self.context.steer.take();
        loop {
            self.advance().await?;
            if self.machine.is_done() && self.last.is_none() {
                return Ok(());
            }
            if let Some(Bye::Abandoned(why)) = &self.bye {
                return Err(SessionError::Abandoned(why.clone()));
            }
            let receiving = self.receiving.as_mut().expect("receives until shutdown");
            tokio::select! {
                message = self.wire.link.recv() => self.hear(message?).await?,
                Some((index, decided)) = self.decided.recv() => self.decide(index, decided)?,
                Some(event) = self.written.recv() => self.wrote(event)?,
                Some(event) = self.committed.recv() => self.commit(event).await?,
                Some(event) = receiving.events.recv() => self.network(event).await,
                Some(done) = self.hooks.done.recv() => self.hooked(done).await?,
                opened = receiving.streams.next() => receiving.add(opened)?,
                _ = tick.tick() => self.tick().await?,
                change = steered(&mut steer) => self.steer(change).await?,
                () = stopped(&mut stop) => return Err(SessionError::Stopped),
            }
        }
    }

    async fn advance(&mut self) -> Result<(), SessionError> {
        // Looked at before the news are taken in: what was done before has told them.
        let due = self.lanes().due();
        for _ in 0..NEWS_MAX {
            let Ok((index, decided)) = self.decided.try_recv() else { break };
            self.decide(index, decided)?;
        }
        for _ in 0..NEWS_MAX {
            let Ok(event) = self.written.try_recv() else { break };
            self.wrote(event)?;
        }
        for _ in 0..NEWS_MAX {
            let Ok(event) = self.committed.try_recv() else { break };
            self.commit(event).await?;
        }
        due.into_iter().for_each(|action| self.act(action));
        // Nothing is looked at or made before the hook of the dataset has said so.
        while let Some(action) = self.hooks.is_open().then(|| self.machine.poll_action()).flatten() {
            self.act(action);
        }
        if self.machine.is_scanned()
            && !self.flushed
            && self.machine.outstanding() <= BATCH_FILES
            && self.machine.is_settling()
        {
            self.flushed = true;
            self.lanes().flush();
        }
        while self.wire.link.has_room() {
            let Some(message) = self.machine.poll_message() else { break };
            match &message {
                ToSource::Repair(_) => self.end.tally.repaired += 1,
                ToSource::Done(done) => {
                    for (index, outcome) in done {
                        self.finished(*index, outcome).await;
                    }
                    // The source ends with the last of them, and would not hear it after.
                    if self.machine.is_done() {
                        self.tell_left_out().await;
                    }
                }
                _ => {}
            }
            let Some(message) = self.hold_last(message) else { break };
            self.wire.link.send(Control::Destination(message)).await;
        }
        Ok(())
    }

    /// Keeps tally and report of what is done.
    async fn finished(&mut self, index: u64, outcome: &Outcome) {
        let Some(entry) = self.entries.remove(&index) else { return };
        let changed = self.changed.remove(&index);
        self.held.remove(&index);
        self.lanes().leave(&entry.path);
        let counters = &self.context.counters;
        match outcome {
            Outcome::Failed(_) | Outcome::Corrupt(_) => counters.files_failed.fetch_add(1, Ordering::Relaxed),
            Outcome::Placed => counters.files_placed.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        if let Some(event) = self.end.tally.finished(index, &entry, outcome, changed, self.every_file) {
            self.tell(Event::File(event)).await;
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Decide { index, entry } => self.ask(Ask::Decide(index, Box::new(entry))),
            Action::Discard { index } => {
                self.end.tally.restarted(index);
                self.ask(Ask::Discard(index));
            }
            Action::Publish { index, size, holes } => self.give(index, Commit::Publish { index, size, holes }),
            Action::Refresh { index } => self.give(index, Commit::Refresh { index }),
            Action::Delete { dir, keep } if self.setup_options.dry_run => self.ask(Ask::WouldDelete { dir, keep }),
            Action::Delete { dir, keep } => {
                let lane = self.lanes().within(&dir);
                self.lanes().give(lane, Commit::Delete { dir, keep });
            }
            Action::CloseDir { index, ref entry } => {
                let lane = self.lanes().within(&entry.path);
                // What is thrown away touches its directory; that has its times set only after this.
                let Some(Action::CloseDir { entry, .. }) = self.lanes().hold(lane, action) else { return };
                if self.journal.is_none() {
                    return self.machine.handle_published(index, Outcome::Equal);
                }
                if entry.path.is_root() {
                    self.root_entry = Some(entry.clone());
                }
                self.lanes().give(lane, Commit::CloseDir { index, entry: Box::new(entry) });
            }
        }
    }

    fn lanes(&mut self) -> &mut Lanes {
        self.lanes.as_mut().expect("there until shutdown")
    }

    /// The lane on which the place of an entry that is not done is worked on.
    fn lane_of(&mut self, index: u64) -> u8 {
        let path = self.entries.get(&index).map(|entry| &entry.path);
        path.map_or(0, |path| self.lanes.as_ref().expect("there until shutdown").beside(path))
    }

    /// Queues for the decider of an entry's disk.
    fn ask(&mut self, ask: Ask) {
        let lane = match &ask {
            Ask::Decide(index, _) | Ask::Discard(index) => self.lane_of(*index),
            Ask::WouldDelete { dir, .. } => self.lanes().within(dir),
        };
        self.lanes().ask(lane, ask);
    }

    /// Queues for the committer of an entry's disk.
    fn give(&mut self, index: u64, work: Commit) {
        let lane = self.lane_of(index);
        self.lanes().give(lane, work);
    }

    async fn hear(&mut self, message: Control) -> Result<(), SessionError> {
        let Some(message) = self.wire.hear(message).await else { return Ok(()) };
        match message {
            Control::Source(message) => {
                self.learn(&message).await;
                let holes = self.told_holes(&message);
                self.machine.handle_message(message).map_err(|e| LinkError::Protocol(e.to_string()))?;
                if let Some((index, bytes, chunks)) = holes {
                    self.end.tally.landed(index, bytes);
                    // The machine took them, so the target is the one that is being received.
                    if let Some(target) = self.targets.current(index) {
                        self.give(index, Commit::Punch { target, holes: chunks });
                    }
                }
            }
            Control::Bye(bye) => self.bye = Some(bye),
            Control::Refused(why) => return Err(LinkError::Refused(why).into()),
            Control::SetStreams(n) => self.receiving.as_mut().expect("receives until shutdown").set_streams(n),
            Control::StreamLost(id) => self.receiving.as_mut().expect("receives until shutdown").abandon(id),
            Control::SetRate(_) => {}
            Control::Congestion(congestion) => self.end.outlook.congestion_told(&congestion).await?,
            other => return Err(LinkError::Protocol(format!("unexpected message {other:?}")).into()),
        }
        Ok(())
    }

    /// Keeps what tally and report need of what the source says.
    async fn learn(&mut self, message: &ToDestination) {
        match message {
            ToDestination::Page { first, entries } => {
                for (index, entry) in (*first..).zip(entries) {
                    self.end.tally.entry(entry);
                    self.entries.insert(index, entry.clone());
                }
            }
            ToDestination::Restart { index, entry } => {
                self.entries.insert(*index, entry.clone());
            }
            ToDestination::FileEnd { index, end: FileEnd::Changed { .. } } => {
                self.changed.insert(*index);
            }
            ToDestination::Problem { path, why } => {
                let event = self.end.tally.problem(path, why.clone());
                self.tell(Event::File(event)).await;
            }
            ToDestination::Warning(text) => self.tell(Event::Warning { text: text.clone() }).await,
            ToDestination::Digest { path, size, value } => self.digest(path, *size, value).await,
            ToDestination::ScanDone { .. } => self.end.tally.scanned = true,
            ToDestination::FileEnd { .. } | ToDestination::Listed { .. } | ToDestination::Holes { .. } => {}
        }
    }

    /// The source tells a digest of what is in place.
    async fn digest(&self, path: &RelPath, size: u64, value: &str) {
        if let Some(event) = super::tally::digest_event(path, size, value) {
            self.tell(Event::File(event)).await;
        }
    }

    /// Holes of a file that is outstanding: its index, their bytes, the chunks.
    fn told_holes(&self, message: &ToDestination) -> Option<(u64, u64, ChunkSet)> {
        let ToDestination::Holes { index, chunks } = message else { return None };
        let size = self.machine.entry(*index)?.size()?;
        Some((*index, chunks.bytes(size, self.context.settings.chunk_size), chunks.clone()))
    }

    fn decide(&mut self, index: u64, decided: Decided) -> Result<(), SessionError> {
        let Decided { decision, device } = decided;
        if decision == Decision::DirReady {
            self.enter(index, device)?;
        }
        if let Some(decision) = self.hold(index, decision) {
            self.decided(index, decision);
        }
        Ok(())
    }

    /// A directory is there, maybe on another disk.
    fn enter(&mut self, index: u64, device: Option<u64>) -> Result<(), SessionError> {
        let (Some(lanes), Some(entry)) = (&mut self.lanes, self.entries.get(&index)) else { return Ok(()) };
        let doing = || format!("starting writers for the disk of {}", entry.path);
        let window = lanes.enter(&entry.path, device).map_err(|error| SessionError::Os { doing: doing(), error })?;
        if let Some(parcels) = window {
            self.machine.set_window(parcels);
            self.end.outlook.io = Some(lanes.io());
        }
        Ok(())
    }

    fn decided(&mut self, index: u64, decision: Decision) {
        if let Decision::Receive { have, .. } = &decision
            && !have.is_empty()
        {
            let size = self.machine.entry(index).and_then(Entry::size).unwrap_or(0);
            let bytes = have.len() * u64::from(self.context.settings.chunk_size);
            self.end.tally.landed(index, bytes.min(size));
        }
        self.machine.handle_decision(index, decision);
    }

    fn wrote(&mut self, event: WriteEvent) -> Result<(), SessionError> {
        match event {
            WriteEvent::Landed { parcel, items } => {
                for (index, generation, offset, file_end) in items {
                    let Some(target) = self.targets.get(index, generation) else { continue };
                    let chunk_size = u64::from(self.context.settings.chunk_size);
                    if target.slot().is_some() {
                        self.lanes().give(target.lane, Commit::Chunk { index, chunk: offset / chunk_size });
                        let size = target.entry.size().unwrap_or(u64::MAX);
                        self.end
                            .tally
                            .landed(index, (size - (offset / chunk_size * chunk_size).min(size)).min(chunk_size));
                    }
                    self.machine.handle_landed(index, generation, offset, file_end);
                }
                self.machine.handle_parcel(parcel);
                if let Some(receiving) = &self.receiving {
                    receiving.forget(parcel);
                }
            }
            WriteEvent::Failed { why, fatal: true, .. } => {
                return Err(SessionError::Fatal(format!(
                    "{why}: free some space and run the same command again, it continues"
                )));
            }
            WriteEvent::Failed { index, why, .. } => self.machine.handle_write_failed(index, why),
        }
        Ok(())
    }

    async fn commit(&mut self, event: CommitEvent) -> Result<(), SessionError> {
        match event {
            CommitEvent::Published { index, outcome } => {
                if let Some(outcome) = self.hold_published(index, outcome) {
                    self.published(index, outcome);
                }
            }
            CommitEvent::Deleted { paths } => {
                self.end.tally.deleted += paths.len() as u64;
                if self.every_file {
                    for path in &paths {
                        self.tell(Event::File(super::tally::file_event(path, "deleted", 0, None))).await;
                    }
                }
                if self.setup_options.dry_run && !self.context.driver {
                    for page in paths.chunks(WOULD_DELETE_MAX) {
                        self.wire.link.send(Control::Destination(ToSource::WouldDelete(page.to_vec()))).await;
                    }
                }
            }
            CommitEvent::Fatal(why) => return Err(SessionError::Fatal(why)),
            CommitEvent::Warning(text) => self.warn(text).await,
        }
        Ok(())
    }

    /// Tells the user, wherever the command runs.
    async fn warn(&self, text: String) {
        if !self.context.driver {
            self.wire.link.send(Control::Destination(ToSource::Warning(text.clone()))).await;
        }
        self.tell(Event::Warning { text }).await;
    }

    async fn tell_left_out(&self) {
        let is_root = sys::process::euid() == 0;
        let lines = self.place.as_ref().map(|place| place.left_out.tell(is_root));
        for text in lines.into_iter().flatten() {
            self.warn(text).await;
        }
    }

    /// A file or directory is in place, or will not be.
    fn published(&mut self, index: u64, outcome: Outcome) {
        self.flushed = false;
        self.machine.handle_published(index, outcome);
    }

    async fn network(&mut self, event: NetEvent) {
        match event {
            NetEvent::Closed { id, why, arrived } => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.closed(id, why.as_deref());
                }
                self.wire.link.send(Control::StreamEnded { stream: id, arrived }).await;
            }
            NetEvent::Corrupt { parcel, is_damaged } => {
                if is_damaged {
                    tracing::warn!(parcel, "a parcel arrived corrupt and is sent again");
                    self.context.counters.corrupt.fetch_add(1, Ordering::Relaxed);
                }
                self.machine.handle_corrupt(parcel);
            }
            NetEvent::Sending { .. } => {}
        }
    }

    async fn tick(&mut self) -> Result<(), SessionError> {
        let now = Instant::now();
        self.wire.tick(now).await?;
        self.receiving.as_mut().expect("receives until shutdown").tick(now, &self.wire)?;
        let span = now.duration_since(self.last_second);
        if span >= SECOND {
            self.last_second = now;
            self.second(span).await;
        }
        Ok(())
    }

    async fn second(&mut self, span: Duration) {
        let mut telemetry = self.look();
        telemetry.deleted = self.end.tally.deleted;
        let receiving = self.receiving.as_mut().expect("receives until shutdown");
        receiving.release(|index, generation| self.targets.get(index, generation).is_some());
        let (bytes, streams) = (receiving.bytes(), receiving.streams.len());
        let tuned = receiving.tune(span, &self.end.outlook, &self.wire.peer);
        if let Some(n) = tuned {
            self.wire.link.send(Control::SetStreams(n)).await;
        }
        if self.wire.link.has_room() {
            self.wire.link.send(Control::Telemetry(telemetry)).await;
        }
        self.end.outlook.second().await;
        if self.context.events.is_some() {
            self.end.outlook.limit = Limit::of_code(self.wire.peer.limit);
            let progress = self.end.tally.progress(&mut self.end.outlook.clock, bytes, streams, self.end.outlook.limit);
            // Of the sockets that send the other end tells.
            let (peer, mss_bytes) = (&self.wire.peer, self.end.outlook.sample.mss);
            let (retransmits, rtt_us, cwnd_bytes) = (peer.retransmits, peer.rtt_us, peer.cwnd_bytes);
            let progress = Progress { retransmits, rtt_us, cwnd_bytes, mss_bytes, ..progress };
            self.tell(Event::Progress(progress)).await;
        }
    }

    fn look(&mut self) -> Telemetry {
        let since = self.lanes().busy();
        self.receiving.as_mut().expect("receives until shutdown").look(since, &mut self.end.outlook)
    }

    async fn steer(&mut self, change: Steer) -> Result<(), SessionError> {
        match change {
            Steer::Rate(rate) => {
                self.receiving.as_mut().expect("receives until shutdown").paced(rate);
                self.wire.link.send(Control::SetRate(rate)).await;
            }
            Steer::Streams(n) => {
                self.receiving.as_mut().expect("receives until shutdown").set_streams(n);
                self.wire.link.send(Control::SetStreams(n)).await;
            }
            Steer::Path { to, is_cut } => {
                self.wire.link.prefer(to);
                self.receiving.as_mut().expect("receives until shutdown").prefer(to, is_cut);
            }
            Steer::Stop => return Err(SessionError::Stopped),
        }
        Ok(())
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.context.events {
            let _ = events.send(event).await;
        }
    }

    /// Ends threads in order (receivers, writers, committer), so that what was received is written and what
    /// was written is in the journal; then removes the journal if the copy is complete.
    async fn shutdown(mut self, result: Result<(), SessionError>) -> (Result<(), SessionError>, End) {
        let records = self.look().records_checked;
        let receiving = self.receiving.take().expect("taken once");
        let bytes = receiving.bytes();
        let parcels = receiving.parcels();
        self.context.counters.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        // Threads that still have news must not wait for us.
        let mut written = std::mem::replace(&mut self.written, mpsc::channel(1).1);
        let late = tokio::spawn(async move {
            let mut chunks = Vec::new();
            while let Some(event) = written.recv().await {
                if let WriteEvent::Landed { items, .. } = event {
                    chunks.extend(items);
                }
            }
            chunks
        });
        // The decider ends when nobody hears it.
        self.decided.close();
        let mut committed = std::mem::replace(&mut self.committed, mpsc::channel(1).1);
        let drain = tokio::spawn(async move {
            let mut placed = Vec::new();
            while let Some(event) = committed.recv().await {
                if let CommitEvent::Published { index, outcome: Outcome::Placed } = event {
                    placed.push(index);
                }
            }
            placed
        });
        // What was written is told when nobody can tell any more.
        let closing = self.lanes.take().expect("taken once").close();
        let mut outlook = std::mem::take(&mut self.end.outlook);
        let ended = tokio::task::spawn_blocking(move || (receiving.end(&mut outlook), outlook)).await;
        let (streams, outlook) = ended.expect("ending the receivers does not panic");
        self.end.outlook = outlook;
        let chunk_size = u64::from(self.context.settings.chunk_size);
        for (index, generation, offset, _) in late.await.unwrap_or_default() {
            let target = self.targets.get(index, generation);
            if let Some(target) = target.filter(|target| target.slot().is_some()) {
                closing.give(target.lane, Commit::Chunk { index, chunk: offset / chunk_size });
            }
        }
        let _ = tokio::task::spawn_blocking(move || closing.join()).await;
        let published = drain.await.unwrap_or_default();
        let mut result = result;
        let is_resumed = self.journal.as_ref().is_some_and(|j| j.lock().expect("no panic under the lock").resumed);
        // A copy that was refused before anything was looked at leaves nothing to resume.
        let is_unused = (self.end.tally.files_total == 0 || !self.hooks.is_open()) && !is_resumed;
        if (result.is_ok() || is_unused)
            && let Some(place) = self.place.take()
            && self.journal.take().is_some()
        {
            match Arc::try_unwrap(place) {
                Ok(place) => {
                    let doing = "making the destination durable".to_owned();
                    // The whole file system may be full of what others wrote: that takes its time, and an agent has other sessions.
                    let root_entry = self.root_entry.take();
                    let finished = tokio::task::spawn_blocking(move || finish(place, root_entry.as_ref())).await;
                    if let Err(error) = finished.unwrap_or_else(|error| Err(error.into()))
                        && result.is_ok()
                    {
                        result = Err(SessionError::Os { doing, error });
                    }
                }
                Err(_) => tracing::error!("the destination is still in use; its journal stays"),
            }
        }
        let mut telemetry = self.end.outlook.telemetry(bytes, records, parcels);
        telemetry.deleted = self.end.tally.deleted;
        self.end.outlook.received_last(bytes, parcels, &self.wire);
        self.wire.say_goodbye(telemetry, &result).await;
        if result.is_ok() && self.context.driver {
            self.goodbye().await;
        }
        let link = std::mem::replace(&mut self.wire.link, crate::link::Link::closed());
        link.close(CLOSE).await;
        drop(streams);
        self.settle(&result, published).await;
        self.hooks.finish().await;
        (result, self.end)
    }
}

/// The copy is complete: makes durable what no commit did (links, empty directories, what was set of directories),
/// and only then forgets the journal.
fn finish(place: Place, root_entry: Option<&Entry>) -> std::io::Result<()> {
    let root = place.root.clone();
    place.sync()?;
    place.finish();
    if let Some(entry) = root_entry {
        // For looks only, and not everybody may.
        let _ = sys::file::futimens(&root, sys::file::Times::mtime(crate::io::nanoseconds(entry.mtime)));
    }
    root.sync()
}
