//! Questions about shares: who gets what rate now, what holds it back, and what would change it.

mod bottlenecks;
mod explain;
mod share;
mod svg;
mod whatif;

use std::path::Path as FilePath;

use anyhow::{Result, anyhow};
use model::shares::{Shares, TIER_SCAVENGER};
use plan::allot::{Of, Outcome, Snapshot};
use plan::share::ResourceId;
use units::Rate;

pub(super) use bottlenecks::run as bottlenecks;
pub(super) use explain::run as explain;
pub(super) use share::run as share;
pub(super) use whatif::run as whatif;

use crate::action::network;
use crate::args::plan::SharedBy;
use crate::exit::usage;

/// Digits of a rate that is rounded up.
const DIGITS: u32 = 4;

/// How many names of resources stand in a row of a table; `--json` has all.
const NAMED_MAX: usize = 2;

/// The network and who shares it.
fn read(by: &SharedBy) -> Result<Snapshot> {
    let network = network::read(&by.topology, FilePath::new(""))?;
    let text = super::read(&by.shares)?;
    let shares = Shares::from_toml(&text, &by.shares.to_string_lossy(), &network);
    Ok(Snapshot::new(network, shares.map_err(|error| usage(error.to_string()))?))
}

/// Divides it, and if it is to `check`, looks whether the result is fair by definition; debug builds do so with all results.
fn allot<'a>(snapshot: &'a Snapshot, by: &SharedBy, check: bool) -> Result<Outcome<'a>> {
    let file = by.shares.display();
    let outcome = snapshot.allot().map_err(|error| usage(format!("{file}: {error}")))?;
    if check {
        let checked = outcome.check();
        checked.map_err(|broken| anyhow!("{file}: the result fails its check: {broken}; please report it"))?;
    }
    Ok(outcome)
}

/// What a flow is in, for people.
fn class_of(shares: &Shares, class: Option<usize>) -> &str {
    class.map_or("", |class| shares.classes[class].name.as_str())
}

/// The same for `--json`: `null` if it is in none.
fn named_class(shares: &Shares, class: Option<usize>) -> Option<String> {
    class.map(|class| shares.classes[class].name.clone())
}

fn tier(tier: u8) -> String {
    if tier == TIER_SCAVENGER { "scavenger".to_owned() } else { tier.to_string() }
}

fn resource_name(outcome: &Outcome<'_>, resource: ResourceId) -> String {
    outcome.setup.resources[resource as usize].name.clone()
}

fn resource_names(outcome: &Outcome<'_>, resources: &[ResourceId]) -> Vec<String> {
    resources.iter().map(|of| resource_name(outcome, *of)).collect()
}

fn kind(of: Of) -> &'static str {
    match of {
        Of::Link(_) => "link",
        Of::Mark(..) => "mark",
        Of::Class(_) => "class",
        Of::Beside(_) => "resource",
        Of::Flow(_) => "flow",
    }
}

/// Names, the first of them.
fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let text = names[..names.len() - more].join(", ");
    if more > 0 { format!("{text}, {more} more") } else { text }
}

/// A rate to four digits.
fn rate(bps: u64) -> String {
    Rate::from_bps(bps).to_string()
}

/// The same rounded up: with so much there is as much as said.
fn enough(bps: u64) -> String {
    let step = 10_u64.pow(bps.max(1).ilog10().saturating_sub(DIGITS - 1));
    rate(bps.div_ceil(step).saturating_mul(step))
}

/// How much something changes, with its sign.
fn change(before: u64, after: u64) -> String {
    let sign = if after < before { "−" } else { "+" };
    format!("{sign}{}", rate(before.abs_diff(after)))
}

/// How full something is; blank if there is nothing of it.
fn percent(used: u64, of: u64) -> String {
    if of == 0 { String::new() } else { format!("{:.1} %", used as f64 / of as f64 * 100.0) }
}

#[test]
fn what_is_enough_is_not_less() {
    assert_eq!(enough(0), "0 b/s");
    assert_eq!(enough(9999), "9.999 kb/s");
    assert_eq!(enough(99_991), "100 kb/s");
    assert_eq!(enough(533_333_333_334), "533.4 Gb/s");
    assert_eq!(enough(400_000_000_000), "400 Gb/s");
    assert_eq!([change(3, 1), change(1, 3)], ["−2 b/s", "+2 b/s"]);
    assert_eq!([percent(1, 0), percent(2, 3)], ["", "66.7 %"]);
}
