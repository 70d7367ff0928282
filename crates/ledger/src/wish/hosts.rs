//! Agents: how they come, what is decided about them, how they go.

use std::collections::BTreeSet;

use crate::limits::{AGENTS_MAX, ENROLMENT_LIFE_MAX_MS, ENROLMENTS_MAX};
use crate::{Cause, Decision, Digest, Enrolment, Event, Mode, Moment, Outcome, SessionId, State, machine};

use super::{Kind, Refusal, need, refuse};

/// A token with which the agent of a host may enrol once, given by its digest.
///
/// # Errors
/// If there is no such host, the token is known, or would last for less than nothing or more than a week.
pub fn make_enrolment(
    state: &State,
    now: Moment,
    token: Digest,
    host: &str,
    until: Moment,
    by: &str,
) -> Result<Vec<Event>, Refusal> {
    check_host(state, host)?;
    let good = until > now && until.ms_since(now) <= ENROLMENT_LIFE_MAX_MS;
    need(good, Kind::Bad, || "an enrolment token lasts for more than nothing and at most a week".into())?;
    let room = state.enrolments.len() < ENROLMENTS_MAX;
    need(room, Kind::Full, || format!("{ENROLMENTS_MAX} enrolment tokens wait to be used: let some expire"))?;
    need(!state.enrolments.contains_key(&token), Kind::Conflict, || {
        "there is this token already: make another".into()
    })?;
    let enrolment = Enrolment { host: host.to_owned(), until, by: by.to_owned() };
    Ok(vec![Event::EnrolmentMade { token, enrolment }])
}

/// An agent comes with a token and a key: which host it is from now on, and what to log. The token is used up.
///
/// # Errors
/// If the token is not known, used up or expired; if the key is another host's.
pub fn enrol(state: &State, now: Moment, token: Digest, fingerprint: Digest) -> Result<(String, Vec<Event>), Refusal> {
    let Some(enrolment) = state.enrolments.get(&token).filter(|enrolment| enrolment.until > now) else {
        let text = "this enrolment token is not known, was used, or expired: make a new one with `agent token`";
        return refuse(Kind::Unknown, text);
    };
    let host = enrolment.host.clone();
    let mut others = state.agents.iter().filter(|(name, _)| **name != host);
    let other = others.find(|(_, agent)| agent.fingerprint == fingerprint);
    need(other.is_none(), Kind::Conflict, || "this key is another host's: let the agent make its own".into())?;
    let room = state.agents.contains_key(&host) || state.agents.len() < AGENTS_MAX;
    need(room, Kind::Full, || format!("there are {AGENTS_MAX} agents: forget some"))?;
    Ok((host.clone(), vec![Event::Enrolled { token, host, fingerprint }]))
}

/// Forgets an agent: its key opens nothing any more, and its sessions are over.
///
/// # Errors
/// If there is none.
pub fn forget_agent(state: &State, host: &str) -> Result<Vec<Event>, Refusal> {
    check_agent(state, host)?;
    let its = state.sessions.iter().filter(|(_, session)| session.is_at(host));
    let text = format!("the agent of `{host}` was forgotten");
    let mut events: Vec<Event> = its.map(|(id, _)| ended(*id, Cause::Leaving, &text)).collect();
    events.push(Event::AgentForgotten { host: host.to_owned() });
    Ok(events)
}

/// Someone decided about a host: its own operator at the host (`own`), or one of the controller.
///
/// # Errors
/// If there is no such agent.
pub fn decide(state: &State, host: &str, own: bool, mode: Mode, reason: &str) -> Result<Vec<Event>, Refusal> {
    check_agent(state, host)?;
    let decision = Decision { mode, reason: crate::reason::cut(reason) };
    let agent = &state.agents[host];
    let before = if own { &agent.own } else { &agent.ours };
    let same = *before == decision;
    Ok(if same { Vec::new() } else { vec![Event::AgentDecided { host: host.to_owned(), own, decision }] })
}

/// An agent says hello and holds these sessions: the others that it drives are lost, as its process is new or it ended them unheard.
#[must_use]
pub fn lost_at_hello(state: &State, host: &str, held: &BTreeSet<SessionId>) -> Vec<Event> {
    let driven = state.sessions.iter().filter(|(id, session)| session.driver_host() == host && !held.contains(id));
    let text = format!("the agent of `{host}` came back without it");
    driven.map(|(id, _)| ended(*id, Cause::Network, &text)).collect()
}

fn ended(session: SessionId, cause: Cause, text: &str) -> Event {
    Event::SessionEnded {
        session,
        outcome: Outcome { cause: Some(cause), text: text.to_owned(), ..Outcome::default() },
    }
}

pub(super) fn check_host(state: &State, host: &str) -> Result<(), Refusal> {
    let Some(network) = &state.network else {
        return refuse(Kind::Conflict, "there is no network yet: set it first");
    };
    let known = network.hosts.contains(machine(host)) && !host.starts_with('@');
    need(known, Kind::Unknown, || format!("the network has no host `{}`: look at `topology show`", host.escape_debug()))
}

fn check_agent(state: &State, host: &str) -> Result<(), Refusal> {
    let known = state.agents.contains_key(host);
    need(known, Kind::Unknown, || format!("no agent of `{}` is enrolled: look at `agent ls`", host.escape_debug()))
}
