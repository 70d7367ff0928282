//! Agents, endpoints, tokens.

use std::collections::BTreeMap;

use api::agent::Mode;
use api::rest::{self, AgentState, HostSession, Problem};
use ledger::SessionId;

use super::{Load, time};
use crate::app::Answer;
use crate::core::Core;

/// All agents.
pub(crate) fn agents(core: &Core) -> Vec<rest::Agent> {
    // All sessions once, not all for each agent.
    let mut at: BTreeMap<&str, Vec<SessionId>> = BTreeMap::new();
    for (id, session) in &core.state.sessions {
        at.entry(&session.from).or_default().push(*id);
        if session.to != session.from {
            at.entry(&session.to).or_default().push(*id);
        }
    }
    let its = |host: &str| at.get(host).map_or(&[][..], Vec::as_slice);
    core.state.agents.iter().map(|(host, agent)| shown(core, host, agent, its(host))).collect()
}

/// The agent of a host.
pub(crate) fn agent(core: &Core, host: &str) -> Answer<rest::Agent> {
    let is_at = |(id, session): (&SessionId, &ledger::Session)| session.is_at(host).then_some(*id);
    let its = || core.state.sessions.iter().filter_map(is_at).collect::<Vec<_>>();
    let found = core.state.agents.get(host).map(|agent| shown(core, host, agent, &its()));
    found.ok_or_else(|| Problem::not_found(format!("agent of `{host}`")).fix("look at GET /agents"))
}

/// An agent, with the sessions at its host.
fn shown(core: &Core, host: &str, agent: &ledger::Agent, its: &[SessionId]) -> rest::Agent {
    let connected = core.connected.get(host);
    let inventory = connected.map(|connected| connected.inventory.clone()).unwrap_or_default();
    let session = |id: &SessionId| {
        let session = core.state.sessions.get(id)?;
        let sends = session.from == host;
        Some(HostSession {
            session: id.0,
            transfer: rest::TransferId(session.transfer.0),
            other: if sends { session.to.clone() } else { session.from.clone() },
            sends,
            rate_bps: Load::of(core, *id).measured_bps,
        })
    };
    let sessions: Vec<HostSession> = its.iter().filter_map(session).collect();
    let host_bps = inventory.each_way_bps();
    rest::Agent {
        host: host.to_owned(),
        state: if connected.is_some() { AgentState::Online } else { AgentState::Away },
        mode: mode(agent.mode()),
        reason: reason(agent),
        fingerprint: agent.fingerprint.to_string(),
        version: connected.map(|connected| connected.version.clone()).unwrap_or_default(),
        hostname: inventory.hostname,
        enrolled_at: time(agent.enrolled),
        away_since: agent.away.filter(|_| connected.is_none()).map(time),
        host_bps,
        cores_bps: inventory.cores_bps,
        addresses: inventory.addresses.iter().map(ToString::to_string).collect(),
        interfaces: inventory.interfaces,
        grants: inventory.grants,
        cores: inventory.cores,
        sessions_max: inventory.sessions_max,
        rate_bps: sessions.iter().map(|session| session.rate_bps).fold(0, u64::saturating_add),
        sessions,
    }
}

/// Who decided what, in words: the stricter of both operators.
fn reason(agent: &ledger::Agent) -> String {
    let (who, decision) =
        if agent.own.mode >= agent.ours.mode { ("at the host", &agent.own) } else { ("here", &agent.ours) };
    let what = match decision.mode {
        ledger::Mode::Active => return "takes part".to_owned(),
        ledger::Mode::Paused => "paused",
        ledger::Mode::Draining => "draining",
    };
    let why = if decision.reason.is_empty() { String::new() } else { format!(": {}", decision.reason) };
    format!("{what}, decided {who}{why}")
}

fn mode(mode: ledger::Mode) -> Mode {
    match mode {
        ledger::Mode::Active => Mode::Active,
        ledger::Mode::Paused => Mode::Paused,
        ledger::Mode::Draining => Mode::Draining,
    }
}

/// All endpoints.
pub(crate) fn endpoints(core: &Core) -> Vec<rest::Endpoint> {
    core.state.endpoints.iter().map(|(name, endpoint)| shown_endpoint(core, name, endpoint)).collect()
}

/// An endpoint.
pub(crate) fn endpoint(core: &Core, name: &str) -> Answer<rest::Endpoint> {
    let found = core.state.endpoints.get(name).map(|endpoint| shown_endpoint(core, name, endpoint));
    found.ok_or_else(|| Problem::not_found(format!("endpoint `{name}`")).fix("look at GET /endpoints"))
}

fn shown_endpoint(core: &Core, name: &str, endpoint: &ledger::Endpoint) -> rest::Endpoint {
    let takes_part = |host: &&String| {
        let agent = core.state.agents.get(*host);
        core.connected.contains_key(*host) && agent.is_some_and(|agent| agent.mode() == ledger::Mode::Active)
    };
    rest::Endpoint {
        name: name.to_owned(),
        hosts: endpoint.hosts.iter().cloned().collect(),
        root: api::Name(endpoint.root.clone()),
        online: endpoint.hosts.iter().filter(takes_part).cloned().collect(),
    }
}

/// All tokens of the API, without their texts.
pub(crate) fn tokens(core: &Core) -> Vec<rest::ApiToken> {
    let shown = |(name, token): (&String, &ledger::ApiToken)| {
        let role = role(&token.role);
        let collaboration = match &role {
            rest::Role::Submitter { collaboration } => Some(collaboration.clone()),
            _ => None,
        };
        let expires_at = token.until.map(time);
        rest::ApiToken { name: name.clone(), role: role.word(), collaboration, expires_at }
    };
    core.state.tokens.iter().map(shown).collect()
}

/// The same role in the words of the API.
pub(crate) fn role(role: &ledger::Role) -> rest::Role {
    match role {
        ledger::Role::Viewer => rest::Role::Viewer,
        ledger::Role::Submitter { collaboration } => rest::Role::Submitter { collaboration: collaboration.clone() },
        ledger::Role::Operator => rest::Role::Operator,
        ledger::Role::Admin => rest::Role::Admin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_operator_is_named() {
        let decision = |mode, reason: &str| ledger::Decision { mode, reason: reason.to_owned() };
        let mut agent = ledger::Agent {
            fingerprint: ledger::Digest([0; 32]),
            enrolled: ledger::Moment(0),
            away: None,
            own: ledger::Decision::default(),
            ours: ledger::Decision::default(),
        };
        assert_eq!(reason(&agent), "takes part");
        agent.ours = decision(ledger::Mode::Paused, "new disks");
        assert_eq!(reason(&agent), "paused, decided here: new disks");
        agent.own = decision(ledger::Mode::Draining, "");
        assert_eq!(reason(&agent), "draining, decided at the host");
    }
}
