//! `plan slots` and `plan highest`.

use anyhow::{Result, bail};
use plan::slots::Slots;
use serde::Serialize;
use units::{Rate, Span, Utc};

use super::booked::{Along, SEARCH, Site, above_0, json, lasting, nanos};
use crate::args::plan::{HighestArgs, SlotsArgs};
use crate::output::print;

/// Moments from which on it fits, from the first to the last.
#[derive(Debug, Serialize)]
struct Between {
    first: String,
    last: String,
}

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Found {
    rate_bps: u64,
    length_ns: u64,
    starts: Vec<Between>,
    /// The first slot.
    first: Option<First>,
}

#[derive(Debug, Serialize)]
struct First {
    start: String,
    end: String,
    #[serde(flatten)]
    along: Along,
}

pub(super) fn all(args: &SlotsArgs) -> Result<()> {
    let site = Site::read(&args.bookings)?;
    let (ends, within) = (site.ends(&args.way)?, site.searched(args.until, SEARCH)?);
    let (rate, length) = (above_0(args.rate)?, nanos(args.length)?);
    let slots = Slots::of(site.book.view());
    let starts = slots.all(ends, rate, length, within);
    let first = slots.first(ends, rate, length, within).map(|slot| First {
        start: Utc(slot.window.start()).to_string(),
        end: Utc(slot.window.end()).to_string(),
        along: site.along(&slot.path.edges),
    });
    let between = |(first, last): &(i64, i64)| Between { first: Utc(*first).to_string(), last: Utc(*last).to_string() };
    let starts = starts.intervals().iter().map(between).collect();
    let found = Found { rate_bps: rate.get(), length_ns: length.get(), starts, first };
    if args.bookings.json {
        return print(json(&found)?);
    }
    let Some(first) = &found.first else {
        bail!("{} for {} is not free on any path until {}", args.rate, args.length, Utc(within.end()));
    };
    let mut text = format!("{} for {} may start\n", args.rate, args.length);
    for Between { first, last } in &found.starts {
        text += &if first == last { format!("  at   {first}\n") } else { format!("  from {first} to {last}\n") };
    }
    text += &format!("the first is over\n{}", first.along.text("  "));
    print(text)
}

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Most {
    start: String,
    end: String,
    rate_bps: u64,
    path: Option<Along>,
}

pub(super) fn highest(args: &HighestArgs) -> Result<()> {
    let site = Site::read(&args.bookings)?;
    let (ends, slot) = (site.ends(&args.way)?, lasting(args.start.0, args.length)?);
    let highest = Slots::of(site.book.view()).highest(ends, slot);
    let rate_bps = highest.as_ref().map_or(0, |highest| highest.rate.get());
    let path = highest.map(|highest| site.along(&highest.path.edges));
    if args.bookings.json {
        let (start, end) = (Utc(slot.start()).to_string(), Utc(slot.end()).to_string());
        return print(json(&Most { start, end, rate_bps, path })?);
    }
    let Some(path) = path else {
        bail!(
            "nothing is free from {} for {}: every path is full at some moment",
            args.start,
            Span::from(args.length.get())
        );
    };
    print(format!("{}\n{}", Rate::from_bps(rate_bps), path.text("  ")))
}
