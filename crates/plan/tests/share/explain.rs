//! Explanations, acted upon.

use std::cell::Cell;

use plan::explain::{Remedy, Why, explain};
use plan::share::{Curve, Demand, Limit, Problem, solve};

use crate::cases::each_case;
use crate::problems::{Kinds, PLAIN, random};

#[test]
fn an_explanation_holds_when_it_is_acted_upon() {
    let (told, excepted) = (Cell::new(0_u64), Cell::new(0_u64));
    let many = each_case(1_000, |rng| {
        let tiers = rng.size(1, 2);
        let problem = larger(&random(rng, Kinds { tiers, floors: tiers == 2, ..PLAIN }));
        let allocation = solve(&problem);
        for flow in 0..problem.demands().len() {
            let explanation = explain(&problem, &allocation, flow).unwrap();
            assert_eq!(explanation.rate, allocation.rates[flow]);
            let Why::HeldBack { by, remedy } = explanation.why else {
                assert!(allocation.rates[flow] + 1 >= problem.demands()[flow].curve.most(), "it has all");
                continue;
            };
            assert!(!by.is_empty(), "something holds flow {flow} back: {allocation:?} of {problem:?}");
            for full in &by {
                let held: u64 = full.holders.iter().map(|(_, rate)| rate).sum();
                let slack = full.holders.len() as u64;
                assert!(held + slack >= problem.limits()[full.resource as usize].capacity, "it is full");
            }
            let Some(Remedy { raise, rate, also }) = remedy else { continue };
            assert_eq!(
                raise.iter().map(|of| of.0).collect::<Vec<_>>(),
                by.iter().map(|full| full.resource).collect::<Vec<_>>()
            );
            assert_eq!(solve(&problem.with_capacities(&raise)).rates[flow], rate, "the stated rate");
            let capacity = |of: u32| problem.limits()[of as usize].capacity;
            let more = raise.iter().map(|(of, to)| to - capacity(*of).min(*to)).max().unwrap();
            let others = (0..problem.limits().len() as u32).filter(|other| raise.iter().all(|of| of.0 != *other));
            for other in others {
                let then = solve(&problem.with_capacities(&[(other, capacity(other) + more)])).rates[flow];
                assert_eq!(
                    then >= rate,
                    also.contains(&other),
                    "{other} alone: {then} of {rate}: {raise:?} of {problem:?}"
                );
                told.set(told.get() + u64::from(then < rate));
                excepted.set(excepted.get() + u64::from(then >= rate));
            }
        }
    });
    assert!(!many || excepted.get() * 100 <= told.get(), "{} of {} others do as well", excepted.get(), told.get());
}

/// A thousand times as much of everything, so that a b/s is little.
fn larger(small: &Problem) -> Problem {
    let limit = |limit: &Limit| Limit { capacity: limit.capacity * 1000, floor: 0 };
    let mut problem = Problem::new(small.limits().iter().map(limit).collect());
    for (flow, demand) in small.demands().iter().enumerate() {
        let Curve::Weighted { weight, most } = demand.curve.clone() else { panic!("only weights are drawn") };
        let curve = Curve::Weighted { weight, most: most.saturating_mul(1000) };
        problem.add(Demand { curve, floor: demand.floor * 1000, tier: demand.tier }, [small.uses(flow)]);
    }
    problem
}
