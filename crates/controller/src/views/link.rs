//! Links, and limits on them and others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::rest::{self, LinkState, Problem};
use ledger::rates::{Hold, Left};
use ledger::{LinkTrouble, Resource};
use model::network::{LinkIndex, Network};
use model::scenario::Way;
use model::shares::Mark;
use plan::estimate::Estimate;
use units::Utc;

use super::load::{by_way, of_way};
use super::{Enforced, Load, time};
use crate::app::Answer;
use crate::core::Core;

/// Why a link is suspect.
const SUSPECT: &str = "three questions in a row were not answered on a path over it, and on no other one is anything answered: \
     which link it is shows within half a second";

/// The name of a direction of a link.
pub(crate) fn way_id(link: &str, way: Way) -> String {
    let way = match way {
        Way::Forward => "forward",
        Way::Backward => "backward",
    };
    format!("{link}:{way}")
}

/// A direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    pub(crate) link: LinkIndex,
    pub(crate) way: Way,
    /// As [`way_id`] gives it.
    pub(crate) id: String,
    /// What the planner calls it.
    pub(crate) resource: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// All directions of the network in force, in its order, and the network; none if there is none.
pub(crate) fn directions(core: &Core) -> (Option<Arc<Network>>, Vec<Direction>) {
    let Some(network) = network(core) else { return (None, Vec::new()) };
    let both = |link| [Way::Forward, Way::Backward].map(|way| direction_of(&network, link, way));
    let all = (0..network.links.len()).flat_map(both).collect();
    (Some(network), all)
}

/// The direction that has this name.
fn direction(network: &Network, id: &str) -> Option<Direction> {
    let (name, _) = id.rsplit_once(':')?;
    let link = network.links.iter().position(|link| link.name == name)?;
    [Way::Forward, Way::Backward].map(|way| direction_of(network, link, way)).into_iter().find(|of| of.id == id)
}

fn direction_of(network: &Network, index: LinkIndex, way: Way) -> Direction {
    let link = &network.links[index];
    let name = |node: usize| network.nodes.get(node).map(|node| node.name.clone()).unwrap_or_default();
    let (from, to) = match way {
        Way::Forward => (name(link.from), name(link.to)),
        Way::Backward => (name(link.to), name(link.from)),
    };
    let resource = format!("{} {from}→{to}", link.name);
    Direction { link: index, way, id: way_id(&link.name, way), resource, from, to }
}

/// The network: as it is planned with, or of its text while there are no shares.
pub(crate) fn network(core: &Core) -> Option<Arc<Network>> {
    if let Some(world) = &core.world {
        return Some(world.network.clone());
    }
    let known = core.state.network.as_ref()?;
    Network::from_toml(&known.text, "network").ok().map(Arc::new)
}

/// All directions of links.
pub(crate) fn links(core: &Core) -> Vec<rest::Link> {
    let (network, directions) = directions(core);
    let loads = by_way(core);
    let load = |of: &Direction| loads.get(&of.id).copied().unwrap_or_default();
    let network = network.as_ref();
    let suspects = core.suspected_links();
    let enforced = Enforced::now(core);
    directions.iter().filter_map(|of| Some(shown(core, network?, of, load(of), &suspects, &enforced))).collect()
}

/// A direction of a link.
pub(crate) fn link(core: &Core, id: &str) -> Answer<rest::Link> {
    let network = network(core);
    let found = network.as_ref().and_then(|network| Some((network, direction(network, id)?)));
    let (network, of) = found.ok_or_else(|| unknown(&directions(core).1, id))?;
    let load = of_way(core, &network.links[of.link].name, of.way);
    Ok(shown(core, network, &of, load, &core.suspected_links(), &Enforced::now(core)))
}

/// There is no such direction.
pub(crate) fn unknown(directions: &[Direction], id: &str) -> Problem {
    let problem = Problem::not_found(format!("direction of a link `{id}`"));
    let ways = [Way::Forward, Way::Backward].map(|way| way_id(id, way));
    match directions.iter().any(|of| ways.contains(&of.id)) {
        true => problem.fix(format!("write `{}` or `{}`", ways[0], ways[1])),
        false => problem.fix("look at GET /links"),
    }
}

fn shown(
    core: &Core,
    network: &Network,
    of: &Direction,
    load: Load,
    suspects: &BTreeSet<LinkIndex>,
    enforced: &Enforced,
) -> rest::Link {
    let link = &network.links[of.link];
    let direction = if of.way == Way::Forward { &link.forward } else { &link.backward };
    let (state, reason, until) = match standing(core.state.links.get(&link.name)) {
        (LinkState::Up, ..) if suspects.contains(&of.link) => (LinkState::Suspect, SUSPECT.to_owned(), None),
        standing => standing,
    };
    let counted = core.desk.counting.samples.newest(&of.id);
    rest::Link {
        id: of.id.clone(),
        from: of.from.clone(),
        to: of.to.clone(),
        capacity_bps: direction.rate.map(|rate| rate.bps()),
        mark_bps: fillable(core, of).map(|(bps, _)| bps),
        booked_bps: booked(core, of.link, of.way).map(booked_bps),
        allocated_bps: load.allocated_bps,
        assurance: enforced.of_way(core, &of.id),
        measured_bps: load.measured_bps,
        total_bps: counted.map(|counted| counted.rate_bps),
        total_age_seconds: counted.map(|counted| counted.age.as_secs()),
        counted_by: counted.map(|counted| counted.source.to_owned()),
        at_large_bps: counted.and_then(|counted| at_large(counted.at_large?, counted.age)),
        state,
        reason,
        until,
    }
}

/// What is at large, as the planner takes it.
fn at_large(Estimate { value, low, high, .. }: Estimate, age: Duration) -> Option<rest::Estimate> {
    let age_ms = u64::try_from(age.as_millis()).ok()?;
    Some(rest::Estimate { value, low, high, age_ms })
}

/// What says how far all of Longhaul together may fill a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Its rate, less what is kept of it for others.
    Rate,
    /// A mark for all work, by its name.
    Mark(String),
    /// Bookings; when the first of them ends.
    Booked(Option<units::Moment>),
    /// A limit from outside.
    Limit,
}

/// How far all of Longhaul together may fill a direction, b/s, and what says so; `None` where that is not known.
pub(crate) fn bound(core: &Core, id: &str) -> Option<(u64, Bound)> {
    fillable(core, &direction(network(core)?.as_ref(), id)?)
}

/// How far all of Longhaul together may fill a direction, b/s: its rate where nothing else is known.
pub(super) fn may(core: &Core, id: &str) -> Option<u64> {
    let network = network(core)?;
    let of = direction(&network, id)?;
    let link = &network.links[of.link];
    let rate = if of.way == Way::Forward { link.forward.rate } else { link.backward.rate };
    fillable(core, &of).map(|(most, _)| most).or(rate.map(|rate| rate.bps()))
}

/// How far all of Longhaul together may fill it, b/s: what the planner has for the link, beside what is booked of it, for marks that are on
/// it for all work, and for limits from outside.
fn fillable(core: &Core, of: &Direction) -> Option<(u64, Bound)> {
    let capacities = &core.planned.rates.capacities;
    let all = |mark: &&Mark| mark.class.is_none() && mark.ways.contains(&(of.link, of.way));
    let marks = core.world.iter().flat_map(|world| world.shares.marks.iter().filter(all));
    let of_marks = marks.filter_map(|mark| {
        let most = capacities.get(mark_resource(mark, &of.resource).as_str())?;
        Some((*most, Bound::Mark(mark.name.clone())))
    });
    let beside = booked(core, of.link, of.way).map(|left| {
        let ends = left.holds.iter().map(|hold| hold.window.end()).min();
        (left.rate.bps(), Bound::Booked(ends))
    });
    let link = core.world.as_ref().and_then(|world| world.network.links.get(of.link));
    let limits = link.map(|link| ledger::rates::limits_on(&link.name, of.way));
    let of_limit = limits.iter().flatten().filter_map(|name| Some((*capacities.get(name.as_str())?, Bound::Limit)));
    let rate = capacities.get(of.resource.as_str()).map(|most| (*most, Bound::Rate));
    of_limit.chain(of_marks).chain(beside).chain(rate).min_by_key(|(most, _)| *most)
}

/// What bookings left of a direction at the last planning; `None` if nothing is booked of it.
pub(crate) fn booked(core: &Core, link: LinkIndex, way: Way) -> Option<&Left> {
    core.planned.booked.iter().find(|left| left.way == Some((link, way)) && !left.holds.is_empty())
}

fn booked_bps(left: &Left) -> u64 {
    left.holds.iter().map(|hold| hold.rate_bps).fold(0, u64::saturating_add)
}

/// A booking that holds something, in words: `40 Gb/s are booked by X until T`.
pub(crate) fn hold(hold: &Hold) -> String {
    let rate = super::rate(hold.rate_bps);
    format!("{rate} are booked by `{}` until {}", hold.name, Utc(hold.window.end()))
}

/// What the planner calls a mark on a direction.
pub(super) fn mark_resource(mark: &Mark, direction: &str) -> String {
    if mark.together { format!("mark {}", mark.name) } else { format!("mark {} on {direction}", mark.name) }
}

/// Whether it works, why, and until when it is held down.
pub(crate) fn standing(trouble: Option<&LinkTrouble>) -> (LinkState, String, Option<rest::Time>) {
    let Some(trouble) = trouble else { return (LinkState::Up, "no trouble is known".to_owned(), None) };
    match trouble.up {
        None => (LinkState::Down, format!("down since {}: {}", trouble.down, trouble.evidence), None),
        Some(up) if !trouble.usable => {
            let until = up.after_ms(trouble.hold_ms);
            let text = format!(
                "probes are answered since {up}; it was down since {} ({}), flap {}: held down until {until}",
                trouble.down, trouble.evidence, trouble.flaps
            );
            (LinkState::HoldDown, text, Some(time(until)))
        }
        Some(up) => {
            let text = format!("up since {up}; it was down since {} ({})", trouble.down, trouble.evidence);
            (LinkState::Up, text, None)
        }
    }
}

/// How a resource of a limit is written.
pub(crate) fn resource_id(resource: &Resource) -> String {
    resource.written()
}

/// All limits from outside.
pub(crate) fn limits(core: &Core) -> Vec<rest::Limit> {
    core.state.limits.iter().map(|(resource, limit)| shown_limit(resource, limit)).collect()
}

/// The limit on a resource.
pub(crate) fn limit(core: &Core, resource: &Resource) -> Answer<rest::Limit> {
    let found = core.state.limits.get(resource).map(|limit| shown_limit(resource, limit));
    found.ok_or_else(|| Problem::not_found(format!("limit on {resource}")).fix("look at GET /limits"))
}

fn shown_limit(resource: &Resource, limit: &ledger::Limit) -> rest::Limit {
    rest::Limit {
        resource: resource_id(resource),
        rate_bps: limit.rate_bps,
        until: time(limit.until.unwrap_or(ledger::Moment(u64::MAX))),
        by: limit.by.clone(),
        why: limit.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_up_down_or_held() {
        let trouble = LinkTrouble {
            down: ledger::Moment(1_000),
            evidence: "3 probes missing".to_owned(),
            up: None,
            usable: false,
            hold_ms: 60_000,
            flaps: 1,
        };
        assert_eq!(standing(None).0, LinkState::Up);
        let (state, text, until) = standing(Some(&trouble));
        assert_eq!((state, until), (LinkState::Down, None));
        assert!(text.contains("1970-01-01T00:00:01Z") && text.contains("3 probes missing"), "{text}");
        let held = LinkTrouble { up: Some(ledger::Moment(5_000)), ..trouble.clone() };
        assert_eq!(standing(Some(&held)).2, Some(rest::Time::from_unix_ms(65_000)));
        assert_eq!(standing(Some(&held)).0, LinkState::HoldDown);
        let used = LinkTrouble { usable: true, ..held };
        assert_eq!(standing(Some(&used)).0, LinkState::Up);
        let odd = LinkTrouble { up: Some(ledger::Moment(u64::MAX)), hold_ms: u64::MAX, ..trouble };
        assert_eq!(standing(Some(&odd)).0, LinkState::HoldDown);
    }
}
