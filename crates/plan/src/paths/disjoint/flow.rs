//! Two units of flow at least cost, with a fee on what both use.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::{Add, Neg, Sub};

use crate::paths::Paths;

/// What using something costs, compared from the left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toll {
    /// Nodes that were used before.
    pub(super) nodes: i64,
    /// Links that were used before.
    pub(super) links: i64,
    pub(super) cost: i64,
    pub(super) hops: i64,
}

impl Add for Toll {
    type Output = Toll;

    fn add(self, other: Toll) -> Toll {
        Toll {
            nodes: self.nodes + other.nodes,
            links: self.links + other.links,
            cost: self.cost + other.cost,
            hops: self.hops + other.hops,
        }
    }
}

impl Neg for Toll {
    type Output = Toll;

    fn neg(self) -> Toll {
        Toll { nodes: -self.nodes, links: -self.links, cost: -self.cost, hops: -self.hops }
    }
}

impl Sub for Toll {
    type Output = Toll;

    fn sub(self, other: Toll) -> Toll {
        self + -other
    }
}

const NOTHING: Toll = Toll { nodes: 0, links: 0, cost: 0, hops: 0 };

/// What paths have used already, of which another use has its fee.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    nodes: BTreeSet<u32>,
    steps: BTreeSet<u32>,
}

impl Used {
    /// All of a path but its ends.
    pub(super) fn add(&mut self, paths: &Paths<'_>, steps: &[u32]) {
        self.steps.extend(steps);
        self.nodes.extend(steps.iter().skip(1).map(|&step| paths.steps[step as usize].from));
    }
}

/// One unit's way from a vertex to another; that after it in the list leads back.
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    is_open: bool,
    toll: Toll,
}

/// The network of flows from one node to another. Every node is two vertices, where ways arrive (2 n) and where they leave
/// (2 n + 1), with two units between them; every step has two units. The first unit is free of the fee.
///
/// A pair never uses both ways of a link: without that link it would be a better pair.
#[derive(Clone, Debug)]
pub(super) struct Flow<'p, 'a> {
    paths: &'p Paths<'a>,
    from: u32,
    to: u32,
    /// What a node costs that is used a second time.
    fee: Toll,
    /// The arcs of node n begin at 4 n, those of step s at 4 (nodes + s): free, its way back, with fee, its way back.
    arcs: Vec<Arc>,
    /// Of every vertex.
    out: Vec<Vec<u32>>,
}

impl<'p, 'a> Flow<'p, 'a> {
    pub(super) fn new(paths: &'p Paths<'a>, from: u32, to: u32, nodes_too: bool) -> Flow<'p, 'a> {
        let fee = Toll { nodes: i64::from(nodes_too), ..NOTHING };
        let out = vec![Vec::new(); 2 * paths.nodes()];
        let mut flow = Flow { paths, from, to, fee, arcs: Vec::new(), out };
        for node in 0..paths.nodes() as u32 {
            // No path comes back to its begin or goes on from its end.
            let is_open = node != from && node != to && paths.forwards(node);
            flow.add(2 * node, 2 * node + 1, NOTHING, is_open);
            flow.add(2 * node, 2 * node + 1, fee, is_open);
        }
        for step in &paths.steps {
            // Costs are at most graph::WEIGHT_MAX.
            let toll = Toll { cost: step.cost as i64, hops: 1, ..NOTHING };
            flow.add(2 * step.from + 1, 2 * step.to, toll, true);
            flow.add(2 * step.from + 1, 2 * step.to, Toll { links: 1, ..toll }, true);
        }
        flow
    }

    fn add(&mut self, from: u32, to: u32, toll: Toll, is_open: bool) {
        for arc in [Arc { to, is_open, toll }, Arc { to: from, is_open: false, toll: -toll }] {
            let back = if arc.to == to { from } else { to };
            self.out[back as usize].push(self.arcs.len() as u32);
            self.arcs.push(arc);
        }
    }

    /// The first path by names, hop by hop, of those that are in a best flow: of two units if it has a `companion`, else of one.
    pub(super) fn first_path(&self, used: &Used, companion: bool) -> Option<Vec<u32>> {
        let best = self.least(used, [Some(self.from), companion.then_some(self.from)])?;
        let (mut used, mut so_far, mut steps) = (used.clone(), NOTHING, Vec::new());
        let mut at = self.from;
        while at != self.to {
            let tried = self.paths.out(at).find_map(|(index, step)| {
                if !self.paths.leads_on(step.to, self.to) {
                    return None;
                }
                let with = so_far + self.toll(&used, index);
                let mut used = used.clone();
                used.steps.insert(index);
                used.nodes.insert(at);
                let left = self.least(&used, [Some(step.to), companion.then_some(self.from)]);
                left.is_some_and(|left| with + left == best).then_some((index, with, used))
            });
            let (index, with, more) = tried.expect("a best flow leads on from every begin that is part of one");
            (used, so_far) = (more, with);
            steps.push(index);
            at = self.paths.steps[index as usize].to;
        }
        Some(steps)
    }

    /// Of a step, and of the node that it leaves.
    fn toll(&self, used: &Used, index: u32) -> Toll {
        let step = &self.paths.steps[index as usize];
        let node = if used.nodes.contains(&step.from) && step.from != self.from { self.fee } else { NOTHING };
        let links = i64::from(used.steps.contains(&index));
        node + Toll { nodes: 0, links, cost: step.cost as i64, hops: 1 }
    }

    /// The least toll of a unit from each of the two nodes to the end.
    pub(super) fn least(&self, used: &Used, begins: [Option<u32>; 2]) -> Option<Toll> {
        let mut arcs = self.arcs.clone();
        for &node in &used.nodes {
            arcs[4 * node as usize].is_open = false;
        }
        for &step in &used.steps {
            arcs[4 * (self.paths.nodes() + step as usize)].is_open = false;
        }
        let mut potential = vec![NOTHING; self.out.len()];
        let mut total = NOTHING;
        for begin in begins.into_iter().flatten().filter(|&begin| begin != self.to) {
            // A node is passed before it is left, but for the begin of all.
            let vertex = if begin == self.from { 2 * begin + 1 } else { 2 * begin };
            total = total + self.send(&mut arcs, &mut potential, vertex)?;
        }
        Some(total)
    }

    /// Sends a unit to the end the cheapest way that is left, which may undo part of what was sent before (Dijkstra with
    /// potentials, which are the tolls to the end so far: Edmonds and Karp 1972).
    fn send(&self, arcs: &mut [Arc], potential: &mut [Toll], begin: u32) -> Option<Toll> {
        let end = 2 * self.to;
        let mut next = vec![None; self.out.len()];
        let mut tolls: Vec<Option<Toll>> = vec![None; self.out.len()];
        tolls[end as usize] = Some(NOTHING);
        // Holds at most one entry for each arc.
        let mut nearest = BinaryHeap::from([Reverse((NOTHING, end))]);
        while let Some(Reverse((toll, vertex))) = nearest.pop() {
            if tolls[vertex as usize].is_some_and(|known| known < toll) {
                continue;
            }
            for &back in &self.out[vertex as usize] {
                let (arc, before) = (back ^ 1, arcs[back as usize].to);
                if !arcs[arc as usize].is_open {
                    continue;
                }
                let reduced = arcs[arc as usize].toll + potential[vertex as usize] - potential[before as usize];
                let longer = toll + reduced;
                if tolls[before as usize].is_none_or(|known| longer < known) {
                    tolls[before as usize] = Some(longer);
                    next[before as usize] = Some(arc);
                    nearest.push(Reverse((longer, before)));
                }
            }
        }
        tolls[begin as usize]?;
        // What cannot reach the end now cannot later either.
        for (potential, toll) in potential.iter_mut().zip(&tolls) {
            *potential = *potential + toll.unwrap_or(NOTHING);
        }
        let mut at = begin;
        while at != end {
            let arc = next[at as usize].expect("every vertex that reaches the end has an arc towards it");
            arcs[arc as usize].is_open = false;
            arcs[(arc ^ 1) as usize].is_open = true;
            at = arcs[arc as usize].to;
        }
        Some(potential[begin as usize])
    }
}
