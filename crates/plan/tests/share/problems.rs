//! Random problems.

use std::num::NonZeroU32;

use plan::share::{Curve, Demand, Limit, Problem, ResourceId};

use crate::rng::Rng;

/// What there may be in a problem.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    pub(crate) tiers: u64,
    /// Floors of flows, which fit together.
    pub(crate) floors: bool,
    /// Curves by points.
    pub(crate) points: bool,
    /// Tunnels of a flow.
    pub(crate) tunnels: u64,
    /// What is kept for the lowest tier.
    pub(crate) kept: bool,
}

pub(crate) const PLAIN: Kinds = Kinds { tiers: 1, floors: false, points: false, tunnels: 1, kept: false };

pub(crate) fn weight(weight: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(weight).expect("it is small")).expect("above 0")
}

pub(crate) fn random(rng: &mut Rng, kinds: Kinds) -> Problem {
    let resources = rng.size(1, 7);
    // Small numbers, so that things are equal now and then, or large ones.
    let unit = *rng.pick(&[1, 1, 10, 1_000_000_007]);
    let flows = rng.size(1, 9);
    let mut room: Vec<u64> = (0..resources).map(|_| rng.size(0, 30) * unit).collect();
    let limit = |rng: &mut Rng, capacity: u64| {
        let floor = if kinds.kept && rng.one_in(2) { rng.size(0, 12) * unit } else { 0 };
        Limit { capacity, floor }
    };
    let mut problem = Problem::new(room.clone().into_iter().map(|capacity| limit(rng, capacity)).collect());
    for _ in 0..flows {
        let tunnel = |rng: &mut Rng| (0..rng.size(1, 4)).map(|_| rng.size(0, resources - 1) as ResourceId).collect();
        let tunnels: Vec<Vec<ResourceId>> = (0..rng.size(1, kinds.tunnels)).map(|_| tunnel(rng)).collect();
        let most = if rng.one_in(3) { rng.size(0, 20) * unit } else { u64::MAX };
        let curve = if kinds.points && rng.one_in(2) {
            let mut at = (0, 0);
            let points: Vec<(u64, u64)> = (0..rng.size(1, 4))
                .map(|_| {
                    at = (at.0 + rng.size(1, 9) * unit, at.1 + rng.size(0, 12) * unit);
                    at
                })
                .collect();
            Curve::points(&points).expect("they are in order")
        } else {
            Curve::Weighted { weight: weight(*rng.pick(&[1, 1, 2, 3, 7, 1000])), most }
        };
        let tier = rng.size(0, kinds.tiers - 1) as u8;
        let mut floor = if kinds.floors && rng.one_in(2) { rng.size(0, 6) * unit } else { 0 };
        let first = tunnels[0].iter().map(|of| room[*of as usize]).min().expect("it draws on something");
        floor = floor.min(first).min(curve.most());
        let mut uses = tunnels[0].clone();
        uses.sort_unstable();
        uses.dedup();
        uses.iter().for_each(|of| room[*of as usize] -= floor);
        problem.add(Demand { tier, floor, curve }, tunnels.iter().map(Vec::as_slice));
    }
    problem
}
