//! `plan explain`.

use anyhow::Result;
use plan::allot::{Held, Of, Outcome, Remedy};
use plan::share::ResourceId;
use serde::Serialize;

use super::{allot, enough, kind, named_class, percent, rate, read, resource_name, resource_names, some, tier};
use crate::action::plan::booked::json;
use crate::action::plan::table::{table, wrapped};
use crate::args::plan::ExplainArgs;
use crate::exit::usage;
use crate::output::{COLUMNS_MAX, print};

/// Who has a resource, in the table; `--json` has all.
const HOLDERS_MAX: usize = 20;

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Answer {
    flow: String,
    class: Option<String>,
    tier: u8,
    weight: u32,
    from: String,
    to: String,
    rate_bps: u64,
    /// What it would have alone.
    asks_bps: u64,
    paths: usize,
    /// `cap` if it has all that it asks for, `path` if it has none, else `full`.
    limit: &'static str,
    /// What is full at its level, on one of its paths.
    held_by: Vec<Full>,
    /// What would give it more, most first; each was tried.
    remedies: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Full {
    resource: String,
    /// On which of its paths, counted from 1.
    paths: Vec<usize>,
    kind: &'static str,
    capacity_bps: u64,
    holders: Vec<Holder>,
}

#[derive(Debug, Serialize)]
struct Holder {
    flow: String,
    class: Option<String>,
    tier: u8,
    weight: u32,
    rate_bps: u64,
}

#[derive(Debug, Serialize)]
struct Shown {
    /// What must be more, all of it.
    raise: Vec<Raise>,
    /// What the flow has then.
    rate_bps: u64,
    /// Full elsewhere: one of these, raised alone by as much, gives it as much.
    also: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Raise {
    /// A resource, or the cap of the flow.
    what: String,
    from_bps: u64,
    to_bps: u64,
    /// What the rate of the link must be for that; `null` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_rate_bps: Option<u64>,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<()> {
    let snapshot = read(&args.by)?;
    let flow = snapshot.shares.flow(&args.flow).map_err(|unknown| usage(unknown.to_string()))?;
    let outcome = allot(&snapshot, &args.by, false)?;
    let answer = answer(&outcome, flow);
    print(if args.by.json { json(&answer)? } else { text(&answer) })
}

fn answer(outcome: &Outcome<'_>, index: usize) -> Answer {
    let (shares, network) = (&outcome.snapshot.shares, &outcome.snapshot.network);
    let flow = &shares.flows[index];
    let reason = outcome.why(index);
    let (limit, paths) = match &reason.held {
        Held::HasAll => ("cap", &[][..]),
        Held::NoPath => ("path", &[][..]),
        Held::Back(paths) => ("full", &paths[..]),
    };
    let mut held_by: Vec<ResourceId> = Vec::new();
    paths.iter().flatten().for_each(|of| held_by.extend((!held_by.contains(of)).then_some(*of)));
    let on = |of: ResourceId| (1..=paths.len()).filter(|n| paths[n - 1].contains(&of)).collect();
    let remedy = |remedy: &Remedy| match remedy {
        Remedy::Raise { raise, rate, also } => Shown {
            raise: raise.iter().map(|(of, to)| raised(outcome, *of, *to)).collect(),
            rate_bps: *rate,
            also: resource_names(outcome, also),
        },
        Remedy::Cap { rate } => {
            let cap = Raise { what: "its cap".to_owned(), from_bps: reason.rate, to_bps: *rate, link_rate_bps: None };
            Shown { raise: vec![cap], rate_bps: *rate, also: Vec::new() }
        }
    };
    Answer {
        flow: flow.name.clone(),
        class: named_class(shares, flow.class),
        tier: shares.tier(flow),
        weight: flow.weight.get(),
        from: network.nodes[flow.from].name.clone(),
        to: network.nodes[flow.to].name.clone(),
        rate_bps: reason.rate,
        asks_bps: outcome.asks(index),
        paths: outcome.setup.paths[index].len(),
        limit,
        held_by: held_by.iter().map(|of| full(outcome, *of, on(*of))).collect(),
        remedies: reason.remedies.iter().map(remedy).collect(),
    }
}

fn full(outcome: &Outcome<'_>, resource: ResourceId, paths: Vec<usize>) -> Full {
    let shares = &outcome.snapshot.shares;
    let holder = |(flow, rate): (usize, u64)| {
        let flow = &shares.flows[flow];
        let (class, tier) = (named_class(shares, flow.class), shares.tier(flow));
        Holder { flow: flow.name.clone(), class, tier, weight: flow.weight.get(), rate_bps: rate }
    };
    let of = &outcome.setup.resources[resource as usize];
    let holders = outcome.holders(resource).into_iter().map(holder).collect();
    Full { resource: of.name.clone(), paths, kind: kind(of.of), capacity_bps: of.capacity, holders }
}

/// What a resource must have. Of a link its rate is said: that is what is bought.
fn raised(outcome: &Outcome<'_>, resource: ResourceId, to: u64) -> Raise {
    let of = &outcome.setup.resources[resource as usize];
    let what = resource_name(outcome, resource);
    let link_rate_bps = matches!(of.of, Of::Link(_)).then(|| outcome.rate_for(resource, to)).flatten();
    Raise { what, from_bps: of.capacity, to_bps: to, link_rate_bps }
}

/// For people.
fn text(answer: &Answer) -> String {
    let class = answer.class.as_ref().map(|class| format!("class {class}, ")).unwrap_or_default();
    let (place, weight) = (tier(answer.tier), answer.weight);
    let mut text = format!(
        "{}: {}\n  {} to {}, {class}tier {place}, weight {weight}; alone it would have {}\n",
        answer.flow,
        rate(answer.rate_bps),
        answer.from,
        answer.to,
        rate(answer.asks_bps)
    );
    text += match answer.limit {
        "cap" => "it has all that it asks for\n",
        "path" => "no path leads there: links are missing, or only hosts join them, which do not forward\n",
        _ => "",
    };
    for full in &answer.held_by {
        let paths: Vec<String> = full.paths.iter().map(ToString::to_string).collect();
        let paths = if answer.paths > 1 { format!(" on path {}", paths.join(", ")) } else { String::new() };
        text += &format!("held back{paths} by {}, full at {}\n", full.resource, rate(full.capacity_bps));
        text += &holders(full);
    }
    if answer.remedies.is_empty() {
        let none = if answer.limit == "full" { "no more of what is full on its way brings it anything\n" } else { "" };
        return text + none;
    }
    text + &remedies(&answer.remedies)
}

/// What must be how much, and what the flow has then.
fn remedies(remedies: &[Shown]) -> String {
    let mut rows = vec![["  it would have", "with", "from", "to", "link rate"].map(str::to_owned)];
    let mut notes = vec![String::new()];
    for remedy in remedies {
        for (n, raise) in remedy.raise.iter().enumerate() {
            let then = if n == 0 { format!("  {}", rate(remedy.rate_bps)) } else { "  and".to_owned() };
            let bought = raise.link_rate_bps.map(enough).unwrap_or_default();
            rows.push([then, raise.what.clone(), rate(raise.from_bps), enough(raise.to_bps), bought]);
            notes.push(String::new());
        }
        if let (Some(last), false) = (notes.last_mut(), remedy.also.is_empty()) {
            let also = format!("or with as much more of one of: {}", some(&remedy.also));
            *last = format!("{}\n", wrapped(also.split(' '), "    ", COLUMNS_MAX));
        }
    }
    let lines = table(&rows, [false, false, true, true, true]);
    let lines = lines.into_iter().zip(notes).map(|(line, note)| format!("{line}\n{note}"));
    "what would give it more\n".to_owned() + &lines.collect::<String>()
}

/// Who has something of a resource.
fn holders(full: &Full) -> String {
    let mut rows = vec![["  flow", "class", "tier", "weight", "rate", "of it"].map(str::to_owned)];
    for holder in full.holders.iter().take(HOLDERS_MAX) {
        rows.push([
            format!("  {}", holder.flow),
            holder.class.clone().unwrap_or_default(),
            tier(holder.tier),
            holder.weight.to_string(),
            rate(holder.rate_bps),
            percent(holder.rate_bps, full.capacity_bps),
        ]);
    }
    let mut text: String =
        table(&rows, [false, false, true, true, true, true]).into_iter().map(|line| line + "\n").collect();
    let more = full.holders.len().saturating_sub(HOLDERS_MAX);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}
