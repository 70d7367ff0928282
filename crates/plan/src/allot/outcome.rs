//! An allocation, asked by the names of the files.

use std::collections::BTreeMap;

use super::{Outcome, Setup, Snapshot};
use crate::certificate::{self, Broken};
use crate::share::{Allocation, FINE_BITS, Fine, LEVEL_BITS, Level, ResourceId};

/// Levels so near to each other are one: those of a tie are found in steps.
const STEPS: Level = 1 << 16;
/// What is looked away from in a rate, 2⁻¹⁰ b/s, for each tunnel that has a part in it.
const TINY: Fine = 1 << (FINE_BITS - 10);

/// What is used of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// By all flows, in b/s.
    pub used: u64,
    /// By class, in b/s, in the order of the file; what has no class stands first.
    pub by_class: Vec<(Option<usize>, u64)>,
    /// Whether there is nothing left of it.
    pub is_full: bool,
}

/// Why a flow has no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It has all that it asks for.
    HasAll,
    /// No path leads where it goes.
    NoPath,
    /// On each of its paths something is full, or more where they are full at one level.
    Back(Vec<Vec<ResourceId>>),
}

impl<'a> Outcome<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, setup: Setup, allocation: Allocation) -> Outcome<'a> {
        let mut over = vec![Vec::new(); setup.resources.len()];
        for tunnel in 0..setup.problem.tunnels() {
            setup.problem.uses(tunnel).iter().for_each(|of| over[*of as usize].push(tunnel as u32));
        }
        let fulls = allocation.bottlenecks.iter().map(|full| ((full.resource, full.tier), full.level));
        let stops = fulls.collect();
        Outcome { snapshot, setup, allocation, over, stops }
    }

    /// Checks the allocation from the definition.
    ///
    /// # Errors
    /// The first thing that is not as it should be.
    pub fn check(&self) -> Result<(), Broken> {
        if self.setup.is_adaptive {
            return certificate::check_adaptive(&self.setup.problem, &self.allocation);
        }
        certificate::check(&self.setup.problem, &self.allocation)
    }

    /// The rate of a flow of the file over each of its paths, in b/s.
    #[must_use]
    pub fn rates(&self, flow: usize) -> &[u64] {
        let tunnels = self.setup.number(flow).map(|number| self.setup.problem.tunnels_of(number));
        tunnels.map_or(&[], |tunnels| &self.allocation.rates[tunnels])
    }

    /// The rate of a flow of the file, in b/s.
    #[must_use]
    pub fn rate(&self, flow: usize) -> u64 {
        self.rates(flow).iter().sum()
    }

    /// The rate of all flows together, in b/s.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.allocation.rates.iter().sum()
    }

    /// What is used of a resource.
    #[must_use]
    pub fn used(&self, resource: ResourceId) -> Use {
        let mut by_class = BTreeMap::new();
        for (flow, rate) in self.holders(resource) {
            *by_class.entry(self.snapshot.shares.flows[flow].class).or_insert(0) += rate;
        }
        let used = by_class.values().sum();
        Use { used, by_class: by_class.into_iter().collect(), is_full: self.is_full(resource) }
    }

    /// The flows of the file that have something of a resource, with their rates over it in b/s, the largest first.
    #[must_use]
    pub fn holders(&self, resource: ResourceId) -> Vec<(usize, u64)> {
        let mut holders = BTreeMap::new();
        for tunnel in &self.over[resource as usize] {
            let tunnel = *tunnel as usize;
            let flow = self.setup.flow(self.setup.problem.flow_of(tunnel));
            *holders.entry(flow).or_insert(0) += self.allocation.rates[tunnel];
        }
        let mut holders: Vec<(usize, u64)> = holders.into_iter().filter(|(_, rate)| *rate > 0).collect();
        holders.sort_by_key(|(flow, rate)| (std::cmp::Reverse(*rate), *flow));
        holders
    }

    /// Whether there is nothing left of a resource that somebody draws on.
    #[must_use]
    pub fn is_full(&self, resource: ResourceId) -> bool {
        let over = &self.over[resource as usize];
        let used: Fine = over.iter().map(|tunnel| self.allocation.exact[*tunnel as usize]).sum();
        let capacity = Fine::from(self.setup.problem.limits()[resource as usize].capacity) << FINE_BITS;
        !over.is_empty() && used + self.blur(resource) >= capacity
    }

    /// What steps of levels leave open in what is used of a resource, and what is kept for the lowest tier, which is whole b/s.
    fn blur(&self, resource: ResourceId) -> Fine {
        let kept = if self.setup.problem.limits()[resource as usize].floor > 0 { 1 << FINE_BITS } else { 0 };
        TINY.saturating_mul(1 + self.over[resource as usize].len() as Fine) + kept
    }

    /// Whether a flow of the problem has all that it asks for, but for what steps of levels leave open.
    pub(super) fn has_all(&self, number: usize) -> bool {
        let problem = &self.setup.problem;
        let rate: Fine = self.allocation.exact[problem.tunnels_of(number)].iter().sum();
        rate + TINY >= Fine::from(problem.demands()[number].curve.most()) << FINE_BITS
    }

    /// What holds a flow of the file back.
    #[must_use]
    pub fn held(&self, flow: usize) -> Held {
        let Some(number) = self.setup.number(flow) else { return Held::NoPath };
        if self.has_all(number) {
            return Held::HasAll;
        }
        let tunnels = self.setup.problem.tunnels_of(number);
        Held::Back(tunnels.map(|tunnel| self.stopped_by(number, tunnel)).collect())
    }

    /// What was full first on a tunnel of a flow when its tier was served; of several at one level all.
    fn stopped_by(&self, number: usize, tunnel: usize) -> Vec<ResourceId> {
        let problem = &self.setup.problem;
        let tier = problem.demands()[number].tier;
        let uses = problem.uses(tunnel);
        let level = |of: &ResourceId| self.stops.get(&(*of, tier)).map(|level| (*of, *level));
        let on_way: Vec<(ResourceId, Level)> = uses.iter().filter_map(level).collect();
        match on_way.iter().map(|(_, level)| *level).min() {
            Some(first) => on_way.into_iter().filter(|(_, level)| *level <= first + STEPS).map(|(of, _)| of).collect(),
            // It did not even begin to rise: where nothing can be carried, nothing is asked for.
            None => uses.iter().copied().filter(|of| self.is_full(*of)).collect(),
        }
    }
}

/// A level in b/s of a flow of weight 1.
pub(super) fn bps_of(level: Level) -> u64 {
    u64::try_from(level >> LEVEL_BITS).unwrap_or(u64::MAX)
}
