//! Paths, as routers and drivers need to know them, and as agents find them.

use api::rest::{self, PathState, Problem};
use model::network::{Network, NodeIndex};
use model::scenario::Way;

use super::way_id;
use crate::app::Answer;
use crate::core::Core;

/// All directions of named paths of the network in force, then the usual ones that are asked over; none while there is no network.
pub(crate) fn paths(core: &Core) -> Vec<rest::Path> {
    let Some(world) = core.world.clone() else { return Vec::new() };
    let seen = core.paths_seen();
    let ways = |index| [Way::Forward, Way::Backward].map(|way| shown(core, &world.network, index, way, &seen));
    let named: Vec<rest::Path> = (0..world.network.paths.len()).flat_map(ways).collect();
    let usual = seen.into_iter().filter(|path| path.name.is_none());
    named.into_iter().chain(usual).collect()
}

/// A direction of a path.
pub(crate) fn path(core: &Core, id: &str) -> Answer<rest::Path> {
    paths(core).into_iter().find(|path| path.id == id).ok_or_else(|| {
        let problem = Problem::not_found(format!("direction of a path `{id}`"));
        let ways = [Way::Forward, Way::Backward].map(|way| way_id(id, way));
        match core.world.as_ref().is_some_and(|world| world.network.paths.iter().any(|path| path.name == id)) {
            true => problem.fix(format!("write `{}` or `{}`", ways[0], ways[1])),
            false => problem.fix("look at GET /paths"),
        }
    })
}

fn shown(core: &Core, network: &Network, index: usize, way: Way, seen: &[rest::Path]) -> rest::Path {
    let path = &network.paths[index];
    let mut ends = [path.from, path.to];
    let mut links = path.links.clone();
    if way == Way::Backward {
        ends.reverse();
        links.reverse();
    }
    let addresses = if path.is_bound() { core.path_addresses(index, ends) } else { None };
    let host = |node: NodeIndex| network.nodes[node].name.clone();
    let seen = seen.iter().find(|seen| seen.name.as_deref() == Some(&path.name));
    rest::Path {
        id: way_id(&path.name, way),
        name: Some(path.name.clone()),
        from: host(ends[0]),
        to: host(ends[1]),
        from_address: addresses.map(|[from, _]| from),
        to_address: addresses.map(|[_, to]| to),
        dscp: path.marks.dscp,
        flow_label: path.marks.flow_label,
        links: core.named_links(network, &links, ends[0]),
        state: seen.map_or(PathState::Unknown, |seen| seen.state),
        sessions: core.sessions_from(index, ends[0]),
        rtt_us: seen.and_then(|seen| seen.rtt_us),
        loss_ppm: seen.and_then(|seen| seen.loss_ppm),
    }
}
