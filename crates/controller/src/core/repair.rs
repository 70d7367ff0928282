//! After the store refused something: what is known beside it is brought in line, as at a start.
//!
//! What a refused turn was about did not happen, but agents have said their part, and what they were to be told was not sent. So those
//! that spoke in it or were to hear of it lose their connections: they come back and say again what must not be lost, and who
//! lacks what was never sent is found then. The file ledger may know more than the log by now; when the store can be written again
//! that is logged, and files that no session has are open.

use std::collections::{BTreeMap, BTreeSet};

use api::agent::{FromAgent, ToAgent};
use ledger::SessionId;

use super::Core;
use super::live::{Live, Step};
use super::sessions::unpick;
use crate::store::PageId;

/// What is to be done about a refusal.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Hosts whose agents said something in this turn, or something that waits to be settled since an earlier one.
    pub(super) heard: BTreeSet<String>,
    /// The file ledger and the log may differ.
    pub(super) is_due: bool,
}

impl Repair {
    /// What is said of files counts what the file ledger did not know, and the end of a session is the end of what can be found out of it.
    pub(super) fn must_go_first(&self, message: &FromAgent) -> bool {
        self.is_due && matches!(message, FromAgent::Files(_) | FromAgent::Ended(_) | FromAgent::Failed(_))
    }

    /// Notes who says what must be said again if this turn is refused.
    pub(super) fn hears(&mut self, host: &str, message: &FromAgent) {
        let counts = !matches!(
            message,
            FromAgent::Progress(_)
                | FromAgent::Acknowledged(_)
                | FromAgent::Inventory(_)
                | FromAgent::Paths { .. }
                | FromAgent::Counted { .. }
                | FromAgent::Ping
        );
        if counts && !self.heard.contains(host) {
            self.heard.insert(host.to_owned());
        }
    }
}

impl Core {
    /// After the state was read back.
    pub(super) fn resume_after_refusal(&mut self) {
        // Those who said it come back and say it again.
        self.told = super::Told::default();
        let gone: Vec<SessionId> =
            self.live.keys().filter(|id| !self.state.sessions.contains_key(id)).copied().collect();
        for session in gone {
            // Its agents were told nothing yet; its files are open again.
            self.live.remove(&session);
            self.planned.end(session);
        }
        // What is to be tried again is told again.
        self.live.values_mut().for_each(|live| live.again.clear());
        let mut hosts = std::mem::take(&mut self.repair.heard);
        for (id, session) in &self.state.sessions {
            // It had ended in this turn. Its driver knows whether it has.
            self.live.entry(*id).or_insert_with(|| {
                hosts.insert(session.driver_host().to_owned());
                Live::new(Step::Running, unpick(&session.pick))
            });
        }
        self.generations = (self.generations.0.max(self.state.generations_below), self.state.generations_below);
        self.read_world();
        self.share_tokens();
        let unsaid = std::mem::take(&mut self.outbox).into_iter();
        // A lease is sent again, the others are not.
        hosts.extend(unsaid.filter(|(_, message)| !matches!(message, ToAgent::Lease(_))).map(|(host, _)| host));
        hosts.iter().for_each(|host| self.hang_up(host));
        self.repair.is_due = true;
    }

    /// Brings the file ledger and the log in line, if they may differ; whether they are. The turn ends as any other: if it is refused, it
    /// is due again.
    pub(super) fn repair(&mut self) -> bool {
        if !std::mem::take(&mut self.repair.is_due) {
            return true;
        }
        let mut keep: BTreeMap<PageId, Vec<u32>> = BTreeMap::new();
        for session in self.state.sessions.values() {
            let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
            keep.entry(page).or_default().extend(unpick(&session.pick));
        }
        let opened = self.stores.files.reset_given(&keep);
        if let Err(error) = opened.and_then(|_| self.catch_up()) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the file ledger cannot be brought in line with the log yet");
            self.refused_until = Some(tokio::time::Instant::now() + super::REFUSED_PAUSE);
            self.repair.is_due = true;
        }
        !self.repair.is_due
    }
}
