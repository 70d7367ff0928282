//! What sessions have and do, summed by whatever they draw on.

use std::collections::BTreeMap;

use ledger::SessionId;
use model::network::LinkIndex;
use model::scenario::Way;

use super::way_id;
use crate::core::Core;

/// What is given, and what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Given by the last planning, b/s of IP packets.
    pub(crate) allocated_bps: u64,
    /// Measured in the last second, b/s of IP packets.
    pub(crate) measured_bps: u64,
}

impl Load {
    /// Of a session; nothing if it does not run.
    pub(crate) fn of(core: &Core, id: SessionId) -> Load {
        let Some(live) = core.live.get(&id) else { return Load::default() };
        let allocated_bps = core.planned.rates.sessions.get(&id.0).map_or(0, |rated| rated.rate_bps);
        Load { allocated_bps, measured_bps: live.rate_bps() }
    }

    /// Of several sessions together.
    pub(crate) fn of_all<'a>(core: &Core, sessions: impl IntoIterator<Item = &'a SessionId>) -> Load {
        sessions.into_iter().fold(Load::default(), |mut sum, id| {
            sum.add(Load::of(core, *id));
            sum
        })
    }

    pub(crate) fn add(&mut self, other: Load) {
        self.allocated_bps = self.allocated_bps.saturating_add(other.allocated_bps);
        self.measured_bps = self.measured_bps.saturating_add(other.measured_bps);
    }
}

/// The directions of links that a session takes, in turn, as of the last planning.
pub(crate) fn ways(core: &Core, id: SessionId) -> Vec<String> {
    let Some(question) = &core.planned.question else { return Vec::new() };
    let snapshot = &question.0;
    let Some(rated) = core.planned.rates.sessions.get(&id.0) else { return Vec::new() };
    let name = |(link, way): &(LinkIndex, Way)| snapshot.network.links.get(*link).map(|link| way_id(&link.name, *way));
    rated.links.iter().filter_map(name).collect()
}

/// By direction of a link, as [`way_id`] gives it.
pub(crate) fn by_way(core: &Core) -> BTreeMap<String, Load> {
    let Some(question) = &core.planned.question else { return BTreeMap::new() };
    // Names are made once for each direction, not for each session on it.
    let mut by_index: BTreeMap<(LinkIndex, Way), Load> = BTreeMap::new();
    for id in core.live.keys() {
        let Some(rated) = core.planned.rates.sessions.get(&id.0) else { continue };
        let load = Load::of(core, *id);
        rated.links.iter().for_each(|way| by_index.entry(*way).or_default().add(load));
    }
    let named = |((link, way), load): ((LinkIndex, Way), Load)| {
        Some((way_id(&question.0.network.links.get(link)?.name, way), load))
    };
    by_index.into_iter().filter_map(named).collect()
}

/// Of one direction of a link.
pub(super) fn of_way(core: &Core, link: &str, way: Way) -> Load {
    let Some(question) = &core.planned.question else { return Load::default() };
    let Some(link) = question.0.network.links.iter().position(|of| of.name == link) else { return Load::default() };
    let takes = |id: &&SessionId| {
        core.planned.rates.sessions.get(&id.0).is_some_and(|rated| rated.links.contains(&(link, way)))
    };
    Load::of_all(core, core.live.keys().filter(takes))
}

/// By resource of the last planning.
pub(super) fn by_resource(core: &Core) -> BTreeMap<&str, Load> {
    let mut by_resource: BTreeMap<&str, Load> = BTreeMap::new();
    for id in core.live.keys() {
        let load = Load::of(core, *id);
        let uses = core.planned.rates.sessions.get(&id.0).map_or(&[][..], |rated| &rated.uses);
        uses.iter().for_each(|name| by_resource.entry(name).or_default().add(load));
    }
    by_resource
}

/// By class of work: of its own transfers, not of the classes in it.
pub(super) fn by_class(core: &Core) -> BTreeMap<&str, Load> {
    let mut by_class: BTreeMap<&str, Load> = BTreeMap::new();
    for id in core.live.keys() {
        let session = core.state.sessions.get(id);
        let Some(transfer) = session.and_then(|session| core.state.transfers.get(&session.transfer)) else { continue };
        by_class.entry(&transfer.class).or_default().add(Load::of(core, *id));
    }
    by_class
}
