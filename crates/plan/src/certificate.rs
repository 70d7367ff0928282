//! Whether an allocation is what it should be, from the definition. Nothing of the solver is used here.
//!
//! - No resource carries more than its capacity, no flow more than it asks for, and each rate is within 1 b/s of the exact one.
//! - **Max-min**: a flow over one tunnel that has less than the most it asks for meets a full resource at which no flow of its
//!   tier is at a higher level, and flows of lower tiers have no more than their floors, or what is kept for the lowest (Bertsekas and Gallager, "Data
//!   Networks", 1992, section 6.5). A flow over several tunnels meets a full resource on each of them.
//!
//!   Where flows use their tunnels without an order, that is what [`check_adaptive`] asks of them, and flows over one tunnel
//!   are compared with each other.
//!
//! A flow in classes is at the level at which its class, and that around it, and so on, is due what its children are together when
//! the flow has what it has.
//!
//! The check is O(Σ uses). Exact rates are looked at to 2⁻¹⁶ b/s and the step of a level.

mod classes;
mod level;

use crate::share::{Allocation, FINE_BITS, Fine, LEVEL_BITS, Level, Problem, ResourceId};
use level::Levels;

/// What is looked away from in a rate.
const TINY: Fine = 1 << (FINE_BITS - 16);
/// What is looked away from in a level: the steps that levels are found in.
const STEPS: Level = 4;

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// There are not as many rates as tunnels, or floors as resources.
    #[error("the allocation is not one of this problem")]
    Shape,
    /// A rate is not the exact one to 1 b/s.
    #[error("tunnel {tunnel} has a rate that is 1 b/s or more from the exact one")]
    Rounding {
        /// Which.
        tunnel: usize,
    },
    /// A resource carries more than it can.
    #[error("resource {resource} carries more than its capacity")]
    Overfull {
        /// Which.
        resource: usize,
    },
    /// A flow has more than the most that it asks for.
    #[error("flow {flow} has more than it asks for")]
    TooMuch {
        /// Which.
        flow: usize,
    },
    /// A flow has less than its floor, although all floors fit.
    #[error("flow {flow} has less than its floor")]
    BelowFloor {
        /// Which.
        flow: usize,
    },
    /// More is kept for the lowest tier than may be.
    #[error("of resource {resource} more is kept for the lowest tier than its floor")]
    Kept {
        /// Which.
        resource: usize,
    },
    /// A flow could have more without taking from one that has less.
    #[error("flow {flow} could have more over tunnel {tunnel}")]
    Unfair {
        /// Which.
        flow: usize,
        /// Over which tunnel.
        tunnel: usize,
    },
}

/// What a tier has of a resource.
#[derive(Clone, Copy, Default)]
struct Of {
    used: Fine,
    /// The highest level of its flows that have more than their floor.
    highest: Option<Level>,
    /// Whether a flow has more than its floor.
    above_floor: bool,
}

/// Checks an allocation.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn check(problem: &Problem, allocation: &Allocation) -> Result<(), Broken> {
    check_tunnels(problem, allocation, Tunnels::InOrder)
}

/// Checks an allocation in which flows use their tunnels without an order.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn check_adaptive(problem: &Problem, allocation: &Allocation) -> Result<(), Broken> {
    check_tunnels(problem, allocation, Tunnels::Alike)
}

/// How flows use several tunnels.
#[derive(Clone, Copy, PartialEq)]
enum Tunnels {
    /// One after the other, all by one level.
    InOrder,
    /// Each by a level of its own.
    Alike,
}

fn check_tunnels(problem: &Problem, allocation: &Allocation, tunnels_are: Tunnels) -> Result<(), Broken> {
    let Allocation { rates, exact, floors, .. } = allocation;
    let levels = Levels::of(problem);
    let (tunnels, limits, demands) = (problem.tunnels(), problem.limits(), problem.demands());
    if [rates.len(), exact.len()] != [tunnels; 2] || floors.len() != limits.len() {
        return Err(Broken::Shape);
    }
    let mut carried = vec![0_u128; limits.len()];
    // What is carried exactly, less what is looked away from.
    let mut exactly = vec![0 as Fine; limits.len()];
    for tunnel in 0..tunnels {
        if (Fine::from(rates[tunnel]) << FINE_BITS).abs_diff(exact[tunnel]) >= 1 << FINE_BITS {
            return Err(Broken::Rounding { tunnel });
        }
        let blur = levels.blur(problem.flow_of(tunnel));
        for of in problem.uses(tunnel).iter().map(|of| *of as usize) {
            carried[of] += u128::from(rates[tunnel]);
            exactly[of] = exactly[of].saturating_add(exact[tunnel].saturating_sub(blur));
        }
    }
    let overfull = |resource: &usize| {
        let capacity = limits[*resource].capacity;
        carried[*resource] > u128::from(capacity) || exactly[*resource] > fine(capacity)
    };
    if let Some(resource) = (0..limits.len()).find(overfull) {
        return Err(Broken::Overfull { resource });
    }
    if let Some(resource) = (0..limits.len()).find(|resource| floors[*resource] > limits[*resource].floor) {
        return Err(Broken::Kept { resource });
    }
    let totals: Vec<Fine> = (0..demands.len()).map(|flow| exact[problem.tunnels_of(flow)].iter().sum()).collect();
    for (flow, demand) in demands.iter().enumerate() {
        let whole: u128 = rates[problem.tunnels_of(flow)].iter().map(|rate| u128::from(*rate)).sum();
        // A cap of tunnels that rise together is full to what is looked away from in each.
        let of_flow = problem.tunnels_of(flow).len() as Fine;
        let blur = if tunnels_are == Tunnels::Alike { levels.blur(flow) * of_flow } else { TINY };
        if whole > u128::from(demand.curve.most()) || totals[flow] > fine(demand.curve.most()) + blur {
            return Err(Broken::TooMuch { flow });
        }
        let is_below = whole < u128::from(demand.floor) || totals[flow] + levels.blur(flow) < levels.floor(flow);
        if levels.floors_fit() && is_below {
            return Err(Broken::BelowFloor { flow });
        }
    }
    fair(problem, &levels, allocation, &totals, tunnels_are)
}

fn fair(
    problem: &Problem,
    levels: &Levels,
    allocation: &Allocation,
    totals: &[Fine],
    tunnels_are: Tunnels,
) -> Result<(), Broken> {
    let demands = problem.demands();
    let tiers = demands.iter().map(|demand| usize::from(demand.tier) + 1).max().unwrap_or(0);
    let resources = problem.limits().len();
    // By tier and resource.
    let mut of = vec![Of::default(); tiers * resources];
    // What levels in steps leave unused, in b/s.
    let mut steps = vec![0_u128; resources];
    for (flow, demand) in demands.iter().enumerate() {
        let step = levels.step(flow);
        // Tunnels are filled in order, so the level to which one was is that of all up to it.
        let mut so_far = 0;
        for tunnel in problem.tunnels_of(flow) {
            so_far += allocation.exact[tunnel];
            // Where a tunnel carries nothing there is nothing to take.
            let blur = levels.blur(flow);
            let above_floor = so_far > levels.floor(flow) + blur && allocation.exact[tunnel] > TINY;
            let level = above_floor.then(|| levels.lowest(flow, so_far - blur));
            for resource in problem.uses(tunnel).iter().map(|of| *of as usize) {
                let of = &mut of[usize::from(demand.tier) * resources + resource];
                of.used += allocation.exact[tunnel];
                // A flow over several alike is at another level on each.
                if tunnels_are == Tunnels::InOrder || problem.tunnels_of(flow).len() == 1 {
                    of.highest = of.highest.max(level);
                }
                of.above_floor |= level.is_some();
                steps[resource] += step;
            }
        }
    }
    let lowest_tier = tiers.saturating_sub(1);
    let is_full = |resource: usize, tier: usize| {
        let at = |tier: usize| of[tier * resources + resource];
        // What is kept for the lowest tier is no one else's, whether it is used or not.
        let kept = if tier == lowest_tier { 0 } else { fine(allocation.floors[resource]) };
        let used: Fine = (0..lowest_tier).map(|tier| at(tier).used).sum::<Fine>() + at(lowest_tier).used.max(kept);
        let left = fine(problem.limits()[resource].capacity).saturating_sub(used);
        let is_kept = |below: usize| below == lowest_tier && at(below).used <= kept + (1 << FINE_BITS);
        left <= (steps[resource] << (FINE_BITS - LEVEL_BITS + 1)) + TINY
            && (tier + 1..tiers).all(|below| !at(below).above_floor || is_kept(below))
    };
    for (flow, demand) in demands.iter().enumerate() {
        let nearly = totals[flow] + levels.blur(flow);
        let of_flow = problem.tunnels_of(flow);
        // What tunnels that rise together may have is full but for steps of the level.
        let is_together = tunnels_are == Tunnels::Alike && of_flow.len() > 1;
        let steps = if is_together { levels.step(flow) << (FINE_BITS - LEVEL_BITS + 1) } else { 0 };
        if nearly + steps >= fine(demand.curve.most()) {
            continue;
        }
        let tier = usize::from(demand.tier);
        let level = levels.highest(flow, nearly);
        let stops = |resource: &ResourceId| {
            let resource = *resource as usize;
            let others = of[tier * resources + resource].highest;
            is_full(resource, tier) && (of_flow.len() > 1 || others.is_none_or(|others| others <= level))
        };
        if let Some(tunnel) = of_flow.clone().find(|tunnel| !problem.uses(*tunnel).iter().any(stops)) {
            return Err(Broken::Unfair { flow, tunnel });
        }
    }
    Ok(())
}

fn fine(rate: u64) -> Fine {
    Fine::from(rate) << FINE_BITS
}
