//! `plan path`.

mod show;

use std::collections::BTreeSet;
use std::path::Path as FilePath;
use std::time::Duration;

use anyhow::{Result, anyhow};
use model::network::{Network, NodeIndex, Thing};
use plan::graph::{EdgeId, Graph};
use plan::paths::{Apart, Constraints, GaveUp, INCLUDES_MAX, Include, Pair, Path, Paths};
use units::Span;

use crate::action::network;
use crate::args::plan::{Kind, PathArgs};
use crate::exit::usage;
use crate::output::print;

/// What was found.
enum Found {
    Paths(Vec<Path>),
    Pair(Apart, Pair),
}

pub(super) fn run(args: &PathArgs) -> Result<()> {
    let network = network::read(&args.topology, FilePath::new(""))?;
    let node = |name: &str| network.node(name).map_err(|unknown| usage(unknown.to_string()));
    let ends = [node(&args.from)?, node(&args.to)?];
    if ends[0] == ends[1] {
        return Err(usage(format!("`{}` is both ends: name another one", args.from)));
    }
    let graph = Graph::of(&network);
    let excluded = excluded(&network, &graph, args, ends)?;
    let paths = Paths::of(&graph).only(|edge| !excluded.contains(&edge));
    let found = find(args, &network, &paths, ends)?;
    let answer = show::Answer::of(args, &network, &graph, &found);
    if args.json { print(format!("{}\n", serde_json::to_string(&answer)?)) } else { print(answer.text()) }
}

/// The answer to the question; an error if there is none.
fn find(args: &PathArgs, network: &Network, paths: &Paths<'_>, [from, to]: [NodeIndex; 2]) -> Result<Found> {
    let graph = paths.graph();
    let width = |edge: EdgeId| graph.edge(edge).capacity;
    let constraints = constraints(network, args)?;
    let free = constraints.includes.is_empty();
    let wide = |found: Result<Option<(u64, Path)>, GaveUp>| found.map(|found| found.map(|(_, path)| path));
    let one = |found: Option<Path>| Ok(found.into_iter().collect());
    let all: Result<Vec<Path>, GaveUp> = if let Some(kind) = args.disjoint {
        let apart = apart(kind);
        let pair = paths.pair(from, to, apart);
        return pair.map(|pair| Found::Pair(apart, pair)).ok_or_else(|| none(args, paths, [from, to]));
    } else if args.widest {
        let flat = paths.costing(|_| 0);
        let found = if free {
            Ok(paths.widest(from, to, width))
        } else {
            flat.widest_constrained(from, to, width, &constraints)
        };
        wide(found).and_then(one)
    } else if args.shortest_widest {
        let found = if free {
            Ok(paths.shortest_widest(from, to, width))
        } else {
            paths.widest_constrained(from, to, width, &constraints)
        };
        wide(found).and_then(one)
    } else if args.widest_shortest {
        wide(Ok(paths.widest_shortest(from, to, width))).and_then(one)
    } else if let Some(text) = &args.spread {
        one(paths.by_key(from, to, key(text)))
    } else if let (Some(most), true) = (constraints.max_delay, free) {
        paths.cheapest_within(from, to, most).and_then(one)
    } else {
        let count = args.k.unwrap_or(1) as usize;
        if free && constraints.max_delay.is_none() {
            Ok(paths.towards(to).k_shortest(from).take(count).collect())
        } else {
            paths.constrained(from, to, &constraints).take(count).collect()
        }
    };
    let all = all.map_err(|gave_up| anyhow!("from `{}` to `{}`: {gave_up}", args.from, args.to))?;
    if all.is_empty() { Err(none(args, paths, [from, to])) } else { Ok(Found::Paths(all)) }
}

/// Why there is no path, and the way out.
fn none(args: &PathArgs, paths: &Paths<'_>, [from, to]: [NodeIndex; 2]) -> anyhow::Error {
    let between = format!("from `{}` to `{}`", args.from, args.to);
    if !args.include.is_empty() {
        return anyhow!("no path leads {between} by what is included, in this order: include less");
    }
    if let Some(most) = args.max_delay {
        let graph = paths.graph();
        if let Some(quickest) = paths.costing(|edge| graph.edge(edge).delay).shortest(from, to) {
            // As the table shows it, rounded up: with so much there is a path.
            let delay = Span::new(Duration::from_millis(quickest.delay(graph).div_ceil(1_000_000)));
            return anyhow!("no path {between} takes {most} or less: the quickest needs --max-delay {delay}");
        }
    }
    if args.exclude.is_empty() {
        anyhow!("no path leads {between}: no links join them, or only by hosts, which do not forward")
    } else {
        anyhow!("no path leads {between} without what is excluded: exclude less")
    }
}

fn apart(kind: Kind) -> Apart {
    match kind {
        Kind::Link => Apart::Links,
        Kind::Node => Apart::Nodes,
        Kind::Risk => Apart::Risks,
    }
}

fn constraints(network: &Network, args: &PathArgs) -> Result<Constraints> {
    if args.include.len() > INCLUDES_MAX {
        return Err(usage(format!("more than {INCLUDES_MAX} times --include: include less")));
    }
    let include = |name: &String| {
        Ok(match thing(network, name)? {
            Thing::Node(node) => Include::Node(node),
            Thing::Links(links) | Thing::Risk(links) => Include::AnyOf(edges(&links)),
        })
    };
    let includes = args.include.iter().map(include).collect::<Result<_>>()?;
    let nanos = |most: Span| u64::try_from(most.get().as_nanos()).unwrap_or(u64::MAX);
    Ok(Constraints { includes, max_delay: args.max_delay.map(nanos) })
}

/// The edges that no path may take.
fn excluded(network: &Network, graph: &Graph, args: &PathArgs, ends: [NodeIndex; 2]) -> Result<BTreeSet<EdgeId>> {
    let mut excluded = BTreeSet::new();
    for name in &args.exclude {
        match thing(network, name)? {
            Thing::Node(node) if ends.contains(&node) => {
                return Err(usage(format!("--exclude {name}: the path begins or ends there, name another node")));
            }
            Thing::Node(node) => {
                let ends = |edge: &EdgeId| [graph.edge(*edge).from, graph.edge(*edge).to];
                excluded.extend((0..graph.edges().len()).filter(|edge| ends(edge).contains(&node)));
            }
            Thing::Links(links) | Thing::Risk(links) => excluded.extend(edges(&links)),
        }
    }
    Ok(excluded)
}

/// Both ways of links: edges 2 n and 2 n + 1 are those of link n.
fn edges(links: &[usize]) -> Vec<EdgeId> {
    links.iter().flat_map(|link| [2 * link, 2 * link + 1]).collect()
}

/// What was named: `NAME`, or where that is a node and a link, say, `node:NAME`, `link:NAME`, `risk:NAME`.
fn thing(network: &Network, written: &str) -> Result<Thing> {
    let (wanted, name) = written.split_once(':').map_or((None, written), |(kind, name)| (Some(kind), name));
    let things = network.things_named(name).map_err(|unknown| usage(unknown.to_string()))?;
    let kind = |thing: &Thing| match thing {
        Thing::Node(_) => "node",
        Thing::Links(_) => "link",
        Thing::Risk(_) => "risk",
    };
    let kinds: Vec<String> = things.iter().map(|thing| format!("{}:{name}", kind(thing))).collect();
    let mut meant: Vec<Thing> =
        things.into_iter().filter(|thing| wanted.is_none_or(|wanted| wanted == kind(thing))).collect();
    match meant.len() {
        1 => Ok(meant.remove(0)),
        _ => Err(usage(format!("`{written}` is not one thing: write {}", kinds.join(" or ")))),
    }
}

/// A number of a text, the same everywhere (FNV-1a, 64 bits).
fn key(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
