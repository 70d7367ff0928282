//! What is in force, as `--json` printed it, and the steps from there.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use anyhow::Result;
use plan::allot::{Last, LastPath, Outcome, Steps};
use plan::difference::Step;
use plan::graph::EdgeId;
use plan::objective::{Objective, Term};
use serde::{Deserialize, Serialize};

use crate::action::plan::booked::Along;
use crate::action::plan::shares::{change, rate};
use crate::action::plan::table::table;
use crate::exit::usage;

/// Paths that a file may have.
const PATHS_MAX: usize = 1 << 22;

/// What is read of it.
#[derive(Debug, Deserialize)]
struct File {
    flows: Vec<Flow>,
}

#[derive(Debug, Deserialize)]
struct Flow {
    name: String,
    class: Option<String>,
    paths: Vec<Path>,
}

#[derive(Debug, Deserialize)]
struct Path {
    rate_bps: u64,
    then_bps: Option<u64>,
    nodes: Vec<String>,
    links: Vec<String>,
}

/// The steps as `--json` prints them.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    decreases: Vec<Changed>,
    increases: Vec<Changed>,
    left_out: Vec<Kept>,
}

#[derive(Debug, Serialize)]
struct Changed {
    #[serde(flatten)]
    path: Kept,
    from_bps: u64,
    to_bps: u64,
    /// The decreases that must have been made: places in that list, from 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct Kept {
    flow: String,
    #[serde(flatten)]
    along: Along,
}

/// What an allocation is worth, in points: the less the better.
#[derive(Debug, Serialize)]
pub(super) struct Worth {
    sum: f64,
    completion: f64,
    changes: f64,
    cost: f64,
    risk: f64,
}

/// What is in force, by the paths of the network. Paths over links that are not there any more carry nothing.
pub(super) fn read(file: &FilePath, outcome: &Outcome<'_>) -> Result<BTreeMap<LastPath, Last>> {
    let text = crate::action::plan::read(file)?;
    let wrong = |what: String| usage(format!("{}: {what}: give what `plan share --json` printed", file.display()));
    let known: File = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if known.flows.iter().map(|flow| flow.paths.len()).sum::<usize>() > PATHS_MAX {
        return Err(wrong(format!("more than {PATHS_MAX} paths")));
    }
    let graph = &outcome.setup.graph;
    let edges: BTreeMap<&str, EdgeId> =
        graph.edges().iter().enumerate().map(|(id, of)| (of.name.as_str(), id)).collect();
    let shares = &outcome.snapshot.shares;
    let classes: BTreeMap<&str, usize> =
        shares.classes.iter().enumerate().map(|(index, class)| (class.name.as_str(), index)).collect();
    let mut last = BTreeMap::new();
    for flow in known.flows {
        let class = flow.class.as_deref().and_then(|class| classes.get(class).copied());
        for path in flow.paths {
            if path.nodes.len() != path.links.len() + 1 {
                return Err(wrong(format!("flow `{}`: a path has not one node more than links", flow.name)));
            }
            let ends = path.nodes.windows(2);
            let names = path.links.iter().zip(ends).map(|(link, ends)| format!("{link} {}→{}", ends[0], ends[1]));
            let Some(along) = names.map(|name| edges.get(name.as_str()).copied()).collect::<Option<Vec<EdgeId>>>()
            else {
                continue;
            };
            let rate = path.then_bps.unwrap_or(path.rate_bps);
            let of = LastPath { flow: flow.name.clone(), edges: along };
            if rate > 0 && last.insert(of, Last { rate, class }).is_some() {
                return Err(wrong(format!("flow `{}`: a path is there twice", flow.name)));
            }
        }
    }
    Ok(last)
}

fn kept(outcome: &Outcome<'_>, path: &LastPath) -> Kept {
    let along = Along::of(&outcome.snapshot.network, &outcome.setup.graph, &path.edges);
    Kept { flow: path.flow.clone(), along }
}

pub(super) fn difference(outcome: &Outcome<'_>, steps: &Steps) -> Difference {
    let changed = |step: &Step<LastPath>| Changed {
        path: kept(outcome, &step.key),
        from_bps: step.from,
        to_bps: step.to,
        after: step.after.clone(),
    };
    Difference {
        decreases: steps.difference.decreases.iter().map(changed).collect(),
        increases: steps.difference.increases.iter().map(changed).collect(),
        left_out: steps.difference.left_out.iter().map(|path| kept(outcome, path)).collect(),
    }
}

pub(super) fn worth(objective: &Objective) -> Worth {
    let points = |millionths: u128| millionths as f64 / 1e6;
    let term = |term: Term| points(objective.term(term));
    Worth {
        sum: points(objective.sum()),
        completion: term(Term::Completion),
        changes: term(Term::Changes),
        cost: term(Term::Cost),
        risk: term(Term::Risk),
    }
}

/// For people: the steps in their order, numbered, and what each waits for.
pub(super) fn text(outcome: &Outcome<'_>, steps: &Steps) -> String {
    let of = &steps.difference;
    let mut rows = vec![["step", "flow", "path", "from", "to", "change", "after"].map(str::to_owned)];
    for (n, step) in of.decreases.iter().chain(&of.increases).enumerate() {
        let after: Vec<String> = step.after.iter().map(|at| (at + 1).to_string()).collect();
        let path = place(outcome, &step.key).map_or_else(|| "gone".to_owned(), |place| place.to_string());
        let (from, to) = (rate(step.from), rate(step.to));
        let flow = step.key.flow.clone();
        rows.push([(n + 1).to_string(), flow, path, from, to, change(step.from, step.to), after.join(", ")]);
    }
    let mut text = String::new();
    if rows.len() > 1 {
        let lines = table(&rows, [true, false, true, true, true, true, false]);
        text.extend(lines.into_iter().map(|line| line + "\n"));
    }
    match (rows.len() - 1, of.left_out.len()) {
        (0, 0) => text + "what is in force stays\n",
        (_, 0) => text,
        (_, 1) => text + "1 small change is left out\n",
        (_, small) => text + &format!("{small} small changes are left out\n"),
    }
}

/// Which of its flow's paths it is, counted from 1; `None` if it is none any more.
fn place(outcome: &Outcome<'_>, path: &LastPath) -> Option<usize> {
    let flow = outcome.snapshot.shares.flow(&path.flow).ok()?;
    outcome.setup.paths[flow].iter().position(|of| of.edges == path.edges).map(|at| at + 1)
}
