//! Paths as they are printed.

use std::time::Duration;

use model::network::Network;
use plan::graph::{EdgeId, Graph};
use plan::paths::{Apart, Pair, Path, Shared};
use serde::Serialize;
use units::{Rate, Span};

use super::Found;
use crate::action::plan::table::{table, wrapped};
use crate::args::plan::PathArgs;
use crate::output::COLUMNS_MAX;

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    from: String,
    to: String,
    paths: Vec<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<ShownPair>,
}

#[derive(Debug, Serialize)]
struct Shown {
    cost: u64,
    hops: usize,
    /// One way.
    delay_ns: u64,
    /// Of its narrowest link; `null` where none has a limit.
    rate_bps: Option<u64>,
    nodes: Vec<String>,
    links: Vec<String>,
}

/// What two paths share.
#[derive(Debug, Serialize)]
struct ShownPair {
    /// Whether it is nothing of the kind that was asked for: `links`, `nodes`, `risks`.
    disjoint: bool,
    kind: &'static str,
    /// Whether no pair is better; else it is the best that a bounded search found.
    best: bool,
    shared_nodes: Vec<String>,
    shared_links: Vec<String>,
    shared_risks: Vec<String>,
}

impl Answer {
    pub(super) fn of(args: &PathArgs, network: &Network, graph: &Graph, found: &Found) -> Answer {
        let (paths, pair) = match found {
            Found::Paths(paths) => (paths.as_slice(), None),
            Found::Pair(apart, pair) => (pair.paths.as_slice(), Some(ShownPair::of(network, graph, *apart, pair))),
        };
        let paths = paths.iter().map(|path| Shown::of(network, graph, path)).collect();
        Answer { from: args.from.clone(), to: args.to.clone(), paths, pair }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let head = ["", "cost", "hops", "one way", "rate"].map(str::to_owned);
        let row = |(n, path): (usize, &Shown)| {
            let rate = path.rate_bps.map_or_else(|| "no limit".to_owned(), |bps| Rate::from_bps(bps).to_string());
            let delay = Span::new(Duration::from_nanos(path.delay_ns)).to_string();
            [(n + 1).to_string(), path.cost.to_string(), path.hops.to_string(), delay, rate]
        };
        let rows: Vec<_> = [head].into_iter().chain(self.paths.iter().enumerate().map(row)).collect();
        let lines = table(&rows, [true; 5]);
        let mut text = format!("{}\n", lines[0]);
        for (line, path) in lines[1..].iter().zip(&self.paths) {
            let nodes = path.nodes.iter().flat_map(|node| ["→", node]).skip(1);
            let links = std::iter::once("by").chain(path.links.iter().map(String::as_str));
            let [nodes, links] = [wrapped(nodes, INDENT, COLUMNS_MAX), wrapped(links, INDENT, COLUMNS_MAX)];
            text += &format!("{line}\n{nodes}\n{links}\n");
        }
        if let Some(pair) = &self.pair {
            text += &format!("{}\n", wrapped(pair.text().split(' '), "", COLUMNS_MAX));
        }
        text
    }
}

/// Before what stands below a row.
const INDENT: &str = "     ";

impl Shown {
    fn of(network: &Network, graph: &Graph, path: &Path) -> Shown {
        let width = path.width(|edge| graph.edge(edge).capacity);
        Shown {
            cost: path.cost,
            hops: path.edges.len(),
            delay_ns: path.delay(graph),
            rate_bps: (width != u64::MAX).then_some(width),
            nodes: names(graph, &path.nodes(graph)),
            links: links(network, &path.edges),
        }
    }
}

impl ShownPair {
    fn of(network: &Network, graph: &Graph, apart: Apart, pair: &Pair) -> ShownPair {
        let Shared { nodes, links: shared, risks } = &pair.shared;
        ShownPair {
            disjoint: pair.shared.is_apart(apart),
            kind: match apart {
                Apart::Links => "links",
                Apart::Nodes => "nodes",
                Apart::Risks => "risks",
            },
            best: pair.is_best,
            shared_nodes: names(graph, nodes),
            shared_links: links(network, shared),
            shared_risks: risks.iter().map(|&risk| graph.risks()[risk].clone()).collect(),
        }
    }

    fn text(&self) -> String {
        let shared = [("links", &self.shared_links), ("nodes", &self.shared_nodes), ("risks", &self.shared_risks)];
        let named = shared.into_iter().filter(|(_, names)| !names.is_empty());
        let named: Vec<String> = named.map(|(kind, names)| format!("{kind} {}", names.join(", "))).collect();
        let named = named.join("; ");
        let kind = self.kind;
        let mut text = match (self.disjoint, named.is_empty()) {
            (true, true) => format!("they share no {kind}"),
            (true, false) => format!("they share no {kind}, but {named}"),
            (false, _) => format!("no pair is disjoint by {kind}; this one shares least: {named}"),
        };
        if !self.best {
            text = match self.disjoint {
                true => format!("{text}; the search ended at its bound, there may be a cheaper pair"),
                false => format!("a bounded search found no pair that is disjoint by {kind}; this one shares: {named}"),
            };
        }
        text
    }
}

fn names(graph: &Graph, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|&node| graph.names()[node].clone()).collect()
}

/// Edges 2 n and 2 n + 1 are those of link n.
fn links(network: &Network, edges: &[EdgeId]) -> Vec<String> {
    edges.iter().map(|edge| network.links[edge / 2].name.clone()).collect()
}
