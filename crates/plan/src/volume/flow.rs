//! The greatest flow between two nodes, and the paths that it consists of.

use std::collections::VecDeque;

use super::groups::Groups;
use crate::book::ResourceId;
use crate::graph::{EdgeId, Graph};
use crate::slots::Ends;

/// A flow, edge by edge.
pub(super) struct Flow {
    ends: Ends,
    rate: u64,
    /// By edge, then by group.
    on: Vec<u64>,
}

/// Index of a node, or behind those of a group.
type Vertex = usize;

/// A way to push more along an edge, or to take back what was pushed.
#[derive(Clone, Copy)]
struct Arc {
    to: Vertex,
    /// Index of an edge, or behind those of the group that it leads to or from.
    edge: usize,
    back: bool,
}

/// What the search has: arcs of each vertex, what is free and what flows on each edge.
struct Search {
    arcs: Vec<Vec<Arc>>,
    free: Vec<u64>,
    on: Vec<u64>,
    /// Hops from the begin over arcs with room.
    level: Vec<usize>,
    /// The arcs of each node that were tried at this level.
    tried: Vec<usize>,
}

impl Flow {
    /// The greatest flow over these edges, up to `most` (Dinic 1970), by what is free of each edge and each resource of the
    /// groups. Which of several is always the same.
    pub(super) fn greatest(
        graph: &Graph,
        ends: Ends,
        (edges, groups): (&[EdgeId], &Groups),
        free: impl Fn(EdgeId) -> u64,
        free_of: impl Fn(ResourceId) -> u64,
        most: u64,
    ) -> Flow {
        let (nodes, own) = (graph.names().len(), graph.edges().len());
        let count = groups.all().len();
        let mut search = Search {
            arcs: vec![Vec::new(); nodes + count],
            free: vec![0; own + count],
            on: vec![0; own + count],
            level: Vec::new(),
            tried: Vec::new(),
        };
        let vertex = |group: Option<usize>, node: Vertex| group.map_or(node, |group| nodes + group);
        for edge in edges.iter().copied() {
            let ends_of = graph.edge(edge);
            if ends_of.from != ends_of.to {
                let from = vertex(groups.of_edge(edge, true), ends_of.from);
                let to = vertex(groups.of_edge(edge, false), ends_of.to);
                search.connect(from, to, edge, free(edge).min(most));
            }
        }
        for (index, group) in groups.all().iter().enumerate() {
            let (inner, outer) = (nodes + index, vertex(group.within, group.node));
            let (from, to) = if group.leaves { (outer, inner) } else { (inner, outer) };
            search.connect(from, to, own + index, group.free(&free_of).min(most));
        }
        let mut rate = 0;
        // Each turn makes the shortest way longer by a hop: as many turns as there are vertices.
        while rate < most && search.find_levels(ends) {
            loop {
                let pushed = search.push(ends, most - rate);
                if pushed == 0 {
                    break;
                }
                rate += pushed;
            }
        }
        Flow { ends, rate, on: search.on }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// The paths, with the rate on each.
    pub(super) fn into_paths(mut self, graph: &Graph) -> Vec<(Vec<EdgeId>, u64)> {
        let mut paths = Vec::new();
        let mut rate = self.rate;
        // Each turn empties an edge.
        while rate > 0 {
            let path = self.walk(graph);
            let least = path.iter().map(|edge| self.on[*edge]).min().unwrap_or(0).min(rate);
            path.iter().for_each(|edge| self.on[*edge] -= least);
            rate -= least;
            paths.push((path, least));
        }
        paths
    }

    /// A path over edges that have a flow. What flows in a circle is taken away on the way.
    fn walk(&mut self, graph: &Graph) -> Vec<EdgeId> {
        let mut path: Vec<EdgeId> = Vec::new();
        let mut at = self.ends.from();
        while at != self.ends.to() {
            let next = graph.out(at).iter().copied().find(|edge| self.on[*edge] > 0);
            let next = next.expect("what flows into a node flows out of it");
            path.push(next);
            at = graph.edge(next).to;
            if let Some(seen) = path.iter().position(|edge| graph.edge(*edge).from == at) {
                let circle = path.split_off(seen);
                let least = circle.iter().map(|edge| self.on[*edge]).min().unwrap_or(0);
                circle.iter().for_each(|edge| self.on[*edge] -= least);
            }
        }
        path
    }
}

impl Search {
    /// An edge with what is free of it. All of the flow over one is the most that there can be.
    fn connect(&mut self, from: Vertex, to: Vertex, edge: usize, free: u64) {
        self.free[edge] = free;
        if free > 0 {
            self.arcs[from].push(Arc { to, edge, back: false });
            self.arcs[to].push(Arc { to: from, edge, back: true });
        }
    }

    fn room(&self, arc: Arc) -> u64 {
        if arc.back { self.on[arc.edge] } else { self.free[arc.edge] - self.on[arc.edge] }
    }

    fn find_levels(&mut self, ends: Ends) -> bool {
        self.level = vec![usize::MAX; self.arcs.len()];
        self.tried = vec![0; self.arcs.len()];
        self.level[ends.from()] = 0;
        let mut waiting = VecDeque::from([ends.from()]);
        while let Some(node) = waiting.pop_front() {
            for arc in &self.arcs[node] {
                if self.level[arc.to] == usize::MAX && self.room(*arc) > 0 {
                    self.level[arc.to] = self.level[node] + 1;
                    waiting.push_back(arc.to);
                }
            }
        }
        self.level[ends.to()] != usize::MAX
    }

    /// Pushes what one path has room for, at most `most`; 0 if there is no path of this level any more.
    fn push(&mut self, ends: Ends, most: u64) -> u64 {
        let mut path: Vec<Arc> = Vec::new();
        let mut at = ends.from();
        while at != ends.to() {
            let arc = self.arcs[at].get(self.tried[at]).copied();
            match arc {
                Some(arc) if self.level[arc.to] == self.level[at] + 1 && self.room(arc) > 0 => {
                    path.push(arc);
                    at = arc.to;
                }
                Some(_) => self.tried[at] += 1,
                None => {
                    // A dead end: back, and the next arc.
                    let Some(_) = path.pop() else { return 0 };
                    at = path.last().map_or(ends.from(), |before| before.to);
                    self.tried[at] += 1;
                }
            }
        }
        let pushed = path.iter().map(|arc| self.room(*arc)).min().unwrap_or(0).min(most);
        for arc in path {
            let on = &mut self.on[arc.edge];
            *on = if arc.back { *on - pushed } else { *on + pushed };
        }
        pushed
    }
}
