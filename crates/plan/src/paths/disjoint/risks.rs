//! Pairs that share no risk: NP-hard (Hu 2003), so a search by branch and bound.
//!
//! A state says for some things (risks and links) that the one path avoids them, or that the other does, or that they may be
//! shared. The shortest paths that keep to it are a bound for all pairs that do; what both use and may not share is what
//! branches next. The states of least bound come first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use super::flow::{Flow, Used};
use super::{Apart, Pair};
use crate::graph::{EdgeId, Graph, NodeId};
use crate::paths::{Path, Paths};

/// Nodes of a network in which the search ends at [`STATES_MAX_EXACT`] only, which none of the random ones of the tests comes near.
pub const EXACT_NODES: usize = 30;
/// States that a search in a network of up to [`EXACT_NODES`] nodes looks at.
pub const STATES_MAX_EXACT: usize = 200_000;
/// States that a search in a larger network looks at.
pub const STATES_MAX: usize = 2_000;

/// How good a pair is, or can be: things shared, total cost, total hops.
type Key = (usize, u64, usize);

/// A risk, or a link counted on from the last risk.
type Thing = usize;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    bound: Key,
    avoided: [BTreeSet<Thing>; 2],
    conceded: BTreeSet<Thing>,
}

impl Ord for State {
    fn cmp(&self, other: &State) -> Ordering {
        let key = |state: &State| state.bound;
        key(self)
            .cmp(&key(other))
            .then_with(|| self.avoided.cmp(&other.avoided))
            .then_with(|| self.conceded.cmp(&other.conceded))
    }
}

impl PartialOrd for State {
    fn partial_cmp(&self, other: &State) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The pair that shares fewest risks and links.
pub(super) fn pair(paths: &Paths<'_>, from: NodeId, to: NodeId) -> Option<Pair> {
    // Also what is returned if the search finds nothing better within its bound.
    let by_links = paths.pair(from, to, Apart::Links)?.paths;
    let mut best = (key(paths.graph, &by_links), by_links);
    let states_max = if paths.nodes() <= EXACT_NODES { STATES_MAX_EXACT } else { STATES_MAX };
    let mut states = BinaryHeap::from([Reverse(State::default())]);
    let mut looked_at = 0;
    // Goes on over states that may hold an equal pair: names are still to be compared.
    while let Some(Reverse(state)) = states.pop().filter(|state| state.0.bound <= best.0) {
        if looked_at == states_max {
            return Some(paths.pair_of(best.1, false));
        }
        looked_at += 1;
        let ends = [from, to];
        let Some((bound, pair)) = look(paths, ends, &state) else { continue };
        let found = key(paths.graph, &pair);
        let is_better = found.cmp(&best.0).then_with(|| paths.order_of_pairs(&pair, &best.1)) == Ordering::Less;
        let conflict = conflict(paths.graph, &pair, &state);
        if is_better {
            best = (found, pair);
        }
        let Some(thing) = conflict else { continue };
        let state = State { bound: bound.max(state.bound), ..state };
        for child in state.branches(thing).into_iter().filter(|child| child.bound <= best.0) {
            states.push(Reverse(child));
        }
    }
    Some(paths.pair_of(best.1, true))
}

impl State {
    /// What can become of a thing that both paths use.
    fn branches(self, thing: Thing) -> Vec<State> {
        let mut branches = Vec::new();
        // As long as the paths are told the same, the other way round is the same pair.
        let ways = if self.avoided[0] == self.avoided[1] { 1 } else { 2 };
        for path in 0..ways {
            let mut branch = self.clone();
            branch.avoided[path].insert(thing);
            branches.push(branch);
        }
        let mut conceded = self;
        conceded.conceded.insert(thing);
        conceded.bound = conceded.bound.max((conceded.conceded.len(), 0, 0));
        branches.push(conceded);
        branches
    }
}

/// The shortest paths that keep to a state, and a bound for all its pairs; `None` if it has none.
fn look(paths: &Paths<'_>, [from, to]: [NodeId; 2], state: &State) -> Option<(Key, [Path; 2])> {
    let graph = paths.graph;
    let is_avoided = |edge: EdgeId, path: usize| things(graph, edge).any(|thing| state.avoided[path].contains(&thing));
    let shortest = |path: usize| paths.only(|edge| !is_avoided(edge, path)).shortest(from, to);
    let pair = [shortest(0)?, shortest(1)?];
    let alone = (state.conceded.len(), pair[0].cost + pair[1].cost, pair[0].edges.len() + pair[1].edges.len());
    let either = paths.only(|edge| !(is_avoided(edge, 0) && is_avoided(edge, 1)));
    let flow = Flow::new(&either, either.rank(from), either.rank(to), false);
    let begin = Some(either.rank(from));
    let together = flow.least(&Used::default(), [begin, begin])?;
    // Tolls of whole units of flow are not negative.
    let together = (together.links as usize, together.cost as u64, together.hops as usize);
    Some((alone.max(together), pair))
}

/// What an edge fails with.
fn things(graph: &Graph, edge: EdgeId) -> impl Iterator<Item = Thing> {
    let link = graph.risks().len() + graph.link_of(edge);
    graph.edge(edge).risks.iter().copied().chain([link])
}

fn shared(graph: &Graph, pair: &[Path; 2]) -> BTreeSet<Thing> {
    let of = |path: &Path| path.edges.iter().flat_map(|&edge| things(graph, edge)).collect::<BTreeSet<Thing>>();
    of(&pair[0]).intersection(&of(&pair[1])).copied().collect()
}

fn key(graph: &Graph, pair: &[Path; 2]) -> Key {
    let [one, other] = pair;
    (shared(graph, pair).len(), one.cost + other.cost, one.edges.len() + other.edges.len())
}

/// A thing that both paths use and may not share: a risk before a link, that of most edges first.
fn conflict(graph: &Graph, pair: &[Path; 2], state: &State) -> Option<Thing> {
    let uses = |thing: &Thing| {
        let edges = pair.iter().flat_map(|path| &path.edges);
        edges.filter(|&&edge| things(graph, edge).any(|of| of == *thing)).count()
    };
    let left = shared(graph, pair).into_iter().filter(|thing| !state.conceded.contains(thing));
    left.max_by_key(|thing| (*thing < graph.risks().len(), uses(thing), Reverse(*thing)))
}
