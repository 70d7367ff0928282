//! Random problems.

use std::num::NonZeroU32;

use plan::share::{Class, Curve, Demand, Limit, Problem, RATE_MAX, ResourceId};

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
    /// A tree of classes, that some flows are in.
    pub(crate) classes: bool,
}

pub(crate) const PLAIN: Kinds =
    Kinds { tiers: 1, floors: false, points: false, tunnels: 1, kept: false, classes: false };

pub(crate) fn weight(weight: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(weight).expect("it is small")).expect("above 0")
}

pub(crate) fn random(rng: &mut Rng, kinds: Kinds) -> Problem {
    let resources = rng.size(1, 7);
    // Small numbers, so that things are equal now and then, or large ones.
    let unit = *rng.pick(&[1, 1, 10, 1_000_000_007]);
    let flows = rng.size(1, 9);
    let tree = if kinds.classes { tree(rng, kinds, unit) } else { Vec::new() };
    let mut class_of = Vec::new();
    // Each class has a resource for its cap.
    let caps = tree.iter().map(|(class, _)| class.cap);
    let mut room: Vec<u64> = (0..resources).map(|_| rng.size(0, 30) * unit).chain(caps).collect();
    let limit = |rng: &mut Rng, capacity: u64| {
        let floor = if kinds.kept && rng.one_in(2) { rng.size(0, 12) * unit } else { 0 };
        Limit { capacity, floor }
    };
    let mut problem = Problem::new(room.clone().into_iter().map(|capacity| limit(rng, capacity)).collect());
    for _ in 0..flows {
        let tunnel = |rng: &mut Rng| (0..rng.size(1, 4)).map(|_| rng.size(0, resources - 1) as ResourceId).collect();
        let mut tunnels: Vec<Vec<ResourceId>> = (0..rng.size(1, kinds.tunnels)).map(|_| tunnel(rng)).collect();
        let class =
            if tree.is_empty() || rng.one_in(4) { None } else { Some(rng.size(0, tree.len() as u64 - 1) as u32) };
        let most = if rng.one_in(3) { rng.size(0, 20) * unit } else { u64::MAX };
        let curve = if kinds.points && class.is_none() && rng.one_in(2) {
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
        let mut tier = rng.size(0, kinds.tiers - 1) as u8;
        let mut above = class;
        while let Some(index) = above {
            let of = &tree[index as usize];
            tunnels.iter_mut().for_each(|uses| uses.push(resources as ResourceId + index));
            (above, tier) = (of.0.parent, of.1);
        }
        class_of.push(class);
        let mut floor = if kinds.floors && rng.one_in(2) { rng.size(0, 6) * unit } else { 0 };
        let first = tunnels[0].iter().map(|of| room[*of as usize]).min().expect("it draws on something");
        floor = floor.min(first).min(curve.most());
        let mut uses = tunnels[0].clone();
        uses.sort_unstable();
        uses.dedup();
        uses.iter().for_each(|of| room[*of as usize] -= floor);
        problem.add(Demand { tier, floor, curve }, tunnels.iter().map(Vec::as_slice));
    }
    problem.with_classes(tree.into_iter().map(|(class, _)| class).collect(), class_of).expect("they are a tree")
}

/// Classes, each with the tier of the one at the top.
fn tree(rng: &mut Rng, kinds: Kinds, unit: u64) -> Vec<(Class, u8)> {
    let mut classes: Vec<(Class, u8)> = Vec::new();
    for index in 0..rng.size(1, 7) {
        let parent = if index == 0 || rng.one_in(3) { None } else { Some(rng.size(0, index - 1) as u32) };
        let tier = match parent {
            Some(parent) => classes[parent as usize].1,
            None => rng.size(0, kinds.tiers - 1) as u8,
        };
        let floor = if kinds.floors && rng.one_in(3) { rng.size(0, 3) * unit } else { 0 };
        let cap = if rng.one_in(4) { rng.size(3, 20) * unit } else { RATE_MAX };
        let weight = weight(*rng.pick(&[1, 1, 2, 5, 100]));
        classes.push((Class { parent, weight, floor, cap }, tier));
    }
    classes
}
