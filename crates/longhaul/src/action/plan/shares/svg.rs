//! How far links and marks are filled, as a picture: a bar for each, its parts in the colours of classes, and a line up to where it
//! may be filled.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plan::allot::{Of, Outcome, Resource, Use};
use plan::share::ResourceId;

use super::{class_of, percent, rate};
use crate::action::plan::drawing::{COLOURS, escaped, line};

/// Sizes in pixels.
const NAMES: f64 = 330.0;
const BARS: f64 = 560.0;
const NUMBERS: f64 = 270.0;
const WIDTH: f64 = NAMES + BARS + NUMBERS;
const ROW: f64 = 28.0;
const BAR: f64 = 16.0;
const TOP: f64 = 92.0;
const HEADING: f64 = 34.0;
/// What a letter of the legend takes, about.
const LETTER: f64 = 6.6;
/// Letters of a name that fit; the whole of it is shown by what shows titles.
const NAME: usize = 45;
/// Rows of a picture: the fullest of them.
const ROWS_MAX: usize = 200;
/// What flows without a class have.
const NO_CLASS: &str = "#8a8f98";
/// Colours of the page, light and dark. Those of classes are told from both.
const STYLE: &str = "\
.page{fill:#fff}.text{fill:#1c2127}.faint{fill:#68707c}.track{fill:#eceff3}.kept{fill:#d5dae1}\
.grid{stroke:#c9cfd8}.mark{stroke:#b3261e}.full{fill:#b3261e}\
@media(prefers-color-scheme:dark){.page{fill:#14181d}.text{fill:#e7eaee}.faint{fill:#9aa3af}.track{fill:#2a3038}\
.kept{fill:#3b434e}.grid{stroke:#4a525d}.mark{stroke:#ff8a80}.full{fill:#ff8a80}}";

/// A row: what it is of, and how far that is filled.
struct Row<'a> {
    resource: &'a Resource,
    used: Use,
}

impl Row<'_> {
    /// All that the bar stands for, in b/s: the rate of a link, with what is kept of it for others; else how far it may be filled.
    fn whole(&self) -> u64 {
        self.resource.rate.unwrap_or(0).max(self.resource.capacity).max(1)
    }
}

pub(super) fn draw(outcome: &Outcome<'_>) -> String {
    let rows = rows(outcome);
    let colours = colours(&rows);
    let (links, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
        rows.iter().partition(|row| matches!(row.resource.of, Of::Link(_)));
    let groups = [("Links", links), ("Marks, caps and ports", others)];
    let groups: Vec<_> = groups.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    let height = TOP + groups.iter().map(|(_, rows)| HEADING + ROW * rows.len() as f64).sum::<f64>() + 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
    );
    let network = escaped(&outcome.snapshot.network.name);
    line(
        &mut svg,
        format_args!(
            "<text class=\"text\" x=\"24\" y=\"34\" font-size=\"18\" font-weight=\"600\">Shares of {network}</text>"
        ),
    );
    let total = rate(outcome.total());
    let (end, flows) = (WIDTH - 24.0, outcome.snapshot.shares.flows.len());
    line(
        &mut svg,
        format_args!(
            "<text class=\"faint\" x=\"{end}\" y=\"34\" text-anchor=\"end\">{flows} flows, {total} together</text>"
        ),
    );
    legend(&mut svg, outcome, &colours);
    let mut y = TOP;
    for (heading, rows) in &groups {
        line(
            &mut svg,
            format_args!(
                "<text class=\"text\" x=\"24\" y=\"{}\" font-size=\"13\" font-weight=\"600\">{heading}</text>",
                y + 20.0
            ),
        );
        axis(&mut svg, y + HEADING, ROW * rows.len() as f64);
        y += HEADING;
        for row in rows {
            bar(&mut svg, outcome, row, y, &colours);
            y += ROW;
        }
    }
    svg + "</svg>\n"
}

/// What is drawn, in the order of the network: what somebody uses, and marks; of too many the fullest.
fn rows<'a>(outcome: &'a Outcome<'_>) -> Vec<Row<'a>> {
    let all = outcome.setup.resources.iter().enumerate();
    let row = |(index, resource)| Row { resource, used: outcome.used(index as ResourceId) };
    let mut rows: Vec<(usize, Row<'_>)> = all.map(row).enumerate().collect();
    rows.retain(|(_, row)| row.used.used > 0 || row.used.is_full || matches!(row.resource.of, Of::Mark(..)));
    rows.sort_by_key(|(index, row)| {
        let filled = u128::from(row.used.used) * 1_000_000 / u128::from(row.resource.capacity.max(1));
        (Reverse(filled), *index)
    });
    rows.truncate(ROWS_MAX);
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Classes with a colour each, in the order of the file; those without flows here need none.
fn colours(rows: &[Row<'_>]) -> BTreeMap<Option<usize>, &'static str> {
    let all = rows.iter().flat_map(|row| &row.used.by_class).filter(|(_, rate)| *rate > 0);
    let mut colours: BTreeMap<Option<usize>, &'static str> = all.map(|(class, _)| (*class, NO_CLASS)).collect();
    let of_classes = colours.iter_mut().filter(|(class, _)| class.is_some());
    for ((_, colour), of) in of_classes.zip(COLOURS.into_iter().cycle()) {
        *colour = of;
    }
    colours
}

fn legend(svg: &mut String, outcome: &Outcome<'_>, colours: &BTreeMap<Option<usize>, &'static str>) {
    let (mut x, y) = (24.0, 64.0);
    let wide = |text: &str| 18.0 + LETTER * text.chars().count() as f64 + 18.0;
    for (class, colour) in colours {
        let name = match class {
            Some(_) => class_of(&outcome.snapshot.shares, *class),
            None => "no class",
        };
        line(
            svg,
            format_args!("<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>", y - 10.5),
        );
        line(svg, format_args!("<text class=\"text\" x=\"{}\" y=\"{y}\">{}</text>", x + 18.0, escaped(name)));
        x += wide(name);
    }
    let top = y - 13.0;
    line(
        svg,
        format_args!(
            "<line class=\"mark\" x1=\"{0}\" x2=\"{0}\" y1=\"{top}\" y2=\"{1}\" stroke-width=\"2\"/>",
            x + 6.0,
            y + 4.0
        ),
    );
    let filled = "filled up to here at most";
    line(svg, format_args!("<text class=\"text\" x=\"{}\" y=\"{y}\">{filled}</text>", x + 18.0));
    x += wide(filled);
    line(svg, format_args!("<rect class=\"kept\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\"/>", y - 10.5));
    line(svg, format_args!("<text class=\"text\" x=\"{}\" y=\"{y}\">kept for others</text>", x + 18.0));
}

/// Lines at each quarter.
fn axis(svg: &mut String, y: f64, height: f64) {
    for quarter in 0..=4 {
        let x = NAMES + BARS * f64::from(quarter) / 4.0;
        line(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\" stroke-dasharray=\"1 3\"/>",
                y - 4.0,
                y + height
            ),
        );
        line(
            svg,
            format_args!(
                "<text class=\"faint\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\">{} %</text>",
                y - 9.0,
                quarter * 25
            ),
        );
    }
}

fn bar(
    svg: &mut String,
    outcome: &Outcome<'_>,
    row: &Row<'_>,
    y: f64,
    colours: &BTreeMap<Option<usize>, &'static str>,
) {
    let Row { resource, used } = row;
    let (name, middle, whole) = (&resource.name, y + BAR / 2.0 + 4.5, row.whole());
    let fits = name.chars().count() <= NAME;
    let short = if fits { name.clone() } else { name.chars().take(NAME - 1).chain(['…']).collect() };
    let (name, short) = (escaped(name), escaped(&short));
    let wide = |bps: u64| BARS * bps as f64 / whole as f64;
    line(
        svg,
        format_args!(
            "<text class=\"text\" x=\"{}\" y=\"{middle}\" text-anchor=\"end\"><title>{name}</title>{short}</text>",
            NAMES - 14.0
        ),
    );
    let limit = wide(resource.capacity);
    line(svg, format_args!("<rect class=\"track\" x=\"{NAMES}\" y=\"{y}\" width=\"{limit:.2}\" height=\"{BAR}\"/>"));
    let kept = BARS - limit;
    line(
        svg,
        format_args!(
            "<rect class=\"kept\" x=\"{:.2}\" y=\"{y}\" width=\"{kept:.2}\" height=\"{BAR}\"/>",
            NAMES + limit
        ),
    );
    let mut x = NAMES;
    for (class, has) in used.by_class.iter().filter(|(_, has)| *has > 0) {
        let (wide, colour) = (wide(*has), colours.get(class).copied().unwrap_or(NO_CLASS));
        let class = class.map_or("no class", |of| class_of(&outcome.snapshot.shares, Some(of)));
        let title = format!("{}: {} of {}", escaped(class), rate(*has), rate(resource.capacity));
        line(
            svg,
            format_args!(
                "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{BAR}\" fill=\"{colour}\"><title>{title}</title></rect>"
            ),
        );
        x += wide;
    }
    let at = NAMES + limit;
    line(
        svg,
        format_args!(
            "<line class=\"mark\" x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"{}\" y2=\"{}\" stroke-width=\"2\"/>",
            y - 3.0,
            y + BAR + 3.0
        ),
    );
    let (has, most) = (rate(used.used), rate(resource.capacity));
    let style = if used.is_full { "full\" font-weight=\"600" } else { "text" };
    let x = NAMES + BARS + 78.0;
    let filled = percent(used.used, resource.capacity);
    line(svg, format_args!("<text class=\"{style}\" x=\"{x}\" y=\"{middle}\" text-anchor=\"end\">{filled}</text>"));
    line(svg, format_args!("<text class=\"faint\" x=\"{}\" y=\"{middle}\">{has} of {most}</text>", x + 14.0));
}
