//! The examples of draft-giraltyellamraju-alto-bsg-requirements, with the numbers that are printed there.

use num_rational::BigRational;
use plan::bottleneck::questions::placements;
use plan::bottleneck::{Change, Edge, Structure, TooManyEdges};
use plan::share::{Curve, Demand, FINE_BITS, ResourceId, solve};

use crate::problems::weight;
use crate::structure::{problem, ratio};

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
    // All changes come to the tie at the end, so each side is asked for by itself.
    assert_eq!(structure.gradients::<BigRational>().links, [const { None }; 4]);
    assert_eq!(structure.link_levels(), [Some(0), Some(2), Some(4), Some(4)]);
    assert_eq!(structure.flow_levels(), [1, 3, 1, 3, 5, 1].map(Some));
    let edges = structure.edges(100).unwrap();
    assert_eq!(edges.iter().filter(|edge| matches!(edge, Edge::Holds(..))).count(), 3 + 2 + 1 + 1);
    assert_eq!(edges.len(), 7 + 11);
    for edge in [Edge::Holds(0, 5), Edge::Draws(5, 2), Edge::Holds(2, 4), Edge::Holds(3, 4), Edge::Draws(4, 3)] {
        assert!(edges.contains(&edge), "{edge:?}");
    }
    assert_eq!(structure.edges(17), Err(TooManyEdges { edges: 18, most: 17 }));
}

/// Section "req_example": shortest paths from each of four data centres in Europe to each of six in America, in the order of both.
///
/// The draft leaves open which of equally short paths a flow takes, and gives two links the same ends: here link 17 is DC6 to DC8, as
/// in its drawing, and the paths are ones that give the rates it prints. Its set of six bottlenecks has not been found by any choice.
const B4: [&[ResourceId]; 24] = [
    &[5, 6, 10, 18],
    &[10, 15, 18],
    &[8, 9, 13, 17],
    &[6, 10, 18],
    &[10, 18],
    &[8, 9],
    &[3, 8, 16],
    &[8, 16],
    &[8, 13, 17],
    &[8, 17],
    &[10, 19],
    &[8],
    &[3, 10, 15],
    &[10, 15],
    &[10, 12, 15],
    &[6, 10],
    &[10],
    &[7, 10],
    &[3, 10, 14, 15],
    &[10, 14, 15],
    &[8, 11, 12, 16],
    &[6, 10, 14],
    &[10, 14],
    &[8, 11],
];

#[test]
fn the_published_choice_of_a_path_over_b4() {
    const G: u64 = 1_000_000_000;
    // Links count from 1 in the draft: number 0 is used by nobody.
    let capacities: Vec<u64> = (0..=19).map(|link| if [8, 10].contains(&link) { 25 * G } else { 10 * G }).collect();
    let problem = problem(&capacities, &B4);
    let allocation = solve(&problem);
    let structure = Structure::of(&problem, &allocation).unwrap();
    let full: Vec<_> = (0..20).filter(|link| structure.is_full(*link)).collect();
    assert_eq!(full, [8, 10, 15]);
    for (link, over, under) in [(8, 25, 9), (10, 10, 6), (15, 10, 6)] {
        for flow in structure.holds_back(link) {
            let exact = allocation.exact[*flow as usize] as f64 / 2_f64.powi(FINE_BITS as i32);
            assert!((exact - (over * G) as f64 / f64::from(under)).abs() < 1e-5, "flow {flow} on l{link}: {exact} b/s");
        }
    }
    let levels = structure.link_levels();
    assert_eq!((levels[15], levels[10], levels[8]), (Some(0), Some(0), Some(2)), "l15 is above l8");

    // From DC11 to DC4: the shortest path is bottlenecked at the upper level, the longer one at the lower.
    let demand = Demand { tier: 0, floor: 0, curve: Curve::Weighted { weight: weight(1), most: u64::MAX } };
    let placed = placements(&problem, &allocation, &demand, &[&[10, 15], &[19, 8, 16]]);
    let found: Vec<_> = placed.iter().map(|placement| (placement.path, placement.rate)).collect();
    assert_eq!(found, [(1, 2_500_000_000), (0, 1_428_571_428)], "10/4 and 10/7 Gb/s");
}
