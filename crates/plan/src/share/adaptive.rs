//! Adaptive water-filling over several tunnels without an order (Namyar et al., "Solving Max-Min Fair Resource Allocations
//! Quickly on Large Graphs", NSDI 2024).
//!
//! Each tunnel is a flow with a part of the weight, and the cap of the flow is a resource of its tunnels. All are filled, and parts
//! follow what was found, round by round. In the paper they follow the rates, which stand still where the tunnels of a flow are all
//! at one level, although one of them may draw on more resources that are full than another. Here they follow the levels of what
//! the tunnels do not have in common (see [`parts`]). Small problems are filled once, with the parts of an optimum (see [`program`]).

mod parts;
mod program;
mod quick;

use crate::certificate;

use super::curve::PART_BITS;
use super::round::rounded;
use super::{Allocation, Demand, Limit, Problem, RATE_MAX, solve};
use parts::Parts;
use quick::Quick;

/// Rounds at most, and at least; between them so many that they look at [`WORK`] uses together.
const ROUNDS_MAX: usize = 128;
const ROUNDS_MIN: usize = 4;
const WORK: usize = 3 << 19;
/// Levels of two rounds that differ by less, relatively, are equal.
const EQUAL: f64 = 1.0 / 512.0;

/// Why tunnels have an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {flow} is in a class, and classes share over tunnels in order only")]
pub struct InClasses {
    /// The first of them.
    pub flow: usize,
}

/// An allocation near the weighted max-min one where flows may use all their tunnels alike, tier by tier. The floor of a flow is on
/// its first tunnel, as in [`solve`]; what is over several tunnels does not rise by one level, so only flows over one tunnel are
/// fair to each other to the b/s (`certificate::check_adaptive`).
///
/// Rounds in floating point, each a fraction of [`solve`], and once that with a flow for each tunnel. Rounds are 128 where all uses are
/// 12,000, and 4 from 390,000 on.
///
/// # Errors
/// If flows are in classes: what a class is due says nothing of parts of its flows.
pub fn solve_adaptive(problem: &Problem) -> Result<Allocation, InClasses> {
    if problem.tunnels() == problem.demands.len() {
        return Ok(solve(problem));
    }
    if let Some(flow) = (0..problem.demands.len()).find(|flow| problem.class_of(*flow).is_some()) {
        return Err(InClasses { flow });
    }
    let mut tiers: Vec<u8> = problem.demands.iter().map(|demand| demand.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let parts = match program::parts(problem) {
        Some(optimum) => Parts::new(problem, Some(optimum)),
        None => by_rounds(problem, &tiers),
    };
    let mut split = split(problem);
    for (tunnel, demand) in split.demands.iter_mut().enumerate() {
        let flow = problem.flow_of(tunnel);
        if problem.tunnels_of(flow).len() > 1 {
            demand.curve = problem.demands[flow].curve.part(parts.of(tunnel, PART_BITS));
        }
    }
    let Allocation { exact, mut floors, mut bottlenecks, .. } = solve(&split);
    floors.truncate(problem.limits.len());
    bottlenecks.retain(|of| (of.resource as usize) < problem.limits.len());
    let allocation = Allocation { rates: rounded(problem, &exact), exact, floors, bottlenecks };
    debug_assert_eq!(certificate::check_adaptive(problem, &allocation), Ok(()), "of {problem:?}");
    Ok(allocation)
}

/// The best parts of some rounds.
fn by_rounds(problem: &Problem, tiers: &[u8]) -> Parts {
    let rounds = (WORK / problem.uses.len()).clamp(ROUNDS_MIN, ROUNDS_MAX);
    let quick = Quick::of(problem, tiers);
    let mut parts = Parts::new(problem, None);
    let mut best: Option<(Vec<(u8, f64)>, Parts)> = None;
    for round in 0..rounds {
        let filled = quick.fill(&parts.0);
        let levels = levels(problem, &filled.rates);
        if best.as_ref().is_none_or(|(so_far, _)| is_better(&levels, so_far)) {
            best = Some((levels, parts.clone()));
        }
        if !parts.follow(problem, tiers, &filled.levels, round * parts::STAGES / rounds) {
            break;
        }
    }
    best.expect("there is a round").1
}

/// A flow for each tunnel, and a resource for each cap of a flow with several.
fn split(problem: &Problem) -> Problem {
    let is_capped =
        |flow: &usize| problem.tunnels_of(*flow).len() > 1 && problem.demands[*flow].curve.most() < RATE_MAX;
    let capped = (0..problem.demands.len()).filter(is_capped);
    let caps = capped.map(|flow| Limit { capacity: problem.demands[flow].curve.most(), floor: 0 });
    let mut split = Problem::new(problem.limits.iter().copied().chain(caps).collect());
    let mut cap = problem.limits.len() as u32;
    let mut uses = Vec::new();
    for (flow, demand) in problem.demands.iter().enumerate() {
        let of_flow = problem.tunnels_of(flow);
        for tunnel in of_flow.clone() {
            uses.clear();
            uses.extend_from_slice(problem.uses(tunnel));
            uses.extend(is_capped(&flow).then_some(cap));
            let floor = if tunnel == of_flow.start { demand.floor } else { 0 };
            split.add(Demand { floor, ..demand.clone() }, [uses.as_slice()]);
        }
        cap += u32::from(is_capped(&flow));
    }
    split
}

/// Tier by tier the levels of the flows, from the lowest on, in b/s of a flow of weight 1.
fn levels(problem: &Problem, rates: &[f64]) -> Vec<(u8, f64)> {
    let level = |(flow, demand): (usize, &Demand)| {
        let whole: f64 = rates[problem.tunnels_of(flow)].iter().sum();
        (demand.tier, demand.curve.level(whole))
    };
    let mut levels: Vec<(u8, f64)> = problem.demands.iter().enumerate().map(level).collect();
    levels.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    levels
}

/// Whether the first level that differs is higher.
fn is_better(levels: &[(u8, f64)], so_far: &[(u8, f64)]) -> bool {
    let differ = levels.iter().zip(so_far).find(|(one, other)| (one.1 - other.1).abs() > EQUAL * other.1);
    differ.is_some_and(|(one, other)| one.1 > other.1)
}
