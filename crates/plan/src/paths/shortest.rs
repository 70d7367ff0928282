//! The shortest loop-free paths one by one (Yen 1971, with what Lawler 1972 leaves out).
//!
//! What is left to find is kept as disjoint sets of paths: those that begin with some steps of a path that was found and then
//! go otherwise. A set enters the queue with the shortest *walk* that has its begin, which the distances to the end give
//! without a search. If that walk is loop-free it is the first path of its set; if not it is a lower bound, and the search for the
//! set's first path waits until the bound is the least of all, which for most sets never happens.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::towards::{NO_STEP, Towards};
use super::{Length, Path, Paths};

/// Paths between two nodes that are found at most: more are no list that anybody reads, and each takes memory.
pub const PATHS_MAX: usize = 100_000;

/// The paths from one node to another in order; ends after the last, or after [`PATHS_MAX`].
///
/// A path takes O(n) sets more to keep, of O(n) numbers each, for n nodes on it.
#[derive(Clone, Debug)]
pub struct KShortest<'t, 'p, 'a> {
    towards: &'t Towards<'p, 'a>,
    from: u32,
    sets: BinaryHeap<Reverse<Set>>,
    /// The set whose first path was told last: what is left of it is not in the queue yet.
    told: Option<Set>,
    search: Search,
    found: usize,
}

/// Paths that begin alike: the first `kept` steps of `walk` and then none of `banned`.
#[derive(Clone, Debug)]
struct Set {
    length: Length,
    /// The nodes after the first, then as many steps.
    walk: Box<[u32]>,
    kept: usize,
    banned: Banned,
    /// Whether `walk` is a path: the first of the set.
    is_path: bool,
}

/// Steps that are not to be taken next; mostly one, which takes no memory of its own.
#[derive(Clone, Debug)]
struct Banned {
    last: u32,
    others: Vec<u32>,
}

impl Banned {
    const fn none() -> Banned {
        Banned { last: NO_STEP, others: Vec::new() }
    }

    fn has(&self, step: u32) -> bool {
        self.last == step || self.others.contains(&step)
    }

    fn and(&self, step: u32) -> Banned {
        let mut others = self.others.clone();
        others.extend((self.last != NO_STEP).then_some(self.last));
        Banned { last: step, others }
    }
}

impl Ord for Set {
    fn cmp(&self, other: &Set) -> Ordering {
        // Nodes stand before steps, and of equal lengths there are equally many.
        self.length.cmp(&other.length).then_with(|| self.walk.cmp(&other.walk))
    }
}

impl PartialOrd for Set {
    fn partial_cmp(&self, other: &Set) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Set {}

impl Set {
    fn steps(&self) -> &[u32] {
        &self.walk[self.walk.len() / 2..]
    }
}

impl<'t, 'p, 'a> KShortest<'t, 'p, 'a> {
    pub(super) fn new(towards: &'t Towards<'p, 'a>, from: u32) -> Self {
        let search = Search::new(towards.paths.nodes());
        let mut paths = KShortest { towards, from, sets: BinaryHeap::new(), told: None, search, found: 0 };
        if towards.is_reached(from) {
            paths.add(&[], towards.length[from as usize], towards.tail(from), Banned::none(), true);
        }
        paths
    }

    /// Puts in the set of paths that begin with `kept`, whose first path or bound has this length and goes on with `rest`.
    fn add(&mut self, kept: &[u32], length: Length, rest: impl Iterator<Item = u32>, banned: Banned, is_path: bool) {
        let all = &self.towards.paths.steps;
        let hops = length.hops as usize;
        let mut walk = vec![0; 2 * hops].into_boxed_slice();
        let (nodes, steps) = walk.split_at_mut(hops);
        for ((node, place), step) in nodes.iter_mut().zip(steps).zip(kept.iter().copied().chain(rest)) {
            (*node, *place) = (all[step as usize].to, step);
        }
        self.sets.push(Reverse(Set { length, walk, kept: kept.len(), banned, is_path }));
    }

    /// Puts back what is left of a set without its first path.
    fn split(&mut self, set: &Set) {
        let (towards, steps) = (self.towards, set.steps());
        let nodes = &set.walk[..steps.len()];
        self.search.leave_all();
        let (none, mut so_far) = (Banned::none(), Length::ZERO);
        for at in 0..steps.len() {
            let here = if at == 0 { self.from } else { nodes[at - 1] };
            self.search.pass(here);
            if at >= set.kept {
                let before = if at == set.kept { &set.banned } else { &none };
                let banned = before.and(steps[at]);
                if let Some((left, step, is_path)) = self.search.bound(towards, here, &banned) {
                    let next = towards.paths.steps[step as usize].to;
                    let rest = std::iter::once(step).chain(towards.tail(next));
                    self.add(&steps[..at], so_far.plus(left), rest, banned, is_path);
                }
            }
            so_far = so_far.and(&towards.paths.steps[steps[at] as usize]);
        }
    }

    /// Puts a set back with its first path, if it has any.
    fn resolve(&mut self, set: Set) {
        let (towards, kept) = (self.towards, &set.steps()[..set.kept]);
        let nodes = &set.walk[..set.kept];
        self.search.leave_all();
        self.search.pass(self.from);
        nodes.iter().for_each(|&node| self.search.pass(node));
        let here = nodes.last().copied().unwrap_or(self.from);
        if let Some(rest) = self.search.first(towards, here, &set.banned) {
            let steps = kept.iter().chain(&rest);
            let length = steps.fold(Length::ZERO, |length, &step| length.and(&towards.paths.steps[step as usize]));
            self.add(kept, length, rest.iter().copied(), set.banned.clone(), true);
        }
    }
}

impl Iterator for KShortest<'_, '_, '_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        if self.found == PATHS_MAX {
            return None;
        }
        if let Some(told) = self.told.take() {
            self.split(&told);
        }
        while let Some(Reverse(set)) = self.sets.pop() {
            if !set.is_path {
                self.resolve(set);
                continue;
            }
            let path = self.towards.paths.path(set.steps().iter().copied());
            self.told = Some(set);
            self.found += 1;
            return Some(path);
        }
        None
    }
}

/// Searches that keep off some nodes, with room that is used again.
#[derive(Clone, Debug)]
struct Search {
    /// Nodes that were passed, which a path does not come to again: those whose mark is `passing`.
    passed: Vec<u32>,
    passing: u32,
    /// What a search knows of nodes, and of which nodes it knows something.
    reached: Vec<Length>,
    known: Vec<u32>,
    /// Whether a node is on a shortest path.
    on_path: Vec<bool>,
    nearest: BinaryHeap<Reverse<(Length, u32)>>,
}

impl Search {
    fn new(nodes: usize) -> Search {
        Search {
            passed: vec![0; nodes],
            passing: 0,
            reached: vec![Length::NONE; nodes],
            known: Vec::new(),
            on_path: vec![false; nodes],
            nearest: BinaryHeap::new(),
        }
    }

    fn leave_all(&mut self) {
        // Of so many turns each takes at least one path: the number does not come round.
        self.passing += 1;
    }

    fn pass(&mut self, node: u32) {
        self.passed[node as usize] = self.passing;
    }

    fn is_passed(&self, node: u32) -> bool {
        self.passed[node as usize] == self.passing
    }

    /// Whether a path to the end may take this step.
    fn may_take(&self, towards: &Towards<'_, '_>, to: u32) -> bool {
        !self.is_passed(to) && towards.is_reached(to) && towards.paths.leads_on(to, towards.to)
    }

    /// The shortest walk from `here` that keeps off the passed nodes at its first step: its length, its first step, and whether
    /// it keeps off them to the end.
    fn bound(&self, towards: &Towards<'_, '_>, here: u32, banned: &Banned) -> Option<(Length, u32, bool)> {
        let steps = &towards.paths.steps;
        let ways = towards.ways[towards.paths.out_of(here)].iter().take_while(|way| way.0 != Length::NONE);
        let mut open = ways.filter(|(_, step)| !self.is_passed(steps[*step as usize].to) && !banned.has(*step));
        let &(length, index) = open.next()?;
        let mut at = steps[index as usize].to;
        while towards.next[at as usize] != NO_STEP {
            at = steps[towards.next[at as usize] as usize].to;
            if self.is_passed(at) {
                return Some((length, index, false));
            }
        }
        Some((length, index, true))
    }

    /// The steps of the first path from `here` that keeps off the passed nodes (A*, with the distances to the end as what is
    /// left at least: they are exact where nothing is in the way).
    fn first(&mut self, towards: &Towards<'_, '_>, here: u32, banned: &Banned) -> Option<Vec<u32>> {
        let paths = towards.paths;
        let is_open = |search: &Search, index: u32, to: u32, from: u32| {
            search.may_take(towards, to) && !(from == here && banned.has(index))
        };
        self.reached[here as usize] = Length::ZERO;
        self.known.push(here);
        self.nearest.push(Reverse((towards.length[here as usize], here)));
        let mut best = Length::NONE;
        // Goes on over what is as short as the shortest: names are still to be compared.
        while let Some(Reverse((total, node))) = self.nearest.pop().filter(|entry| entry.0.0 <= best) {
            let so_far = self.reached[node as usize];
            if node == towards.to {
                best = so_far;
                continue;
            }
            if so_far.plus(towards.length[node as usize]) < total {
                continue;
            }
            for (index, step) in paths.out(node) {
                let longer = so_far.and(step);
                if longer < self.reached[step.to as usize] && is_open(self, index, step.to, node) {
                    if self.reached[step.to as usize] == Length::NONE {
                        self.known.push(step.to);
                    }
                    self.reached[step.to as usize] = longer;
                    self.nearest.push(Reverse((longer.plus(towards.length[step.to as usize]), step.to)));
                }
            }
        }
        self.nearest.clear();
        let rest = (best != Length::NONE).then(|| self.first_of_shortest(paths, here, towards.to, banned));
        for node in self.known.drain(..) {
            self.reached[node as usize] = Length::NONE;
            self.on_path[node as usize] = false;
        }
        rest
    }

    /// Of the shortest paths that a search found, the first in the order of names.
    fn first_of_shortest(&mut self, paths: &Paths<'_>, here: u32, to: u32, banned: &Banned) -> Vec<u32> {
        let is_tight = |reached: &[Length], index: u32, from: u32, end: u32| {
            let step = &paths.steps[index as usize];
            let before = reached[from as usize];
            before != Length::NONE && before.and(step) == reached[end as usize] && !(from == here && banned.has(index))
        };
        let mut left = vec![to];
        self.on_path[to as usize] = true;
        while let Some(node) = left.pop() {
            for (index, step) in paths.into(node) {
                if !self.on_path[step.from as usize] && is_tight(&self.reached, index, step.from, node) {
                    self.on_path[step.from as usize] = true;
                    left.push(step.from);
                }
            }
        }
        let mut rest = Vec::new();
        let mut at = here;
        while at != to {
            let mut out = paths.out(at);
            let first = out
                .find(|(index, step)| self.on_path[step.to as usize] && is_tight(&self.reached, *index, at, step.to));
            let (index, step) = first.expect("what is on a shortest path has a step along it");
            rest.push(index);
            at = step.to;
        }
        rest
    }
}
