//! Why a flow has the rate that it has, and what would give it more.

use crate::bottleneck::{NoStructure, Structure};
use crate::share::{Allocation, FINE_BITS, Fine, Problem, RATE_MAX, ResourceId, solve};

/// Why a flow has its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In b/s.
    pub rate: u64,
    /// What stops it.
    pub why: Why,
}

/// What stops a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has all that it asks for.
    HasAll,
    /// Resources are full at its level, or before it rises above its floor.
    HeldBack {
        /// Which, and who has them.
        by: Vec<Full>,
        /// What would give it more; none if there is not more to be had by capacity.
        remedy: Option<Remedy>,
    },
}

/// A resource that is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Which.
    pub resource: ResourceId,
    /// The flows over it, with their rates in b/s, the largest first.
    pub holders: Vec<(usize, u64)>,
}

/// More of some resources together, and the rate that the flow has then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The capacities that they need, in b/s.
    pub raise: Vec<(ResourceId, u64)>,
    /// What the flow has then, in b/s: all that these resources keep from it.
    pub rate: u64,
    /// Other full resources that give it as much when one of them alone is raised by as much: who is held back there takes from
    /// others what the flow gets. No other resource does.
    pub also: Vec<ResourceId>,
}

/// Explains the rate of a flow.
///
/// # Errors
/// If flows have several tunnels or are in classes.
pub fn explain(problem: &Problem, allocation: &Allocation, flow: usize) -> Result<Explanation, NoStructure> {
    let structure = Structure::of(problem, allocation)?;
    let rate = allocation.rates[flow];
    if structure.has_all(flow) {
        return Ok(Explanation { rate, why: Why::HasAll });
    }
    // One at its floor is held back by what is full on its way.
    let held_by = match structure.held_by(flow) {
        [] => problem.uses(flow).iter().copied().filter(|of| structure.is_full(*of)).collect(),
        held_by => held_by.to_vec(),
    };
    let full = |resource: &ResourceId| {
        let mut holders: Vec<(usize, u64)> = structure
            .over(*resource)
            .iter()
            .map(|flow| *flow as usize)
            .map(|flow| (flow, allocation.rates[flow]))
            .collect();
        holders.sort_by_key(|(flow, rate)| (std::cmp::Reverse(*rate), *flow));
        Full { resource: *resource, holders }
    };
    let by = held_by.iter().map(full).collect();
    let others = (0..problem.limits().len() as ResourceId).filter(|of| structure.is_full(*of) && !held_by.contains(of));
    Ok(Explanation { rate, why: Why::HeldBack { by, remedy: remedy(problem, &held_by, others, flow, rate) } })
}

/// What there must be of some resources for them to stop the flow no longer.
fn remedy(
    problem: &Problem,
    held_by: &[ResourceId],
    others: impl Iterator<Item = ResourceId>,
    flow: usize,
    rate: u64,
) -> Option<Remedy> {
    let unlimited: Vec<(ResourceId, u64)> = held_by.iter().map(|resource| (*resource, RATE_MAX)).collect();
    let freed = problem.with_capacities(&unlimited);
    let freely = solve(&freed);
    let needed = |resource: &ResourceId| {
        let over = (0..problem.tunnels()).filter(|tunnel| problem.uses(*tunnel).contains(resource));
        let used: Fine = over.map(|tunnel| freely.exact[tunnel]).sum();
        // Where a flow at a higher level is next to be stopped, it is stopped a step later.
        (*resource, u64::try_from(used >> FINE_BITS).map_or(RATE_MAX, |used| (used + 1).min(RATE_MAX)))
    };
    let raise: Vec<(ResourceId, u64)> = held_by.iter().map(needed).collect();
    let then = solve(&problem.with_capacities(&raise)).rates[flow];
    if then <= rate {
        return None;
    }
    let capacity = |of: ResourceId| problem.limits()[of as usize].capacity;
    let more = raise.iter().map(|(of, to)| to.saturating_sub(capacity(*of))).max().unwrap_or(0);
    let gives = |other: &ResourceId| {
        let raised = problem.with_capacities(&[(*other, capacity(*other).saturating_add(more))]);
        solve(&raised).rates[flow] >= then
    };
    Some(Remedy { raise, rate: then, also: others.filter(gives).collect() })
}
