//! At which level a flow has what it has, from the definition of what it is due.

use std::num::NonZeroU32;

use super::classes::{Classes, End};
use super::{STEPS, TINY, fine};
use crate::share::{Curve, FINE_BITS, Fine, LEVEL_BITS, Level, Problem, RATE_MAX};

/// How a flow in a class that lacks a part of its floor rises. Which ones do is not looked at: where floors do not fit, all may.
const ALONE: Curve = Curve::Weighted { weight: NonZeroU32::MIN, most: RATE_MAX };

/// What the flows of a problem are due.
pub(super) struct Levels<'a> {
    problem: &'a Problem,
    classes: Classes,
    /// By flow: its floor, and its part of those of its classes.
    floors: Vec<Fine>,
    floors_fit: bool,
}

impl<'a> Levels<'a> {
    pub(super) fn of(problem: &'a Problem) -> Levels<'a> {
        let classes = Classes::of(problem);
        let floor = |flow: usize| {
            let demand = &problem.demands()[flow];
            fine(demand.floor).max(in_class(problem, flow).map_or(0, |(class, weight)| {
                let most = demand.curve.most().min(Classes::carried(problem, flow));
                classes.floor(class, weight).min(fine(most))
            }))
        };
        let floors: Vec<Fine> = (0..problem.demands().len()).map(floor).collect();
        let floors_fit = fit(problem, &floors);
        Levels { problem, classes, floors, floors_fit }
    }

    /// What a flow should have at level 0.
    pub(super) fn floor(&self, flow: usize) -> Fine {
        self.floors[flow]
    }

    /// Whether there is room for all floors.
    pub(super) fn floors_fit(&self) -> bool {
        self.floors_fit
    }

    /// What is looked away from in the rate of a flow. Slopes of curves are known to 2⁻⁴⁸, so that after 70 Tb/s it is a quarter of
    /// a b/s.
    pub(super) fn blur(&self, flow: usize) -> Fine {
        let along = self.curve(flow).corners().and_then(<[_]>::last).map_or(0, |last| last.0);
        TINY + (Fine::from(along) << LEVEL_BITS)
    }

    /// The most that a level of 1 b/s brings a flow, in b/s, rounded up.
    pub(super) fn step(&self, flow: usize) -> u128 {
        match in_class(self.problem, flow) {
            // Nobody in a class rises faster than all of it.
            Some((class, _)) => self.classes.top_weight(class),
            None => step(self.curve(flow)),
        }
    }

    /// The lowest level at which a flow has a rate.
    pub(super) fn lowest(&self, flow: usize, rate: Fine) -> Level {
        let Some((class, weight)) = in_class(self.problem, flow) else { return lowest(self.curve(flow), rate) };
        let level = self.classes.level(class, weight, rate, End::Lowest);
        let level = level.saturating_sub(class_steps(level));
        if self.floors_fit { level } else { level.min(lowest(&ALONE, rate)) }
    }

    /// The highest level at which a flow has no more than a rate that is below its most.
    pub(super) fn highest(&self, flow: usize, rate: Fine) -> Level {
        let Some((class, weight)) = in_class(self.problem, flow) else {
            return highest(self.curve(flow), rate) + STEPS;
        };
        let level = self.classes.level(class, weight, rate, End::Highest);
        let level = level.saturating_add(class_steps(level));
        if self.floors_fit { level } else { level.max(highest(&ALONE, rate) + STEPS) }
    }

    fn curve(&self, flow: usize) -> &'a Curve {
        &self.problem.demands()[flow].curve
    }
}

/// The class of a flow, and its weight there.
fn in_class(problem: &Problem, flow: usize) -> Option<(usize, NonZeroU32)> {
    let Curve::Weighted { weight, .. } = &problem.demands()[flow].curve else { return None };
    problem.class_of(flow).map(|class| (class, *weight))
}

/// What is looked away from in the level of a flow in a class.
fn class_steps(level: Level) -> Level {
    (1 << 10) + (level >> 44)
}

fn fit(problem: &Problem, floors: &[Fine]) -> bool {
    let mut sums = vec![0 as Fine; problem.limits().len()];
    for (flow, floor) in floors.iter().enumerate() {
        // Parts of floors of classes are no whole numbers.
        let blur = if *floor > fine(problem.demands()[flow].floor) { TINY } else { 0 };
        let first = problem.tunnels_of(flow).start;
        for of in problem.uses(first).iter().map(|of| *of as usize) {
            sums[of] = sums[of].saturating_add(*floor).saturating_add(blur);
        }
    }
    problem.limits().iter().zip(sums).all(|(limit, sum)| sum <= fine(limit.capacity))
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
