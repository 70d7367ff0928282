//! Which hosts may take work, and how much they have.

use std::collections::BTreeMap;

use crate::{AgentSeen, Location, Mode, Moment, Reason, Seen, State, Thing, Transfer, What};

/// What the hosts have to do, and may.
#[derive(Debug, Default)]
pub(crate) struct Loads<'a> {
    hosts: BTreeMap<&'a str, Load>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    sessions: u32,
    sessions_max: u32,
    streams: u64,
    streams_max: u32,
}

impl<'a> Loads<'a> {
    /// Of the hosts whose agents are connected.
    pub(crate) fn of(state: &'a State, seen: &'a Seen) -> Loads<'a> {
        let load = |(host, agent): (&'a String, &AgentSeen)| {
            let busy = state.index.busy.get(host).copied().unwrap_or_default();
            let load = Load {
                sessions: busy.sessions,
                // Each session needs a stream.
                sessions_max: agent.sessions_max.min(agent.streams_max),
                streams: busy.streams,
                streams_max: agent.streams_max,
            };
            (host.as_str(), load)
        };
        Loads { hosts: seen.agents.iter().map(load).collect() }
    }

    /// Counts a session.
    pub(crate) fn add(&mut self, from: &str, to: &str, streams: u32) {
        for host in [from, to] {
            if let Some(load) = self.hosts.get_mut(host) {
                load.sessions += 1;
                load.streams += u64::from(streams);
            }
        }
    }

    /// Sessions that a host may have beside those it has.
    pub(crate) fn room(&self, host: &str) -> u32 {
        let load = self.load(host);
        if load.streams >= u64::from(load.streams_max) { 0 } else { load.sessions_max.saturating_sub(load.sessions) }
    }

    /// How full it is, in thousandths.
    pub(crate) fn fullness(&self, host: &str) -> u64 {
        let load = self.load(host);
        u64::from(load.sessions) * 1_000 / u64::from(load.sessions_max.max(1))
    }

    /// The streams that a further session may have at a host. Half of all are kept so that each session that it may have gets some;
    /// of the rest the first sessions get a quarter each of what is free.
    pub(crate) fn streams(&self, host: &str) -> u32 {
        let load = self.load(host);
        let each = (load.streams_max / load.sessions_max.max(1) / 2).max(1);
        let free = u64::from(load.streams_max).saturating_sub(load.streams) as u32;
        let later = load.sessions_max.saturating_sub(load.sessions).saturating_sub(1);
        let not_kept = free.saturating_sub(each.saturating_mul(later));
        not_kept.min(each.max(free / 4)).max(1)
    }

    fn load(&self, host: &str) -> Load {
        self.hosts.get(host).copied().unwrap_or_default()
    }
}

/// The hosts of an endpoint that may take a part of a transfer now, busy or not; or why there are none.
pub(crate) fn side<'a>(
    state: &'a State,
    seen: &Seen,
    now: Moment,
    transfer: &Transfer,
    at: &Location,
    write: bool,
) -> Result<Vec<&'a str>, Reason> {
    let none = |what| Reason::new(what).about(Thing::Endpoint(at.endpoint.clone()));
    let endpoint = state.endpoints.get(&at.endpoint).ok_or_else(|| none(What::NoAgent))?;
    let enrolled = |host: &&String| state.agents.contains_key(*host) && seen.agents.contains_key(*host);
    let mut hosts: Vec<&String> = endpoint.hosts.iter().filter(enrolled).collect();
    if hosts.is_empty() {
        let names: Vec<&str> = endpoint.hosts.iter().map(String::as_str).take(8).collect();
        return Err(none(What::NoAgent).saying(&format!("it is seen by {}", names.join(", "))));
    }
    hosts.retain(|host| state.agents[*host].mode() == Mode::Active);
    if hosts.is_empty() {
        return Err(none(What::NoActiveAgent));
    }
    let path = absolute(&endpoint.root, &at.path);
    hosts.retain(|host| {
        let grants = seen.agents.get(*host).and_then(|agent| agent.grants.as_ref());
        grants.is_none_or(|grants| grants.iter().any(|grant| grant.covers(&transfer.collaboration, &path, write)))
    });
    if hosts.is_empty() {
        let how = if write { "writes to" } else { "reads" };
        let words = format!("`{}` {how} {}", transfer.collaboration, String::from_utf8_lossy(&path).escape_debug());
        return Err(none(What::NoGrant).saying(&words));
    }
    let until = |host: &String| state.asides.get(host).map(|aside| aside.until).filter(|until| *until > now);
    let soonest = hosts.iter().filter_map(|host| until(host)).min();
    hosts.retain(|host| until(host).is_none());
    match soonest {
        Some(soonest) if hosts.is_empty() => Err(none(What::Aside).until(soonest)),
        _ => Ok(hosts.into_iter().map(String::as_str).collect()),
    }
}

/// A path beneath the root of an endpoint.
fn absolute(root: &[u8], path: &[u8]) -> Vec<u8> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    if path.is_empty() { root.to_vec() } else { [root, path].join(&b'/') }
}
