//! `plan path`.

use std::path::Path as FilePath;
use std::time::Duration;

use anyhow::{Result, bail};
use model::network::Network;
use plan::graph::Graph;
use plan::paths::{Path, Paths};
use serde::Serialize;
use units::{Rate, Span};

use super::table::{table, wrapped};
use crate::action::network;
use crate::args::plan::PathArgs;
use crate::exit::usage;
use crate::output::{COLUMNS_MAX, print};

/// A path as `--json` prints it.
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

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Answer {
    from: String,
    to: String,
    paths: Vec<Shown>,
}

pub(super) fn run(args: &PathArgs) -> Result<()> {
    let network = network::read(&args.topology, FilePath::new(""))?;
    let node = |name: &str| network.node(name).map_err(|unknown| usage(unknown.to_string()));
    let (from, to) = (node(&args.from)?, node(&args.to)?);
    if from == to {
        return Err(usage(format!("`{}` is both ends: name another one", args.from)));
    }
    let graph = Graph::of(&network);
    let paths = Paths::of(&graph);
    let found: Vec<Path> = paths.towards(to).k_shortest(from).take(args.k as usize).collect();
    if found.is_empty() {
        bail!("no path leads from `{}` to `{}`", args.from, args.to);
    }
    let paths = found.iter().map(|path| shown(&network, &graph, path)).collect();
    let answer = Answer { from: args.from.clone(), to: args.to.clone(), paths };
    if args.json { print(format!("{}\n", serde_json::to_string(&answer)?)) } else { print(text(&answer)) }
}

fn shown(network: &Network, graph: &Graph, path: &Path) -> Shown {
    let width = path.width(|edge| graph.edge(edge).capacity);
    Shown {
        cost: path.cost,
        hops: path.edges.len(),
        delay_ns: path.delay(graph),
        rate_bps: (width != u64::MAX).then_some(width),
        nodes: path.nodes(graph).into_iter().map(|node| graph.names()[node].clone()).collect(),
        // Edges 2 n and 2 n + 1 are those of link n.
        links: path.edges.iter().map(|edge| network.links[edge / 2].name.clone()).collect(),
    }
}

/// Before what stands below a row.
const INDENT: &str = "     ";

/// For people.
fn text(answer: &Answer) -> String {
    let head = ["", "cost", "hops", "one way", "rate"].map(str::to_owned);
    let row = |(n, path): (usize, &Shown)| {
        let rate = path.rate_bps.map_or_else(|| "no limit".to_owned(), |bps| Rate::from_bps(bps).to_string());
        let delay = Span::new(Duration::from_nanos(path.delay_ns)).to_string();
        [(n + 1).to_string(), path.cost.to_string(), path.hops.to_string(), delay, rate]
    };
    let rows: Vec<_> = [head].into_iter().chain(answer.paths.iter().enumerate().map(row)).collect();
    let lines = table(&rows, [true; 5]);
    let mut text = format!("{}\n", lines[0]);
    for (line, path) in lines[1..].iter().zip(&answer.paths) {
        let nodes = path.nodes.iter().flat_map(|node| ["→", node]).skip(1);
        let nodes = wrapped(nodes, INDENT, COLUMNS_MAX);
        let links = std::iter::once("by").chain(path.links.iter().map(String::as_str));
        text += &format!("{line}\n{nodes}\n{}\n", wrapped(links, INDENT, COLUMNS_MAX));
    }
    text
}
