//! Small random networks with bookings, and what is free of them by counting.

use std::num::NonZeroU64;

use plan::book::{Book, Holder, ResourceId, Take};
use plan::calendar::Calendar;
use plan::graph::{Edge, EdgeId, Graph};
use plan::slots::Ends;
use units::{Moment, Window};

use crate::rng::Rng;

/// Ticks in which there are bookings.
pub(crate) const TICKS: i64 = 14;
const NODES: u64 = 5;

pub(crate) struct Net {
    pub(crate) book: Book,
    /// Of each resource.
    resources: Vec<Counted>,
    /// The edges that the resources beside those of edges limit.
    pub(crate) marked: Vec<Vec<EdgeId>>,
    pub(crate) ends: Ends,
}

/// Limits on several links.
#[derive(Clone, Copy)]
pub(crate) enum Marks {
    /// On any.
    Anywhere,
    /// On links that leave one node, or enter one.
    AtNodes,
}

struct Counted {
    grain: u64,
    /// By tick, the last for all after it.
    left: Vec<i64>,
}

pub(crate) fn holder(class: &str) -> Holder {
    Holder { name: "somebody".to_owned(), class: class.to_owned() }
}

pub(crate) fn above_0(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("it is above 0")
}

pub(crate) fn window(start: Moment, end: Moment) -> Window {
    Window::new(start, end).expect("it is not empty")
}

pub(crate) fn edge(name: &str, from: usize, to: usize, capacity: u64) -> Edge {
    Edge { name: name.to_owned(), from, to, cost: 1, delay: 0, capacity, risks: Vec::new() }
}

impl Net {
    /// Parallel members, one-way links, ways of unequal capacity, hosts that do not forward, grains, capacities that change,
    /// links with nothing left, windows that touch, and limits on several links.
    pub(crate) fn new(rng: &mut Rng, marks: Marks) -> Net {
        let mut graph = Graph::default();
        let nodes = rng.size(2, NODES) as usize;
        for node in 0..nodes {
            graph.add_node(&format!("n{}", (node * 7) % 10), !rng.one_in(6));
        }
        for link in 0..rng.size(1, 7) {
            let (from, to) = (rng.size(0, nodes as u64 - 1) as usize, rng.size(0, nodes as u64 - 1) as usize);
            let cost = rng.size(0, 3);
            let edge = |from, to, capacity| Edge {
                name: format!("link {link} {from}-{to}"),
                from,
                to,
                cost,
                delay: 0,
                capacity,
                risks: vec![],
            };
            let capacity = rng.size(0, 12);
            if rng.one_in(3) {
                graph.add_edge(edge(from, to, capacity));
            } else {
                let back = if rng.one_in(2) { capacity } else { rng.size(0, 12) };
                graph.add_link(edge(from, to, capacity), edge(to, from, back));
            }
        }
        let mut book = Book::new(graph);
        let mut resources = Vec::new();
        for edge in 0..book.view().graph().edges().len() {
            let capacity = book.view().graph().edge(edge).capacity;
            let (calendar, counted) = resource(rng, capacity);
            book.set_calendar(edge, calendar);
            resources.push(counted);
        }
        let edges = resources.len() as u64;
        let mut marked = Vec::new();
        for _ in 0..rng.size(0, 2) {
            let over: Vec<EdgeId> = match marks {
                Marks::Anywhere => (0..rng.size(1, 3)).map(|_| rng.size(0, edges - 1) as usize).collect(),
                Marks::AtNodes => {
                    let (node, leaves) = (rng.size(0, nodes as u64 - 1) as usize, rng.one_in(2));
                    let at = |edge: &Edge| if leaves { edge.from == node } else { edge.to == node };
                    let edges = book.view().graph().edges();
                    let at_node = (0..edges.len()).filter(|edge| at(&edges[*edge]));
                    at_node.filter(|_| !rng.one_in(4)).collect()
                }
            };
            let capacity = rng.size(2, 12);
            let (calendar, counted) = resource(rng, capacity);
            book.add_resource("mark", calendar, &over);
            resources.push(counted);
            marked.push(over);
        }
        let ends = Ends::new(0, 1).expect("they are two");
        let mut net = Net { book, resources, marked, ends };
        for _ in 0..rng.size(0, 8) {
            let resource = rng.size(0, net.resources.len() as u64 - 1) as usize;
            let start = rng.within(0, TICKS - 1);
            // Few lengths, so that windows touch.
            let window = window(start, (start + *rng.pick(&[1, 3, 3, 5, 8])).min(TICKS));
            let rate = rng.size(1, 8);
            net.book.impose(holder("others"), vec![Take { resource, window, rate }], Moment::MIN).expect("it is small");
            net.take(resource, window, rate);
        }
        net
    }

    pub(crate) fn take(&mut self, resource: ResourceId, window: Window, rate: u64) {
        let left = &mut self.resources[resource].left;
        left[window.start() as usize..window.end() as usize].iter_mut().for_each(|left| *left -= rate.cast_signed());
    }

    pub(crate) fn graph(&self) -> &Graph {
        self.book.view().graph()
    }

    /// What is free over an edge for all of a window, counted.
    pub(crate) fn free(&self, edge: EdgeId, window: Window) -> u64 {
        let drawn = self.book.view().drawn(edge).iter();
        drawn.map(|resource| self.free_of(*resource, window)).min().expect("an edge draws on itself")
    }

    /// What is free of a resource for all of a window, counted.
    pub(crate) fn free_of(&self, resource: ResourceId, window: Window) -> u64 {
        let Counted { grain, left } = &self.resources[resource];
        let least = (window.start()..window.end()).map(|tick| left[tick.min(TICKS) as usize]).min();
        u64::try_from(least.expect("a window has a tick")).map_or(0, |least| least / grain * grain)
    }

    /// How full the fullest resource of an edge is at the first tick of a window at which it has least left, counted, in parts
    /// per million.
    pub(crate) fn load(&self, edge: EdgeId, window: Window) -> u64 {
        let load = |resource: &ResourceId| {
            let left = &self.resources[*resource].left;
            let tick = (window.start()..window.end()).min_by_key(|tick| left[(*tick).min(TICKS) as usize]);
            let tick = tick.expect("a window has a tick");
            let capacity = self.book.view().resources()[*resource].calendar().capacity_at(tick);
            let left = left[tick.min(TICKS) as usize].max(0) as u64;
            1_000_000_u64.saturating_sub((left * 1_000_000).checked_div(capacity).unwrap_or(0))
        };
        self.book.view().drawn(edge).iter().map(load).max().expect("an edge draws on itself")
    }

    /// All paths without loops between the ends, by trying all.
    pub(crate) fn paths(&self) -> Vec<Vec<EdgeId>> {
        let mut found = Vec::new();
        let mut trail = Vec::new();
        self.extend(self.ends.from(), &mut vec![self.ends.from()], &mut trail, &mut found);
        found
    }

    fn extend(&self, at: usize, seen: &mut Vec<usize>, trail: &mut Vec<EdgeId>, found: &mut Vec<Vec<EdgeId>>) {
        for edge in self.graph().out(at).iter().copied() {
            let to = self.graph().edge(edge).to;
            if seen.contains(&to) {
                continue;
            }
            trail.push(edge);
            if to == self.ends.to() {
                found.push(trail.clone());
            } else if self.graph().forwards(to) {
                seen.push(to);
                self.extend(to, seen, trail, found);
                seen.pop();
            }
            trail.pop();
        }
    }

    /// What a path has free for all of a window, counted.
    pub(crate) fn width(&self, path: &[EdgeId], window: Window) -> u64 {
        path.iter().map(|edge| self.free(*edge, window)).min().expect("a path has an edge")
    }

    /// The highest rate of any path for all of a window.
    pub(crate) fn widest(&self, window: Window) -> u64 {
        self.paths().iter().map(|path| self.width(path, window)).max().unwrap_or(0)
    }

    /// The first of the paths with so much free: by cost, hops, names of nodes, names of edges.
    pub(crate) fn cheapest(&self, rate: u64, window: Window) -> Option<Vec<EdgeId>> {
        self.first_by_names(self.paths().into_iter().filter(|path| self.width(path, window) >= rate).collect())
    }

    pub(crate) fn first_by_names(&self, paths: Vec<Vec<EdgeId>>) -> Option<Vec<EdgeId>> {
        let graph = self.graph();
        let order = |path: &Vec<EdgeId>| {
            let cost: u64 = path.iter().map(|edge| graph.edge(*edge).cost).sum();
            let names: Vec<&str> = path.iter().map(|edge| graph.names()[graph.edge(*edge).to].as_str()).collect();
            let edges: Vec<(&str, EdgeId)> = path.iter().map(|edge| (graph.edge(*edge).name.as_str(), *edge)).collect();
            (cost, path.len(), names, edges)
        };
        paths.into_iter().min_by(|a, b| order(a).cmp(&order(b)))
    }
}

fn resource(rng: &mut Rng, capacity: u64) -> (Calendar, Counted) {
    let grain = *rng.pick(&[1, 1, 1, 2, 3]);
    let change = (rng.within(0, TICKS - 1), if rng.one_in(4) { rng.size(0, 12) } else { capacity });
    let calendar = Calendar::with_steps(capacity, &[change], above_0(grain));
    let left = (0..=TICKS).map(|tick| if tick < change.0 { capacity } else { change.1 }.cast_signed()).collect();
    (calendar, Counted { grain, left })
}
