//! The level of a class, from what one of its children has.
//!
//! The children of a class are due `max(least, min(weight · x, most))` at a level x inside it, so one that has a rate tells x, x what
//! all of them are due, and that what the class is due in the class around it: upward, where the solver goes downward.

use std::num::NonZeroU32;

use crate::share::{Curve, FINE_BITS, Fine, LEVEL_BITS, Level, Problem, RATE_MAX};

/// Levels inside classes and what is due there are counted in 2⁻⁴⁸ b/s.
const BITS: u32 = 48;
/// Levels inside classes are below 2 to the power of so many.
const LEVEL_END_BITS: u32 = 120;

/// All classes of a problem.
pub(super) struct Classes(Vec<Class>);

struct Class {
    parent: Option<usize>,
    weight: u128,
    least: u128,
    /// Of all children.
    leasts: u128,
    /// Levels from which on children rise, and up to which, in order.
    starts: Vec<Turn>,
    ends: Vec<Turn>,
    /// The weights of those who rise longest.
    last: u128,
    /// The level inside it at level 0.
    floor: u128,
    cap: Option<Cap>,
}

/// A cap below what children can take together.
#[derive(Clone, Copy)]
struct Cap {
    due: u128,
    /// The lowest level inside at which it is due.
    inner: u128,
    /// Of all children: beyond the cap the level inside goes on with that of the whole by the weight of the class over these.
    weights: u128,
}

/// Where a child begins to rise, or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: u128,
    /// Of the child, and of all before it.
    weight: u128,
    due: u128,
}

/// An end of the levels at which something is so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

#[derive(Clone, Copy)]
struct Child {
    weight: u128,
    least: u64,
    most: u64,
}

impl Classes {
    pub(super) fn of(problem: &Problem) -> Classes {
        let mut children: Vec<Vec<Child>> = vec![Vec::new(); problem.classes().len()];
        for (flow, demand) in problem.demands().iter().enumerate() {
            if let (Some(class), Curve::Weighted { weight, most }) = (problem.class_of(flow), &demand.curve) {
                let most = (*most).min(RATE_MAX).min(Classes::carried(problem, flow)).max(demand.floor);
                children[class].push(Child { weight: u128::from(weight.get()), least: demand.floor, most });
            }
        }
        let mut classes = Vec::with_capacity(problem.classes().len());
        for (index, of) in problem.classes().iter().enumerate().rev() {
            let all = std::mem::take(&mut children[index]);
            let could = all.iter().map(|child| u128::from(child.most)).sum::<u128>();
            let most = could.min(u128::from(of.cap.min(RATE_MAX))) as u64;
            let least = all.iter().map(|child| u128::from(child.least)).sum::<u128>();
            let least = least.max(u128::from(of.floor)).min(u128::from(most)) as u64;
            let weight = u128::from(of.weight.get());
            if let Some(parent) = of.parent.filter(|_| most > 0) {
                children[parent as usize].push(Child { weight, least, most });
            }
            let mut class = Class::of(of.parent, weight, least, &all);
            if could > u128::from(most) {
                let due = u128::from(most) << BITS;
                let weights = all.iter().map(|child| child.weight).sum::<u128>().max(1);
                class.cap = Some(Cap { due, inner: class.reaches(due), weights });
            }
            classes.push(class);
        }
        classes.reverse();
        // Parents come first.
        for index in 0..classes.len() {
            let around = classes[index].parent.map_or(0, |parent| classes[parent].floor);
            let class = &mut classes[index];
            let due = around.saturating_mul(class.weight).max(class.least);
            class.floor = class.reaches(class.cap.map_or(due, |cap| due.min(cap.due)));
        }
        Classes(classes)
    }

    /// The most that a flow can have over all its tunnels, in b/s.
    pub(super) fn carried(problem: &Problem, flow: usize) -> u64 {
        let narrowest = |tunnel: usize| {
            problem.uses(tunnel).iter().map(|of| problem.limits()[*of as usize].capacity).min().unwrap_or(0)
        };
        problem.tunnels_of(flow).fold(0, |sum, tunnel| sum.saturating_add(narrowest(tunnel)))
    }

    /// What a flow of a weight in a class is due at level 0.
    pub(super) fn floor(&self, class: usize, weight: NonZeroU32) -> Fine {
        self.0[class].floor.saturating_mul(u128::from(weight.get())).min(Fine::MAX >> (FINE_BITS - BITS))
            << (FINE_BITS - BITS)
    }

    /// The weight of the class at the top above a class.
    pub(super) fn top_weight(&self, mut class: usize) -> u128 {
        while let Some(parent) = self.0[class].parent {
            class = parent;
        }
        self.0[class].weight
    }

    /// The lowest or the highest level at which a flow of a weight in a class is due a rate.
    pub(super) fn level(&self, class: usize, weight: NonZeroU32, rate: Fine, end: End) -> Level {
        let mut of = &self.0[class];
        let mut inner = (rate / u128::from(weight.get())) >> (FINE_BITS - BITS);
        // What levels inside rose by beyond caps, in the level of the whole.
        let mut beyond = 0_u128;
        loop {
            let mut due = of.due(inner);
            if let Some(cap) = of.cap.filter(|cap| inner > cap.inner) {
                beyond = beyond.saturating_add((inner - cap.inner).saturating_mul(cap.weights) / of.weight);
                due = cap.due;
            } else if due <= of.least {
                if end == End::Lowest {
                    return beyond >> (BITS - LEVEL_BITS);
                }
                // It is due its least up to where its weight brings more.
                due = of.least;
            }
            inner = due / of.weight;
            match of.parent {
                Some(parent) => of = &self.0[parent],
                None => return inner.saturating_add(beyond) >> (BITS - LEVEL_BITS),
            }
        }
    }
}

impl Class {
    fn of(parent: Option<u32>, weight: u128, least: u64, children: &[Child]) -> Class {
        let turns = |due: fn(&Child) -> u64| {
            let turn = |child: &Child| {
                let due = u128::from(due(child)) << BITS;
                Turn { at: due / child.weight, weight: child.weight, due }
            };
            let mut turns: Vec<Turn> = children.iter().map(turn).collect();
            turns.sort_unstable();
            turns
        };
        let summed = |mut turns: Vec<Turn>| {
            for at in 1..turns.len() {
                turns[at].weight += turns[at - 1].weight;
                turns[at].due = turns[at].due.saturating_add(turns[at - 1].due);
            }
            turns
        };
        let ends = turns(|child| child.most);
        let last = ends.last().map_or(0, |last| last.at);
        Class {
            parent: parent.map(|parent| parent as usize),
            weight,
            least: u128::from(least) << BITS,
            leasts: children.iter().fold(0, |sum: u128, child| sum.saturating_add(u128::from(child.least) << BITS)),
            last: ends.iter().filter(|end| end.at == last).map(|end| end.weight).sum::<u128>().max(1),
            starts: summed(turns(|child| child.least)),
            ends: summed(ends),
            floor: 0,
            cap: None,
        }
    }

    /// What all children are due at a level inside.
    fn due(&self, inner: u128) -> u128 {
        // Weights, and what is due there, of those who turn up to the level.
        let up_to = |turns: &[Turn]| {
            let count = turns.partition_point(|turn| turn.at < inner);
            count.checked_sub(1).map_or((0, 0), |last| (turns[last].weight, turns[last].due))
        };
        let (begun, had) = up_to(&self.starts);
        let (ended, have) = up_to(&self.ends);
        let beyond = self.ends.last().map_or(0, |end| inner.saturating_sub(end.at)).saturating_mul(self.last);
        let rising = inner.saturating_mul(begun - ended);
        (self.leasts - had).saturating_add(rising).saturating_add(have).saturating_add(beyond)
    }

    /// The lowest level inside at which the children are due so much.
    fn reaches(&self, due: u128) -> u128 {
        let (mut low, mut high) = (0, 1 << LEVEL_END_BITS);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.due(middle) >= due {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}
