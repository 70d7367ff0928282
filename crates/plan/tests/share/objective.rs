//! What allocations are worth.

use std::cmp::Ordering;

use plan::objective::{Comparison, LONGEST_NS, Objective, Term, Transfer, Way, Weights};
use plan::share::{Curve, Demand, Limit, Problem, RATE_MAX};

use crate::problems::weight;

const GB: u64 = 1_000_000_000;

/// Two flows, the first over two tunnels.
fn problem() -> Problem {
    let mut problem = Problem::new(vec![Limit { capacity: RATE_MAX, floor: 0 }; 2]);
    let demand = || Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(1), most: u64::MAX } };
    problem.add(demand(), [[0].as_slice(), &[1]]);
    problem.add(demand(), [[1].as_slice()]);
    problem
}

fn of(rates: &[u64]) -> Objective {
    let transfers = [
        Transfer { weight: 2, left_bytes: 30 * GB, deadline_ns: None },
        Transfer { weight: 3, left_bytes: 10 * GB, deadline_ns: Some(10 * GB) },
    ];
    let ways = [(5, true), (7, false), (1, true)].map(|(cost, is_used)| Way { cost, is_used });
    Objective::of(&problem(), &transfers, &ways, rates, Weights::default())
}

#[test]
fn terms_by_hand() {
    // 30 GB at 24 Gb/s are 10 s, 10 GB at 4 Gb/s 20 s, of which half is late.
    let found = of(&[16 * GB, 8 * GB, 4 * GB]);
    let expected = [(2 * 10 + 3 * 20) * 1_000_000, 10_000_000, (16 * 5 + 8 * 7 + 4) * 1_000, 3 * 5 * 1_000_000_000];
    assert_eq!(Term::ALL.map(|term| found.term(term)), expected);
    assert_eq!(
        found.to_string(),
        "15090.1 = completion time 80.0 + path changes 10.0 + cost 0.1 + promise risk 15000.0"
    );
}

#[test]
fn the_better_one_and_why() {
    let (late, in_time, equal) = (of(&[16 * GB, 0, 4 * GB]), of(&[16 * GB, 0, 8 * GB]), of(&[16 * GB, 0, 8 * GB]));
    assert_eq!(in_time.compare(&late), Comparison { order: Ordering::Less, by: Some(Term::Risk) });
    assert_eq!(late.compare(&in_time), Comparison { order: Ordering::Greater, by: Some(Term::Risk) });
    assert_eq!(in_time.compare(&equal), Comparison { order: Ordering::Equal, by: None });
    let moved = of(&[0, 16 * GB, 8 * GB]);
    assert_eq!(moved.compare(&in_time), Comparison { order: Ordering::Greater, by: Some(Term::Changes) });
}

#[test]
fn what_never_ends_counts_as_a_year_and_nothing_overflows() {
    let stopped = of(&[0, 0, 8 * GB]);
    assert_eq!(stopped.term(Term::Completion), u128::from(2 * LONGEST_NS + 3 * 10 * GB) / 1_000);
    let most = Transfer { weight: u32::MAX, left_bytes: u64::MAX, deadline_ns: Some(0) };
    let ways = [Way { cost: u64::MAX, is_used: false }; 3];
    let weights = Weights { completion: u32::MAX, change: u32::MAX, cost: u32::MAX, risk: u32::MAX };
    let found = Objective::of(&problem(), &[most; 2], &ways, &[u64::MAX; 3], weights);
    assert!(Term::ALL.iter().all(|term| found.term(*term) <= found.sum()));
    let late = 2 * u128::from(u32::MAX) * u128::from(u64::MAX);
    assert_eq!(
        found.term(Term::Risk),
        late / 1_000_000_000 * u128::from(u32::MAX) + late % 1_000_000_000 * u128::from(u32::MAX) / 1_000_000_000
    );
}
