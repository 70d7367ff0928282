//! Whether an allocation is what it should be, from the definition. Nothing of the solver is used here.
//!
//! - No resource carries more than its capacity, no flow more than it asks for, and each rate is within 1 b/s of the exact one.
//! - **Max-min**: a flow over one tunnel that has less than the most it asks for meets a full resource at which no flow of its
//!   tier is at a higher level, and flows of lower tiers have no more than their floors, or what is kept for the lowest (Bertsekas and Gallager, "Data
//!   Networks", 1992, section 6.5). A flow over several tunnels meets a full resource on each of them.
//!
//! The check is O(Σ uses). Exact rates are looked at to 2⁻¹⁶ b/s and the step of a level.

use crate::share::{Allocation, Curve, FINE_BITS, Fine, LEVEL_BITS, Level, Problem, ResourceId};

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
    let Allocation { rates, exact, floors, .. } = allocation;
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
        let blur = blur(&demands[problem.flow_of(tunnel)].curve);
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
    let floors_fit = floors_fit(problem);
    let totals: Vec<Fine> = (0..demands.len()).map(|flow| exact[problem.tunnels_of(flow)].iter().sum()).collect();
    for (flow, demand) in demands.iter().enumerate() {
        let whole: u128 = rates[problem.tunnels_of(flow)].iter().map(|rate| u128::from(*rate)).sum();
        if whole > u128::from(demand.curve.most()) || totals[flow] > fine(demand.curve.most()) + TINY {
            return Err(Broken::TooMuch { flow });
        }
        if floors_fit && whole < u128::from(demand.floor) {
            return Err(Broken::BelowFloor { flow });
        }
    }
    fair(problem, allocation, &totals)
}

fn fair(problem: &Problem, allocation: &Allocation, totals: &[Fine]) -> Result<(), Broken> {
    let demands = problem.demands();
    let tiers = demands.iter().map(|demand| usize::from(demand.tier) + 1).max().unwrap_or(0);
    let resources = problem.limits().len();
    // By tier and resource.
    let mut of = vec![Of::default(); tiers * resources];
    // What levels in steps leave unused, in b/s.
    let mut steps = vec![0_u128; resources];
    for (flow, demand) in demands.iter().enumerate() {
        let step = step(&demand.curve);
        // Tunnels are filled in order, so the level to which one was is that of all up to it.
        let mut so_far = 0;
        for tunnel in problem.tunnels_of(flow) {
            so_far += allocation.exact[tunnel];
            // Where a tunnel carries nothing there is nothing to take.
            let above_floor = so_far > fine(demand.floor) + TINY && allocation.exact[tunnel] > TINY;
            let level = above_floor.then(|| lowest(&demand.curve, so_far.saturating_sub(blur(&demand.curve))));
            for resource in problem.uses(tunnel).iter().map(|of| *of as usize) {
                let of = &mut of[usize::from(demand.tier) * resources + resource];
                of.used += allocation.exact[tunnel];
                of.highest = of.highest.max(level);
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
        if totals[flow] + blur(&demand.curve) >= fine(demand.curve.most()) {
            continue;
        }
        let tier = usize::from(demand.tier);
        let of_flow = problem.tunnels_of(flow);
        let level = highest(&demand.curve, totals[flow] + blur(&demand.curve)) + STEPS;
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

/// What is looked away from in a rate of a curve: slopes are known to 2⁻⁴⁸, so that after 70 Tb/s it is a quarter of a b/s.
fn blur(curve: &Curve) -> Fine {
    let along = curve.corners().and_then(<[_]>::last).map_or(0, |last| last.0);
    TINY + (Fine::from(along) << LEVEL_BITS)
}

fn floors_fit(problem: &Problem) -> bool {
    let mut sums = vec![0_u128; problem.limits().len()];
    for (flow, demand) in problem.demands().iter().enumerate() {
        let first = problem.tunnels_of(flow).start;
        problem.uses(first).iter().for_each(|of| sums[*of as usize] += u128::from(demand.floor));
    }
    problem.limits().iter().zip(sums).all(|(limit, sum)| sum <= u128::from(limit.capacity))
}

/// The most that a level of 1 b/s brings, in b/s, rounded up.
fn step(curve: &Curve) -> u128 {
    match curve {
        Curve::Weighted { weight, .. } => u128::from(weight.get()),
        Curve::Points(_) => {
            let slope = |(from, base): (u64, u64), (to, end): (u64, u64)| u128::from((end - base).div_ceil(to - from));
            pieces(curve).map(|(begin, end)| slope(begin, end)).max().unwrap_or(0)
        }
    }
}

/// The lowest level at which a curve gives a rate.
fn lowest(curve: &Curve, rate: Fine) -> Level {
    match curve {
        Curve::Weighted { weight, .. } => (rate / u128::from(weight.get())) >> (FINE_BITS - LEVEL_BITS),
        Curve::Points(_) => {
            let found = pieces(curve).find(|(_, end)| rate <= fine(end.1));
            found.map_or(0, |(begin, end)| within(begin, end, rate))
        }
    }
}

/// The highest level at which a curve gives no more than a rate that is below its most.
fn highest(curve: &Curve, rate: Fine) -> Level {
    match curve {
        Curve::Weighted { weight, .. } => ((rate / u128::from(weight.get())) >> (FINE_BITS - LEVEL_BITS)) + 1,
        Curve::Points(_) => {
            let found = pieces(curve).find(|(_, end)| rate < fine(end.1));
            found.map_or(Level::MAX >> 1, |(begin, end)| within(begin, end, rate) + 1)
        }
    }
}

/// The level within a piece at which it gives a rate.
fn within(begin: (u64, u64), end: (u64, u64), rate: Fine) -> Level {
    /// To so many bits of the rate: with all of them the product would be too large.
    const DROPPED: u32 = 48;
    let above = rate.saturating_sub(fine(begin.1)) >> DROPPED;
    let along = (above * u128::from(end.0 - begin.0)).checked_div(u128::from(end.1 - begin.1)).unwrap_or(0);
    (Level::from(begin.0) << LEVEL_BITS) + (along >> (FINE_BITS - DROPPED - LEVEL_BITS))
}

/// The begin and the end of each straight part of a curve by points.
fn pieces(curve: &Curve) -> impl Iterator<Item = ((u64, u64), (u64, u64))> {
    let corners = curve.corners().unwrap_or_default();
    std::iter::once((0, 0)).chain(corners.iter().copied()).zip(corners.iter().copied())
}
