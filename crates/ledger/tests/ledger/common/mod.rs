//! A world in virtual time: a log, a file ledger, agents that move bytes, fail, die and come back, and a controller that is killed.

mod controller;
mod fleet;

use std::collections::BTreeMap;

use ledger::{Digest, Endpoint, Event, Mode, Moment, Seen, State, TransferId, encode, wish};

pub(crate) use fleet::{Agent, Fleet, Report};

/// The first moment: 2026-03-01.
pub(crate) const BEGIN: Moment = Moment(1_772_323_200_000);

/// A killed controller.
#[derive(Debug)]
pub(crate) struct Killed;
pub(crate) type Run<T = ()> = Result<T, Killed>;

/// Random numbers from a seed (SplitMix64, Steele et al. 2014).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Once in so many.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// What the file ledger says of a file on a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Open,
    Given,
    Done,
    Failed,
}

/// Faults: each happens once in so many seconds, or chances; 0 is never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) kill: u64,
    pub(crate) die: u64,
    pub(crate) cut: u64,
    pub(crate) session: u64,
    pub(crate) file: u64,
    pub(crate) listing: u64,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) now: Moment,
    pub(crate) log: Vec<(Moment, Vec<u8>)>,
    pub(crate) state: State,
    pub(crate) seen: Seen,
    /// The file ledger: sizes by transfer and page, states by leg too.
    pub(crate) sizes: BTreeMap<(TransferId, u32), Vec<u64>>,
    pub(crate) files: BTreeMap<(TransferId, u16, u32), Vec<FileState>>,
    pub(crate) fleet: Fleet,
    /// Listings that run, with when they are ready.
    pub(crate) listings: BTreeMap<TransferId, (u8, String, Moment)>,
    /// What is beneath the source of a transfer: sizes of files.
    pub(crate) datasets: BTreeMap<TransferId, Vec<u64>>,
    pub(crate) kills: u64,
    /// Sessions that were ended at the end that does not drive.
    pub(crate) cut_off: u64,
    pub(crate) started: BTreeMap<(TransferId, u16), u64>,
    /// Since when a transfer is next and gets nothing.
    pub(crate) next_since: BTreeMap<TransferId, Moment>,
    /// The most sessions that ran for a leg, and the pairs of hosts that it had at once.
    pub(crate) pairs: BTreeMap<(TransferId, u16), usize>,
}

pub(crate) const NETWORK: &str = r#"
name = "world"
hosts = ["a1", "a2", "a3", "b1", "b2", "b3", "c1"]
routers = ["r1", "r2"]
[[link]]
name = "ocean"
ends = ["r1", "r2"]
rate = "10 Gb/s"
delay = "10 ms"
LINKS
"#;

pub(crate) const SHARES: &str = r#"
[[class]]
name = "lhc"
weight = 2
[[class]]
name = "sky"
[[class]]
name = "spare"
scavenger = true
[[mark]]
name = "half"
links = ["ocean"]
rate = "5 Gb/s"
"#;

impl World {
    /// Three agents at `a`, three at `b`, one at `c`, with that many sessions each.
    pub(crate) fn new(seed: u64, sessions_max: u32) -> World {
        let mut world = World {
            random: Random(seed),
            faults: Faults::default(),
            now: BEGIN,
            log: Vec::new(),
            state: State::default(),
            seen: Seen::default(),
            sizes: BTreeMap::new(),
            files: BTreeMap::new(),
            fleet: Fleet::default(),
            listings: BTreeMap::new(),
            datasets: BTreeMap::new(),
            kills: 0,
            cut_off: 0,
            started: BTreeMap::new(),
            next_since: BTreeMap::new(),
            pairs: BTreeMap::new(),
        };
        let hosts = ["a1", "a2", "a3", "b1", "b2", "b3", "c1"];
        let of = |host: &str| {
            let router = if host.starts_with('a') { "r1" } else { "r2" };
            format!("[[link]]\nname = \"l-{host}\"\nends = [\"{host}\", \"{router}\"]\nrate = \"1 Gb/s\"\n")
        };
        let network = NETWORK.replace("LINKS", &hosts.map(of).concat());
        let events = wish::set_network(&world.state, &network, "operator").expect("the network is good");
        world.settle_in(&events);
        let events = wish::set_shares(&world.state, SHARES, "operator").expect("the shares are good");
        world.settle_in(&events);
        for (number, host) in (1_u8..).zip(hosts) {
            let (token, key) = (Digest([number; 32]), Digest([number + 100; 32]));
            let until = world.now.after_ms(1_000);
            let made = wish::make_enrolment(&world.state, world.now, token, host, until, "operator").expect("it may");
            world.settle_in(&made);
            let (name, events) = wish::enrol(&world.state, world.now, token, key).expect("it may");
            assert_eq!(name, host);
            world.settle_in(&events);
            world.fleet.agents.insert(host.to_owned(), Agent::new(sessions_max));
        }
        for name in ["a", "b", "c"] {
            let of = hosts.iter().filter(|host| host.starts_with(name)).map(|host| (*host).to_owned());
            let endpoint = Endpoint { hosts: of.collect(), root: b"/data".to_vec() };
            let events = wish::set_endpoint(&world.state, name, endpoint).expect("it is good");
            world.settle_in(&events);
        }
        world
    }

    /// Logs what cannot be cut short by a kill.
    pub(crate) fn settle_in(&mut self, events: &[Event]) {
        let kill = std::mem::take(&mut self.faults.kill);
        let all: Run<Vec<()>> = events.iter().map(|event| self.append(event)).collect();
        assert!(all.is_ok(), "nothing kills it");
        self.faults.kill = kill;
    }

    /// Logs an event; the controller may be killed just before or just after.
    pub(crate) fn append(&mut self, event: &Event) -> Run {
        self.may_be_killed()?;
        let bytes = encode(event);
        assert_eq!(ledger::decode(&bytes).as_ref(), Ok(event), "an event comes back");
        self.state.apply(self.now, event).unwrap_or_else(|rejected| panic!("{rejected}: {event:?}"));
        self.log.push((self.now, bytes));
        self.may_be_killed()
    }

    fn may_be_killed(&mut self) -> Run {
        if self.random.one_in(self.faults.kill) { Err(Killed) } else { Ok(()) }
    }

    pub(crate) fn decide(&mut self, host: &str, mode: Mode) {
        let events = wish::decide(&self.state, host, false, mode, "test").expect("it may");
        self.settle_in(&events);
    }

    /// The state that the log leads to.
    pub(crate) fn replayed(&self) -> State {
        let mut state = State::default();
        for (at, bytes) in &self.log {
            let event = ledger::decode(bytes).expect("it was logged");
            state.apply(*at, &event).expect("it was accepted");
        }
        state
    }

    /// Who could move and does not has to say why: nobody is next for more than a minute.
    pub(crate) fn check_reasons(&mut self) {
        for (id, transfer) in &self.state.transfers {
            let standing = (transfer.ended.is_none())
                .then(|| ledger::standing(&self.state, &self.seen, self.now, *id).expect("it is there"));
            match standing {
                Some((phase, reason)) if reason.what == ledger::What::Next => {
                    let since = *self.next_since.entry(*id).or_insert(self.now);
                    let waited_ms = self.now.ms_since(since);
                    assert!(waited_ms <= 60_000, "{id} is {} and next for {waited_ms} ms: {reason}", phase.word());
                }
                _ => {
                    self.next_since.remove(id);
                }
            }
        }
    }

    /// What must hold at any time.
    pub(crate) fn check(&self) {
        self.state.check().expect("the counts agree");
        for (host, agent) in &self.fleet.agents {
            let sessions = self.state.sessions.values().filter(|session| session.is_at(host));
            let (count, streams) = sessions.fold((0, 0), |sums, of| (sums.0 + 1, sums.1 + of.streams));
            assert!(count <= agent.sessions_max, "{host} has {count} sessions of {}", agent.sessions_max);
            assert!(streams <= agent.streams_max, "{host} has {streams} streams of {}", agent.streams_max);
            let ours = |id| self.state.sessions.contains_key(id);
            assert!(agent.sessions.keys().all(ours), "{host} runs a session whose files others may have");
        }
        for ((id, leg, page), files) in &self.files {
            let Some(transfer) = self.state.transfers.get(id) else { continue };
            let Some(left) = transfer.legs[usize::from(*leg)].pages.get(*page as usize) else { continue };
            let count = |state| files.iter().filter(|file| **file == state).count() as u32;
            let counts = [FileState::Given, FileState::Done, FileState::Failed].map(count);
            assert_eq!(counts, [left.given, left.done, left.failed], "page {page} of leg {leg} of {id}");
        }
    }
}
