//! Flows over one tunnel beside fractions.

use plan::certificate::check;
use plan::share::{Curve, FINE_BITS, Problem, solve};

use crate::cases::each_case;
use crate::fraction::Fraction;
use crate::problems::{Kinds, PLAIN, random};

/// The rate of a flow at a level.
fn due(problem: &Problem, flow: usize, level: Fraction) -> Fraction {
    let demand = &problem.demands()[flow];
    let risen = match &demand.curve {
        Curve::Weighted { weight, .. } => level * Fraction::whole(u64::from(weight.get())),
        Curve::Points(_) => {
            let pieces = pieces(&demand.curve);
            let piece = pieces.iter().find(|(_, end)| level <= Fraction::whole(end.0));
            piece.map_or(Fraction::whole(demand.curve.most()), |(begin, end)| {
                let slope = Fraction::new(i128::from(end.1 - begin.1), i128::from(end.0 - begin.0));
                Fraction::whole(begin.1) + (level - Fraction::whole(begin.0)) * slope
            })
        }
    };
    risen.min(Fraction::whole(demand.curve.most())).max(Fraction::whole(demand.floor))
}

/// The begin and the end of each straight part of a curve by points.
fn pieces(curve: &Curve) -> Vec<((u64, u64), (u64, u64))> {
    let corners = curve.corners().unwrap_or_default();
    std::iter::once((0, 0)).chain(corners.iter().copied()).zip(corners.iter().copied()).collect()
}

/// The levels at which a flow bends.
fn bends(problem: &Problem, flow: usize) -> Vec<Fraction> {
    let demand = &problem.demands()[flow];
    let Curve::Weighted { weight, .. } = &demand.curve else {
        let pieces = pieces(&demand.curve);
        let floor = pieces.iter().filter(|(begin, end)| begin.1 < demand.floor && demand.floor <= end.1);
        let floor = floor.map(|(begin, end)| {
            let width = i128::from(end.0 - begin.0) * i128::from(demand.floor - begin.1);
            Fraction::whole(begin.0) + Fraction::new(width, i128::from(end.1 - begin.1))
        });
        return floor.chain(pieces.iter().map(|(_, end)| Fraction::whole(end.0))).collect();
    };
    let at = |rate: u64| Fraction::new(i128::from(rate), i128::from(weight.get()));
    vec![at(demand.floor), at(demand.curve.most())]
}

/// Rates by the definition, level by level, tier by tier.
pub(crate) fn reckoned(problem: &Problem) -> Vec<Fraction> {
    let flows = problem.demands().len();
    let floor = |flow: usize| Fraction::whole(problem.demands()[flow].floor);
    let mut rates: Vec<Fraction> = (0..flows).map(floor).collect();
    let uses = |flow: usize, resource: usize| problem.uses(flow).contains(&(resource as u32));
    for tier in 0..8 {
        let mut rising: Vec<usize> = (0..flows).filter(|flow| problem.demands()[*flow].tier == tier).collect();
        while !rising.is_empty() {
            // At which level a resource is full if nothing else stops who rises: by trying the levels at which a flow bends.
            let full = |resource: usize| {
                let others = (0..flows).filter(|flow| uses(*flow, resource) && !rising.contains(flow));
                let used = others.map(|flow| rates[flow]).fold(Fraction::whole(0), |sum, rate| sum + rate);
                let left = Fraction::whole(problem.limits()[resource].capacity) - used;
                let over: Vec<usize> = rising.iter().copied().filter(|flow| uses(*flow, resource)).collect();
                let sum = |level| over.iter().fold(Fraction::whole(0), |sum, flow| sum + due(problem, *flow, level));
                let bends = over.iter().flat_map(|flow| bends(problem, *flow));
                let mut bends: Vec<Fraction> = bends.chain([Fraction::whole(0)]).collect();
                bends.sort();
                let before = bends.iter().copied().rfind(|level| sum(*level) <= left)?;
                let after = bends.iter().copied().find(|level| *level > before)?;
                let slope = (sum(after) - sum(before)) / (after - before);
                (sum(after) > left).then(|| before + (left - sum(before)) / slope)
            };
            let levels: Vec<Option<Fraction>> = (0..problem.limits().len()).map(full).collect();
            let Some(level) = levels.iter().flatten().min().copied() else {
                rising.iter().for_each(|flow| rates[*flow] = Fraction::whole(problem.demands()[*flow].curve.most()));
                break;
            };
            let stopped: Vec<usize> = rising
                .iter()
                .copied()
                .filter(|flow| problem.uses(*flow).iter().any(|of| levels[*of as usize] == Some(level)))
                .collect();
            stopped.iter().for_each(|flow| rates[*flow] = due(problem, *flow, level));
            rising.retain(|flow| !stopped.contains(flow));
        }
    }
    rates
}

fn compare(problem: &Problem) {
    let allocation = solve(problem);
    check(problem, &allocation).unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
    for (flow, rate) in reckoned(problem).into_iter().enumerate() {
        let gap = rate - Fraction::whole(allocation.rates[flow]);
        let one = Fraction::whole(1);
        assert!(
            gap < one && Fraction::whole(0) - gap < one,
            "flow {flow}: {rate:?} is {} in {problem:?}",
            allocation.rates[flow]
        );
        let exact = Fraction::new((allocation.exact[flow] >> (FINE_BITS - 20)) as i128, 1 << 20);
        let gap = rate - exact;
        assert!(gap.max(Fraction::whole(0) - gap) < Fraction::new(1, 1000), "flow {flow}: {rate:?}, {exact:?}");
    }
    assert_eq!(solve(problem), allocation);
}

#[test]
fn weights_and_caps() {
    each_case(2_000, |rng| compare(&random(rng, PLAIN)));
}

#[test]
fn curves_by_points() {
    each_case(1_000, |rng| compare(&random(rng, Kinds { tiers: 2, floors: true, points: true, ..PLAIN })));
}

#[test]
fn tiers_and_floors() {
    each_case(2_000, |rng| compare(&random(rng, Kinds { tiers: 3, floors: true, ..PLAIN })));
}
