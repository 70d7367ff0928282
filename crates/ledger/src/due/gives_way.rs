//! Which session gives its place at a host to work that has none.
//!
//! Hosts run some sessions at once, and a session may take hours. Where the hosts of an endpoint are full, the first leg of a lane that has no
//! session there claims a place: work of a tier that is served first, of a class with less than its part by weight, or more urgent work of the same
//! class. The session with least claim is stopped in good order; what of its files is not in place goes on later where it was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Lane, LegId};
use crate::limits::{GIVES_WAY_AFTER_MS, GIVES_WAY_MAX};
use crate::{Action, Do, Event, Mode, Moment, Reason, Seen, SessionId, State, Thing, What};

use super::{Loads, sessions_by_class};

/// What a class may claim: its tier, its weight, and the sessions that it has.
#[derive(Clone, Copy)]
struct Part {
    tier: u8,
    weight: u64,
    sessions: u64,
}

impl Part {
    /// Whether it has more than its part even without one session, beside a class that has one more.
    fn spares_one_for(self, other: Part) -> bool {
        self.sessions.saturating_sub(1).saturating_mul(other.weight) >= (other.sessions + 1).saturating_mul(self.weight)
    }
}

/// A session that could be stopped; the least is stopped first: the least urgent, of these the youngest, which lost least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Weakest {
    urgency: u8,
    at: Reverse<Moment>,
    id: SessionId,
}

/// Sessions of classes over their weights are compared in these parts.
const PARTS: u64 = 1 << 32;

pub(super) fn gives_way(state: &State, seen: &Seen, now: Moment, found: &mut Vec<Action>) {
    let loads = Loads::of(state, seen);
    let active = |host: &&String| {
        seen.agents.contains_key(*host) && state.agents.get(*host).is_some_and(|agent| agent.mode() == Mode::Active)
    };
    // The hosts of an endpoint that could take work, if all of them are full.
    let full = |endpoint: &String| -> Option<Vec<&str>> {
        let hosts: Vec<&String> = state.endpoints.get(endpoint)?.hosts.iter().filter(active).collect();
        let is_full = !hosts.is_empty() && hosts.iter().all(|host| loads.room(host) == 0);
        is_full.then(|| hosts.into_iter().map(String::as_str).collect())
    };
    let claims = state.index.runnable.iter().filter_map(|(lane, legs)| {
        let (_, leg) = legs.first()?;
        state.transfers[&leg.0].legs[usize::from(leg.1)].sessions.is_empty().then_some((lane, *leg))
    });
    let mut claims: Vec<(&Lane, LegId, Vec<&str>)> = claims
        .filter_map(|(lane, leg)| {
            let at = full(&lane.to).or_else(|| {
                let of_all: Option<Vec<Vec<&str>>> = lane.from.iter().map(&full).collect();
                of_all.map(|hosts| hosts.into_iter().flatten().collect())
            })?;
            Some((lane, leg, at))
        })
        .collect();
    if claims.is_empty() {
        return;
    }
    let mut parts = Parts::of_all(state);
    let mut at_hosts = AtHosts::of(state, seen, now, found);
    let urgency = |leg: LegId| state.transfers[&leg.0].urgency;
    claims.sort_by_key(|(lane, leg, _)| (parts.of(&lane.class).tier, Reverse(urgency(*leg)), *leg));
    let mut given = 0;
    for (lane, leg, hosts) in claims {
        if given >= GIVES_WAY_MAX {
            return;
        }
        // One at a time at each host: what is being stopped is room soon.
        if hosts.iter().any(|host| at_hosts.busy.contains(host)) {
            continue;
        }
        let Some(victim) = at_hosts.least(&parts, (&lane.class, urgency(leg)), &hosts) else { continue };
        let session = &state.sessions[&victim];
        at_hosts.busy.extend([session.from.as_str(), session.to.as_str()]);
        parts.moved(&state.transfers[&session.transfer].class, &lane.class);
        let reason = Reason::new(What::GivesWay).about(Thing::Transfer(leg.0));
        found.push(Action { what: Do::Stop { session: victim }, reason });
        given += 1;
    }
}

/// What classes have, and are to have.
struct Parts<'a> {
    state: &'a State,
    sessions: BTreeMap<&'a str, u64>,
}

impl<'a> Parts<'a> {
    fn of_all(state: &'a State) -> Parts<'a> {
        Parts { state, sessions: sessions_by_class(state) }
    }

    fn of(&self, class: &str) -> Part {
        let known = self.state.shares.as_ref().and_then(|shares| shares.classes.get(class));
        let (tier, weight) = known.map_or((0, 1), |class| (class.tier, u64::from(class.weight.max(1))));
        Part { tier, weight, sessions: self.sessions.get(class).copied().unwrap_or(0) }
    }

    /// A place goes from one class to another.
    fn moved(&mut self, from: &str, to: &'a str) {
        if let Some(sessions) = self.sessions.get_mut(from) {
            *sessions = sessions.saturating_sub(1);
        }
        *self.sessions.entry(to).or_default() += 1;
    }
}

/// The weakest session of each class at each host.
struct AtHosts<'a> {
    weakest: BTreeMap<(&'a str, &'a str), Weakest>,
    /// Hosts at which a session is being stopped.
    busy: BTreeSet<&'a str>,
}

impl<'a> AtHosts<'a> {
    fn of(state: &'a State, seen: &Seen, now: Moment, found: &[Action]) -> AtHosts<'a> {
        let mut all = AtHosts { weakest: BTreeMap::new(), busy: BTreeSet::new() };
        // Of these the end is found already.
        let end = |action: &Action| match &action.what {
            Do::Stop { session } | Do::Record(Event::SessionEnded { session, .. }) => Some(*session),
            _ => None,
        };
        let ending: BTreeSet<SessionId> = found.iter().filter_map(end).collect();
        for (id, session) in &state.sessions {
            let hosts = [session.from.as_str(), session.to.as_str()];
            let is_stopping = seen.sessions.get(id).is_some_and(|known| known.stopping.is_some());
            if is_stopping || ending.contains(id) {
                all.busy.extend(hosts);
            } else if now.ms_since(session.at) >= GIVES_WAY_AFTER_MS {
                let transfer = &state.transfers[&session.transfer];
                let weakest = Weakest { urgency: transfer.urgency, at: Reverse(session.at), id: *id };
                for host in hosts {
                    let of = all.weakest.entry((host, transfer.class.as_str())).or_insert(weakest);
                    *of = weakest.min(*of);
                }
            }
        }
        all
    }

    /// The session at these hosts that has least claim to its place beside work of that class and urgency, if any has less.
    fn least(&self, parts: &Parts<'_>, (class, urgency): (&str, u8), hosts: &[&'a str]) -> Option<SessionId> {
        let mine = parts.of(class);
        let yields = |other: &str, weakest: &Weakest| {
            if other == class {
                return weakest.urgency < urgency;
            }
            let its = parts.of(other);
            its.tier > mine.tier || (its.tier == mine.tier && its.spares_one_for(mine))
        };
        let of_host = |host: &'a str| self.weakest.range((host, "")..).take_while(move |((at, _), _)| *at == host);
        let all = hosts.iter().copied().flat_map(of_host).filter(|((_, other), weakest)| yields(other, weakest));
        // Served last first; then who has most by weight.
        let key = |other: &str, weakest: &Weakest| {
            let its = parts.of(other);
            (Reverse(its.tier), Reverse(its.sessions.saturating_mul(PARTS) / its.weight), *weakest)
        };
        all.min_by_key(|((_, other), weakest)| key(other, weakest)).map(|(_, weakest)| weakest.id)
    }
}
