//! Hooks at the destination: a file is asked for after its hook, and called placed after the one that follows.

use std::time::Instant;

use proto::EntryKind;
use proto::control::{Bye, Control, Outcome, ToDestination, ToSource};
use proto::destination::Decision;

use super::{Ask, Session};
use crate::event::Event;
use crate::hook::pool::{Done, Job};
use crate::hook::{Moment, Occasion, TIME_MAX, Verdict};
use crate::session::hooks::{GRACE, STOPPED_TIME_MAX, TOO_MANY};
use crate::session::{CLOSE, SessionError, TICK, stopped};

/// What waits for the hook of a file.
pub(super) enum Held {
    /// The file is to be received like this, after its hook.
    Decision(Decision),
    /// Its hook has said that it may be received.
    Ready,
    /// It is in place, with this outcome.
    Published(Outcome),
    /// An earlier session of the copy has put it in place.
    Equal,
}

impl Session {
    /// Keeps a decision back if a hook is to be run before it; gives it back otherwise. Once for each file: one that
    /// starts again has had its hook.
    pub(super) fn hold(&mut self, index: u64, decision: Decision) -> Option<Decision> {
        if matches!(decision, Decision::Settled(Outcome::Equal)) && self.begin_owed(index) {
            return None;
        }
        let content = matches!(decision, Decision::Receive { .. } | Decision::Compare { .. });
        if !content || !self.hooks.has(Moment::BeforeFile) || self.held.contains_key(&index) {
            return Some(decision);
        }
        if !self.run_hook(Moment::BeforeFile, index, None) {
            self.ask(Ask::Discard(index));
            return Some(Decision::Settled(Outcome::Failed(TOO_MANY.to_owned())));
        }
        self.held.insert(index, Held::Decision(decision));
        None
    }

    /// Begins the hook after a file that an earlier session put in place, if that could not; false if nothing is owed.
    fn begin_owed(&mut self, index: u64) -> bool {
        let is_owed = self.entries.get(&index).is_some_and(|entry| self.hooks.take_owed(&entry.path));
        let begun = is_owed && self.run_hook(Moment::AfterFile, index, Some("placed"));
        if begun {
            self.held.insert(index, Held::Equal);
        }
        begun
    }

    /// Keeps the outcome of a file that is in place back if a hook is to be run after it; gives it back otherwise.
    pub(super) fn hold_published(&mut self, index: u64, outcome: Outcome) -> Option<Outcome> {
        let in_place = match outcome {
            Outcome::Placed => "placed",
            Outcome::Equal => "equal",
            _ => return Some(outcome),
        };
        let content = |kind: &EntryKind| matches!(kind, EntryKind::File(_) | EntryKind::Stream);
        let is_file = self.entries.get(&index).is_some_and(|entry| content(&entry.kind));
        if !is_file || !self.hooks.has(Moment::AfterFile) {
            return Some(outcome);
        }
        if !self.run_hook(Moment::AfterFile, index, Some(in_place)) {
            return Some(Outcome::Failed(TOO_MANY.to_owned()));
        }
        self.held.insert(index, Held::Published(outcome));
        None
    }

    fn run_hook(&mut self, moment: Moment, index: u64, outcome: Option<&'static str>) -> bool {
        let Some(entry) = self.entries.get(&index) else { return false };
        let path = self.single_name.clone().unwrap_or_else(|| entry.path.as_bytes().to_vec());
        let occasion = Occasion { path: Some(path), size: entry.size(), outcome, ..Occasion::default() };
        let name = entry.path.clone();
        self.hooks.file(moment, Job { index, name, occasion, look: None })
    }

    /// A hook has ended.
    pub(super) async fn hooked(&mut self, done: Done) -> Result<(), SessionError> {
        self.hooks.ended(&done);
        let Done { moment, index, verdict, .. } = done;
        match moment {
            Moment::BeforeDataset => self.hooks.opened(verdict)?,
            Moment::AfterDataset => {
                let why = verdict.err().filter(|error| !error.is_stopped());
                self.tell_last(why.map(|error| format!("all is in place, but {error}"))).await;
            }
            Moment::BeforeFile => {
                let Some(Held::Decision(decision)) = self.held.remove(&index) else { return Ok(()) };
                let decision = match verdict {
                    Ok(Verdict::GoOn) => {
                        self.held.insert(index, Held::Ready);
                        self.decided(index, decision);
                        return Ok(());
                    }
                    Ok(Verdict::LeaveOut) => Decision::LeaveOut,
                    Err(error) => {
                        self.ask(Ask::Discard(index));
                        Decision::Settled(Outcome::Failed(error.to_string()))
                    }
                };
                self.machine.handle_decision(index, decision);
            }
            Moment::AfterFile => {
                let failed = verdict.err().map(|error| Outcome::Failed(format!("in place, but {error}")));
                match self.held.remove(&index) {
                    Some(Held::Published(outcome)) => self.published(index, failed.unwrap_or(outcome)),
                    Some(Held::Equal) => {
                        let decision = Decision::Settled(failed.unwrap_or(Outcome::Equal));
                        self.machine.handle_decision(index, decision);
                    }
                    Some(Held::Decision(_) | Held::Ready) | None => {}
                }
            }
        }
        Ok(())
    }

    /// Keeps the message back that makes the copy complete, while an agent's hook after the dataset runs: with it the
    /// source ends, and would not hear of a failure. Gives any other back.
    pub(super) fn hold_last(&mut self, message: ToSource) -> Option<ToSource> {
        if matches!(message, ToSource::Done(_))
            && self.machine.is_done()
            && self.hooks.end_dataset(true, &self.end.tally, TIME_MAX)
        {
            self.last = Some(message);
            return None;
        }
        Some(message)
    }

    /// Sends what [`Session::hold_last`] kept. A failed hook is told as the failure of the last entry, which is all
    /// that the protocol has for it: for a tree that is mostly the directory at its top.
    async fn tell_last(&mut self, why: Option<String>) {
        let Some(mut message) = self.last.take() else { return };
        if let (Some(why), ToSource::Done(done)) = (why, &mut message)
            && let Some((_, outcome)) = done.last_mut().filter(|(_, outcome)| !outcome.is_failure())
        {
            *outcome = Outcome::Failed(why);
        }
        self.wire.link.send(Control::Destination(message)).await;
    }

    /// Runs what hooks are left of a session that is over: of files that were published when nobody listened any
    /// more, and of the dataset.
    pub(super) async fn settle(&mut self, result: &Result<(), SessionError>, published: Vec<u64>) {
        let is_stopped = matches!(result, Err(SessionError::Stopped));
        if result.is_err() && self.hooks.is_open() {
            for index in published {
                let _ = self.hold_published(index, Outcome::Placed);
            }
            self.hooks.run_out(if is_stopped { STOPPED_TIME_MAX } else { GRACE }).await;
        }
        let time_max = if is_stopped { STOPPED_TIME_MAX } else { TIME_MAX };
        if self.hooks.end_dataset(result.is_ok(), &self.end.tally, time_max) {
            let mut stop = self.context.stop.clone();
            let asked = async {
                if is_stopped {
                    std::future::pending::<()>().await;
                }
                stopped(&mut stop).await;
            };
            tokio::select! {
                () = self.hooks.run_out(TIME_MAX) => {}
                () = asked => {}
            }
        }
    }

    /// Waits for the source's goodbye, as long as anything is heard: it may still compute digests and run hooks, and
    /// what those say counts.
    pub(super) async fn goodbye(&mut self) {
        let mut heard = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        let mut stop = self.context.stop.clone();
        while heard.elapsed() < CLOSE {
            tokio::select! {
                message = self.wire.link.recv() => {
                    let Ok(message) = message else { return };
                    heard = Instant::now();
                    match self.wire.hear(message).await {
                        Some(Control::Bye(Bye::Done | Bye::Abandoned(_))) => break,
                        Some(Control::Source(ToDestination::Problem { path, why })) => {
                            let event = self.end.tally.problem(&path, why);
                            self.tell(Event::File(event)).await;
                        }
                        Some(Control::Source(ToDestination::Digest { path, size, value })) => {
                            self.digest(&path, size, &value).await;
                        }
                        _ => {}
                    }
                }
                _ = tick.tick() => if self.wire.tick(Instant::now()).await.is_err() { break },
                () = stopped(&mut stop) => break,
            }
        }
        self.end.outlook.heard(&self.wire);
    }
}
