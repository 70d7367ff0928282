//! `plan calendar`.

mod svg;

use std::time::Duration;

use anyhow::Result;
use plan::graph::EdgeId;
use serde::Serialize;
use units::{Rate, Utc, Window};

use super::booked::{Site, json};
use crate::args::plan::CalendarArgs;
use crate::output::print;

/// How far is shown when nobody says.
const SHOWN: Duration = Duration::from_secs(7 * 86_400);

/// What is free of a link, one way.
#[derive(Debug, Serialize)]
struct Link {
    link: String,
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
    let edges: Vec<EdgeId> = edges(&site).collect();
    let links: Vec<Link> = edges.into_iter().map(|edge| link(&site, edge, within)).collect();
    if args.bookings.json {
        return print(json(&links)?);
    }
    let mut text = String::new();
    for Link { link, pieces } in &links {
        text += &format!("{link}\n");
        for Piece { start, end, capacity_bps, free_bps } in pieces {
            let (free, capacity) = (Rate::from_bps(*free_bps), Rate::from_bps(*capacity_bps));
            text += &format!("  {start} to {end}  {free} of {capacity} free\n");
        }
    }
    print(text)
}

/// The ways of links that have a limit.
fn edges(site: &Site) -> impl Iterator<Item = EdgeId> {
    let edges = site.book.view().graph().edges();
    (0..edges.len()).filter(|edge| edges[*edge].capacity < u64::MAX)
}

fn link(site: &Site, edge: EdgeId, within: Window) -> Link {
    let resource = &site.book.view().resources()[edge];
    let piece = |(window, free_bps): (Window, u64)| Piece {
        start: Utc(window.start()).to_string(),
        end: Utc(window.end()).to_string(),
        capacity_bps: resource.calendar().capacity_at(window.start()),
        free_bps,
    };
    Link { link: resource.name().to_owned(), pieces: resource.calendar().pieces(within).map(piece).collect() }
}
