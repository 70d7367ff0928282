//! Classes of work, with what they have now.

use std::collections::BTreeMap;
use std::time::Duration;

use api::rest::{self, ClassMark};
use model::shares::Shares;

use super::load::{by_class, by_resource};
use super::{Load, directions, way_id};
use crate::core::{Core, World};

/// All classes, in the order of their file; each with those in it.
pub(crate) fn classes(core: &Core) -> Vec<rest::Class> {
    let Some(world) = &core.world else { return Vec::new() };
    let shares = &world.shares;
    let index: BTreeMap<&str, usize> =
        shares.classes.iter().enumerate().map(|(index, class)| (class.name.as_str(), index)).collect();
    let loads = class_loads(core, shares);
    let mut transfers = vec![0_u64; shares.classes.len()];
    for transfer in core.state.transfers.values().filter(|transfer| transfer.ended.is_none()) {
        let class = index.get(transfer.class.as_str()).copied();
        shares.up(class).for_each(|class| transfers[class] += 1);
    }
    let marks = marks(core, world);
    let shown = |(at, class): (usize, &model::shares::Class)| rest::Class {
        name: class.name.clone(),
        parent: class.parent.map(|parent| shares.classes[parent].name.clone()),
        tier: class.tier,
        weight: class.weight.get(),
        floor_bps: class.floor.bps(),
        cap_bps: class.cap.map(|cap| cap.bps()),
        used_bytes: used_bytes(core, shares, &class.name),
        transfers: transfers[at],
        allocated_bps: loads[at].allocated_bps,
        measured_bps: loads[at].measured_bps,
        marks: marks.get(&at).cloned().unwrap_or_default(),
    };
    shares.classes.iter().enumerate().map(shown).collect()
}

/// What each class and those in it have, in the order of their file.
pub(crate) fn class_loads(core: &Core, shares: &Shares) -> Vec<Load> {
    let mut loads = vec![Load::default(); shares.classes.len()];
    for (name, load) in by_class(core) {
        let class = shares.classes.iter().position(|class| class.name == name);
        shares.up(class).for_each(|class| loads[class].add(load));
    }
    loads
}

/// What a class used of late, as it counts now.
fn used_bytes(core: &Core, shares: &Shares, class: &str) -> u64 {
    let Some(usage) = core.state.usage.get(class) else { return 0 };
    let elapsed = Duration::from_millis(core.now().ms_since(usage.as_of));
    plan::usage::decayed(usage.recent_bytes, elapsed, shares.half_life)
}

/// Marks of classes, by class: one for several links together, or each direction its own.
fn marks(core: &Core, world: &World) -> BTreeMap<usize, Vec<ClassMark>> {
    let (_, directions) = directions(core);
    let loads = by_resource(core);
    let capacities = &core.planned.rates.capacities;
    let mut marks: BTreeMap<usize, Vec<ClassMark>> = BTreeMap::new();
    for mark in &world.shares.marks {
        let Some(class) = mark.class else { continue };
        let mut add = |name: String, resource: String| {
            // Not before the first planning.
            let Some(mark_bps) = capacities.get(resource.as_str()).copied() else { return };
            let allocated_bps = loads.get(resource.as_str()).map_or(0, |load| load.allocated_bps);
            marks.entry(class).or_default().push(ClassMark { name, mark_bps, allocated_bps });
        };
        if mark.together {
            add(mark.name.clone(), super::link::mark_resource(mark, ""));
            continue;
        }
        for (link, way) in &mark.ways {
            // Two for each link, in their order.
            let Some(of) = directions.get(2 * link + way.index()) else { continue };
            let name = format!("{} on {}", mark.name, way_id(&world.network.links[*link].name, *way));
            add(name, super::link::mark_resource(mark, &of.resource));
        }
    }
    marks
}
