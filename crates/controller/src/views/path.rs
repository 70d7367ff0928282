//! Paths with a name, as routers and drivers need to know them.

use api::rest::{self, Problem};
use model::network::{Network, NodeIndex};
use model::scenario::Way;

use super::way_id;
use crate::app::Answer;
use crate::core::Core;

/// All directions of named paths of the network in force; none while there is none.
pub(crate) fn paths(core: &Core) -> Vec<rest::Path> {
    let Some(world) = core.world.clone() else { return Vec::new() };
    let ways = |index| [Way::Forward, Way::Backward].map(|way| shown(core, &world.network, index, way));
    (0..world.network.paths.len()).flat_map(ways).collect()
}

/// A direction of a path.
pub(crate) fn path(core: &Core, id: &str) -> Answer<rest::Path> {
    let unknown = || Problem::not_found(format!("direction of a path `{id}`"));
    let (name, way) = id.rsplit_once(':').ok_or_else(|| {
        unknown().fix(format!("write `{}` or `{}`", way_id(id, Way::Forward), way_id(id, Way::Backward)))
    })?;
    let way = [Way::Forward, Way::Backward].into_iter().find(|of| way_id(name, *of) == format!("{name}:{way}"));
    let world = core.world.clone();
    let index = world.as_ref().and_then(|world| world.network.paths.iter().position(|path| path.name == name));
    match (world, index, way) {
        (Some(world), Some(index), Some(way)) => Ok(shown(core, &world.network, index, way)),
        _ => Err(unknown().fix("look at GET /paths")),
    }
}

fn shown(core: &Core, network: &Network, index: usize, way: Way) -> rest::Path {
    let path = &network.paths[index];
    let mut ends = [path.from, path.to];
    let mut links: Vec<String> = path.links.iter().map(|link| network.links[*link].name.clone()).collect();
    if way == Way::Backward {
        ends.reverse();
        links.reverse();
    }
    let addresses = if path.is_bound() { core.path_addresses(index, ends) } else { None };
    let host = |node: NodeIndex| network.nodes[node].name.clone();
    rest::Path {
        id: way_id(&path.name, way),
        from: host(ends[0]),
        to: host(ends[1]),
        links,
        from_address: addresses.map(|[from, _]| from),
        to_address: addresses.map(|[_, to]| to),
        dscp: path.marks.dscp,
        flow_label: path.marks.flow_label,
    }
}
