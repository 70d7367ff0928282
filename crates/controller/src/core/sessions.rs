//! Sessions: from a token to the last file.

use api::agent::{Ended, How, Lease, Prepared, Progress, Role, Run, SessionPath, Step as LeaseStep, ToAgent};
use ledger::lease::Grant;
use ledger::rates::Measured;
use ledger::{Cause, End, Event, Outcome as SessionOutcome, SessionId, cut};
use tokio::time::Instant;
use units::Marks;

use super::Core;
use super::agents::PREPARE_TIME;
use super::live::Step;
use super::paths::absolute;
use crate::store::PageId;

/// Numbers of files of a page in few bytes: a bit for each, from the lowest.
pub(super) fn pick(numbers: &[u32]) -> Vec<u8> {
    let bytes = numbers.iter().max().map_or(0, |last| *last as usize / 8 + 1);
    let mut bits = vec![0; bytes];
    numbers.iter().for_each(|number| bits[*number as usize / 8] |= 1 << (number % 8));
    bits
}

/// The numbers again, rising.
pub(super) fn unpick(bits: &[u8]) -> Vec<u32> {
    let all = 0..u32::try_from(bits.len().saturating_mul(8)).unwrap_or(u32::MAX);
    all.filter(|number| bits[*number as usize / 8] & 1 << (number % 8) != 0).collect()
}

impl Core {
    /// The agent that listens has made a token.
    pub(super) fn prepared(&mut self, host: &str, prepared: Prepared) {
        let id = SessionId(prepared.session);
        let listens =
            self.state.sessions.get(&id).is_some_and(|session| session.is_at(host) && session.driver_host() != host);
        let Some(live) = self.live.get_mut(&id).filter(|live| listens && live.step == Step::Preparing) else { return };
        live.go(Step::Ready { token: prepared.token });
        live.token_of = self.connected.get(host).map(|connected| connected.process);
        self.planned.leases.begin(id.0);
        self.planned.dirty();
        self.planned.stir();
    }

    /// An agent could not begin.
    pub(super) fn did_not_begin(&mut self, host: &str, id: SessionId, cause: api::agent::Cause, text: String) {
        let Some(session) = self.state.sessions.get(&id).filter(|session| session.is_at(host)) else { return };
        if cause == api::agent::Cause::Stopped && session.driver_host() != host {
            return self.cut_off(id);
        }
        let fault = Some(host.to_owned());
        self.end_session(id, Some(crate::cause::known(cause)), text, fault);
    }

    /// The end that listens was asked to end a session, and has: its driver, which is away, moves nothing any more.
    fn cut_off(&mut self, id: SessionId) {
        let Some(session) = self.state.sessions.get(&id) else { return };
        let driver = session.driver_host();
        let was_asked = self.seen.sessions.get(&id).is_some_and(|seen| seen.stopping.is_some());
        if self.connected.contains_key(driver) || !was_asked {
            // A driver that is back tells itself how it ended, and what it has finished.
            return;
        }
        let cause = if self.state.may_be_stopped(session) { Cause::Stopped } else { Cause::Network };
        let text = format!("the agent of `{driver}` is away, and the other end has ended the session");
        self.end_session(id, Some(cause), text, None);
    }

    /// A lease for a session whose driver was not asked yet goes with the request.
    pub(super) fn send_lease(&mut self, grant: &Grant) {
        let id = SessionId(grant.session);
        let Some(session) = self.state.sessions.get(&id) else { return };
        let driver = session.driver_host().to_owned();
        let lease = lease(grant);
        let token = match self.live.get(&id).map(|live| &live.step) {
            Some(Step::Ready { token }) => token.clone(),
            Some(Step::Running) => {
                self.tell(&driver, ToAgent::Lease(api::agent::LeaseFor { session: id.0, lease }));
                return;
            }
            _ => return,
        };
        match self.run_message(id, token, lease) {
            Ok(run) => {
                self.tell(&driver, ToAgent::Run(Box::new(run)));
                if let Some(live) = self.live.get_mut(&id) {
                    live.go(Step::Running);
                }
            }
            Err((cause, text)) => self.end_session(id, Some(cause), text, None),
        }
    }

    fn run_message(&mut self, id: SessionId, token: String, lease: Lease) -> Result<Run, (Cause, String)> {
        let gone = |what: &str| (Cause::NotFound, format!("{what} is no more"));
        let session = self.state.sessions.get(&id).ok_or_else(|| gone("the session"))?.clone();
        let transfer = self.state.transfers.get(&session.transfer).ok_or_else(|| gone("the transfer"))?;
        let leg = transfer.legs.get(usize::from(session.leg)).ok_or_else(|| gone("the leg"))?;
        let source = transfer.sources.get(usize::from(session.source)).ok_or_else(|| gone("the source"))?;
        let source = absolute(&self.state, source).ok_or_else(|| gone("the source's endpoint"))?;
        let to = absolute(&self.state, &leg.to).ok_or_else(|| gone("the destination's endpoint"))?;
        let (role, here, there, other) = match session.driver {
            End::Source => (Role::Source, source, to, &session.to),
            End::Destination => (Role::Destination, to, source, &session.from),
        };
        let away = || (Cause::Network, format!("the agent of `{other}` is not connected"));
        let connected = self.connected.get(other).ok_or_else(away)?;
        let fingerprint = connected.inventory.fingerprint.clone();
        let paths = self.session_paths(id);
        let in_order = paths.is_some();
        let (addresses, bind, marks) = match paths {
            Some(paths) => (
                paths.iter().map(|path| path.to).collect(),
                paths.iter().filter_map(|path| path.from).collect(),
                marks_of(&paths),
            ),
            None => (connected.inventory.addresses.clone(), Vec::new(), Vec::new()),
        };
        // What is counted at both hosts is what it may take there, or others would be promised what is not left.
        let streams_max = u16::try_from(session.streams).unwrap_or(u16::MAX).max(1);
        let how = How {
            protect: transfer.how.protect.clone(),
            overwrite: transfer.how.overwrite.clone(),
            checksum: transfer.how.checksum.clone(),
            // Of a wish for none the number is found.
            streams: transfer.how.streams.min(streams_max),
            streams_max,
            congestion: transfer.how.congestion.clone(),
        };
        let (collaboration, directory, other) =
            (transfer.collaboration.clone(), transfer.listing.directory, other.clone());
        let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
        let numbers = self.live.get(&id).map(|live| live.numbers.clone()).unwrap_or_default();
        let mut names = Vec::new();
        if directory {
            let named = self.stores.files.reader().named(page, &numbers);
            let named = named.map_err(|error| (Cause::Other, mover::session::chain(&error)))?;
            names = named.into_iter().map(|file| api::Name(file.name)).collect();
        }
        Ok(Run {
            session: id.0,
            collaboration,
            role,
            here,
            there,
            addresses,
            fingerprint,
            token,
            other,
            bind,
            in_order,
            marks,
            names,
            how,
            lease,
        })
    }

    /// What a session did in the last second.
    pub(super) fn progress(&mut self, id: SessionId, progress: Progress) {
        let at = self.clock.steady_ms();
        let seen = self.heard_of(id);
        seen.bytes_done = progress.bytes_done;
        seen.goodput_bps = progress.goodput_bps;
        let Some(live) = self.live.get_mut(&id) else { return };
        let measured = Measured { at, set_bps: progress.set_bps, rate_bps: progress.rate_bps };
        live.watch.learn(measured, &progress.limit);
        let changed = progress.set_bps > 0 && live.demand.learn(measured);
        live.progress = Some((Instant::now(), progress));
        if changed {
            self.planned.dirty();
        }
    }

    /// A driver says that a session is over.
    pub(super) fn ended(&mut self, id: SessionId, ended: Ended) {
        let known = crate::cause::known;
        let seen = self.seen.sessions.get(&id).copied().unwrap_or_default();
        let cause =
            ended.cause.map(|said| if self.forgot_token(id, said) { Cause::Leaving } else { seen.end(known(said)) });
        let outcome = SessionOutcome {
            cause,
            host: None,
            text: cut(&ended.text),
            bytes_done: ended.bytes_done,
            bytes_sent: ended.bytes_sent,
        };
        self.revoke(id);
        self.finish_session(id, outcome);
    }

    /// Whether a session was refused for its token because the agent that made it began anew meanwhile, or is about to.
    fn forgot_token(&self, id: SessionId, said: api::agent::Cause) -> bool {
        let Some(session) = self.state.sessions.get(&id) else { return false };
        let listener = if session.driver == End::Source { &session.to } else { &session.from };
        let now = self.connected.get(listener).map(|connected| connected.process);
        let made = self.live.get(&id).and_then(|live| live.token_of);
        // After a restart of ours it is not known who made it: the agent may have begun anew as well.
        said == api::agent::Cause::Refused && (made.is_none() || made != now)
    }

    /// Ends a session from here: both agents are told.
    pub(super) fn end_session(&mut self, id: SessionId, cause: Option<Cause>, text: String, host: Option<String>) {
        if let Some(session) = self.state.sessions.get(&id) {
            let driver = session.driver_host().to_owned();
            self.stop_at(&driver, id);
        }
        self.revoke(id);
        let progress = self.live.get(&id).and_then(|live| live.progress.as_ref());
        let bytes_done = progress.map_or(0, |(_, progress)| progress.bytes_done);
        let outcome = SessionOutcome { cause, host, text: cut(&text), bytes_done, bytes_sent: bytes_done };
        self.finish_session(id, outcome);
    }

    fn revoke(&mut self, id: SessionId) {
        let Some(session) = self.state.sessions.get(&id) else { return };
        let listener = match session.driver {
            End::Source => session.to.clone(),
            End::Destination => session.from.clone(),
        };
        self.tell(&listener, ToAgent::Revoke { session: id.0 });
    }

    /// Records the end of a session; what it has still is open again.
    pub(super) fn finish_session(&mut self, id: SessionId, outcome: SessionOutcome) {
        let Some(session) = self.state.sessions.get(&id) else { return };
        let (from, to, transfer) = (&session.from, &session.to, session.transfer);
        match outcome.cause {
            None => tracing::debug!(session = %id, %transfer, %from, %to, "a session has ended"),
            Some(cause) => {
                tracing::info!(session = %id, %transfer, %from, %to, ?cause, text = outcome.text, "a session ended early");
            }
        }
        let page = PageId { transfer: session.transfer.0, leg: session.leg.into(), page: session.page };
        if let Some(live) = self.live.get(&id) {
            let numbers = live.numbers.clone();
            // Files that are done or failed stay so.
            if let Err(error) = self.stores.files.give_back(page, &numbers) {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "files of a session stay given until the store can be written");
                self.repair.is_due = true;
            }
        }
        if self.record_own(Event::SessionEnded { session: id, outcome }) {
            self.live.remove(&id);
            self.seen.sessions.remove(&id);
            self.planned.end(id);
        }
    }

    /// Sessions whose agents do not answer to what begins them.
    pub(super) fn expire_live(&mut self) {
        let late = |(id, live): (&SessionId, &super::live::Live)| {
            (live.step == Step::Preparing && live.since.elapsed() > PREPARE_TIME).then_some(*id)
        };
        let late: Vec<SessionId> = self.live.iter().filter_map(late).collect();
        for id in late {
            let text = format!("the agent that was to listen made no token within {} s", PREPARE_TIME.as_secs());
            let host = self.state.sessions.get(&id).map(|session| match session.driver {
                End::Source => session.to.clone(),
                End::Destination => session.from.clone(),
            });
            self.end_session(id, Some(Cause::Other), text, host);
        }
    }
}

/// What packets of each path carry; nothing if none of them carries anything.
fn marks_of(paths: &[SessionPath]) -> Vec<Marks> {
    match paths.iter().all(|path| path.marks.is_none()) {
        true => Vec::new(),
        false => paths.iter().map(|path| path.marks).collect(),
    }
}

fn lease(grant: &Grant) -> Lease {
    Lease {
        generation: grant.generation,
        rates: [(0, grant.rate_bps)]
            .into_iter()
            .chain(grant.falls_after_ms.filter(|after| *after > 0).map(|after| (after, grant.fall_back_bps)))
            .map(|(after_ms, rate_bps)| LeaseStep { after_ms, rate_bps })
            .collect(),
        length_ms: grant.length_ms,
        fall_back_bps: grant.fall_back_bps,
    }
}

/// Bytes of hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_come_back() {
        for numbers in [vec![], vec![0], vec![7, 8, 9], vec![9_999], (0..10_000).collect()] {
            let bits = pick(&numbers);
            assert!(bits.len() <= ledger::limits::PICK_MAX);
            assert_eq!(unpick(&bits), numbers);
        }
    }

    #[test]
    fn digests_are_read() {
        assert_eq!(unhex("00ffA1"), Some(vec![0, 255, 0xa1]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
    }
}
