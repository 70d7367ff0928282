//! The tree of classes: what a class is due is shared by its children at a level of their own (Kumar et al., "BwE", SIGCOMM 2015,
//! section 5).
//!
//! A flow is due `max(floor, min(weight · s, most))`, where `most` is the cap of its curve and no more than its tunnels can carry; a
//! class `max(floor, min(weight · s, cap))`, and neither less than the sum of its children's floors nor more than the sum of all that they
//! can take. The level inside a class is the one at which its children together are due what the class is. From its cap on it goes on
//! with the level of the whole, by the weight of the class over those of its children: so that, where one of them is stopped by
//! something else, the others have what is left of the cap, which is a resource that all of them draw on. Where all children are
//! due all they can take, the level goes on rising as if the last of them took more.

use std::num::NonZeroU32;

use super::scale::{Bend, INNER_BITS, Inner, Scale};
use super::{Curve, Fine, INNER_SHIFT, LEVEL_BITS, Level, Problem, RATE_MAX, ResourceId};

/// Weights of the children of a class together.
const WEIGHTS_MAX: u64 = 1 << 40;
/// Levels of the tree.
pub const DEPTH_MAX: usize = 16;
/// How far behind its last bend the slope of a scale is taken.
const BEHIND: Level = 1 << 46;

/// A class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The class that it is a part of.
    pub parent: Option<u32>,
    /// What it is due at a level of 1 b/s, in b/s.
    pub weight: NonZeroU32,
    /// What its flows together get whatever the level, in b/s, if it is there.
    pub floor: u64,
    /// The most that it is due, in b/s. That its flows together get no more is for a resource that all of them draw on.
    pub cap: u64,
}

/// Why classes are no tree of these flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// A class comes before its parent, or there is no such parent.
    #[error("class {class} does not come after its parent")]
    Order {
        /// Which.
        class: usize,
    },
    /// A class is too deep in the tree.
    #[error("class {class} has {DEPTH_MAX} classes above it or more")]
    Depth {
        /// Which.
        class: usize,
    },
    /// There are not as many as flows, or a flow is of a class that is not there.
    #[error("flow {flow} is of a class that is not there")]
    NoClass {
        /// Which.
        flow: usize,
    },
    /// A flow in a class has a curve by points.
    #[error("flow {flow} is in a class and has a curve by points")]
    Curve {
        /// Which.
        flow: usize,
    },
    /// Flows below one class at the top are in several tiers.
    #[error("flow {flow} is in another tier than others below the same class")]
    Tier {
        /// Which.
        flow: usize,
    },
    /// Weights are too large together.
    #[error("the children of class {class} weigh more than 2⁴⁰ together")]
    Weights {
        /// Which.
        class: usize,
    },
}

/// A child of a class: a flow or a class.
#[derive(Clone, Copy, Debug)]
struct Child {
    weight: NonZeroU32,
    least: u64,
    most: u64,
}

/// What the children of a class are due together at each level inside it.
struct Sum {
    weight: NonZeroU32,
    least: Inner,
    /// The cap, if the children could take more.
    cap: Option<Inner>,
    /// The weights of all children.
    weights: u64,
    corners: Vec<Corner>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Corner {
    at: Inner,
    /// In the unit of levels.
    total: Inner,
    /// The weights of those who rise from here on.
    rise: u128,
}

/// The most that a flow can have over all its tunnels.
pub(super) fn carried(problem: &Problem, flow: usize) -> u64 {
    let capacity = |of: &ResourceId| problem.limits()[*of as usize].capacity;
    let narrowest = |tunnel: usize| problem.uses(tunnel).iter().map(capacity).min().unwrap_or(0);
    problem.tunnels_of(flow).map(narrowest).fold(0, u64::saturating_add)
}

/// Looks whether classes are a tree of a problem's flows.
pub(super) fn check(problem: &Problem, classes: &[Class], class_of: &[Option<u32>]) -> Result<(), ClassError> {
    let mut tops: Vec<(usize, usize)> = Vec::with_capacity(classes.len());
    let mut weights = vec![0_u64; classes.len()];
    for (class, of) in classes.iter().enumerate() {
        let (top, depth) = match of.parent.map(|parent| parent as usize) {
            None => (class, 0),
            Some(parent) if parent >= class => return Err(ClassError::Order { class }),
            Some(parent) => {
                weights[parent] += u64::from(of.weight.get());
                (tops[parent].0, tops[parent].1 + 1)
            }
        };
        if depth >= DEPTH_MAX {
            return Err(ClassError::Depth { class });
        }
        tops.push((top, depth));
    }
    let demands = problem.demands();
    if class_of.len() != demands.len() {
        return Err(ClassError::NoClass { flow: class_of.len().min(demands.len()) });
    }
    let mut tiers = vec![None; classes.len()];
    for (flow, (demand, class)) in demands.iter().zip(class_of).enumerate() {
        let Some(class) = class.map(|class| class as usize) else { continue };
        let Some((top, _)) = tops.get(class) else { return Err(ClassError::NoClass { flow }) };
        let Curve::Weighted { weight, .. } = &demand.curve else { return Err(ClassError::Curve { flow }) };
        if *tiers[*top].get_or_insert(demand.tier) != demand.tier {
            return Err(ClassError::Tier { flow });
        }
        weights[class] += u64::from(weight.get());
    }
    weights.iter().position(|weight| *weight > WEIGHTS_MAX).map_or(Ok(()), |class| Err(ClassError::Weights { class }))
}

/// The scale of each class.
pub(super) fn scales(problem: &Problem, classes: &[Class], class_of: &[Option<u32>]) -> Vec<Scale> {
    let mut children: Vec<Vec<Child>> = vec![Vec::new(); classes.len()];
    for (flow, class) in class_of.iter().enumerate() {
        let demand = &problem.demands()[flow];
        if let (Some(class), Curve::Weighted { weight, .. }) = (class, &demand.curve) {
            let most = demand.curve.most().min(carried(problem, flow)).max(demand.floor);
            children[*class as usize].push(Child { weight: *weight, least: demand.floor, most });
        }
    }
    let mut sums: Vec<Sum> = Vec::with_capacity(classes.len());
    // Children come after their parents.
    for (class, of) in classes.iter().enumerate().rev() {
        let sum = |part: fn(&Child) -> u64| children[class].iter().map(part).fold(0, u64::saturating_add);
        let all = sum(|child| child.most);
        let most = all.min(of.cap).min(RATE_MAX);
        let least = sum(|child| child.least).max(of.floor).min(most);
        if let Some(parent) = of.parent.filter(|_| most > 0) {
            children[parent as usize].push(Child { weight: of.weight, least, most });
        }
        let cap = (all > most).then_some(Inner::from(most) << INNER_BITS);
        sums.push(Sum { cap, ..Sum::of(of.weight, least, &children[class]) });
    }
    sums.reverse();
    let mut scales: Vec<Scale> = Vec::with_capacity(classes.len());
    for (of, sum) in classes.iter().zip(&sums) {
        let whole = Scale::whole();
        let parent = of.parent.map_or(&whole, |parent| &scales[parent as usize]);
        scales.push(sum.scale(parent));
    }
    scales
}

/// The lowest level inside a class at which a child of a weight is due a rate.
pub(super) fn level_of(rate: u64, weight: NonZeroU32) -> Inner {
    (Inner::from(rate) << INNER_BITS).div_ceil(Inner::from(weight.get()))
}

/// The same for a rate in 2⁻⁸⁰ b/s.
pub(super) fn level_of_fine(rate: Fine, weight: NonZeroU32) -> Inner {
    rate.div_ceil(Fine::from(weight.get()) << INNER_SHIFT)
}

impl Sum {
    fn of(weight: NonZeroU32, least: u64, children: &[Child]) -> Sum {
        // Where a child begins or ends, by how much more then rises, and what more is constant, in 2⁻⁴⁸ b/s: below 2⁴⁷⁺⁴⁸.
        let mut turns: Vec<(Inner, i128, i128)> = Vec::with_capacity(2 * children.len());
        let mut constant = 0_i128;
        for child in children {
            let [least, most] = [child.least, child.most].map(|rate| i128::from(rate) << INNER_BITS);
            constant = constant.saturating_add(least);
            if child.most > child.least {
                let rise = i128::from(child.weight.get());
                turns.push((level_of(child.least, child.weight), rise, -least));
                turns.push((level_of(child.most, child.weight), -rise, most));
            }
        }
        turns.sort_unstable();
        let mut corners = vec![Corner { at: 0, total: constant.unsigned_abs(), rise: 0 }];
        let mut rise = 0_i128;
        for (at, more, constant_more) in turns {
            if corners.last().is_some_and(|last| last.at < at) {
                // Exactly, so that where nobody rises it is what it was.
                let total = constant.saturating_add(rise.saturating_mul(at as i128)).unsigned_abs();
                corners.push(Corner { at, total, rise: 0 });
            }
            (rise, constant) = (rise + more, constant.saturating_add(constant_more));
            let last = corners.last_mut().expect("there is the first");
            last.rise = rise.unsigned_abs();
            // Ends come before begins; who begins has its least there, although its weight brings a bit more.
            if more < 0 {
                last.total = constant.saturating_add(rise.saturating_mul(at as i128)).unsigned_abs();
            }
        }
        let last_rise = corners.iter().rev().map(|corner| corner.rise).find(|rise| *rise > 0).unwrap_or(1);
        corners.last_mut().expect("there is the first").rise = last_rise;
        let weights = children.iter().map(|child| u64::from(child.weight.get())).sum();
        Sum { weight, least: Inner::from(least) << INNER_BITS, cap: None, weights, corners }
    }

    /// The lowest level at which the children are due so much.
    fn lowest(&self, total: Inner) -> Inner {
        let after = self.corners.partition_point(|corner| corner.total < total);
        let next = self.corners.get(after).map_or(Inner::MAX, |corner| corner.at);
        after.checked_sub(1).map_or(0, |index| self.corners[index].reaches(total).min(next))
    }

    /// The highest level at which they are due no more.
    fn highest(&self, total: Inner) -> Inner {
        let after = self.corners.partition_point(|corner| corner.total <= total);
        let next = self.corners.get(after).map_or(Inner::MAX, |corner| corner.at);
        after.checked_sub(1).map_or(0, |index| self.corners[index].reaches(total).min(next))
    }

    /// What the class is due at a level around it.
    fn due(&self, around: Inner) -> Inner {
        around.saturating_mul(Inner::from(self.weight.get())).max(self.least)
    }

    /// The level inside from a level around on.
    fn after(&self, around: Inner) -> Inner {
        let due = around.saturating_mul(Inner::from(self.weight.get()));
        if due >= self.least { self.highest(due) } else { self.lowest(self.least) }
    }

    /// The scale of the class, by that of the class around it.
    fn scale(&self, around: &Scale) -> Scale {
        let weight = Inner::from(self.weight.get());
        // Levels at which it bends, with what the children are due there for those that are its own.
        let mut bends: Vec<(Level, Inner)> = (0..around.parts()).map(|part| (around.begin(part), Inner::MAX)).collect();
        let own = self.corners.iter().map(|corner| corner.total).filter(|total| *total > self.least);
        let level = |total: Inner| Some((around.reaches(total.div_ceil(weight))?, total));
        bends.extend(own.chain([self.least]).filter_map(level));
        bends.sort_unstable();
        bends.dedup_by_key(|(level, _)| *level);
        let bend = |(level, own): &(Level, Inner)| Bend {
            level: *level,
            before: self.lowest(self.due(around.before(*level)).min(*own)),
            after: self.after(around.at(*level)),
        };
        let mut bends: Vec<Bend> = bends.iter().map(bend).collect();
        if let Some((cap, end)) = self.cap.and_then(|cap| Some((cap, around.reaches(cap.div_ceil(weight))?))) {
            let at_cap = self.lowest(cap);
            bends.retain(|bend| bend.level < end);
            for Bend { before, after, .. } in &mut bends {
                (*before, *after) = ((*before).min(at_cap), (*after).min(at_cap));
            }
            bends.push(Bend { level: end, before: at_cap, after: at_cap });
            let on = ((BEHIND << (INNER_BITS - LEVEL_BITS)) * weight) / Inner::from(self.weights.max(1));
            return Scale::through(&bends, (end + BEHIND, at_cap.saturating_add(on)));
        }
        let behind = bends.last().map_or(0, |last| last.level) + BEHIND;
        Scale::through(&bends, (behind, self.lowest(self.due(around.at(behind)))))
    }
}

impl Corner {
    /// At which level the total is so much, if nothing bends before.
    fn reaches(&self, total: Inner) -> Inner {
        let more = total.saturating_sub(self.total);
        if more == 0 {
            return self.at;
        }
        more.checked_div(self.rise).map_or(Inner::MAX, |along| self.at.saturating_add(along))
    }
}
