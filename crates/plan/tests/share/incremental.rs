//! Arrivals and departures beside full solves.

use std::cell::Cell;

use plan::bottleneck::incremental::{FlowId, Incremental, MOVES_MAX, NotIncremental};
use plan::share::{Curve, Demand, FINE_BITS, Fine, Limit, Problem, ResourceId, solve};

use crate::cases::each_case;
use crate::problems::weight;
use crate::rng::Rng;

/// To what rates are known before they are rounded down, 2⁻⁶ b/s.
const KNOWN: Fine = 1 << (FINE_BITS - 6);

/// Rates are those of a full solve, within 1 b/s.
fn compare(shares: &Incremental, what: &str) {
    let problem = shares.problem();
    let allocation = solve(&problem);
    let mut carried = vec![0; problem.limits().len()];
    for (index, flow) in shares.ids().enumerate() {
        let rate = shares.rate(flow).unwrap();
        problem.uses(index).iter().for_each(|of| carried[*of as usize] += rate);
        let gap = (Fine::from(rate) << FINE_BITS).abs_diff(allocation.exact[index]);
        let full = allocation.rates[index];
        assert!(
            gap <= (1 << FINE_BITS) + KNOWN,
            "{what}: {flow:?} has {rate}, and {full} in a full solve of {problem:?}"
        );
    }
    for (limit, carried) in problem.limits().iter().zip(carried) {
        assert!(carried <= limit.capacity, "{what}: {carried} over {}", limit.capacity);
    }
}

/// What flows and links are drawn from.
struct Kind {
    unit: u64,
    weights: &'static [u64],
    links: u64,
    hops: u64,
}

fn flow(rng: &mut Rng, kind: &Kind) -> (Demand, Vec<ResourceId>) {
    let most = if rng.one_in(2) { rng.size(0, 20) * kind.unit } else { u64::MAX };
    let curve = Curve::Weighted { weight: weight(*rng.pick(kind.weights)), most };
    let uses = (0..rng.size(1, kind.hops)).map(|_| rng.size(0, kind.links - 1) as ResourceId).collect();
    (Demand { tier: 0, floor: 0, curve }, uses)
}

#[test]
fn rates_after_each_arrival_and_departure_are_those_of_a_full_solve() {
    let (changes, anew) = (Cell::new(0_u64), Cell::new(0_u64));
    let many = each_case(600, |rng| {
        // Small numbers and equal weights make ties; large ones are those of networks.
        let unit = *rng.pick(&[1, 3, 1_000_000_007, 10_000_000_019]);
        let weights: &[u64] = if rng.one_in(2) { &[1] } else { &[1, 1, 2, 3, 7, 16, 1000] };
        let kind = Kind { unit, weights, links: rng.size(1, 24), hops: rng.size(1, 8) };
        let limits = (0..kind.links).map(|_| Limit { capacity: rng.size(0, 60) * kind.unit, floor: 0 }).collect();
        let mut problem = Problem::new(limits);
        for _ in 0..rng.size(0, 60) {
            let (demand, uses) = flow(rng, &kind);
            problem.add(demand, [uses.as_slice()]);
        }
        let mut shares = Incremental::of(&problem).unwrap();
        let mut flows: Vec<FlowId> = shares.ids().collect();
        compare(&shares, "at the begin");
        for step in 0..rng.size(1, 60) {
            // Now and then many leave, or many come.
            let leaves = rng.one_in(if step / 16 % 2 == 0 { 3 } else { 2 });
            if leaves && !flows.is_empty() {
                let flow = flows.swap_remove(rng.size(0, flows.len() as u64 - 1) as usize);
                let update = shares.depart(flow).unwrap();
                anew.set(anew.get() + u64::from(update.is_anew));
                assert_eq!(shares.rate(flow), None);
                assert_eq!(shares.depart(flow), Err(NotIncremental::Gone { flow: index(&shares, flow) }));
            } else {
                let (demand, uses) = flow(rng, &kind);
                let (flow, update) = shares.arrive(&demand, &uses).unwrap();
                anew.set(anew.get() + u64::from(update.is_anew));
                flows.push(flow);
            }
            changes.set(changes.get() + 1);
            compare(&shares, "after a step");
        }
    });
    // It is not the full solve that makes them so.
    assert!(!many || anew.get() * 1000 <= changes.get(), "{} of {} changes are solved anew", anew.get(), changes.get());
}

/// The number of a flow that is not there, as the error says it.
fn index(shares: &Incremental, flow: FlowId) -> usize {
    let Err(NotIncremental::Gone { flow }) = shares.clone().depart(flow) else { panic!("it is not there") };
    flow
}

#[test]
fn a_large_change_is_solved_anew() {
    let mut problem = Problem::new(vec![Limit { capacity: (1 << 40) + (1 << 20), floor: 0 }; 2]);
    let curve = |most| Curve::Weighted { weight: weight(1), most };
    for _ in 0..=2 * MOVES_MAX {
        problem.add(Demand { tier: 0, floor: 0, curve: curve(1 << 29) }, [[0].as_slice()]);
    }
    let mut shares = Incremental::of(&problem).unwrap();
    let before = shares.clone();
    let held = |shares: &Incremental| shares.ids().filter(|flow| shares.held_by(*flow) == Some(0)).count();
    assert_eq!(held(&shares), 2 * MOVES_MAX + 1, "they ask for a little more than there is");
    // It takes so little that all others are held back as before, and so much that all have their caps when it goes.
    let (flow, update) = shares.arrive(&Demand { tier: 0, floor: 0, curve: curve(u64::MAX) }, &[0, 1]).unwrap();
    assert!(!update.is_anew && update.moves == 0, "{update:?}");
    compare(&shares, "one more");
    assert!(!shares.depart(flow).unwrap().is_anew);
    let gone: Vec<FlowId> = shares.ids().take(1).collect();
    let update = shares.depart(gone[0]).unwrap();
    compare(&shares, "one less");
    assert!(update.moves > 0 && shares.level(0) != before.level(0), "{update:?}");
    assert!(update.is_anew, "{update:?}");
}

#[test]
fn what_cannot_be_followed_is_said() {
    let mut shares = Incremental::of(&Problem::new(vec![Limit { capacity: 10, floor: 0 }])).unwrap();
    let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(1), most: 5 } };
    let mut refused = |demand: &Demand, uses: &[ResourceId]| shares.arrive(demand, uses).unwrap_err();
    assert_eq!(refused(&Demand { tier: 1, ..demand.clone() }, &[0]), NotIncremental::Tier { flow: 0, tier: 1 });
    assert_eq!(refused(&Demand { floor: 1, ..demand.clone() }, &[0]), NotIncremental::Floor { flow: 0 });
    let points = Curve::points(&[(1, 1)]).unwrap();
    assert_eq!(refused(&Demand { curve: points, ..demand.clone() }, &[0]), NotIncremental::Curve { flow: 0 });
    assert_eq!(refused(&demand, &[]), NotIncremental::Uses { flow: 0 });
    assert_eq!(refused(&demand, &[1]), NotIncremental::Uses { flow: 0 });
    assert_eq!(shares.ids().count(), 0);
    let mut problem = shares.problem();
    problem.add(demand, [[0].as_slice(), &[0]]);
    assert_eq!(Incremental::of(&problem).unwrap_err(), NotIncremental::Tunnels { flow: 0 });
}
