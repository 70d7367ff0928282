//! Bottleneck structure as a graph: levels of its vertices, and edges.

use super::{Member, Structure};
use crate::share::ResourceId;

/// Edges that are listed at most.
pub const EDGES_MAX: usize = 1 << 24;

/// A change goes from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// A resource holds a flow back.
    Holds(ResourceId, usize),
    /// A flow draws on a resource that holds back some flow.
    Draws(usize, ResourceId),
}

/// There are more edges than are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bottleneck structure has {edges} edges, and at most {most} are listed: ask about single links or flows")]
pub struct TooManyEdges {
    /// How many there are.
    pub edges: usize,
    /// How many may be listed.
    pub most: usize,
}

impl Structure<'_> {
    /// By resource, its level in the graph: twice the rank of the share at which it holds flows back. `None` if it holds back none.
    #[must_use]
    pub fn link_levels(&self) -> Vec<Option<u32>> {
        let mut levels = vec![None; self.links.len()];
        let mut rank = 0;
        for group in self.groups() {
            let mut has_link = false;
            for reacting in self.members_of(group) {
                if let Member::Link(link) = reacting.member {
                    levels[link as usize] = Some(2 * rank);
                    has_link = true;
                }
            }
            rank += u32::from(has_link);
        }
        levels
    }

    /// By flow, its level in the graph: one more than that of what holds it back. `None` if nothing does.
    #[must_use]
    pub fn flow_levels(&self) -> Vec<Option<u32>> {
        let links = self.link_levels();
        let level =
            |held_by: &[u32]| held_by.iter().filter_map(|link| links[*link as usize]).min().map(|level| level + 1);
        self.held_by.lists().map(level).collect()
    }

    /// The edges of the graph: those from resources, in order, then those from flows that something holds back.
    ///
    /// # Errors
    /// If there are more than `most`, which counts as no more than [`EDGES_MAX`].
    pub fn edges(&self, most: usize) -> Result<Vec<Edge>, TooManyEdges> {
        let most = most.min(EDGES_MAX);
        let draws = (0..self.standings.len()).filter(|flow| !self.held_by(*flow).is_empty()).flat_map(|flow| {
            let holding = self.problem.uses(flow).iter().filter(|of| !self.holds_back(**of).is_empty());
            holding.map(move |of| Edge::Draws(flow, *of))
        });
        let edges = self.holds_back.items() + draws.clone().count();
        if edges > most {
            return Err(TooManyEdges { edges, most });
        }
        let of_link = |(link, flows): (usize, &'_ [u32])| -> Vec<Edge> {
            flows.iter().map(|flow| Edge::Holds(link as ResourceId, *flow as usize)).collect()
        };
        Ok(self.holds_back.lists().enumerate().flat_map(of_link).chain(draws).collect())
    }
}
