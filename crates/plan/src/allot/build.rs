//! A snapshot as a problem.

use std::collections::{BTreeMap, BTreeSet};

use model::network::{LinkIndex, Network};
use model::scenario::Way;
use model::shares::{Flow, Mark, Most, Paths as Asked, Shares, Split, share_of};
use units::Rate;

use super::demand::{self, Weights};
use super::{AllotError, Of, Resource, Setup, Snapshot, USES_MAX};
use crate::estimate::Estimate;
use crate::graph::{EdgeId, Graph, NodeId};
use crate::mark;
use crate::paths::{Path, Paths};
use crate::share::{Curve, Demand, Limit, Problem, RATE_MAX, ResourceId};

/// The resources of a snapshot, and who draws on them.
struct Drawn {
    resources: Vec<Resource>,
    limits: Vec<Limit>,
    /// By edge: what every flow over it draws on.
    by_edge: Vec<Vec<ResourceId>>,
    /// By edge: the marks on it that are for a class.
    by_class: Vec<Vec<(ResourceId, usize)>>,
    /// By class: its cap.
    caps: Vec<Option<ResourceId>>,
}

impl Setup {
    /// The problem that a snapshot comes to.
    ///
    /// # Errors
    /// If nothing limits a flow, paths are to be filled in order by some and not by others, or not in order by flows in classes, or there is
    /// too much.
    pub fn of(snapshot: &Snapshot) -> Result<Setup, AllotError> {
        let Snapshot { network, shares, down } = snapshot;
        let is_adaptive = is_adaptive(shares)?;
        let graph = Graph::of(network);
        let paths = paths(&graph, shares, down);
        let mut drawn = Drawn::of(network, shares, &graph);
        let mut all = Vec::with_capacity(shares.flows.len());
        let mut count = 0;
        for (index, (flow, paths)) in shares.flows.iter().zip(&paths).enumerate() {
            let mut tunnels = Vec::with_capacity(paths.len());
            for path in paths {
                let uses = drawn.uses(shares, index, flow, path)?;
                count += uses.len();
                if count > USES_MAX {
                    return Err(AllotError::TooMuch);
                }
                tunnels.push(uses);
            }
            all.push(tunnels);
        }
        let weights = Weights::of(shares);
        let mut problem = Problem::new(drawn.limits);
        let (mut numbers, mut flows) = (Vec::with_capacity(all.len()), Vec::new());
        for (index, tunnels) in all.iter().enumerate() {
            if tunnels.is_empty() {
                numbers.push(None);
                continue;
            }
            let number = problem.add(weights.flow(shares, index), tunnels.iter().map(Vec::as_slice));
            numbers.push(Some(number));
            flows.push(index);
        }
        let problem = weights.in_classes(problem, shares, &flows)?;
        Ok(Setup { graph, problem, resources: drawn.resources, paths, numbers, flows, weights, is_adaptive })
    }

    /// The same problem with a flow by number that may have more or less, in b/s.
    pub(super) fn with_most(&self, number: usize, most: u64) -> Problem {
        let mut problem = Problem::new(self.problem.limits().to_vec());
        for (other, demand) in self.problem.demands().iter().enumerate() {
            let demand = match (&demand.curve, other == number) {
                (Curve::Weighted { weight, .. }, true) => {
                    Demand { curve: Curve::Weighted { weight: *weight, most }, ..demand.clone() }
                }
                _ => demand.clone(),
            };
            let tunnels = self.problem.tunnels_of(other);
            problem.add(demand, tunnels.map(|tunnel| self.problem.uses(tunnel)));
        }
        let class_of = |flow| self.problem.class_of(flow).map(|class| class as u32);
        let classes = (0..self.flows.len()).map(class_of).collect();
        let same = problem.with_classes(self.problem.classes().to_vec(), classes);
        same.expect("the tree is the same, of the same flows")
    }
}

/// Whether flows use several paths without an order.
fn is_adaptive(shares: &Shares) -> Result<bool, AllotError> {
    let is = |split: Split| move |flow: &&Flow| flow.split == split && flow.paths.count() > 1;
    if !shares.flows.iter().any(|flow| is(Split::Adaptive)(&flow)) {
        return Ok(false);
    }
    if let Some(flow) = shares.flows.iter().find(|flow| flow.class.is_some()) {
        return Err(AllotError::Adaptive { flow: flow.name.clone() });
    }
    match shares.flows.iter().find(is(Split::Ordered)) {
        Some(flow) => Err(AllotError::Mixed { flow: flow.name.clone() }),
        None => Ok(true),
    }
}

/// The paths of each flow over what is not down.
fn paths(graph: &Graph, shares: &Shares, down: &BTreeSet<LinkIndex>) -> Vec<Vec<Path>> {
    let up = Paths::of(graph).only(|edge| !down.contains(&(edge / 2)));
    // Each question is asked once: flows between the same ends are the rule.
    let mut asked: BTreeMap<NodeId, BTreeMap<(NodeId, u32), Vec<Path>>> = BTreeMap::new();
    for flow in &shares.flows {
        if let Asked::Cheapest(count) = flow.paths {
            asked.entry(flow.to).or_default().insert((flow.from, count), Vec::new());
        }
    }
    for (to, questions) in &mut asked {
        let towards = up.towards(*to);
        for ((from, count), answer) in questions {
            *answer = towards.k_shortest(*from).take(*count as usize).collect();
        }
    }
    let given = |path: &Vec<(LinkIndex, Way)>| {
        let is_up = path.iter().all(|(link, _)| !down.contains(link));
        let edges: Vec<EdgeId> = path.iter().map(|(link, way)| 2 * link + way.index()).collect();
        is_up.then(|| Path { cost: edges.iter().map(|edge| graph.edge(*edge).cost).sum(), edges })
    };
    let of_flow = |flow: &Flow| match &flow.paths {
        Asked::Cheapest(count) => asked[&flow.to][&(flow.from, *count)].clone(),
        Asked::Given(paths) => paths.iter().filter_map(given).collect(),
    };
    shares.flows.iter().map(of_flow).collect()
}

impl Drawn {
    fn of(network: &Network, shares: &Shares, graph: &Graph) -> Drawn {
        let edges = graph.edges().len();
        let (by_edge, by_class) = (vec![Vec::new(); edges], vec![Vec::new(); edges]);
        let (resources, limits) = (Vec::new(), Vec::new());
        let mut drawn = Drawn { resources, limits, by_edge, by_class, caps: vec![None; shares.classes.len()] };
        for (edge, of_edge) in graph.edges().iter().enumerate().filter(|(_, edge)| edge.capacity < u64::MAX) {
            let rate = of_edge.capacity;
            let capacity = fillable(network, shares, edge / 2, rate);
            let floor = shares.lowest.map_or(0, |lowest| lowest.of(rate));
            let resource = drawn.add(Of::Link(edge), of_edge.name.clone(), Some(rate), capacity, floor);
            drawn.by_edge[edge].push(resource);
        }
        for (index, mark) in shares.marks.iter().enumerate() {
            drawn.add_mark(graph, shares, index, mark);
        }
        for (index, class) in shares.classes.iter().enumerate() {
            if let Some(cap) = class.cap {
                let name = format!("cap of {}", class.name);
                drawn.caps[index] = Some(drawn.add(Of::Class(index), name, None, cap.bps(), 0));
            }
        }
        for (index, beside) in shares.resources.iter().enumerate() {
            let resource = drawn.add(Of::Beside(index), beside.name.clone(), None, beside.rate.bps(), 0);
            beside.ways.iter().for_each(|(link, way)| drawn.by_edge[2 * link + way.index()].push(resource));
        }
        drawn
    }

    fn add(&mut self, of: Of, name: String, rate: Option<u64>, capacity: u64, floor: u64) -> ResourceId {
        let capacity = capacity.min(RATE_MAX);
        self.resources.push(Resource { of, name, rate, capacity });
        self.limits.push(Limit { capacity, floor: floor.min(capacity) });
        u32::try_from(self.resources.len() - 1).expect("links, marks, classes and flows are bounded far below")
    }

    fn add_mark(&mut self, graph: &Graph, shares: &Shares, index: usize, mark: &Mark) {
        let edges: Vec<EdgeId> = mark.ways.iter().map(|(link, way)| 2 * link + way.index()).collect();
        let parts: Vec<(&[EdgeId], Option<EdgeId>)> = if mark.together {
            vec![(&edges[..], None)]
        } else {
            edges.iter().map(|edge| (std::slice::from_ref(edge), Some(*edge))).collect()
        };
        for (on, alone) in parts {
            let rates = on.iter().map(|edge| graph.edge(*edge).capacity);
            let rate = rates.fold(0_u64, u64::saturating_add);
            let rate = Some(rate).filter(|rate| *rate < u64::MAX);
            let capacity = filled(mark.most, rate.unwrap_or(u64::MAX), shares);
            let name = match alone {
                None => format!("mark {}", mark.name),
                Some(edge) => format!("mark {} on {}", mark.name, graph.edge(edge).name),
            };
            let resource = self.add(Of::Mark(index, alone), name, rate, capacity, 0);
            for edge in on {
                match mark.class {
                    None => self.by_edge[*edge].push(resource),
                    Some(class) => self.by_class[*edge].push((resource, class)),
                }
            }
        }
    }

    /// What a flow draws on over a path.
    fn uses(&mut self, shares: &Shares, index: usize, flow: &Flow, path: &Path) -> Result<Vec<ResourceId>, AllotError> {
        let classes: Vec<usize> = shares.up(flow.class).collect();
        let mut uses: Vec<ResourceId> = Vec::new();
        for edge in &path.edges {
            uses.extend(&self.by_edge[*edge]);
            let of_class = self.by_class[*edge].iter().filter(|(_, class)| classes.contains(class));
            uses.extend(of_class.map(|(resource, _)| *resource));
        }
        uses.extend(classes.iter().filter_map(|class| self.caps[*class]));
        if uses.is_empty() {
            let cap = flow.cap.ok_or_else(|| AllotError::Unlimited { flow: flow.name.clone() })?;
            let name = format!("cap of flow {}", flow.name);
            uses.push(self.add(Of::Flow(index), name, None, cap.bps(), 0));
        }
        Ok(uses)
    }
}

/// Where a mark is at the time of the snapshot, in b/s, on something with a rate.
fn filled(most: Most, rate: u64, shares: &Shares) -> u64 {
    let flexible = match most {
        Most::Rate(rate) => return mark::Mark::Rate(rate.bps()).now(0, None, None),
        Most::Share(ppm) => return mark::Mark::Share(ppm).now(rate, None, None),
        Most::Flexible(flexible) => flexible,
    };
    let is_old = flexible.expires.zip(shares.now).is_some_and(|(expires, now)| now >= expires);
    let known = |at_large: Rate| if is_old { Estimate::expired() } else { Estimate::exact(at_large.bps()) };
    let estimate = flexible.at_large.map(known);
    let elapsed = demand::since(shares, flexible.as_of);
    let last = flexible.now.map(|now| mark::State { mark: now.bps(), elapsed });
    let of = mark::Flexible {
        share_ppm: flexible.share_ppm,
        margin: flexible.margin.bps(),
        least: flexible.least.bps(),
        most: flexible.most.map_or(u64::MAX, |most| most.bps()),
    };
    mark::Mark::Flexible(of).now(rate, estimate, last)
}

/// How far a way of a link may be filled: up to its high-water mark, and not with what is kept for traffic at large.
#[must_use]
pub fn fillable(network: &Network, shares: &Shares, link: LinkIndex, rate: u64) -> u64 {
    let at_large = shares.at_large.map_or(0, |at_large| at_large.of(rate));
    let marked = network.links[link].high_water_ppm.map_or(rate, |ppm| share_of(rate, ppm));
    marked.min(rate - at_large)
}
