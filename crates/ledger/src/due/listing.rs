//! Which sources are listed where.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{HOST_LISTINGS_MAX, STARTS_MAX};
use crate::{Action, Do, Moment, Reason, Seen, State, Thing, Transfer, What};

use super::side;

pub(super) fn listings(state: &State, seen: &Seen, now: Moment, found: &mut Vec<Action>) {
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for host in seen.listings.values() {
        *running.entry(host.as_str()).or_default() += 1;
    }
    // Sources at which nothing more can be listed: of thousands that wait for them only the first is looked at.
    let mut full: BTreeSet<&str> = BTreeSet::new();
    let mut asked = 0;
    for (_, id) in &state.index.to_list {
        let transfer = &state.transfers[id];
        let waits = transfer.sources.iter().all(|source| full.contains(source.endpoint.as_str()));
        if waits || transfer.files != crate::Files::Path || seen.listings.contains_key(id) {
            continue;
        }
        match choose(state, seen, now, transfer, &running) {
            Some((source, host)) => {
                *running.entry(host).or_default() += 1;
                let reason = Reason::new(What::Chosen).about(Thing::Host(host.to_owned()));
                found.push(Action { what: Do::List { transfer: *id, source, host: host.to_owned() }, reason });
                asked += 1;
            }
            None => full.extend(crowded(state, seen, transfer, &running)),
        }
        if asked >= STARTS_MAX {
            return;
        }
    }
}

/// The source and the host that lists the least now.
fn choose<'a>(
    state: &'a State,
    seen: &Seen,
    now: Moment,
    transfer: &Transfer,
    running: &BTreeMap<&str, usize>,
) -> Option<(u8, &'a str)> {
    let listing = |host: &str| running.get(host).copied().unwrap_or(0);
    let sources = (0_u8..).zip(&transfer.sources).filter(|(number, _)| transfer.listing.spent & 1 << number == 0);
    let hosts = sources.flat_map(|(number, source)| {
        let hosts = side(state, seen, now, transfer, source, false).unwrap_or_default();
        hosts.into_iter().map(move |host| (listing(host), number, host))
    });
    let (busy, number, host) = hosts.min()?;
    (busy < HOST_LISTINGS_MAX).then_some((number, host))
}

/// The sources of a transfer all of whose connected hosts list as much as they may, whoever asks.
fn crowded<'a>(
    state: &State,
    seen: &'a Seen,
    transfer: &'a Transfer,
    running: &BTreeMap<&str, usize>,
) -> impl Iterator<Item = &'a str> {
    let room = |host: &String| {
        seen.agents.contains_key(host) && running.get(host.as_str()).copied().unwrap_or(0) < HOST_LISTINGS_MAX
    };
    let full = |name: &&str| !state.endpoints.get(*name).is_some_and(|endpoint| endpoint.hosts.iter().any(room));
    transfer.sources.iter().map(|source| source.endpoint.as_str()).filter(full).collect::<Vec<_>>().into_iter()
}
