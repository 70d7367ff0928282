//! What an allocation is worth: a sum of named terms, the less the better.
//!
//! Numbers are in millionths of a point. By default a point is a second for which a flow of weight 1 waits for its end.

use std::cmp::Ordering;
use std::fmt;

use crate::share::Problem;

/// A flow that does not end within a year counts as if it ended then.
pub const LONGEST_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// What a unit of each term is worth, in millionths of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// A second until a flow of weight 1 has ended.
    pub completion: u32,
    /// A tunnel that carries something and did not, or did and does not.
    pub change: u32,
    /// A Gb/s over a link of cost 1.
    pub cost: u32,
    /// A GB that is not there in time, times the weight of its flow.
    pub risk: u32,
}

impl Default for Weights {
    /// A second is a point; a change of path is worth 10 of them, 1,000 Gb/s over a link of cost 1 one, and a GB that misses its
    /// deadline 1,000: a promise is broken last.
    fn default() -> Weights {
        Weights { completion: 1_000_000, change: 10_000_000, cost: 1_000, risk: 1_000_000_000 }
    }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// How much it matters beside others.
    pub weight: u32,
    /// Bytes that it has still to move; 0 for one without an end.
    pub left_bytes: u64,
    /// The time until its deadline, in ns; 0 if it has passed.
    pub deadline_ns: Option<u64>,
}

/// What is known of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The sum of the costs of its links.
    pub cost: u64,
    /// Whether it carries something in the allocation in force.
    pub is_used: bool,
}

/// A term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// Weight times bytes left by rate, over all flows.
    Completion,
    /// Tunnels that begin or cease to carry something.
    Changes,
    /// Rate times cost, over all tunnels.
    Cost,
    /// What does not arrive by its deadline.
    Risk,
}

impl Term {
    /// All, in the order in which they are printed.
    pub const ALL: [Term; 4] = [Term::Completion, Term::Changes, Term::Cost, Term::Risk];
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Term::Completion => "completion time",
            Term::Changes => "path changes",
            Term::Cost => "cost",
            Term::Risk => "promise risk",
        })
    }
}

/// The terms of an allocation, in millionths of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    terms: [u128; 4],
}

/// Which of two is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// `Less` if the first is: its sum is less.
    pub order: Ordering,
    /// The term that speaks most for the better one; none if they are equal.
    pub by: Option<Term>,
}

impl Objective {
    /// Of rates of tunnels, in b/s.
    ///
    /// # Panics
    /// If there is not a transfer for each flow, and a way and a rate for each tunnel.
    #[must_use]
    pub fn of(problem: &Problem, transfers: &[Transfer], ways: &[Way], rates: &[u64], weights: Weights) -> Objective {
        let tunnels = problem.tunnels();
        assert_eq!((transfers.len(), ways.len(), rates.len()), (problem.demands().len(), tunnels, tunnels));
        let (mut completion, mut risk) = (0_u128, 0_u128);
        for (flow, transfer) in transfers.iter().enumerate() {
            let rate: u128 = rates[problem.tunnels_of(flow)].iter().map(|rate| u128::from(*rate)).sum();
            let weight = u128::from(transfer.weight);
            completion += weight * needs_ns(transfer.left_bytes, rate);
            let late = transfer.deadline_ns.map_or(0, |deadline| late_bytes(transfer.left_bytes, rate, deadline));
            risk += weight * late;
        }
        let changes = ways.iter().zip(rates).filter(|(way, rate)| way.is_used != (**rate > 0)).count();
        let costs = ways.iter().zip(rates).map(|(way, rate)| u128::from(way.cost) * u128::from(*rate));
        let cost = costs.fold(0, u128::saturating_add);
        let worth = |units: u128, weight: u32, per: u128| {
            // The whole units by themselves: their product with a weight stays within bounds.
            let (whole, part) = (units / per, units % per);
            (whole.saturating_mul(u128::from(weight))).saturating_add(part * u128::from(weight) / per)
        };
        const GIGA: u128 = 1_000_000_000;
        Objective {
            terms: [
                worth(completion, weights.completion, GIGA),
                worth(changes as u128, weights.change, 1),
                worth(cost, weights.cost, GIGA),
                worth(risk, weights.risk, GIGA),
            ],
        }
    }

    /// A term, in millionths of a point.
    #[must_use]
    pub fn term(&self, term: Term) -> u128 {
        self.terms[term as usize]
    }

    /// All terms together, in millionths of a point.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.terms.iter().fold(0, |sum: u128, term| sum.saturating_add(*term))
    }

    /// Which is better, and by which term.
    #[must_use]
    pub fn compare(&self, other: &Objective) -> Comparison {
        let order = self.sum().cmp(&other.sum());
        let (better, worse) = if order == Ordering::Greater { (other, self) } else { (self, other) };
        let gain = |term: &Term| worse.term(*term).saturating_sub(better.term(*term));
        // Of equal gains the first in the order of terms.
        let by = Term::ALL.into_iter().rev().max_by_key(gain).filter(|_| order != Ordering::Equal);
        Comparison { order, by }
    }
}

impl fmt::Display for Objective {
    /// `12.5 = completion time 2.5 + path changes 10.0 + cost 0.0 + promise risk 0.0`, each rounded down.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = |millionths: u128| format!("{}.{}", millionths / 1_000_000, millionths / 100_000 % 10);
        let terms = Term::ALL.map(|term| format!("{term} {}", points(self.term(term))));
        write!(f, "{} = {}", points(self.sum()), terms.join(" + "))
    }
}

/// How long so many bytes take, in ns, rounded up; at most [`LONGEST_NS`].
fn needs_ns(bytes: u64, rate: u128) -> u128 {
    match (bytes, rate) {
        (0, _) => 0,
        (_, 0) => u128::from(LONGEST_NS),
        _ => (u128::from(bytes) * 8_000_000_000).div_ceil(rate).min(LONGEST_NS.into()),
    }
}

/// What of so many bytes has not arrived in that time.
fn late_bytes(bytes: u64, rate: u128, nanos: u64) -> u128 {
    let arrived = rate.saturating_mul(u128::from(nanos)) / 8_000_000_000;
    u128::from(bytes).saturating_sub(arrived)
}
