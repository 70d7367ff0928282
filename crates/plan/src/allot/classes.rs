//! What classes have, beside what their weights give them.

use std::collections::BTreeMap;

use super::Outcome;
use crate::share::{Curve, Demand, Limit, Problem, RATE_MAX, ResourceId, solve};

/// What a class, or a flow in it, has of what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What it could use, in b/s: its cap, and no more than each of its flows would have alone.
    pub asks: u64,
    /// What its weight gives it, in b/s, of what it has together with those beside it: those of the same parent, or of the same tier
    /// at the top.
    pub due: u64,
    /// What it has, in b/s.
    pub has: u64,
}

/// One of those that share what a class has.
struct Child {
    /// Its class, if it is one.
    class: Option<usize>,
    demand: Demand,
    has: u64,
}

impl Outcome<'_> {
    /// What each class has, with all below it, in the order of the file.
    #[must_use]
    pub fn classes(&self) -> Vec<Part> {
        let (shares, weights) = (&self.snapshot.shares, &self.setup.weights);
        let mut parts = vec![Part::default(); shares.classes.len()];
        let asked: Vec<u64> = (0..shares.flows.len()).map(|flow| self.asks(flow)).collect();
        for (index, flow) in shares.flows.iter().enumerate() {
            let (asks, has) = (asked[index], self.rate(index));
            for class in shares.up(flow.class) {
                parts[class].asks = parts[class].asks.saturating_add(asks);
                parts[class].has += has;
            }
        }
        for (part, class) in parts.iter_mut().zip(&shares.classes) {
            part.asks = part.asks.min(class.cap.map_or(RATE_MAX, |cap| cap.bps())).min(RATE_MAX);
        }
        // Who shares with whom: by parent, and at the top by tier.
        let mut families: BTreeMap<(Option<usize>, u8), Vec<Child>> = BTreeMap::new();
        for (index, (class, part)) in shares.classes.iter().zip(&parts).enumerate() {
            let demand = weights.class(shares, index, part.asks);
            let child = Child { class: Some(index), demand, has: part.has };
            families.entry((class.parent, class.tier)).or_default().push(child);
        }
        for (index, flow) in shares.flows.iter().enumerate() {
            let mut demand = weights.flow(shares, index);
            if let Curve::Weighted { most, .. } = &mut demand.curve {
                *most = (*most).min(asked[index]);
            }
            let child = Child { class: None, demand, has: self.rate(index) };
            families.entry((flow.class, shares.tier(flow))).or_default().push(child);
        }
        for children in families.values() {
            let capacity = children.iter().map(|child| child.has).sum();
            let mut problem = Problem::new(vec![Limit { capacity, floor: 0 }]);
            for child in children {
                problem.add(child.demand.clone(), [&[0][..]]);
            }
            let due = solve(&problem).rates;
            for (child, due) in children.iter().zip(due) {
                child.class.into_iter().for_each(|class| parts[class].due = due);
            }
        }
        parts
    }

    /// What a flow of the file would have alone, in b/s: its cap, and what its paths can carry.
    #[must_use]
    pub fn asks(&self, flow: usize) -> u64 {
        let Some(number) = self.setup.number(flow) else { return 0 };
        let all = &self.setup.problem;
        let tunnels: Vec<&[ResourceId]> = all.tunnels_of(number).map(|tunnel| all.uses(tunnel)).collect();
        // Only what it draws on, numbered anew.
        let mut used = tunnels.concat();
        used.sort_unstable();
        used.dedup();
        let limit = |of: &ResourceId| Limit { capacity: all.limits()[*of as usize].capacity, floor: 0 };
        let mut problem = Problem::new(used.iter().map(limit).collect());
        let place = |of: &ResourceId| used.partition_point(|other| other < of) as ResourceId;
        let tunnels: Vec<Vec<ResourceId>> = tunnels.iter().map(|uses| uses.iter().map(place).collect()).collect();
        problem.add(all.demands()[number].clone(), tunnels.iter().map(Vec::as_slice));
        solve(&problem).rates.iter().sum()
    }
}
