//! Why a flow has its rate, and what would give it more: each remedy is tried before it is told.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use model::shares::Shares;

use super::{Held, Of, Outcome, build};
use crate::share::{Allocation, RATE_MAX, ResourceId};

/// Full resources elsewhere that are tried one by one.
pub const ALSO_MAX: usize = 64;
/// How often it is looked whether several resources together need less.
const TURNS_MAX: usize = 3;

/// Why a flow has its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In b/s.
    pub rate: u64,
    /// What holds it back.
    pub held: Held,
    /// What would give it more, that which gives most first.
    pub remedies: Vec<Remedy>,
}

/// Something that gives a flow more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// More of some resources together.
    Raise {
        /// Which, and what they must have, in b/s.
        raise: Vec<(ResourceId, u64)>,
        /// What the flow has then, in b/s: all that these resources keep from it.
        rate: u64,
        /// Other full resources that give it as much when one of them alone is raised by as much.
        also: Vec<ResourceId>,
    },
    /// A higher cap of the flow itself.
    Cap {
        /// How high, in b/s: what it has then.
        rate: u64,
    },
}

impl Remedy {
    /// What the flow has then, in b/s.
    #[must_use]
    pub fn rate(&self) -> u64 {
        match self {
            Remedy::Raise { rate, .. } | Remedy::Cap { rate } => *rate,
        }
    }

    /// The resources that are raised.
    fn of(&self) -> Vec<ResourceId> {
        match self {
            Remedy::Raise { raise, .. } => raise.iter().map(|(of, _)| *of).collect(),
            Remedy::Cap { .. } => Vec::new(),
        }
    }
}

impl Outcome<'_> {
    /// Explains the rate of a flow of the file.
    #[must_use]
    pub fn why(&self, flow: usize) -> Reason {
        let held = self.held(flow);
        let rate = self.rate(flow);
        let mut remedies: Vec<Remedy> = match (&held, self.setup.number(flow)) {
            (Held::HasAll, Some(number)) => self.uncapped(number, rate).into_iter().collect(),
            (Held::Back(paths), Some(number)) => {
                let mut tried: Vec<&[ResourceId]> = Vec::new();
                for by in paths.iter().map(Vec::as_slice).filter(|by| !by.is_empty()) {
                    if !tried.contains(&by) {
                        tried.push(by);
                    }
                }
                tried.into_iter().filter_map(|by| self.raised(number, rate, by)).collect()
            }
            _ => Vec::new(),
        };
        remedies.sort_by_key(|remedy| Reverse(remedy.rate()));
        // More of the same once is enough.
        let mut kept: Vec<Remedy> = Vec::with_capacity(remedies.len());
        for remedy in remedies {
            if !kept.iter().any(|other| other.of() == remedy.of()) {
                kept.push(remedy);
            }
        }
        Reason { rate, held, remedies: kept }
    }

    /// What a flow that has all it asks for would have if it asked for more.
    fn uncapped(&self, number: usize, rate: u64) -> Option<Remedy> {
        let asks = |most: u64| self.total_of(&self.setup.solve_other(&self.setup.with_most(number, most)), number);
        let freely = asks(RATE_MAX);
        (freely > rate && asks(freely) == freely).then_some(Remedy::Cap { rate: freely })
    }

    /// What more of what stops a flow gives it. Where something else stops it then before it has more, that is raised too.
    fn raised(&self, number: usize, rate: u64, by: &[ResourceId]) -> Option<Remedy> {
        let limits = self.setup.problem.limits();
        let mut freed: Vec<ResourceId> = by.to_vec();
        // Each turn frees something more on its way.
        let freely = loop {
            let unlimited: Vec<(ResourceId, u64)> = freed.iter().map(|of| (*of, RATE_MAX)).collect();
            let freely = self.setup.solve_with(&unlimited);
            if self.total_of(&freely, number) > rate {
                break freely;
            }
            freed.push(self.next_stop(number, &freely, &freed)?);
        };
        let needed = |of: &ResourceId| {
            let used: u128 =
                self.over[*of as usize].iter().map(|tunnel| u128::from(freely.rates[*tunnel as usize])).sum();
            (*of, u64::try_from(used).map_or(RATE_MAX, |used| used.clamp(limits[*of as usize].capacity, RATE_MAX)))
        };
        let raise: Vec<(ResourceId, u64)> = freed.iter().map(needed).collect();
        let then = self.total_of(&self.setup.solve_with(&raise), number);
        if then <= rate {
            return None;
        }
        let raise = self.least(number, then, raise);
        let then = self.total_of(&self.setup.solve_with(&raise), number);
        let more = raise.iter().map(|(of, to)| to - limits[*of as usize].capacity).max().unwrap_or(0);
        let others = (0..limits.len() as ResourceId).filter(|of| !freed.contains(of) && self.is_full(*of));
        let gives = |other: &ResourceId| {
            let to = limits[*other as usize].capacity.saturating_add(more);
            self.total_of(&self.setup.solve_with(&[(*other, to)]), number) >= then
        };
        Some(Remedy::Raise { raise, rate: then, also: others.take(ALSO_MAX).filter(gives).collect() })
    }

    /// The same without what is not needed for a flow to have so much, down to the b/s: of each resource in turn, and again as long
    /// as less of one makes others need less, at most [`TURNS_MAX`] times.
    fn least(&self, number: usize, then: u64, mut raise: Vec<(ResourceId, u64)>) -> Vec<(ResourceId, u64)> {
        for _ in 0..TURNS_MAX {
            let before = raise.clone();
            for at in 0..raise.len() {
                self.lower(number, then, &mut raise, at);
            }
            if raise.len() == 1 || raise == before {
                break;
            }
        }
        raise.retain(|(of, to)| *to > self.setup.problem.limits()[*of as usize].capacity);
        raise
    }

    /// Lowers what one resource must have to what is enough.
    fn lower(&self, number: usize, then: u64, raise: &mut [(ResourceId, u64)], at: usize) {
        let (of, most) = raise[at];
        let gives = |to: u64| {
            raise[at].1 = to;
            self.total_of(&self.setup.solve_with(raise), number)
        };
        raise[at].1 = least_of(self.setup.problem.limits()[of as usize].capacity, most, then, gives);
    }

    /// What stops a flow first on a tunnel over which something was freed.
    fn next_stop(&self, number: usize, freely: &Allocation, freed: &[ResourceId]) -> Option<ResourceId> {
        let problem = &self.setup.problem;
        let is_freed = |of: &ResourceId| freed.contains(of);
        let freer =
            problem.tunnels_of(number).map(|tunnel| problem.uses(tunnel)).filter(|uses| uses.iter().any(is_freed));
        let on_way: BTreeSet<ResourceId> = freer.flatten().copied().filter(|of| !is_freed(of)).collect();
        let tier = problem.demands()[number].tier;
        let stops = freely.bottlenecks.iter().find(|full| full.tier == tier && on_way.contains(&full.resource));
        stops.map(|full| full.resource)
    }

    fn total_of(&self, allocation: &Allocation, number: usize) -> u64 {
        allocation.rates[self.setup.problem.tunnels_of(number)].iter().sum()
    }

    /// The least rate of the link that a resource is a way of, in b/s, with which it may be filled so far; `None` if it is none, or
    /// no rate is enough.
    #[must_use]
    pub fn rate_for(&self, resource: ResourceId, capacity: u64) -> Option<u64> {
        let Of::Link(edge) = self.setup.resources[resource as usize].of else { return None };
        let shares: &Shares = &self.snapshot.shares;
        let fills = |rate: u64| build::fillable(&self.snapshot.network, shares, edge / 2, rate) >= capacity;
        // It grows with the rate, so that halving finds it.
        let (mut low, mut high) = (capacity.saturating_sub(1), RATE_MAX);
        if !fills(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fills(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }
}

/// The least number from `low` to `high` for which something gives so much; it never gives less for more, and gives that for `high`. As what
/// it gives is nearly straight from bend to bend, lines find it in a few turns; every third halves what is left.
fn least_of(low: u64, high: u64, then: u64, mut gives: impl FnMut(u64) -> u64) -> u64 {
    let (mut low, mut high) = (low, high);
    if low == high {
        return high;
    }
    let mut had = gives(low);
    if had >= then {
        return low;
    }
    // Mostly it is all needed.
    if high - low > 1 && gives(high - 1) < then {
        return high;
    }
    // The point below the last one, for the slope there.
    let mut before: Option<(u64, u64)> = None;
    for turn in 0_u32.. {
        if high - low <= 1 {
            break;
        }
        let by_line = before.filter(|(_, gave)| turn % 3 > 0 && had > *gave).map(|(at, gave)| {
            let along = u128::from(then - had) * u128::from(low - at);
            u64::try_from(along.div_ceil(u128::from(had - gave))).map_or(high, |more| low.saturating_add(more))
        });
        // The first is near, to see the slope.
        let other = if before.is_none() { low + (high - low) / 256 } else { low + (high - low) / 2 };
        let to = by_line.unwrap_or(other).clamp(low + 1, high - 1);
        let has = gives(to);
        if has < then {
            before = Some((low, had));
            (low, had) = (to, has);
            continue;
        }
        high = to;
        // Rounding moves it by some b/s: down in growing steps to where it is too little.
        let mut step = 1;
        while by_line.is_some() && step < high - low {
            let has = gives(high - step);
            if has < then {
                (low, had) = (high - step, has);
                break;
            }
            high -= step;
            step *= 4;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::least_of;

    #[test]
    fn the_least_is_found_in_a_few_turns() {
        let bent = |to: u64| if to < 1_000_000 { to / 3 } else { 333_333 + (to - 1_000_000) / 7 };
        for then in [1, 2, 333_332, 333_333, 333_334, 1_000_000_007, 900_000_000_000] {
            let mut turns = 0;
            let most = 10_000_000_000_000;
            let found = least_of(0, most, then, |to| {
                turns += 1;
                bent(to)
            });
            assert!(bent(found) >= then && bent(found - 1) < then, "{then}: {found}");
            assert!(turns <= 60, "{then}: {turns} turns");
        }
        assert_eq!(least_of(5, 5, 9, |_| 9), 5);
        assert_eq!(least_of(5, 6, 9, |to| to + 3), 6);
        assert_eq!(least_of(5, 100, 9, |to| to + 4), 5);
        assert_eq!(least_of(5, 100, 104, |to| to + 4), 100);
        // A jump, where lines say nothing.
        assert_eq!(least_of(0, u64::MAX, 9, |to| if to >= 1 << 40 { 9 } else { 0 }), 1 << 40);
    }
}
