//! What is to be done now.

mod ending;
mod gives_way;
mod hosts;
mod listing;
mod place;

use std::collections::BTreeMap;

use crate::limits::{
    ACTIONS_MAX, AWAY_GRACE_MS, ENDED_KEPT_MS, ENDED_MAX, FLAPS_KEPT_MS, KEY_KEPT_MS, SILENT_MS, STOP_GRACE_MS,
    USAGE_EACH_MS,
};
use crate::{Action, Cause, Do, Event, Mode, Moment, Outcome, Reason, Seen, Session, SessionId, State, Thing, What};

pub use gives_way::gives_way;
pub(crate) use hosts::{Loads, side};

/// How often sessions that run are looked at when nothing else happens, ms: silence is no event.
const LOOK_EACH_MS: u64 = 10_000;

/// What is to be done now, each with its reason, in the order in which it is to be done.
///
/// Call it again after the outcomes are logged, until it gives nothing: what one action makes possible is found then, and no call
/// gives more than [`ACTIONS_MAX`] of a kind. It takes time by what can be done and by the sessions that run, not by what waits or is done.
#[must_use]
pub fn due(state: &State, seen: &Seen, now: Moment) -> Vec<Action> {
    let mut found = Vec::new();
    connections(state, seen, &mut found);
    expiries(state, now, &mut found);
    links(state, now, &mut found);
    ending::endings(state, &mut found);
    wakes(state, now, &mut found);
    sessions(state, seen, now, &mut found);
    listing::listings(state, seen, now, &mut found);
    place::starts(state, seen, now, &mut found);
    found
}

/// When to look again if nothing happens before; now or earlier if there is something to do by the time alone. `None` for never.
#[must_use]
pub fn next_due(state: &State, now: Moment) -> Option<Moment> {
    let index = &state.index;
    let pages = index.pages_asleep.range((now.after_ms(1), (Default::default(), 0), 0)..).next().map(|entry| entry.0);
    let ended = index.ended.first().map(|(at, _)| at.after_ms(ENDED_KEPT_MS));
    let keys = index.keys.first().map(|(at, _)| at.after_ms(KEY_KEPT_MS));
    let few = [index.asleep.first().map(|entry| entry.0), pages, ended, keys].into_iter().flatten();
    let limits = state.limits.values().filter_map(|limit| limit.until);
    let enrolments = state.enrolments.values().map(|enrolment| enrolment.until);
    let tokens = state.tokens.values().filter_map(|token| token.until);
    let asides = state.asides.values().map(|aside| aside.until).filter(|until| *until > now);
    let links = state.links.values().filter_map(|link| {
        let up = link.up?;
        Some(up.after_ms(if link.usable { FLAPS_KEPT_MS } else { link.hold_ms }))
    });
    let look = (!state.sessions.is_empty()).then(|| now.after_ms(LOOK_EACH_MS));
    few.chain(limits).chain(enrolments).chain(tokens).chain(asides).chain(links).chain(look).min()
}

fn record(found: &mut Vec<Action>, reason: Reason, event: Event) {
    found.push(Action { what: Do::Record(event), reason });
}

/// Agents that came back, or went.
fn connections(state: &State, seen: &Seen, found: &mut Vec<Action>) {
    for (host, agent) in &state.agents {
        let about = |what| Reason::new(what).about(Thing::Host(host.clone()));
        match (agent.away, seen.agents.contains_key(host)) {
            (Some(_), true) => record(found, about(What::Back), Event::AgentBack { host: host.clone() }),
            (None, false) => record(found, about(What::Away), Event::AgentAway { host: host.clone() }),
            _ => {}
        }
    }
}

/// What was for a time only.
fn expiries(state: &State, now: Moment, found: &mut Vec<Action>) {
    let over = |until: &Moment| *until <= now;
    for (resource, limit) in state.limits.iter().filter(|(_, limit)| limit.until.as_ref().is_some_and(over)) {
        let reason = Reason::new(What::Expired).about(Thing::Resource(resource.clone())).saying(&limit.why);
        record(found, reason, Event::LimitLifted { resource: resource.clone() });
    }
    for (token, enrolment) in state.enrolments.iter().filter(|(_, enrolment)| over(&enrolment.until)) {
        let reason = Reason::new(What::Expired).about(Thing::Token(enrolment.host.clone()));
        record(found, reason, Event::EnrolmentExpired { token: *token });
    }
    for (name, _) in state.tokens.iter().filter(|(_, token)| token.until.as_ref().is_some_and(over)) {
        record(
            found,
            Reason::new(What::Expired).about(Thing::Token(name.clone())),
            Event::TokenGone { name: name.clone() },
        );
    }
    for (_, (by, key)) in
        state.index.keys.iter().take_while(|(at, _)| now.ms_since(*at) >= KEY_KEPT_MS).take(ACTIONS_MAX)
    {
        let reason = Reason::new(What::Forgotten).about(Thing::By(by.clone()));
        record(found, reason, Event::KeyExpired { by: by.clone(), key: key.clone() });
    }
    let over = state.index.ended.len().saturating_sub(ENDED_MAX);
    let old = |(number, (at, _)): &(usize, &(Moment, _))| *number < over || now.ms_since(*at) >= ENDED_KEPT_MS;
    for (_, (_, id)) in state.index.ended.iter().enumerate().take_while(old).take(ACTIONS_MAX) {
        let idle = state.transfers[id].legs.iter().all(|leg| leg.sessions.is_empty());
        if idle && !state.index.dependents.contains_key(id) {
            let reason = Reason::new(What::Forgotten).about(Thing::Transfer(*id));
            record(found, reason, Event::Forgotten { transfer: *id });
        }
    }
}

/// Links that were held down for long enough, or had no trouble for so long that it is forgotten.
fn links(state: &State, now: Moment, found: &mut Vec<Action>) {
    for (link, trouble) in &state.links {
        let about = |what| Reason::new(what).about(Thing::Resource(crate::Resource::Link(link.clone())));
        let up_ms = trouble.up.map_or(0, |up| now.ms_since(up));
        if trouble.up.is_some() && !trouble.usable && up_ms >= trouble.hold_ms {
            record(found, about(What::HeldEnough), Event::LinkUsable { link: link.clone() });
        } else if trouble.usable && up_ms >= FLAPS_KEPT_MS {
            record(found, about(What::Forgotten), Event::LinkForgotten { link: link.clone() });
        }
    }
}

/// Pauses that are over.
fn wakes(state: &State, now: Moment, found: &mut Vec<Action>) {
    for (_, transfer, leg) in state.index.asleep.iter().take_while(|(until, ..)| *until <= now).take(ACTIONS_MAX) {
        let reason = Reason::new(What::PauseOver).about(Thing::Transfer(*transfer));
        record(found, reason, Event::Woken { transfer: *transfer, leg: *leg });
    }
}

/// Sessions that are to stop, are lost, or used something.
fn sessions(state: &State, seen: &Seen, now: Moment, found: &mut Vec<Action>) {
    for (id, session) in &state.sessions {
        let known = seen.sessions.get(id).copied().unwrap_or_default();
        if let Some((reason, outcome)) = lost(seen, *id, session, now) {
            record(found, reason, Event::SessionEnded { session: *id, outcome });
            continue;
        }
        if known.stopping.is_none()
            && let Some(reason) = to_stop(state, session).or_else(|| cut_off(state, seen, session, now))
        {
            found.push(Action { what: Do::Stop { session: *id }, reason });
            continue;
        }
        if known.bytes_done > session.used_bytes && now.ms_since(session.used_at) >= USAGE_EACH_MS {
            let reason = Reason::new(What::Moving).about(Thing::Session(*id));
            record(found, reason, Event::SessionUsed { session: *id, bytes: known.bytes_done });
        }
    }
}

/// Why a session is to end of which the driver is away for too long. It may run still, at its fall-back rate and with its files: so it is
/// over only when the other end, its driver or an operator says so.
fn cut_off(state: &State, seen: &Seen, session: &Session, now: Moment) -> Option<Reason> {
    let driver = session.driver_host();
    if seen.agents.contains_key(driver) {
        return None;
    }
    let away = state.agents.get(driver).map_or(Some(Moment(0)), |agent| agent.away)?;
    let is_long = now.ms_since(away.max(session.at)) >= AWAY_GRACE_MS;
    is_long.then(|| Reason::new(What::AgentLost).about(Thing::Host(driver.to_owned())))
}

/// Why a session is lost, if it is, and how it ended then.
fn lost(seen: &Seen, id: SessionId, session: &Session, now: Moment) -> Option<(Reason, Outcome)> {
    let known = seen.sessions.get(&id).copied().unwrap_or_default();
    let ended = |cause, reason: Reason| {
        let (text, bytes) = (reason.to_string(), known.bytes_done.max(session.used_bytes));
        (reason, Outcome { cause: Some(cause), host: None, text, bytes_done: known.bytes_done, bytes_sent: bytes })
    };
    // The driver reports: while it is connected and reports, the other agent may be away.
    if !seen.agents.contains_key(session.driver_host()) {
        return None;
    }
    let heard = known.heard.max(session.at);
    if let Some(asked) = known.stopping.filter(|asked| now.ms_since(*asked) >= STOP_GRACE_MS) {
        let reason = Reason::new(What::Silent).about(Thing::Session(id)).saying(&format!("asked to stop at {asked}"));
        return Some(ended(Cause::Stopped, reason));
    }
    let silent = now.ms_since(heard) >= SILENT_MS;
    silent.then(|| ended(Cause::Network, Reason::new(What::Silent).about(Thing::Session(id))))
}

/// Why a session is to stop, if it is.
fn to_stop(state: &State, session: &Session) -> Option<Reason> {
    let transfer = &state.transfers[&session.transfer];
    if let Some(ended) = &transfer.ended {
        return Some(ended.reason.clone());
    }
    if let Some(paused) = &transfer.paused {
        return Some(paused.clone());
    }
    if let Some(given_up) = &transfer.legs[usize::from(session.leg)].given_up {
        return Some(given_up.clone());
    }
    let drains = |host: &&String| state.agents.get(*host).is_some_and(|agent| agent.mode() == Mode::Draining);
    let host = [&session.from, &session.to].into_iter().find(drains)?;
    let agent = &state.agents[host];
    let decision = if agent.ours.mode == Mode::Draining { &agent.ours } else { &agent.own };
    Some(Reason::new(What::Draining).about(Thing::Host(host.clone())).saying(&decision.reason))
}

/// How many sessions each class has.
fn sessions_by_class(state: &State) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for session in state.sessions.values() {
        *counts.entry(state.transfers[&session.transfer].class.as_str()).or_default() += 1;
    }
    counts
}
