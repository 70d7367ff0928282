//! Paths that must pass something, or be quick enough.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use super::{Length, Path, Paths, Step};
use crate::graph::{EdgeId, NodeId};

/// Things that a path must pass, in one question.
pub const INCLUDES_MAX: usize = 32;
/// Begins of paths that one question looks at.
pub const BEGINS_MAX: usize = 500_000;

/// What a path must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Include {
    /// This node, which may be an end of the path.
    Node(NodeId),
    /// Any of these edges: the two ways of a link, all edges with a shared risk.
    AnyOf(Vec<EdgeId>),
}

/// What is asked of a path beside its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// What it passes, in this order; at most [`INCLUDES_MAX`].
    pub includes: Vec<Include>,
    /// What its one-way delay is at most, nanoseconds.
    pub max_delay: Option<u64>,
}

/// A question that was given up after [`BEGINS_MAX`] begins of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gave up after {BEGINS_MAX} begins of paths: include less, or exclude what is out of question")]
pub struct GaveUp;

impl<'a> Paths<'a> {
    /// All paths that keep the constraints, the first in the order first.
    ///
    /// # Panics
    /// With more than [`INCLUDES_MAX`] includes.
    #[must_use]
    pub fn constrained(&self, from: NodeId, to: NodeId, constraints: &Constraints) -> Constrained<'_, 'a> {
        Constrained::new(self, from, to, constraints, false)
    }

    /// The first path in the order that is quick enough: its one-way delay is at most `max_delay` nanoseconds.
    ///
    /// Exact: labels are set in order, and one that is slower than an earlier one at the same node leads nowhere better.
    ///
    /// # Errors
    /// When that takes too many labels.
    pub fn cheapest_within(&self, from: NodeId, to: NodeId, max_delay: u64) -> Result<Option<Path>, GaveUp> {
        let constraints = Constraints { includes: Vec::new(), max_delay: Some(max_delay) };
        Constrained::new(self, from, to, &constraints, true).next().transpose()
    }
}

impl Paths<'_> {
    /// Of the paths that keep the constraints and whose narrowest edge is widest the first in the order, and how wide it is;
    /// `None` if none has any width.
    ///
    /// # Errors
    /// When that takes too many begins of paths.
    pub fn widest_constrained(
        &self,
        from: NodeId,
        to: NodeId,
        width: impl Fn(EdgeId) -> u64,
        constraints: &Constraints,
    ) -> Result<Option<(u64, Path)>, GaveUp> {
        let widths: BTreeSet<u64> = self.steps.iter().map(|step| width(step.edge)).filter(|&width| width > 0).collect();
        let widths: Vec<u64> = widths.into_iter().collect();
        let mut best = None;
        // Below `low` there is a path as wide, from `high` on there is none.
        let (mut low, mut high) = (0, widths.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let wide = self.only(|edge| width(edge) >= widths[middle]);
            match wide.constrained(from, to, constraints).next().transpose()? {
                Some(path) => (best, low) = (Some((widths[middle], path)), middle + 1),
                None => high = middle,
            }
        }
        Ok(best)
    }
}

/// The paths that keep constraints, in order; ends after the last, or with [`GaveUp`].
///
/// A search over begins of paths (A*). What is left of each at least comes from a search backwards over pairs of node and next
/// include: if the way that it promises is loop-free, as mostly, the search goes straight there. (Ways between includes put
/// together, each the best of its own, can run into each other where these do not.)
#[derive(Clone, Debug)]
pub struct Constrained<'p, 'a> {
    paths: &'p Paths<'a>,
    layers: Layers,
    from: u32,
    to: u32,
    max_delay: u64,
    begins: BinaryHeap<Reverse<Begin>>,
    /// For each node the least delay of a begin to it that came earlier, where only the first path is asked for.
    quickest: Option<Vec<u64>>,
    looked_at: usize,
}

/// The begin of a path.
#[derive(Clone, Debug)]
struct Begin {
    /// With what is left at least.
    total: Length,
    /// After the first.
    nodes: Vec<u32>,
    steps: Vec<u32>,
    length: Length,
    delay: u64,
    /// Includes that it has passed.
    passed: usize,
}

impl Ord for Begin {
    fn cmp(&self, other: &Begin) -> Ordering {
        let key = |begin: &Begin| begin.total;
        key(self).cmp(&key(other)).then_with(|| self.nodes.cmp(&other.nodes)).then_with(|| self.steps.cmp(&other.steps))
    }
}

impl PartialOrd for Begin {
    fn partial_cmp(&self, other: &Begin) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Begin {
    fn eq(&self, other: &Begin) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Begin {}

impl<'p, 'a> Constrained<'p, 'a> {
    fn new(paths: &'p Paths<'a>, from: NodeId, to: NodeId, constraints: &Constraints, only_first: bool) -> Self {
        let (from, to) = (paths.rank(from), paths.rank(to));
        let layers = Layers::new(paths, from, to, &constraints.includes);
        // An earlier begin can stand for another only if it has passed what the other has.
        let quickest = (only_first && constraints.includes.is_empty()).then(|| vec![u64::MAX; paths.nodes()]);
        let max_delay = constraints.max_delay.unwrap_or(u64::MAX);
        let mut all =
            Constrained { paths, layers, from, to, max_delay, begins: BinaryHeap::new(), quickest, looked_at: 0 };
        let passed = all.layers.passed_at_begin;
        let (nodes, steps) = (Vec::new(), Vec::new());
        all.add(Begin { total: Length::ZERO, nodes, steps, length: Length::ZERO, delay: 0, passed });
        all
    }

    /// Keeps a begin from which the end may be reached in time.
    fn add(&mut self, mut begin: Begin) {
        let here = begin.nodes.last().copied().unwrap_or(self.from);
        let at = self.layers.index(here, begin.passed);
        let (length, delay) = (self.layers.length[at], self.layers.delay[at]);
        if length == Length::NONE || begin.delay.saturating_add(delay) > self.max_delay {
            return;
        }
        begin.total = begin.length.plus(length);
        self.begins.push(Reverse(begin));
    }

    /// The begins that go on from one.
    fn go_on(&mut self, begin: &Begin) {
        let paths = self.paths;
        let here = begin.nodes.last().copied().unwrap_or(self.from);
        for (index, step) in paths.out(here) {
            if !paths.leads_on(step.to, self.to) || step.to == self.from || begin.nodes.contains(&step.to) {
                continue;
            }
            let mut longer = Begin {
                total: Length::ZERO,
                nodes: Vec::with_capacity(begin.nodes.len() + 1),
                steps: Vec::with_capacity(begin.steps.len() + 1),
                length: begin.length.and(step),
                delay: begin.delay + paths.graph.edge(step.edge).delay,
                passed: self.layers.passed_after(begin.passed, index, step),
            };
            longer.nodes.extend(begin.nodes.iter().copied().chain([step.to]));
            longer.steps.extend(begin.steps.iter().copied().chain([index]));
            self.add(longer);
        }
    }
}

impl Iterator for Constrained<'_, '_> {
    type Item = Result<Path, GaveUp>;

    fn next(&mut self) -> Option<Result<Path, GaveUp>> {
        while let Some(Reverse(begin)) = self.begins.pop() {
            let here = begin.nodes.last().copied().unwrap_or(self.from);
            if here == self.to {
                return Some(Ok(self.paths.path(begin.steps.into_iter())));
            }
            if let Some(quickest) = &mut self.quickest {
                let quickest = &mut quickest[here as usize];
                if *quickest <= begin.delay {
                    continue;
                }
                *quickest = begin.delay;
            }
            self.looked_at += 1;
            if self.looked_at > BEGINS_MAX {
                self.begins.clear();
                return Some(Err(GaveUp));
            }
            self.go_on(&begin);
        }
        None
    }
}

/// What is left to go from every node, for each number of includes that were passed.
#[derive(Clone, Debug)]
struct Layers {
    /// The first is that of nothing passed; one more than there are includes.
    count: usize,
    /// A node to be passed next, for each layer.
    nodes: Vec<Option<u32>>,
    /// For each step the layers in which it is to be passed next, as bits.
    steps: Vec<u32>,
    passed_at_begin: usize,
    length: Vec<Length>,
    /// The least, which need not be that of the shortest.
    delay: Vec<u64>,
}

impl Layers {
    fn new(paths: &Paths<'_>, from: u32, to: u32, includes: &[Include]) -> Layers {
        assert!(includes.len() <= INCLUDES_MAX, "there are at most {INCLUDES_MAX} includes");
        let node = |include: &Include| match include {
            Include::Node(node) => Some(paths.rank(*node)),
            Include::AnyOf(_) => None,
        };
        let layers_of = |step: &Step| {
            let is_in = |include: &Include| matches!(include, Include::AnyOf(edges) if edges.contains(&step.edge));
            (0..).zip(includes).map(|(layer, include)| u32::from(is_in(include)) << layer).sum()
        };
        let mut layers = Layers {
            count: includes.len() + 1,
            nodes: includes.iter().map(node).collect(),
            steps: paths.steps.iter().map(layers_of).collect(),
            passed_at_begin: 0,
            length: Vec::new(),
            delay: Vec::new(),
        };
        layers.passed_at_begin = layers.passed_at(0, from);
        layers.length = layers.search(paths, to, Length::ZERO, Length::NONE, |length, step| length.and(step));
        let delay = |delay: u64, step: &Step| delay + paths.graph.edge(step.edge).delay;
        layers.delay = layers.search(paths, to, 0, u64::MAX, delay);
        layers
    }

    fn index(&self, node: u32, passed: usize) -> usize {
        node as usize * self.count + passed
    }

    fn passed_at(&self, mut passed: usize, node: u32) -> usize {
        while self.nodes.get(passed) == Some(&Some(node)) {
            passed += 1;
        }
        passed
    }

    /// An edge is passed before the node that it leads to.
    fn passed_after(&self, mut passed: usize, index: u32, step: &Step) -> usize {
        while passed + 1 < self.count && self.steps[index as usize] >> passed & 1 == 1 {
            passed += 1;
        }
        self.passed_at(passed, step.to)
    }

    /// The least from every node and layer to the end with everything passed.
    fn search<T: Copy + Ord>(
        &self,
        paths: &Paths<'_>,
        to: u32,
        nothing: T,
        never: T,
        and: impl Fn(T, &Step) -> T,
    ) -> Vec<T> {
        let mut least = vec![never; paths.nodes() * self.count];
        least[self.index(to, self.count - 1)] = nothing;
        // Holds at most one entry for each edge and layer.
        let mut nearest = BinaryHeap::from([Reverse((nothing, to, self.count - 1))]);
        while let Some(Reverse((left, node, passed))) = nearest.pop() {
            if left > least[self.index(node, passed)] || !paths.leads_on(node, to) {
                continue;
            }
            for (index, step) in paths.into(node) {
                // A path ends where it first comes to its end.
                let before = (0..=passed).filter(|&before| self.passed_after(before, index, step) == passed);
                for before in before.filter(|_| step.from != to) {
                    let (at, longer) = (self.index(step.from, before), and(left, step));
                    if longer < least[at] {
                        least[at] = longer;
                        nearest.push(Reverse((longer, step.from, before)));
                    }
                }
            }
        }
        least
    }
}
