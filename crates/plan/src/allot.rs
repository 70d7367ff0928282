//! Who gets what rate of a network that is described in files: names to a [`Problem`], and its answer back to names.
//!
//! A [`Snapshot`] is a network, who shares it, and which links are down. [`Setup`] is the problem that it comes to: each way of a
//! link with a rate, each mark, each cap of a class and each port is a resource; each path of a flow is a tunnel. [`Outcome`] is
//! the allocation, asked by the names of the files. What would be otherwise is a changed snapshot ([`Effect`]), set up anew: after
//! a cut paths are chosen anew too.

mod build;
mod classes;
mod demand;
mod effect;
mod last;
mod levels;
mod outcome;
mod why;

use std::collections::{BTreeMap, BTreeSet};

use model::network::{LinkIndex, Network};
use model::shares::Shares;

use crate::graph::{EdgeId, Graph};
use crate::paths::Path;
use crate::share::{Allocation, Level, Problem, ResourceId, solve, solve_adaptive};

pub use build::fillable;
pub use classes::Part;
pub use effect::{Changed, Effect, changed};
pub use last::{Last, Path as LastPath, Steps};
pub use levels::{Gradient, Stopped, TRIED_MAX, Upgrade};
pub use outcome::{Held, Use};
pub use why::{ALSO_MAX, Reason, Remedy};

/// What all tunnels together draw on, at most: so much fits memory.
pub const USES_MAX: usize = 1 << 26;

/// A network, and who shares it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The network.
    pub network: Network,
    /// Who shares it.
    pub shares: Shares,
    /// Links that carry nothing.
    pub down: BTreeSet<LinkIndex>,
}

/// What a resource of a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// A way of a link: an edge of the graph.
    Link(EdgeId),
    /// A mark: index in [`Shares::marks`]; and the edge that it is on, if it is not one for several.
    Mark(usize, Option<EdgeId>),
    /// The cap of a class: index in [`Shares::classes`].
    Class(usize),
    /// What is limited beside links: index in [`Shares::resources`].
    Beside(usize),
    /// The cap of a flow, where no link on its path has a rate: index in [`Shares::flows`].
    Flow(usize),
}

/// A resource with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What it is.
    pub of: Of,
    /// What it is called, such as `dunant washington→paris` or `mark ocean`.
    pub name: String,
    /// The rate of a way of a link, or of all that a mark is on, in b/s; `None` where that has none.
    pub rate: Option<u64>,
    /// How far it may be filled, in b/s.
    pub capacity: u64,
}

/// A snapshot as a problem.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network as a graph: edges 2 n and 2 n + 1 are the ways of link n.
    pub graph: Graph,
    /// The resources and the flows with a path, both by number.
    pub problem: Problem,
    /// By [`ResourceId`].
    pub resources: Vec<Resource>,
    /// The paths of each flow of the file, in order; none if none leads there.
    pub paths: Vec<Vec<Path>>,
    /// The number in the problem of each flow of the file.
    numbers: Vec<Option<usize>>,
    /// The flow of the file of each number.
    flows: Vec<usize>,
    weights: demand::Weights,
    /// Whether flows use several paths without an order; none is in a class then.
    is_adaptive: bool,
}

/// Who gets what.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// Of whom.
    pub snapshot: &'a Snapshot,
    /// As a problem.
    pub setup: Setup,
    /// The answer.
    pub allocation: Allocation,
    /// By resource, the tunnels over it.
    over: Vec<Vec<u32>>,
    /// At which level a resource stopped flows of a tier.
    stops: BTreeMap<(ResourceId, u8), Level>,
}

/// Why a snapshot is no problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllotError {
    /// Nothing limits a flow.
    #[error("flow `{flow}`: no link on a path of it has a rate: give it a `cap`")]
    Unlimited {
        /// Its name.
        flow: String,
    },
    /// A flow without an order of its paths, where there are classes.
    #[error(
        "flow `{flow}` is in a class, whose flows fill paths in order: leave out `class`, or `split = \"adaptive\"` everywhere"
    )]
    Adaptive {
        /// The first flow in a class.
        flow: String,
    },
    /// Some flows fill their paths in order, and some do not.
    #[error(
        "flow `{flow}` fills its paths in order, and others do not: write the same `split` for all that have several"
    )]
    Mixed {
        /// The first that does.
        flow: String,
    },
    /// What is in a class weighs too much.
    #[error("class `{class}`: what is in it weighs more than 2⁴⁰ together: write smaller weights")]
    Weights {
        /// Its name.
        class: String,
    },
    /// There is too much of it.
    #[error("paths cross more than {USES_MAX} links and marks, flow by flow: ask for fewer flows or `paths`")]
    TooMuch,
}

impl Snapshot {
    /// A network of which all links are up.
    #[must_use]
    pub fn new(network: Network, shares: Shares) -> Snapshot {
        Snapshot { network, shares, down: BTreeSet::new() }
    }

    /// Divides the network.
    ///
    /// # Errors
    /// If the files together make no problem.
    pub fn allot(&self) -> Result<Outcome<'_>, AllotError> {
        let setup = Setup::of(self)?;
        let allocation = setup.solve();
        Ok(Outcome::new(self, setup, allocation))
    }
}

impl Setup {
    /// The number in the problem of a flow of the file; `None` if no path leads where it goes.
    #[must_use]
    pub fn number(&self, flow: usize) -> Option<usize> {
        self.numbers[flow]
    }

    /// The flow of the file of a number in the problem.
    #[must_use]
    pub fn flow(&self, number: usize) -> usize {
        self.flows[number]
    }

    /// By how much the weight of a class of the file is multiplied for what it used of late, in [`crate::usage::FACTOR_ONE`].
    #[must_use]
    pub fn usage_factor(&self, class: usize) -> u32 {
        self.weights.classes[class]
    }

    /// How many times as much a flow of the file weighs, as it is urgent and there is budget left for that.
    #[must_use]
    pub fn urgent_factor(&self, flow: usize) -> u32 {
        self.weights.flows[flow]
    }

    /// Solves the problem.
    #[must_use]
    pub fn solve(&self) -> Allocation {
        self.solve_with(&[])
    }

    /// Solves the problem with other capacities of some resources, in b/s.
    #[must_use]
    pub fn solve_with(&self, capacities: &[(ResourceId, u64)]) -> Allocation {
        if capacities.is_empty() {
            return self.solve_other(&self.problem);
        }
        self.solve_other(&self.problem.with_capacities(capacities))
    }

    /// Solves a problem of the same flows as this one is.
    pub(super) fn solve_other(&self, problem: &Problem) -> Allocation {
        if self.is_adaptive {
            return solve_adaptive(problem).expect("no flow is in a class");
        }
        solve(problem)
    }
}
