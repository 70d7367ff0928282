//! Integers for an exact allocation.

use super::{FINE_BITS, Fine, Problem};

/// So near a whole number a rate is that number: 2⁻¹⁰ b/s.
pub(super) const STEPS: Fine = 1 << (FINE_BITS - 10);

/// Which rates are rounded up.
#[derive(Clone, Copy)]
enum Pass {
    AlmostWhole,
    Rest,
}

/// Whole b/s: each rate rounded down, and then up where there is room, in order; of a flow over several tunnels the sum, too,
/// is not above the exact one rounded up.
pub(super) fn rounded(problem: &Problem, exact: &[Fine]) -> Vec<u64> {
    let whole = |rate: &Fine| u64::try_from(rate >> FINE_BITS).expect("no rate is above all capacities");
    let mut rates: Vec<u64> = exact.iter().map(whole).collect();
    let mut left: Vec<u64> = problem.limits().iter().map(|limit| limit.capacity).collect();
    for (tunnel, rate) in rates.iter().enumerate() {
        problem.uses(tunnel).iter().for_each(|of| left[*of as usize] = left[*of as usize].saturating_sub(*rate));
    }
    // What is a step of the level below a whole number first: it is that number but for the steps.
    for pass in [Pass::AlmostWhole, Pass::Rest] {
        for flow in 0..problem.demands().len() {
            let of_flow = problem.tunnels_of(flow);
            let due = (exact[of_flow.clone()].iter().sum::<Fine>().saturating_sub(STEPS)).div_ceil(1 << FINE_BITS);
            // Tunnels that rise together may be a part of a b/s beyond a cap.
            let due = due.min(Fine::from(problem.demands()[flow].curve.most()));
            let has: Fine = rates[of_flow.clone()].iter().map(|rate| Fine::from(*rate)).sum();
            let mut more = due.saturating_sub(has);
            for tunnel in of_flow {
                let part = exact[tunnel] & ((1 << FINE_BITS) - 1);
                let is_due = match pass {
                    Pass::AlmostWhole => part >= (1 << FINE_BITS) - STEPS,
                    Pass::Rest => (STEPS..(1 << FINE_BITS) - STEPS).contains(&part),
                };
                if is_due && more > 0 && problem.uses(tunnel).iter().all(|of| left[*of as usize] > 0) {
                    rates[tunnel] += 1;
                    more -= 1;
                    problem.uses(tunnel).iter().for_each(|of| left[*of as usize] -= 1);
                }
            }
        }
    }
    rates
}
