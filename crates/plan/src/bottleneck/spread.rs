//! What a small change does, from low levels to high ones: each group of one level takes what those before it left of its resources.

use crate::share::ResourceId;

use super::number::Number;
use super::{Change, Member, Structure};

/// Derivatives on their way.
struct Spread<'s, 'a, N, F> {
    structure: &'s Structure<'a>,
    /// By resource, what there is more of it, or less.
    budgets: Vec<N>,
    /// By flow, whether it is known how it changes.
    is_fixed: Vec<bool>,
    /// A flow that would rise if it asked for more, and is held back at the same level.
    asks: Option<usize>,
    each: F,
}

/// Who takes the least of a rise or loses the most: for a slope of 1, and each with its slope.
struct Least<N> {
    share: N,
    fixed: Vec<(usize, N)>,
}

/// Calls `each` with every flow that changes, and how.
pub(super) fn spread<N: Number>(structure: &Structure, change: Change, more: bool, each: impl FnMut(usize, &N)) {
    let budgets = vec![N::zero(); structure.links.len()];
    let is_fixed = vec![false; structure.standings.len()];
    let mut spread = Spread { structure, budgets, is_fixed, asks: None, each };
    let (one, zero) = (N::whole(1), N::zero());
    match change {
        Change::Capacity(resource) => {
            spread.budgets[resource as usize] = if more { one } else { zero - one };
        }
        Change::Most(flow) => {
            let standing = structure.standings[flow];
            match more {
                // It has what it has, whoever else rises.
                false if !standing.at_floor => spread.fix(flow, zero - one),
                true if standing.has_all && structure.held_by(flow).is_empty() => spread.fix(flow, one),
                true if standing.has_all => spread.asks = Some(flow),
                _ => return,
            }
        }
    }
    structure.groups().for_each(|group| spread.group(group));
}

impl<N: Number, F: FnMut(usize, &N)> Spread<'_, '_, N, F> {
    fn fix(&mut self, flow: usize, by: N) {
        self.is_fixed[flow] = true;
        if by == N::zero() {
            return;
        }
        (self.each)(flow, &by);
        for of in self.structure.problem.uses(flow) {
            if self.structure.links[*of as usize].group.is_some() {
                let budget = &mut self.budgets[*of as usize];
                *budget = budget.clone() - by.clone();
            }
        }
    }

    fn group(&mut self, group: usize) {
        let structure = self.structure;
        let members = structure.members_of(group);
        if let [only] = members
            && let Member::Link(link) = only.member
            && structure.links[link as usize].is_plain
        {
            return self.plain(link as usize);
        }
        let (zero, asks) = (N::zero(), self.asks);
        let is_touched = |member: &Member| match member {
            Member::Link(link) => {
                let asked = |flow: &u32| asks == Some(*flow as usize);
                self.budgets[*link as usize] != zero || structure.holds_back(*link).iter().any(asked)
            }
            Member::Late(flow) => {
                structure.held_by(*flow as usize).iter().any(|link| self.budgets[*link as usize] > zero)
            }
        };
        if members.iter().any(|reacting| is_touched(&reacting.member)) {
            self.tied(group);
        }
    }

    /// A resource alone at its level: all that it holds back change by one level.
    fn plain(&mut self, link: usize) {
        if self.budgets[link] == N::zero() {
            return;
        }
        let structure = self.structure;
        let mut sum = N::zero();
        let mut flows = Vec::new();
        for flow in structure.holds_back.of(link).iter().map(|flow| *flow as usize) {
            if !self.is_fixed[flow] && structure.reacts(flow, link) == (true, true) {
                let slope: N = structure.stand(flow).less.number();
                sum = sum + slope.clone();
                flows.push((flow, slope));
            }
        }
        if flows.is_empty() {
            return;
        }
        let level = self.budgets[link].clone() / sum;
        flows.into_iter().for_each(|(flow, slope)| self.fix(flow, level.clone() * slope));
        self.budgets[link] = N::zero();
    }

    /// Several at one level: who gets the least is fixed first, and the others share what that leaves.
    fn tied(&mut self, group: usize) {
        let structure = self.structure;
        let mut flows: Vec<usize> = Vec::new();
        for reacting in structure.members_of(group) {
            match reacting.member {
                Member::Link(link) => flows.extend(structure.holds_back(link).iter().map(|flow| *flow as usize)),
                Member::Late(flow) => flows.push(flow as usize),
            }
        }
        flows.sort_unstable();
        flows.dedup();
        let late: Vec<usize> = flows.iter().copied().filter(|flow| self.is_late(group, *flow)).collect();
        let mut limits: Vec<ResourceId> = flows.iter().flat_map(|flow| structure.held_by(*flow)).copied().collect();
        limits.sort_unstable();
        limits.dedup();
        // Each turn fixes a flow.
        loop {
            flows.retain(|flow| !self.is_fixed[*flow]);
            let Some(least) = self.least(group, &flows, &late, &limits) else { break };
            for (flow, slope) in least.fixed {
                // Two resources may leave it the same.
                if !self.is_fixed[flow] {
                    self.fix(flow, least.share.clone() * slope);
                }
            }
        }
    }

    fn is_late(&self, group: usize, flow: usize) -> bool {
        self.structure.members_of(group).iter().any(|reacting| reacting.member == Member::Late(flow as u32))
    }

    fn least(&self, group: usize, flows: &[usize], late: &[usize], limits: &[ResourceId]) -> Option<Least<N>> {
        let structure = self.structure;
        let is_here = |link: usize| structure.links[link].group == Some(group as u32);
        let gains = |flow: usize| {
            let with = |link: &ResourceId| is_here(*link as usize) && structure.reacts(flow, *link as usize).1;
            let asks = self.asks == Some(flow) && structure.held_by(flow).iter().any(|link| is_here(*link as usize));
            asks || late.binary_search(&flow).is_ok() || structure.held_by(flow).iter().any(with)
        };
        let mut least: Option<Least<N>> = None;
        let mut try_limit = |budget: N, fixed: Vec<(usize, N)>| {
            let sum = fixed.iter().fold(N::zero(), |sum, (_, slope)| sum + slope.clone());
            let share = budget / sum;
            match &mut least {
                Some(least) if least.share == share => least.fixed.extend(fixed),
                Some(least) if least.share < share => {}
                _ => least = Some(Least { share, fixed }),
            }
        };
        for link in limits.iter().map(|link| *link as usize) {
            let held = flows.iter().copied().filter(|flow| structure.held_by(*flow).contains(&(link as ResourceId)));
            let budget = self.budgets[link].clone();
            let mut losers = Vec::new();
            if budget < N::zero() && is_here(link) {
                let loses = held.clone().filter(|flow| structure.reacts(*flow, link).0);
                losers = loses.map(|flow| (flow, structure.stand(flow).less.number())).collect();
            }
            if !losers.is_empty() {
                try_limit(budget, losers);
                continue;
            }
            let slope = |flow: usize| {
                let stand = structure.stand(flow);
                if self.asks == Some(flow) { stand.beyond.number() } else { stand.more.number() }
            };
            let winners: Vec<(usize, N)> = held.filter(|flow| gains(*flow)).map(|flow| (flow, slope(flow))).collect();
            if !winners.is_empty() {
                // What nobody can lose is no rise of others.
                try_limit(if budget < N::zero() { N::zero() } else { budget }, winners);
            }
        }
        if let Some(flow) = self.asks.filter(|flow| flows.binary_search(flow).is_ok() && gains(*flow)) {
            try_limit(N::whole(1), vec![(flow, structure.stand(flow).beyond.number())]);
        }
        least
    }
}
