//! What is right passes, and what is changed does not.

use plan::certificate::check;
use plan::share::{FINE_BITS, solve};

use crate::cases::each_case;
use crate::problems::{Kinds, random};

const ALL: Kinds = Kinds { tiers: 3, floors: true, points: true, tunnels: 3, kept: true, classes: false };

#[test]
fn every_result_passes_and_no_changed_rate_does() {
    each_case(2_000, |rng| {
        let tunnels = if rng.one_in(2) { 1 } else { 3 };
        let classes = rng.one_in(2);
        let problem = random(rng, Kinds { tunnels, classes, ..ALL });
        let allocation = solve(&problem);
        check(&problem, &allocation).unwrap_or_else(|broken| panic!("{broken}: {allocation:?} of {problem:?}"));
        let tunnel = rng.size(0, problem.tunnels() as u64 - 1) as usize;
        // What is changed is changed in the proof, too.
        for up in [false, true] {
            let mut changed = allocation.clone();
            let (rate, exact) = (&mut changed.rates[tunnel], &mut changed.exact[tunnel]);
            if up {
                (*rate, *exact) = (*rate + 2, *exact + (2 << FINE_BITS));
            } else if *rate >= 2 && *exact >= 2 << FINE_BITS {
                (*rate, *exact) = (*rate - 2, *exact - (2 << FINE_BITS));
            } else {
                continue;
            }
            assert!(check(&problem, &changed).is_err(), "up {up} tunnel {tunnel}: {allocation:?} of {problem:?}");
            changed.exact[tunnel] = allocation.exact[tunnel];
            assert!(check(&problem, &changed).is_err(), "up {up} tunnel {tunnel}: {allocation:?} of {problem:?}");
        }
    });
}
