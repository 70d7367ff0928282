//! The parts of a weight, and how they follow the levels at which resources are full.
//!
//! A resource that is full at a low level is dear. Of two tunnels only what one has and the other has not is compared: what they
//! have in common a flow pays for on either. There a tunnel is as dear as its dearest resource, and dearer if it has several:
//! levels are put together as (Σ level⁻ᵅ)^(−1/α), which becomes the least of them as α grows. A tunnel on which nothing is full
//! in its tier is better than any other, and judged by what lower tiers find on it.

use super::super::{Problem, ResourceId};

/// Stages of the rounds: in each α is twice that of the one before, and in the later ones parts follow more slowly.
pub(super) const STAGES: usize = 4;
/// log₂ of the first α.
const ALPHA: usize = 2;
/// How many times the square root is taken of the factor by which a part becomes less, by stage.
const SLOWER: [usize; STAGES] = [0, 0, 1, 1];
/// No part is less, so that it can grow again: 2⁻¹⁷.
const LEAST: f64 = 1.0 / 131_072.0;
/// A part becomes less by at most so much in a round.
const DROP: f64 = 0.25;
/// Where no part moves by more, relatively, they have settled.
const SETTLED: f64 = 1.0 / 4096.0;
/// A level of nothing, in b/s.
const NOTHING: f64 = 1e-6;

/// By tunnel, what it has of the weight of its flow; those of a flow are 1 together.
#[derive(Clone)]
pub(super) struct Parts(pub(super) Vec<f64>);

/// How dear a tunnel is: the first tier that finds it full, as an index, and at which level.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Worth(usize, f64);

impl Parts {
    /// Parts to begin with; where there are none, in proportion to lengths⁻⁴: the shorter tunnel is the likelier one.
    pub(super) fn new(problem: &Problem, begin: Option<Vec<f64>>) -> Parts {
        let by_length = |tunnel: usize| {
            let length = problem.uses(tunnel).len() as f64;
            1.0 / (length * length * length * length)
        };
        let mut parts = Parts(begin.unwrap_or_else(|| (0..problem.tunnels()).map(by_length).collect()));
        (0..problem.demands.len()).for_each(|flow| parts.normalise(problem, flow));
        parts
    }

    /// The part of a tunnel, with so many bits behind the point.
    pub(super) fn of(&self, tunnel: usize, bits: u32) -> u32 {
        (self.0[tunnel] * f64::from(1_u32 << bits)) as u32
    }

    /// Moves parts to tunnels whose resources are full at higher levels. Whether any moved.
    pub(super) fn follow(&mut self, problem: &Problem, tiers: &[u8], levels: &[f64], stage: usize) -> bool {
        let resources = problem.limits.len();
        let of_tier = |tier: usize| &levels[tier * resources..][..resources];
        // One more than the last tier that found a resource full; what none did says nothing.
        let is_full = |of: usize| (0..tiers.len()).rev().find(|tier| of_tier(*tier)[of].is_finite());
        let last: Vec<usize> = (0..resources).map(|of| is_full(of).map_or(0, |tier| tier + 1)).collect();
        let mut moved = false;
        let (mut full, mut ends, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for (flow, demand) in problem.demands.iter().enumerate() {
            let of_flow = problem.tunnels_of(flow);
            if of_flow.len() == 1 {
                continue;
            }
            let own = tiers.partition_point(|tier| *tier < demand.tier);
            full.clear();
            ends.clear();
            ends.push(0);
            for tunnel in of_flow.clone() {
                full.extend(problem.uses(tunnel).iter().copied().filter(|of| last[*of as usize] > own));
                ends.push(full.len());
            }
            let uses = |tunnel: usize| {
                let at = tunnel - of_flow.start;
                &full[ends[at]..ends[at + 1]]
            };
            let mut worth = |tunnel: usize, other: usize| {
                alone.clear();
                alone.extend(uses(tunnel).iter().filter(|of| uses(other).binary_search(of).is_err()));
                let mut below =
                    (own..tiers.len()).map(|tier| Worth(tier, together(&alone, of_tier(tier), ALPHA + stage)));
                below.find(|worth| worth.1.is_finite()).unwrap_or(Worth(tiers.len(), 1.0))
            };
            let mut better = |one, other| if worth(other, one) > worth(one, other) { other } else { one };
            let best = of_flow.clone().reduce(&mut better).expect("a flow has a tunnel");
            for tunnel in of_flow.clone().filter(|tunnel| *tunnel != best) {
                let (mine, its) = (worth(tunnel, best), worth(best, tunnel));
                let factor = if mine.0 == its.0 { (mine.1 / its.1).clamp(DROP, 1.0) } else { DROP };
                let factor = (0..SLOWER[stage]).fold(factor, |factor, _| factor.sqrt());
                moved |= factor < 1.0 - SETTLED && self.0[tunnel] > 2.0 * LEAST;
                self.0[tunnel] *= factor;
            }
            self.normalise(problem, flow);
        }
        moved
    }

    fn normalise(&mut self, problem: &Problem, flow: usize) {
        let of_flow = &mut self.0[problem.tunnels_of(flow)];
        let sum: f64 = of_flow.iter().sum();
        of_flow.iter_mut().for_each(|part| *part = (*part / sum).max(LEAST));
        let sum: f64 = of_flow.iter().sum();
        of_flow.iter_mut().for_each(|part| *part /= sum);
    }
}

/// (Σ level⁻ᵅ)^(−1/α) of some resources with α = 2ⁿ, by products and roots that every machine rounds alike.
fn together(resources: &[ResourceId], levels: &[f64], n: usize) -> f64 {
    let of = || resources.iter().map(|resource| levels[*resource as usize].max(NOTHING));
    let least = of().fold(f64::INFINITY, f64::min);
    if least.is_infinite() {
        return least;
    }
    let power = |level: f64| (0..n).fold(least / level, |power, _| power * power);
    let sum: f64 = of().map(power).sum();
    least / (0..n).fold(sum, |root, _| root.sqrt())
}
