//! Ranked answers, acted upon.

use std::cell::Cell;

use plan::bottleneck::incremental::{Incremental, NotIncremental};
use plan::bottleneck::questions::{Effects, FlowEffect, PATHS_MAX, WhatIf, placements, shapings, upgrades, what_if};
use plan::bottleneck::{Change, NoStructure, Structure};
use plan::share::{Allocation, Class, Curve, Demand, FINE_BITS, Limit, Problem, ResourceId, solve};

use crate::cases::each_case;
use crate::problems::{Kinds, PLAIN, random, weight};
use crate::structure::{LARGER, changed, problem};

/// Rates are known to this, in b/s, and differences of them.
const KNOWN: f64 = 1.0 / 64.0;

fn total(allocation: &Allocation) -> f64 {
    allocation.exact.iter().map(|rate| *rate as f64 / 2_f64.powi(FINE_BITS as i32)).sum()
}

/// Figure 1 of draft-giraltyellamraju-alto-bsg-requirements, in Gb/s.
#[test]
fn the_published_example() {
    const GIGA: u64 = 1_000_000_000;
    let capacities = [25, 50, 100, 75].map(|capacity| capacity * GIGA);
    let problem = problem(&capacities, &[&[0], &[1], &[0, 1], &[1, 2], &[2, 3], &[0, 1, 2]]);
    let allocation = solve(&problem);
    let structure = Structure::of(&problem, &allocation).unwrap();
    let best = upgrades(&structure, 2);
    assert_eq!(best.iter().map(|upgrade| upgrade.resource).collect::<Vec<_>>(), [1, 0]);
    assert!((best[0].gain - 0.5).abs() < 1e-12 && (best[1].gain - 1.0 / 3.0).abs() < 1e-12, "{best:?}");
    // By 12.5 Gb/s more the first resource comes to the level of the second.
    assert!(best[1].range.abs_diff(12_500_000_000) <= 1, "{best:?}");
    assert_eq!(upgrades(&structure, 9).len(), 4);
    // What flow 0 leaves goes to flows 2 and 5; these take it from 1 and 3, which leaves flow 4 what it had.
    let shaped = shapings(&structure, 6);
    assert!(shaped.is_sorted_by(|a, b| a.gain >= b.gain), "{shaped:?}");
    for shaping in shaped {
        let by = structure.gradient(Change::Most(shaping.flow), false);
        let exact: f64 =
            by.numer().to_string().parse::<f64>().unwrap() / by.denom().to_string().parse::<f64>().unwrap();
        assert!((shaping.gain - 1.0 - exact).abs() < 1e-12, "{shaping:?}");
    }
}

#[test]
fn a_gain_holds_over_its_range() {
    let (held, all) = (Cell::new(0_u64), Cell::new(0_u64));
    let kinds = [PLAIN, Kinds { tiers: 2, floors: true, ..PLAIN }, Kinds { points: true, ..PLAIN }];
    let many = each_case(900, |rng| {
        let kinds = *rng.pick(&kinds);
        let small = random(rng, kinds);
        let corners = small.demands().iter().flat_map(|demand| demand.curve.corners().unwrap_or_default());
        let capacities = small.limits().iter().map(|limit| limit.capacity);
        if capacities.chain(corners.map(|corner| corner.0)).any(|size| size > 1000) {
            return;
        }
        let problem = changed(&small, None, true);
        let allocation = solve(&problem);
        let structure = Structure::of(&problem, &allocation).unwrap();
        let before = total(&allocation);
        let agrees = |won: f64, after: f64, range: u64, what: &dyn std::fmt::Debug| {
            // Slopes are known to 2⁻⁴⁸.
            let known = KNOWN + (range as f64 + LARGER as f64) / 2_f64.powi(36);
            assert!((after - won).abs() <= known, "{what:?} wins {after} in {problem:?}");
            all.set(all.get() + 1);
            held.set(held.get() + u64::from(range > LARGER / 1000));
        };
        for upgrade in upgrades(&structure, usize::MAX) {
            let range = upgrade.range.min(1000 * LARGER);
            let capacity = problem.limits()[upgrade.resource as usize].capacity;
            let then = solve(&problem.with_capacities(&[(upgrade.resource, capacity + range)]));
            agrees(upgrade.gain * range as f64, total(&then) - before, range, &upgrade);
        }
        for shaping in shapings(&structure, usize::MAX) {
            let Curve::Weighted { weight, .. } = problem.demands()[shaping.flow].curve else { continue };
            if shaping.range == 0 {
                continue;
            }
            let mut shaped = Problem::new(problem.limits().to_vec());
            // No further than the range, whatever was rounded.
            let most = (allocation.exact[shaping.flow] >> FINE_BITS) as u64 + 1 - shaping.range;
            for (flow, demand) in problem.demands().iter().enumerate() {
                let curve = Curve::Weighted { weight, most };
                let curve = if flow == shaping.flow { curve } else { demand.curve.clone() };
                shaped.add(Demand { curve, ..demand.clone() }, [problem.uses(flow)]);
            }
            let rate = |of: &Allocation| of.exact[shaping.flow] as f64 / 2_f64.powi(FINE_BITS as i32);
            let then = solve(&shaped);
            let others = total(&then) - rate(&then) - (before - rate(&allocation));
            let less = rate(&allocation) - rate(&then);
            agrees(shaping.gain * less, others, shaping.range, &shaping);
        }
    });
    assert!(!many || held.get() * 2 > all.get(), "{} of {} ranges are more than a little", held.get(), all.get());
}

/// Flow 3 rises from 0 over resources 1 and 2, and 2 holds it back; flow 1 is held back by 1 and begins above its floor, at a level
/// that 3 reaches when the shaper has taken 2.03 of 5 Gb/s: from there on 1 and 3 share, and each b/s wins more.
#[test]
fn a_gain_ends_where_others_are_as_high_as_who_begins_late() {
    const GIGA: u64 = 1_000_000_000;
    let limits = [20, 21, 5, 21].map(|giga| Limit { capacity: giga * GIGA, floor: 0 });
    let mut problem = Problem::new(limits.to_vec());
    let flows: [(u8, u64, u64, u64, &[ResourceId]); 5] = [
        (1, 0, 7, 10, &[0, 2, 3]),
        (1, 2, 1000, 100, &[0, 1]),
        (0, 0, 7, 14, &[1, 3]),
        (1, 0, 1000, 18, &[0, 1, 2]),
        (0, 0, 1, 11, &[0, 1, 2]),
    ];
    for (tier, floor, weighs, most, uses) in flows {
        let curve = Curve::Weighted { weight: weight(weighs), most: most * GIGA };
        problem.add(Demand { tier, floor: floor * GIGA, curve }, [uses]);
    }
    let allocation = solve(&problem);
    let structure = Structure::of(&problem, &allocation).unwrap();
    let shaping = shapings(&structure, usize::MAX).into_iter().find(|shaping| shaping.flow == 4).unwrap();
    // (2e9 + 7/1007 x) / 1000 = x / 1007.
    let meets = 2e6 * 1_007_000.0 / 993.0;
    assert!((shaping.range as f64 - meets).abs() < 1e3, "{shaping:?}, not {meets}");
}

#[test]
fn a_stated_change_is_solved() {
    let problem = problem(&[25, 50, 100, 75], &[&[0], &[1], &[0, 1], &[1, 2], &[2, 3], &[0, 1, 2]]);
    let before = solve(&problem);
    let cut = what_if(&problem, &before, &[WhatIf::Cut(2)]);
    let after = |flow: usize| cut.flows.iter().find(|effect| effect.flow == flow).map(|effect| effect.after);
    assert_eq!([after(3), after(4), after(5)], [Some(0); 3]);
    assert_eq!(cut.flows[0], FlowEffect { flow: 4, before: before.rates[4], after: 0 }, "what changes most is first");
    assert_eq!(cut.links[0].resource, 2);
    assert_eq!((cut.before, cut.links[0].after), (before.rates.iter().sum(), 0));
    let both = what_if(&problem, &before, &[WhatIf::Shape(4, 10), WhatIf::Capacity(1, 80)]);
    let with = solve(&problem.with_capacities(&[(1, 80)]));
    let after = |flow: usize| both.flows.iter().find(|of| of.flow == flow).map_or(before.rates[flow], |of| of.after);
    assert_eq!(after(4), 10);
    assert_eq!([after(0), after(1), after(3)], [with.rates[0], with.rates[1], with.rates[3]]);
    assert_eq!(what_if(&problem, &before, &[WhatIf::Shape(4, 1000)]).flows, []);
}

#[test]
fn flows_stay_in_their_classes() {
    let plain = problem(&[90], &[&[0], &[0], &[0]]);
    let class = |weight_of: u64| Class { parent: None, weight: weight(weight_of), floor: 0, cap: u64::MAX };
    let classed = plain.with_classes(vec![class(2), class(1)], vec![Some(0), Some(1), Some(1)]).unwrap();
    let before = solve(&classed);
    assert_eq!(before.rates, [60, 15, 15]);
    let after = |effects: &Effects| effects.flows.iter().map(|of| (of.flow, of.after)).collect::<Vec<_>>();
    let cut = what_if(&classed, &before, &[WhatIf::Capacity(0, 30)]);
    assert_eq!(after(&cut), [(0, 20), (1, 5), (2, 5)]);
    let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(3), most: u64::MAX } };
    let placed = placements(&classed, &before, &demand, &[&[0]]);
    assert_eq!((placed[0].rate, after(&placed[0].effects)), (45, vec![(0, 30), (2, 7), (1, 8)]));
    assert!(matches!(Structure::of(&classed, &before), Err(NoStructure::Classes)));
    assert!(matches!(Incremental::of(&classed), Err(NotIncremental::Classes)));
}

#[test]
fn a_new_flow_gets_on_each_path_what_it_gets_when_it_arrives() {
    each_case(200, |rng| {
        let problem = random(rng, PLAIN);
        let before = solve(&problem);
        let links = problem.limits().len() as u64;
        let path = |_| (0..rng.size(1, 4)).map(|_| rng.size(0, links - 1) as ResourceId).collect();
        let paths: Vec<Vec<ResourceId>> = (0..3).map(path).collect();
        let along: Vec<&[ResourceId]> = paths.iter().map(Vec::as_slice).collect();
        let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(2), most: u64::MAX } };
        let found = placements(&problem, &before, &demand, &along);
        assert_eq!(found.len(), 3);
        assert!(found.is_sorted_by(|a, b| (a.rate, b.lost) >= (b.rate, a.lost)), "{found:?}");
        for placement in found {
            let mut shares = Incremental::of(&problem).unwrap();
            let flows: Vec<_> = shares.ids().collect();
            let (flow, _) = shares.arrive(&demand, along[placement.path]).unwrap();
            assert!(shares.rate(flow).unwrap().abs_diff(placement.rate) <= 1, "{placement:?}");
            for effect in placement.effects.flows {
                assert!(shares.rate(flows[effect.flow]).unwrap().abs_diff(effect.after) <= 1, "{effect:?}");
            }
        }
    });
}

#[test]
#[should_panic(expected = "at most 64 paths")]
fn more_paths_are_refused() {
    let problem = problem(&[1], &[]);
    let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(1), most: 1 } };
    let paths = vec![[0].as_slice(); PATHS_MAX + 1];
    let _ = placements(&problem, &solve(&problem), &demand, &paths);
}
