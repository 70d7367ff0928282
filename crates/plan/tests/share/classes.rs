//! Flows in classes beside a reckoning in floating point, level by level.

use plan::certificate::check;
use plan::share::{Class, ClassError, Curve, Demand, Limit, Problem, solve};

use crate::cases::each_case;
use crate::problems::{Kinds, PLAIN, random, weight};

/// Halvings of an interval: more than a floating-point number has bits.
const HALVINGS: usize = 200;

/// What a child of a class is due at a level inside it.
#[derive(Clone, Copy)]
struct Child {
    weight: f64,
    least: f64,
    most: f64,
}

/// What flows are due, from the definition.
struct Reckoning<'a> {
    problem: &'a Problem,
    classes: Vec<Child>,
    children: Vec<Vec<Child>>,
}

impl<'a> Reckoning<'a> {
    fn of(problem: &'a Problem) -> Reckoning<'a> {
        let mut children: Vec<Vec<Child>> = vec![Vec::new(); problem.classes().len()];
        for flow in 0..problem.demands().len() {
            if let Some(class) = problem.class_of(flow) {
                children[class].push(child(problem, flow));
            }
        }
        let mut classes = Vec::new();
        for (index, class) in problem.classes().iter().enumerate().rev() {
            let most = children[index].iter().map(|child| child.most).sum::<f64>().min(class.cap as f64);
            let least = children[index].iter().map(|child| child.least).sum::<f64>().max(class.floor as f64).min(most);
            let child = Child { weight: f64::from(class.weight.get()), least, most };
            classes.push(child);
            if let Some(parent) = class.parent.filter(|_| most > 0.0) {
                children[parent as usize].push(child);
            }
        }
        classes.reverse();
        Reckoning { problem, classes, children }
    }

    /// The level inside a class; infinite where all children have all.
    fn inner(&self, class: usize, level: f64) -> f64 {
        let around = self.around(class, level);
        let (weight, cap) = (self.classes[class].weight, self.problem.classes()[class].cap as f64);
        let all = self.children[class].iter().map(|child| child.most).sum::<f64>();
        if all > cap && weight * around >= cap {
            // Beyond the cap it goes on with the level of the whole.
            let is_there = |level: f64| weight * self.around(class, level) >= cap;
            let weights: f64 = self.children[class].iter().map(|child| child.weight).sum();
            return self.at_due(class, cap) + (level - lowest(is_there)) * weight / weights;
        }
        let due = (weight * around).max(self.classes[class].least);
        self.at_due(class, due)
    }

    /// The level around a class.
    fn around(&self, class: usize, level: f64) -> f64 {
        match self.problem.classes()[class].parent {
            Some(parent) => self.inner(parent as usize, level),
            None => level,
        }
    }

    /// The level inside a class at which its children are due so much.
    fn at_due(&self, class: usize, due: f64) -> f64 {
        if self.children[class].iter().map(|child| child.most).sum::<f64>() <= due {
            return f64::INFINITY;
        }
        lowest(|inner| self.children[class].iter().map(|child| child.due(inner)).sum::<f64>() >= due)
    }

    fn due(&self, flow: usize, level: f64) -> f64 {
        let level = self.problem.class_of(flow).map_or(level, |class| self.inner(class, level));
        child(self.problem, flow).due(level)
    }

    /// Rates, if there is room for the floors.
    fn rates(&self) -> Option<Vec<f64>> {
        let problem = self.problem;
        let flows = problem.demands().len();
        let mut rates: Vec<f64> = (0..flows).map(|flow| self.due(flow, 0.0)).collect();
        let capacity = |resource: usize| problem.limits()[resource].capacity as f64;
        let uses = |flow: usize, resource: usize| problem.uses(flow).contains(&(resource as u32));
        let used = |rates: &[f64], resource: usize| {
            (0..flows).filter(|flow| uses(*flow, resource)).map(|flow| rates[flow]).sum::<f64>()
        };
        let resources = 0..problem.limits().len();
        if resources.clone().any(|resource| used(&rates, resource) > capacity(resource) * (1.0 + 1e-12) + 1e-9) {
            return None;
        }
        for tier in 0..8 {
            let mut rising: Vec<usize> = (0..flows).filter(|flow| problem.demands()[*flow].tier == tier).collect();
            while !rising.is_empty() {
                let at = |level: f64| {
                    let mut rates = rates.clone();
                    rising.iter().for_each(|flow| rates[*flow] = self.due(*flow, level));
                    rates
                };
                let room = 1e-6;
                let overfull = |rates: &[f64]| {
                    let crossed = |resource: &usize| rising.iter().any(|flow| uses(*flow, *resource));
                    let over = |resource: &usize| used(rates, *resource) > capacity(*resource) + room;
                    resources.clone().filter(crossed).filter(over).collect::<Vec<usize>>()
                };
                let (mut low, mut high) = (0.0, 1e15);
                let mut full = overfull(&at(high));
                if full.is_empty() {
                    rates = at(high);
                    break;
                }
                for _ in 0..HALVINGS {
                    let middle = (low + high) / 2.0;
                    let over = overfull(&at(middle));
                    if over.is_empty() { low = middle } else { (high, full) = (middle, over) }
                }
                rates = at(low);
                rising.retain(|flow| !full.iter().any(|resource| uses(*flow, *resource)));
            }
        }
        Some(rates)
    }
}

/// The lowest number at which something is so.
fn lowest(is_so: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1e15);
    if is_so(low) {
        return low;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if is_so(middle) { high = middle } else { low = middle }
    }
    high
}

impl Child {
    fn due(&self, level: f64) -> f64 {
        (self.weight * level).clamp(self.least, self.most)
    }
}

fn child(problem: &Problem, flow: usize) -> Child {
    let demand = &problem.demands()[flow];
    let Curve::Weighted { weight, .. } = &demand.curve else { panic!("only weights are reckoned") };
    let narrowest = problem.uses(flow).iter().map(|of| problem.limits()[*of as usize].capacity).min();
    let most = demand.curve.most().min(narrowest.expect("it draws on something"));
    Child { weight: f64::from(weight.get()), least: demand.floor as f64, most: most.max(demand.floor) as f64 }
}

#[test]
fn trees_beside_a_reckoning() {
    each_case(300, |rng| {
        let problem = random(rng, Kinds { tiers: 2, floors: true, classes: true, ..PLAIN });
        let allocation = solve(&problem);
        check(&problem, &allocation).unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
        let Some(reckoned) = Reckoning::of(&problem).rates() else { return };
        for (flow, rate) in reckoned.into_iter().enumerate() {
            let has = allocation.rates[flow];
            assert!((rate - has as f64).abs() < 1.0 + 1e-3, "flow {flow}: {rate} is {has} in {problem:?}");
        }
    });
}

fn flow(weight_is: u64, most: u64) -> Demand {
    Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(weight_is), most } }
}

fn class(parent: Option<u32>, weight_is: u64) -> Class {
    Class { parent, weight: weight(weight_is), floor: 0, cap: u64::MAX }
}

/// Two classes of weights 2 and 1 share a link 2:1, whatever the number of their flows, and what one cannot take the other has.
#[test]
fn classes_share_by_their_weights() {
    let mut problem = Problem::new([90, 30].map(|capacity| Limit { capacity, floor: 0 }).to_vec());
    for _ in 0..3 {
        problem.add(flow(1, u64::MAX), [[0].as_slice()]);
    }
    problem.add(flow(5, 40), [[0].as_slice()]);
    let by = |classes: Vec<Class>, class_of: &[u32]| {
        let class_of = class_of.iter().map(|class| Some(*class)).collect();
        solve(&problem.clone().with_classes(classes, class_of).expect("they are a tree")).rates
    };
    let two = || vec![class(None, 2), class(None, 1)];
    assert_eq!(by(two(), &[1, 1, 1, 0]), [17, 17, 16, 40]);
    assert_eq!(by(two(), &[0, 0, 0, 1]), [20, 20, 20, 30]);
    // 2/3 and 1/3 of the class of the first three, of which the second has two thirds of its part and the third one.
    let deep = vec![class(None, 2), class(None, 1), class(Some(0), 2), class(Some(0), 1)];
    assert_eq!(by(deep, &[2, 3, 3, 1]), [40, 10, 10, 30]);
}

/// A class gets no more than its cap, its sibling the rest; and where a link stops one flow of it, another has what it leaves of the cap.
#[test]
fn caps_of_classes() {
    let mut problem = Problem::new([90, 30, 4].map(|capacity| Limit { capacity, floor: 0 }).to_vec());
    problem.add(flow(3, u64::MAX), [[0, 1, 2].as_slice()]);
    problem.add(flow(1, u64::MAX), [[0, 1].as_slice()]);
    problem.add(flow(1, u64::MAX), [[0].as_slice()]);
    let classes = vec![class(None, 1), Class { cap: 30, ..class(Some(0), 2) }, class(Some(0), 1)];
    let problem = problem.with_classes(classes, vec![Some(1), Some(1), Some(2)]).expect("they are a tree");
    let allocation = solve(&problem);
    check(&problem, &allocation).expect("it is right");
    assert_eq!(allocation.rates, [4, 26, 60]);
}

#[test]
fn what_is_no_tree_is_refused() {
    let mut problem = Problem::new(vec![Limit { capacity: 90, floor: 0 }]);
    problem.add(flow(1, 10), [[0].as_slice()]);
    problem.add(Demand { tier: 1, ..flow(1, 10) }, [[0].as_slice()]);
    problem.add(Demand { curve: Curve::points(&[(1, 1)]).expect("a point"), ..flow(1, 1) }, [[0].as_slice()]);
    let refused = |classes: Vec<Class>, class_of: [Option<u32>; 3]| {
        problem.clone().with_classes(classes, class_of.to_vec()).expect_err("it is refused")
    };
    let one = || vec![class(None, 1)];
    assert_eq!(refused(vec![class(Some(0), 1)], [None; 3]), ClassError::Order { class: 0 });
    assert_eq!(refused(one(), [Some(0), Some(0), None]), ClassError::Tier { flow: 1 });
    assert_eq!(refused(one(), [None, None, Some(0)]), ClassError::Curve { flow: 2 });
    assert_eq!(refused(one(), [None, Some(1), None]), ClassError::NoClass { flow: 1 });
    let chain = (0..20).map(|index: u32| class(index.checked_sub(1), 1)).collect();
    assert_eq!(refused(chain, [None; 3]), ClassError::Depth { class: 16 });
}
