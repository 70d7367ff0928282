//! `twin stats`.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, anyhow};
use model::network::Network;
use serde_json::{Value, json};
use twin::control::{self, LinkState};
use twin::links::Links;
use twin::place::{Driver, Place};
use twin::stats::Stats;
use units::{Bytes, Rate, Span};

use crate::exit::usage;
use crate::output::print;

/// How often `--watch` and `--to` look.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

pub(super) type States = Vec<Option<LinkState>>;

pub(super) fn run(place: &Place, link: Option<&str>, json: bool, watch: bool) -> Result<()> {
    let network = counted(place)?;
    let chosen = match link {
        Some(name) => {
            let named = network.links_named(name).map_err(|unknown| usage(unknown.to_string()))?;
            let links = Links::of(place)?;
            if named.iter().all(|&link| links.is_plain(link)) {
                return Err(usage(links.why_plain(named[0])));
            }
            named
        }
        None => (0..network.links.len()).collect(),
    };
    let mut earlier: Option<States> = None;
    loop {
        let states = control::links(place)?;
        let text = if json {
            format!("{}\n", object(place, &network, &chosen, &states, earlier.as_ref()))
        } else {
            table(&network, &chosen, &states, earlier.as_ref())
        };
        print(text)?;
        if !watch {
            return balanced(&network, &chosen, &states);
        }
        earlier = Some(states);
        sleep(PERIOD);
    }
}

/// The network of a twin whose links are counted.
///
/// # Errors
/// When there is no such twin, or netem carries its packets.
pub(super) fn counted(place: &Place) -> Result<Network> {
    let (network, record) = place.read()?;
    if record.driver == Driver::Netem {
        return Err(usage("netem keeps no such books: `longhaul twin exec HOST -- tc -s qdisc` shows what it counts"));
    }
    Ok(network)
}

/// Each way of each chosen link that is emulated: name, from, to, now, and a moment ago.
fn ways<'a>(
    network: &'a Network,
    chosen: &'a [usize],
    states: &'a States,
    earlier: Option<&'a States>,
) -> impl Iterator<Item = (&'a str, &'a str, &'a str, &'a LinkState, &'a Stats, Option<&'a Stats>)> {
    chosen.iter().filter_map(|&n| Some((n, states[n].as_ref()?))).flat_map(move |(n, state)| {
        let link = &network.links[n];
        (0..2).map(move |way| {
            let (from, to) = if way == 0 { (link.from, link.to) } else { (link.to, link.from) };
            let (from, to) = (network.nodes[from].name.as_str(), network.nodes[to].name.as_str());
            let before = earlier.and_then(|all| all[n].as_ref()).map(|state| &state.stats[way]);
            (link.name.as_str(), from, to, state, &state.stats[way], before)
        })
    })
}

/// Whether nothing is missing from the books: what was shown is wrong then, and a program that reads it must hear of it.
fn balanced(network: &Network, chosen: &[usize], states: &States) -> Result<()> {
    let broken = ways(network, chosen, states, None).filter(|(.., stats, _)| !stats.conserved);
    let broken: Vec<String> = broken.map(|(link, from, to, ..)| format!("{link} {from}→{to}")).collect();
    if broken.is_empty() { Ok(()) } else { Err(anyhow!("books do not balance: {}", broken.join("; "))) }
}

fn object(place: &Place, network: &Network, chosen: &[usize], states: &States, earlier: Option<&States>) -> Value {
    let ways = ways(network, chosen, states, earlier).map(|(link, from, to, state, stats, before)| {
        let mut way = json!({ "link": link, "from": from, "to": to, "up": state.up, "stats": stats });
        if let Some(before) = before {
            way["rate_bps"] = stats.rate_bps(before).into();
            way["utilisation"] = (stats.utilisation_ppm(before) as f64 / 1e6).into();
        }
        way
    });
    json!({ "twin": place.name(), "directions": ways.collect::<Vec<_>>() })
}

fn table(network: &Network, chosen: &[usize], states: &States, earlier: Option<&States>) -> String {
    let rows: Vec<[String; 8]> = ways(network, chosen, states, earlier)
        .map(|(link, from, to, state, stats, before)| {
            let begin = Stats::default();
            let rate = Rate::from_bps(stats.rate_bps(before.unwrap_or(&begin)));
            let lateness = Span::new(Duration::from_nanos(stats.lateness_ns.p99));
            let mut notes = Vec::new();
            let unplanned = stats.unplanned.total();
            for (is, note) in [
                (!state.up, "cut".to_owned()),
                (stats.emulator_late, "emulator late".to_owned()),
                (!stats.conserved, "books do not balance".to_owned()),
                (unplanned > 0, format!("{unplanned} unplanned")),
            ] {
                notes.extend(is.then_some(note));
            }
            [
                format!("{link} {from}→{to}"),
                stats.departed.packets.to_string(),
                rate.to_string(),
                stats.dropped.queue.packets.to_string(),
                (stats.dropped.total() - stats.dropped.queue.packets).to_string(),
                Bytes::new(stats.queue_bytes.p99).to_string(),
                lateness.to_string(),
                notes.join(", "),
            ]
        })
        .collect();
    let rate = if earlier.is_some() { "rate now" } else { "mean rate" };
    let head = ["link", "packets", rate, "full", "lost", "queue p99", "late p99", ""].map(str::to_owned);
    let all: Vec<&[String; 8]> = [&head].into_iter().chain(&rows).collect();
    let widths: Vec<usize> =
        (0..8).map(|column| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in all {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(
                |(n, (cell, &width))| {
                    if n == 0 || n == 7 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_that_do_not_balance_are_a_failure() {
        let text =
            "name = \"x\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\ndelay = \"1 ms\"\n";
        let network = Network::from_toml(text, "x.toml").unwrap();
        let states = |conserved| {
            let stats = [true, conserved].map(|conserved| Stats { conserved, ..Stats::default() });
            vec![Some(LinkState { up: true, directions: Default::default(), stats })]
        };
        assert!(balanced(&network, &[0], &states(true)).is_ok());
        let error = balanced(&network, &[0], &states(false)).unwrap_err();
        assert_eq!(error.to_string(), "books do not balance: ab b→a");
        assert_eq!(crate::exit::code_of(&error), crate::exit::FAILED);
    }
}
