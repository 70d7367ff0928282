//! `plan share`.

mod last;

use std::path::Path as FilePath;

use anyhow::{Context, Result};
use model::shares::Shares;
use plan::allot::{Held, LastPath, Of, Outcome, Part, Steps};
use plan::difference::Hysteresis;
use plan::objective::Objective;
use plan::usage::FACTOR_ONE;
use serde::Serialize;
use units::Span;

use super::{allot, class_of, kind, named_class, percent, rate, read, resource_names, some, svg, tier};
use crate::action::plan::booked::{Along, json};
use crate::action::plan::table::{table, wrapped};
use crate::args::plan::ShareArgs;
use crate::output::{COLUMNS_MAX, print};

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Answer {
    /// Whether it was checked from the definition.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    certified: bool,
    total_bps: u64,
    flows: Vec<ShownFlow>,
    classes: Vec<ShownClass>,
    resources: Vec<ShownResource>,
    objective: last::Worth,
    /// From what is in force, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<last::Difference>,
}

#[derive(Debug, Serialize)]
struct ShownFlow {
    name: String,
    class: Option<String>,
    tier: u8,
    weight: u32,
    /// How many times as much it weighs as it is urgent.
    urgent_factor: u32,
    from: String,
    to: String,
    /// What it would have alone.
    asks_bps: u64,
    rate_bps: u64,
    /// `cap` if it has all that it asks for, `path` if it has none, else `full`: what is full on each path is in `held_by`.
    limit: &'static str,
    /// At this rate; `null` if nobody says how much is left, or it has none.
    done_in_s: Option<u64>,
    paths: Vec<ShownPath>,
}

#[derive(Debug, Serialize)]
struct ShownPath {
    rate_bps: u64,
    /// After the steps of the difference: a small change is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    then_bps: Option<u64>,
    held_by: Vec<String>,
    #[serde(flatten)]
    along: Along,
}

#[derive(Debug, Serialize)]
struct ShownClass {
    name: String,
    parent: Option<String>,
    tier: u8,
    weight: u32,
    /// What its weight is multiplied by for what it used of late.
    usage_factor: f64,
    asks_bps: u64,
    /// What its weight gives it of what it has together with those beside it.
    due_bps: u64,
    rate_bps: u64,
}

#[derive(Debug, Serialize)]
struct ShownResource {
    name: String,
    kind: &'static str,
    /// Of the link, or of all that a mark is on; `null` without one.
    rate_bps: Option<u64>,
    /// How far it may be filled.
    capacity_bps: u64,
    used_bps: u64,
    full: bool,
    classes: Vec<Has>,
}

/// What a class has of a resource, `null` for flows without one.
#[derive(Debug, Serialize)]
struct Has {
    class: Option<String>,
    rate_bps: u64,
}

pub(crate) fn run(args: &ShareArgs) -> Result<()> {
    let snapshot = read(&args.by)?;
    let outcome = allot(&snapshot, &args.by, args.check)?;
    if let Some(file) = &args.svg {
        let drawn = svg::draw(&outcome);
        if file == FilePath::new("-") {
            return print(drawn);
        }
        std::fs::write(file, drawn).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let last = args.last.as_ref().map(|file| last::read(file, &outcome)).transpose()?;
    let steps = last.as_ref().map(|last| outcome.steps(last, Hysteresis::default()));
    let objective = outcome.objective(last.as_ref());
    let found = Found { outcome: &outcome, steps, objective, certified: args.check };
    print(if args.by.json { json(&answer(&found))? } else { text(&found) })
}

/// What there is to say.
struct Found<'a> {
    outcome: &'a Outcome<'a>,
    /// From what is in force, if that was said.
    steps: Option<Steps>,
    objective: Objective,
    /// Whether it was checked because somebody asked for it.
    certified: bool,
}

fn answer(found: &Found<'_>) -> Answer {
    let Found { outcome, steps, objective, certified } = found;
    let shares = &outcome.snapshot.shares;
    let class = |(index, (class, part)): (usize, (&model::shares::Class, Part))| ShownClass {
        name: class.name.clone(),
        parent: named_class(shares, class.parent),
        tier: class.tier,
        weight: class.weight.get(),
        usage_factor: factor(outcome.setup.usage_factor(index)),
        asks_bps: part.asks,
        due_bps: part.due,
        rate_bps: part.has,
    };
    let resource = |(index, resource): (usize, &plan::allot::Resource)| {
        let used = outcome.used(index as u32);
        let has = |(class, rate): &(Option<usize>, u64)| Has { class: named_class(shares, *class), rate_bps: *rate };
        ShownResource {
            name: resource.name.clone(),
            kind: kind(resource.of),
            rate_bps: resource.rate,
            capacity_bps: resource.capacity,
            used_bps: used.used,
            full: used.is_full,
            classes: used.by_class.iter().map(has).collect(),
        }
    };
    Answer {
        certified: *certified,
        total_bps: outcome.total(),
        flows: (0..shares.flows.len()).map(|flow| shown_flow(outcome, steps.as_ref(), flow)).collect(),
        classes: shares.classes.iter().zip(outcome.classes()).enumerate().map(class).collect(),
        resources: outcome.setup.resources.iter().enumerate().map(resource).collect(),
        objective: last::worth(objective),
        difference: steps.as_ref().map(|steps| last::difference(outcome, steps)),
    }
}

fn shown_flow(outcome: &Outcome<'_>, steps: Option<&Steps>, index: usize) -> ShownFlow {
    let (shares, network) = (&outcome.snapshot.shares, &outcome.snapshot.network);
    let flow = &shares.flows[index];
    let (limit, held) = match outcome.held(index) {
        Held::HasAll => ("cap", Vec::new()),
        Held::NoPath => ("path", Vec::new()),
        Held::Back(paths) => ("full", paths),
    };
    let path = |(at, path): (usize, &plan::paths::Path)| ShownPath {
        rate_bps: outcome.rates(index)[at],
        then_bps: steps.and_then(|steps| {
            steps.then.get(&LastPath { flow: flow.name.clone(), edges: path.edges.clone() }).copied()
        }),
        held_by: held.get(at).map(|by| resource_names(outcome, by)).unwrap_or_default(),
        along: Along::of(network, &outcome.setup.graph, &path.edges),
    };
    ShownFlow {
        name: flow.name.clone(),
        class: named_class(shares, flow.class),
        tier: shares.tier(flow),
        weight: flow.weight.get(),
        urgent_factor: outcome.setup.urgent_factor(index),
        from: network.nodes[flow.from].name.clone(),
        to: network.nodes[flow.to].name.clone(),
        asks_bps: outcome.asks(index),
        rate_bps: outcome.rate(index),
        limit,
        done_in_s: done_in(outcome, index),
        paths: outcome.setup.paths[index].iter().enumerate().map(path).collect(),
    }
}

fn factor(of: u32) -> f64 {
    f64::from(of) / f64::from(FACTOR_ONE)
}

/// In how many seconds what is left of a flow is sent at its rate.
fn done_in(outcome: &Outcome<'_>, flow: usize) -> Option<u64> {
    let bits = u128::from(outcome.snapshot.shares.flows[flow].bytes?.get()) * 8;
    u64::try_from(bits.div_ceil(Some(u128::from(outcome.rate(flow))).filter(|rate| *rate > 0)?)).ok()
}

/// For people.
fn text(found: &Found<'_>) -> String {
    let outcome = found.outcome;
    let mut text = flows(outcome) + "\n";
    if !outcome.snapshot.shares.classes.is_empty() {
        text += &(classes(outcome) + "\n");
    }
    text += &resources(outcome);
    if let Some(steps) = &found.steps {
        text += &format!("\n{}", last::text(outcome, steps));
    }
    text += &format!("\nall flows together {}\n", rate(outcome.total()));
    text += &format!("{}\n", wrapped(format!("objective {}", found.objective).split(' '), "", COLUMNS_MAX));
    if found.certified {
        text +=
            "checked from the definition: nothing is overfull, and no flow could have more from one that has more\n";
    }
    text
}

fn flows(outcome: &Outcome<'_>) -> String {
    let shares = &outcome.snapshot.shares;
    let mut rows = vec![["flow", "class", "weight", "rate", "done in", "held back by"].map(str::to_owned)];
    // After each row the path that it is about.
    let mut paths: Vec<String> = vec![String::new()];
    for (index, flow) in shares.flows.iter().enumerate() {
        let shown = shown_flow(outcome, None, index);
        let done = shown.done_in_s.map(|seconds| Span::new(std::time::Duration::from_secs(seconds)).to_string());
        let held = match (shown.limit, &shown.paths[..]) {
            ("cap", _) => "its cap".to_owned(),
            ("path", _) => "no path leads there".to_owned(),
            (_, [only]) => some(&only.held_by),
            _ => String::new(),
        };
        let weight = match shown.urgent_factor {
            1 => flow.weight.to_string(),
            urgent => format!("{} × {urgent}", flow.weight),
        };
        let class = class_of(shares, flow.class).to_owned();
        rows.push([flow.name.clone(), class, weight, rate(shown.rate_bps), done.unwrap_or_default(), held]);
        let by = |path: &ShownPath| {
            let words = std::iter::once("by").chain(path.along.links.iter().map(String::as_str));
            format!("{}\n", wrapped(words, "    ", COLUMNS_MAX))
        };
        if let [only] = &shown.paths[..] {
            paths.push(by(only));
            continue;
        }
        paths.push(String::new());
        for (n, path) in shown.paths.iter().enumerate() {
            let (blank, name) = (String::new(), format!("  path {}", n + 1));
            rows.push([name, blank.clone(), blank.clone(), rate(path.rate_bps), blank, some(&path.held_by)]);
            paths.push(by(path));
        }
    }
    let lines = table(&rows, [false, false, true, true, true, false]);
    lines.into_iter().zip(paths).map(|(line, path)| format!("{line}\n{path}")).collect()
}

fn classes(outcome: &Outcome<'_>) -> String {
    let shares = &outcome.snapshot.shares;
    let parts = outcome.classes();
    let mut rows = vec![["class", "tier", "weight", "asks for", "due", "has"].map(str::to_owned)];
    for index in in_tree(shares) {
        let (class, part) = (&shares.classes[index], parts[index]);
        let above = shares.up(class.parent).count();
        let name = format!("{:1$}{2}", "", 2 * above, class.name);
        let weight = match outcome.setup.usage_factor(index) {
            FACTOR_ONE => class.weight.to_string(),
            of => format!("{} × {:.2}", class.weight, factor(of)),
        };
        let tier = tier(class.tier);
        rows.push([name, tier, weight, rate(part.asks), rate(part.due), rate(part.has)]);
    }
    let lines = table(&rows, [false, true, true, true, true, true]);
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Each class after the one that it is in, tier by tier.
fn in_tree(shares: &Shares) -> Vec<usize> {
    let place = |class: usize| {
        let mut branch: Vec<usize> = shares.up(Some(class)).collect();
        branch.reverse();
        branch
    };
    let mut all: Vec<usize> = (0..shares.classes.len()).collect();
    all.sort_by_cached_key(|class| (shares.classes[*class].tier, place(*class)));
    all
}

fn resources(outcome: &Outcome<'_>) -> String {
    let mut rows = vec![["link or mark", "rate", "up to", "used", "of that", ""].map(str::to_owned)];
    for (index, resource) in outcome.setup.resources.iter().enumerate() {
        let used = outcome.used(index as u32);
        // A link that nobody uses says nothing; a mark was set on purpose.
        if used.used == 0 && matches!(resource.of, Of::Link(_)) && !used.is_full {
            continue;
        }
        let full = if used.is_full { "full" } else { "" };
        rows.push([
            resource.name.clone(),
            resource.rate.map(rate).unwrap_or_default(),
            rate(resource.capacity),
            rate(used.used),
            percent(used.used, resource.capacity),
            full.to_owned(),
        ]);
    }
    let lines = table(&rows, [false, true, true, true, true, false]);
    lines.into_iter().map(|line| line + "\n").collect()
}
