//! Weighted max-min over any number of tunnels as a sequence of linear programs, in exact fractions.
//!
//! The rate of a flow is its weight times the sum of the rises τ₁ + … + τₖ up to the one that it stops at. Rise by rise: the most
//! that it can be; whose row has a price then can have no more in any optimum, and stops. All of it is one tableau that begins
//! with nothing carried, which is feasible: a rise adds a column, and what would undo it may not enter any more.

use num_rational::BigRational;
use plan::share::{Curve, Problem};

/// The tableau of a simplex method: rows are resources, then caps, then flows.
struct Tableau {
    rows: Vec<Vec<BigRational>>,
    /// What the basic variable of each row is.
    right: Vec<BigRational>,
    basic: Vec<usize>,
    /// By column, whether it may enter.
    enters: Vec<bool>,
}

fn zero() -> BigRational {
    BigRational::from_integer(0.into())
}

pub(crate) fn ratio(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

pub(crate) fn weight_of(problem: &Problem, flow: usize) -> u64 {
    let Curve::Weighted { weight, .. } = &problem.demands()[flow].curve else { panic!("only weights are programs") };
    u64::from(weight.get())
}

/// The normalised rate of each flow in the max-min allocation. All flows are of one tier and have no floors.
pub(crate) fn levels(problem: &Problem) -> Vec<BigRational> {
    let (tunnels, flows) = (problem.tunnels(), problem.demands().len());
    let of_flows = problem.limits().len() + flows;
    let mut tableau = Tableau::new(problem);
    let mut levels: Vec<Option<BigRational>> = vec![None; flows];
    let mut level = zero();
    while levels.iter().any(Option::is_none) {
        // The flows that rise, in what the slack columns of their rows say of the rows as they began.
        let column: Vec<BigRational> = (0..tableau.rows.len())
            .map(|row| {
                let of = |flow: usize| &tableau.rows[row][tunnels + of_flows + flow] * ratio(weight_of(problem, flow));
                (0..flows).filter(|flow| levels[*flow].is_none()).map(of).fold(zero(), |sum, part| sum + part)
            })
            .collect();
        let rise = tableau.add(column);
        let prices = tableau.maximise(rise);
        level += tableau.value(rise);
        let mut stopped = 0;
        for flow in 0..flows {
            if levels[flow].is_none() && prices[tunnels + of_flows + flow] > zero() {
                levels[flow] = Some(level.clone());
                stopped += 1;
            }
        }
        assert!(stopped > 0, "a price of the rise is somebody's");
    }
    levels.into_iter().flatten().collect()
}

impl Tableau {
    fn new(problem: &Problem) -> Tableau {
        let (tunnels, flows, resources) = (problem.tunnels(), problem.demands().len(), problem.limits().len());
        let count = resources + 2 * flows;
        let mut rows = vec![vec![zero(); tunnels + count]; count];
        let one = || BigRational::from_integer(1.into());
        for (flow, tunnel) in (0..flows).flat_map(|flow| problem.tunnels_of(flow).map(move |tunnel| (flow, tunnel))) {
            problem.uses(tunnel).iter().for_each(|of| rows[*of as usize][tunnel] = one());
            rows[resources + flow][tunnel] = one();
            rows[resources + flows + flow][tunnel] = -one();
        }
        (0..count).for_each(|row| rows[row][tunnels + row] = one());
        let capacities = problem.limits().iter().map(|limit| ratio(limit.capacity));
        let caps = problem.demands().iter().map(|demand| ratio(demand.curve.most()));
        let right = capacities.chain(caps).chain((0..flows).map(|_| zero())).collect();
        let basic = (tunnels..tunnels + count).collect();
        Tableau { rows, right, basic, enters: vec![true; tunnels + count] }
    }

    fn add(&mut self, column: Vec<BigRational>) -> usize {
        self.rows.iter_mut().zip(column).for_each(|(row, entry)| row.push(entry));
        self.enters.push(true);
        self.enters.len() - 1
    }

    fn value(&self, column: usize) -> BigRational {
        self.basic.iter().position(|of| *of == column).map_or(zero(), |row| self.right[row].clone())
    }

    /// Makes a variable as large as can be, and keeps it so: the price of each column; what has one does not enter again.
    /// Bland's rule: it ends, and is the same each time.
    fn maximise(&mut self, variable: usize) -> Vec<BigRational> {
        let mut prices = vec![zero(); self.enters.len()];
        prices[variable] = -BigRational::from_integer(1.into());
        while let Some(column) = (0..prices.len()).find(|column| self.enters[*column] && prices[*column] < zero()) {
            let bounds = (0..self.rows.len()).filter(|row| self.rows[*row][column] > zero());
            let least = bounds.min_by_key(|row| (&self.right[*row] / &self.rows[*row][column], self.basic[*row]));
            let row = least.expect("all is bounded by capacities");
            self.pivot(row, column);
            let price = prices[column].clone();
            for (at, entry) in self.rows[row].iter().enumerate().filter(|(_, entry)| **entry != zero()) {
                prices[at] -= &price * entry;
            }
        }
        for (column, price) in prices.iter().enumerate() {
            self.enters[column] &= *price <= zero();
        }
        prices
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let by = self.rows[row][column].clone();
        self.rows[row].iter_mut().for_each(|entry| *entry /= &by);
        self.right[row] /= &by;
        let (of_row, right) = (self.rows[row].clone(), self.right[row].clone());
        for other in (0..self.rows.len()).filter(|other| *other != row) {
            let by = self.rows[other][column].clone();
            if by == zero() {
                continue;
            }
            for (entry, of_row) in self.rows[other].iter_mut().zip(&of_row).filter(|(_, of_row)| **of_row != zero()) {
                *entry -= &by * of_row;
            }
            self.right[other] -= &by * &right;
        }
        self.basic[row] = column;
    }
}
