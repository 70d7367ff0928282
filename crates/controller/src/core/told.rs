//! What drivers tell of files and of ends: gathered, for the file ledger has a price for each transaction and none for its length.
//!
//! Nobody waits for an answer to these, and an agent tells them again on every further connection until long after the session's end; so they
//! may wait for the next tick, and share an `fsync` with those of all other sessions. Before anything else ends sessions they are settled.

use std::collections::{BTreeMap, BTreeSet};

use api::agent::{Ended, FileDone};
use ledger::{Event, SessionId, Settled, Verdict, cut};

use super::Core;
use super::sessions::unhex;
use crate::store::{Outcome, PageId, Settled as Stored, Settlement, StoreError};

/// Files that wait; with so many they are settled at once. One message more fits into a transaction of the file ledger.
const FILES_MAX: usize = 20_000;

/// What waits to be settled, by session.
#[derive(Debug, Default)]
pub(super) struct Told {
    sessions: BTreeMap<SessionId, Of>,
    files: usize,
}

#[derive(Debug, Default)]
struct Of {
    files: Vec<FileDone>,
    ended: Option<Ended>,
}

impl Told {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

/// What becomes of files of a session.
struct Judged {
    id: SessionId,
    again: Vec<u32>,
    settled: Settled,
}

impl Core {
    /// Files of a session are finished.
    pub(super) fn files_told(&mut self, id: SessionId, files: Vec<FileDone>) {
        let of = self.told.sessions.entry(id).or_default();
        // After its end nothing counts.
        if of.ended.is_none() {
            self.told.files += files.len();
            of.files.extend(files);
        }
        if self.told.files >= FILES_MAX {
            self.settle_told();
        }
    }

    /// A driver says that a session is over.
    pub(super) fn end_told(&mut self, id: SessionId, ended: Ended) {
        self.told.sessions.entry(id).or_default().ended.get_or_insert(ended);
    }

    /// First the file ledger, then the events; then the ends.
    pub(super) fn settle_told(&mut self) {
        if self.told.is_empty() || !self.repair() {
            return;
        }
        let told = std::mem::take(&mut self.told);
        let (mut judged, mut settlements, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (id, of) in told.sessions {
            if !of.files.is_empty()
                && let Some((one, settlement)) = self.judge(id, of.files)
            {
                judged.push(one);
                settlements.push(settlement);
            }
            ends.extend(of.ended.map(|ended| (id, ended)));
        }
        match self.stores.files.settle(&settlements) {
            Ok(stored) => judged.into_iter().zip(stored).for_each(|(one, stored)| self.settled(one, &stored)),
            // Whether it was written is not known, so it cannot be counted.
            Err(error @ StoreError::Lost { .. }) => judged.iter().for_each(|one| self.unsettled(one.id, &error)),
            // One that is damaged is no matter of the others.
            Err(_) => {
                judged.into_iter().zip(settlements).for_each(|(one, settlement)| self.settle_one(one, settlement))
            }
        }
        for (id, ended) in ends {
            self.ended(id, ended);
        }
    }

    /// Only files that it has, each once: what is said again after a lost connection changes nothing.
    fn judge(&self, id: SessionId, files: Vec<FileDone>) -> Option<(Judged, Settlement)> {
        let session = self.state.sessions.get(&id)?;
        let live = self.live.get(&id)?;
        let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
        let (mut outcomes, mut again, mut settled) = (Vec::new(), Vec::new(), Settled::default());
        let mut seen = BTreeSet::new();
        for file in files {
            let Some(number) = live.numbers.get(file.number as usize).copied() else { continue };
            if !seen.insert(number) || live.again.contains(&number) {
                continue;
            }
            match file.cause.map(crate::cause::known) {
                None => {
                    let digest = file.digest.as_deref().and_then(unhex);
                    outcomes.push((number, Outcome::Done { digest, size_bytes: file.size_bytes }));
                }
                Some(cause) => match self.state.judge(id, cause) {
                    Verdict::Failed => {
                        let text = format!("{}: {}", cause.words(), cut(&file.text));
                        outcomes.push((number, Outcome::Failed { text }));
                    }
                    Verdict::Again => {
                        again.push(number);
                        settled.again_cause = Some(cause);
                        settled.not_found |= cause == ledger::Cause::NotFound;
                    }
                },
            }
        }
        Some((Judged { id, again, settled }, Settlement { page, outcomes }))
    }

    fn settle_one(&mut self, judged: Judged, settlement: Settlement) {
        match self.stores.files.settle(&[settlement]) {
            Ok(stored) => self.settled(judged, &stored.into_iter().next().unwrap_or_default()),
            Err(error) => self.unsettled(judged.id, &error),
        }
    }

    /// The agent is told nothing, so it would not say it again: the session is ended, and what is in place is found there.
    fn unsettled(&mut self, id: SessionId, error: &StoreError) {
        let text = format!("the controller's file ledger: {}", mover::session::chain(error));
        self.end_session(id, Some(ledger::Cause::Other), text, None);
    }

    /// The file ledger has it: now the event.
    fn settled(&mut self, judged: Judged, stored: &Stored) {
        let Judged { id, again, mut settled } = judged;
        settled.done = u32::try_from(stored.done).unwrap_or(u32::MAX);
        settled.failed = u32::try_from(stored.failed).unwrap_or(u32::MAX);
        settled.done_bytes = stored.bytes_done;
        settled.again = u32::try_from(again.len()).unwrap_or(u32::MAX);
        if settled.done + settled.failed + settled.again > 0 {
            self.record_own(Event::FilesSettled { session: id, settled });
        }
        if let Some(live) = self.live.get_mut(&id) {
            // They stay with the session until that ends, so that no other one has them at the same time.
            live.again.extend(again);
        }
        self.heard_of(id);
    }
}
