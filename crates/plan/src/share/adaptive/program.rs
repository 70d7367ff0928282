//! The optimum of a small problem, as a sequence of linear programs.
//!
//! The rate of a flow is its weight times a sum of rises, up to that with which it stops. Rise by rise: the most that it can be;
//! flows whose rows have a price then have no more in any optimum, and stop. It is one tableau: a rise adds a column, and a column
//! with a price does not enter again, so nothing takes back what an earlier rise gave. In an optimum each tunnel of a flow meets
//! resources that are full at the level of the flow, so water-filling with its parts finds it again, without the errors of what
//! is done here in floating point: a wrong result costs only quality.

use super::super::{Curve, Problem};

/// The largest tableau: some ms.
const ENTRIES_MAX: usize = 1 << 17;
/// Steps of a method that seldom takes more than two for each row.
const STEPS_PER_ROW: usize = 12;
/// What is less is nothing. Rates are in proportion to the highest capacity, weights to the greatest weight.
const NOTHING: f64 = 1e-9;

/// Rows are resources, then caps, then flows; columns are tunnels, then what each row leaves unused, then rises.
struct Tableau {
    rows: Vec<Vec<f64>>,
    /// What the basic variable of each row is.
    right: Vec<f64>,
    basic: Vec<usize>,
    /// By column, whether it may enter.
    enters: Vec<bool>,
    steps_left: usize,
}

/// The part of each tunnel; none if the problem is too large, or is more than weights, caps and floors that fit.
pub(super) fn parts(problem: &Problem) -> Option<Vec<f64>> {
    let (tunnels, flows, resources) = (problem.tunnels(), problem.demands.len(), problem.limits.len());
    let rows = resources.checked_add(2 * flows)?;
    let weight = |flow: usize| match &problem.demands[flow].curve {
        Curve::Weighted { weight, .. } => Some(f64::from(weight.get())),
        Curve::Points(_) => None,
    };
    let weights: Vec<f64> = (0..flows).map(weight).collect::<Option<_>>()?;
    if rows * (tunnels + rows) > ENTRIES_MAX || problem.limits.iter().any(|limit| limit.floor > 0) {
        return None;
    }
    let highest = problem.limits.iter().map(|limit| limit.capacity).max().filter(|most| *most > 0)? as f64;
    let heaviest = weights.iter().copied().fold(1.0, f64::max);
    let mut tableau = Tableau::new(problem, highest)?;
    let mut rises: Vec<bool> = vec![true; flows];
    let mut tiers: Vec<u8> = problem.demands.iter().map(|demand| demand.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let unused = |flow: usize| tunnels + resources + flows + flow;
    for tier in tiers {
        let of_tier: Vec<usize> = (0..flows).filter(|flow| problem.demands[*flow].tier == tier).collect();
        while of_tier.iter().any(|flow| rises[*flow]) {
            // What rises, by what the columns of what is unused say of the rows as they began.
            let rising = || of_tier.iter().filter(|flow| rises[**flow]);
            let entry = |row: &Vec<f64>| rising().map(|flow| row[unused(*flow)] * weights[*flow] / heaviest).sum();
            let column: Vec<f64> = tableau.rows.iter().map(entry).collect();
            let prices = tableau.maximise(column)?;
            let stopped: Vec<usize> = rising().copied().filter(|flow| prices[unused(*flow)] > NOTHING).collect();
            if stopped.is_empty() {
                return None;
            }
            stopped.iter().for_each(|flow| rises[*flow] = false);
        }
    }
    let mut rates = vec![0.0; tunnels];
    for (row, basic) in tableau.basic.iter().enumerate().filter(|(_, basic)| **basic < tunnels) {
        rates[*basic] = tableau.right[row].max(0.0);
    }
    for (flow, demand) in problem.demands.iter().enumerate() {
        let of_flow = problem.tunnels_of(flow);
        rates[of_flow.start] += demand.floor as f64 / highest;
        let sum: f64 = rates[of_flow.clone()].iter().sum();
        let whole = of_flow.len() as f64;
        rates[of_flow].iter_mut().for_each(|rate| *rate = if sum > 0.0 { *rate / sum } else { 1.0 / whole });
    }
    Some(rates)
}

impl Tableau {
    /// Floors are used, and nothing else. None if they do not fit.
    fn new(problem: &Problem, highest: f64) -> Option<Tableau> {
        let (tunnels, flows, resources) = (problem.tunnels(), problem.demands.len(), problem.limits.len());
        let count = resources + 2 * flows;
        let mut rows = vec![vec![0.0; tunnels + count]; count];
        let mut left: Vec<u64> = problem.limits.iter().map(|limit| limit.capacity).collect();
        for (flow, demand) in problem.demands.iter().enumerate() {
            for tunnel in problem.tunnels_of(flow) {
                problem.uses(tunnel).iter().for_each(|of| rows[*of as usize][tunnel] = 1.0);
                rows[resources + flow][tunnel] = 1.0;
                rows[resources + flows + flow][tunnel] = -1.0;
            }
            for of in problem.uses(problem.tunnels_of(flow).start) {
                left[*of as usize] = left[*of as usize].checked_sub(demand.floor)?;
            }
        }
        (0..count).for_each(|row| rows[row][tunnels + row] = 1.0);
        let caps = problem.demands.iter().map(|demand| demand.curve.most() - demand.floor);
        let floors = problem.demands.iter().map(|demand| demand.floor);
        let right = left.into_iter().chain(caps).chain(floors).map(|rate| rate as f64 / highest).collect();
        let basic = (tunnels..tunnels + count).collect();
        let enters = vec![true; tunnels + count];
        Some(Tableau { rows, right, basic, enters, steps_left: STEPS_PER_ROW * count })
    }

    /// Adds a column, makes its variable as large as can be, and keeps it so: the price of each column. None if it takes too long.
    fn maximise(&mut self, column: Vec<f64>) -> Option<Vec<f64>> {
        self.rows.iter_mut().zip(column).for_each(|(row, entry)| row.push(entry));
        self.enters.push(true);
        let mut prices = vec![0.0; self.enters.len()];
        prices[self.enters.len() - 1] = -1.0;
        let enters = |prices: &[f64], of: &[bool]| {
            let may = (0..prices.len()).filter(|column| of[*column] && prices[*column] < -NOTHING);
            may.min_by(|one, other| prices[*one].total_cmp(&prices[*other]))
        };
        while let Some(column) = enters(&prices, &self.enters) {
            self.steps_left = self.steps_left.checked_sub(1)?;
            let bounds = (0..self.rows.len()).filter(|row| self.rows[*row][column] > NOTHING);
            let bound = |row: &usize| self.right[*row].max(0.0) / self.rows[*row][column];
            let row = bounds.min_by(|one, other| bound(one).total_cmp(&bound(other)))?;
            self.exchange(row, column);
            let price = prices[column];
            prices.iter_mut().zip(&self.rows[row]).for_each(|(of, entry)| *of -= price * entry);
            prices[column] = 0.0;
        }
        self.enters.iter_mut().zip(&prices).for_each(|(enters, price)| *enters &= *price <= NOTHING);
        Some(prices)
    }

    /// Lets a column enter the basis at a row.
    fn exchange(&mut self, row: usize, column: usize) {
        let by = 1.0 / self.rows[row][column];
        self.rows[row].iter_mut().for_each(|entry| *entry *= by);
        self.right[row] *= by;
        let (of_row, right) = (std::mem::take(&mut self.rows[row]), self.right[row]);
        for (other, entries) in self.rows.iter_mut().enumerate().filter(|(other, _)| *other != row) {
            let by = entries[column];
            if by != 0.0 {
                entries.iter_mut().zip(&of_row).for_each(|(entry, of_row)| *entry -= by * of_row);
                entries[column] = 0.0;
                self.right[other] -= by * right;
            }
        }
        self.rows[row] = of_row;
        self.basic[row] = column;
    }
}
