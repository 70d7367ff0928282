//! Resources that limit several edges at one node together: a port, a NIC, a storage, a mark over the members of a bundle.
//!
//! In a flow such a resource is a vertex of its own between the node and these edges. That is exact as long as of two
//! resources at one side of a node that have an edge in common the one limits all that the other does.

use std::collections::BTreeMap;

use crate::book::{ResourceId, Snapshot};
use crate::graph::{EdgeId, NodeId};

/// Resources that limit the same edges, all on one side of one node.
pub(super) struct Group {
    pub(super) node: NodeId,
    /// Whether the edges leave the node; else they enter it.
    pub(super) leaves: bool,
    /// Sorted.
    edges: Vec<EdgeId>,
    resources: Vec<ResourceId>,
    /// The smallest group that has these edges and more.
    pub(super) within: Option<usize>,
}

/// All groups of some edges.
pub(super) struct Groups(Vec<Group>);

impl Groups {
    /// The groups of some edges; the first resource that fits into none if there is one.
    pub(super) fn of(snapshot: &Snapshot, edges: &[EdgeId]) -> Result<Groups, ResourceId> {
        let mut limited: BTreeMap<ResourceId, Vec<EdgeId>> = BTreeMap::new();
        for edge in edges {
            snapshot.drawn(*edge).iter().for_each(|resource| limited.entry(*resource).or_default().push(*edge));
        }
        let mut groups: BTreeMap<Vec<EdgeId>, Vec<ResourceId>> = BTreeMap::new();
        // What limits one edge is among what is free of that.
        for (resource, mut edges) in limited.into_iter().filter(|(_, edges)| edges.len() > 1) {
            edges.sort_unstable();
            groups.entry(edges).or_default().push(resource);
        }
        let graph = snapshot.graph();
        let group = |(edges, resources): (Vec<EdgeId>, Vec<ResourceId>)| {
            let (from, to) = (graph.edge(edges[0]).from, graph.edge(edges[0]).to);
            let leaves = edges.iter().all(|edge| graph.edge(*edge).from == from);
            let enters = edges.iter().all(|edge| graph.edge(*edge).to == to);
            let node = if leaves { from } else { to };
            if leaves || enters {
                Ok(Group { node, leaves, edges, resources, within: None })
            } else {
                Err(resources[0])
            }
        };
        let mut groups = groups.into_iter().map(group).collect::<Result<Vec<Group>, ResourceId>>()?;
        groups.sort_by_key(|group| group.edges.len());
        for n in 0..groups.len() {
            let (smaller, larger) = groups.split_at_mut(n + 1);
            let group = &mut smaller[n];
            for (m, other) in larger.iter().enumerate().filter(|(_, other)| other.leaves == group.leaves) {
                let common = group.edges.iter().filter(|edge| other.has(**edge)).count();
                if common == group.edges.len() {
                    group.within.get_or_insert(n + 1 + m);
                } else if common > 0 {
                    return Err(other.resources[0]);
                }
            }
        }
        Ok(Groups(groups))
    }

    pub(super) fn all(&self) -> &[Group] {
        &self.0
    }

    /// The smallest group of an edge on the side of the node that it leaves, or enters.
    pub(super) fn of_edge(&self, edge: EdgeId, leaves: bool) -> Option<usize> {
        self.0.iter().position(|group| group.leaves == leaves && group.has(edge))
    }
}

impl Group {
    /// What is free of its resources, by what is free of each.
    pub(super) fn free(&self, free: impl Fn(ResourceId) -> u64) -> u64 {
        self.resources.iter().map(|resource| free(*resource)).min().unwrap_or(0)
    }

    fn has(&self, edge: EdgeId) -> bool {
        self.edges.binary_search(&edge).is_ok()
    }
}
