//! The network, shares, bookings, endpoints, API tokens, limits, links, generations.

use std::ops::Range;

use model::bookings::Bookings;
use model::network::{Network, NodeKind};
use model::shares::Shares;

use crate::limits::{
    ENDPOINT_HOSTS_MAX, ENDPOINTS_MAX, FILE_TEXT_MAX, GENERATION_BLOCK, HOLD_MAX_MS, HOLD_MS, LIMITS_MAX, LINKS_MAX,
    PATH_MAX, TOKENS_MAX,
};
use crate::{
    ApiToken, BookingsKnown, ClassKnown, Digest, Endpoint, Event, Limit, Location, Moment, NetworkKnown, Resource,
    Role, SharesKnown, State, machine,
};

use super::hosts::check_host;
use super::{Kind, Refusal, check_name, need, refuse};

/// A network, if it can be read, has the hosts of all endpoints, and the shares and bookings in force fit it.
///
/// # Errors
/// What is wrong with the text, with its line; or what is missing in it.
pub fn set_network(state: &State, text: &str, by: &str) -> Result<Vec<Event>, Refusal> {
    check_text(text)?;
    let network = Network::from_toml(text, "the network").or_else(|error| refuse(Kind::Bad, error.to_string()))?;
    let hosts = network.nodes.iter().filter(|node| node.kind == NodeKind::Host).map(|node| node.name.clone());
    let known = NetworkKnown {
        text: text.to_owned(),
        hosts: hosts.collect(),
        links: network.links.iter().map(|link| link.name.clone()).collect(),
    };
    // Behind it is the host of an agent that shares it with others.
    let unclear = known.hosts.iter().find(|host| host.contains('@'));
    need(unclear.is_none(), Kind::Bad, || {
        format!(
            "host `{}`: an `@` is between an instance and its host: call it otherwise",
            unclear.map_or("", String::as_str)
        )
    })?;
    for (name, endpoint) in &state.endpoints {
        let missing = endpoint.hosts.iter().find(|host| !known.hosts.contains(machine(host)));
        need(missing.is_none(), Kind::Conflict, || {
            let host = missing.map_or("", String::as_str);
            format!("the network has no host `{host}` of endpoint `{name}`: keep it, or change the endpoint first")
        })?;
    }
    if let Some(shares) = &state.shares {
        Shares::from_toml(&shares.text, "the shares in force", &network)
            .or_else(|error| refuse(Kind::Conflict, format!("{error}: change the shares first")))?;
    }
    if let Some(bookings) = &state.bookings {
        Bookings::from_toml(&bookings.text, "the bookings in force", &network)
            .or_else(|error| refuse(Kind::Conflict, format!("{error}: change the bookings first")))?;
    }
    Ok(vec![Event::NetworkSet { network: known, by: by.to_owned() }])
}

/// Classes and marks, if they can be read, fit the network, and have the classes of all transfers that have not ended.
///
/// # Errors
/// What is wrong with the text, with its line; or what is missing in it.
pub fn set_shares(state: &State, text: &str, by: &str) -> Result<Vec<Event>, Refusal> {
    check_text(text)?;
    let Some(network) = &state.network else {
        return refuse(Kind::Conflict, "there is no network yet: set it first");
    };
    let network =
        Network::from_toml(&network.text, "the network").or_else(|error| refuse(Kind::Conflict, error.to_string()))?;
    let shares =
        Shares::from_toml(text, "the shares", &network).or_else(|error| refuse(Kind::Bad, error.to_string()))?;
    let known = known(&shares, text);
    let live = state.transfers.iter().filter(|(_, transfer)| transfer.ended.is_none());
    for (id, transfer) in live {
        let class = &transfer.class;
        let kept = known.classes.contains_key(class);
        need(kept, Kind::Conflict, || {
            format!("there is no class `{class}` of transfer {id}: keep it, or change that transfer's class first")
        })?;
    }
    Ok(vec![Event::SharesSet { shares: known, by: by.to_owned() }])
}

/// What others have booked, in place of all that was booked before.
///
/// # Errors
/// What is wrong with the text, with its line; or that there is no network.
pub fn set_bookings(state: &State, text: &str, by: &str) -> Result<Vec<Event>, Refusal> {
    check_text(text)?;
    let Some(network) = &state.network else {
        return refuse(Kind::Conflict, "there is no network yet: set it first");
    };
    let network =
        Network::from_toml(&network.text, "the network").or_else(|error| refuse(Kind::Conflict, error.to_string()))?;
    let bookings =
        Bookings::from_toml(text, "the bookings", &network).or_else(|error| refuse(Kind::Bad, error.to_string()))?;
    let count = u32::try_from(bookings.bookings.len()).unwrap_or(u32::MAX);
    Ok(vec![Event::BookingsSet { bookings: BookingsKnown { text: text.to_owned(), count }, by: by.to_owned() }])
}

fn known(shares: &Shares, text: &str) -> SharesKnown {
    let class = |class: &model::shares::Class| ClassKnown { tier: class.tier, weight: class.weight.get() };
    SharesKnown {
        text: text.to_owned(),
        classes: shares.classes.iter().map(|of| (of.name.clone(), class(of))).collect(),
        marks: shares.marks.iter().map(|mark| mark.name.clone()).collect(),
        half_life_ms: u64::try_from(shares.half_life.as_millis()).unwrap_or(u64::MAX),
    }
}

fn check_text(text: &str) -> Result<(), Refusal> {
    let fits = text.len() <= FILE_TEXT_MAX;
    need(fits, Kind::Bad, || format!("the text is longer than {} MiB: leave something out", FILE_TEXT_MAX >> 20))
}

/// An endpoint, new or changed.
///
/// # Errors
/// If its hosts are not in the network, its root is not absolute, or is to change while transfers use it.
pub fn set_endpoint(state: &State, name: &str, endpoint: Endpoint) -> Result<Vec<Event>, Refusal> {
    check_name("the name of the endpoint", name)?;
    let count = endpoint.hosts.len();
    need((1..=ENDPOINT_HOSTS_MAX).contains(&count), Kind::Bad, || {
        format!("endpoint `{name}` has {count} hosts: name 1 to {ENDPOINT_HOSTS_MAX}")
    })?;
    endpoint.hosts.iter().try_for_each(|host| check_host(state, host))?;
    let root = &endpoint.root;
    let plain =
        root.starts_with(b"/") && !root.contains(&0) && !root.split(|byte| *byte == b'/').any(|part| part == b"..");
    need(plain && root.len() <= PATH_MAX, Kind::Bad, || {
        format!("the root of endpoint `{name}` is no absolute path without `..`: write one like `/data`")
    })?;
    match state.endpoints.get(name) {
        Some(before) if *before == endpoint => return Ok(Vec::new()),
        Some(before) if before.root != endpoint.root => check_unused(state, name)?,
        Some(_) => {}
        None => need(state.endpoints.len() < ENDPOINTS_MAX, Kind::Full, || {
            format!("there are {ENDPOINTS_MAX} endpoints: remove some")
        })?,
    }
    Ok(vec![Event::EndpointSet { name: name.to_owned(), endpoint }])
}

/// Removes an endpoint that no transfer uses.
///
/// # Errors
/// If there is none, or a transfer that has not ended uses it.
pub fn remove_endpoint(state: &State, name: &str) -> Result<Vec<Event>, Refusal> {
    let known = state.endpoints.contains_key(name);
    need(known, Kind::Unknown, || format!("there is no endpoint `{}`: look at `endpoint ls`", name.escape_debug()))?;
    check_unused(state, name)?;
    Ok(vec![Event::EndpointRemoved { name: name.to_owned() }])
}

fn check_unused(state: &State, name: &str) -> Result<(), Refusal> {
    let at = |location: &Location| location.endpoint == name;
    let mut live = state.transfers.iter().filter(|(_, transfer)| transfer.ended.is_none());
    let user = live.find(|(_, of)| of.sources.iter().any(at) || of.legs.iter().any(|leg| at(&leg.to)));
    match user {
        Some((id, _)) => {
            refuse(Kind::Conflict, format!("transfer {id} uses endpoint `{name}`: wait for it, or cancel it"))
        }
        None => Ok(()),
    }
}

/// A token of the API, given by its digest.
///
/// # Errors
/// If the name or the digest is known, or it is expired already.
pub fn make_token(
    state: &State,
    now: Moment,
    name: &str,
    digest: Digest,
    role: Role,
    until: Option<Moment>,
    by: &str,
) -> Result<Vec<Event>, Refusal> {
    check_name("the name of the token", name)?;
    if let Role::Submitter { collaboration } = &role {
        check_name("the collaboration", collaboration)?;
    }
    let known = state.tokens.iter().any(|(other, token)| other == name || token.digest == digest);
    need(!known, Kind::Conflict, || format!("there is a token `{name}`: use another name, or revoke it first"))?;
    need(until.is_none_or(|until| until > now), Kind::Bad, || {
        format!("token `{name}` would be expired: name a later end")
    })?;
    need(state.tokens.len() < TOKENS_MAX, Kind::Full, || format!("there are {TOKENS_MAX} tokens: revoke some"))?;
    Ok(vec![Event::TokenMade { name: name.to_owned(), digest, role, until, by: by.to_owned() }])
}

/// Makes a token good for nothing.
///
/// # Errors
/// If there is none, or it is the last one for ever with which tokens can be made.
pub fn revoke_token(state: &State, name: &str) -> Result<Vec<Event>, Refusal> {
    let Some(token) = state.tokens.get(name) else {
        return refuse(Kind::Unknown, format!("there is no token `{}`: look at the list", name.escape_debug()));
    };
    let lasting = |token: &ApiToken| token.role == Role::Admin && token.until.is_none();
    let others = state.tokens.iter().any(|(other, token)| other != name && lasting(token));
    need(others || !lasting(token), Kind::Conflict, || {
        format!("token `{name}` is the last of an admin without an end: make another first")
    })?;
    Ok(vec![Event::TokenGone { name: name.to_owned() }])
}

/// A limit from outside, in place of one that there was on the same thing. There is one on each thing, so one that somebody else set is not raised by
/// the way: afterwards nothing would hold to theirs.
///
/// # Errors
/// If there is no such link, mark, host or class, it is over already, or somebody else set a lower one that is in force.
pub fn set_limit(state: &State, now: Moment, resource: Resource, limit: Limit) -> Result<Vec<Event>, Refusal> {
    let known = match &resource {
        Resource::Link(name) | Resource::Way { link: name, .. } => {
            state.network.as_ref().is_some_and(|network| network.links.contains(name))
        }
        Resource::Host(name) => state.network.as_ref().is_some_and(|network| network.hosts.contains(name)),
        Resource::Mark(name) => state.shares.as_ref().is_some_and(|shares| shares.marks.contains(name)),
        Resource::Class(name) => state.shares.as_ref().is_some_and(|shares| shares.classes.contains_key(name)),
    };
    need(known, Kind::Unknown, || format!("there is no {resource} to limit: look at `topology show`"))?;
    let later = limit.until.is_none_or(|until| until > now);
    need(later, Kind::Bad, || format!("the limit on {resource} would be over: name a later end"))?;
    let theirs = state.limits.get(&resource).filter(|is| is.by != limit.by && is.until.is_none_or(|until| until > now));
    if let Some(is) = theirs.filter(|is| is.rate_bps < limit.rate_bps) {
        let until = is.until.map(|until| format!(" until {until}")).unwrap_or_default();
        let (rate, by, on) = (units::Rate::from_bps(is.rate_bps), is.by.escape_debug(), resource.written());
        let text = format!(
            "{resource} is limited to {rate} by `{by}`{until}, which is lower: lift that first, with `longhaul limit lift {on}`"
        );
        return refuse(Kind::Conflict, text);
    }
    let room = state.limits.contains_key(&resource) || state.limits.len() < LIMITS_MAX;
    need(room, Kind::Full, || format!("there are {LIMITS_MAX} limits: lift some"))?;
    let limit = Limit { why: crate::reason::cut(&limit.why), ..limit };
    Ok(vec![Event::LimitSet { resource, limit }])
}

/// Lifts a limit.
///
/// # Errors
/// If there is none.
pub fn lift_limit(state: &State, resource: &Resource) -> Result<Vec<Event>, Refusal> {
    let known = state.limits.contains_key(resource);
    need(known, Kind::Unknown, || format!("there is no limit on {resource}: look at `limit ls`"))?;
    Ok(vec![Event::LimitLifted { resource: resource.clone() }])
}

/// A link was found down; nothing if that is known. It is held down for so long at first, ms, and twice as long with each flap.
///
/// # Errors
/// If there is no such link, or too many have trouble.
pub fn link_down(state: &State, link: &str, evidence: &str, first_hold_ms: u64) -> Result<Vec<Event>, Refusal> {
    let known = state.network.as_ref().is_some_and(|network| network.links.contains(link));
    need(known, Kind::Unknown, || format!("the network has no link `{}`", link.escape_debug()))?;
    let before = state.links.get(link);
    need(before.is_some() || state.links.len() < LINKS_MAX, Kind::Full, || format!("{LINKS_MAX} links have trouble"))?;
    let down = before.is_some_and(|trouble| trouble.up.is_none());
    if down {
        return Ok(Vec::new());
    }
    let mut events = vec![Event::LinkDown { link: link.to_owned(), evidence: crate::reason::cut(evidence) }];
    if first_hold_ms != HOLD_MS {
        let flaps = before.map_or(0, |trouble| trouble.flaps);
        let hold_ms = crate::cause::doubled(first_hold_ms.max(1), flaps, HOLD_MAX_MS);
        events.push(Event::LinkHeld { link: link.to_owned(), hold_ms });
    }
    Ok(events)
}

/// Probes over a link are answered; nothing unless it was down.
#[must_use]
pub fn link_up(state: &State, link: &str) -> Vec<Event> {
    let down = state.links.get(link).is_some_and(|trouble| trouble.up.is_none());
    if down { vec![Event::LinkUp { link: link.to_owned() }] } else { Vec::new() }
}

/// The next generations that may be used, none of which was before, over all restarts; and what to log first.
#[must_use]
pub fn reserve_generations(state: &State) -> (Range<u64>, Vec<Event>) {
    // Generation 0 is none: an agent that has seen no lease has it.
    let from = state.generations_below.max(1);
    let below = from.saturating_add(GENERATION_BLOCK);
    (from..below, vec![Event::GenerationsReserved { below }])
}
