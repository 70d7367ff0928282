//! The directed graph that all questions are asked of.

use model::network::{Direction, Link, Network};

/// Index of a node in a [`Graph`].
pub type NodeId = usize;
/// Index of an edge in a [`Graph`].
pub type EdgeId = usize;

/// One direction of a link. Parallel edges are edges of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its name: the link's, with its direction.
    pub name: String,
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Cost of using it.
    pub cost: u64,
    /// One-way delay, nanoseconds.
    pub delay: u64,
    /// Bits per second; without a limit `u64::MAX`.
    pub capacity: u64,
    /// Indices in [`Graph::risks`] of what it fails with, in order, each once.
    pub risks: Vec<usize>,
}

/// A directed graph. Nodes and edges keep the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    names: Vec<String>,
    /// Whether a path may go through each node, and not only begin or end there.
    forwards: Vec<bool>,
    edges: Vec<Edge>,
    /// The first edge of the link that each edge is of.
    links: Vec<EdgeId>,
    out: Vec<Vec<EdgeId>>,
    risks: Vec<String>,
}

/// The largest cost, and delay, of an edge: sums over [`EDGES_MAX`] of them fit 64 bits, also with a sign.
pub const WEIGHT_MAX: u64 = 1 << 40;
/// Edges of a graph.
pub const EDGES_MAX: usize = 1 << 20;

impl Graph {
    /// The two directions of every link of a network: edges `2 n` and `2 n + 1` are those of link `n`. Hosts do not forward.
    #[must_use]
    pub fn of(network: &Network) -> Graph {
        let mut graph = Graph::default();
        for node in &network.nodes {
            graph.add_node(&node.name, node.kind == model::network::NodeKind::Router);
        }
        for link in &network.links {
            let risks: Vec<usize> = link.risks.iter().map(|risk| graph.risk(risk)).collect();
            let forward = graph.direction(link, link.from, link.to, &link.forward, &risks);
            let backward = graph.direction(link, link.to, link.from, &link.backward, &risks);
            graph.add_link(forward, backward);
        }
        graph
    }

    fn direction(&self, link: &Link, from: NodeId, to: NodeId, direction: &Direction, risks: &[usize]) -> Edge {
        Edge {
            name: format!("{} {}→{}", link.name, self.names[from], self.names[to]),
            from,
            to,
            cost: u64::from(link.cost),
            delay: u64::try_from(direction.delay.as_nanos()).expect("limits::DELAY_MAX is 10^10 ns"),
            capacity: direction.rate.map_or(u64::MAX, |rate| rate.bps()),
            risks: risks.to_vec(),
        }
    }

    /// Adds a node, which paths may go through if it `forwards`.
    pub fn add_node(&mut self, name: &str, forwards: bool) -> NodeId {
        self.names.push(name.to_owned());
        self.forwards.push(forwards);
        self.out.push(Vec::new());
        self.names.len() - 1
    }

    /// Adds an edge between nodes that are there: a link with one way.
    ///
    /// # Panics
    /// When its cost or its delay is above [`WEIGHT_MAX`], or there are [`EDGES_MAX`].
    pub fn add_edge(&mut self, mut edge: Edge) -> EdgeId {
        assert!(edge.cost <= WEIGHT_MAX && edge.delay <= WEIGHT_MAX, "the weights of `{}` are in bounds", edge.name);
        assert!(self.edges.len() < EDGES_MAX, "there are at most {EDGES_MAX} edges");
        edge.risks.sort_unstable();
        edge.risks.dedup();
        self.out[edge.from].push(self.edges.len());
        self.links.push(self.edges.len());
        self.edges.push(edge);
        self.edges.len() - 1
    }

    /// Adds the two ways of a link, which fail together.
    ///
    /// # Panics
    /// As [`Graph::add_edge`] does.
    pub fn add_link(&mut self, forward: Edge, backward: Edge) -> [EdgeId; 2] {
        let first = self.add_edge(forward);
        let second = self.add_edge(backward);
        self.links[second] = first;
        [first, second]
    }

    /// The link that an edge is a way of: the index of its first edge.
    #[must_use]
    pub fn link_of(&self, edge: EdgeId) -> EdgeId {
        self.links[edge]
    }

    /// The index of a shared risk, added if it is new.
    pub fn risk(&mut self, name: &str) -> usize {
        self.risks.iter().position(|risk| risk == name).unwrap_or_else(|| {
            self.risks.push(name.to_owned());
            self.risks.len() - 1
        })
    }

    /// The node of that name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.names.iter().position(|node| node == name)
    }

    /// Names of the nodes, by index.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Names of the shared risks, by index.
    #[must_use]
    pub fn risks(&self) -> &[String] {
        &self.risks
    }

    /// Whether a path may go through this node.
    #[must_use]
    pub fn forwards(&self, node: NodeId) -> bool {
        self.forwards[node]
    }

    /// The edges, by index.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edge with that index.
    #[must_use]
    pub fn edge(&self, edge: EdgeId) -> &Edge {
        &self.edges[edge]
    }

    /// The edges that begin at a node, in the order in which they were added.
    #[must_use]
    pub fn out(&self, node: NodeId) -> &[EdgeId] {
        &self.out[node]
    }
}
