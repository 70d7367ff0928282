//! What flows and classes ask for: the one place where what they used, and what is urgent, change weights.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use model::shares::{Class, Flow, Shares};
use units::Moment;

use super::AllotError;
use crate::share::{self, ClassError, Curve, Demand, Problem, RATE_MAX};
use crate::usage::{FACTOR_ONE, URGENT, budget_left, decayed, factors, weighed};

/// By how much the weights of the file are multiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    /// What a weight of 1 of the file is here: a level of the problem is so many times less. 1 where nothing changes weights, so that
    /// what is asked for in small numbers stays small.
    pub(super) unit: u32,
    /// By class of the file, in [`FACTOR_ONE`].
    pub(super) classes: Vec<u32>,
    /// By flow of the file, how many times as much it weighs.
    pub(super) flows: Vec<u32>,
}

impl Weights {
    pub(super) fn of(shares: &Shares) -> Weights {
        let classes = by_usage(shares);
        let urgent = |flow: &Flow| {
            let budget = flow.class.filter(|_| flow.urgent).and_then(|class| shares.classes[class].urgent);
            let left = budget
                .map_or(0, |budget| budget_left(budget.budget.get(), budget.used.get(), since(shares, budget.as_of)));
            if left > 0 { URGENT } else { 1 }
        };
        let flows: Vec<u32> = shares.flows.iter().map(urgent).collect();
        let is_plain = classes.iter().all(|factor| *factor == FACTOR_ONE);
        Weights { unit: if is_plain { 1 } else { FACTOR_ONE }, classes, flows }
    }

    /// The demand of a flow of the file.
    pub(super) fn flow(&self, shares: &Shares, index: usize) -> Demand {
        let flow = &shares.flows[index];
        let weight = weighed(flow.weight, self.unit * self.flows[index]);
        let most = flow.cap.map_or(RATE_MAX, |cap| cap.bps().min(RATE_MAX));
        Demand { tier: shares.tier(flow), floor: flow.floor.bps(), curve: Curve::Weighted { weight, most } }
    }

    /// What a class asks for beside others, if all its flows together could use so much.
    pub(super) fn class(&self, shares: &Shares, index: usize, most: u64) -> Demand {
        let class = &shares.classes[index];
        let curve = Curve::Weighted { weight: self.weight(class, index), most };
        Demand { tier: class.tier, floor: class.floor.bps().min(most), curve }
    }

    fn weight(&self, class: &Class, index: usize) -> NonZeroU32 {
        if self.unit == 1 { class.weight } else { weighed(class.weight, self.classes[index]) }
    }

    /// The problem with its flows in their classes: by number the flow of the file.
    pub(super) fn in_classes(&self, problem: Problem, shares: &Shares, flows: &[usize]) -> Result<Problem, AllotError> {
        // Parents first.
        let mut order: Vec<usize> = (0..shares.classes.len()).collect();
        order.sort_by_cached_key(|class| shares.up(Some(*class)).count());
        let mut numbers = vec![0; order.len()];
        order.iter().enumerate().for_each(|(number, class)| numbers[*class] = number as u32);
        let class = |index: &usize| {
            let class = &shares.classes[*index];
            let cap = class.cap.map_or(RATE_MAX, |cap| cap.bps());
            let parent = class.parent.map(|parent| numbers[parent]);
            share::Class { parent, weight: self.weight(class, *index), floor: class.floor.bps(), cap }
        };
        let classes = order.iter().map(class).collect();
        let class_of = flows.iter().map(|flow| shares.flows[*flow].class.map(|class| numbers[class])).collect();
        match problem.with_classes(classes, class_of) {
            Ok(problem) => Ok(problem),
            Err(ClassError::Weights { class }) => {
                Err(AllotError::Weights { class: shares.classes[order[class]].name.clone() })
            }
            Err(other) => unreachable!("the file has a tree with a tier for each branch: {other}"),
        }
    }
}

/// The factor of each class by what it used of late, with those in it, beside those of the same parent, or of its tier at the top.
fn by_usage(shares: &Shares) -> Vec<u32> {
    let mut used = vec![0_u64; shares.classes.len()];
    for (index, class) in shares.classes.iter().enumerate() {
        let Some(of_class) = class.used else { continue };
        let left = decayed(of_class.bytes.get(), since(shares, of_class.as_of), shares.half_life);
        shares.up(Some(index)).for_each(|above| used[above] = used[above].saturating_add(left));
    }
    let mut families: BTreeMap<(Option<usize>, u8), Vec<usize>> = BTreeMap::new();
    for (index, class) in shares.classes.iter().enumerate() {
        families.entry((class.parent, class.tier)).or_default().push(index);
    }
    let mut all = vec![FACTOR_ONE; used.len()];
    for family in families.values() {
        let siblings: Vec<(NonZeroU32, u64)> =
            family.iter().map(|of| (shares.classes[*of].weight, used[*of])).collect();
        family.iter().zip(factors(&siblings)).for_each(|(of, factor)| all[*of] = factor);
    }
    all
}

/// How long ago something was, at the time of the snapshot.
pub(super) fn since(shares: &Shares, moment: Option<Moment>) -> Duration {
    let elapsed = moment.zip(shares.now).map_or(0, |(moment, now)| now.saturating_sub(moment));
    Duration::from_nanos(u64::try_from(elapsed).unwrap_or(0))
}
