//! What a stated change does, by solving again.

use std::cmp::Reverse;

use crate::share::{Allocation, Demand, Limit, Problem, ResourceId, solve};

/// Paths that a new flow is tried on in one question.
pub const PATHS_MAX: usize = 64;

/// A stated change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhatIf {
    /// A resource carries nothing.
    Cut(ResourceId),
    /// A resource has another capacity, in b/s.
    Capacity(ResourceId, u64),
    /// A flow gets no more than so much, in b/s, over all its tunnels.
    Shape(usize, u64),
}

/// What a change does to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEffect {
    /// Which.
    pub flow: usize,
    /// Its rate before, in b/s.
    pub before: u64,
    /// And after.
    pub after: u64,
}

/// What a change does to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEffect {
    /// Which.
    pub resource: ResourceId,
    /// What it carries before, in b/s.
    pub before: u64,
    /// And after.
    pub after: u64,
}

/// What a change does to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// The flows whose rates change, those that change most first.
    pub flows: Vec<FlowEffect>,
    /// The resources whose use changes, likewise.
    pub links: Vec<LinkEffect>,
    /// The rates of all flows together before, in b/s.
    pub before: u64,
    /// And after, with that of a new flow.
    pub after: u64,
}

/// A new flow on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which of the paths.
    pub path: usize,
    /// The rate that it gets there, in b/s.
    pub rate: u64,
    /// What others together lose that lose, in b/s.
    pub lost: u64,
    /// What becomes of them.
    pub effects: Effects,
}

/// What changes do together to an allocation of a problem.
///
/// # Panics
/// If there is no such resource or flow.
#[must_use]
pub fn what_if(problem: &Problem, before: &Allocation, changes: &[WhatIf]) -> Effects {
    let mut limits = problem.limits().to_vec();
    let shaped: Vec<(usize, u64)> = changes
        .iter()
        .filter_map(|change| match change {
            WhatIf::Shape(flow, rate) => Some((*flow, *rate)),
            WhatIf::Cut(_) | WhatIf::Capacity(..) => None,
        })
        .collect();
    for change in changes {
        let (resource, capacity) = match change {
            WhatIf::Cut(resource) => (*resource, 0),
            WhatIf::Capacity(resource, capacity) => (*resource, *capacity),
            WhatIf::Shape(..) => continue,
        };
        limits[resource as usize].capacity = capacity;
    }
    let resources = limits.len();
    // A shaper is a resource that only the flow draws on.
    limits.extend(shaped.iter().map(|(_, rate)| Limit { capacity: *rate, floor: 0 }));
    let mut changed = Problem::new(limits);
    for (flow, demand) in problem.demands().iter().enumerate() {
        let of_flow = shaped.iter().enumerate().filter(|(_, (shaped, _))| *shaped == flow);
        let floor = of_flow.clone().map(|(_, (_, rate))| *rate).fold(demand.floor, u64::min);
        let shapers: Vec<ResourceId> = of_flow.map(|(index, _)| (resources + index) as ResourceId).collect();
        let tunnels = problem.tunnels_of(flow).map(|tunnel| [problem.uses(tunnel), &shapers].concat());
        let tunnels: Vec<Vec<ResourceId>> = tunnels.collect();
        changed.add(Demand { floor, ..demand.clone() }, tunnels.iter().map(Vec::as_slice));
    }
    let changed = in_classes(changed, problem, 0);
    effects((problem, before), (&changed, &solve(&changed)))
}

/// The flows of a problem in their classes again, and new ones in none.
fn in_classes(changed: Problem, problem: &Problem, new: usize) -> Problem {
    let class_of = |flow: usize| problem.class_of(flow).map(|class| class as u32);
    let class_of = (0..problem.demands().len()).map(class_of).chain(std::iter::repeat_n(None, new)).collect();
    changed.with_classes(problem.classes().to_vec(), class_of).expect("they were classes of these flows")
}

/// What a new flow of no class gets on each of some paths, and what others lose: the path with the highest rate first, then the one on which others
/// lose least. One solve for each path.
///
/// # Panics
/// If there are more than [`PATHS_MAX`] paths, or one draws on nothing or on what is not there.
#[must_use]
pub fn placements(problem: &Problem, before: &Allocation, demand: &Demand, paths: &[&[ResourceId]]) -> Vec<Placement> {
    assert!(paths.len() <= PATHS_MAX, "at most {PATHS_MAX} paths are tried at once");
    let on = |(path, along): (usize, &&[ResourceId])| {
        let mut with = Problem::new(problem.limits().to_vec());
        for (flow, demand) in problem.demands().iter().enumerate() {
            with.add(demand.clone(), problem.tunnels_of(flow).map(|tunnel| problem.uses(tunnel)));
        }
        let flow = with.add(demand.clone(), [*along]);
        let with = in_classes(with, problem, 1);
        let after = solve(&with);
        let effects = effects((problem, before), (&with, &after));
        let lost = effects.flows.iter().map(|flow| flow.before.saturating_sub(flow.after)).sum();
        Placement { path, rate: after.rates[with.tunnels_of(flow).start], lost, effects }
    };
    let mut placements: Vec<Placement> = paths.iter().enumerate().map(on).collect();
    placements.sort_by_key(|placement| (Reverse(placement.rate), placement.lost, placement.path));
    placements
}

/// The difference of two allocations, of the flows and resources that were there before.
fn effects((problem, before): (&Problem, &Allocation), (changed, after): (&Problem, &Allocation)) -> Effects {
    let rate = |problem: &Problem, of: &Allocation, flow: usize| of.rates[problem.tunnels_of(flow)].iter().sum();
    let mut flows: Vec<FlowEffect> = (0..problem.demands().len())
        .map(|flow| FlowEffect { flow, before: rate(problem, before, flow), after: rate(changed, after, flow) })
        .filter(|effect| effect.before != effect.after)
        .collect();
    flows.sort_by_key(|effect| (Reverse(effect.before.abs_diff(effect.after)), effect.flow));
    let mut links: Vec<LinkEffect> = carried(problem, before)
        .into_iter()
        .zip(carried(changed, after))
        .enumerate()
        .map(|(resource, (before, after))| LinkEffect { resource: resource as ResourceId, before, after })
        .filter(|effect| effect.before != effect.after)
        .collect();
    links.sort_by_key(|effect| (Reverse(effect.before.abs_diff(effect.after)), effect.resource));
    Effects { flows, links, before: before.rates.iter().sum(), after: after.rates.iter().sum() }
}

/// What each resource carries.
fn carried(problem: &Problem, allocation: &Allocation) -> Vec<u64> {
    let mut carried = vec![0; problem.limits().len()];
    for (tunnel, rate) in allocation.rates.iter().enumerate() {
        problem.uses(tunnel).iter().for_each(|of| carried[*of as usize] += rate);
    }
    carried
}
