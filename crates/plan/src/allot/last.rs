//! What is in force beside an outcome: which rates change, in which order, and what the outcome is worth.

use std::collections::BTreeMap;

use super::{Of, Outcome, Setup, Snapshot};
use crate::difference::{self, Difference, Hysteresis, InForce};
use crate::graph::EdgeId;
use crate::objective::{Objective, Transfer, Way, Weights};
use crate::share::ResourceId;

/// A path of a flow, by the flow's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The flow; the file may have it no more.
    pub flow: String,
    /// The ways of links in turn.
    pub edges: Vec<EdgeId>,
}

/// What is in force of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// In b/s.
    pub rate: u64,
    /// The class of the flow, where the file has it.
    pub class: Option<usize>,
}

/// What changes, and what it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The new rates, in their order.
    pub difference: Difference<Path>,
    /// What each path of the outcome has after them, in b/s.
    pub then: BTreeMap<Path, u64>,
}

impl Outcome<'_> {
    /// The way from what is in force to the outcome.
    #[must_use]
    pub fn steps(&self, last: &BTreeMap<Path, Last>, hysteresis: Hysteresis) -> Steps {
        let problem = &self.setup.problem;
        let tunnels: BTreeMap<Path, usize> = (0..problem.tunnels()).map(|tunnel| (self.path(tunnel), tunnel)).collect();
        let in_force = |(path, last): (&Path, &Last)| {
            let uses = match tunnels.get(path) {
                Some(tunnel) => problem.uses(*tunnel).to_vec(),
                None => self.setup.draws(self.snapshot, last.class, &path.edges),
            };
            (path.clone(), InForce { rate: last.rate, uses })
        };
        let in_force: BTreeMap<Path, InForce> = last.iter().map(in_force).collect();
        let difference =
            difference::between(problem, &self.allocation, |tunnel| self.path(tunnel), &in_force, hysteresis);
        let found = |(path, tunnel): (&Path, &usize)| (path.clone(), self.allocation.rates[*tunnel]);
        let mut then: BTreeMap<Path, u64> = tunnels.iter().map(found).collect();
        for path in &difference.left_out {
            then.insert(path.clone(), last.get(path).map_or(0, |last| last.rate));
        }
        Steps { difference, then }
    }

    /// What the outcome is worth, beside what is in force; without that no path is a change.
    #[must_use]
    pub fn objective(&self, last: Option<&BTreeMap<Path, Last>>) -> Objective {
        let (problem, shares) = (&self.setup.problem, &self.snapshot.shares);
        let transfer = |number: usize| {
            let flow = &shares.flows[self.setup.flow(number)];
            let left_bytes = flow.bytes.map_or(0, |bytes| bytes.get());
            Transfer { weight: flow.weight.get(), left_bytes, deadline_ns: None }
        };
        let way = |tunnel: usize| {
            let path = self.path(tunnel);
            let cost = path.edges.iter().map(|edge| self.setup.graph.edge(*edge).cost).sum();
            let in_force = |last: &BTreeMap<Path, Last>| last.get(&path).is_some_and(|last| last.rate > 0);
            Way { cost, is_used: last.map_or(self.allocation.rates[tunnel] > 0, in_force) }
        };
        let transfers: Vec<Transfer> = (0..problem.demands().len()).map(transfer).collect();
        let ways: Vec<Way> = (0..problem.tunnels()).map(way).collect();
        Objective::of(problem, &transfers, &ways, &self.allocation.rates, Weights::default())
    }

    /// The path of a tunnel.
    fn path(&self, tunnel: usize) -> Path {
        let number = self.setup.problem.flow_of(tunnel);
        let flow = self.setup.flow(number);
        let at = tunnel - self.setup.problem.tunnels_of(number).start;
        Path { flow: self.snapshot.shares.flows[flow].name.clone(), edges: self.setup.paths[flow][at].edges.clone() }
    }
}

impl Setup {
    /// What somebody of a class draws on over some edges.
    fn draws(&self, snapshot: &Snapshot, class: Option<usize>, edges: &[EdgeId]) -> Vec<ResourceId> {
        let shares = &snapshot.shares;
        let is_of = |of: usize| shares.up(class).any(|above| above == of);
        let is_on = |ways: &[(usize, model::scenario::Way)]| {
            ways.iter().any(|(link, way)| edges.contains(&(2 * link + way.index())))
        };
        let draws = |of: Of| match of {
            Of::Link(edge) => edges.contains(&edge),
            Of::Mark(mark, edge) => {
                let mark = &shares.marks[mark];
                mark.class.is_none_or(is_of) && edge.map_or_else(|| is_on(&mark.ways), |edge| edges.contains(&edge))
            }
            Of::Class(class) => is_of(class),
            Of::Beside(beside) => is_on(&shares.resources[beside].ways),
            Of::Flow(_) => false,
        };
        let all = self.resources.iter().enumerate();
        all.filter(|(_, resource)| draws(resource.of)).map(|(index, _)| index as ResourceId).collect()
    }
}
