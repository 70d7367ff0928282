//! Flows over one or several paths of a network beside linear programs.

use std::cell::RefCell;

use num_rational::BigRational;
use plan::certificate::{check, check_adaptive};
use plan::share::{
    Allocation, Class, Curve, Demand, FINE_BITS, Fine, InClasses, Limit, Problem, solve, solve_adaptive,
};

use crate::cases::each_case;
use crate::lp::{levels, ratio, weight_of};
use crate::nets::network;
use crate::problems::{Kinds, PLAIN, random, weight};

/// A fraction in steps of exact rates, rounded down.
fn fine(rate: &BigRational) -> Fine {
    let steps = (rate * BigRational::from_integer((1_u128 << FINE_BITS).into())).to_integer();
    Fine::try_from(steps).expect("a rate is below all capacities")
}

#[test]
fn one_path_is_the_program() {
    each_case(300, |rng| {
        let problem = network(rng, 1);
        let allocation = solve(&problem);
        check(&problem, &allocation).unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
        for (flow, level) in levels(&problem).into_iter().enumerate() {
            let rate = level * ratio(weight_of(&problem, flow));
            let exact = allocation.exact[flow];
            assert!(
                fine(&rate).abs_diff(exact) < (1 << FINE_BITS) / 1000,
                "flow {flow}: {rate} is {exact} in {problem:?}"
            );
            let whole = ratio(allocation.rates[flow]);
            let gap = if whole > rate { whole - &rate } else { &rate - whole };
            assert!(gap < ratio(1), "flow {flow}: {rate} is {} in {problem:?}", allocation.rates[flow]);
        }
    });
}

/// The normalised rates of an allocation, from the lowest on.
fn sorted(problem: &Problem, allocation: &Allocation) -> Vec<f64> {
    let level = |flow: usize| {
        let whole: Fine = allocation.exact[problem.tunnels_of(flow)].iter().sum();
        whole as f64 / (1_u128 << FINE_BITS) as f64 / weight_of(problem, flow) as f64
    };
    let mut levels: Vec<f64> = (0..problem.demands().len()).map(level).collect();
    levels.sort_by(f64::total_cmp);
    levels
}

fn adaptively(problem: &Problem) -> Allocation {
    solve_adaptive(problem).expect("nobody is in a class")
}

/// The greatest relative difference of two sorted vectors.
fn gap(levels: &[f64], optimum: &[f64]) -> f64 {
    levels.iter().zip(optimum).map(|(level, best)| (level - best).abs() / best).fold(0.0, f64::max)
}

/// The same, but none that the optimum is looked for of: what is kept for the lowest tier is nothing where there is one tier.
fn without_program(problem: &Problem) -> Problem {
    let unused = Limit { capacity: 1, floor: 1 };
    let mut same = Problem::new(problem.limits().iter().copied().chain([unused]).collect());
    for (flow, demand) in problem.demands().iter().enumerate() {
        same.add(demand.clone(), problem.tunnels_of(flow).map(|tunnel| problem.uses(tunnel)));
    }
    same
}

#[test]
fn several_paths_are_near_the_program() {
    let gaps = RefCell::new([Vec::new(), Vec::new(), Vec::new()]);
    each_case(150, |rng| {
        let problem = network(rng, 3);
        let mut optimum: Vec<BigRational> = levels(&problem);
        optimum.sort();
        let optimum: Vec<f64> = optimum.iter().map(|level| fine(level) as f64 / (1_u128 << FINE_BITS) as f64).collect();
        let adaptive = adaptively(&problem);
        check_adaptive(&problem, &adaptive).unwrap_or_else(|broken| panic!("{broken}: {adaptive:?} of {problem:?}"));
        assert_eq!(adaptively(&problem), adaptive);
        let rounds = without_program(&problem);
        let by_rounds = adaptively(&rounds);
        check_adaptive(&rounds, &by_rounds).unwrap_or_else(|broken| panic!("{broken}: {by_rounds:?} of {rounds:?}"));
        let found = [&adaptive, &by_rounds, &solve(&problem)].map(|found| gap(&sorted(&problem, found), &optimum));
        assert!(found[0] < 0.01, "{} of {optimum:?}: {adaptive:?} of {problem:?}", found[0]);
        gaps.borrow_mut().iter_mut().zip(found).for_each(|(gaps, gap)| gaps.push(gap));
    });
    for (of, mut gaps) in ["adaptive", "adaptive, rounds only", "ordered"].into_iter().zip(gaps.into_inner()) {
        gaps.sort_by(f64::total_cmp);
        let at = |per_mille: usize| 100.0 * gaps[(gaps.len() - 1) * per_mille / 1000];
        let beyond = gaps.iter().filter(|gap| **gap > 0.05).count();
        println!(
            "{of}: gap to the optimum of {} networks: median {:.3} %, p90 {:.3} %, p99 {:.3} %, most {:.3} %; beyond 5 %: {beyond}",
            gaps.len(),
            at(500),
            at(900),
            at(990),
            at(1000)
        );
        if of == "adaptive, rounds only" {
            assert!(beyond * 10 <= gaps.len(), "{beyond} of {} are beyond 5 %", gaps.len());
        }
    }
}

#[test]
fn tiers_floors_and_curves_hold_for_all_tunnels_together() {
    each_case(1_000, |rng| {
        let problem = random(rng, Kinds { tiers: 3, floors: true, points: true, tunnels: 3, kept: true, ..PLAIN });
        let allocation = adaptively(&problem);
        check_adaptive(&problem, &allocation)
            .unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
        assert_eq!(adaptively(&problem), allocation);
    });
    each_case(1_000, |rng| {
        let problem = random(rng, Kinds { tiers: 3, floors: true, tunnels: 3, ..PLAIN });
        let allocation = adaptively(&problem);
        check_adaptive(&problem, &allocation)
            .unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
    });
}

#[test]
fn flows_in_classes_are_refused() {
    let mut problem = Problem::new(vec![Limit { capacity: 10, floor: 0 }; 2]);
    let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(1), most: 20 } };
    problem.add(demand, [[0].as_slice(), &[1]]);
    assert_eq!(adaptively(&problem).rates, [10, 10]);
    let class = Class { parent: None, weight: weight(1), floor: 0, cap: 20 };
    let problem = problem.with_classes(vec![class], vec![Some(0)]).expect("it is a tree");
    assert_eq!(solve_adaptive(&problem), Err(InClasses { flow: 0 }));
}
