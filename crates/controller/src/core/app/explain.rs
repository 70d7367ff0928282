//! Why things are as they are: from the state, and from the last planning.
//!
//! What the core knows is gathered on its thread ([`facts`]). The planner's question is asked again beside it ([`Facts::answer`]), so
//! that an explanation of thousands of sessions holds up nobody.

mod planner;
mod room;

use api::rest::{self, About, Assurance, Explanation, Holder, Problem, Remedy, Wrong};
use ledger::rates::{Hold, Left, Shortfall};
use ledger::{Limit, Phase, Reason, Resource, SessionId, Thing, Transfer, TransferId, What};

use crate::app::Answer;
use crate::core::Core;
use crate::views::{self, Enforced, Load};
use planner::{Asks, Planner};

/// Sessions that do less than they may, told one by one.
const SHORT_TOLD_MAX: usize = 8;

/// Sessions whose path is told, and transfers that left a link.
const ROUTES_TOLD_MAX: usize = 8;

/// What is known, and what the planner is to be asked.
pub(super) struct Facts {
    told: Explanation,
    planner: Option<Planner>,
}

impl Facts {
    /// The whole answer. It may take a while where thousands of sessions run.
    pub(super) fn answer(self) -> Explanation {
        match self.planner {
            Some(planner) => planner.complete(self.told),
            None => self.told,
        }
    }
}

/// Gathers what is known of something.
pub(super) fn facts(core: &mut Core, about: About, subject: &str) -> Answer<Facts> {
    match about {
        About::Transfer => {
            let id = subject.parse::<rest::TransferId>().map_err(Problem::from)?;
            transfer(core, subject, TransferId(id.0), None)
        }
        About::Leg => {
            let wrong = || Problem::from(Wrong::new("id", "a leg is written `t17.1`"));
            let (id, leg) = subject.split_once('.').ok_or_else(wrong)?;
            let id = id.parse::<rest::TransferId>().map_err(Problem::from)?;
            let leg: usize = leg.parse().ok().filter(|leg| *leg > 0).ok_or_else(wrong)?;
            transfer(core, subject, TransferId(id.0), Some(leg - 1))
        }
        About::Link => link(core, subject),
        About::Class => class(core, subject),
        About::Refusal => refusal(core, subject),
    }
}

fn begun(what: About, subject: &str, text: String) -> Explanation {
    Explanation {
        what,
        subject: subject.to_owned(),
        text,
        rate_bps: None,
        resource: None,
        holders: Vec::new(),
        until: None,
        remedies: Vec::new(),
        assurance: Assurance::Edge,
    }
}

fn transfer(core: &Core, subject: &str, id: TransferId, leg: Option<usize>) -> Answer<Facts> {
    let transfer = core.state.transfers.get(&id).ok_or_else(|| Problem::not_found(format!("transfer {id}")))?;
    let legs = match leg {
        None => &transfer.legs[..],
        Some(leg) => {
            let none =
                || Problem::not_found(format!("leg `{subject}`")).fix(format!("it has 1 to {}", transfer.legs.len()));
            transfer.legs.get(leg..=leg).ok_or_else(none)?
        }
    };
    let standing = ledger::standing(&core.state, &core.seen, core.now(), id);
    let (phase, reason) = standing.unwrap_or((transfer.phase(), Reason::new(What::Next)));
    let about = if leg.is_some() { About::Leg } else { About::Transfer };
    let mut told = begun(about, subject, text(transfer, legs, phase, &reason, leg.is_some()));
    told.until = reason.until.map(views::time);
    let sessions: Vec<SessionId> = legs.iter().flat_map(|leg| leg.sessions.iter().copied()).collect();
    // Of a session that stands still as a host's operator says the planner knows nothing.
    if sessions.is_empty() || reason.what == What::HostPaused {
        told.resource = reason.thing.as_ref().and_then(resource);
        told.remedies.extend(reason.way_out().map(|text| Remedy { text: text.to_owned(), rate_bps: None }));
        return Ok(Facts { told, planner: None });
    }
    told.assurance = Enforced::now(core).of_sessions(core, &sessions);
    let load = Load::of_all(core, &sessions);
    told.rate_bps = Some(load.allocated_bps);
    told.text +=
        &format!("; {} are given to it, {} measured", views::rate(load.allocated_bps), views::rate(load.measured_bps));
    told.text += &shortfalls(core, &sessions);
    told.text += &routes(core, &sessions);
    Ok(Facts { told, planner: Planner::of(core, Asks::Sessions(sessions)) })
}

fn text(transfer: &Transfer, legs: &[ledger::Leg], phase: Phase, reason: &Reason, is_leg: bool) -> String {
    match legs {
        [leg] if is_leg => {
            let state = views::leg_state(transfer, leg);
            let word = serde_json::to_value(state).ok().and_then(|word| word.as_str().map(str::to_owned));
            let reason = leg.given_up.as_ref().unwrap_or(reason);
            let why = if state == rest::TransferState::Done {
                "all files are in place".to_owned()
            } else {
                reason.to_string()
            };
            format!("{}: {why}", word.unwrap_or_default())
        }
        _ => format!("{}: {reason}", phase.word()),
    }
}

/// What a reason is about, as something that there may be too little of.
fn resource(thing: &Thing) -> Option<rest::Resource> {
    let (kind, name) = match thing {
        Thing::Host(name) => ("host", name.clone()),
        Thing::Endpoint(name) => ("endpoint", name.clone()),
        Thing::Transfer(id) => ("transfer", id.to_string()),
        Thing::Class(name) => ("class", name.clone()),
        Thing::Resource(resource) => ("limit", views::resource_id(resource)),
        Thing::Session(_) | Thing::Token(_) | Thing::By(_) => return None,
    };
    Some(rest::Resource { name, kind: kind.to_owned(), capacity_bps: None, allocated_bps: None })
}

/// Which sessions do less than they may, and what limits them.
fn shortfalls(core: &Core, sessions: &[SessionId]) -> String {
    let short = |id: &SessionId| Some((*id, core.live.get(id)?.watch.shortfall()?));
    let all: Vec<(SessionId, Shortfall)> = sessions.iter().filter_map(short).collect();
    let mut text = String::new();
    for (id, short) in all.iter().take(SHORT_TOLD_MAX) {
        let seconds = core.clock.steady_ms().saturating_sub(short.since) / 1_000;
        let (does, may) = (views::rate(short.rate_bps), views::rate(short.set_bps));
        let limit = Some(short.limit.as_str()).filter(|limit| !limit.is_empty());
        let limit = limit.unwrap_or("what its movers have not told yet");
        text += &format!("; session {id} does {does} of the {may} that it may, for {seconds} s: limited by {limit}");
    }
    let silent = sessions.iter().filter_map(|id| Some((*id, core.live.get(id)?.silent()?)));
    for (id, since) in silent.take(SHORT_TOLD_MAX) {
        text += &format!("; of session {id} its agent has said nothing for {} s", since.as_secs());
    }
    if all.len() > SHORT_TOLD_MAX {
        text += &format!("; so do {} more", all.len() - SHORT_TOLD_MAX);
    }
    text
}

/// Which paths sessions go over, where there are several.
fn routes(core: &Core, sessions: &[SessionId]) -> String {
    let all: Vec<_> =
        sessions.iter().filter_map(|id| Some(format!("; session {id} {}", core.told_route(*id)?))).collect();
    let mut text = all.iter().take(ROUTES_TOLD_MAX).map(String::as_str).collect::<String>();
    if all.len() > ROUTES_TOLD_MAX {
        text += &format!("; and {} more", all.len() - ROUTES_TOLD_MAX);
    }
    text
}

fn link(core: &mut Core, id: &str) -> Answer<Facts> {
    let link = views::link(core, id)?;
    let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
    let mut text = format!("from {} to {}", link.from, link.to);
    match link.capacity_bps {
        Some(rate) => text += &format!(": {}", views::rate(rate)),
        None => text += ": without a rate",
    }
    if let Some(mark) = link.mark_bps {
        text += &format!(", may be filled to {}", views::rate(mark));
    }
    text += &format!(
        "; {} are given out, {} measured; {}",
        views::rate(link.allocated_bps),
        views::rate(link.measured_bps),
        link.reason
    );
    let moved: Vec<String> = core.moved_from(name).iter().map(ToString::to_string).collect();
    if !moved.is_empty() {
        let more = if moved.len() > ROUTES_TOLD_MAX {
            format!(" and {} more", moved.len() - ROUTES_TOLD_MAX)
        } else {
            String::new()
        };
        text += &format!(
            "; sessions of {}{more} went over to other paths",
            moved[..moved.len().min(ROUTES_TOLD_MAX)].join(", ")
        );
    }
    let limits = limits(core, name, id.ends_with(":forward"));
    for (on, limit) in &limits {
        let what = if matches!(on, Resource::Way { .. }) { "this way " } else { "" };
        text += &format!("; {what}{}", limited(limit));
    }
    let holds: Vec<Hold> = booked(core, id).map(|left| left.holds.clone()).unwrap_or_default();
    text.extend(holds.iter().map(|hold| format!("; {} of it", views::hold(hold))));
    let mut told = begun(About::Link, id, text);
    let lowest = limits.first();
    told.until = link.until.or(lowest.and_then(|(_, limit)| limit.until).map(views::time));
    told.rate_bps = Some(link.allocated_bps);
    told.holders = holders(core, id);
    told.holders.extend(holds.iter().map(planner::holder));
    told.assurance = link.assurance;
    if let Some(held) = core.desk.counting.samples.enforced(id) {
        told.text += &format!("; a driver holds what is Longhaul's to {}, whatever senders do", views::rate(held));
    }
    if let (Some(total), Some(age), Some(by)) = (link.total_bps, link.total_age_seconds, &link.counted_by) {
        told.text += &format!("; all traffic is {}, as `{by}` counted {age} s ago", views::rate(total));
        if let Some(at_large) = link.at_large_bps {
            told.text += &format!(", of it {} to {} at large", views::rate(at_large.low), views::rate(at_large.high));
        }
        let rate_bps = link.at_large_bps.map_or(total.saturating_sub(link.measured_bps), |at_large| at_large.value);
        let assurance = Assurance::Estimate;
        told.holders.push(Holder { holder: "at-large".to_owned(), class: None, rate_bps, assurance });
        told.holders.sort_by_key(|holder| std::cmp::Reverse(holder.rate_bps));
    }
    told.resource = Some(rest::Resource {
        name: id.to_owned(),
        kind: "link".to_owned(),
        capacity_bps: link.mark_bps.or(link.capacity_bps),
        allocated_bps: Some(link.allocated_bps),
    });
    if !limits.is_empty() {
        let ids: Vec<String> = limits.iter().map(|(on, _)| format!("`{}`", views::resource_id(on))).collect();
        told.remedies
            .push(Remedy { text: format!("lift the limit on {}", ids.join(", then that on ")), rate_bps: None });
    }
    if link.state == rest::LinkState::Down {
        told.remedies
            .push(Remedy { text: "repair it: it is used again after its hold-down".to_owned(), rate_bps: None });
    }
    room::complete(core, &link, &mut told);
    Ok(Facts { told, planner: None })
}

/// The limits from outside on a direction of a link, that which counts first: on the link, and on this way alone.
fn limits<'a>(core: &'a Core, link: &str, forward: bool) -> Vec<(Resource, &'a Limit)> {
    let on = [Resource::Way { link: link.to_owned(), forward }, Resource::Link(link.to_owned())];
    let mut limits: Vec<_> = on.into_iter().filter_map(|on| Some((core.state.limits.get(&on)?, on))).collect();
    limits.sort_by_key(|(limit, _)| limit.rate_bps);
    limits.into_iter().map(|(limit, on)| (on, limit)).collect()
}

/// A limit from outside in words: how low, by whom, until when, and why.
fn limited(limit: &Limit) -> String {
    let until = limit.until.map(|until| format!(" until {until}")).unwrap_or_default();
    format!("limited to {} by `{}`{until}: {}", views::rate(limit.rate_bps), limit.by, limit.why)
}

/// What bookings leave of a direction of a link.
fn booked<'a>(core: &'a Core, id: &str) -> Option<&'a Left> {
    let (_, directions) = views::directions(core);
    let of = directions.into_iter().find(|of| of.id == id)?;
    views::booked(core, of.link, of.way)
}

/// Who has a part of a direction of a link, by transfer, those who have most first.
fn holders(core: &Core, way: &str) -> Vec<Holder> {
    let enforced = Enforced::now(core);
    let over = core.live.keys().filter(|id| views::ways(core, **id).iter().any(|of| of == way));
    let rated = over.filter_map(|id| {
        let transfer = core.state.sessions.get(id)?.transfer;
        let class = core.state.transfers.get(&transfer)?.class.clone();
        Some((transfer.0, class, Load::of(core, *id).allocated_bps, enforced.of_sessions(core, [id])))
    });
    planner::by_transfer(rated)
}

fn class(core: &Core, name: &str) -> Answer<Facts> {
    let all = views::classes(core);
    let Some(class) = all.iter().find(|class| class.name == name) else {
        let names: Vec<&str> = all.iter().map(|class| class.name.as_str()).take(8).collect();
        return Err(Problem::not_found(format!("class `{name}`")).fix(format!("there are: {}", names.join(", "))));
    };
    let mut text = format!(
        "tier {}, weight {}, {} transfers that have not ended, {} used of late; {} measured",
        class.tier,
        class.weight,
        class.transfers,
        units::Bytes::new(class.used_bytes),
        views::rate(class.measured_bps)
    );
    for mark in &class.marks {
        let (given, most) = (views::rate(mark.allocated_bps), views::rate(mark.mark_bps));
        text += &format!("; mark {}: {given} of {most} given out", mark.name);
    }
    let mut told = begun(About::Class, name, text);
    told.rate_bps = Some(class.allocated_bps);
    let planner = Planner::of(core, Asks::Class(name.to_owned()));
    if planner.is_none() {
        told.remedies.push(planner::idle(name));
    }
    Ok(Facts { told, planner })
}

fn refusal(core: &Core, subject: &str) -> Answer<Facts> {
    let number: u64 = subject
        .parse()
        .map_err(|_| Problem::from(Wrong::new("id", "a refusal is a number: it stands in its problem")))?;
    let Some(kept) = core.refusal(number) else {
        let problem = Problem::not_found(format!("refusal {number}"));
        return Err(problem
            .fix(format!("only the last {} are kept, until a restart: ask again", super::refusals::REFUSALS_MAX)));
    };
    let now = match &kept.now {
        None => "ask again to know whether it would be taken now".to_owned(),
        Some(Ok(())) => "now it would be taken: ask again".to_owned(),
        Some(Err(text)) => format!("it would be refused now too: {text}"),
    };
    let mut told = begun(About::Refusal, subject, format!("refused at {}: {}; {now}", kept.at, kept.problem));
    told.remedies.extend(kept.problem.fix.map(|text| Remedy { text, rate_bps: None }));
    Ok(Facts { told, planner: None })
}
