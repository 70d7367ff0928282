//! What operators change: network, shares, bookings, endpoints, limits, agents, tokens.

use api::agent::Mode;
use api::rest::{
    Accepted, Agent, Endpoint, EndpointRequest, EnrolMade, EnrolRequest, Kind, Limit, LimitRequest, Problem, TokenMade,
    TokenRequest,
};
use ledger::wish::{self, Kind as Refused};
use ledger::{Digest, Moment, Refusal, Resource};
use model::network::Network;
use model::shares::Shares;

use super::{counters, internal};
use crate::app::Answer;
use crate::core::Core;
use crate::http::token_digest;
use crate::views;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// A new network.
pub(super) fn set_network(core: &mut Core, by: &str, toml: &str) -> Answer<Accepted> {
    let events = wish::set_network(&core.state, toml, by).map_err(|refusal| core.turn_down(&refusal, None))?;
    core.grant(events)?;
    let hosts = core.state.network.as_ref().map(|network| network.hosts.clone()).unwrap_or_default();
    let gone = core.state.agents.keys().filter(|host| !hosts.contains(ledger::machine(host)));
    let note = |host: &String| format!("agent `{host}` is no host of this network: it gets nothing to do");
    let mut notes: Vec<String> = gone.map(note).collect();
    match &core.state.shares {
        None => {
            notes.push("there are no classes and marks yet: PUT /shares, before transfers can be submitted".to_owned())
        }
        Some(shares) => notes.extend(starved(core, toml, &shares.text)),
    }
    Ok(Accepted { version: version(core), notes })
}

/// Of a network that is in force from now on: a flexible mark in it that nobody counts for.
fn starved(core: &Core, network: &str, shares: &str) -> Option<String> {
    let network = Network::from_toml(network, "the network").ok()?;
    let shares = Shares::from_toml(shares, "the shares", &network).ok()?;
    let (mark, way) = core.uncounted(&shares, &network)?;
    Some(format!("mark `{}` is at its least until somebody counts all traffic on `{way}`", mark.name))
}

/// Classes and marks.
pub(super) fn set_shares(core: &mut Core, by: &str, toml: &str) -> Answer<Accepted> {
    let events = wish::set_shares(&core.state, toml, by).map_err(|refusal| core.turn_down(&refusal, None))?;
    let mut notes = Vec::new();
    if let Some(network) = &core.state.network {
        let read = Network::from_toml(&network.text, "the network");
        let read = read.and_then(|network| Ok((Shares::from_toml(toml, "the shares", &network)?, network)));
        let (shares, network) = read.map_err(|error| internal(&error))?;
        if let Some((mark, way)) = core.uncounted(&shares, &network) {
            let refusal = Refusal { kind: Refused::Conflict, text: counters::why_not(mark, &way) };
            return Err(core.turn_down(&refusal, None));
        }
        if !shares.flows.is_empty() {
            notes.push("`[[flow]]` is left aside: sessions of transfers are the flows".to_owned());
        }
    }
    core.grant(events)?;
    Ok(Accepted { version: version(core), notes })
}

/// What others have booked.
pub(super) fn set_bookings(core: &mut Core, by: &str, toml: &str) -> Answer<Accepted> {
    let events = wish::set_bookings(&core.state, toml, by).map_err(|refusal| core.turn_down(&refusal, None))?;
    core.grant(events)?;
    let mut notes = Vec::new();
    if core.state.shares.is_none() {
        notes.push("there are no classes and marks yet: PUT /shares, before anything is given a rate".to_owned());
    }
    Ok(Accepted { version: version(core), notes })
}

/// The number of the last event: it rises with each change.
fn version(core: &Core) -> u64 {
    core.stores.log.next() + core.batch.len() as u64 - 1
}

/// An endpoint, new or changed.
pub(super) fn set_endpoint(core: &mut Core, name: &str, request: EndpointRequest) -> Answer<Endpoint> {
    let mut root = request.root.0;
    while root.len() > 1 && root.ends_with(b"/") {
        root.pop();
    }
    let endpoint = ledger::Endpoint { hosts: request.hosts.into_iter().collect(), root };
    let called = name.to_owned();
    core.wish(move |state, _| wish::set_endpoint(state, &called, endpoint.clone()))?;
    views::endpoint(core, name)
}

/// Removes an endpoint.
pub(super) fn remove_endpoint(core: &mut Core, name: String) -> Answer<()> {
    core.wish(move |state, _| wish::remove_endpoint(state, &name))
}

/// A token with which an agent may come in.
pub(super) fn enrol(
    core: &mut Core,
    by: &str,
    request: EnrolRequest,
    token: String,
    fingerprint: String,
) -> Answer<EnrolMade> {
    let until = in_seconds(core.now(), request.good_seconds.unwrap_or(api::rest::ENROL_SECONDS));
    let (digest, host, by) = (Digest(token_digest(&token)), request.host.clone(), by.to_owned());
    core.wish(move |state, now| wish::make_enrolment(state, now, digest, &host, until, &by))?;
    Ok(EnrolMade { host: request.host, token, expires_at: views::time(until), fingerprint })
}

/// Forgets an agent. Its sessions are over, at the other host too.
pub(super) fn remove_agent(core: &mut Core, host: String) -> Answer<()> {
    // Found good first: what ends its sessions cannot be taken back.
    if let Err(refusal) = wish::forget_agent(&core.state, &host) {
        return Err(core.turn_down(&refusal, None));
    }
    let its = core.state.sessions.iter().filter(|(_, session)| session.is_at(&host));
    let its: Vec<ledger::SessionId> = its.map(|(id, _)| *id).collect();
    for id in its {
        // Its driver may be away: whichever end hears it ends the session.
        for end in core.hosts_of(id) {
            core.stop_at(&end, id);
        }
        core.end_session(id, Some(ledger::Cause::Leaving), format!("the agent of `{host}` was forgotten"), None);
    }
    // Its connection ends when this is durable: see `announce`.
    core.wish(move |state, _| wish::forget_agent(state, &host))
}

/// Lets a host take part, drain or stand still.
pub(super) fn set_mode(core: &mut Core, host: String, mode: Mode, reason: String) -> Answer<Agent> {
    let mode = match mode {
        Mode::Active => ledger::Mode::Active,
        Mode::Draining => ledger::Mode::Draining,
        Mode::Paused => ledger::Mode::Paused,
    };
    let called = host.clone();
    core.wish(move |state, _| wish::decide(state, &called, false, mode, &reason))?;
    views::agent(core, &host)
}

/// A resource of that name.
type Named = fn(String) -> Resource;

/// What a limit is on: `link:ana` for both ways of a link, `link:ana:forward` for one, `mark:ocean`, `host:dtn1`, `class:cms`; or the name alone, if only
/// one thing is called so. What is called so with the way in its name goes before a way of a link, and all else before a class.
pub(super) fn resource(core: &Core, text: &str) -> Answer<Resource> {
    let kinds: [(&str, Named); 3] = [("link", Resource::Link), ("mark", Resource::Mark), ("host", Resource::Host)];
    let class: (&str, Named) = ("class", Resource::Class);
    for (kind, of) in kinds.into_iter().chain([class]) {
        if let Some(name) = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) {
            let of = of(name.to_owned());
            let way = if matches!(of, Resource::Link(_)) && !is_there(core, &of) { way_of(core, name) } else { None };
            return Ok(way.unwrap_or(of));
        }
    }
    let found: Vec<Resource> =
        kinds.map(|(_, of)| of(text.to_owned())).into_iter().filter(|of| is_there(core, of)).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => {
            let class = || Some(Resource::Class(text.to_owned())).filter(|of| is_there(core, of));
            way_of(core, text).or_else(class).ok_or_else(|| {
                let problem = Problem::not_found(format!("link, mark, host or class `{text}`"));
                problem.fix("look at GET /links and GET /classes")
            })
        }
        several => {
            let names: Vec<String> = several.iter().map(views::resource_id).collect();
            let detail = format!("`{text}` is the name of several things");
            Err(Problem::new(Kind::Invalid, detail).fix(format!("write one of {}", names.join(", "))))
        }
    }
}

/// A way of a link: `ana:forward` or `ana:backward`.
fn way_of(core: &Core, text: &str) -> Option<Resource> {
    let (link, way) = text.rsplit_once(':')?;
    let forward = match way {
        "forward" => true,
        "backward" => false,
        _ => return None,
    };
    Some(Resource::Way { link: link.to_owned(), forward }).filter(|of| is_there(core, of))
}

fn is_there(core: &Core, resource: &Resource) -> bool {
    let state = &core.state;
    let in_network = state.network.as_ref().is_some_and(|network| match resource {
        Resource::Link(name) | Resource::Way { link: name, .. } => network.links.contains(name),
        Resource::Host(name) => network.hosts.contains(name),
        Resource::Mark(_) | Resource::Class(_) => false,
    });
    let in_shares = state.shares.as_ref().is_some_and(|shares| match resource {
        Resource::Mark(name) => shares.marks.contains(name),
        Resource::Class(name) => shares.classes.contains_key(name),
        _ => false,
    });
    in_network || in_shares || state.limits.contains_key(resource)
}

/// A limit from outside.
pub(super) fn set_limit(core: &mut Core, by: &str, text: &str, request: LimitRequest) -> Answer<Limit> {
    let resource = resource(core, text)?;
    let until = Some(in_seconds(core.now(), request.for_seconds));
    let limit = ledger::Limit { rate_bps: request.rate_bps, until, by: by.to_owned(), why: request.why };
    let on = resource.clone();
    core.wish(move |state, now| wish::set_limit(state, now, on.clone(), limit.clone()))?;
    views::limit(core, &resource)
}

/// Lifts a limit.
pub(super) fn lift_limit(core: &mut Core, text: &str) -> Answer<()> {
    let resource = resource(core, text)?;
    core.wish(move |state, _| wish::lift_limit(state, &resource))
}

/// A token of the API.
pub(super) fn make_token(core: &mut Core, by: &str, request: TokenRequest, token: String) -> Answer<TokenMade> {
    use api::rest::Role;
    let role = match request.role()? {
        Role::Viewer => ledger::Role::Viewer,
        Role::Submitter { collaboration } => ledger::Role::Submitter { collaboration },
        Role::Operator => ledger::Role::Operator,
        Role::Admin => ledger::Role::Admin,
    };
    let until = request.good_seconds.map(|seconds| in_seconds(core.now(), seconds));
    let (digest, name, by) = (Digest(token_digest(&token)), request.name.clone(), by.to_owned());
    core.wish(move |state, now| wish::make_token(state, now, &name, digest, role.clone(), until, &by))?;
    core.share_tokens();
    Ok(TokenMade { name: request.name, token, expires_at: until.map(views::time) })
}

/// Makes a token good for nothing.
pub(super) fn remove_token(core: &mut Core, name: String) -> Answer<()> {
    core.wish(move |state, _| wish::revoke_token(state, &name))?;
    core.share_tokens();
    Ok(())
}

/// A text that nobody can guess.
pub(super) fn token(prefix: &str) -> Answer<String> {
    random_token(prefix).map_err(|error| internal(&error))
}

/// A text that nobody can guess.
///
/// # Errors
/// If the system gives no random bytes.
pub(crate) fn random_token(prefix: &str) -> std::io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    sys::random::fill(&mut bytes)?;
    Ok(bytes.iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}")))
}

fn in_seconds(now: Moment, seconds: u64) -> Moment {
    now.after_ms(seconds.saturating_mul(1_000))
}
