//! Which session gives its place at a host to work that has none.
//!
//! Hosts run some sessions at once, and a session may take hours. Where the hosts of an endpoint are full, the first leg of a lane that has no
//! session there claims a place: work of a tier that is served first, of a class with less than its part by weight, or more urgent work of the same
//! class. The session with least claim is stopped in good order; what of its files is not in place goes on later where it was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Lane, LegId, Rank};
use crate::limits::{GIVES_WAY_AFTER_MS, GIVES_WAY_MAX};
use crate::{Action, Do, Endpoint, Event, Mode, Moment, Reason, Seen, SessionId, State, Thing, What};

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

    /// Whether a session of it gives way to one of another class.
    fn yields_to(self, other: Part) -> bool {
        self.tier > other.tier || (self.tier == other.tier && self.spares_one_for(other))
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

/// Sessions that are to be stopped for others, with reasons: beside what [`due`](super::due()) found at the same moment, and once that gave
/// what places there are. It looks at all lanes of classes that have less than their part, so ask it some times a minute, not after each event.
#[must_use]
pub fn gives_way(state: &State, seen: &Seen, now: Moment, due: &[Action]) -> Vec<Action> {
    let mut found = Vec::new();
    let mut at_hosts = AtHosts::of(state, seen, now, due);
    if at_hosts.weakest.is_empty() {
        return found;
    }
    let mut parts = Parts::of_all(state);
    let mut claims = claims(state, seen, &parts, &at_hosts);
    claims.sort_unstable_by_key(|claim| claim.key());
    for Claim { class, urgency, leg, hosts, .. } in claims {
        if found.len() >= GIVES_WAY_MAX {
            break;
        }
        // One at a time at each host: what is being stopped is room soon.
        if hosts.iter().any(|host| at_hosts.busy.contains(host)) {
            continue;
        }
        let Some(victim) = at_hosts.least(&parts, (class, urgency), &hosts) else { continue };
        let session = &state.sessions[&victim];
        at_hosts.busy.extend([session.from.as_str(), session.to.as_str()]);
        parts.moved(&state.transfers[&session.transfer].class, class);
        let reason = Reason::new(What::GivesWay).about(Thing::Transfer(leg.0));
        found.push(Action { what: Do::Stop { session: victim }, reason });
    }
    found
}

/// A lane of which the hosts of one end are full, and the first leg has no session.
struct Claim<'a> {
    class: &'a str,
    tier: u8,
    urgency: u8,
    leg: LegId,
    /// The full ones.
    hosts: Vec<&'a str>,
}

impl Claim<'_> {
    /// Who is served first is first.
    fn key(&self) -> (u8, Reverse<u8>, LegId) {
        (self.tier, Reverse(self.urgency), self.leg)
    }
}

/// Of the lanes those for which some session anywhere would have to give way. There may be tens of thousands: of a class
/// with its part and nothing urgent none is looked at.
fn claims<'a>(state: &'a State, seen: &Seen, parts: &Parts<'_>, at_hosts: &AtHosts<'_>) -> Vec<Claim<'a>> {
    let full = full(state, seen);
    let mut claims = Vec::new();
    if full.is_empty() {
        return claims;
    }
    let least = at_hosts.least_urgency();
    for class in classes_waiting(state) {
        let mine = parts.of(class);
        let takes_of_others = least.keys().any(|other| *other != class && parts.of(other).yields_to(mine));
        let own_least = least.get(class).copied();
        let claims_one = |urgency: u8| takes_of_others || own_least.is_some_and(|least| least < urgency);
        for (lane, legs) in lanes(state, class) {
            let Some((_, leg)) = legs.first() else { continue };
            let transfer = &state.transfers[&leg.0];
            if !claims_one(transfer.urgency) || !transfer.legs[usize::from(leg.1)].sessions.is_empty() {
                continue;
            }
            let sources = || lane.from.iter().map(|from| full.get(from.as_str())).collect::<Option<Vec<_>>>();
            let hosts = full
                .get(lane.to.as_str())
                .cloned()
                .or_else(|| Some(sources()?.into_iter().flatten().copied().collect()));
            let Some(hosts) = hosts else { continue };
            claims.push(Claim { class, tier: mine.tier, urgency: transfer.urgency, leg: *leg, hosts });
        }
    }
    claims
}

/// Endpoints of which all hosts that could take work are full, with these hosts.
fn full<'a>(state: &'a State, seen: &Seen) -> BTreeMap<&'a str, Vec<&'a str>> {
    let loads = Loads::of(state, seen);
    let active = |host: &&String| {
        seen.agents.contains_key(*host) && state.agents.get(*host).is_some_and(|agent| agent.mode() == Mode::Active)
    };
    let of = |(name, endpoint): (&'a String, &'a Endpoint)| {
        let hosts: Vec<&str> = endpoint.hosts.iter().filter(active).map(String::as_str).collect();
        let is_full = !hosts.is_empty() && hosts.iter().all(|host| loads.room(host) == 0);
        is_full.then_some((name.as_str(), hosts))
    };
    state.endpoints.iter().filter_map(of).collect()
}

/// The first lane of a class, by the order of lanes, is not before this.
fn begin(class: &str) -> Lane {
    Lane { class: class.to_owned(), from: Vec::new(), to: String::new() }
}

/// Classes that have lanes.
fn classes_waiting(state: &State) -> impl Iterator<Item = &str> {
    let class = |lane: &'_ Lane| -> Option<&str> {
        state.index.runnable.range(lane..).next().map(|(lane, _)| lane.class.as_str())
    };
    std::iter::successors(class(&begin("")), move |last| class(&begin(&format!("{last}\0"))))
}

/// The lanes of a class.
fn lanes<'a>(state: &'a State, class: &'a str) -> impl Iterator<Item = (&'a Lane, &'a BTreeSet<(Rank, LegId)>)> {
    state.index.runnable.range(begin(class)..).take_while(move |(lane, _)| lane.class == class)
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
    fn of(state: &'a State, seen: &Seen, now: Moment, due: &[Action]) -> AtHosts<'a> {
        let mut all = AtHosts { weakest: BTreeMap::new(), busy: BTreeSet::new() };
        // Of these the end is found already.
        let end = |action: &Action| match &action.what {
            Do::Stop { session } | Do::Record(Event::SessionEnded { session, .. }) => Some(*session),
            _ => None,
        };
        let ending: BTreeSet<SessionId> = due.iter().filter_map(end).collect();
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

    /// The least urgency of such sessions of each class.
    fn least_urgency(&self) -> BTreeMap<&'a str, u8> {
        let mut least = BTreeMap::new();
        for ((_, class), weakest) in &self.weakest {
            let of = least.entry(*class).or_insert(weakest.urgency);
            *of = weakest.urgency.min(*of);
        }
        least
    }

    /// The session at these hosts that has least claim to its place beside work of that class and urgency, if any has less.
    fn least(&self, parts: &Parts<'_>, (class, urgency): (&str, u8), hosts: &[&'a str]) -> Option<SessionId> {
        let mine = parts.of(class);
        let yields = |other: &str, weakest: &Weakest| {
            if other == class {
                return weakest.urgency < urgency;
            }
            parts.of(other).yields_to(mine)
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
