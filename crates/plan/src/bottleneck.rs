//! Bottleneck structure: which resource holds which flow back, and what a small change of one thing does to all others.
//!
//! Flows that a resource holds back depend on it, and it on all that cross it: a change goes from one to the other in the order
//! of levels (Ros-Giralt et al., "On the Bottleneck Structure of Congestion-Controlled Networks", SIGMETRICS 2020;
//! draft-giraltyellamraju-alto-bsg-requirements). Where levels are equal, and at corners of curves, the derivative for more is another
//! than that for less, so each is asked for by itself. The slope of a flow's curve, to the side of the change, is its weight.
//!
//! - [`Structure`] answers what holds whom, on which level; derivatives of one change; gradients of all.
//! - [`questions`] ranks what an upgrade, a shaper, a path for a new flow or a cut link does.
//! - [`incremental`] follows arrivals and departures without solving anew.

mod build;
mod csr;
mod gradients;
pub mod incremental;
mod levels;
mod number;
pub mod questions;
mod spread;
mod stand;

use std::ops::Range;

use num_rational::BigRational;

use crate::share::{Allocation, Level, Problem, ResourceId};

use csr::Csr;
pub use gradients::Gradients;
pub use levels::{EDGES_MAX, Edge, TooManyEdges};
pub use number::Number;
use stand::stand;

/// A change of one b/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of the capacity of a resource.
    Capacity(ResourceId),
    /// Of the most that a flow may have: for less than it has now, or for more where it has all that it asks for.
    Most(usize),
}

/// Why a problem has no such structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStructure {
    /// Flows are in classes, whose scales bend.
    #[error("flows are in classes")]
    Classes,
    /// A flow has several tunnels. Where one of them is full at its level, what it loses there it takes on another at once: resources of
    /// all its tunnels change together, and not in the order of levels.
    #[error("flow {flow} has several tunnels: its rate is no function of one resource")]
    Tunnels {
        /// Which.
        flow: usize,
    },
}

/// Who is held back by what.
#[derive(Clone, Debug)]
pub struct Structure<'a> {
    problem: &'a Problem,
    allocation: &'a Allocation,
    /// How near to each other levels are one.
    near: Level,
    /// By flow.
    standings: Vec<Standing>,
    /// By resource.
    links: Vec<Link>,
    /// By flow, the resources that hold it back, all of them where there is a tie.
    held_by: Csr,
    /// By resource, the flows that it holds back.
    holds_back: Csr,
    /// By resource, the flows over it.
    over: Csr,
    /// What reacts, tier by tier from low levels to high ones.
    members: Vec<Reacting>,
    /// Where those of one level begin, and one more.
    groups: Vec<u32>,
}

/// What is kept of where a flow stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The lowest level at which it has its rate.
    lowest: Level,
    /// Whether it has the most that it asks for.
    has_all: bool,
    /// Whether it has no more than its floor: it does not lose any of that.
    at_floor: bool,
    /// Whether its slope is the same to both sides, and not level.
    is_straight: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    is_full: bool,
    /// The tier that it holds back; those below have no more than floors.
    tier: u8,
    /// At which level.
    level: Level,
    /// Its group, if it holds back a flow.
    group: Option<u32>,
    /// Whether what it holds back is held back by nothing else, and reacts alike to more and to less.
    is_plain: bool,
}

/// What reacts at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reacting {
    tier: u8,
    level: Level,
    member: Member,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    /// A resource, with all that it holds back.
    Link(ResourceId),
    /// A flow that gets what those leave that rise before it: its curve is level up to here.
    Late(u32),
}

impl<'a> Structure<'a> {
    /// The structure of an allocation, in O(Σ uses + resources log resources).
    ///
    /// # Errors
    /// If there is none.
    pub fn of(problem: &'a Problem, allocation: &'a Allocation) -> Result<Structure<'a>, NoStructure> {
        build::build(problem, allocation)
    }

    /// The resources that hold a flow back: one, or several that are full at one level. None if it has all that it asks for, or
    /// only its floor.
    #[must_use]
    pub fn held_by(&self, flow: usize) -> &[ResourceId] {
        self.held_by.of(flow)
    }

    /// Whether a flow has the most that it asks for.
    #[must_use]
    pub fn has_all(&self, flow: usize) -> bool {
        self.standings[flow].has_all
    }

    /// Whether a resource is full.
    #[must_use]
    pub fn is_full(&self, resource: ResourceId) -> bool {
        self.links[resource as usize].is_full
    }

    /// The flows over a resource, in order.
    #[must_use]
    pub fn over(&self, resource: ResourceId) -> &[u32] {
        self.over.of(resource as usize)
    }

    /// The flows that a resource holds back, in order.
    #[must_use]
    pub fn holds_back(&self, resource: ResourceId) -> &[u32] {
        self.holds_back.of(resource as usize)
    }

    /// How the rate of each flow changes with one b/s `more`, or less, of something: exact derivatives to that side. One pass from low
    /// levels to high ones.
    #[must_use]
    pub fn derivatives(&self, change: Change, more: bool) -> Vec<BigRational> {
        let mut derivatives = vec![BigRational::zero(); self.standings.len()];
        spread::spread(self, change, more, |flow, by: &BigRational| derivatives[flow] = by.clone());
        derivatives
    }

    /// How the sum of all rates changes: the gradient of a resource or, for less, of a flow.
    #[must_use]
    pub fn gradient(&self, change: Change, more: bool) -> BigRational {
        self.gradient_in(change, more)
    }

    /// The gradient in numbers of a kind.
    fn gradient_in<N: Number>(&self, change: Change, more: bool) -> N {
        let mut sum = N::zero();
        spread::spread(self, change, more, |_, by: &N| sum = sum.clone() + by.clone());
        sum
    }

    /// How many groups of one level there are.
    fn groups(&self) -> Range<usize> {
        0..self.groups.len() - 1
    }

    fn members_of(&self, group: usize) -> &[Reacting] {
        &self.members[self.groups[group] as usize..self.groups[group + 1] as usize]
    }

    fn stand(&self, flow: usize) -> stand::Stand {
        stand(&self.problem.demands()[flow], self.allocation.exact[flow], self.near)
    }

    /// Whether a flow that a resource holds back changes at the level of that, for less and for more.
    fn reacts(&self, flow: usize, link: usize) -> (bool, bool) {
        let (standing, link) = (self.standings[flow], self.links[link]);
        let same_tier = self.problem.demands()[flow].tier == link.tier;
        let loses = !standing.at_floor && standing.lowest + self.near >= link.level;
        let highest = || if standing.is_straight { standing.lowest } else { self.stand(flow).highest };
        let gains = !standing.has_all && highest() <= link.level + self.near;
        (same_tier && loses, same_tier && gains)
    }
}
