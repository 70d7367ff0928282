//! `twin ls`.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;
use model::network::NodeKind;
use serde::Serialize;
use serde_json::json;
use twin::control::LinkState;
use twin::links::Links;
use twin::place::{Driver, Place};
use units::{Rate, Span};

use crate::output::print;

/// A twin as `ls --json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Twin {
    name: String,
    /// `up`, or `dead` when its emulator has ended.
    state: &'static str,
    driver: Driver,
    scale: String,
    hosts: Vec<Host>,
    routers: Vec<Host>,
    links: Vec<Link>,
}

#[derive(Debug, Serialize)]
struct Host {
    name: String,
    namespace: String,
    /// Its own first, IPv4 and IPv6, then those of named paths.
    addresses: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Link {
    name: String,
    from: String,
    to: String,
    /// Absent where the link is as fast as the machine.
    rate_bps: Option<u64>,
    /// One way, there; `back` has the other where it differs.
    delay_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
    /// `up`, `cut`, `plain` (a veth), or `dead`.
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct Back {
    rate_bps: Option<u64>,
    delay_ms: f64,
}

pub(super) fn run(json: bool) -> Result<()> {
    let mut twins = Vec::new();
    for place in Place::all()? {
        match describe(&place) {
            Ok(twin) => twins.push(twin),
            // It says how to remove it.
            Err(error) => eprintln!("longhaul: {error:#}"),
        }
    }
    if json {
        return print(format!("{}\n", json!({ "twins": twins })));
    }
    if twins.is_empty() {
        return print("no twin is up: `longhaul twin up pair` makes one\n");
    }
    print(twins.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// A twin as it is now.
pub(super) fn describe(place: &Place) -> Result<Twin> {
    let all = Links::of(place)?;
    let (network, plan, record) = (all.network(), all.plan(), all.record());
    let states = all.states().ok();
    // Of a twin whose namespaces are gone nothing is known to be cut.
    let veths_cut = all.cut().unwrap_or_default();
    let dead = states.is_none();
    let states = states.unwrap_or_else(|| vec![None; network.links.len()]);
    let nodes = |kind| {
        let nodes = plan.nodes.iter().filter(move |node| node.kind == kind);
        nodes.map(|node| {
            let own = node.path_addresses.iter().map(|path| path.address);
            let addresses = [node.address]
                .into_iter()
                .chain(own)
                .flat_map(|a| std::iter::once(a.v4.to_string()).chain(a.v6.map(|v6| v6.to_string())));
            let addresses = first_of_each(addresses);
            Host { name: node.name.clone(), namespace: node.namespace.clone(), addresses }
        })
    };
    let links = network.links.iter().zip(&states).enumerate().map(|(n, (link, state))| {
        let now = state.as_ref().map_or([&link.forward, &link.backward], |s: &LinkState| s.directions.each_ref());
        let rate = |n: usize| now[n].rate.map(Rate::bps);
        let delay = |n: usize| now[n].delay.as_secs_f64() * 1e3;
        let differs = rate(0) != rate(1) || now[0].delay != now[1].delay;
        Link {
            name: link.name.clone(),
            from: plan.nodes[link.from].name.clone(),
            to: plan.nodes[link.to].name.clone(),
            rate_bps: rate(0),
            delay_ms: delay(0),
            back: differs.then(|| Back { rate_bps: rate(1), delay_ms: delay(1) }),
            state: match state {
                Some(state) if state.up => "up",
                Some(_) => "cut",
                None if veths_cut.contains(&n) => "cut",
                None if all.is_plain(n) => "plain",
                None if dead => "dead",
                None => "up",
            },
        }
    });
    Ok(Twin {
        name: place.name().to_owned(),
        state: if dead { "dead" } else { "up" },
        driver: record.driver,
        scale: record.scale.clone(),
        hosts: nodes(NodeKind::Host).collect(),
        routers: nodes(NodeKind::Router).collect(),
        links: links.collect(),
    })
}

/// Without those that came before: paths that only marks tell apart have the same address, and need not be neighbours.
fn first_of_each(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

/// For people.
pub(super) fn text(twin: &Twin) -> String {
    let mut text = format!("{}: {}", twin.name, twin.state);
    if twin.scale != "1" {
        write!(text, ", rates × {}", twin.scale).expect("a string takes all");
    }
    text.push('\n');
    let wide = |names: &mut dyn Iterator<Item = &str>| names.map(|name| name.chars().count()).max().unwrap_or(0);
    let hosts = wide(&mut twin.hosts.iter().map(|host| host.name.as_str()));
    for host in &twin.hosts {
        let addresses: Vec<&str> = host.addresses.iter().filter(|a| a.contains('.')).map(String::as_str).collect();
        writeln!(text, "  host {:hosts$}  {}", host.name, addresses.join(" ")).expect("a string takes all");
    }
    let names = wide(&mut twin.links.iter().map(|link| link.name.as_str()));
    let ends: Vec<String> = twin.links.iter().map(|link| format!("{} – {}", link.from, link.to)).collect();
    let between = wide(&mut ends.iter().map(String::as_str));
    for (link, ends) in twin.links.iter().zip(&ends) {
        let rate = link.rate_bps.map_or_else(|| "no limit".to_owned(), |bps| Rate::from_bps(bps).to_string());
        let delay = Span::new(std::time::Duration::from_secs_f64(link.delay_ms / 1e3));
        let line = format!("  link {:names$}  {ends:between$}  {rate:>10}  {delay:>8}  {}", link.name, link.state);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_address_is_shown_once_where_it_came_first() {
        let all = ["10.0.0.1", "10.1.0.1", "10.2.0.1", "10.1.0.1"].map(str::to_owned);
        assert_eq!(first_of_each(all.into_iter()), ["10.0.0.1", "10.1.0.1", "10.2.0.1"]);
    }
}
