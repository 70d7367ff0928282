//! `twin stats`.

mod show;

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, anyhow};
use model::network::Network;
use serde_json::{Value, json};
use twin::control::{self, LinkState};
use twin::links::Links;
use twin::place::{Driver, Place};
use twin::stats::Stats;

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
        let ways = ways(&network, &chosen, &states, earlier.as_ref());
        print(if json { format!("{}\n", object(place, &ways)) } else { show::text(&ways) })?;
        if !watch {
            return balanced(&ways);
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

/// One way of a link that is emulated.
struct Counted<'a> {
    link: &'a str,
    from: &'a str,
    to: &'a str,
    way: usize,
    state: &'a LinkState,
    stats: &'a Stats,
    /// A moment ago.
    earlier: Option<&'a Stats>,
}

impl Counted<'_> {
    fn called(&self) -> String {
        format!("{} {}→{}", self.link, self.from, self.to)
    }

    /// One without is never busy.
    fn has_rate(&self) -> bool {
        self.state.directions[self.way].rate.is_some()
    }
}

/// Each way of each chosen link that is emulated.
fn ways<'a>(
    network: &'a Network,
    chosen: &'a [usize],
    states: &'a States,
    earlier: Option<&'a States>,
) -> Vec<Counted<'a>> {
    let emulated = chosen.iter().filter_map(|&n| Some((n, states[n].as_ref()?)));
    let ways = emulated.flat_map(|(n, state)| {
        let link = &network.links[n];
        [(link.from, link.to), (link.to, link.from)].into_iter().enumerate().map(move |(way, (from, to))| Counted {
            link: &link.name,
            from: &network.nodes[from].name,
            to: &network.nodes[to].name,
            way,
            state,
            stats: &state.stats[way],
            earlier: earlier.and_then(|all| all[n].as_ref()).map(|state| &state.stats[way]),
        })
    });
    ways.collect()
}

/// Whether nothing is missing from the books: what was shown is wrong then, and a program that reads it must hear of it.
fn balanced(ways: &[Counted<'_>]) -> Result<()> {
    let broken: Vec<String> = ways.iter().filter(|way| !way.stats.conserved).map(Counted::called).collect();
    if broken.is_empty() { Ok(()) } else { Err(anyhow!("books do not balance: {}", broken.join("; "))) }
}

/// Rate and utilisation are since the earlier look, or else since the begin.
fn object(place: &Place, ways: &[Counted<'_>]) -> Value {
    let begin = Stats::default();
    let ways = ways.iter().map(|way| {
        let Counted { link, from, to, state, stats, .. } = way;
        let earlier = way.earlier.unwrap_or(&begin);
        json!({
            "link": link,
            "from": from,
            "to": to,
            "up": state.up,
            "stats": stats,
            "rate_bps": stats.rate_bps(earlier),
            "utilisation": stats.utilisation_ppm(earlier) as f64 / 1e6,
        })
    });
    json!({ "twin": place.name(), "directions": ways.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use model::network::Direction;
    use units::Rate;

    use super::*;

    /// A link of 1 Gb/s on which nothing has happened.
    pub(super) fn state() -> LinkState {
        let directions = [(); 2].map(|()| Direction { rate: Some(Rate::gbps(1)), ..Direction::default() });
        LinkState { up: true, directions, stats: Default::default() }
    }

    #[test]
    fn books_that_do_not_balance_are_a_failure() {
        let text =
            "name = \"x\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\ndelay = \"1 ms\"\n";
        let network = Network::from_toml(text, "x.toml").unwrap();
        let states = |conserved| {
            let stats = [true, conserved].map(|conserved| Stats { conserved, ..Stats::default() });
            vec![Some(LinkState { stats, ..state() })]
        };
        let judged = |states| balanced(&ways(&network, &[0], &states, None));
        assert!(judged(states(true)).is_ok());
        let error = judged(states(false)).unwrap_err();
        assert_eq!(error.to_string(), "books do not balance: ab b→a");
        assert_eq!(crate::exit::code_of(&error), crate::exit::FAILED);
    }
}
