//! Agents: who comes, who goes, what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use api::agent::{FromAgent, Hello, Inventory, ModeSet, PROTOCOL, ToAgent, Turned, Welcome};
use ledger::{Decision, Digest, Event, Mode, SessionId, SessionSeen};

use super::Core;
use super::live::{Connected, Step};
use crate::hub::{Arrival, ConnectionId, Heard};

/// Sessions of a hello that are looked at.
const SESSIONS_MAX: usize = api::agent::SESSIONS_MAX;

impl Core {
    /// Takes what comes of connections.
    pub(super) fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Hello(arrival) => {
                // It may end sessions.
                self.settle_told();
                self.arrive(*arrival);
            }
            Heard::Said(connection, message) => {
                // What an older connection of a host still says comes too late.
                let Some(host) = self.hosts.get(&connection).cloned() else { return };
                self.hear_from(&host, *message);
            }
            Heard::Gone(connection, why) => self.gone(connection, &why),
        }
    }

    pub(super) fn hear_from(&mut self, host: &str, message: FromAgent) {
        if self.repair.must_go_first(&message) && !self.repair() {
            // It is said again on the next connection.
            return self.hang_up(host);
        }
        self.repair.hears(host, &message);
        self.said(host, message);
    }

    fn arrive(&mut self, arrival: Arrival) {
        let Arrival { connection, hello, fingerprint, from, out, answer } = arrival;
        if !self.repair() {
            let reason = "the controller cannot write its store".to_owned();
            let _ = answer.send(Err(Turned { reason, again: true }));
            return;
        }
        let host = match self.admit(&hello, Digest(fingerprint.0)) {
            Ok(host) => host,
            Err(turned) => {
                let _ = answer.send(Err(turned));
                return;
            }
        };
        tracing::info!(%host, %from, version = hello.version, "an agent is here");
        if let Some(before) = self.connected.remove(&host) {
            self.hosts.remove(&before.connection);
        }
        self.ask_anew(&host);
        let keep = self.settle_sessions(&host, &hello);
        self.probing.forget_host(&host);
        let (process, version) = (hello.process, hello.version);
        let inventory = bounded(hello.inventory);
        let connected = Connected { connection, out, process, version, inventory, uncounted: BTreeMap::new() };
        self.seen.agents.insert(host.clone(), connected.seen());
        self.connected.insert(host.clone(), connected);
        self.hosts.insert(connection, host.clone());
        self.repair.heard.insert(host.clone());
        if self.state.agents.get(&host).is_some_and(|agent| agent.away.is_some()) {
            self.record_own(Event::AgentBack { host: host.clone() });
        }
        self.tell_routes(&host);
        self.decided(&host, ModeSet { mode: hello.mode, reason: String::new() });
        self.planned.dirty();
        let welcome = Welcome { host: host.clone(), protocol: PROTOCOL, keep };
        // Not before what it is told is durable: an enrolment above all.
        self.reply(move |durable| {
            let answered = durable
                .map(|()| welcome)
                .map_err(|why| Turned { reason: format!("the controller cannot write its log: {why}"), again: true });
            let _ = answer.send(answered);
        });
        self.prepare_again(&host);
    }

    /// Which host this is.
    fn admit(&mut self, hello: &Hello, fingerprint: Digest) -> Result<String, Turned> {
        let turned = |reason: String| Turned { reason, again: false };
        if hello.protocol != PROTOCOL {
            let (theirs, ours) = (hello.protocol, PROTOCOL);
            return Err(turned(format!("the agent speaks version {theirs}, the controller {ours}: update the older")));
        }
        let known = self.state.agents.iter().find(|(_, agent)| agent.fingerprint == fingerprint);
        if let Some((host, _)) = known {
            return Ok(host.clone());
        }
        let Some(token) = &hello.enrol else {
            let reason = "the controller does not know this agent: make a token with `longhaul agent token HOST` and start the agent with --enrol-token-file";
            return Err(turned(reason.to_owned()));
        };
        let token = Digest(crate::http::token_digest(token.trim()));
        let now = self.now();
        let enrolled = ledger::wish::enrol(&self.state, now, token, fingerprint);
        let (host, events) = enrolled.map_err(|refusal| turned(refusal.to_string()))?;
        for event in events {
            self.record(event).map_err(|rejected| turned(rejected.to_string()))?;
        }
        Ok(host)
    }

    /// Which sessions of a hello go on; those of this host that it does not have are over.
    fn settle_sessions(&mut self, host: &str, hello: &Hello) -> Vec<u64> {
        let now = self.clock.steady_ms();
        let mut keep = Vec::new();
        for held in hello.sessions.iter().take(SESSIONS_MAX) {
            let id = SessionId(held.session);
            let is_ours = self.drives(host, id);
            if is_ours && self.live.contains_key(&id) {
                self.planned.leases.found(held.session, held.generation, held.rate_bps, now);
                self.planned.stir();
                self.seen.sessions.entry(id).or_default().heard = self.now();
                keep.push(held.session);
            }
        }
        let lost = self.state.sessions.iter().filter(|(id, session)| {
            let begins = self.live.get(*id).is_some_and(|live| live.step != Step::Running);
            session.driver_host() == host && !begins && !keep.contains(&id.0)
        });
        let lost: Vec<SessionId> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.end_session(
                id,
                Some(ledger::Cause::Leaving),
                "the agent began anew and does not have it".to_owned(),
                None,
            );
        }
        keep
    }

    fn gone(&mut self, connection: ConnectionId, why: &str) {
        let Some(host) = self.hosts.remove(&connection) else { return };
        tracing::info!(%host, why, "an agent is gone");
        self.connected.remove(&host);
        self.ask_anew(&host);
        self.probing.forget_host(&host);
        self.seen.agents.remove(&host);
        self.listings.lose(&host, &mut self.seen);
        if self.state.agents.get(&host).is_some_and(|agent| agent.away.is_none()) {
            self.record_own(Event::AgentAway { host });
        }
    }

    /// Ends a connection: the agent comes again.
    pub(crate) fn disconnect(&mut self, host: &str) {
        if let Some(connected) = self.connected.get(host) {
            let connection = connected.connection;
            self.gone(connection, "it takes nothing");
        }
    }

    /// The same while nothing can be recorded: that it is away is found when something can.
    pub(super) fn hang_up(&mut self, host: &str) {
        let Some(connected) = self.connected.remove(host) else { return };
        tracing::info!(host, "an agent is to say again what could not be written");
        self.hosts.remove(&connected.connection);
        self.ask_anew(host);
        self.seen.agents.remove(host);
        self.probing.forget_host(host);
        self.listings.lose(host, &mut self.seen);
    }

    fn said(&mut self, host: &str, message: FromAgent) {
        match message {
            FromAgent::Hello(_) | FromAgent::Ping => {}
            FromAgent::Inventory(inventory) => {
                if let Some(connected) = self.connected.get_mut(host) {
                    connected.inventory = bounded(inventory);
                    self.seen.agents.insert(host.to_owned(), connected.seen());
                    self.planned.dirty();
                    self.probing.touch();
                }
            }
            FromAgent::Mode(mode) => self.decided(host, mode),
            FromAgent::Listed(listed) => self.listed(host, listed),
            FromAgent::Prepared(prepared) => self.prepared(host, prepared),
            FromAgent::Failed(failed) => match (failed.request, failed.session) {
                (Some(request), _) => self.listing_failed(host, request, failed.cause, &failed.text),
                (None, Some(session)) => {
                    self.settle_told();
                    self.did_not_begin(host, SessionId(session), failed.cause, failed.text);
                }
                (None, None) => tracing::debug!(host, text = failed.text, "an agent could not do something"),
            },
            FromAgent::Acknowledged(acknowledged) => {
                let id = SessionId(acknowledged.session);
                if self.drives(host, id) {
                    let now = self.clock.steady_ms();
                    self.planned.leases.acknowledged(id.0, acknowledged.generation, now);
                    self.planned.stir();
                }
            }
            FromAgent::Progress(progress) => {
                let id = SessionId(progress.session);
                if self.drives(host, id) {
                    self.progress(id, progress);
                }
            }
            FromAgent::Files(files) => {
                let id = SessionId(files.session);
                if self.drives(host, id) {
                    self.files_told(id, files.files);
                }
            }
            FromAgent::Paths { paths } => self.paths_told(host, &paths),
            FromAgent::Counted { counts } => self.counted(host, &counts),
            FromAgent::Ended(ended) => {
                let id = SessionId(ended.session);
                if self.drives(host, id) {
                    self.end_told(id, ended);
                } else {
                    // Perhaps we ended it meanwhile; a session that nobody drives any more must not go on anywhere.
                    tracing::debug!(host, session = ended.session, "a session ended that is over");
                }
            }
        }
    }

    /// Whether this host may speak for a session.
    fn drives(&self, host: &str, id: SessionId) -> bool {
        self.state.sessions.get(&id).is_some_and(|session| session.driver_host() == host)
    }

    /// What the operator of a host decided.
    fn decided(&mut self, host: &str, set: ModeSet) {
        let decision = Decision { mode: mode(set.mode), reason: set.reason };
        let same = self.state.agents.get(host).is_some_and(|agent| agent.own.mode == decision.mode);
        if !same {
            self.record_own(Event::AgentDecided { host: host.to_owned(), own: true, decision });
            self.planned.dirty();
        }
    }

    /// Notes that something was heard of a session.
    pub(super) fn heard_of(&mut self, id: SessionId) -> &mut SessionSeen {
        let now = self.now();
        let seen = self.seen.sessions.entry(id).or_default();
        seen.heard = now;
        seen
    }

    /// Who comes or goes changes whom its sessions are asked to stop, and whoever was asked may not have heard it.
    fn ask_anew(&mut self, host: &str) {
        let sessions = &self.state.sessions;
        let its = self.seen.sessions.iter_mut().filter(|(id, _)| sessions.get(id).is_some_and(|of| of.is_at(host)));
        its.for_each(|(_, seen)| seen.stopping = None);
    }

    /// Tells an agent to end a session, if it is there.
    pub(crate) fn stop_at(&mut self, host: &str, id: SessionId) {
        self.tell(host, ToAgent::Stop { session: id.0 });
    }
}

/// How long an agent may take to make a token.
pub(super) const PREPARE_TIME: Duration = Duration::from_secs(30);

/// An inventory with no more in it than we keep.
fn bounded(mut inventory: Inventory) -> Inventory {
    /// Things of a kind.
    const MOST: usize = 256;
    inventory.addresses.truncate(MOST);
    inventory.interfaces.truncate(MOST);
    inventory.grants.truncate(MOST);
    inventory
}

fn mode(mode: api::agent::Mode) -> Mode {
    match mode {
        api::agent::Mode::Active => Mode::Active,
        api::agent::Mode::Draining => Mode::Draining,
        api::agent::Mode::Paused => Mode::Paused,
    }
}
