//! Shares that follow arrivals and departures, without solving anew.
//!
//! What is kept is not rates but who is held back by what: a flow has its cap, or its weight times the level of the resource that holds
//! it back. Of each resource there is the weight of the flows over it that are held back elsewhere, added up by where that is, and
//! what is left of it beside the flows that have their caps. So its level follows from the levels of others by one sum, whatever the
//! number of flows; a flow is looked at only when what holds it back is another than before. Weights and caps are whole numbers, and
//! nothing is added up over time but these: levels are reckoned from them each time, so errors do not grow with the number of changes.
//!
//! After a change levels are reckoned from the lowest that it can touch upwards. Rates are within 1 b/s of the exact ones, for
//! capacities up to some Tb/s: levels are 53-bit floating point, and a resource is looked at to 2⁻¹⁰ b/s and 2⁻⁴⁸ of its capacity.

mod fill;

use crate::share::{Allocation, Curve, Demand, FINE_BITS, FLOWS_MAX, LEVEL_BITS, Limit, Problem, ResourceId, solve};

/// Weights of all flows together: sums of them are exact.
pub const WEIGHTS_MAX: u64 = 1 << 52;
/// Flows that get another holder in one change; if it is more, all is solved anew.
pub const MOVES_MAX: usize = 1024;
/// What is looked away from at a resource, in b/s, and as a part of its capacity.
const BLUR: f64 = 1.0 / (1_u64 << 10) as f64;
const BLUR_PART: f64 = 1.0 / (1_u64 << 48) as f64;

/// A flow, until it departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(u32);

/// What a change took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Flows that got another holder.
    pub moves: usize,
    /// Resources whose level was reckoned.
    pub turns: usize,
    /// Whether all was solved anew.
    pub is_anew: bool,
}

/// Why a problem or a flow cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotIncremental {
    /// Flows are in classes, whose scales bend.
    #[error("flows are in classes: only shares without classes follow arrivals; solve anew")]
    Classes,
    /// A flow is not in tier 0.
    #[error("flow {flow} is in tier {tier}: only shares of one tier, 0, follow arrivals; solve anew")]
    Tier {
        /// Which.
        flow: usize,
        /// In which.
        tier: u8,
    },
    /// A flow has several tunnels.
    #[error("flow {flow} has several tunnels: only shares of flows with one follow arrivals; solve anew")]
    Tunnels {
        /// Which.
        flow: usize,
    },
    /// A flow has a curve by points.
    #[error("flow {flow} has a curve by points: only shares by weights follow arrivals; solve anew")]
    Curve {
        /// Which.
        flow: usize,
    },
    /// A flow has a floor.
    #[error("flow {flow} has a floor: only shares without floors follow arrivals; solve anew")]
    Floor {
        /// Which.
        flow: usize,
    },
    /// There is no such resource, or the flow draws on none.
    #[error("flow {flow} draws on no resource, or on one that is not there")]
    Uses {
        /// Which.
        flow: usize,
    },
    /// There are too many flows, or they weigh too much.
    #[error("more than {FLOWS_MAX} flows, or more than 2⁵² of weight")]
    TooMany,
    /// The flow has departed.
    #[error("flow {flow} is not there")]
    Gone {
        /// Which.
        flow: usize,
    },
}

/// Flows that share resources, as they come and go.
#[derive(Clone, Debug)]
pub struct Incremental {
    sums: Vec<Sums>,
    links: Vec<Link>,
    /// By resource: the level at which it holds flows back, infinite if it holds back none.
    levels: Vec<f64>,
    /// The resources that hold flows back. A flow is held back by the first on its way, so that the level of a resource
    /// depends on earlier ones only; levels do not fall along it, but for blur.
    order: Vec<ResourceId>,
    /// Levels that the loads of resources that hold back none go by.
    counted: Vec<f64>,
    /// What the largest rises of levels, as parts of them, add up to since the begin.
    growth: f64,
    flows: Vec<Option<Flow>>,
    vacant: Vec<u32>,
    /// Of all flows.
    weight: u64,
}

/// What every change looks at of a resource.
#[derive(Clone, Copy, Debug)]
struct Sums {
    capacity: u64,
    /// What is looked away from, in b/s.
    blur: f64,
    /// The capacity less the caps of the flows over it that have theirs, in b/s; below 0 while a change is under way.
    free: i64,
    /// The weight of the flows that it holds back.
    own: f64,
    /// If it holds back none: no less than what others hold back used of it when levels had grown by `growth`.
    load: f64,
    growth: f64,
}

#[derive(Clone, Debug, Default)]
struct Link {
    /// The weights of flows over it that others hold back, by which.
    row: Vec<Edge>,
    /// The flows that it holds back, from low levels of their caps to high ones.
    held: Vec<Capped>,
    /// The flows over it that have their caps, likewise.
    capped: Vec<Capped>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    weight: f64,
    link: ResourceId,
}

/// A flow, by the level at which it has its cap.
#[derive(Clone, Copy, Debug)]
struct Capped {
    level: f64,
    flow: u32,
    weight: u32,
}

#[derive(Clone, Debug)]
struct Flow {
    weight: u32,
    most: u64,
    /// What holds it back; `None` if it has its cap.
    holder: Option<ResourceId>,
    uses: Box<[ResourceId]>,
}

impl Sums {
    fn of(capacity: u64) -> Sums {
        let blur = BLUR + capacity as f64 * BLUR_PART;
        Sums { capacity, blur, free: capacity.cast_signed(), own: 0.0, load: f64::INFINITY, growth: 0.0 }
    }
}

impl Flow {
    /// The level at which it has its cap.
    fn cap_level(&self) -> f64 {
        self.most as f64 / f64::from(self.weight)
    }
}

impl Incremental {
    /// The shares of a problem. Its flows have the ids that [`Incremental::ids`] lists, in order.
    ///
    /// # Errors
    /// If it has classes, several tiers, tunnels, floors, or curves by points.
    pub fn of(problem: &Problem) -> Result<Incremental, NotIncremental> {
        if !problem.classes().is_empty() {
            return Err(NotIncremental::Classes);
        }
        let sums: Vec<Sums> = problem.limits().iter().map(|limit| Sums::of(limit.capacity)).collect();
        let levels = vec![f64::INFINITY; sums.len()];
        let mut shares = Incremental {
            links: vec![Link::default(); sums.len()],
            sums,
            counted: levels.clone(),
            growth: 0.0,
            levels,
            order: Vec::new(),
            flows: Vec::new(),
            vacant: Vec::new(),
            weight: 0,
        };
        for (flow, demand) in problem.demands().iter().enumerate() {
            if problem.tunnels_of(flow).len() > 1 {
                return Err(NotIncremental::Tunnels { flow });
            }
            let admitted = shares.admitted(flow, demand, problem.uses(flow))?;
            shares.weight += u64::from(admitted.weight);
            shares.flows.push(Some(admitted));
        }
        shares.take(&solve(problem));
        Ok(shares)
    }

    /// The flows that are there.
    pub fn ids(&self) -> impl Iterator<Item = FlowId> {
        self.flows.iter().enumerate().filter(|(_, flow)| flow.is_some()).map(|(index, _)| FlowId(index as u32))
    }

    /// A flow arrives. O(pairs of resources that flows have in common), with a flow for each other holder.
    ///
    /// # Errors
    /// If it cannot be followed; nothing is changed then.
    pub fn arrive(&mut self, demand: &Demand, uses: &[ResourceId]) -> Result<(FlowId, Update), NotIncremental> {
        let flow = self.vacant.last().map_or(self.flows.len(), |flow| *flow as usize);
        let mut arriving = self.admitted(flow, demand, uses)?;
        self.weight += u64::from(arriving.weight);
        let first = self.first_on(&arriving.uses);
        let holder = first.map(|at| self.order[at]);
        arriving.holder = holder.filter(|link| self.levels[*link as usize] < arriving.cap_level());
        if self.vacant.pop().is_none() {
            self.flows.push(None);
        }
        self.flows[flow] = Some(arriving);
        self.attach(flow as u32);
        Ok((FlowId(flow as u32), self.settle(first)))
    }

    /// A flow departs, at the same cost.
    ///
    /// # Errors
    /// If it is not there.
    pub fn depart(&mut self, flow: FlowId) -> Result<Update, NotIncremental> {
        let gone = NotIncremental::Gone { flow: flow.0 as usize };
        let departing = self.flows.get(flow.0 as usize).and_then(Option::as_ref).ok_or(gone)?;
        let first = self.first_on(&departing.uses);
        self.weight -= u64::from(departing.weight);
        self.detach(flow.0);
        self.flows[flow.0 as usize] = None;
        self.vacant.push(flow.0);
        Ok(self.settle(first))
    }

    /// The rate of a flow in b/s, rounded down; `None` if it has departed.
    #[must_use]
    pub fn rate(&self, flow: FlowId) -> Option<u64> {
        let of = self.flows.get(flow.0 as usize)?.as_ref()?;
        let held = |link: ResourceId| (self.levels[link as usize] * f64::from(of.weight)) as u64;
        Some(of.holder.map_or(of.most, |link| held(link).min(of.most)))
    }

    /// What holds a flow back; `None` if it has its cap.
    #[must_use]
    pub fn held_by(&self, flow: FlowId) -> Option<ResourceId> {
        self.flows.get(flow.0 as usize)?.as_ref()?.holder
    }

    /// The level at which a resource holds flows back, in b/s for a weight of 1; `None` if it holds back none.
    #[must_use]
    pub fn level(&self, resource: ResourceId) -> Option<f64> {
        self.levels.get(resource as usize).copied().filter(|level| level.is_finite())
    }

    /// The same flows as a problem, in the order of their ids.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let limit = |sums: &Sums| Limit { capacity: sums.capacity, floor: 0 };
        let mut problem = Problem::new(self.sums.iter().map(limit).collect());
        for flow in self.flows.iter().flatten() {
            let weight = std::num::NonZeroU32::new(flow.weight).expect("it was one when the flow came");
            let curve = Curve::Weighted { weight, most: flow.most };
            problem.add(Demand { tier: 0, floor: 0, curve }, [&*flow.uses]);
        }
        problem
    }

    /// A flow with its resources, if it can be followed.
    fn admitted(&self, flow: usize, demand: &Demand, uses: &[ResourceId]) -> Result<Flow, NotIncremental> {
        let Curve::Weighted { weight, .. } = &demand.curve else { return Err(NotIncremental::Curve { flow }) };
        if demand.tier > 0 {
            return Err(NotIncremental::Tier { flow, tier: demand.tier });
        }
        if demand.floor > 0 {
            return Err(NotIncremental::Floor { flow });
        }
        let mut uses = uses.to_vec();
        uses.sort_unstable();
        uses.dedup();
        if uses.last().is_none_or(|last| *last as usize >= self.links.len()) {
            return Err(NotIncremental::Uses { flow });
        }
        if flow >= FLOWS_MAX || self.weight + u64::from(weight.get()) > WEIGHTS_MAX {
            return Err(NotIncremental::TooMany);
        }
        Ok(Flow { weight: weight.get(), most: demand.curve.most(), holder: None, uses: uses.into() })
    }

    /// Where the first of some resources is that hold flows back.
    fn first_on(&self, uses: &[ResourceId]) -> Option<usize> {
        self.order.iter().position(|link| uses.contains(link))
    }

    /// Solves anew.
    fn anew(&mut self) {
        let allocation = solve(&self.problem());
        self.growth = 0.0;
        for (sums, link) in self.sums.iter_mut().zip(&mut self.links) {
            *sums = Sums::of(sums.capacity);
            link.row.clear();
            link.held.clear();
            link.capped.clear();
        }
        self.take(&allocation);
    }

    /// Takes who holds whom from an allocation of all flows, in the order of their ids.
    fn take(&mut self, allocation: &Allocation) {
        self.levels.fill(f64::INFINITY);
        self.order.clear();
        let mut places = vec![usize::MAX; self.links.len()];
        for full in &allocation.bottlenecks {
            places[full.resource as usize] = self.order.len();
            self.order.push(full.resource);
            self.levels[full.resource as usize] = full.level as f64 / (1_u64 << LEVEL_BITS) as f64;
        }
        let mut exact = allocation.exact.iter();
        for flow in self.flows.iter_mut().flatten() {
            let rate = exact.next().expect("there is a rate of each flow");
            let first = flow.uses.iter().copied().min_by_key(|of| places[*of as usize]);
            let holder = first.filter(|of| places[*of as usize] != usize::MAX);
            // To what the certificate looks away from.
            let has_all = (rate >> (FINE_BITS - 16)) + 1 >= u128::from(flow.most) << 16;
            flow.holder = holder.filter(|_| !has_all);
        }
        for flow in 0..self.flows.len() {
            if self.flows[flow].is_some() {
                self.attach(flow as u32);
            }
        }
        self.order.retain(|link| self.sums[*link as usize].own > 0.0);
        for (sums, level) in self.sums.iter().zip(&mut self.levels) {
            if sums.own == 0.0 {
                *level = f64::INFINITY;
            }
        }
        self.counted.clone_from(&self.levels);
    }

    /// Adds a flow to what is kept of its resources.
    fn attach(&mut self, index: u32) {
        let flow = self.flows[index as usize].as_ref().expect("it is there");
        let capped = Capped { level: flow.cap_level(), flow: index, weight: flow.weight };
        let weight = f64::from(flow.weight);
        for of in flow.uses.iter() {
            let (sums, link) = (&mut self.sums[*of as usize], &mut self.links[*of as usize]);
            match flow.holder {
                None => {
                    sums.free -= flow.most.cast_signed();
                    insert(&mut link.capped, capped);
                }
                Some(holder) if holder == *of => {
                    sums.own += weight;
                    insert(&mut link.held, capped);
                }
                Some(holder) => {
                    sums.load += weight * self.levels[holder as usize].max(self.counted[holder as usize]);
                    match link.row.binary_search_by_key(&holder, |edge| edge.link) {
                        Ok(at) => link.row[at].weight += weight,
                        Err(at) => link.row.insert(at, Edge { weight, link: holder }),
                    }
                }
            }
        }
    }

    /// Takes it away again.
    fn detach(&mut self, index: u32) {
        let flow = self.flows[index as usize].as_ref().expect("it is there");
        let capped = Capped { level: flow.cap_level(), flow: index, weight: flow.weight };
        let weight = f64::from(flow.weight);
        for of in flow.uses.iter() {
            let (sums, link) = (&mut self.sums[*of as usize], &mut self.links[*of as usize]);
            match flow.holder {
                None => {
                    sums.free += flow.most.cast_signed();
                    remove(&mut link.capped, capped);
                }
                Some(holder) if holder == *of => {
                    sums.own -= weight;
                    remove(&mut link.held, capped);
                }
                Some(holder) => {
                    let at = link.row.binary_search_by_key(&holder, |edge| edge.link);
                    let at = at.expect("what is held back is in the rows of its resources");
                    link.row[at].weight -= weight;
                    if link.row[at].weight == 0.0 {
                        link.row.remove(at);
                    }
                }
            }
        }
    }

    /// Gives a flow another holder, or its cap.
    fn hand(&mut self, flow: u32, holder: Option<ResourceId>) {
        self.detach(flow);
        self.flows[flow as usize].as_mut().expect("it is there").holder = holder;
        self.attach(flow);
    }
}

fn place(list: &[Capped], of: Capped) -> Result<usize, usize> {
    list.binary_search_by(|other| other.level.total_cmp(&of.level).then(other.flow.cmp(&of.flow)))
}

fn insert(list: &mut Vec<Capped>, of: Capped) {
    let at = place(list, of).unwrap_or_else(|at| at);
    list.insert(at, of);
}

fn remove(list: &mut Vec<Capped>, of: Capped) {
    let at = place(list, of).expect("it was inserted");
    list.remove(at);
}
