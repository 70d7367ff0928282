//! Derivatives beside differences of exact allocations, and the examples that were published.

use num_rational::BigRational;
use plan::bottleneck::{Change, Structure};
use plan::share::{Curve, Demand, Limit, Problem, ResourceId, solve};

use crate::cases::each_case;
use crate::fraction::Fraction;
use crate::problems::{Kinds, PLAIN, random, weight};
use crate::single::reckoned;

fn ratio(over: i64, under: i64) -> BigRational {
    BigRational::new(over.into(), under.into())
}

fn problem(capacities: &[u64], flows: &[&[ResourceId]]) -> Problem {
    let mut problem = Problem::new(capacities.iter().map(|capacity| Limit { capacity: *capacity, floor: 0 }).collect());
    for uses in flows {
        let curve = Curve::Weighted { weight: weight(1), most: u64::MAX };
        problem.add(Demand { tier: 0, floor: 0, curve }, [*uses]);
    }
    problem
}

/// Figure 1 of draft-giraltyellamraju-alto-bsg-requirements.
#[test]
fn the_published_example() {
    let problem = problem(&[25, 50, 100, 75], &[&[0], &[1], &[0, 1], &[1, 2], &[2, 3], &[0, 1, 2]]);
    let allocation = solve(&problem);
    let thirds = allocation.exact.iter().map(|rate| ((rate * 3) as f64 / 2_f64.powi(80)).round() as u64);
    assert_eq!(thirds.collect::<Vec<_>>(), [25, 50, 25, 50, 225, 25]);
    let structure = Structure::of(&problem, &allocation).unwrap();
    assert_eq!(structure.held_by(0), [0]);
    assert_eq!(structure.held_by(4), [2, 3], "both are full at 75");
    assert_eq!(structure.holds_back(1), [1, 3]);
    let of = |change, more| structure.derivatives(Change::Capacity(change), more);
    let thirds = [1, -1, 1, -1, 0, 1].map(|third| ratio(third, 3));
    assert_eq!(of(0, true), thirds);
    assert_eq!(of(0, false), thirds.map(|third| -third));
    assert_eq!(of(1, true), [0, 1, 0, 1, -1, 0].map(|half| ratio(half, 2)));
    assert_eq!(of(1, false), [0, -1, 0, -1, 0, 0].map(|half| ratio(half, 2)));
    for tied in [2, 3] {
        assert_eq!(of(tied, true), [0; 6].map(|none| ratio(none, 1)));
        assert_eq!(of(tied, false), [0, 0, 0, 0, -1, 0].map(|one| ratio(one, 1)));
    }
    assert_eq!(structure.gradient(Change::Capacity(1), true), ratio(1, 2));
    assert_eq!(structure.gradient(Change::Capacity(1), false), ratio(-1, 1));
}

/// With everything so much larger that one b/s is a small change.
const LARGER: u64 = 1_000_000_007;

#[test]
fn derivatives_are_what_a_small_change_does() {
    each_case(600, |rng| {
        let small = random(rng, Kinds { tiers: 2, floors: true, ..PLAIN });
        let changed = |change: Option<Change>, more: bool| {
            let by = |value: u64, is_it: bool| match (is_it, more) {
                (false, _) => value,
                (true, true) => value + 1,
                (true, false) => value - 1,
            };
            let limits = small.limits().iter().enumerate().map(|(index, limit)| {
                let capacity = by(limit.capacity * LARGER, change == Some(Change::Capacity(index as u32)));
                Limit { capacity, floor: 0 }
            });
            let mut problem = Problem::new(limits.collect());
            for (flow, demand) in small.demands().iter().enumerate() {
                let Curve::Weighted { weight, most } = demand.curve.clone() else { panic!("only weights are drawn") };
                let most = by(most.min(1 << 40).saturating_mul(LARGER), change == Some(Change::Most(flow)));
                let curve = Curve::Weighted { weight, most };
                problem.add(Demand { curve, floor: demand.floor * LARGER, ..demand.clone() }, [small.uses(flow)]);
            }
            problem
        };
        // Small numbers only: with large ones the exact allocation is beyond what is counted.
        if small.limits().iter().any(|limit| limit.capacity > 1000) {
            return;
        }
        let now = changed(None, true);
        let before = reckoned(&now);
        let structure = Structure::of(&now, &solve(&now)).unwrap();
        let resources = (0..small.limits().len()).map(|index| Change::Capacity(index as u32));
        let capped = (0..small.demands().len()).filter(|flow| small.demands()[*flow].curve.most() < 1000);
        for change in resources.chain(capped.map(Change::Most)) {
            for more in [true, false] {
                let is_nothing = match change {
                    Change::Capacity(index) => small.limits()[index as usize].capacity == 0,
                    Change::Most(flow) => small.demands()[flow].curve.most() <= small.demands()[flow].floor,
                };
                // Only a cap that stops the flow is one to be lowered here.
                let stops = |flow: usize| before[flow] == Fraction::whole(now.demands()[flow].curve.most());
                if is_nothing || matches!(change, Change::Most(flow) if !stops(flow)) || floors_bind(&now, change) {
                    continue;
                }
                let after = reckoned(&changed(Some(change), more));
                let found = structure.derivatives(change, more);
                for (flow, (before, after)) in before.iter().zip(&after).enumerate() {
                    let difference = *after - *before;
                    let difference = BigRational::new(difference.over.into(), difference.under.into());
                    assert_eq!(found[flow], difference, "{change:?} more: {more}, flow {flow} of {now:?}");
                }
            }
        }
    });
}

/// Whether a resource is full of floors: with less of it they do not fit.
fn floors_bind(problem: &Problem, change: Change) -> bool {
    let Change::Capacity(index) = change else { return false };
    let over = (0..problem.demands().len()).filter(|flow| problem.uses(*flow).contains(&index));
    over.map(|flow| problem.demands()[flow].floor).sum::<u64>() >= problem.limits()[index as usize].capacity
}
