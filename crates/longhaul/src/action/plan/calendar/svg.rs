//! Calendars as a picture: a row for each way of a link and each other resource, time to the right, what each class of work takes from below, and
//! the high-water mark as a line.

use std::collections::BTreeMap;

use plan::book::{AT_LARGE_CLASS, ResourceId};
use units::{Moment, Rate, Utc, Window};

use super::{Site, limited};
use crate::action::plan::drawing::{COLOURS, escaped, line};

/// Sizes in pixels.
const NAMES: f64 = 300.0;
const CHART: f64 = 900.0;
const MARGIN: f64 = 40.0;
const ROW: f64 = 34.0;
const BAR: f64 = 26.0;
const TOP: f64 = 64.0;
const LEGEND: f64 = 22.0;
/// What a letter of the legend takes, about.
const LETTER: f64 = 7.0;
/// Lines of the time axis at most, and hours that may be between them.
const TICKS: u64 = 9;
const HOURS: [u64; 11] = [1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 91 * 24];
const HOUR: u64 = 3_600_000_000_000;
const MARK: &str = "#c33";

pub(super) fn draw(site: &Site, within: Window) -> String {
    let rows: Vec<ResourceId> = limited(site).collect();
    let colours = colours(site);
    let (width, height) = (NAMES + CHART + MARGIN, TOP + ROW * rows.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        height + MARGIN / 2.0
    );
    legend(&mut svg, &colours);
    for (row, resource) in rows.into_iter().enumerate() {
        draw_row(&mut svg, site, resource, within, TOP + ROW * row as f64, &colours);
    }
    axis(&mut svg, within, height);
    svg + "</svg>\n"
}

/// Classes of work with a colour each.
fn colours(site: &Site) -> BTreeMap<&str, &'static str> {
    let classes = site.book.view().bookings().iter().map(|(_, booking)| booking.holder.class.as_str());
    let mut colours: BTreeMap<_, _> =
        classes.filter(|class| *class != AT_LARGE_CLASS).map(|class| (class, "")).collect();
    for (colour, of) in colours.values_mut().zip(COLOURS.into_iter().cycle()) {
        *colour = of;
    }
    colours
}

fn legend(svg: &mut String, colours: &BTreeMap<&str, &'static str>) {
    let mut x = NAMES;
    for (class, colour) in colours {
        line(
            svg,
            format_args!("<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>", LEGEND - 11.0),
        );
        line(svg, format_args!("<text x=\"{}\" y=\"{LEGEND}\">{}</text>", x + 18.0, escaped(class)));
        x += 18.0 + LETTER * class.chars().count() as f64 + 24.0;
    }
    let y = LEGEND - 5.0;
    line(svg, format_args!("<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{MARK}\"/>", x + 12.0));
    line(svg, format_args!("<text x=\"{}\" y=\"{LEGEND}\">high-water mark</text>", x + 18.0));
}

/// Lines at round times, counted from midnight of 1970, UTC.
fn axis(svg: &mut String, within: Window, height: f64) {
    let step = HOURS.iter().map(|hours| hours * HOUR).find(|step| within.nanos() / step < TICKS);
    let step = step.unwrap_or(within.nanos() / TICKS + 1) as Moment;
    let first = within.start().div_euclid(step) * step;
    let ticks = (0..=TICKS as Moment + 1).map(|n| first.saturating_add(n.saturating_mul(step)));
    for at in ticks.filter(|at| (within.start()..=within.end()).contains(at)) {
        let x = position(within, at);
        // A day is enough for days, and the minute for hours.
        let (date, time) = (Utc(at).to_string().chars().take(16).collect::<String>(), step < 24 * HOUR as Moment);
        let (date, clock) = date.split_at(10);
        let label = if time { format!("{} {}", &date[5..], &clock[1..]) } else { date.to_owned() };
        line(
            svg,
            format_args!(
                "<line x1=\"{x:.2}\" y1=\"{}\" x2=\"{x:.2}\" y2=\"{height}\" stroke=\"#bbb\" stroke-dasharray=\"1 3\"/>",
                TOP - 6.0
            ),
        );
        line(
            svg,
            format_args!(
                "<text x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">{label}</text>",
                TOP - 11.0
            ),
        );
    }
}

fn draw_row(
    svg: &mut String,
    site: &Site,
    index: ResourceId,
    within: Window,
    y: f64,
    colours: &BTreeMap<&str, &'static str>,
) {
    let view = site.book.view();
    let resource = &view.resources()[index];
    let (name, end) = (escaped(resource.name()), NAMES - 8.0);
    line(svg, format_args!("<text x=\"{end}\" y=\"{}\" text-anchor=\"end\">{name}</text>", y + BAR * 0.65));
    line(svg, format_args!("<rect x=\"{NAMES}\" y=\"{y}\" width=\"{CHART}\" height=\"{BAR}\" fill=\"#f1f3f5\"/>"));
    // What is above the mark is at-large traffic's: it is drawn as the line, not as taken.
    let mut floor = 0;
    let mut takes = Vec::new();
    for (_, booking) in view.bookings().iter() {
        for take in booking.takes.iter().filter(|take| take.resource == index) {
            match colours.get(booking.holder.class.as_str()) {
                Some(colour) => takes.push((take, booking.holder.class.as_str(), *colour)),
                None => floor += take.rate,
            }
        }
    }
    for (piece, _) in resource.calendar().pieces(within) {
        let capacity = resource.calendar().capacity_at(piece.start()).max(1);
        let (left, wide) = (position(within, piece.start()), CHART * piece.nanos() as f64 / within.nanos() as f64);
        let mut below = 0_u64;
        for (take, class, colour) in &takes {
            if take.window.start() >= piece.end() || take.window.end() <= piece.start() {
                continue;
            }
            // What is booked beyond the capacity ends at the top.
            let shown = take.rate.min(capacity.saturating_sub(below));
            let high = BAR * shown as f64 / capacity as f64;
            below += shown;
            let top = y + BAR - BAR * below as f64 / capacity as f64;
            let title = format!(
                "{}: {} of {}, {} to {}",
                escaped(class),
                Rate::from_bps(take.rate),
                Rate::from_bps(capacity),
                Utc(take.window.start()),
                Utc(take.window.end())
            );
            line(
                svg,
                format_args!(
                    "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{wide:.2}\" height=\"{high:.2}\" fill=\"{colour}\">\
                     <title>{title}</title></rect>"
                ),
            );
        }
    }
    if floor > 0 {
        let capacity = resource.calendar().capacity_at(within.start()).max(1);
        let mark = y + BAR * floor as f64 / capacity as f64;
        let end = NAMES + CHART;
        line(
            svg,
            format_args!("<line x1=\"{NAMES}\" y1=\"{mark:.2}\" x2=\"{end}\" y2=\"{mark:.2}\" stroke=\"{MARK}\"/>"),
        );
    }
}

/// Where a moment is, from the left.
fn position(within: Window, at: Moment) -> f64 {
    NAMES + CHART * (at - within.start()) as f64 / within.nanos() as f64
}
