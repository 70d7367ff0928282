//! What is due is done.

use ledger::{Do, End, Event, Reason, SessionId, Start, What};

use super::Core;
use super::live::{Live, Step};
use super::paths::absolute;
use super::sessions::{pick, unpick};
use crate::store::{Given, Order, Outcome, PageId, Settlement, State as FileState, StoreError};
use api::agent::{Prepare, Role, ToAgent};

/// How long a token may be used to begin with.
const TOKEN_GOOD_MS: u64 = 10 * 60_000;
/// Files that are given up at once; the rest is due again.
const GIVE_UP_MAX: usize = crate::store::PAGE_FILES_MAX;

impl Core {
    /// Carries out an action.
    pub(super) fn act(&mut self, what: Do, reason: &Reason) {
        let done = match what {
            Do::Record(event) => {
                self.record_due(event);
                Ok(())
            }
            Do::List { transfer, source, host } => {
                self.list(transfer, source, host);
                Ok(())
            }
            Do::Start(start) => self.start(start),
            Do::Stop { session } => {
                self.stop(session, reason);
                Ok(())
            }
            Do::GiveUp { transfer, leg, page, cause } => {
                self.give_up(PageId { transfer: transfer.0, leg: leg.into(), page }, cause)
            }
        };
        if let Err(error) = done {
            let text = mover::session::chain(&error);
            tracing::error!(error = text, "the file ledger refuses");
            *self.shared.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(text);
            self.refused_until = Some(tokio::time::Instant::now() + super::REFUSED_PAUSE);
        }
    }

    fn record_due(&mut self, event: Event) {
        match event {
            Event::SessionEnded { session, outcome } => {
                for host in self.hosts_of(session) {
                    self.stop_at(&host, session);
                }
                self.finish_session(session, outcome);
            }
            Event::Forgotten { transfer } => {
                // The files go first: a transfer that is there without its files is found again, files without it are not.
                if let Err(error) = self.stores.files.delete(transfer.0) {
                    tracing::warn!(error = &error as &dyn std::error::Error, %transfer, "its files are removed later");
                    return;
                }
                self.record_own(Event::Forgotten { transfer });
            }
            event => {
                let changes_world = matches!(event, Event::TokenGone { .. });
                if self.record_own(event) && changes_world {
                    self.share_tokens();
                }
            }
        }
    }

    /// Gives files of a page to a session, and asks the agent that listens for a token.
    fn start(&mut self, start: Start) -> Result<(), StoreError> {
        let page = PageId { transfer: start.transfer.0, leg: start.leg.into(), page: start.page };
        let (given, numbers) = self.given(page, &start)?;
        let leg = self.state.transfers.get(&start.transfer).and_then(|of| of.legs.get(usize::from(start.leg)));
        // A source that was not reached from may be reached at: the other end drives every other time.
        let failed = leg.and_then(|leg| leg.retry.as_ref());
        let turned = failed.is_some_and(|retry| retry.cause == ledger::Cause::Network && retry.attempts % 2 == 1);
        let event = Event::SessionStarted {
            session: start.session,
            transfer: start.transfer,
            leg: start.leg,
            page: start.page,
            source: start.source,
            from: start.from,
            to: start.to,
            driver: if turned { End::Destination } else { End::Source },
            files: u32::try_from(given.len()).expect("a page is bounded"),
            bytes: given.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add),
            pick: pick(&numbers),
            streams: start.streams,
        };
        if given.is_empty() || !self.record_own(event) {
            let numbers: Vec<u32> = given.iter().map(|file| file.number).collect();
            self.stores.files.give_back(page, &numbers)?;
            return Ok(());
        }
        self.live.insert(start.session, Live::new(Step::Preparing, numbers));
        self.heard_of(start.session);
        self.prepare(start.session);
        Ok(())
    }

    /// The files of a session that starts, and the numbers of all that it is to name. Where one ended early before, the next one names the
    /// same files: the mover then goes on where that was, also in the middle of a file, and leaves nothing of it behind.
    fn given(&mut self, page: PageId, start: &Start) -> Result<(Vec<Given>, Vec<u32>), StoreError> {
        let unfinished = self.state.unfinished_of(start.transfer, start.leg, start.page);
        for numbers in unfinished.map(|of| unpick(&of.pick)).collect::<Vec<_>>() {
            if self.has_failed(page, &numbers)? {
                continue;
            }
            let given = self.stores.files.take_of(page, &numbers)?;
            if !given.is_empty() {
                return Ok((given, numbers));
            }
        }
        let mut given = self.stores.files.take(page, start.files as usize, Order::Number)?;
        // One file may be larger than all that the session is to have.
        let mut bytes = 0_u64;
        let fits = given.iter().take_while(|file| {
            let fits = bytes == 0 || bytes.saturating_add(file.size_bytes) <= start.bytes_max;
            bytes = bytes.saturating_add(if fits { file.size_bytes } else { 0 });
            fits
        });
        let count = fits.count().max(usize::from(!given.is_empty()));
        let rest: Vec<u32> = given.split_off(count).iter().map(|file| file.number).collect();
        if !rest.is_empty() {
            self.stores.files.give_back(page, &rest)?;
        }
        let numbers = given.iter().map(|file| file.number).collect();
        Ok((given, numbers))
    }

    /// Whether one of these files was given up: it is not to be tried again, so the session that named it cannot go on.
    fn has_failed(&mut self, page: PageId, numbers: &[u32]) -> Result<bool, StoreError> {
        self.stores.files.reader().is_any(page, numbers, FileState::Failed)
    }

    /// An agent is here, perhaps anew: tokens that it was asked for may have been lost on their way, or it may not know them any more.
    pub(super) fn prepare_again(&mut self, host: &str) {
        let listens = |(id, live): (&SessionId, &Live)| {
            let session = self.state.sessions.get(id)?;
            (live.step != Step::Running && session.is_at(host) && session.driver_host() != host).then_some(*id)
        };
        for id in self.live.iter().filter_map(listens).collect::<Vec<_>>() {
            if let Some(live) = self.live.get_mut(&id).filter(|live| live.step != Step::Preparing) {
                live.go(Step::Preparing);
                self.planned.leases.end(id.0);
            }
            self.prepare(id);
        }
    }

    /// Asks the agent that listens for a token.
    fn prepare(&mut self, id: SessionId) {
        let Some(session) = self.state.sessions.get(&id) else { return };
        let Some(transfer) = self.state.transfers.get(&session.transfer) else { return };
        let (role, host, location) = match session.driver {
            End::Source => (Role::Destination, &session.to, &transfer.legs[usize::from(session.leg)].to),
            End::Destination => (Role::Source, &session.from, &transfer.sources[usize::from(session.source)]),
        };
        let host = host.clone();
        let Some(path) = absolute(&self.state, location) else {
            return self.end_session(id, Some(ledger::Cause::NotFound), "its endpoint is no more".to_owned(), None);
        };
        let collaboration = transfer.collaboration.clone();
        self.tell(
            &host,
            ToAgent::Prepare(Prepare { session: id.0, collaboration, role, path, good_ms: TOKEN_GOOD_MS }),
        );
    }

    fn stop(&mut self, session: SessionId, reason: &Reason) {
        let now = self.now();
        tracing::debug!(%session, %reason, "a session is asked to stop");
        let seen = self.seen.sessions.entry(session).or_default();
        (seen.stopping, seen.gives_way) = (Some(now), reason.what == What::GivesWay);
        let is_running = self.live.get(&session).is_some_and(|live| live.step == Step::Running);
        if !is_running {
            let cause = match reason.what {
                What::AgentLost => ledger::Cause::Network,
                What::GivesWay => ledger::Cause::GaveWay,
                _ => ledger::Cause::Stopped,
            };
            return self.end_session(session, Some(cause), reason.to_string(), None);
        }
        let Some(of) = self.state.sessions.get(&session) else { return };
        let driver = of.driver_host().to_owned();
        let listener = if of.driver == End::Source { of.to.clone() } else { of.from.clone() };
        if self.connected.contains_key(&driver) {
            self.stop_at(&driver, session);
        } else if self.connected.contains_key(&listener) {
            tracing::info!(%session, %reason, listener, "the end that listens is asked to end a session");
            self.stop_at(&listener, session);
            if let Some(live) = self.live.get_mut(&session) {
                // From now on nobody knows its token: that it is refused says nothing.
                live.token_of = None;
            }
        }
    }

    /// Marks the open files of a page as failed.
    fn give_up(&mut self, page: PageId, cause: ledger::Cause) -> Result<(), StoreError> {
        let open = self.stores.files.take(page, GIVE_UP_MAX, Order::Number)?;
        let text = format!("{}: {}", cause.words(), cause.way_out());
        let outcomes = open.iter().map(|file| (file.number, Outcome::Failed { text: text.clone() })).collect();
        self.stores.files.settle(&[Settlement { page, outcomes }])?;
        let transfer = ledger::TransferId(page.transfer);
        let leg = u16::try_from(page.leg).expect("legs are bounded");
        // As the state counts them: of an attempt that was cut short some have failed in the file ledger already.
        let files = self
            .state
            .transfers
            .get(&transfer)
            .and_then(|of| Some(of.legs.get(usize::from(leg))?.open_of(&of.listing, page.page)));
        if let Some(files) = files.filter(|files| *files > 0) {
            self.record_own(Event::PageFailed { transfer, leg, page: page.page, files, cause });
        }
        Ok(())
    }

    pub(crate) fn hosts_of(&self, session: SessionId) -> Vec<String> {
        let of = self.state.sessions.get(&session);
        of.map(|of| vec![of.from.clone(), of.to.clone()]).unwrap_or_default()
    }
}
