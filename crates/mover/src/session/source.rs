//! The source end of a copy.

mod endings;
mod hooks;
mod scan;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use proto::control::{Arrived, Bye, Control, CopyOptions, DigestKind, Outcome, ToDestination, ToSource};
use proto::limits::ARRIVED_PARCELS_MAX;
use proto::source::{Finished, Job, STREAM_PARCELS_MAX, Source};
use proto::{Entry, EntryKind, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use self::endings::Endings;
pub use self::scan::From;
use self::scan::{Early, ToScan, scan_options};
use super::hooks::SessionHooks;
use super::lanes::Lanes;
use super::sending::Sending;
use super::tally::{Tally, per_second};
use super::{CLOSE, Context, DRAIN, NEWS_MAX, SECOND, SessionError, Steering, Wire, steered, stopped};
use crate::digest::DigestValue;
use crate::event::{Event, Progress};
use crate::frame::{Frame, Pool, frames};
use crate::io::busy::DiskBusy;
use crate::io::read::{self, Loaded, ReadEvent, Running, SourceFile, Task};
use crate::link::LinkError;
use crate::net::NetEvent;
use crate::report::Outlook;
use crate::request::Steer;
use crate::scan::ScanEvent;

/// Files of up to this many bytes travel whole, in batches. Both ends derive it from the chunk's size.
#[must_use]
pub fn small_max(chunk_size: u32) -> u32 {
    chunk_size / 4
}

/// Digests that are to be computed by reading again; the scan waits at this number.
const LATE_MAX: usize = 4096;

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

/// What came of a session, for the summary.
pub struct End {
    /// Files and bytes.
    pub tally: Tally,
    /// Rates, limits, retransmits.
    pub outlook: Outlook,
}

/// Runs the source end of a copy to its end. What came of it is in the second part also when it failed.
pub async fn run(setup: Setup) -> (Result<(), SessionError>, End) {
    let Setup { mut context, from, options, reorder_chunks, every_file } = setup;
    let (news, news_inbox) = mpsc::channel(NEWS_MAX);
    let end = End { tally: Tally::default(), outlook: Outlook::new(&mut context) };
    let scan = match scan_options(&options) {
        Ok(scan) => scan,
        Err(error) => return (Err(error), end),
    };
    let chunk_size = context.settings.chunk_size;
    // What an input keeps beside the frames.
    let kept = if matches!(from, From::Input(_)) { STREAM_PARCELS_MAX * u64::from(chunk_size) } else { 0 };
    let frames = frames(context.memory_bytes.saturating_sub(kept), chunk_size);
    let pool = match Pool::new(frames, chunk_size as usize, Vec::new(), context.placement.clone()) {
        Ok(pool) => pool,
        Err(error) => return (Err(SessionError::Os { doing: "getting memory for buffers".to_owned(), error }), end),
    };
    let (root, specs, early, input) = match from {
        From::Tree { root, specs, early } => (root, specs, early, None),
        From::Input(input) => match Dir::open("/") {
            Ok(root) => (root, Vec::new(), None, Some(input)),
            Err(error) => return (Err(SessionError::Os { doing: "opening /".to_owned(), error }), end),
        },
    };
    let top = hooks::top(&specs);
    let session_hooks = match SessionHooks::start(&context, "source", || hooks::top_path(&root, &top)) {
        Ok(hooks) => hooks,
        Err(error) => return (Err(error), end),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let shared = read::Shared {
        root: root.clone(),
        pool: pool.clone(),
        events: news,
        lane: 0,
        io: context.limits.io,
        chunk_size,
        preserve_all: options.preserve_all,
        files: read::OpenFiles::default(),
        turn: Mutex::default(),
        busy: DiskBusy::default(),
        stop: stop.clone(),
    };
    let (started, to_scan) = match input {
        None => (Lanes::start(shared), ToScan::Tree(specs, scan)),
        Some(input) => (Lanes::of_input(shared, input), ToScan::Input),
    };
    let readers = match started {
        Ok(readers) => readers,
        Err(error) => return (Err(SessionError::Os { doing: "starting readers".to_owned(), error }), end),
    };
    let (small_max, dry_run) = (small_max(chunk_size), options.dry_run);
    let machine = Source::new(proto::source::Config { chunk_size, small_max, reorder_chunks, dry_run });
    let wire = Wire::of(&mut context);
    let sending = Sending::new(&mut context, pool, None);
    let mut session = Session {
        machine,
        wire,
        sending,
        readers,
        scanned: None,
        to_scan: Some(to_scan),
        news: news_inbox,
        files: HashMap::new(),
        dirs: HashMap::new(),
        sizes: BTreeMap::new(),
        late_digests: 0,
        digest: options.digest,
        every_file,
        steer: context.steer.clone(),
        context,
        end,
        last_second: Instant::now(),
        bye: None,
        endings: Endings::default(),
        draining: None,
        hooks: session_hooks,
        wanted: HashMap::new(),
        root,
        top,
        preserve_all: options.preserve_all,
    };
    match early {
        Some(early) => session.go_on(*early).await,
        None => session.begin_scan(),
    }
    let result = session.run().await;
    session.shutdown(&result).await;
    stop.store(true, Ordering::Relaxed);
    let Session { end, readers, sending, hooks, .. } = session;
    hooks.finish().await;
    // Threads end when their queues close; joining them keeps the runtime's thread free of surprises.
    let _ = tokio::task::spawn_blocking(move || {
        drop(sending);
        drop(readers);
    })
    .await;
    (result, end)
}

struct Session {
    machine: Source,
    wire: Wire,
    sending: Sending,
    readers: Lanes,
    /// `None` until the scan begins, and once it has ended.
    scanned: Option<mpsc::Receiver<ScanEvent>>,
    /// What is scanned, until the scan begins.
    to_scan: Option<ToScan>,
    news: mpsc::Receiver<(u8, ReadEvent)>,
    files: HashMap<u64, Arc<SourceFile>>,
    /// Directories that are announced and not listed.
    dirs: HashMap<RelPath, u64>,
    /// Chunk parcels under way: file and bytes, for the progress.
    sizes: BTreeMap<u64, Vec<(u64, u32)>>,
    /// Digests to be computed by reading again.
    late_digests: usize,
    digest: Option<DigestKind>,
    every_file: bool,
    context: Context,
    end: End,
    last_second: Instant,
    bye: Option<Bye>,
    endings: Endings,
    /// Set when this end was told to stop: nothing new is read after this.
    draining: Option<Instant>,
    steer: Option<Steering>,
    hooks: SessionHooks,
    /// Files that the destination wants, if there are hooks.
    wanted: HashMap<u64, hooks::Wanted>,
    /// The directory that the sources lie beneath.
    root: Dir,
    /// The directory in it that hooks are told of.
    top: Vec<u8>,
    preserve_all: bool,
}

impl Session {
    async fn run(&mut self) -> Result<(), SessionError> {
        let mut tick = tokio::time::interval(self.sending.beat());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut stop = self.context.stop.clone();
        let mut steer = self.steer.clone();
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
            let scan_room = self.late_digests < LATE_MAX
                && self.machine.has_room()
                && self.hooks.has_room()
                && self.draining.is_none();
            tokio::select! {
                message = self.wire.link.recv() => self.hear(message?).await?,
                news = self.news.recv() => self.read(news.expect("readers hold a sender")).await,
                event = self.sending.events.recv() => self.network(event.expect("senders hold a sender")),
                opened = self.sending.streams.next() => {
                    if let Some(news) = self.sending.add(opened, &mut self.end.outlook).await? {
                        self.wire.link.send(news).await;
                    }
                }
                Some(done) = self.hooks.done.recv() => self.hooked(done).await?,
                event = scan::scan_next(&mut self.scanned), if scan_room => self.scan(event).await,
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
        let more = self.take_scanned().await;
        while self.wire.link.has_room() {
            let Some(message) = self.machine.poll_message() else { break };
            self.wire.link.send(Control::Source(message)).await;
        }
        self.dispatch();
        while let Some(finished) = self.machine.poll_finished() {
            self.finished(finished).await;
        }
        if more {
            // Streams are being opened, and the link writes, on the same thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Announces some of what the scan has found; whether there may be more.
    async fn take_scanned(&mut self) -> bool {
        for _ in 0..scan::SCANNED_AT_ONCE {
            let room = self.machine.has_room() && self.hooks.has_room();
            if !room || self.late_digests >= LATE_MAX || self.draining.is_some() {
                return false;
            }
            let Some(scanned) = &mut self.scanned else { return false };
            match scanned.try_recv() {
                Ok(event) => self.scan(Some(event)).await,
                Err(mpsc::error::TryRecvError::Empty) => {
                    self.machine.flush();
                    return false;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => self.scan(None).await,
            }
        }
        true
    }

    /// Gives readers work while there is room for it.
    fn dispatch(&mut self) {
        if self.draining.is_some() {
            return;
        }
        self.readers.feed_late();
        while self.sending.has_room()
            && let Some((lane, job)) = self.machine.poll_job(|lane| self.readers.room(lane))
        {
            if let Some(task) = self.task(job) {
                self.readers.give(lane, task);
            }
        }
    }

    fn task(&mut self, job: Job) -> Option<Task> {
        match job {
            Job::Chunk { parcel, item, after } => {
                // The rest of a parcel lands with what came before.
                if after.is_none() {
                    self.sizes.insert(parcel, vec![(item.index, item.len)]);
                }
                Some(Task::Chunk { parcel, item, file: self.files.get(&item.index)?.clone(), after })
            }
            Job::Batch { parcel, items, after } => {
                if after.is_none() {
                    self.sizes.insert(parcel, items.iter().map(|i| (i.index, i.len)).collect());
                }
                let items =
                    items.into_iter().filter_map(|item| Some((item, self.files.get(&item.index)?.clone()))).collect();
                Some(Task::Batch { parcel, items, after })
            }
            Job::Compare { index, digest } => Some(Task::Compare { file: self.files.get(&index)?.clone(), digest }),
        }
    }

    /// Goes on with a scan, what was found first having been announced.
    async fn go_on(&mut self, early: Early) {
        let Early { scanned, found, messages, next } = early;
        self.to_scan = None;
        self.scanned = Some(scanned);
        for event in found {
            self.scan(Some(event)).await;
        }
        self.machine.flush();
        for _ in 0..messages {
            self.machine.poll_message().expect("it announces the same again");
        }
        if next.is_some() {
            self.scan(next).await;
        }
    }

    async fn scan(&mut self, event: Option<ScanEvent>) {
        match event {
            Some(ScanEvent::Entry(entry, place)) => {
                self.end.tally.entry(&entry);
                let lane = self.readers.of(&entry);
                let index = self.machine.handle_entry(entry.clone(), lane);
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
                let text = format!("{path}: {why}");
                if !self.context.driver {
                    self.wire.link.send(Control::Source(ToDestination::Warning(text.clone()))).await;
                }
                self.tell(Event::Warning { text }).await;
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
                match &message {
                    ToSource::WouldDelete(paths) if self.every_file => {
                        for path in paths {
                            self.tell(Event::File(super::tally::file_event(path, "deleted", 0, None))).await;
                        }
                    }
                    ToSource::Warning(text) => self.tell(Event::Warning { text: text.clone() }).await,
                    _ => {}
                }
                let message = self.hold(message)?;
                self.machine.handle_message(message).map_err(|e| LinkError::Protocol(e.to_string()))?;
            }
            Control::Bye(bye) => self.bye = Some(bye),
            Control::Refused(why) => return Err(LinkError::Refused(why).into()),
            Control::StreamEnded { stream, arrived } if arrived.whole.len() <= ARRIVED_PARCELS_MAX => {
                let is_open = self.sending.streams.is_open(stream);
                if let Some(arrived) = self.endings.ended(stream, arrived, is_open) {
                    self.machine.handle_stream_ended(stream, &arrived);
                }
            }
            Control::SetRate(rate) => self.sending.set_rate(rate, false),
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
                    let proto::control::Wanted::Rest { have } = &want.what else { continue };
                    let bytes = have.len() * u64::from(self.context.settings.chunk_size);
                    let size = self.machine.entry(*index).and_then(Entry::size).unwrap_or(u64::MAX);
                    self.end.tally.landed(*index, bytes.min(size));
                    self.drop_digest(*index);
                }
            }
            ToSource::Repair(_) => self.end.tally.repaired += 1,
            ToSource::Done(_) | ToSource::WouldDelete(_) | ToSource::Warning(_) | ToSource::Window(_) => {}
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

    async fn read(&mut self, (lane, news): (u8, ReadEvent)) {
        match news {
            ReadEvent::Loaded(Loaded { mut frame, results, hole_end }) => {
                self.readers.back(lane);
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
                        if let Some(sizes) = self.sizes.get_mut(&frame.parcel) {
                            sizes.retain(|(index, _)| *index != item.index);
                        }
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
                        let (path, why) = (file.entry.path.clone(), format!("digest: {why}"));
                        let event = self.end.tally.problem(&path, why.clone());
                        if !self.context.driver {
                            self.wire.link.send(Control::Source(ToDestination::Problem { path, why })).await;
                        }
                        self.tell(Event::File(event)).await;
                    }
                }
                self.release(&file).await;
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
            NetEvent::Sending { parcel, stream, bytes } => {
                self.sending.took(stream, bytes);
                self.machine.handle_sent(parcel, stream);
            }
            NetEvent::Closed { id, why, .. } => {
                // A destination that has everything closes its end; that loses nothing.
                let why = why.filter(|_| !self.machine.is_done());
                self.sending.closed(id, why.as_deref());
                if let Some(arrived) = self.endings.closed(id, Instant::now()) {
                    self.machine.handle_stream_ended(id, &arrived);
                }
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
        self.note_done(&file, &outcome);
        let done = matches!(outcome, Outcome::Placed | Outcome::Equal);
        let Some(kind) = self.digest.filter(|_| done) else {
            self.files.remove(&index);
            return self.release(&file).await;
        };
        let on_the_way = file
            .digest
            .as_ref()
            .and_then(|d| d.lock().expect("no panic under the lock").finish(entry.size().unwrap_or(0)));
        match on_the_way {
            Some(value) if outcome == Outcome::Placed => {
                self.files.remove(&index);
                self.digest_done(&entry, value).await;
                self.release(&file).await;
            }
            _ => {
                self.late_digests += 1;
                let lane = self.readers.of(&file.entry);
                self.readers.late(lane, Task::Digest { file, kind });
            }
        }
    }

    async fn digest_done(&mut self, entry: &Entry, value: DigestValue) {
        if !self.context.driver {
            let (path, size) = (entry.path.clone(), entry.size().unwrap_or(0));
            let digest = ToDestination::Digest { path, size, value: value.to_string() };
            return self.wire.link.send(Control::Source(digest)).await;
        }
        let mut event = super::tally::file_event(&entry.path, "placed", entry.size().unwrap_or(0), None);
        event.digest = Some(value.to_string());
        self.tell(Event::File(event)).await;
    }

    async fn tick(&mut self) -> Result<(), SessionError> {
        let now = Instant::now();
        self.wire.tick(now).await?;
        // Asked only when it is time to look: it goes through all that is under way.
        let is_last = || self.machine.is_sent();
        for id in self.sending.tick(now, &self.wire, self.end.tally.left(), is_last)? {
            self.endings.given_up(id, now);
            self.wire.link.send(Control::StreamLost(id)).await;
        }
        while self.wire.link.is_heard(now)
            && let Some(overdue) = self.endings.overdue(now)
        {
            match overdue {
                Ok(id) => self.wire.link.send(Control::StreamLost(id)).await,
                Err(id) => self.machine.handle_stream_ended(id, &Arrived::default()),
            }
        }
        if now.duration_since(self.last_second) >= SECOND {
            self.second(now).await;
        }
        Ok(())
    }

    async fn second(&mut self, now: Instant) {
        let span = now.duration_since(std::mem::replace(&mut self.last_second, now));
        let busy = self.readers.busy();
        let telemetry = self.sending.second(&self.wire.peer, busy, &mut self.end.outlook);
        if self.wire.link.has_room() {
            self.wire.link.send(Control::Telemetry(telemetry)).await;
        }
        if let Some(news) = self.sending.tell_congestion(&mut self.end.outlook).await {
            self.wire.link.send(news).await;
        }
        self.end.outlook.second().await;
        if self.context.events.is_some() {
            let moved = self.sending.bytes();
            let progress = self.end.tally.progress(
                &mut self.end.outlook.clock,
                moved,
                self.sending.streams.len(),
                self.end.outlook.limit,
            );
            let sample = &self.end.outlook.sample;
            let (retransmits, rtt_us, cwnd_bytes) = (sample.retransmits, sample.rtt_us, sample.cwnd_bytes);
            let acked_bps = Some(per_second(sample.acked, span));
            let progress = Progress { retransmits, rtt_us, cwnd_bytes, mss_bytes: sample.mss, acked_bps, ..progress };
            self.tell(Event::Progress(progress)).await;
        }
    }

    fn steer(&mut self, change: Steer) {
        match change {
            Steer::Rate(rate) => self.sending.set_rate(rate, true),
            Steer::Streams(n) => self.sending.set_streams(n),
            Steer::Path { to, is_cut } => {
                self.wire.link.prefer(to);
                self.sending.prefer(to, is_cut);
            }
            Steer::Stop => self.draining = Some(Instant::now()),
        }
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.context.events {
            let _ = events.send(event).await;
        }
    }

    async fn shutdown(&mut self, result: &Result<(), SessionError>) {
        self.settle(result).await;
        self.end.outlook.io = Some(self.readers.io());
        let last = self.sending.last(&self.wire.peer, self.readers.busy(), &mut self.end.outlook);
        self.wire.say_goodbye(last, result).await;
        let link = std::mem::replace(&mut self.wire.link, crate::link::Link::closed());
        link.close(CLOSE).await;
        self.settle_failed(result).await;
    }
}
