//! Bottleneck structure: which resource holds which flow back, and what a small change of one thing does to all others.
//!
//! Flows that a resource holds back depend on it, and it on all that cross it: a change goes from one to the other in the order
//! of levels (Ros-Giralt et al., "On the Bottleneck Structure of Congestion-Controlled Networks", SIGMETRICS 2020;
//! draft-giraltyellamraju-alto-bsg-requirements). Derivatives are exact fractions. Where levels are equal the derivative for more
//! is another than that for less, so each is asked for by itself.

use std::cmp::Ordering;

use num_rational::BigRational;

use crate::share::{Allocation, Curve, FINE_BITS, Fine, LEVEL_BITS, Level, Problem, ResourceId};

/// Levels so near to each other are one, 2⁻¹⁶ b/s: those of a tie are found in steps, which others feel by their weights.
const STEPS: Level = 1 << 16;

/// What steps of the level leave to the tiers below.
const TINY: Fine = 1 << (FINE_BITS - 16);

/// A change of one b/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of the capacity of a resource.
    Capacity(ResourceId),
    /// Of the most that a flow may have: for less than it has now, or for more where it has all that it asks for.
    Most(usize),
}

/// Why a problem has no such structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStructure {
    /// A flow has several tunnels.
    #[error("flow {flow} has several tunnels: its rate is no function of one resource")]
    Tunnels {
        /// Which.
        flow: usize,
    },
    /// A flow has a curve by points.
    #[error("flow {flow} has a curve that is not straight")]
    Curve {
        /// Which.
        flow: usize,
    },
}

/// Who is held back by what.
#[derive(Clone, Debug)]
pub struct Structure {
    /// By flow, the resources that hold it back, all of them where there is a tie.
    held_by: Vec<Vec<ResourceId>>,
    /// By flow, whether it has the most that it asks for.
    has_all: Vec<bool>,
    /// By flow, whether it has no more than its floor: it does not lose any of that.
    at_floor: Vec<bool>,
    /// By resource, whether it is.
    is_full: Vec<bool>,
    weights: Vec<u32>,
    /// Flows, tier by tier from low levels to high ones; those of one level together.
    groups: Vec<Vec<usize>>,
    /// By resource, the flows over it.
    over: Vec<Vec<usize>>,
}

impl Structure {
    /// The structure of an allocation.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(problem: &Problem, allocation: &Allocation) -> Result<Structure, NoStructure> {
        let demands = problem.demands();
        let mut weights = Vec::with_capacity(demands.len());
        let mut over = vec![Vec::new(); problem.limits().len()];
        for (flow, demand) in demands.iter().enumerate() {
            let Curve::Weighted { weight, .. } = &demand.curve else { return Err(NoStructure::Curve { flow }) };
            if problem.tunnels_of(flow).len() > 1 {
                return Err(NoStructure::Tunnels { flow });
            }
            weights.push(weight.get());
            problem.uses(flow).iter().for_each(|of| over[*of as usize].push(flow));
        }
        let rate = |flow: usize| allocation.exact[flow];
        let level = |flow: usize| (rate(flow) >> (FINE_BITS - LEVEL_BITS)) / Level::from(weights[flow]);
        // What is at its floor does not rise; what steps of others leave is nothing.
        let rises = |flow: usize| rate(flow) > fine(demands[flow].floor) + steps(weights[flow]).max(TINY);
        let has_all: Vec<bool> = (0..demands.len())
            .map(|flow| rate(flow).abs_diff(fine(demands[flow].curve.most())) <= steps(weights[flow]).max(TINY))
            .collect();
        let mut held_by = vec![Vec::new(); demands.len()];
        let mut is_full = vec![false; over.len()];
        for (resource, over) in over.iter().enumerate() {
            let used: Fine = over.iter().map(|flow| rate(*flow)).sum();
            let blur: Fine = over.iter().map(|flow| steps(weights[*flow]).max(TINY)).sum();
            if used + blur < fine(problem.limits()[resource].capacity) {
                continue;
            }
            is_full[resource] = true;
            // It holds back the lowest tier that has more than floors there, of that who is highest; and of that tier and those
            // below who has no more than a floor: what the others leave of a rise is theirs.
            let lowest = over.iter().filter(|flow| rises(**flow)).map(|flow| demands[*flow].tier).max().unwrap_or(0);
            let of_lowest = over.iter().filter(|flow| demands[**flow].tier == lowest && rises(**flow));
            let highest = of_lowest.map(|flow| level(*flow)).max().unwrap_or(0);
            let is_held = |flow: &usize| match demands[*flow].tier.cmp(&lowest) {
                Ordering::Less => false,
                Ordering::Equal if rises(*flow) => level(*flow) + STEPS >= highest,
                // At a floor above the level it would not rise before it was full.
                Ordering::Equal => highest <= level(*flow) + STEPS,
                Ordering::Greater => true,
            };
            over.iter().filter(|flow| is_held(flow)).for_each(|flow| held_by[*flow].push(resource as ResourceId));
        }
        let at_floor: Vec<bool> = (0..demands.len()).map(|flow| !rises(flow)).collect();
        let mut by_level: Vec<usize> = (0..demands.len()).collect();
        by_level.sort_by_key(|flow| (demands[*flow].tier, level(*flow), *flow));
        let together = |a: &usize, b: &usize| demands[*a].tier == demands[*b].tier && level(*b) - level(*a) <= STEPS;
        let groups = by_level.chunk_by(together).map(<[usize]>::to_vec).collect();
        Ok(Structure { held_by, has_all, at_floor, is_full, weights, groups, over })
    }

    /// The resources that hold a flow back: one, or several that are full at one level. None if it has all that it asks for, or
    /// only its floor.
    #[must_use]
    pub fn held_by(&self, flow: usize) -> &[ResourceId] {
        &self.held_by[flow]
    }

    /// Whether a flow has the most that it asks for.
    #[must_use]
    pub fn has_all(&self, flow: usize) -> bool {
        self.has_all[flow]
    }

    /// Whether a resource is full.
    #[must_use]
    pub fn is_full(&self, resource: ResourceId) -> bool {
        self.is_full[resource as usize]
    }

    /// The flows over a resource, in order.
    #[must_use]
    pub fn over(&self, resource: ResourceId) -> &[usize] {
        &self.over[resource as usize]
    }

    /// The flows that a resource holds back, in order.
    #[must_use]
    pub fn holds_back(&self, resource: ResourceId) -> Vec<usize> {
        let over = self.over[resource as usize].iter().copied();
        over.filter(|flow| self.held_by[*flow].contains(&resource)).collect()
    }

    /// How the rate of each flow changes with one b/s `more`, or less, of something: derivatives to that side.
    #[must_use]
    pub fn derivatives(&self, change: Change, more: bool) -> Vec<BigRational> {
        let zero = || BigRational::from_integer(0.into());
        let one = BigRational::from_integer(if more { 1 } else { -1 }.into());
        let mut changes: Vec<Option<BigRational>> = vec![None; self.weights.len()];
        for group in &self.groups {
            let mut rising = group.clone();
            // Each turn fixes a flow.
            while !rising.is_empty() {
                // What each limit leaves for a weight of 1 of those that it holds back.
                let mut least: Option<(BigRational, Vec<usize>)> = None;
                let mut try_limit = |budget: BigRational, held: Vec<usize>| {
                    let weight: u64 = held.iter().map(|flow| u64::from(self.weights[*flow])).sum();
                    let share = budget / BigRational::from_integer(weight.into());
                    match &mut least {
                        Some((least, flows)) if *least == share => flows.extend(held),
                        Some((least, _)) if *least < share => {}
                        _ => least = Some((share, held)),
                    }
                };
                let mut resources: Vec<ResourceId> =
                    rising.iter().flat_map(|flow| &self.held_by[*flow]).copied().collect();
                resources.sort_unstable();
                resources.dedup();
                for resource in resources {
                    let taken = self.over[resource as usize].iter().filter_map(|flow| changes[*flow].clone());
                    let given = if change == Change::Capacity(resource) { one.clone() } else { zero() };
                    let held = rising.iter().copied().filter(|flow| self.held_by[*flow].contains(&resource));
                    try_limit(taken.fold(given, |left, taken| left - taken), held.collect());
                }
                for flow in rising.iter().copied() {
                    let asked = change == Change::Most(flow);
                    if self.has_all[flow] || (asked && !more) {
                        try_limit(if asked { one.clone() } else { zero() }, vec![flow]);
                    }
                }
                // What nothing holds back and has not all is at a floor that the level has not come to.
                let Some((share, mut fixed)) = least else { break };
                // A loss is not for those at their floors: without them it is shared anew.
                let spared: Vec<usize> = fixed.iter().copied().filter(|flow| self.at_floor[*flow]).collect();
                if share < zero() && !spared.is_empty() {
                    for flow in &spared {
                        changes[*flow] = Some(zero());
                    }
                    fixed.clear();
                    rising.retain(|flow| !spared.contains(flow));
                }
                for flow in &fixed {
                    let weight = BigRational::from_integer(self.weights[*flow].into());
                    changes[*flow] = Some(share.clone() * weight);
                }
                rising.retain(|flow| !fixed.contains(flow));
            }
        }
        changes.into_iter().map(|change| change.unwrap_or_else(zero)).collect()
    }

    /// How the sum of all rates changes: the gradient of a resource or, for less, of a flow.
    #[must_use]
    pub fn gradient(&self, change: Change, more: bool) -> BigRational {
        self.derivatives(change, more).into_iter().fold(BigRational::from_integer(0.into()), |sum, change| sum + change)
    }
}

fn fine(rate: u64) -> Fine {
    Fine::from(rate) << FINE_BITS
}

/// What steps of the level leave open in the rate of a flow.
fn steps(weight: u32) -> Fine {
    (Fine::from(weight) * STEPS) << (FINE_BITS - LEVEL_BITS)
}
