//! The source end of a copy.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::bounded;
use proto::control::{Bye, Control, CopyOptions, DigestKind, Outcome, ToDestination, ToSource};
use proto::source::{Finished, Job, Source};
use proto::{Entry, EntryKind, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use super::sending::Sending;
use super::tally::Tally;
use super::{CLOSE, Context, DRAIN, NEWS_MAX, SECOND, SessionError, TICK, Wire, steered, stopped};
use crate::digest::DigestValue;
use crate::event::Event;
use crate::filter::Filter;
use crate::frame::{Frame, Pool};
use crate::io::input::InputReader;
use crate::io::read::{self, ChunkReader, Loaded, ReadEvent, Running, SourceFile, Task};
use crate::link::LinkError;
use crate::net::NetEvent;
use crate::report::Outlook;
use crate::request::{IoChoice, Steer};
use crate::scan::{ScanEvent, ScanOptions, Scanner, SourceRef, SourceSpec};

/// Files of up to this many bytes travel whole, in batches. Both ends derive it from the chunk's size.
#[must_use]
pub fn small_max(chunk_size: u32) -> u32 {
    chunk_size / 4
}

/// Threads that read small files: they wait for the disk, not for a core.
const BATCH_READERS: usize = 4;
/// Threads that read chunks where io_uring is not to be had.
const PLAIN_READERS: usize = 4;
/// Tasks waiting for readers.
const TASKS_MAX: usize = 8;
/// Digests waiting for a reader; the scan waits at this number.
const LATE_MAX: usize = 4096;
/// What standard input is called in messages; its file has the name that the user gave the destination.
pub const INPUT_NAME: &str = "standard input";
/// Mode of a file that comes from standard input.
const INPUT_MODE: u32 = 0o644;
/// Scan events waiting.
const SCANNED_MAX: usize = 4096;

/// What a source session is given beside the context.
pub struct Setup {
    /// Connection and bounds.
    pub context: Context,
    /// What is copied.
    pub from: From,
    /// How the dataset is copied.
    pub options: CopyOptions,
    /// Chunks that the destination can put in order.
    pub reorder_chunks: Option<u32>,
    /// Report every entry.
    pub every_file: bool,
}

/// What is copied.
pub enum From {
    /// Files and directories.
    Tree {
        /// The directory that all sources lie beneath.
        root: Dir,
        /// The sources.
        specs: Vec<SourceSpec>,
    },
    /// What comes out of a pipe, as one file.
    Input(OwnedFd),
}

/// What came of a session, for the summary.
pub struct End {
    /// Files and bytes.
    pub tally: Tally,
    /// Rates, limits, retransmits.
    pub outlook: Outlook,
    /// How storage was read or written.
    pub io: String,
}

/// Runs the source end of a copy to its end. What came of it is in the second part also when it failed.
pub async fn run(setup: Setup) -> (Result<(), SessionError>, End) {
    let Setup { mut context, from, options, reorder_chunks, every_file } = setup;
    let (news, news_inbox) = mpsc::channel(NEWS_MAX);
    let mut end = End { tally: Tally::default(), outlook: Outlook::new(&context), io: String::new() };
    let filter = match Filter::new(&options.filters) {
        Ok(filter) => filter,
        Err(error) => return (Err(SessionError::Fatal(error.to_string())), end),
    };
    let chunk_size = context.settings.chunk_size;
    let frames = (context.memory_bytes / u64::from(chunk_size)).clamp(8, 4096) as usize;
    let pool = match Pool::new(frames, chunk_size as usize, Vec::new()) {
        Ok(pool) => pool,
        Err(error) => return (Err(SessionError::Os { doing: "getting memory for buffers".to_owned(), error }), end),
    };
    let (root, specs, input) = match from {
        From::Tree { root, specs } => (root, specs, None),
        From::Input(input) => match Dir::open("/") {
            Ok(root) => (root, Vec::new(), Some(input)),
            Err(error) => return (Err(SessionError::Os { doing: "opening /".to_owned(), error }), end),
        },
    };
    let is_input = input.is_some();
    let shared = Arc::new(read::Shared {
        root: root.clone(),
        pool: pool.clone(),
        events: news,
        io: context.limits.io,
        chunk_size,
        preserve_all: options.preserve_all,
        busy_us: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let readers = match input {
        None => Readers::start(&shared, context.limits.io),
        Some(input) => Readers::of_input(&shared, input),
    };
    end.io = readers.io.clone();
    let scan = ScanOptions { preserve_all: options.preserve_all, filter, ..ScanOptions::default() };
    let scanned = if is_input { input_entry() } else { start_scan(root, specs, scan) };
    let machine = Source::new(proto::source::Config { chunk_size, small_max: small_max(chunk_size), reorder_chunks });
    let link = std::mem::replace(&mut context.link, crate::link::Link::closed());
    let wire = Wire::new(link, context.limits.timeout);
    let sending = Sending::new(&mut context, pool, false);
    let mut session = Session {
        machine,
        wire,
        sending,
        readers,
        scanned: Some(scanned),
        scan_pending: None,
        news: news_inbox,
        files: HashMap::new(),
        dirs: HashMap::new(),
        sizes: BTreeMap::new(),
        late_digests: 0,
        late: VecDeque::new(),
        held: None,
        digest: options.digest,
        every_file,
        context,
        end,
        last_second: Instant::now(),
        bye: None,
        draining: None,
    };
    let result = session.run().await;
    session.shutdown(&result).await;
    shared.stop.store(true, Ordering::Relaxed);
    let Session { end, readers, sending, .. } = session;
    // Threads end when their queues close; joining them keeps the runtime's thread free of surprises.
    let _ = tokio::task::spawn_blocking(move || {
        drop(sending);
        drop(readers);
    })
    .await;
    (result, end)
}

fn start_scan(root: Dir, specs: Vec<SourceSpec>, options: ScanOptions) -> mpsc::Receiver<ScanEvent> {
    let (tell, scanned) = mpsc::channel(SCANNED_MAX);
    tokio::task::spawn_blocking(move || {
        for event in Scanner::new(root, specs, options) {
            if tell.blocking_send(event).is_err() {
                break;
            }
        }
    });
    scanned
}

/// The manifest of a pipe: one file of unknown size, of now.
fn input_entry() -> mpsc::Receiver<ScanEvent> {
    let (tell, scanned) = mpsc::channel(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let entry = Entry {
        path: RelPath::new(INPUT_NAME).expect("a plain name"),
        kind: EntryKind::Stream,
        mode: INPUT_MODE,
        mtime: proto::Time { sec: now.as_secs() as i64, nsec: now.subsec_nanos() },
        owner: None,
        xattrs: Vec::new(),
    };
    tell.try_send(ScanEvent::Entry(entry, SourceRef { path: Vec::new() })).expect("the channel is empty");
    scanned
}

struct Readers {
    chunks: Option<crossbeam_channel::Sender<Task>>,
    batches: Option<crossbeam_channel::Sender<Task>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    io: String,
    shared: Arc<read::Shared>,
    busy_before: AtomicU64,
}

impl Readers {
    fn start(shared: &Arc<read::Shared>, io: IoChoice) -> Readers {
        let (chunks, chunk_queue) = bounded(TASKS_MAX);
        let (batches, batch_queue) = bounded(TASKS_MAX);
        let mut threads = Vec::new();
        let rings = crate::io::rings(io, read::RING_DEPTH, PLAIN_READERS);
        let io = if rings.iter().all(sys::ring::Ring::is_asynchronous) { "io_uring" } else { "pread" };
        for (n, ring) in rings.into_iter().enumerate() {
            let (shared, queue) = (shared.clone(), chunk_queue.clone());
            let run = move || ChunkReader::new(&shared, ring).run(&queue);
            threads.extend(std::thread::Builder::new().name(format!("lh-read-{n}")).spawn(run));
        }
        for n in 0..BATCH_READERS {
            let (shared, queue) = (shared.clone(), batch_queue.clone());
            let run = move || read::read_batches(&shared, &queue);
            threads.extend(std::thread::Builder::new().name(format!("lh-small-{n}")).spawn(run));
        }
        let shared = shared.clone();
        Readers {
            chunks: Some(chunks),
            batches: Some(batches),
            threads,
            io: io.to_owned(),
            shared,
            busy_before: 0.into(),
        }
    }

    /// One thread that reads a pipe.
    fn of_input(shared: &Arc<read::Shared>, input: OwnedFd) -> Readers {
        let (chunks, queue) = bounded(TASKS_MAX);
        let reader = shared.clone();
        let run = move || InputReader::new(&reader, input).run(&queue);
        let threads = std::thread::Builder::new().name("lh-input".to_owned()).spawn(run).into_iter().collect();
        let (io, shared) = ("pipe".to_owned(), shared.clone());
        Readers { chunks: Some(chunks), batches: None, threads, io, shared, busy_before: 0.into() }
    }

    /// Time that readers were busy since the last call, per reader, µs.
    fn busy(&self) -> u64 {
        let now = self.shared.busy_us.load(Ordering::Relaxed);
        (now - self.busy_before.swap(now, Ordering::Relaxed)) / self.threads.len().max(1) as u64
    }

    /// Hands a task to its queue, or gives it back if that is full.
    fn give(&self, task: Task) -> Result<(), Task> {
        let queue = if matches!(task, Task::Chunk { .. }) { &self.chunks } else { &self.batches };
        match queue.as_ref().expect("queues close with the session").try_send(task) {
            Ok(()) => Ok(()),
            Err(back) => Err(back.into_inner()),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        (self.chunks, self.batches) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Session {
    machine: Source,
    wire: Wire,
    sending: Sending,
    readers: Readers,
    /// `None` once the scan has ended.
    scanned: Option<mpsc::Receiver<ScanEvent>>,
    scan_pending: Option<ScanEvent>,
    news: mpsc::Receiver<ReadEvent>,
    files: HashMap<u64, Arc<SourceFile>>,
    /// Directories that are announced and not listed.
    dirs: HashMap<RelPath, u64>,
    /// Chunk parcels under way: file and bytes, for the progress.
    sizes: BTreeMap<u64, Vec<(u64, u32)>>,
    /// Digests to be computed by reading again: asked for, and waiting for a reader.
    late_digests: usize,
    late: VecDeque<Task>,
    held: Option<Task>,
    digest: Option<DigestKind>,
    every_file: bool,
    context: Context,
    end: End,
    last_second: Instant,
    bye: Option<Bye>,
    /// Set when this end was told to stop: nothing new is read after this.
    draining: Option<Instant>,
}

impl Session {
    async fn run(&mut self) -> Result<(), SessionError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut stop = self.context.stop.clone();
        let mut steer = self.context.steer.take();
        loop {
            self.advance().await?;
            if let Some(bye) = &self.bye {
                return match bye {
                    Bye::Done if self.machine.is_done() => Ok(()),
                    Bye::Done => Err(LinkError::Protocol("the destination ended before the source".to_owned()).into()),
                    Bye::Abandoned(why) => Err(SessionError::Abandoned(why.clone())),
                };
            }
            if let Some(since) = self.draining
                && (self.machine.unlanded() == 0 || since.elapsed() > DRAIN)
            {
                return Err(SessionError::Stopped);
            }
            let scan_room = self.late.len() < LATE_MAX
                && self.machine.has_room()
                && self.scan_pending.is_none()
                && self.draining.is_none();
            tokio::select! {
                message = self.wire.link.recv() => self.hear(message?).await?,
                news = self.news.recv() => self.read(news.expect("readers hold a sender")).await,
                event = self.sending.events.recv() => self.network(event.expect("senders hold a sender")),
                opened = self.sending.streams.next() => self.sending.add(opened, &mut self.end.outlook).await?,
                event = scan_next(&mut self.scanned), if scan_room => self.scan(event).await,
                _ = tick.tick() => self.tick().await?,
                change = steered(&mut steer) => self.steer(change),
                () = stopped(&mut stop), if self.draining.is_none() => {
                    // Who asked a driver for the copy is gone: it may come again at once, and needs the place.
                    if self.context.driver {
                        return Err(SessionError::Stopped);
                    }
                    self.draining = Some(Instant::now());
                }
            }
        }
    }

    /// Does what can be done without waiting.
    async fn advance(&mut self) -> Result<(), SessionError> {
        // More of what has arrived already, so that one turn of the loop serves many events.
        for _ in 0..NEWS_MAX {
            let Ok(news) = self.news.try_recv() else { break };
            self.read(news).await;
        }
        for _ in 0..NEWS_MAX {
            let Ok(event) = self.sending.events.try_recv() else { break };
            self.network(event);
        }
        for _ in 0..SCANNED_MAX {
            if !self.machine.has_room() || self.late.len() >= LATE_MAX || self.draining.is_some() {
                break;
            }
            let Some(scanned) = &mut self.scanned else { break };
            match scanned.try_recv() {
                Ok(event) => self.scan(Some(event)).await,
                Err(mpsc::error::TryRecvError::Empty) => {
                    self.machine.flush();
                    break;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => self.scan(None).await,
            }
        }
        while self.wire.link.has_room() {
            let Some(message) = self.machine.poll_message() else { break };
            self.wire.link.send(Control::Source(message)).await;
        }
        self.dispatch();
        while let Some(finished) = self.machine.poll_finished() {
            self.finished(finished).await;
        }
        Ok(())
    }

    /// Gives readers work while their queues have room.
    fn dispatch(&mut self) {
        if self.draining.is_some() {
            return;
        }
        while let Some(task) = self.late.pop_front() {
            if let Err(task) = self.readers.give(task) {
                self.late.push_front(task);
                break;
            }
        }
        loop {
            let task = match self.held.take() {
                Some(task) => task,
                None => match self.machine.poll_job() {
                    Some(job) => match self.task(job) {
                        Some(task) => task,
                        None => continue,
                    },
                    None => return,
                },
            };
            if let Err(task) = self.readers.give(task) {
                self.held = Some(task);
                return;
            }
        }
    }

    fn task(&mut self, job: Job) -> Option<Task> {
        match job {
            Job::Chunk { parcel, item } => {
                self.sizes.insert(parcel, vec![(item.index, item.len)]);
                Some(Task::Chunk { parcel, item, file: self.files.get(&item.index)?.clone() })
            }
            Job::Batch { parcel, items } => {
                self.sizes.insert(parcel, items.iter().map(|i| (i.index, i.len)).collect());
                let items =
                    items.into_iter().filter_map(|item| Some((item, self.files.get(&item.index)?.clone()))).collect();
                Some(Task::Batch { parcel, items })
            }
            Job::Compare { index, digest } => Some(Task::Compare { file: self.files.get(&index)?.clone(), digest }),
        }
    }

    async fn scan(&mut self, event: Option<ScanEvent>) {
        match event {
            Some(ScanEvent::Entry(entry, place)) => {
                self.end.tally.entry(&entry);
                let index = self.machine.handle_entry(entry.clone());
                if entry.kind == EntryKind::Dir {
                    self.dirs.insert(entry.path.clone(), index);
                }
                if matches!(entry.kind, EntryKind::File(_) | EntryKind::Stream) {
                    let digest = self.digest.map(|kind| Mutex::new(Running::new(kind)));
                    self.files.insert(index, Arc::new(SourceFile { index, generation: 0, place, entry, digest }));
                }
            }
            Some(ScanEvent::Listed { path, complete }) => {
                if let Some(dir) = self.dirs.remove(&path) {
                    self.machine.handle_listed(dir, complete);
                }
            }
            Some(ScanEvent::Error { path, why }) => {
                let event = self.end.tally.problem(&path, why.clone());
                self.wire.link.send(Control::Source(ToDestination::Problem { path, why })).await;
                self.tell(Event::File(event)).await;
            }
            Some(ScanEvent::Warning { path, why }) => {
                self.tell(Event::Warning { text: format!("{path}: {why}") }).await
            }
            None => {
                self.scanned = None;
                self.end.tally.scanned = true;
                self.machine.handle_scan_end();
            }
        }
    }

    async fn hear(&mut self, message: Control) -> Result<(), SessionError> {
        let Some(message) = self.wire.hear(message).await else { return Ok(()) };
        match message {
            Control::Destination(message) => {
                self.count(&message);
                self.machine.handle_message(message).map_err(|e| LinkError::Protocol(e.to_string()))?;
            }
            Control::Bye(bye) => self.bye = Some(bye),
            Control::Refused(why) => return Err(LinkError::Refused(why).into()),
            Control::SetRate(rate) => self.sending.set_rate(rate),
            Control::SetStreams(n) => self.sending.set_streams(n),
            other => return Err(LinkError::Protocol(format!("unexpected message {other:?}")).into()),
        }
        Ok(())
    }

    /// Keeps the progress: what landed, what was there, what must be repeated.
    fn count(&mut self, message: &ToSource) {
        match message {
            ToSource::Landed(parcels) => {
                for (index, len) in parcels.iter().filter_map(|p| self.sizes.remove(p)).flatten() {
                    if self.files.contains_key(&index) {
                        self.end.tally.landed(index, u64::from(len));
                    }
                }
            }
            ToSource::Wants(wants) => {
                for (index, want) in wants {
                    let proto::control::Want::Rest { have } = want else { continue };
                    let bytes = have.len() * u64::from(self.context.settings.chunk_size);
                    let size = self.machine.entry(*index).and_then(Entry::size).unwrap_or(u64::MAX);
                    self.end.tally.landed(*index, bytes.min(size));
                    self.drop_digest(*index);
                }
            }
            ToSource::Repair(_) => self.end.tally.repaired += 1,
            ToSource::Done(_) => {}
        }
    }

    /// A file whose bytes do not all pass through has its digest computed at the end.
    fn drop_digest(&mut self, index: u64) {
        if let Some(file) = self.files.get(&index)
            && file.digest.is_some()
        {
            let SourceFile { generation, place, entry, .. } = file.as_ref();
            let bare =
                SourceFile { index, generation: *generation, place: place.clone(), entry: entry.clone(), digest: None };
            self.files.insert(index, Arc::new(bare));
        }
    }

    async fn read(&mut self, news: ReadEvent) {
        match news {
            ReadEvent::Loaded(Loaded { mut frame, results, hole_end }) => {
                if let (Some(end), Some((item, _))) = (hole_end, results.first()) {
                    let bytes = self.machine.handle_hole(*item, end);
                    if bytes > 0 {
                        self.end.tally.landed(item.index, bytes);
                    }
                }
                for (item, read) in results {
                    let changed = match &read {
                        proto::source::Read::Changed(entry) => Some(entry.clone()),
                        _ => None,
                    };
                    if let proto::source::Read::EndOfStream(size) = &read {
                        // Only now is it known how long the last chunk is.
                        let len = size.saturating_sub(item.offset).min(u64::from(item.len)) as u32;
                        self.sizes.insert(frame.parcel, vec![(item.index, len)]);
                    }
                    if !self.machine.handle_read(frame.parcel, item, read) {
                        frame.parts.retain(|p| (p.file, p.generation) != (item.index, item.generation));
                    }
                    if let Some(entry) = changed {
                        self.changed(item.index, item.generation, *entry);
                    }
                }
                self.send(frame);
            }
            ReadEvent::Compared { index, same } => self.machine.handle_compared(index, same),
            ReadEvent::Digest { index, value } => {
                self.late_digests -= 1;
                let Some(file) = self.files.remove(&index) else { return };
                match value {
                    Ok(value) => self.digest_done(&file.entry, value).await,
                    Err(why) => {
                        let event = self.end.tally.problem(&file.entry.path, format!("digest: {why}"));
                        self.tell(Event::File(event)).await;
                    }
                }
            }
        }
    }

    fn send(&mut self, frame: Frame) {
        if frame.parts.is_empty() {
            self.sending.pool.give(frame);
        } else {
            self.sending.send(frame);
        }
    }

    /// A file starts again with a new entry.
    fn changed(&mut self, index: u64, generation: u8, entry: Entry) {
        // A read of an older state says nothing of this one.
        let Some(old) = self.files.get(&index).filter(|f| f.generation == generation) else { return };
        self.end.tally.restarted(index);
        let digest = self.digest.map(|kind| Mutex::new(Running::new(kind)));
        let file =
            SourceFile { index, generation: old.generation.saturating_add(1), place: old.place.clone(), entry, digest };
        self.files.insert(index, Arc::new(file));
    }

    fn network(&mut self, event: NetEvent) {
        match event {
            NetEvent::Sending { parcel, stream } => self.machine.handle_sent(parcel, stream),
            NetEvent::Closed { id, why } => {
                // A destination that has everything closes its end; that loses nothing.
                let why = why.filter(|_| !self.machine.is_done());
                self.sending.closed(id, why.as_deref());
                self.machine.handle_stream_lost(id);
            }
            NetEvent::Corrupt { .. } => {}
        }
    }

    async fn finished(&mut self, finished: Finished) {
        let Finished { index, entry, outcome, changed } = finished;
        let event = self.end.tally.finished(index, &entry, &outcome, changed, self.every_file);
        if let Some(event) = event {
            self.tell(Event::File(event)).await;
        }
        let Some(file) = self.files.get(&index).cloned() else { return };
        let done = matches!(outcome, Outcome::Placed | Outcome::Equal);
        let Some(kind) = self.digest.filter(|_| done) else {
            self.files.remove(&index);
            return;
        };
        let on_the_way = file
            .digest
            .as_ref()
            .and_then(|d| d.lock().expect("no panic under the lock").finish(entry.size().unwrap_or(0)));
        match on_the_way {
            Some(value) if outcome == Outcome::Placed => {
                self.files.remove(&index);
                self.digest_done(&entry, value).await;
            }
            _ => {
                self.late_digests += 1;
                self.late.push_back(Task::Digest { file, kind });
            }
        }
    }

    async fn digest_done(&mut self, entry: &Entry, value: DigestValue) {
        let mut event = super::tally::file_event(&entry.path, "placed", entry.size().unwrap_or(0), None);
        event.digest = Some(value.to_string());
        self.tell(Event::File(event)).await;
    }

    async fn tick(&mut self) -> Result<(), SessionError> {
        let now = Instant::now();
        self.wire.tick(now).await?;
        self.sending.tick(now)?;
        if now.duration_since(self.last_second) >= SECOND {
            self.second(now).await;
        }
        Ok(())
    }

    async fn second(&mut self, now: Instant) {
        let span = now.duration_since(self.last_second);
        self.last_second = now;
        let busy = self.readers.busy();
        let telemetry = self.sending.second(span, &self.wire.peer, busy, &mut self.end.outlook);
        if self.wire.link.has_room() {
            self.wire.link.send(Control::Telemetry(telemetry)).await;
        }
        if self.context.events.is_some() {
            let moved = self.sending.bytes();
            let progress = self.end.tally.progress(
                &mut self.end.outlook.clock,
                moved,
                self.sending.streams.len(),
                self.end.outlook.limit,
            );
            self.tell(Event::Progress(progress)).await;
        }
    }

    fn steer(&mut self, change: Steer) {
        match change {
            Steer::Rate(rate) => self.sending.set_rate(rate),
            Steer::Streams(n) => self.sending.set_streams(n),
            Steer::Stop => self.draining = Some(Instant::now()),
        }
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.context.events {
            let _ = events.send(event).await;
        }
    }

    async fn shutdown(&mut self, result: &Result<(), SessionError>) {
        if result.is_ok() {
            // Late digests of a copy that is complete.
            let patience = Instant::now() + Duration::from_secs(24 * 3600);
            while self.late_digests > 0 && Instant::now() < patience {
                self.dispatch();
                let Some(news) = self.news.recv().await else { break };
                self.read(news).await;
            }
        }
        let last = self.sending.last(&self.wire.peer, &mut self.end.outlook);
        self.wire.link.send(Control::Telemetry(last)).await;
        let bye = match result {
            Ok(()) => Bye::Done,
            Err(error) => Bye::Abandoned(error.refusal()),
        };
        self.wire.link.send(Control::Bye(bye)).await;
        let link = std::mem::replace(&mut self.wire.link, crate::link::Link::closed());
        link.close(CLOSE).await;
    }
}

async fn scan_next(scanned: &mut Option<mpsc::Receiver<ScanEvent>>) -> Option<ScanEvent> {
    match scanned {
        Some(scanned) => scanned.recv().await,
        None => std::future::pending().await,
    }
}
