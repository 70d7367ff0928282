//! `plan volume`.

use std::num::NonZeroU64;

use anyhow::{Result, bail};
use plan::book::Part;
use plan::slots::Slots;
use plan::volume::{Ask, CANDIDATES, Volume};
use serde::Serialize;
use units::{Rate, Utc};

use super::booked::{SEARCH, ShownPart, Site, above_0, json};
use crate::args::plan::VolumeArgs;
use crate::exit::usage;
use crate::output::print;

/// One way to send it.
#[derive(Debug, Serialize)]
struct Way {
    finish: String,
    parts: Vec<ShownPart>,
}

/// The answer as `--json` prints it; `null` for what is not in time.
#[derive(Debug, Serialize)]
struct Answer {
    size_bytes: u64,
    /// The paths that `fixed_rate` and `variable_rate` chose among: the cheapest so many.
    candidates: usize,
    fixed_rate: Option<Way>,
    variable_rate: Option<Way>,
    over_paths: Option<Way>,
    /// Why it is not over all paths.
    no_split: Option<String>,
}

pub(super) fn run(args: &VolumeArgs) -> Result<()> {
    let site = Site::read(&args.bookings)?;
    let volume = Volume::of_bytes(args.size).ok_or_else(|| usage("--size of nothing: write more"))?;
    let most = args.rate.map_or(Ok(NonZeroU64::MAX), above_0)?;
    let ask = Ask { ends: site.ends(&args.way)?, volume, most, within: site.searched(args.until, SEARCH)? };
    let slots = Slots::of(site.book.view());
    let candidates = slots.candidates(ask.ends, CANDIDATES);
    let way = |finish: i64, parts: &[Part]| Way {
        finish: Utc(finish).to_string(),
        parts: parts.iter().map(|part| site.part(part)).collect(),
    };
    let split = slots.volume_over_paths(&ask);
    let fixed = slots.volume_at_fixed_rate(&ask, &candidates);
    let variable = slots.volume_at_variable_rate(&ask, &candidates);
    let answer = Answer {
        size_bytes: args.size.get(),
        candidates: candidates.len(),
        fixed_rate: fixed.map(|found| way(found.finish, &found.parts)),
        variable_rate: variable.map(|found| way(found.finish, &found.parts)),
        no_split: split.as_ref().err().map(ToString::to_string),
        over_paths: split.ok().map(|found| way(found.finish, &found.parts)),
    };
    if args.bookings.json {
        return print(json(&answer)?);
    }
    if answer.variable_rate.is_none() && answer.over_paths.is_none() {
        bail!("{} is not sent by {}, over all paths together", args.size, Utc(ask.within.end()));
    }
    print(text(&answer))
}

fn text(answer: &Answer) -> String {
    let rows = [
        ("at one rate", &answer.fixed_rate),
        ("at any rate", &answer.variable_rate),
        ("over all paths", &answer.over_paths),
    ];
    let mut text = String::new();
    for (what, way) in rows {
        let Some(way) = way else {
            text += &format!("{what:<15} not in time\n");
            continue;
        };
        text += &format!("{what:<15} finishes {}\n", way.finish);
        for part in &way.parts {
            let rate = Rate::from_bps(part.rate_bps);
            text += &format!("  {} to {} at {rate}\n{}", part.start, part.end, part.along.text("    "));
        }
    }
    text
}
