//! Differences, applied in every order that they allow.

use std::cell::Cell;
use std::collections::BTreeMap;

use plan::difference::{Difference, Hysteresis, InForce, Tunnel, between};
use plan::share::{Curve, Demand, Limit, Problem, ResourceId, solve};

use crate::cases::each_case;
use crate::problems::{Kinds, PLAIN, random, weight};
use crate::rng::Rng;

const UNIT: u64 = 10_000_000;
/// A tenth, and so much that it is larger or less than that.
const SOME: Hysteresis = Hysteresis { relative_ppm: 100_000, absolute_bps: UNIT };

/// Tunnels over some resources, with rates that fit at first, and others that fit now.
fn tunnels(rng: &mut Rng) -> (Vec<u64>, Vec<Tunnel<usize>>) {
    let resources = rng.size(1, 6);
    let capacities: Vec<u64> = (0..resources).map(|_| rng.size(1, 40) * UNIT).collect();
    let paths: Vec<Vec<ResourceId>> = (0..rng.size(1, 9))
        .map(|_| (0..resources as ResourceId).filter(|_| rng.one_in(2)).collect::<Vec<_>>())
        .map(|uses| if uses.is_empty() { vec![0] } else { uses })
        .collect();
    let mut rates = |capacities: &[u64]| {
        let limit = |capacity: &u64| Limit { capacity: *capacity, floor: 0 };
        let mut problem = Problem::new(capacities.iter().map(limit).collect());
        for path in &paths {
            let most = if rng.one_in(4) { 0 } else { rng.size(1, 300) * UNIT / 10 };
            let curve = Curve::Weighted { weight: weight(rng.size(1, 5)), most };
            problem.add(Demand { tier: 0, floor: 0, curve }, [path.as_slice()]);
        }
        solve(&problem).rates
    };
    let from = rates(&capacities);
    let now: Vec<u64> = capacities.iter().map(|capacity| capacity - capacity / 10).collect();
    let (mut to, capacities) = (rates(&now), if from.len() % 3 == 0 { now } else { capacities });
    for (to, from) in to.iter_mut().zip(&from) {
        // Some are about what they were.
        *to = if from % 3 == 0 { *to } else { (*to).min(from + from / 20) };
    }
    let tunnel = |(key, uses): (usize, Vec<ResourceId>)| Tunnel { key, uses, from: from[key], to: to[key] };
    (capacities, paths.into_iter().enumerate().map(tunnel).collect())
}

fn carried(resources: usize, tunnels: &[Tunnel<usize>], rates: &[u64]) -> Vec<u64> {
    let mut carried = vec![0; resources];
    for tunnel in tunnels {
        tunnel.uses.iter().for_each(|of| carried[*of as usize] += rates[tunnel.key]);
    }
    carried
}

#[test]
fn no_order_that_is_allowed_overfills_anything() {
    let (waited, free, left_out, forced) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let count = |of: &Cell<usize>, more: usize| of.set(of.get() + more);
    each_case(4_000, |rng| {
        let (capacities, tunnels) = tunnels(rng);
        let difference = Difference::of(&capacities, &tunnels, SOME);
        assert_eq!(Difference::of(&capacities, &tunnels, SOME), difference);
        let Difference { decreases, increases, left_out: kept } = &difference;
        let mut rates: Vec<u64> = tunnels.iter().map(|tunnel| tunnel.from).collect();
        let begin = carried(capacities.len(), &tunnels, &rates);
        let (mut fallen, mut risen) = (vec![false; decreases.len()], vec![false; increases.len()]);
        loop {
            let falls = (0..decreases.len()).filter(|at| !fallen[*at]).map(|at| (true, at));
            let may_rise = |at: &usize| !risen[*at] && increases[*at].after.iter().all(|at| fallen[*at]);
            let may: Vec<(bool, usize)> =
                falls.chain((0..increases.len()).filter(may_rise).map(|at| (false, at))).collect();
            if may.is_empty() {
                break;
            }
            let (falls, at) = *rng.pick(&may);
            let (step, done) = if falls { (&decreases[at], &mut fallen[at]) } else { (&increases[at], &mut risen[at]) };
            assert_eq!((rates[step.key], falls), (step.from, step.to < step.from));
            (rates[step.key], *done) = (step.to, true);
            for (of, carried) in carried(capacities.len(), &tunnels, &rates).into_iter().enumerate() {
                assert!(
                    carried <= capacities[of].max(begin[of]),
                    "{of} carries {carried}: {difference:?} of {tunnels:?}"
                );
            }
        }
        assert!(risen.iter().all(|risen| *risen), "all are made");
        let end = carried(capacities.len(), &tunnels, &rates);
        assert!(end.iter().zip(&capacities).all(|(end, capacity)| end <= capacity), "{difference:?} of {tunnels:?}");
        for tunnel in &tunnels {
            let is_small =
                tunnel.from.abs_diff(tunnel.to) < UNIT.max(tunnel.from / 10) && tunnel.from > 0 && tunnel.to > 0;
            let is_kept = kept.contains(&tunnel.key);
            assert_eq!(rates[tunnel.key], if is_kept { tunnel.from } else { tunnel.to });
            assert!(is_small || !is_kept, "{tunnel:?} is kept");
            if is_small && !is_kept && tunnel.from != tunnel.to {
                assert!(tunnel.to < tunnel.from, "a small increase is never needed: {tunnel:?}");
                count(&forced, 1);
            }
        }
        // Room goes to the small ones first.
        let before = |one: usize, other: usize| {
            let by = |at: usize| (increases[at].to - increases[at].from, increases[at].key);
            by(one) <= by(other)
        };
        for (at, step) in increases.iter().enumerate() {
            let exceeds = |of: &ResourceId| {
                let first = (0..increases.len()).filter(|other| before(*other, at));
                let over = first.map(|other| &increases[other]).filter(|step| tunnels[step.key].uses.contains(of));
                let asked: u64 = over.map(|step| step.to - step.from).sum();
                begin[*of as usize] + asked > capacities[*of as usize]
            };
            let uses = &tunnels[step.key].uses;
            assert_eq!(uses.iter().any(exceeds), !step.after.is_empty(), "{step:?}: {difference:?} of {tunnels:?}");
            for decrease in &step.after {
                let frees = |of: &&ResourceId| tunnels[decreases[*decrease].key].uses.contains(of);
                assert!(uses.iter().filter(frees).any(exceeds), "{step:?} need not wait for {decrease}");
            }
            count(if step.after.is_empty() { &free } else { &waited }, 1);
        }
        count(&left_out, kept.len());
    });
    let seen = [&waited, &free, &left_out, &forced].map(Cell::get);
    assert!(std::env::var("PLAN_SEED").is_ok() || seen.iter().all(|seen| *seen > 0), "{seen:?}");
}

#[test]
fn an_allocation_is_reached_within_caps() {
    each_case(500, |rng| {
        let problem = random(rng, Kinds { tunnels: 3, ..PLAIN });
        let allocation = solve(&problem);
        let rates = allocation.rates.iter().enumerate().filter(|_| rng.one_in(2));
        let half =
            |(tunnel, rate): (usize, &u64)| (tunnel, InForce { rate: rate / 2, uses: problem.uses(tunnel).to_vec() });
        let mut in_force: BTreeMap<usize, InForce> = rates.map(half).collect();
        in_force.insert(usize::MAX, InForce { rate: 1, uses: vec![0] });
        let found = between(&problem, &allocation, |tunnel| tunnel, &in_force, Hysteresis::NONE);
        assert_eq!(found.decreases.iter().map(|step| (step.key, step.to)).collect::<Vec<_>>(), [(usize::MAX, 0)]);
        let mut rates: BTreeMap<usize, u64> = in_force.iter().map(|(key, of)| (*key, of.rate)).collect();
        rates.extend(found.increases.iter().map(|step| (step.key, step.to)));
        let carries = allocation.rates.iter().copied().enumerate().filter(|(_, rate)| *rate > 0);
        rates.remove(&usize::MAX);
        rates.retain(|_, rate| *rate > 0);
        assert_eq!(rates, carries.collect());
    });
}

#[test]
fn a_cap_holds_on_the_way() {
    let mut problem = Problem::new(vec![Limit { capacity: 20, floor: 0 }; 2]);
    let curve = Curve::Weighted { weight: weight(1), most: 20 };
    problem.add(Demand { tier: 0, floor: 0, curve }, [[0].as_slice(), &[1]]);
    let in_force = BTreeMap::from([(1, InForce { rate: 20, uses: vec![1] })]);
    let found = between(&problem, &solve(&problem), |tunnel| tunnel, &in_force, Hysteresis::default());
    assert_eq!((found.decreases[0].key, found.increases[0].key), (1, 0));
    assert_eq!(found.increases[0].after, [0], "there is room, but the flow may not have more");
}
