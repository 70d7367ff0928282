//! Derivatives beside differences of exact allocations.

use num_rational::BigRational;
use plan::bottleneck::{Change, Structure};
use plan::share::{Curve, Demand, Limit, Problem, ResourceId, solve};

use crate::cases::each_case;
use crate::fraction::Fraction;
use crate::problems::{Kinds, PLAIN, random, weight};
use crate::single::reckoned;

pub(crate) fn ratio(over: i64, under: i64) -> BigRational {
    BigRational::new(over.into(), under.into())
}

pub(crate) fn problem(capacities: &[u64], flows: &[&[ResourceId]]) -> Problem {
    let mut problem = Problem::new(capacities.iter().map(|capacity| Limit { capacity: *capacity, floor: 0 }).collect());
    for uses in flows {
        let curve = Curve::Weighted { weight: weight(1), most: u64::MAX };
        problem.add(Demand { tier: 0, floor: 0, curve }, [*uses]);
    }
    problem
}

/// Figure 1 of the draft (`published`) without its tie: all gradients are known in one pass.
#[test]
fn all_gradients_come_from_one_pass() {
    let problem = problem(&[25, 50, 100, 175], &[&[0], &[1], &[0, 1], &[1, 2], &[2, 3], &[0, 1, 2]]);
    let allocation = solve(&problem);
    let structure = Structure::of(&problem, &allocation).unwrap();
    assert_eq!(structure.held_by(4), [2]);
    let gradients = structure.gradients::<BigRational>();
    let of_links = [ratio(1, 3), ratio(1, 2), ratio(1, 1), ratio(0, 1)].map(Some);
    assert_eq!(gradients.links, of_links);
    for (link, gradient) in of_links.into_iter().enumerate() {
        let change = Change::Capacity(link as ResourceId);
        assert_eq!(Some(structure.gradient(change, true)), gradient);
        assert_eq!(Some(-structure.gradient(change, false)), gradient);
    }
    for (flow, gradient) in gradients.flows.iter().enumerate() {
        // The last resource has one flow that it holds back: without it, it holds back none.
        assert_eq!(gradient.as_ref(), Some(&structure.gradient(Change::Most(flow), false)), "flow {flow}");
    }
}

/// With everything so much larger that one b/s is a small change.
pub(crate) const LARGER: u64 = 1_000_000_007;

#[test]
fn derivatives_are_what_a_small_change_does() {
    each_case(600, |rng| compare(&random(rng, Kinds { tiers: 2, floors: true, ..PLAIN })));
}

#[test]
fn derivatives_of_curves_are_those_of_the_side() {
    each_case(1_000, |rng| compare(&random(rng, Kinds { points: true, ..PLAIN })));
    each_case(600, |rng| compare(&random(rng, Kinds { tiers: 2, floors: true, points: true, ..PLAIN })));
}

/// A problem with one b/s more or less of something, everything else being so much larger.
pub(crate) fn changed(small: &Problem, change: Option<Change>, more: bool) -> Problem {
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
        let curve = match &demand.curve {
            Curve::Weighted { weight, most } => {
                let most = by((*most).min(1 << 40).saturating_mul(LARGER), change == Some(Change::Most(flow)));
                Curve::Weighted { weight: *weight, most }
            }
            Curve::Points(_) => {
                let corners = demand.curve.corners().unwrap().iter();
                let corners: Vec<(u64, u64)> = corners.map(|(level, rate)| (level * LARGER, rate * LARGER)).collect();
                Curve::points(&corners).unwrap()
            }
        };
        problem.add(Demand { curve, floor: demand.floor * LARGER, ..demand.clone() }, [small.uses(flow)]);
    }
    problem
}

fn compare(small: &Problem) {
    // Small numbers only: with large ones the exact allocation is beyond what is counted.
    let corners = small.demands().iter().flat_map(|demand| demand.curve.corners().unwrap_or_default());
    if small.limits().iter().map(|limit| limit.capacity).chain(corners.map(|corner| corner.0)).any(|size| size > 1000) {
        return;
    }
    let now = changed(small, None, true);
    let before = reckoned(&now);
    let allocation = solve(&now);
    let structure = Structure::of(&now, &allocation).unwrap();
    let gradients = structure.gradients::<BigRational>();
    let resources = (0..small.limits().len()).map(|index| Change::Capacity(index as u32));
    let is_weighted =
        |flow: &usize| matches!(small.demands()[*flow].curve, Curve::Weighted { most, .. } if most < 1000);
    let capped = (0..small.demands().len()).filter(is_weighted);
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
            let after = reckoned(&changed(small, Some(change), more));
            let found = structure.derivatives(change, more);
            let mut sum = ratio(0, 1);
            for (flow, (before, after)) in before.iter().zip(&after).enumerate() {
                let difference = *after - *before;
                let difference = BigRational::new(difference.over.into(), difference.under.into());
                assert_eq!(found[flow], difference, "{change:?} more: {more}, flow {flow} of {now:?}");
                sum += difference;
            }
            // What was found for all in one pass is the same.
            let (of_all, is_known) = match change {
                Change::Capacity(index) => (gradients.links[index as usize].clone(), true),
                Change::Most(flow) => (gradients.flows[flow].clone(), !more),
            };
            if let Some(of_all) = of_all.filter(|_| is_known) {
                let signed = if more || matches!(change, Change::Most(_)) { of_all } else { -of_all };
                assert_eq!(signed, sum, "{change:?} more: {more} of {now:?}");
            }
        }
    }
}

/// Whether a resource is full of floors: with less of it they do not fit.
fn floors_bind(problem: &Problem, change: Change) -> bool {
    let Change::Capacity(index) = change else { return false };
    let over = (0..problem.demands().len()).filter(|flow| problem.uses(*flow).contains(&index));
    over.map(|flow| problem.demands()[flow].floor).sum::<u64>() >= problem.limits()[index as usize].capacity
}
