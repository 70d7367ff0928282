//! `plan calendar`.

mod svg;

use std::time::Duration;

use anyhow::Result;
use plan::book::ResourceId;
use serde::Serialize;
use units::{Rate, Utc, Window};

use super::booked::{Site, json};
use crate::args::plan::CalendarArgs;
use crate::output::print;

/// How far is shown when nobody says.
const SHOWN: Duration = Duration::from_secs(7 * 86_400);

/// What is free of a resource: a link, one way, or what the file of bookings names beside links.
#[derive(Debug, Serialize)]
struct Free {
    resource: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Serialize)]
struct Piece {
    start: String,
    end: String,
    capacity_bps: u64,
    free_bps: u64,
}

pub(super) fn run(args: &CalendarArgs) -> Result<()> {
    let site = Site::read(&args.bookings)?;
    let within = site.searched(args.until, SHOWN)?;
    if args.svg {
        return print(svg::draw(&site, within));
    }
    let calendars: Vec<Free> = limited(&site).map(|resource| free(&site, resource, within)).collect();
    if args.bookings.json {
        return print(json(&calendars)?);
    }
    let mut text = String::new();
    for Free { resource, pieces } in &calendars {
        text += &format!("{resource}\n");
        for Piece { start, end, capacity_bps, free_bps } in pieces {
            let (free, capacity) = (Rate::from_bps(*free_bps), Rate::from_bps(*capacity_bps));
            text += &format!("  {start} to {end}  {free} of {capacity} free\n");
        }
    }
    print(text)
}

/// What has a limit.
fn limited(site: &Site) -> impl Iterator<Item = ResourceId> {
    let view = site.book.view();
    let edges = view.graph().edges();
    (0..view.resources().len()).filter(|resource| edges.get(*resource).is_none_or(|edge| edge.capacity < u64::MAX))
}

fn free(site: &Site, resource: ResourceId, within: Window) -> Free {
    let resource = &site.book.view().resources()[resource];
    let piece = |(window, free_bps): (Window, u64)| Piece {
        start: Utc(window.start()).to_string(),
        end: Utc(window.end()).to_string(),
        capacity_bps: resource.calendar().capacity_at(window.start()),
        free_bps,
    };
    Free { resource: resource.name().to_owned(), pieces: resource.calendar().pieces(within).map(piece).collect() }
}
