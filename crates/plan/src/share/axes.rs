//! The scales along which flows of classes rise, and what each of them draws on.

use super::scale::{Scale, Slope};
use super::used::{Growth, Used};
use super::{Fine, INNER_SHIFT, Level, Problem, ResourceId};

/// All scales, at the parts that the level has come to.
pub(super) struct Axes<'a> {
    problem: &'a Problem,
    axes: Vec<Axis<'a>>,
    draws: Vec<Draw>,
    /// Index in `draws` of each use of a tunnel of a class.
    draw_of: Vec<u32>,
}

struct Axis<'a> {
    scale: &'a Scale,
    part: usize,
    draws: std::ops::Range<usize>,
}

/// What rises along a scale and draws on a resource.
struct Draw {
    resource: ResourceId,
    /// The sum of the weights.
    weight: u128,
}

impl<'a> Axes<'a> {
    pub(super) fn of(problem: &'a Problem) -> Axes<'a> {
        let mut draw_of = Vec::new();
        let mut draws: Vec<Draw> = Vec::new();
        let mut axes = Vec::with_capacity(problem.scales.len());
        if !problem.scales.is_empty() {
            draw_of.resize(problem.uses.len(), 0);
        }
        let mut flows: Vec<usize> = (0..problem.class_of.len()).collect();
        flows.sort_by_key(|flow| problem.class_of[*flow]);
        let mut flows = flows.into_iter().peekable();
        // Index in `draws` of each resource, for the class looked at.
        let mut known: Vec<u32> = vec![0; problem.limits.len()];
        for (class, scale) in problem.scales.iter().enumerate() {
            let begin = draws.len();
            while let Some(flow) = flows.next_if(|flow| problem.class_of[*flow].is_none_or(|of| of as usize <= class)) {
                if problem.class_of[flow].is_none() {
                    continue;
                }
                for tunnel in problem.tunnels_of(flow) {
                    let begins = problem.begins[tunnel] as usize;
                    for (at, resource) in problem.uses(tunnel).iter().enumerate() {
                        let index = known[*resource as usize] as usize;
                        let is_known =
                            index >= begin && draws.get(index).is_some_and(|draw| draw.resource == *resource);
                        let index = if is_known { index } else { draws.len() };
                        if !is_known {
                            draws.push(Draw { resource: *resource, weight: 0 });
                            known[*resource as usize] = index as u32;
                        }
                        draw_of[begins + at] = index as u32;
                    }
                }
            }
            axes.push(Axis { scale, part: 0, draws: begin..draws.len() });
        }
        Axes { problem, axes, draws, draw_of }
    }

    /// Back to level 0, with nothing that rises.
    pub(super) fn reset(&mut self) {
        self.axes.iter_mut().for_each(|axis| axis.part = 0);
        self.draws.iter_mut().for_each(|draw| draw.weight = 0);
    }

    /// The inner level of a class at a level that its next bend is not below.
    pub(super) fn inner(&self, class: u32, level: Level) -> u128 {
        let axis = &self.axes[class as usize];
        axis.scale.along(axis.part, level)
    }

    /// The level of the next bend of a class.
    pub(super) fn next(&self, class: u32) -> Option<Level> {
        let axis = &self.axes[class as usize];
        (axis.part + 1 < axis.scale.parts()).then(|| axis.scale.begin(axis.part + 1))
    }

    /// Lets more of a class, or less, rise over a tunnel: by weight. Resources have come to the level.
    pub(super) fn change(&mut self, class: u32, tunnel: usize, from: u128, to: u128, used: &mut [Used]) {
        let slope = self.slope(class);
        let begins = self.problem.begins[tunnel] as usize;
        for draw in &self.draw_of[begins..begins + self.problem.uses(tunnel).len()] {
            let draw = &mut self.draws[*draw as usize];
            let growth = &mut used[draw.resource as usize].growth;
            growth.take(Growth::on(slope, draw.weight));
            draw.weight = (draw.weight + to).saturating_sub(from);
            growth.add(Growth::on(slope, draw.weight));
        }
    }

    /// Goes on to the next part of a class; `sped` is told of each resource that grows faster now.
    pub(super) fn bend(
        &mut self,
        class: u32,
        level: Level,
        used: &mut [Used],
        mut sped: impl FnMut(ResourceId, Level),
    ) {
        let axis = &mut self.axes[class as usize];
        let (before, slow) = (axis.scale.along(axis.part, level), axis.scale.slope(axis.part));
        axis.part += 1;
        // What rounding left out.
        let more = axis.scale.along(axis.part, level).saturating_sub(before);
        let fast = axis.scale.slope(axis.part);
        for draw in self.draws[axis.draws.clone()].iter().filter(|draw| draw.weight > 0) {
            let of = &mut used[draw.resource as usize];
            of.advance(level);
            of.growth.take(Growth::on(slow, draw.weight));
            of.growth.add(Growth::on(fast, draw.weight));
            of.used =
                of.used.saturating_add(draw.weight.saturating_mul(more).min(Fine::MAX >> INNER_SHIFT) << INNER_SHIFT);
            if let Some(due) = of.earlier() {
                sped(draw.resource, due);
            }
        }
    }

    fn slope(&self, class: u32) -> Slope {
        let axis = &self.axes[class as usize];
        axis.scale.slope(axis.part)
    }
}
