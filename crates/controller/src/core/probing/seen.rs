//! What questions over paths show, for those who look.

use std::collections::BTreeSet;

use api::agent::PathState;
use api::rest;
use ledger::cuts::{Asked, suspected};
use ledger::{SessionId, machine};
use model::network::{LinkIndex, Network, NodeIndex};
use tokio::time::Instant;

use super::{Asking, Core};
use crate::core::live::Live;
use crate::core::routes::{Route, directed};
use crate::views::way_id;

impl Core {
    /// All paths that are asked over, in an order that stays: the named ones first.
    pub(crate) fn paths_seen(&self) -> Vec<rest::Path> {
        let Some(world) = &self.world else { return Vec::new() };
        let shown = |(route, asking): (&Route, &Asking)| self.path_seen(&world.network, *route, asking);
        self.probing.routes.iter().map(shown).collect()
    }

    fn path_seen(&self, network: &Network, route: Route, asking: &Asking) -> rest::Path {
        let now = Instant::now();
        let name = match route {
            Route::Named(index) => network.paths.get(index).map(|path| path.name.clone()),
            Route::Usual(..) => None,
        };
        let ends = route.ends(network);
        let [from, to] = ends.map(|node| network.nodes[node].name.clone());
        let [from_address, to_address] = asking.addresses.map(|address| Some(address.ip()));
        rest::Path {
            id: path_id(network, route),
            name,
            from,
            to,
            from_address,
            to_address,
            dscp: asking.marks.dscp,
            flow_label: asking.marks.flow_label,
            links: self.named_links(network, &asking.links, ends[0]),
            state: match asking.state {
                None => rest::PathState::Unknown,
                Some(PathState::Answering) => rest::PathState::Answering,
                Some(PathState::Suspect) => rest::PathState::Suspect,
                Some(PathState::Silent) => rest::PathState::Silent,
            },
            sessions: self.live.values().filter(|live| live.route == Some(route)).count() as u64,
            rtt_us: asking.measured.rtt_us(now),
            loss_ppm: asking.measured.loss_ppm(now),
        }
    }

    /// Round trips of paths that answer, µs: at most so many with a name, and as many others; each with whether its name is of the network.
    pub(crate) fn round_trips(&self, most: usize) -> Vec<(bool, String, u64)> {
        let Some(world) = &self.world else { return Vec::new() };
        let now = Instant::now();
        let round_trip = |(route, asking): (&Route, &Asking)| {
            let rtt = asking.measured.rtt_us(now).filter(|_| asking.state == Some(PathState::Answering))?;
            let is_named = matches!(route, Route::Named(_));
            Some((is_named, path_id(&world.network, *route), rtt.value))
        };
        let of = |is_named: bool| {
            let routes =
                self.probing.routes.iter().filter(move |(route, _)| matches!(route, Route::Named(_)) == is_named);
            routes.filter_map(round_trip).take(most)
        };
        of(true).chain(of(false)).collect()
    }

    /// Links from a node on, in turn, as directions.
    pub(crate) fn named_links(&self, network: &Network, links: &[LinkIndex], from: NodeIndex) -> Vec<String> {
        let ways = directed(network, links, from).unwrap_or_default();
        ways.into_iter().map(|(link, way)| way_id(&network.links[link].name, way)).collect()
    }

    /// Sessions that send from a node over a named path now.
    pub(crate) fn sessions_from(&self, path: usize, from: NodeIndex) -> u64 {
        let Some(world) = &self.world else { return 0 };
        let name = &world.network.nodes[from].name;
        let sends = |id: &SessionId| self.state.sessions.get(id).is_some_and(|session| machine(&session.from) == name);
        let is_on = |(id, live): &(&SessionId, &Live)| live.route == Some(Route::Named(path)) && sends(id);
        self.live.iter().filter(is_on).count() as u64
    }

    /// Links of which one may be cut: nothing that is asked over them is answered any more, and which one it is, is not settled yet.
    pub(crate) fn suspected_links(&self) -> BTreeSet<LinkIndex> {
        let Some(world) = &self.world else { return BTreeSet::new() };
        let paths = self.probing.routes.values();
        let asked: Vec<Asked<'_>> =
            paths.map(|asking| Asked { links: &asking.links, standing: asking.standing() }).collect();
        let down = self.state.links.iter().filter(|(_, trouble)| trouble.up.is_none());
        let down = down.filter_map(|(name, _)| world.network.link(name).ok()).collect();
        suspected(&asked, &down)
    }
}

/// The name of a path: its own, or `usual:a,b` of the usual one between two hosts.
fn path_id(network: &Network, route: Route) -> String {
    let usual = || {
        let [from, to] = route.ends(network).map(|node| network.nodes[node].name.as_str());
        format!("usual:{from},{to}")
    };
    match route {
        Route::Named(index) => network.paths.get(index).map_or_else(usual, |path| path.name.clone()),
        Route::Usual(..) => usual(),
    }
}
