//! Water-filling in floating point, of a flow for each tunnel: what the rounds look at. Curves by points are taken as straight, and
//! what is kept for the lowest tier and not used by it is not given to others; the allocation itself is filled in integers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::fill::Crossing;
use super::super::{Curve, Problem, RATE_MAX};

/// By how much a level may be missed, relatively.
const ROUNDING: f64 = 1e-12;

/// A problem as it is filled again and again.
pub(super) struct Quick<'a> {
    problem: &'a Problem,
    crossing: Crossing,
    tiers: &'a [u8],
    /// By flow, what a level more brings to all of it.
    slopes: Vec<f64>,
    /// By tunnel, what its flow is guaranteed over it.
    floors: Vec<f64>,
}

/// What was found.
pub(super) struct Filled {
    /// By tier and resource, the level at which it was full for the tier; infinite where it was not.
    pub(super) levels: Vec<f64>,
    /// By tunnel, in b/s.
    pub(super) rates: Vec<f64>,
}

/// A resource, or the cap of a flow, which come after the resources.
#[derive(Clone, Copy)]
struct Use {
    /// What was left of it at the level `at`.
    left: f64,
    at: f64,
    /// What a level more takes of it.
    slope: f64,
    /// How many tunnels rise over it.
    rising: u32,
    is_full: bool,
}

impl Use {
    fn advance(&mut self, level: f64) {
        self.left -= self.slope * (level - self.at);
        self.at = level;
    }

    fn full_at(&self) -> f64 {
        self.at + self.left.max(0.0) / self.slope
    }
}

/// The state of a fill.
struct Fill<'a> {
    quick: &'a Quick<'a>,
    uses: Vec<Use>,
    /// By tunnel, what a level more brings to it, and the level from which on; 0 where it does not rise.
    slopes: Vec<f64>,
    starts: Vec<f64>,
    rates: Vec<f64>,
    /// When a resource may be full, by the bits of the level, which are in the order of levels: never later than it is.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Quick<'a> {
    pub(super) fn of(problem: &'a Problem, tiers: &'a [u8]) -> Quick<'a> {
        let slope = |curve: &Curve| match curve {
            Curve::Weighted { weight, .. } => f64::from(weight.get()),
            Curve::Points(_) => {
                let last = curve.corners().and_then(<[_]>::last).copied().unwrap_or((1, 0));
                last.1 as f64 / last.0 as f64
            }
        };
        let slopes = problem.demands.iter().map(|demand| slope(&demand.curve)).collect();
        let mut floors = vec![0.0; problem.tunnels()];
        for (flow, demand) in problem.demands.iter().enumerate() {
            floors[problem.tunnels_of(flow).start] = demand.floor as f64;
        }
        Quick { problem, crossing: Crossing::of(problem), tiers, slopes, floors }
    }

    /// Fills all tiers with these parts of tunnels.
    pub(super) fn fill(&self, parts: &[f64]) -> Filled {
        let (problem, resources) = (self.problem, self.problem.limits.len());
        let mut levels = vec![f64::INFINITY; self.tiers.len() * resources];
        let capacities = problem.limits.iter().map(|limit| limit.capacity);
        let caps = problem.demands.iter().map(|demand| demand.curve.most());
        let free = |most: u64| Use { left: most as f64, at: 0.0, slope: 0.0, rising: 0, is_full: false };
        let mut fill = Fill {
            quick: self,
            uses: capacities.chain(caps).map(free).collect(),
            slopes: vec![0.0; problem.tunnels()],
            starts: vec![0.0; problem.tunnels()],
            rates: self.floors.clone(),
            due: BinaryHeap::new(),
        };
        for (tunnel, floor) in self.floors.iter().enumerate().filter(|(_, floor)| **floor > 0.0) {
            fill.each_use(tunnel, |of, _| of.left -= floor);
        }
        for (tier, levels) in levels.chunks_mut(resources).enumerate() {
            let keeps = tier + 1 < self.tiers.len();
            let kept = |of: usize| if keeps { problem.limits[of].floor as f64 } else { 0.0 };
            (0..resources).for_each(|of| fill.uses[of].left -= kept(of));
            fill.tier(self.tiers[tier], parts, levels);
            (0..resources).for_each(|of| fill.uses[of].left += kept(of));
        }
        Filled { levels, rates: fill.rates }
    }
}

impl Fill<'_> {
    /// For what a tunnel draws on, with its index.
    fn each_use(&mut self, tunnel: usize, mut with: impl FnMut(&mut Use, usize)) {
        let problem = self.quick.problem;
        problem.uses(tunnel).iter().for_each(|of| with(&mut self.uses[*of as usize], *of as usize));
        let flow = problem.flow_of(tunnel);
        if problem.demands[flow].curve.most() < RATE_MAX {
            let cap = problem.limits.len() + flow;
            with(&mut self.uses[cap], cap);
        }
    }

    fn tier(&mut self, tier: u8, parts: &[f64], levels: &mut [f64]) {
        let Quick { problem, slopes, floors, .. } = self.quick;
        for of in &mut self.uses {
            (of.at, of.slope, of.rising, of.is_full) = (0.0, 0.0, 0, false);
        }
        // Who has a floor rises from the level at which that is its due.
        let mut later: Vec<(u64, usize, f64)> = Vec::new();
        for (flow, _) in problem.demands.iter().enumerate().filter(|(_, demand)| demand.tier == tier) {
            for tunnel in problem.tunnels_of(flow) {
                let slope = slopes[flow] * parts[tunnel];
                if slope <= 0.0 {
                    continue;
                }
                let start = floors[tunnel] / slope;
                self.starts[tunnel] = start;
                if start > 0.0 {
                    later.push((start.to_bits(), tunnel, slope));
                } else {
                    self.slopes[tunnel] = slope;
                    self.each_use(tunnel, |of, _| (of.slope, of.rising) = (of.slope + slope, of.rising + 1));
                }
            }
        }
        later.sort_unstable_by_key(|(start, tunnel, _)| Reverse((*start, *tunnel)));
        let rising = self.uses.iter().enumerate().filter(|(_, of)| of.rising > 0);
        self.due = rising.map(|(index, of)| Reverse((of.full_at().to_bits(), index as u32))).collect();
        loop {
            let next = self.due.peek().map(|Reverse(due)| *due);
            match (next, later.last().copied()) {
                (next, Some((start, tunnel, slope))) if next.is_none_or(|next| start < next.0) => {
                    later.pop();
                    self.begin(tunnel, slope);
                }
                (Some((due, index)), _) => {
                    self.due.pop();
                    let of = self.uses[index as usize];
                    if of.is_full || of.rising == 0 {
                        continue;
                    }
                    let (due, is_due) = (f64::from_bits(due), of.full_at());
                    if is_due > due * (1.0 + ROUNDING) {
                        self.due.push(Reverse((is_due.to_bits(), index)));
                        continue;
                    }
                    self.stop_over(index as usize, due);
                    if let Some(level) = levels.get_mut(index as usize) {
                        *level = due;
                    }
                }
                (None, _) => break,
            }
        }
    }

    /// A tunnel begins to rise above its floor, if nothing on it is full.
    fn begin(&mut self, tunnel: usize, slope: f64) {
        let level = self.starts[tunnel];
        let mut is_free = true;
        self.each_use(tunnel, |of, _| is_free &= !of.is_full);
        if !is_free {
            return;
        }
        self.slopes[tunnel] = slope;
        let mut due = Vec::new();
        self.each_use(tunnel, |of, index| {
            of.advance(level);
            (of.slope, of.rising) = (of.slope + slope, of.rising + 1);
            due.push(Reverse((of.full_at().to_bits(), index as u32)));
        });
        self.due.extend(due);
    }

    fn stop_over(&mut self, index: usize, level: f64) {
        let quick = self.quick;
        self.uses[index].is_full = true;
        match index.checked_sub(quick.problem.limits.len()) {
            Some(flow) => quick.problem.tunnels_of(flow).for_each(|tunnel| self.stop(tunnel, level)),
            None => quick.crossing.over(index as u32).iter().for_each(|tunnel| self.stop(*tunnel as usize, level)),
        }
    }

    fn stop(&mut self, tunnel: usize, level: f64) {
        let slope = std::mem::take(&mut self.slopes[tunnel]);
        if slope <= 0.0 {
            return;
        }
        self.rates[tunnel] += slope * (level - self.starts[tunnel]);
        self.each_use(tunnel, |of, _| {
            of.advance(level);
            of.rising -= 1;
            of.slope = if of.rising == 0 { 0.0 } else { of.slope - slope };
        });
    }
}
