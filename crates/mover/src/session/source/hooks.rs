//! Hooks at the source: a file that the destination wants is read after its hook, and reported after it is in place.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::EntryKind;
use proto::control::{Control, Outcome, ToDestination, ToSource, Want};
use sys::file::Dir;

use super::Session;
use crate::event::Event;
use crate::hook::pool::{Done, Job, Look};
use crate::hook::{HookError, Moment, Occasion, TIME_MAX, Verdict};
use crate::io::read::SourceFile;
use crate::link::LinkError;
use crate::scan::SourceSpec;
use crate::session::hooks::{GRACE, STOPPED_TIME_MAX, TOO_MANY};
use crate::session::{SECOND, SessionError, TICK, steered, stopped};

/// How long hooks and digests of a copy that is complete may take.
const SETTLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A file that the destination wants, as hooks see it.
pub(super) enum Wanted {
    /// Its hook runs or waits; after it, this is wanted.
    Held(Want),
    /// It may be read.
    Ready,
    /// It is in place, with this outcome; the hook after it has not begun.
    InPlace(&'static str),
}

/// The directory that all sources lie in, beneath the one they are read from: hooks are told of files relative to it.
pub(super) fn top(specs: &[SourceSpec]) -> Vec<u8> {
    let dirs = specs.iter().map(|spec| {
        let parent = spec.path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        if spec.contents_only { spec.path.as_slice() } else { &spec.path[..parent] }
    });
    let common = |one: &[u8], other: &[u8]| {
        let same = one.split(|b| *b == b'/').zip(other.split(|b| *b == b'/')).take_while(|(a, b)| a == b);
        same.map(|(name, _)| name).collect::<Vec<_>>().join(&b'/')
    };
    dirs.map(<[u8]>::to_vec).reduce(|one, other| common(&one, &other)).unwrap_or_default()
}

/// The path of [`top`].
pub(super) fn top_path(root: &Dir, top: &[u8]) -> std::io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let root = root.path()?;
    Ok(if top.is_empty() { root } else { root.join(std::ffi::OsStr::from_bytes(top)) })
}

impl Session {
    /// Keeps back what waits for a hook; gives the rest, for the machine.
    pub(super) fn hold(&mut self, message: ToSource) -> Result<ToSource, SessionError> {
        let ToSource::Wants(wants) = message else { return Ok(message) };
        let mut now = Vec::with_capacity(wants.len());
        for (index, want) in wants {
            let Some(file) = self.files.get(&index).cloned().filter(|_| self.hooks.has_any()) else {
                now.push((index, want));
                continue;
            };
            match self.wanted.get(&index) {
                Some(Wanted::Held(_)) => {
                    return Err(LinkError::Protocol(format!("entry {index} is wanted twice")).into());
                }
                Some(_) => now.push((index, want)),
                None if !self.hooks.has(Moment::BeforeFile) => {
                    self.wanted.insert(index, Wanted::Ready);
                    now.push((index, want));
                }
                None => {
                    self.wanted.insert(index, Wanted::Held(want));
                    let is_file = matches!(file.entry.kind, EntryKind::File(_));
                    let look = is_file.then(|| Look {
                        root: self.root.clone(),
                        place: file.place.clone(),
                        preserve_all: self.preserve_all,
                    });
                    if !self.run_hook(Moment::BeforeFile, &file, None, look) {
                        self.machine.fail(index, TOO_MANY.to_owned());
                    }
                }
            }
        }
        Ok(ToSource::Wants(now))
    }

    fn run_hook(
        &mut self,
        moment: Moment,
        file: &SourceFile,
        outcome: Option<&'static str>,
        look: Option<Look>,
    ) -> bool {
        let path = file.place.path.strip_prefix(self.top.as_slice()).unwrap_or(&file.place.path);
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let occasion = Occasion { path: Some(path), size: file.entry.size(), outcome, ..Occasion::default() };
        self.hooks.file(moment, Job { index: file.index, name: file.entry.path.clone(), occasion, look })
    }

    /// A hook has ended.
    pub(super) async fn hooked(&mut self, done: Done) -> Result<(), SessionError> {
        self.hooks.ended(&done);
        match done.moment {
            Moment::BeforeDataset => {
                self.hooks.opened(done.verdict)?;
                self.begin_scan();
            }
            Moment::BeforeFile => self.staged(done)?,
            Moment::AfterFile | Moment::AfterDataset => {
                if let Err(error) = done.verdict {
                    self.hook_failed(&done.name, error).await;
                }
            }
        }
        Ok(())
    }

    /// Begins the scan, once the dataset may be read.
    pub(super) fn begin_scan(&mut self) {
        if let Some(to_scan) = self.to_scan.take_if(|_| self.hooks.is_open()) {
            self.scanned = Some(to_scan.begin(self.root.clone()));
        }
    }

    /// A file is ready to be read, or is not to be.
    fn staged(&mut self, done: Done) -> Result<(), SessionError> {
        let Done { index, verdict, entry, .. } = done;
        // The destination may have given it up meanwhile.
        let Some(Wanted::Held(want)) = self.wanted.remove(&index) else { return Ok(()) };
        let Some(file) = self.files.get(&index).cloned() else { return Ok(()) };
        match (verdict, entry) {
            (Err(error), _) => self.machine.fail(index, error.to_string()),
            (Ok(Verdict::LeaveOut), _) => self.machine.leave_out(index),
            (Ok(Verdict::GoOn), Some(Err(error))) => {
                let doing = format!("looking at {} after its hook", file.entry.path);
                self.machine.fail(index, crate::io::say(&doing, &error));
            }
            (Ok(Verdict::GoOn), Some(Ok(entry))) if entry.kind != file.entry.kind => {
                self.wanted.insert(index, Wanted::Ready);
                self.machine.handle_changed(index, entry.clone());
                self.changed(index, file.generation, entry);
            }
            (Ok(Verdict::GoOn), _) => {
                self.wanted.insert(index, Wanted::Ready);
                let wants = ToSource::Wants(vec![(index, want)]);
                self.machine.handle_message(wants).map_err(|e| LinkError::Protocol(e.to_string()))?;
            }
        }
        Ok(())
    }

    /// A file is done: keeps in mind whether there is a hook to be run after it.
    pub(super) fn note_done(&mut self, file: &SourceFile, outcome: &Outcome) {
        let index = file.index;
        // What an earlier session sent is equal now.
        let is_owed = self.hooks.take_owed(&file.entry.path);
        let word = match outcome {
            Outcome::Equal if !is_owed => "equal",
            Outcome::Placed | Outcome::Equal => "placed",
            _ => "",
        };
        let is_wanted = self.wanted.remove(&index).is_some();
        if (is_wanted || is_owed) && !word.is_empty() && self.hooks.has(Moment::AfterFile) {
            self.wanted.insert(index, Wanted::InPlace(word));
        }
    }

    /// This end needs a file no more, which is in place.
    pub(super) async fn release(&mut self, file: &Arc<SourceFile>) {
        if let Some(Wanted::InPlace(outcome)) = self.wanted.remove(&file.index)
            && !self.run_hook(Moment::AfterFile, file, Some(outcome), None)
        {
            let event = self.end.tally.problem(&file.entry.path, TOO_MANY.to_owned());
            self.tell(Event::File(event)).await;
        }
    }

    /// A hook failed after what it is about is in place: it is reported here, and by a driver at the other end.
    async fn hook_failed(&mut self, name: &proto::RelPath, error: HookError) {
        if error.is_stopped() {
            return;
        }
        let why = format!("in place, but {error}");
        let event = self.end.tally.problem(name, why.clone());
        self.tell(Event::File(event)).await;
        if !self.context.driver {
            self.wire.link.send(Control::Source(ToDestination::Problem { path: name.clone(), why })).await;
        }
    }

    /// Waits for what a session still owes: digests and hooks of files in place, then the hook of the dataset.
    pub(super) async fn settle(&mut self, result: &Result<(), SessionError>) {
        match result {
            Ok(()) => {
                if self.settled().await && self.hooks.end_dataset(true, &self.end.tally, TIME_MAX) {
                    self.settled().await;
                }
            }
            Err(error) if self.hooks.is_open() => {
                let patience = if matches!(error, SessionError::Stopped) { STOPPED_TIME_MAX } else { GRACE };
                self.hooks.run_out(patience).await;
                // The destination may have them in place without this end having heard of it.
                for index in self.wanted.iter().filter(|(_, is)| !matches!(is, Wanted::Held(_))).map(|(index, _)| index)
                {
                    if let Some(file) = self.files.get(index) {
                        self.hooks.owe(&file.entry.path);
                    }
                }
            }
            Err(_) => {}
        }
    }

    /// The hook after a dataset that was not copied; nobody waits for it at the other end.
    pub(super) async fn settle_failed(&mut self, result: &Result<(), SessionError>) {
        let time_max = if matches!(result, Err(SessionError::Stopped)) { STOPPED_TIME_MAX } else { TIME_MAX };
        if self.hooks.end_dataset(false, &self.end.tally, time_max) {
            let mut stop = self.context.stop.clone();
            let asked = async {
                match result {
                    Err(SessionError::Stopped) => std::future::pending().await,
                    _ => stopped(&mut stop).await,
                }
            };
            tokio::select! {
                () = self.hooks.run_out(TIME_MAX) => {}
                () = asked => {}
            }
        }
    }

    /// Waits until nothing is owed; the link is kept alive meanwhile, for the other end may want to hear of it. False
    /// if this end was told to stop.
    async fn settled(&mut self) -> bool {
        let (mut stop, mut steer) = (self.context.stop.clone(), self.steer.clone());
        let mut tick = tokio::time::interval(TICK);
        let until = Instant::now() + SETTLE_MAX;
        // A destination that is an agent has gone when it said goodbye.
        let mut linked = true;
        while self.late_digests > 0 || !self.hooks.is_idle() {
            self.dispatch();
            tokio::select! {
                Some(news) = self.news.recv() => self.read(news).await,
                Some(done) = self.hooks.done.recv() => {
                    // All that is left is told, none of it can end the session.
                    let _ = self.hooked(done).await;
                }
                message = self.wire.link.recv(), if linked => match message {
                    Ok(message) => drop(self.wire.hear(message).await),
                    Err(_) => linked = false,
                },
                _ = tick.tick() => {
                    let now = Instant::now();
                    if now >= until {
                        return false;
                    }
                    if now.duration_since(self.last_second) >= SECOND {
                        self.second(now).await;
                    }
                }
                change = steered(&mut steer) => match change {
                    crate::request::Steer::Stop => return false,
                    change => self.steer(change),
                },
                () = stopped(&mut stop) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_relative_to_what_all_sources_lie_in() {
        let spec = |path: &str, contents_only| SourceSpec { path: path.into(), contents_only, ..SourceSpec::default() };
        let cases = [
            (vec![spec("data/run7", true)], "data/run7"),
            (vec![spec("data/run7", false)], "data"),
            (vec![spec("run7", false)], ""),
            (vec![spec("", true)], ""),
            (vec![spec("data/run7/a", false), spec("data/run8", true)], "data"),
            (vec![spec("data/ab", true), spec("data/abc", true)], "data"),
            (vec![spec("a/x", false), spec("b/x", false)], ""),
        ];
        for (specs, expected) in cases {
            assert_eq!(top(&specs), expected.as_bytes(), "{specs:?}");
        }
    }
}
