//! `plan bottlenecks`.

use anyhow::Result;
use plan::allot::{Gradient, Outcome, Stopped, TRIED_MAX};
use plan::share::ResourceId;
use serde::Serialize;

use super::{allot, change, enough, named_class, rate, read, resource_name, tier};
use crate::action::plan::booked::json;
use crate::action::plan::table::{table, wrapped};
use crate::args::plan::BottlenecksArgs;
use crate::output::{COLUMNS_MAX, print};

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Answer {
    levels: Vec<Level>,
    upgrades: Vec<Better>,
}

/// A resource that is full, in the order in which they were.
#[derive(Debug, Serialize)]
struct Level {
    resource: String,
    tier: u8,
    /// What a flow or class of weight 1 without a parent has there.
    level_bps: u64,
    capacity_bps: u64,
    /// What all flows gain by a b/s more of it, and lose by a b/s less; `null` for those after the first 64.
    gain_per_bps: Option<f64>,
    loss_per_bps: Option<f64>,
    flows: Vec<Flow>,
}

#[derive(Debug, Serialize)]
struct Flow {
    name: String,
    class: Option<String>,
    rate_bps: u64,
}

#[derive(Debug, Serialize)]
struct Better {
    resource: String,
    gain_per_bps: f64,
    from_bps: u64,
    to_bps: u64,
    gain_bps: i64,
}

pub(crate) fn run(args: &BottlenecksArgs) -> Result<()> {
    let snapshot = read(&args.by)?;
    let outcome = allot(&snapshot, &args.by, false)?;
    let answer = answer(&outcome);
    print(if args.by.json { json(&answer)? } else { text(&answer, usize::from(args.top)) })
}

fn answer(outcome: &Outcome<'_>) -> Answer {
    let levels = outcome.levels();
    let tried: Vec<ResourceId> = levels.iter().take(TRIED_MAX).map(|stopped| stopped.resource).collect();
    let mut gradients = outcome.gradients(&tried).into_iter();
    let upgrade = |upgrade: plan::allot::Upgrade| Better {
        resource: resource_name(outcome, upgrade.resource),
        gain_per_bps: upgrade.gradient,
        from_bps: upgrade.from,
        to_bps: upgrade.to,
        gain_bps: i64::try_from(upgrade.gain).unwrap_or(i64::MAX),
    };
    Answer {
        levels: levels.iter().map(|stopped| level(outcome, stopped, gradients.next())).collect(),
        upgrades: outcome.upgrades().into_iter().map(upgrade).collect(),
    }
}

fn level(outcome: &Outcome<'_>, stopped: &Stopped, gradient: Option<Gradient>) -> Level {
    let shares = &outcome.snapshot.shares;
    let flow = |(flow, rate): &(usize, u64)| {
        let of = &shares.flows[*flow];
        Flow { name: of.name.clone(), class: named_class(shares, of.class), rate_bps: *rate }
    };
    Level {
        resource: resource_name(outcome, stopped.resource),
        tier: stopped.tier,
        level_bps: stopped.level,
        capacity_bps: outcome.setup.resources[stopped.resource as usize].capacity,
        gain_per_bps: gradient.map(|gradient| gradient.more),
        loss_per_bps: gradient.map(|gradient| gradient.less),
        flows: stopped.flows.iter().map(flow).collect(),
    }
}

/// For people.
fn text(answer: &Answer, top: usize) -> String {
    if answer.levels.is_empty() {
        return "nothing holds a flow back\n".to_owned();
    }
    let mut rows = vec![["tier", "full at", "bottleneck", "flows", "gain", "loss"].map(str::to_owned)];
    let per_bps = |gradient: Option<f64>| gradient.map(|gradient| format!("{gradient:.3}")).unwrap_or_default();
    for level in &answer.levels {
        let (gain, loss) = (per_bps(level.gain_per_bps), per_bps(level.loss_per_bps));
        let (level_bps, flows) = (rate(level.level_bps), level.flows.len().to_string());
        rows.push([tier(level.tier), level_bps, level.resource.clone(), flows, gain, loss]);
    }
    let lines = table(&rows, [true, true, false, true, true, true]);
    let flows = std::iter::once(String::new()).chain(answer.levels.iter().map(|level| flows(level, top)));
    let mut text: String = lines.into_iter().zip(flows).map(|(line, flows)| format!("{line}\n{flows}")).collect();
    let notes = "full at: the rate of what has weight 1 and no parent; gain, loss: what all flows together gain by 1 b/s more, lose by 1 b/s less";
    text += &format!("{}\n", wrapped(notes.split(' '), "", COLUMNS_MAX));
    if answer.upgrades.is_empty() {
        return text + "\nmore of one of them alone brings nothing\n";
    }
    let mut rows = vec![["", "more of", "from", "to", "all gain", "gain"].map(str::to_owned)];
    for (n, better) in answer.upgrades.iter().enumerate().take(top) {
        let gained = change(0, better.gain_bps.unsigned_abs());
        let (from, to) = (rate(better.from_bps), enough(better.to_bps));
        let per_bps = format!("{:.3}", better.gain_per_bps);
        rows.push([(n + 1).to_string(), better.resource.clone(), from, to, gained, per_bps]);
    }
    text.push('\n');
    text.extend(table(&rows, [true, false, true, true, true, true]).into_iter().map(|line| line + "\n"));
    match answer.upgrades.len().saturating_sub(top) {
        0 => text,
        more => text + &format!("{more} more with --top {}\n", answer.upgrades.len()),
    }
}

/// Whom a bottleneck holds back.
fn flows(level: &Level, top: usize) -> String {
    let shown = level.flows.iter().take(top).map(|flow| format!("{} {},", flow.name, rate(flow.rate_bps)));
    let more = level.flows.len().saturating_sub(top);
    let more = (more > 0).then(|| format!("{more} more,"));
    let mut all = shown.chain(more).collect::<Vec<_>>().join(" ");
    all.pop();
    format!("{}\n", wrapped(all.split(' '), "      ", COLUMNS_MAX))
}
