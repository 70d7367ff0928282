//! Agents: they move bytes of the sessions that they drive, whoever asks, and tell it when they are connected.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Cause, SessionId};

use super::{Faults, Random};

#[derive(Default)]
pub(crate) struct Fleet {
    pub(crate) agents: BTreeMap<String, Agent>,
    /// Files that can never be copied, by their size: whoever has one reports this cause for it.
    pub(crate) cursed: BTreeMap<u64, Cause>,
}

pub(crate) struct Agent {
    pub(crate) sessions_max: u32,
    pub(crate) streams_max: u32,
    pub(crate) rate: u64,
    pub(crate) alive: bool,
    /// Whether the controller reaches it.
    pub(crate) cut: bool,
    /// Seconds until it is back.
    pub(crate) back_in: u64,
    /// The sessions that it drives.
    pub(crate) sessions: BTreeMap<SessionId, Moved>,
    pub(crate) reports: Vec<Report>,
}

/// A session at its driver.
pub(crate) struct Moved {
    pub(crate) other: String,
    /// Numbers and sizes of files that are left.
    pub(crate) files: Vec<(u32, u64)>,
    /// Bytes of the first that are moved.
    pub(crate) part: u64,
    pub(crate) bytes_done: u64,
    pub(crate) stop: bool,
    pub(crate) lonely_s: u64,
}

pub(crate) enum Report {
    File { session: SessionId, number: u32, size: u64, cause: Option<Cause> },
    Ended { session: SessionId, cause: Option<Cause>, host: Option<String>, bytes: u64 },
}

impl Agent {
    pub(crate) fn new(sessions_max: u32) -> Agent {
        Agent {
            sessions_max,
            streams_max: sessions_max * 4,
            rate: 100_000_000,
            alive: true,
            cut: false,
            back_in: 0,
            sessions: BTreeMap::new(),
            reports: Vec::new(),
        }
    }

    pub(crate) fn connected(&self) -> bool {
        self.alive && !self.cut
    }

    pub(crate) fn die(&mut self, seconds: u64) {
        (self.alive, self.back_in) = (false, seconds);
        self.sessions.clear();
        self.reports.clear();
    }
}

const CAUSES: [Cause; 8] = [
    Cause::Network,
    Cause::Busy,
    Cause::Storage,
    Cause::NoSpace,
    Cause::Changed,
    Cause::Corrupt,
    Cause::Leaving,
    Cause::Other,
];

impl Fleet {
    /// A second goes by.
    pub(crate) fn second(&mut self, random: &mut Random, faults: Faults) {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for name in &names {
            let agent = self.agents.get_mut(name).expect("it is there");
            if agent.back_in > 0 {
                agent.back_in -= 1;
                if agent.back_in == 0 {
                    (agent.alive, agent.cut) = (true, false);
                }
            } else if random.one_in(faults.die) {
                agent.die(1 + random.below(200));
            } else if random.one_in(faults.cut) {
                (agent.cut, agent.back_in) = (true, 1 + random.below(90));
            }
        }
        let alive: BTreeSet<String> = names.iter().filter(|name| self.agents[*name].alive).cloned().collect();
        for (name, agent) in &mut self.agents {
            let Agent { sessions, reports, rate, .. } = agent;
            let share = *rate / sessions.len().max(1) as u64;
            sessions.retain(|id, moved| {
                if random.one_in(faults.session) {
                    let cause = *random.pick(&CAUSES);
                    let host = cause.of_host().then(|| random.pick(&[name.clone(), moved.other.clone()]).clone());
                    reports.push(ended(*id, Some(cause), host, moved));
                    return false;
                }
                moved.second(*id, share, alive.contains(&moved.other), &self.cursed, reports, random, faults.file)
            });
        }
    }
}

fn ended(session: SessionId, cause: Option<Cause>, host: Option<String>, moved: &Moved) -> Report {
    Report::Ended { session, cause, host, bytes: moved.bytes_done }
}

impl Moved {
    #[allow(clippy::too_many_arguments, reason = "what a session meets in a second")]
    fn second(
        &mut self,
        id: SessionId,
        mut bytes: u64,
        other_alive: bool,
        cursed: &BTreeMap<u64, Cause>,
        reports: &mut Vec<Report>,
        random: &mut Random,
        file_faults: u64,
    ) -> bool {
        if self.stop {
            reports.push(ended(id, Some(Cause::Stopped), None, self));
            return false;
        }
        self.lonely_s = if other_alive { 0 } else { self.lonely_s + 1 };
        if self.lonely_s > 5 {
            reports.push(ended(id, Some(Cause::Network), None, self));
            return false;
        }
        if !other_alive {
            return true;
        }
        while let Some((number, size)) = self.files.first().copied() {
            let moves = bytes.min(size - self.part);
            (bytes, self.part, self.bytes_done) = (bytes - moves, self.part + moves, self.bytes_done + moves);
            if self.part < size {
                return true;
            }
            let odd =
                random.one_in(file_faults).then(|| *random.pick(&[Cause::Changed, Cause::Storage, Cause::Network]));
            let cause = cursed.get(&size).copied().or(odd);
            reports.push(Report::File { session: id, number, size, cause });
            self.files.remove(0);
            self.part = 0;
        }
        reports.push(ended(id, None, None, self));
        false
    }
}
