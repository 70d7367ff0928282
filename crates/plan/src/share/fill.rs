//! Water-filling, tier by tier: what is guaranteed first, then what the level brings.

use std::num::NonZeroU32;

use crate::certificate;

use super::class::carried;
use super::curve::Piece;
use super::kept::Kept;
use super::rise::{Climb, Fill};
use super::round::rounded;
use super::scale::Inner;
use super::{Allocation, Curve, FINE_BITS, Fine, INNER_SHIFT, Level, Limit, Problem, ResourceId};

/// Turns in which what is kept for the lowest tier, and not used by it, is given to the others. There may be some left after the last.
const ROUNDS_MAX: usize = 256;

/// Parts of floors of classes are rounded by less than this.
const TINY: Fine = 1 << (FINE_BITS - 16);

/// The weighted max-min allocation of a problem, tier by tier.
///
/// O((Σ uses + flows log flows + full log resources) × tiers), some turns of it where the lowest tier has floors; with classes, each
/// bend of the scale of one costs as many steps as resources that the class draws on.
#[must_use]
pub fn solve(problem: &Problem) -> Allocation {
    let mut tiers: Vec<u8> = problem.demands.iter().map(|demand| demand.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let crossing = Crossing::of(problem);
    let asked: Vec<Fine> = (0..problem.demands.len()).map(|flow| floor(problem, flow)).collect();
    let guaranteed = guaranteed(problem, &crossing, &tiers, &asked);
    let climbs: Vec<Vec<Climb>> = tiers.iter().map(|tier| due(problem, *tier, &asked, &guaranteed)).collect();
    let lowest = tiers.last().copied();
    // With one tier there is nobody to keep it from.
    let floor = |limit: &Limit| if tiers.len() < 2 { 0 } else { limit.floor };
    let mut kept = Kept::new(problem.limits.iter().map(floor).collect());
    let mut fill = Fill::new(problem, &crossing);
    for round in 1.. {
        fill.empty();
        for (flow, floor) in guaranteed.iter().enumerate() {
            fill.use_more(problem.tunnels_of(flow).start, *floor);
        }
        // What is guaranteed to flows of the lowest tier is a part of what is kept for it.
        let guaranteed_of = fill.used_by(lowest);
        let beyond: Vec<Fine> =
            kept.floors.iter().zip(guaranteed_of).map(|(floor, of)| fine(*floor).saturating_sub(of)).collect();
        for (tier, climbs) in tiers.iter().zip(&climbs) {
            let beyond: &[Fine] = if Some(*tier) == lowest { &[] } else { &beyond };
            fill.rise(*tier, climbs, beyond);
        }
        let given_back = round < ROUNDS_MAX && kept.is_any() && {
            let whole = |used: Fine| u64::try_from((used + (1 << (FINE_BITS - 1))) >> FINE_BITS).unwrap_or(u64::MAX);
            let used: Vec<u64> = fill.used_by(lowest).into_iter().map(whole).collect();
            kept.give_back(&used)
        };
        if !given_back {
            let (exact, bottlenecks) = fill.end();
            let allocation = Allocation { rates: rounded(problem, &exact), exact, floors: kept.floors, bottlenecks };
            debug_assert_eq!(certificate::check(problem, &allocation), Ok(()), "of {problem:?}");
            return allocation;
        }
    }
    unreachable!("the last round gives nothing back")
}

pub(super) fn fine(rate: u64) -> Fine {
    Fine::from(rate) << FINE_BITS
}

/// What a flow should have at level 0: its floor, and no less than its part of the floors of its classes.
pub(super) fn floor(problem: &Problem, flow: usize) -> Fine {
    let demand = &problem.demands[flow];
    let of_classes = match (problem.scale_of(flow), &demand.curve) {
        (Some(scale), Curve::Weighted { weight, .. }) => {
            let most = demand.curve.most().min(carried(problem, flow));
            scale.at(0).saturating_mul(Inner::from(weight.get())).min(fine(most) >> INNER_SHIFT) << INNER_SHIFT
        }
        _ => 0,
    };
    fine(demand.floor).max(of_classes)
}

/// Which floors there is room for: all, or as much of each as its share of what there is, tier by tier.
fn guaranteed(problem: &Problem, crossing: &Crossing, tiers: &[u8], asked: &[Fine]) -> Vec<Fine> {
    let mut sums = vec![0 as Fine; problem.limits.len()];
    for (flow, floor) in asked.iter().enumerate().filter(|(_, floor)| **floor > 0) {
        let first = problem.tunnels_of(flow).start;
        for of in problem.uses(first) {
            let sum = &mut sums[*of as usize];
            *sum = sum.saturating_add(*floor);
        }
    }
    let fits = problem.limits.iter().zip(&sums).all(|(limit, sum)| fine(limit.capacity) + TINY >= *sum);
    if fits {
        return asked.to_vec();
    }
    let climbs = |tier: &u8| -> Vec<Climb> {
        let climb = |flow: usize| {
            // All floors reach their end at one level, so what is there is shared in proportion. Slopes are rounded by less than TINY.
            let end: Level = 1 << 56;
            let pieces = vec![
                Piece { from: 0, base: 0, slope: asked[flow] / end },
                Piece { from: end, base: asked[flow], slope: 0 },
            ];
            Climb { flow, pieces, most: asked[flow], class: None }
        };
        let has_one = |flow: &usize| problem.demands[*flow].tier == *tier && asked[*flow] > 0;
        (0..asked.len()).filter(has_one).map(climb).collect()
    };
    let climbs: Vec<Vec<Climb>> = tiers.iter().map(climbs).collect();
    let mut fill = Fill::new(problem, crossing);
    tiers.iter().zip(&climbs).for_each(|(tier, climbs)| fill.rise(*tier, climbs, &[]));
    let (exact, _) = fill.end();
    // Whole b/s; what is within a step of its floor has it.
    let whole = |flow: usize| match exact[problem.tunnels_of(flow).start] {
        has if has + TINY >= asked[flow] => asked[flow].min(has),
        has => has >> FINE_BITS << FINE_BITS,
    };
    (0..asked.len()).map(whole).collect()
}

/// How the flows of a tier, whose floors are used already, rise.
fn due(problem: &Problem, tier: u8, asked: &[Fine], guaranteed: &[Fine]) -> Vec<Climb> {
    let climb = |flow: usize| {
        let demand = &problem.demands[flow];
        let most = fine(demand.curve.most());
        match (problem.class_of(flow), problem.scale_of(flow), &demand.curve) {
            (Some(_), _, _) if guaranteed[flow] + TINY < asked[flow] => {
                // The others of its class count on its floor, so it cannot rise with them.
                let alone = Curve::Weighted { weight: NonZeroU32::MIN, most: demand.curve.most() };
                Climb { flow, pieces: alone.pieces(guaranteed[flow]), most, class: None }
            }
            (Some(class), Some(scale), Curve::Weighted { weight, .. }) => {
                let ends = most.min(fine(carried(problem, flow)));
                let (pieces, begin) = scale.pieces(*weight, guaranteed[flow], ends);
                Climb { flow, pieces, most, class: Some((class as u32, begin)) }
            }
            _ => Climb { flow, pieces: demand.curve.pieces(guaranteed[flow]), most, class: None },
        }
    };
    let of_tier = |flow: &usize| problem.demands[*flow].tier == tier;
    (0..problem.demands.len()).filter(of_tier).map(climb).collect()
}

/// The tunnels that draw on each resource.
pub(super) struct Crossing {
    begins: Vec<u32>,
    tunnels: Vec<u32>,
}

impl Crossing {
    pub(super) fn of(problem: &Problem) -> Crossing {
        let mut begins = vec![0_u32; problem.limits.len() + 1];
        problem.uses.iter().for_each(|of| begins[*of as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut tunnels = vec![0; problem.uses.len()];
        for tunnel in 0..problem.tunnels() {
            for of in problem.uses(tunnel) {
                tunnels[next[*of as usize] as usize] = tunnel as u32;
                next[*of as usize] += 1;
            }
        }
        Crossing { begins, tunnels }
    }

    pub(super) fn over(&self, resource: ResourceId) -> &[u32] {
        &self.tunnels[self.begins[resource as usize] as usize..self.begins[resource as usize + 1] as usize]
    }
}
