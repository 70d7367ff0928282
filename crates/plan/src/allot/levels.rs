//! The bottlenecks of an outcome, level by level, and what more of each would bring.

use std::cmp::Reverse;

use num_rational::BigRational;

use super::outcome::bps_of;
use super::{Held, Outcome};
use crate::bottleneck::{Change, Structure};
use crate::share::{FINE_BITS, Fine, RATE_MAX, ResourceId};

/// Resources of which it is found out what more of them brings; each takes some turns of the solver.
pub const TRIED_MAX: usize = 64;
/// A change that is small, in b/s, where derivatives are differences.
const SMALL: u64 = 1000;
/// Gradients are printed in millionths.
const MILLION: i64 = 1_000_000;

/// A resource that is full, and the flows that it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Which.
    pub resource: ResourceId,
    /// The tier of the flows.
    pub tier: u8,
    /// The level at which it was full: what a flow of weight 1 has there, in b/s.
    pub level: u64,
    /// The flows of the file that it stopped on one of their paths, with their rates in b/s, the largest first.
    pub flows: Vec<(usize, u64)>,
}

/// What all flows together gain by a small change of a resource, in b/s for each b/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    /// By more of it.
    pub more: f64,
    /// What they lose by less of it.
    pub less: f64,
}

/// More of a resource, up to where it stops nobody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upgrade {
    /// Which.
    pub resource: ResourceId,
    /// The gain by the first b/s of it.
    pub gradient: f64,
    /// What it has, in b/s.
    pub from: u64,
    /// What it is of use to give it, in b/s.
    pub to: u64,
    /// What all flows together gain then, in b/s.
    pub gain: i128,
}

impl Outcome<'_> {
    /// The resources that stopped a flow, in the order of their levels, tier by tier.
    #[must_use]
    pub fn levels(&self) -> Vec<Stopped> {
        let mut flows = vec![Vec::new(); self.setup.resources.len()];
        for (flow, of_flow) in self.snapshot.shares.flows.iter().enumerate() {
            let Held::Back(paths) = self.held(flow) else { continue };
            let mut by: Vec<ResourceId> = paths.concat();
            by.sort_unstable();
            by.dedup();
            let tier = self.snapshot.shares.tier(of_flow);
            by.into_iter().for_each(|of| flows[of as usize].push((tier, flow, self.rate(flow))));
        }
        let stopped = |full: &crate::share::Bottleneck| {
            let of_tier = flows[full.resource as usize].iter().filter(|(tier, ..)| *tier == full.tier);
            let mut flows: Vec<(usize, u64)> = of_tier.map(|(_, flow, rate)| (*flow, *rate)).collect();
            flows.sort_by_key(|(flow, rate)| (Reverse(*rate), *flow));
            Stopped {
                resource: full.resource,
                tier: full.tier,
                level: bps_of(full.level).saturating_mul(u64::from(self.setup.weights.unit)),
                flows,
            }
        };
        let all = self.allocation.bottlenecks.iter().map(stopped);
        all.filter(|stopped| !stopped.flows.is_empty()).collect()
    }

    /// What a little more and a little less of some resources changes for all flows together. Exact fractions where there is a
    /// bottleneck structure; where flows have several paths or are in classes, the differences that a small change makes.
    #[must_use]
    pub fn gradients(&self, resources: &[ResourceId]) -> Vec<Gradient> {
        if let Ok(structure) = Structure::of(&self.setup.problem, &self.allocation) {
            let of = |resource: &ResourceId| {
                let change = Change::Capacity(*resource);
                let [more, less] = [true, false].map(|more| rounded(&structure.gradient(change, more)));
                Gradient { more, less: -less }
            };
            return resources.iter().map(of).collect();
        }
        let now = self.exactly(&[]);
        let of = |resource: &ResourceId| {
            let capacity = self.setup.problem.limits()[*resource as usize].capacity;
            let (up, down) = (capacity.saturating_add(SMALL).min(RATE_MAX), capacity.saturating_sub(SMALL));
            let per = |other: Fine, to: u64| difference(other, now) / (capacity.abs_diff(to).max(1) as f64);
            let [more, less] = [up, down].map(|to| per(self.exactly(&[(*resource, to)]), to));
            Gradient { more: clean(more), less: clean(-less) }
        };
        resources.iter().map(of).collect()
    }

    /// More of one resource at a time, that which gains most for each b/s first; what gains nothing alone is left out. Of the
    /// first [`TRIED_MAX`] that stop flows, those that stop most.
    #[must_use]
    pub fn upgrades(&self) -> Vec<Upgrade> {
        let mut held: Vec<(usize, ResourceId)> =
            self.levels().into_iter().map(|stopped| (stopped.flows.len(), stopped.resource)).collect();
        held.sort_by_key(|(flows, resource)| (Reverse(*flows), *resource));
        let mut tried: Vec<ResourceId> = Vec::new();
        for (_, resource) in held {
            if tried.len() < TRIED_MAX && !tried.contains(&resource) {
                tried.push(resource);
            }
        }
        let gradients = self.gradients(&tried);
        let now: i128 = i128::from(self.total());
        let upgrade = |(resource, gradient): (&ResourceId, Gradient)| {
            let from = self.setup.problem.limits()[*resource as usize].capacity;
            let freed = self.setup.solve_with(&[(*resource, RATE_MAX)]);
            let over = &self.over[*resource as usize];
            let to = over.iter().map(|tunnel| freed.rates[*tunnel as usize]).sum::<u64>().min(RATE_MAX);
            let then = self.setup.solve_with(&[(*resource, to)]);
            let gain = then.rates.iter().map(|rate| i128::from(*rate)).sum::<i128>() - now;
            Upgrade { resource: *resource, gradient: gradient.more, from, to, gain }
        };
        let mut upgrades: Vec<Upgrade> = tried.iter().zip(gradients).map(upgrade).collect();
        upgrades.retain(|upgrade| upgrade.to > upgrade.from && upgrade.gain > 0);
        upgrades.sort_by(|a, b| {
            let by_gradient = b.gradient.total_cmp(&a.gradient);
            by_gradient.then(b.gain.cmp(&a.gain)).then(a.resource.cmp(&b.resource))
        });
        upgrades
    }

    /// What all flows together have, exactly, with other capacities.
    fn exactly(&self, capacities: &[(ResourceId, u64)]) -> Fine {
        self.setup.solve_with(capacities).exact.iter().sum()
    }
}

/// In b/s.
fn difference(one: Fine, other: Fine) -> f64 {
    let bps = one.abs_diff(other) as f64 / (1_u128 << FINE_BITS) as f64;
    if one < other { -bps } else { bps }
}

/// Without what steps of levels leave.
fn clean(gradient: f64) -> f64 {
    (gradient * 1e4).round() / 1e4 + 0.0
}

fn rounded(exact: &BigRational) -> f64 {
    let millionths = (exact * BigRational::from_integer(MILLION.into())).round().to_integer();
    // A sum of fractions of a b/s: as many as there are flows at most.
    i64::try_from(millionths).map_or(f64::INFINITY, |millionths| millionths as f64 / MILLION as f64)
}
