//! The fold of sessions: what they get, finish, give back, and how they end.

use std::time::Duration;

use crate::cause::doubled;
use crate::limits::{ASIDE_MAX_MS, ASIDE_MS, PICK_MAX, SESSIONS_MAX, USAGE_MAX};
use crate::{
    Aside, Cause, Event, Leg, Mode, Moment, Outcome, Remedy, Retry, Session, SessionId, Settled, State, Transfer,
    Verdict,
};

use super::{Fit, need};

/// The half-life of usage while no shares are set: a week, as `model` has it.
const HALF_LIFE: Duration = model::shares::HALF_LIFE;

impl State {
    /// What becomes of a file of a session that failed for that cause. The file ledger is told the same.
    ///
    /// A file that is not at one source may be at another: log it in [`Settled::again`] with [`Settled::not_found`] then.
    #[must_use]
    pub fn judge(&self, session: SessionId, cause: Cause) -> Verdict {
        if cause.remedy() != Remedy::Nothing {
            return Verdict::Again;
        }
        let other_source = || {
            let session = self.sessions.get(&session)?;
            let transfer = self.transfers.get(&session.transfer)?;
            let leg = transfer.legs.get(usize::from(session.leg))?;
            let missing = leg.pages.get(session.page as usize)?.missing | 1 << session.source;
            Some(transfer.all_sources() & !(leg.spent | missing) != 0)
        };
        let again = cause == Cause::NotFound && other_source().unwrap_or(false);
        if again { Verdict::Again } else { Verdict::Failed }
    }

    pub(super) fn take_session(&mut self, at: Moment, event: &Event) -> Fit {
        match event {
            Event::SessionStarted { session, .. } => self.session_started(at, *session, event),
            Event::FilesSettled { session, settled } => self.files_settled(*session, settled),
            Event::SessionUsed { session, bytes } => {
                self.session(*session)?;
                self.used(at, *session, *bytes);
                Ok(())
            }
            Event::SessionEnded { session, outcome } => self.session_ended(at, *session, outcome),
            other => unreachable!("{} is folded elsewhere", other.kind()),
        }
    }

    fn session(&mut self, id: SessionId) -> Result<&mut Session, String> {
        self.sessions.get_mut(&id).ok_or_else(|| format!("there is no session {id}"))
    }

    fn session_started(&mut self, at: Moment, id: SessionId, event: &Event) -> Fit {
        let session = new_session(at, event);
        need(id >= self.next_session && id.0 < u64::MAX, || format!("the next session is {}", self.next_session))?;
        need(self.sessions.len() < SESSIONS_MAX, || format!("{SESSIONS_MAX} sessions run"))?;
        need(session.pick.len() <= PICK_MAX, || format!("a pick has at most {PICK_MAX} bytes"))?;
        for host in [&session.from, &session.to] {
            need(self.agents.contains_key(host), || format!("no agent of `{host}` is enrolled"))?;
        }
        let of = session.transfer;
        let transfer = self.transfers.get_mut(&of).ok_or_else(|| format!("there is no transfer {of}"))?;
        need(transfer.ended.is_none() && transfer.paused.is_none(), || {
            format!("transfer {of} has ended or is paused")
        })?;
        need(transfer.listing.complete, || format!("transfer {of} is being listed"))?;
        need(usize::from(session.source) < transfer.sources.len(), || {
            format!("there is no source {}", session.source)
        })?;
        let leg = transfer.legs.get_mut(usize::from(session.leg)).ok_or_else(|| format!("no leg {}", session.leg))?;
        need(leg.given_up.is_none(), || "the leg was given up".into())?;
        let open = leg.open_of(&transfer.listing, session.page);
        need((1..=open).contains(&session.files), || format!("page {} has {open} open files", session.page))?;
        leg.pages[session.page as usize].given += session.files;
        leg.given += u64::from(session.files);
        leg.sessions.insert(id);
        self.take_up(&session);
        self.index.session_began(&session);
        self.sessions.insert(id, session);
        self.next_session = SessionId(id.0 + 1);
        self.reindex(of);
        Ok(())
    }

    fn files_settled(&mut self, id: SessionId, settled: &Settled) -> Fit {
        let Settled { done, done_bytes, failed, again, again_cause, not_found } = *settled;
        let session = self.session(id)?;
        let count = u64::from(done) + u64::from(failed);
        need(count <= u64::from(session.held()), || format!("session {id} has {} files", session.held()))?;
        session.done += done;
        session.done_bytes = session.done_bytes.saturating_add(done_bytes);
        session.failed += failed;
        // What is told twice, or gets done after all, does not count beyond what it has.
        session.again = session.again.saturating_add(again).min(session.held());
        session.again_cause = again_cause.or(session.again_cause);
        let session = session.clone();
        let (transfer, leg) = owner(&mut self.transfers, &session);
        let page = &mut leg.pages[session.page as usize];
        page.given -= done + failed;
        page.done += done;
        page.failed += failed;
        page.done_bytes = page.done_bytes.saturating_add(done_bytes);
        if not_found {
            page.missing |= 1 << session.source;
        }
        leg.given -= count;
        leg.done += u64::from(done);
        leg.failed += u64::from(failed);
        leg.done_bytes = leg.done_bytes.saturating_add(done_bytes);
        if done + failed > 0 {
            leg.progressed();
        }
        if done > 0 {
            // What failed before this session began is made good by it.
            let stale = |aside: &Aside| session.at > aside.at;
            for host in [&session.from, &session.to] {
                if self.asides.get(host).is_some_and(stale) {
                    self.asides.remove(host);
                }
            }
        }
        debug_assert!(transfer == session.transfer, "the owner was looked up by it");
        self.reindex(transfer);
        Ok(())
    }

    fn session_ended(&mut self, at: Moment, id: SessionId, outcome: &Outcome) -> Fit {
        self.session(id)?;
        self.used(at, id, outcome.bytes_sent);
        let session = self.sessions.remove(&id).expect("it was there");
        self.index.session_ended(&session);
        let held = session.held();
        let sources = self.transfers[&session.transfer].all_sources();
        let meant = self.may_be_stopped(&session);
        let transfer_goes_on = self.transfers[&session.transfer].ended.is_none();
        let (transfer, leg) = owner(&mut self.transfers, &session);
        leg.pages[session.page as usize].given -= held;
        leg.given -= u64::from(held);
        leg.sessions.remove(&id);
        let goes_on = transfer_goes_on && leg.given_up.is_none();
        if let Some(cause) = why_failed(&session, outcome, leg) {
            // An agent that stops what nobody asked it to stop fails, or it would be asked for ever.
            let cause = if cause == Cause::Stopped && !meant { Cause::Other } else { cause };
            leg.session_failed(at, &session, outcome, cause, sources);
            let host = outcome.host.as_ref().filter(|host| session.is_at(host));
            if let Some(host) = host.filter(|_| cause.of_host()) {
                self.leave_aside(at, host, &session, cause);
            }
        }
        if goes_on && outcome.cause.is_some() && session.left() > 0 {
            self.note_unfinished(&session);
        }
        self.reindex(transfer);
        Ok(())
    }

    /// Whether there is a reason for which a session is asked to stop, whoever drives it.
    ///
    /// # Panics
    /// If it is none of this state.
    #[must_use]
    pub fn may_be_stopped(&self, session: &Session) -> bool {
        let transfer = &self.transfers[&session.transfer];
        let active = |host: &String| self.agents.get(host).is_some_and(|agent| agent.mode() == Mode::Active);
        transfer.ended.is_some()
            || transfer.paused.is_some()
            || transfer.legs[usize::from(session.leg)].given_up.is_some()
            || !(active(&session.from) && active(&session.to))
    }

    fn leave_aside(&mut self, at: Moment, host: &str, session: &Session, cause: Cause) {
        let before = self.asides.get(host);
        // Sessions that began before the last failure fail with it: they are one failure.
        if before.is_some_and(|aside| session.at <= aside.at) {
            return;
        }
        let failures = before.map_or(0, |aside| aside.failures);
        let until = at.after_ms(doubled(ASIDE_MS, failures, ASIDE_MAX_MS));
        self.asides.insert(host.to_owned(), Aside { cause, failures: failures.saturating_add(1), at, until });
    }

    /// Counts what a session sent as its class's usage, as far as that was not counted before.
    fn used(&mut self, at: Moment, id: SessionId, bytes: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let more = bytes.saturating_sub(session.used_bytes);
        session.used_bytes = session.used_bytes.max(bytes);
        session.used_at = at;
        let Some(transfer) = self.transfers.get(&session.transfer) else { return };
        let known = self.usage.contains_key(&transfer.class);
        if more == 0 || (!known && self.usage.len() >= USAGE_MAX) {
            return;
        }
        let half_life = self.shares.as_ref().map_or(HALF_LIFE, |shares| Duration::from_millis(shares.half_life_ms));
        let usage = self.usage.entry(transfer.class.clone()).or_default();
        let recent = plan::usage::decayed(usage.recent_bytes, at.since(usage.as_of), half_life);
        usage.recent_bytes = recent.saturating_add(more);
        usage.total_bytes = usage.total_bytes.saturating_add(more);
        usage.as_of = usage.as_of.max(at);
        if transfer.urgency > 0 {
            usage.urgent_bytes = usage.urgent_bytes.saturating_add(more);
            self.urgent.entry(transfer.class.clone()).or_default().add(at, more);
        }
    }
}

type Transfers = std::collections::BTreeMap<crate::TransferId, Transfer>;

/// The leg that a session runs for. A transfer with sessions is never forgotten.
fn owner<'a>(transfers: &'a mut Transfers, session: &Session) -> (crate::TransferId, &'a mut Leg) {
    let transfer = transfers.get_mut(&session.transfer).expect("a transfer is kept while its sessions run");
    (session.transfer, &mut transfer.legs[usize::from(session.leg)])
}

fn new_session(at: Moment, event: &Event) -> Session {
    let Event::SessionStarted { transfer, leg, page, source, from, to, driver, files, bytes, pick, streams, .. } =
        event
    else {
        unreachable!("{} starts no session", event.kind())
    };
    Session {
        transfer: *transfer,
        leg: *leg,
        page: *page,
        source: *source,
        from: from.clone(),
        to: to.clone(),
        driver: *driver,
        files: *files,
        bytes: *bytes,
        pick: pick.clone(),
        streams: *streams,
        at,
        done: 0,
        done_bytes: 0,
        failed: 0,
        again: 0,
        again_cause: None,
        used_bytes: 0,
        used_at: at,
    }
}

/// Why a session did not do all that it was given; `None` if that needs nothing.
fn why_failed(session: &Session, outcome: &Outcome, leg: &Leg) -> Option<Cause> {
    if let Some(cause) = outcome.cause {
        return Some(cause);
    }
    let elsewhere = leg.pages[session.page as usize].missing & 1 << session.source != 0;
    match session.again_cause.filter(|_| session.again > 0) {
        // These files are asked of another source, which bounds it.
        Some(cause) if cause.remedy() == Remedy::Nothing && elsewhere => None,
        Some(cause) if cause.remedy() == Remedy::Nothing => Some(Cause::Other),
        Some(cause) => Some(cause),
        None => (session.held() > 0).then_some(Cause::Other),
    }
}

impl Leg {
    /// Something got done: the row of failures is over.
    fn progressed(&mut self) {
        match &mut self.retry {
            Some(row) if row.cause.remedy() == Remedy::Nothing => {}
            Some(row) if row.asleep => (row.attempts, row.all) = (1, 1),
            row => *row = None,
        }
    }

    fn session_failed(&mut self, at: Moment, session: &Session, outcome: &Outcome, cause: Cause, sources: u16) {
        let progressed = session.done + session.failed > 0;
        let partial = outcome.bytes_done.saturating_sub(session.done_bytes);
        match cause.remedy() {
            Remedy::Meant => {}
            Remedy::Files => {
                let before = self.page_retries.get(&session.page);
                let row = Retry::after(before, cause, &outcome.text, at, progressed, 0);
                self.page_retries.insert(session.page, row);
            }
            Remedy::Nothing => {
                let at_source = outcome.host.as_ref() == Some(&session.from) && session.from != session.to;
                let spent = self.spent | 1 << session.source;
                if at_source && sources & !spent != 0 {
                    self.spent = spent;
                } else {
                    self.retry = Some(Retry::after(self.retry.as_ref(), cause, &outcome.text, at, false, 0));
                }
            }
            Remedy::Again | Remedy::Room => {
                // Sessions that began before the last failure fail with it: they are one attempt. What fails for good stays so.
                let one = |row: &Retry| session.at <= row.last && !progressed || row.cause.remedy() == Remedy::Nothing;
                if self.retry.as_ref().is_some_and(one) {
                    return;
                }
                let mut row = Retry::after(self.retry.as_ref(), cause, &outcome.text, at, progressed, partial);
                let known = outcome.host.as_ref().is_some_and(|host| session.is_at(host));
                row.asleep = !(known && cause.of_host());
                self.retry = Some(row);
            }
        }
    }
}
