//! The calendars of links as a picture: a row for each way, time to the right, what is taken from below, and the high-water
//! mark as a line.

use std::fmt::Write;

use plan::book::AT_LARGE_CLASS;
use plan::graph::EdgeId;
use units::{Moment, Rate, Utc, Window};

use super::{Site, edges};

/// Sizes in pixels.
const NAMES: f64 = 260.0;
const CHART: f64 = 900.0;
const ROW: f64 = 34.0;
const BAR: f64 = 26.0;
const TOP: f64 = 40.0;
/// Lines of the time axis.
const TICKS: i64 = 7;

pub(super) fn draw(site: &Site, within: Window) -> String {
    let rows: Vec<EdgeId> = edges(site).collect();
    let (width, height) = (NAMES + CHART + 20.0, TOP + ROW * rows.len() as f64 + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for tick in 0..=TICKS {
        let share = tick as f64 / TICKS as f64;
        let at = within.start() + (within.nanos() as f64 * share) as Moment;
        let x = NAMES + CHART * share;
        // The day and the minute are enough.
        let label: String = Utc(at).to_string().chars().take(16).collect();
        let anchor = if tick == TICKS { "end" } else { "start" };
        line(&mut svg, format_args!("<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{height}\" stroke=\"#ddd\"/>"));
        line(&mut svg, format_args!("<text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>", TOP - 12.0));
    }
    for (row, edge) in rows.into_iter().enumerate() {
        draw_row(&mut svg, site, edge, within, TOP + ROW * row as f64);
    }
    svg + "</svg>\n"
}

fn draw_row(svg: &mut String, site: &Site, edge: EdgeId, within: Window, y: f64) {
    let view = site.book.view();
    let resource = &view.resources()[edge];
    let name = escaped(resource.name());
    line(svg, format_args!("<text x=\"4\" y=\"{}\">{name}</text>", y + BAR * 0.7));
    line(svg, format_args!("<rect x=\"{NAMES}\" y=\"{y}\" width=\"{CHART}\" height=\"{BAR}\" fill=\"#eef3ee\"/>"));
    let x = |moment: Moment| NAMES + CHART * (moment - within.start()) as f64 / within.nanos() as f64;
    // What is above the mark is at-large traffic's: it is drawn as the line, not as taken.
    let floor = at_large(site, edge);
    for (piece, free) in resource.calendar().pieces(within) {
        let capacity = resource.calendar().capacity_at(piece.start()).max(1);
        let taken = capacity.saturating_sub(free).saturating_sub(floor);
        if taken == 0 {
            continue;
        }
        let high = BAR * taken as f64 / capacity as f64;
        let (left, top) = (x(piece.start()), y + BAR - high);
        let title = format!(
            "{} of {} taken, {} to {}",
            Rate::from_bps(taken),
            Rate::from_bps(capacity),
            Utc(piece.start()),
            Utc(piece.end())
        );
        let wide = x(piece.end()) - left;
        line(
            svg,
            format_args!(
                "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{wide:.2}\" height=\"{high:.2}\" fill=\"#3b7ddd\">\
                 <title>{title}</title></rect>"
            ),
        );
    }
    if floor > 0 {
        let capacity = resource.calendar().capacity_at(within.start()).max(1);
        let mark = y + BAR * floor as f64 / capacity as f64;
        let end = NAMES + CHART;
        line(
            svg,
            format_args!("<line x1=\"{NAMES}\" y1=\"{mark:.2}\" x2=\"{end}\" y2=\"{mark:.2}\" stroke=\"#c33\"/>"),
        );
    }
}

/// What is kept for traffic at large.
fn at_large(site: &Site, edge: EdgeId) -> u64 {
    let bookings = site.book.view().bookings().iter().filter(|(_, booking)| booking.holder.class == AT_LARGE_CLASS);
    let takes = bookings.flat_map(|(_, booking)| &booking.takes).filter(|take| take.resource == edge);
    takes.map(|take| take.rate).sum()
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(svg, "{text}").expect("text can be added to text");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
