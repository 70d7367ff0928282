//! Shares: who gets what rate now, by weighted max-min fairness in strict tiers, up to every limit.
//!
//! A [`Problem`] is resources with capacities (links one way, marks, caps of classes: the solver knows no difference) and flows
//! that draw on them over one or several tunnels. All flows of a tier rise with one level of fair share, each by its
//! [`Curve`], until something it draws on is full; a flow with another tunnel goes on over that (Jain et al., "B4", SIGCOMM 2013,
//! section 5). A tier gets what the ones before it leave, less the floors of those behind it. Flows in classes rise with the level of
//! their class.
//!
//! Rates are b/s. The solver counts in 2⁻⁸⁰ b/s, without rounding but that of the level (2⁻³² b/s for a weight of 1), so the
//! exact allocation is known to a small part of a b/s; [`Allocation::rates`] are integers within 1 b/s of it.

mod adaptive;
mod axes;
mod bends;
mod class;
mod curve;
mod fill;
mod kept;
mod rise;
mod round;
mod scale;
mod used;

pub use adaptive::{InClasses, solve_adaptive};
pub use class::{Class, ClassError, DEPTH_MAX};
pub use curve::{Curve, CurveError, LEVEL_BITS, Level};
pub use fill::solve;

/// The highest rate of a capacity, a floor, a cap: some 70 Tb/s. More counts as so much.
pub const RATE_MAX: u64 = 1 << 46;
/// Flows of a problem, and tunnels of them all.
pub const FLOWS_MAX: usize = 1 << 22;

/// A rate in 2⁻⁸⁰ b/s.
pub type Fine = u128;
/// Bits of a [`Fine`] behind the point.
pub const FINE_BITS: u32 = 80;
/// What a level inside a class lacks to be [`Fine`].
const INNER_SHIFT: u32 = FINE_BITS - scale::INNER_BITS;

/// Index of a resource of a problem.
pub type ResourceId = u32;

/// Something with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// How much there is, in b/s.
    pub capacity: u64,
    /// What the lowest tier may use of it before all others, in b/s. What it does not use the others have.
    pub floor: u64,
}

/// What a flow asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// 0 is served first.
    pub tier: u8,
    /// What it gets whatever the level, in b/s, if it is there: floors that do not fit are shared in proportion, tier by tier.
    pub floor: u64,
    /// What it gets at each level.
    pub curve: Curve,
}

/// Resources, and flows that share them.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    limits: Vec<Limit>,
    demands: Vec<Demand>,
    /// Where the tunnels of each flow begin, and of one more.
    tunnels: Vec<u32>,
    /// The flow of each tunnel.
    flow_of: Vec<u32>,
    /// Where the uses of each tunnel begin, and of one more.
    begins: Vec<u32>,
    /// What tunnels draw on, each once.
    uses: Vec<ResourceId>,
    classes: Vec<Class>,
    /// The class of each flow; empty if there are none.
    class_of: Vec<Option<u32>>,
    /// Of each class.
    scales: Vec<scale::Scale>,
}

/// Who gets what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// By tunnel, in b/s.
    pub rates: Vec<u64>,
    /// By tunnel, before rounding.
    pub exact: Vec<Fine>,
    /// By resource: what the lowest tier had before all others, in b/s.
    pub floors: Vec<u64>,
    /// The resources that stopped a flow, in the order of the levels at which they were full, tier by tier.
    pub bottlenecks: Vec<Bottleneck>,
}

/// A resource that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// Which.
    pub resource: ResourceId,
    /// The tier whose flows it stopped.
    pub tier: u8,
    /// At which level.
    pub level: Level,
}

impl Problem {
    /// Resources without flows.
    ///
    /// # Panics
    /// If there are more than 2³² − 1.
    #[must_use]
    pub fn new(limits: Vec<Limit>) -> Problem {
        assert!(u32::try_from(limits.len()).is_ok(), "resources are numbered with 32 bits");
        let clipped =
            |limit: Limit| Limit { capacity: limit.capacity.min(RATE_MAX), floor: limit.floor.min(limit.capacity) };
        Problem {
            limits: limits.into_iter().map(clipped).collect(),
            tunnels: vec![0],
            begins: vec![0],
            ..Problem::default()
        }
    }

    /// Adds a flow with its tunnels in order of preference, each with what it draws on; its index.
    ///
    /// # Panics
    /// If there is no such resource, no tunnel, or a tunnel that draws on nothing; beyond [`FLOWS_MAX`] tunnels; after
    /// [`Problem::with_classes`].
    pub fn add<'a>(&mut self, demand: Demand, tunnels: impl IntoIterator<Item = &'a [ResourceId]>) -> usize {
        let flow = self.demands.len();
        let first = self.flow_of.len();
        assert!(self.classes.is_empty(), "flows are added before classes");
        for uses in tunnels {
            let begin = self.uses.len();
            self.uses.extend_from_slice(uses);
            self.uses[begin..].sort_unstable();
            let last = self.uses.last().copied();
            assert!(
                !uses.is_empty() && last.is_some_and(|last| (last as usize) < self.limits.len()),
                "a tunnel draws on resources"
            );
            let mut kept = begin;
            for at in begin..self.uses.len() {
                if at == begin || self.uses[at] != self.uses[kept - 1] {
                    self.uses[kept] = self.uses[at];
                    kept += 1;
                }
            }
            self.uses.truncate(kept);
            self.flow_of.push(flow as u32);
            self.begins.push(u32::try_from(self.uses.len()).expect("uses are numbered with 32 bits"));
        }
        assert!(
            (first + 1..=FLOWS_MAX).contains(&self.flow_of.len()),
            "a flow has a tunnel, and there are at most {FLOWS_MAX}"
        );
        self.tunnels.push(self.flow_of.len() as u32);
        let floor = demand.floor.min(demand.curve.most());
        self.demands.push(Demand { floor, ..demand });
        flow
    }

    /// The same with flows in classes: parents before their children, and the class of each flow, if it is in one.
    ///
    /// # Errors
    /// If that is no tree, or no tree of these flows.
    pub fn with_classes(mut self, classes: Vec<Class>, class_of: Vec<Option<u32>>) -> Result<Problem, ClassError> {
        class::check(&self, &classes, &class_of)?;
        self.scales = class::scales(&self, &classes, &class_of);
        (self.classes, self.class_of) = (classes, class_of);
        Ok(self)
    }

    /// The same with other capacities of some resources.
    #[must_use]
    pub fn with_capacities(&self, capacities: &[(ResourceId, u64)]) -> Problem {
        let mut problem = self.clone();
        for (resource, capacity) in capacities {
            let limit = &mut problem.limits[*resource as usize];
            limit.capacity = (*capacity).min(RATE_MAX);
            limit.floor = limit.floor.min(limit.capacity);
        }
        problem.scales = class::scales(&problem, &problem.classes, &problem.class_of);
        problem
    }

    /// The resources.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// What flows ask for.
    #[must_use]
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// Classes, parents before their children.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class that a flow is in.
    #[must_use]
    pub fn class_of(&self, flow: usize) -> Option<usize> {
        self.class_of.get(flow).copied().flatten().map(|class| class as usize)
    }

    fn scale_of(&self, flow: usize) -> Option<&scale::Scale> {
        self.class_of(flow).map(|class| &self.scales[class])
    }

    /// The tunnels of a flow.
    #[must_use]
    pub fn tunnels_of(&self, flow: usize) -> std::ops::Range<usize> {
        self.tunnels[flow] as usize..self.tunnels[flow + 1] as usize
    }

    /// The flow of each tunnel.
    #[must_use]
    pub fn flow_of(&self, tunnel: usize) -> usize {
        self.flow_of[tunnel] as usize
    }

    /// How many tunnels there are.
    #[must_use]
    pub fn tunnels(&self) -> usize {
        self.flow_of.len()
    }

    /// What a tunnel draws on, sorted, each once.
    #[must_use]
    pub fn uses(&self, tunnel: usize) -> &[ResourceId] {
        &self.uses[self.begins[tunnel] as usize..self.begins[tunnel + 1] as usize]
    }
}
