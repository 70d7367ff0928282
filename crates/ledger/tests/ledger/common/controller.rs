//! What the controller does: it carries out what is due and logs the outcomes, the file ledger before the log.

use std::collections::BTreeSet;

use ledger::{
    AgentSeen, Do, End, Event, Moment, Outcome, Page, SessionId, SessionSeen, Settled, Start, State, TransferId,
    Verdict, due, gives_way, wish,
};

use super::fleet::Moved;
use super::{FileState, Report, Run, World};

/// Calls of `due` until it has nothing more.
const TURNS_MAX: usize = 1_000;
const PAGE: usize = 50;

impl World {
    /// A second goes by; the controller may be killed in it, and starts again.
    pub(crate) fn second(&mut self) {
        self.now = self.now.after_ms(1_000);
        let faults = self.faults;
        self.fleet.second(&mut self.random, faults);
        if self.turn().is_err() {
            self.restart();
        } else {
            self.check_reasons();
        }
        self.check();
    }

    fn turn(&mut self) -> Run {
        self.greet()?;
        self.hear()?;
        self.hear_listings()?;
        for _ in 0..TURNS_MAX {
            let mut actions = due(&self.state, &self.seen, self.now);
            actions.extend(gives_way(&self.state, &self.seen, self.now, &actions));
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                assert!(!action.reason.to_string().is_empty());
                self.carry_out(action.what, action.reason.what)?;
            }
        }
        panic!("there is always something to do at {}", self.now);
    }

    /// The controller comes up with what is on disk, and makes good what was between file ledger and log.
    pub(crate) fn restart(&mut self) {
        self.kills += 1;
        let kill = std::mem::take(&mut self.faults.kill);
        let whole = self.replayed();
        assert_eq!(whole.encode(), self.state.encode(), "replay gives the same bytes");
        // Half by snapshot, half by the log that follows.
        let mut state = State::default();
        let middle = self.random.below(self.log.len() as u64) as usize;
        for (number, (at, bytes)) in self.log.iter().enumerate() {
            if number == middle {
                state = State::decode(&state.encode()).expect("a snapshot comes back");
            }
            state.apply(*at, &ledger::decode(bytes).expect("it is one")).expect("it was accepted");
        }
        assert_eq!(state.encode(), whole.encode(), "snapshot and tail give the same bytes");
        assert_eq!(State::decode(&whole.encode()).as_ref(), Ok(&state), "and the same index");
        self.state = state;
        self.seen = ledger::Seen::default();
        self.listings.clear();
        self.reconcile();
        self.faults.kill = kill;
    }

    fn reconcile(&mut self) {
        let picked: Vec<(SessionId, ledger::Session)> =
            self.state.sessions.iter().map(|(id, session)| (*id, session.clone())).collect();
        let mut kept = BTreeSet::new();
        for (id, session) in picked {
            let at = (session.transfer, session.leg, session.page);
            let numbers = numbers(&session.pick);
            let count = |world: &World, state| {
                numbers.iter().filter(|number| world.files[&at][**number as usize] == state).count() as u32
            };
            let done = count(self, FileState::Done) - session.done;
            let failed = count(self, FileState::Failed) - session.failed;
            if done + failed > 0 {
                let settled = Settled { done, failed, ..Settled::default() };
                self.settle_in(&[Event::FilesSettled { session: id, settled }]);
            }
            kept.extend(numbers.into_iter().map(|number| (at, number)));
        }
        self.make_good_what_was_given_up();
        for (at, files) in &mut self.files {
            for (number, file) in (0..).zip(files) {
                if matches!(file, FileState::Open | FileState::Given) {
                    *file = if kept.contains(&(*at, number)) { FileState::Given } else { FileState::Open };
                }
            }
        }
    }

    /// Pages of which the file ledger says that they were given up, and the log does not yet.
    fn make_good_what_was_given_up(&mut self) {
        let mut late = Vec::new();
        for ((transfer, leg, page), files) in &self.files {
            let Some(of) = self.state.transfers.get(transfer).filter(|of| of.ended.is_none()) else { continue };
            let left = of.legs[usize::from(*leg)].pages.get(*page as usize).copied().unwrap_or_default();
            let failed = files.iter().filter(|file| **file == FileState::Failed).count() as u32;
            if failed > left.failed {
                let (transfer, leg, page, files) = (*transfer, *leg, *page, failed - left.failed);
                late.push(Event::PageFailed { transfer, leg, page, files, cause: ledger::Cause::Other });
            }
        }
        self.settle_in(&late);
    }

    /// Agents that are connected now, and were not before.
    fn greet(&mut self) -> Run {
        let hosts: Vec<String> = self.fleet.agents.keys().cloned().collect();
        for host in hosts {
            let agent = &self.fleet.agents[&host];
            if agent.connected() != self.seen.agents.contains_key(&host) {
                self.ask_anew(&host);
            }
            let agent = &self.fleet.agents[&host];
            if !agent.connected() {
                self.seen.agents.remove(&host);
                if self.listings.values().any(|(_, other, _)| *other == host) {
                    self.listing_lost(&host)?;
                }
            } else if !self.seen.agents.contains_key(&host) {
                let held: BTreeSet<SessionId> =
                    agent.sessions.keys().copied().chain(agent.reports.iter().map(of)).collect();
                let seen = AgentSeen { sessions_max: agent.sessions_max, streams_max: agent.streams_max, grants: None };
                // What the controller does not know any more is stopped.
                let sessions = &self.state.sessions;
                let agent = self.fleet.agents.get_mut(&host).expect("it is there");
                agent.sessions.retain(|id, _| sessions.contains_key(id));
                for event in wish::lost_at_hello(&self.state, &host, &held) {
                    self.end(event)?;
                }
                self.seen.agents.insert(host, seen);
            }
        }
        Ok(())
    }

    /// Who comes or goes changes whom its sessions are asked to stop.
    fn ask_anew(&mut self, host: &str) {
        let sessions = &self.state.sessions;
        let its = self.seen.sessions.iter_mut().filter(|(id, _)| sessions.get(id).is_some_and(|of| of.is_at(host)));
        its.for_each(|(_, seen)| seen.stopping = None);
    }

    fn listing_lost(&mut self, host: &str) -> Run {
        let lost: Vec<TransferId> =
            self.listings.iter().filter(|(_, (_, other, _))| other == host).map(|(id, _)| *id).collect();
        for transfer in lost {
            let (source, _, _) = self.listings.remove(&transfer).expect("it was there");
            self.seen.listings.remove(&transfer);
            self.listing_failed(transfer, source)?;
        }
        Ok(())
    }

    fn listing_failed(&mut self, transfer: TransferId, source: u8) -> Run {
        if self.state.transfers[&transfer].ended.is_some() {
            return Ok(());
        }
        let (cause, text) = (ledger::Cause::Network, "lost".to_owned());
        self.append(&Event::ListingFailed { transfer, source, cause, text })
    }

    /// What agents report.
    fn hear(&mut self) -> Run {
        let hosts: Vec<String> = self.seen.agents.keys().cloned().collect();
        for host in hosts {
            let agent = self.fleet.agents.get_mut(&host).expect("it is there");
            for (id, moved) in &agent.sessions {
                let seen = self.seen.sessions.entry(*id).or_default();
                (seen.heard, seen.bytes_done) = (self.now, moved.bytes_done);
            }
            while !self.fleet.agents[&host].reports.is_empty() {
                // A report that was not dealt with is told again: agents keep them until they are acknowledged.
                self.deal(&host)?;
                self.fleet.agents.get_mut(&host).expect("it is there").reports.remove(0);
            }
        }
        Ok(())
    }

    fn deal(&mut self, host: &str) -> Run {
        match &self.fleet.agents[host].reports[0] {
            Report::File { session, number, size, cause } => {
                let (id, number, size, cause) = (*session, *number, *size, *cause);
                let Some(session) = self.state.sessions.get(&id) else { return Ok(()) };
                let at = (session.transfer, session.leg, session.page);
                let files = self.files.get_mut(&at).expect("its page is there");
                let file = &mut files[number as usize];
                // Told before, or made good at the start.
                if matches!(file, FileState::Done | FileState::Failed) {
                    return Ok(());
                }
                assert_eq!(*file, FileState::Given, "only what was given gets done");
                let mut settled = Settled::default();
                match cause.map(|cause| (cause, self.state.judge(id, cause))) {
                    None => (*file, settled.done, settled.done_bytes) = (FileState::Done, 1, size),
                    Some((_, Verdict::Failed)) => (*file, settled.failed) = (FileState::Failed, 1),
                    Some((cause, Verdict::Again)) => {
                        (settled.again, settled.again_cause) = (1, Some(cause));
                        settled.not_found = cause == ledger::Cause::NotFound;
                    }
                }
                self.append(&Event::FilesSettled { session: id, settled })
            }
            Report::Ended { session, cause, host, bytes } => {
                let seen = self.seen.sessions.get(session).copied().unwrap_or_default();
                let outcome = Outcome {
                    cause: cause.map(|said| seen.end(said)),
                    host: host.clone(),
                    text: String::new(),
                    bytes_done: *bytes,
                    bytes_sent: *bytes,
                };
                self.end(Event::SessionEnded { session: *session, outcome })
            }
        }
    }

    /// A session is over: its files are open again, and its agents told.
    fn end(&mut self, event: Event) -> Run {
        let Event::SessionEnded { session: id, .. } = &event else { unreachable!("it ends a session") };
        let Some(session) = self.state.sessions.get(id) else { return Ok(()) };
        let files = self.files.get_mut(&(session.transfer, session.leg, session.page)).expect("its page is there");
        for number in numbers(&session.pick) {
            let file = &mut files[number as usize];
            if *file == FileState::Given {
                *file = FileState::Open;
            }
        }
        let agent = self.fleet.agents.get_mut(session.driver_host()).expect("it is there");
        if agent.connected() {
            agent.sessions.remove(id);
        }
        self.seen.sessions.remove(id);
        self.append(&event)
    }

    fn hear_listings(&mut self) -> Run {
        let now = self.now;
        let ready: Vec<TransferId> =
            self.listings.iter().filter(|(_, (_, _, at))| *at <= now).map(|(id, _)| *id).collect();
        for transfer in ready {
            let (source, _, _) = self.listings.remove(&transfer).expect("it was there");
            self.seen.listings.remove(&transfer);
            if self.state.transfers[&transfer].ended.is_some() {
                continue;
            }
            if self.random.one_in(self.faults.listing) {
                self.listing_failed(transfer, source)?;
                continue;
            }
            let sizes = self.datasets[&transfer].clone();
            for (number, sizes) in (0..).zip(sizes.chunks(PAGE)) {
                let page = self.put(transfer, number, sizes);
                self.append(&Event::PageListed { transfer, number, page })?;
            }
            self.append(&Event::ListingDone { transfer, directory: true })?;
        }
        Ok(())
    }

    /// Puts a page into the file ledger.
    pub(crate) fn put(&mut self, transfer: TransferId, number: u32, sizes: &[u64]) -> Page {
        self.sizes.insert((transfer, number), sizes.to_vec());
        let legs = self.state.transfers.get(&transfer).map_or(1, |transfer| transfer.legs.len());
        for leg in 0..legs {
            self.files.insert((transfer, leg as u16, number), vec![FileState::Open; sizes.len()]);
        }
        Page { files: sizes.len() as u32, bytes: sizes.iter().sum() }
    }

    fn carry_out(&mut self, what: Do, why: ledger::What) -> Run {
        match what {
            Do::Record(event @ Event::SessionEnded { .. }) => self.end(event),
            Do::Record(event) => self.append(&event),
            Do::List { transfer, source, host } => {
                self.seen.listings.insert(transfer, host.clone());
                self.listings.insert(transfer, (source, host, self.now.after_ms(2_000)));
                Ok(())
            }
            Do::Start(start) => self.start(start),
            Do::Stop { session } => {
                let seen =
                    self.seen.sessions.entry(session).or_insert(SessionSeen { heard: self.now, ..Default::default() });
                (seen.stopping, seen.gives_way) = (Some(self.now), why == ledger::What::GivesWay);
                let of = &self.state.sessions[&session];
                let other = if of.driver == End::Source { &of.to } else { &of.from };
                let (hears, meant) = (self.seen.agents.contains_key(other), self.state.may_be_stopped(of));
                let agent = self.fleet.agents.get_mut(of.driver_host()).expect("it is there");
                if !agent.connected() && hears {
                    // The other end ends it, and says so: what the driver has to tell comes too late.
                    agent.sessions.remove(&session);
                    self.cut_off += 1;
                    let cause = if meant { ledger::Cause::Stopped } else { ledger::Cause::Network };
                    let outcome = Outcome { cause: Some(cause), ..Outcome::default() };
                    return self.end(Event::SessionEnded { session, outcome });
                }
                if let Some(moved) = agent.sessions.get_mut(&session).filter(|_| !agent.cut) {
                    moved.stop = true;
                }
                Ok(())
            }
            Do::GiveUp { transfer, leg, page, cause } => {
                let files = self.files.get_mut(&(transfer, leg, page)).expect("its page is there");
                for file in files.iter_mut().filter(|file| **file == FileState::Open) {
                    *file = FileState::Failed;
                }
                // By the state's own count: after a kill just here the file ledger has none open.
                let of = &self.state.transfers[&transfer];
                let files = of.legs[usize::from(leg)].open_of(&of.listing, page);
                self.append(&Event::PageFailed { transfer, leg, page, files, cause })
            }
        }
    }

    fn start(&mut self, start: Start) -> Run {
        let Start { session, transfer, leg, page, source, from, to, files: most, streams, .. } = start;
        let files = self.files.get_mut(&(transfer, leg, page)).expect("its page is there");
        let open = (0..).zip(files.iter_mut()).filter(|(_, file)| **file == FileState::Open);
        let taken: Vec<u32> = open
            .take(most as usize)
            .map(|(number, file): (u32, &mut FileState)| {
                *file = FileState::Given;
                number
            })
            .collect();
        assert_eq!(taken.len(), most as usize, "as many are open as the state says");
        let sizes = &self.sizes[&(transfer, page)];
        let picked: Vec<(u32, u64)> = taken.iter().map(|number| (*number, sizes[*number as usize])).collect();
        let driver = if self.random.one_in(2) { End::Source } else { End::Destination };
        let event = Event::SessionStarted {
            session,
            transfer,
            leg,
            page,
            source,
            from: from.clone(),
            to: to.clone(),
            driver,
            files: most,
            bytes: picked.iter().map(|(_, size)| size).sum(),
            pick: pick(&taken),
            streams,
        };
        self.append(&event)?;
        *self.started.entry((transfer, leg)).or_default() += 1;
        let sessions = self.state.transfers[&transfer].legs[usize::from(leg)].sessions.iter();
        let pairs: BTreeSet<&str> = sessions.map(|id| self.state.sessions[id].from.as_str()).collect();
        let most = self.pairs.entry((transfer, leg)).or_default();
        *most = (*most).max(pairs.len());
        let (here, there) = if driver == End::Source { (from, to) } else { (to, from) };
        let moved = Moved { other: there, files: picked, part: 0, bytes_done: 0, stop: false, lonely_s: 0 };
        self.fleet.agents.get_mut(&here).expect("it is there").sessions.insert(session, moved);
        Ok(())
    }

    /// Seconds go by until that holds, at most so many; how many they were.
    pub(crate) fn until(&mut self, most_s: u64, mut holds: impl FnMut(&World) -> bool) -> u64 {
        for second in 0..most_s {
            if holds(self) {
                return second;
            }
            self.skip();
            self.second();
        }
        panic!("not within {most_s} s:{}", self.stories());
    }

    /// While nothing moves, time goes to when something is due.
    fn skip(&mut self) {
        let busy = !self.state.sessions.is_empty() || !self.listings.is_empty();
        let moves = self.fleet.agents.values().any(|agent| agent.back_in > 0);
        if busy || moves {
            return;
        }
        if let Some(next) = ledger::next_due(&self.state, self.now) {
            self.now = self.now.max(Moment(next.0.saturating_sub(1_000)));
        }
    }

    /// The transfers that have not ended, each with its reason.
    pub(crate) fn stories(&self) -> String {
        let live = self.state.transfers.iter().filter(|(_, transfer)| transfer.ended.is_none());
        let story = |id: &TransferId| ledger::standing(&self.state, &self.seen, self.now, *id).expect("it is there");
        live.map(|(id, _)| format!("\n{id}: {:?}: {}", story(id).0, story(id).1)).collect()
    }
}

fn of(report: &Report) -> SessionId {
    match report {
        Report::File { session, .. } | Report::Ended { session, .. } => *session,
    }
}

/// A bit for each of these numbers.
fn pick(numbers: &[u32]) -> Vec<u8> {
    let mut bits = vec![0; numbers.iter().max().map_or(0, |last| *last as usize / 8 + 1)];
    numbers.iter().for_each(|number| bits[*number as usize / 8] |= 1 << (number % 8));
    bits
}

fn numbers(pick: &[u8]) -> Vec<u32> {
    (0..pick.len() as u32 * 8).filter(|number| pick[*number as usize / 8] & 1 << (number % 8) != 0).collect()
}
