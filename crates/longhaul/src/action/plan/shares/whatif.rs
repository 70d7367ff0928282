//! `plan whatif`.

use std::collections::BTreeMap;

use anyhow::Result;
use plan::allot::{Changed, Effect, Held, Of, Outcome, Resource, Snapshot, changed};
use serde::Serialize;

use super::{allot, change, class_of, kind, named_class, percent, rate, read};
use crate::action::plan::booked::json;
use crate::action::plan::table::table;
use crate::args::plan::WhatifArgs;
use crate::exit::usage;
use crate::output::print;

/// Changes below this, in b/s, are not printed: rates are whole numbers, and so move by some b/s.
const NOISE: u64 = 1000;

/// The answer as `--json` prints it: what changes, the largest change first.
#[derive(Debug, Serialize)]
struct Answer {
    total_before_bps: u64,
    total_after_bps: u64,
    flows: Vec<Flow>,
    resources: Vec<Used>,
}

#[derive(Debug, Serialize)]
struct Flow {
    name: String,
    class: Option<String>,
    before_bps: u64,
    after_bps: u64,
    /// Whether a path is left.
    has_path: bool,
}

#[derive(Debug, Serialize)]
struct Used {
    name: String,
    kind: &'static str,
    before_bps: u64,
    after_bps: u64,
    /// How far it may be filled afterwards; `null` if it is gone.
    capacity_bps: Option<u64>,
    full: bool,
    cut: bool,
}

pub(crate) fn run(args: &WhatifArgs) -> Result<()> {
    let snapshot = read(&args.by)?;
    let before = allot(&snapshot, &args.by, false)?;
    let other = snapshot.with(&effects(args, &snapshot)?);
    let after = allot(&other, &args.by, false)?;
    let answer = answer(&before, &after);
    print(if args.by.json { json(&answer)? } else { text(&answer, &snapshot) })
}

/// What is to be otherwise: no thing twice.
fn effects(args: &WhatifArgs, snapshot: &Snapshot) -> Result<Vec<Effect>> {
    let links = |name: &str| snapshot.network.links_named(name).map_err(|unknown| usage(unknown.to_string()));
    let mut effects = Vec::new();
    let mut changed = BTreeMap::new();
    let mut once = |option: &'static str, link: usize| match changed.insert(link, option) {
        Some(_) => {
            let name = &snapshot.network.links[link].name;
            Err(usage(format!("{option} {name}: something else is said of it already, leave one of them out")))
        }
        None => Ok(()),
    };
    for name in &args.cut {
        let cut = links(name)?;
        cut.iter().try_for_each(|link| once("--cut", *link))?;
        effects.push(Effect::Cut(cut));
    }
    for upgrade in &args.upgrade {
        if upgrade.rate.is_zero() {
            return Err(usage(format!("--upgrade {0}=0b/s: write more, or --cut {0}", upgrade.link)));
        }
        let upgraded = links(&upgrade.link)?;
        upgraded.iter().try_for_each(|link| once("--upgrade", *link))?;
        effects.push(Effect::Upgrade(upgraded, upgrade.rate));
    }
    let mut shaped = Vec::new();
    for shape in &args.shape {
        let flow = snapshot.shares.flow(&shape.flow).map_err(|unknown| usage(unknown.to_string()))?;
        if shaped.contains(&flow) {
            return Err(usage(format!("--shape {}: it is said twice, leave one of them out", shape.flow)));
        }
        shaped.push(flow);
        effects.push(Effect::Shape(flow, shape.rate));
    }
    Ok(effects)
}

fn answer(before: &Outcome<'_>, after: &Outcome<'_>) -> Answer {
    let shares = &before.snapshot.shares;
    let (flows, resources) = changed(before, after);
    let flow = |changed: &Changed<usize>| {
        let flow = &shares.flows[changed.of];
        Flow {
            name: flow.name.clone(),
            class: named_class(shares, flow.class),
            before_bps: changed.before,
            after_bps: changed.after,
            has_path: after.held(changed.of) != Held::NoPath,
        }
    };
    let by_kind = |outcome: &Outcome<'_>| -> BTreeMap<Of, (usize, Resource)> {
        let all = outcome.setup.resources.iter().cloned().enumerate();
        all.map(|(index, resource)| (resource.of, (index, resource))).collect()
    };
    let (was, is) = (by_kind(before), by_kind(after));
    let used = |changed: &Changed<Of>| {
        let then = is.get(&changed.of);
        let (_, resource) = then.or(was.get(&changed.of))?;
        Some(Used {
            name: resource.name.clone(),
            kind: kind(changed.of),
            before_bps: changed.before,
            after_bps: changed.after,
            capacity_bps: then.map(|(_, resource)| resource.capacity),
            full: then.is_some_and(|(index, _)| after.is_full(*index as u32)),
            cut: matches!(changed.of, Of::Link(edge) if after.snapshot.down.contains(&(edge / 2))),
        })
    };
    Answer {
        total_before_bps: before.total(),
        total_after_bps: after.total(),
        flows: flows.iter().map(flow).collect(),
        resources: resources.iter().filter_map(used).collect(),
    }
}

/// For people.
fn text(answer: &Answer, snapshot: &Snapshot) -> String {
    let (before, after) = (answer.total_before_bps, answer.total_after_bps);
    let is_noise = |before: u64, after: u64| before.abs_diff(after) < NOISE;
    let flows: Vec<&Flow> =
        answer.flows.iter().filter(|of| !of.has_path || !is_noise(of.before_bps, of.after_bps)).collect();
    let resources: Vec<&Used> =
        answer.resources.iter().filter(|of| of.cut || !is_noise(of.before_bps, of.after_bps)).collect();
    if flows.is_empty() && resources.is_empty() {
        return format!("nothing changes: all flows together {}\n", rate(before));
    }
    let shares = &snapshot.shares;
    let mut rows = vec![["flow", "class", "before", "after", "change", ""].map(str::to_owned)];
    for flow in flows {
        let class = shares.flow(&flow.name).map(|of| class_of(shares, shares.flows[of].class)).unwrap_or_default();
        let (before, after) = (flow.before_bps, flow.after_bps);
        let note = if flow.has_path { "" } else { "no path is left" };
        let [was, is] = [before, after].map(rate);
        rows.push([flow.name.clone(), class.to_owned(), was, is, change(before, after), note.to_owned()]);
    }
    let [was, is] = [before, after].map(rate);
    rows.push(["all".to_owned(), String::new(), was, is, change(before, after), String::new()]);
    let mut text: String =
        table(&rows, [false, false, true, true, true, false]).into_iter().map(|line| line + "\n").collect();
    let mut rows = vec![["link or mark", "before", "after", "change", "of it", ""].map(str::to_owned)];
    for used in resources {
        let (before, after) = (used.before_bps, used.after_bps);
        let [was, is] = [before, after].map(rate);
        let filled = used.capacity_bps.map(|capacity| percent(after, capacity)).unwrap_or_default();
        let (filled, note) = match (used.cut, used.full) {
            (true, _) => (String::new(), "cut"),
            (_, is_full) => (filled, if is_full { "full" } else { "" }),
        };
        rows.push([used.name.clone(), was, is, change(before, after), filled, note.to_owned()]);
    }
    text.push('\n');
    text.extend(table(&rows, [false, true, true, true, true, false]).into_iter().map(|line| line + "\n"));
    text
}
