//! Which path a session goes over: of the named ones between its two hosts that addresses or marks bind, and the usual one.
//!
//! Packets between the hosts' own addresses take the usual path: the cheapest of the file of the network. A session has its paths in an
//! order that stays ([`rank`]): that with most room goes first, then what has least in common with it. The first that works is in use; so
//! a session comes back to the path it began with when the hold-down of what was cut is over. Where no path is named the session has the
//! usual one only, and nothing is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use api::agent::{Inventory, PathState, SessionPath, ToAgent};
use api::rest::Time;
use ledger::rates::Better;
use ledger::{End, Moment, Resource, SessionId, TransferId, machine};
use model::network::{LinkIndex, Network, NodeIndex};
use model::scenario::Way;
use units::{Marks, Rate};

use super::live::{Connected, Step};
use super::{Core, World};

/// Paths of a session: the one in use and those that wait.
pub(super) const SESSION_ROUTES_MAX: usize = 4;
/// Usual paths that are remembered; then they are searched for again.
const USUAL_MAX: usize = 65_536;

/// A path between two hosts of the network in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// A named one: index in [`Network::paths`].
    Named(usize),
    /// The usual one between two hosts, the lower index first.
    Usual(NodeIndex, NodeIndex),
}

/// Whether a path may be used, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    /// Nothing is wrong with it.
    Good,
    /// It works again, and something on it is held down.
    Held,
    /// No question over it was ever answered.
    Mute,
    /// Questions over it are not answered any more, or a link on it is down.
    Dead,
}

/// A session that went over to another path.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    /// When.
    pub(crate) at: Moment,
    /// From which path.
    pub(crate) from: Route,
    /// Why.
    pub(crate) why: Why,
}

/// Why a session went over to another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing came back over the one before.
    Cut,
    /// The one that it likes better may be used again.
    Back,
    /// It has more there.
    More(Better),
}

impl Why {
    /// Of the path that was left, in words: `before` is what it is called.
    fn told(self, before: &str) -> String {
        match self {
            Why::Cut => format!("nothing comes back over {before}"),
            Why::Back => format!("it may be used again, after {before}"),
            Why::More(Better { from_bps, to_bps, .. }) => {
                let [from, to] = [from_bps, to_bps].map(Rate::from_bps);
                format!("{to} over this, {from} over {before}")
            }
        }
    }
}

/// What is found of paths once.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The links of usual paths, from the lower index on; `None` where no path leads.
    usual: BTreeMap<(NodeIndex, NodeIndex), Option<Vec<LinkIndex>>>,
    /// Addresses of named paths that nothing else binds: they are no host's own.
    bound: BTreeSet<IpAddr>,
}

impl Known {
    /// Of a network that has just come into force.
    pub(super) fn of(network: &Network) -> Known {
        let by_address = network.paths.iter().filter(|path| path.marks.is_none());
        let bound = by_address.filter_map(|path| path.addresses).flatten().collect();
        Known { usual: BTreeMap::new(), bound }
    }

    /// The links of a path from its one end to its other; `None` if there is none.
    pub(super) fn links(&mut self, network: &Network, route: Route) -> Option<Vec<LinkIndex>> {
        match route {
            Route::Named(index) => network.paths.get(index).map(|path| path.links.clone()),
            Route::Usual(a, b) => {
                if self.usual.len() >= USUAL_MAX {
                    self.usual.clear();
                }
                self.usual.entry((a, b)).or_insert_with(|| network.cheapest_path(a, b)).clone()
            }
        }
    }

    /// A host's own addresses: those of its agent that belong to no named path.
    fn own<'a>(&'a self, inventory: &'a Inventory) -> impl Iterator<Item = IpAddr> + 'a {
        inventory.addresses.iter().map(SocketAddr::ip).filter(|ip| !self.bound.contains(ip))
    }
}

impl Route {
    /// Its two ends.
    pub(super) fn ends(self, network: &Network) -> [NodeIndex; 2] {
        match self {
            Route::Named(index) => network.paths.get(index).map_or([0, 0], |path| [path.from, path.to]),
            Route::Usual(a, b) => [a, b],
        }
    }

    /// What packets carry that take it.
    pub(super) fn marks(self, network: &Network) -> Marks {
        match self {
            Route::Named(index) => network.paths.get(index).map_or(Marks::NONE, |path| path.marks),
            Route::Usual(..) => Marks::NONE,
        }
    }

    /// What it is called.
    pub(crate) fn name(self, network: &Network) -> String {
        match self {
            Route::Named(index) => {
                network.paths.get(index).map_or_else(String::new, |path| format!("path `{}`", path.name))
            }
            Route::Usual(..) => "the usual path".to_owned(),
        }
    }
}

/// The paths between two hosts that a session may take: those that are bound, and the usual one if it takes other links than they.
pub(super) fn between(known: &mut Known, network: &Network, [a, b]: [NodeIndex; 2]) -> Vec<(Route, Vec<LinkIndex>)> {
    let joins = |path: &model::network::Path| [[a, b], [b, a]].contains(&[path.from, path.to]);
    let named = network.paths.iter().enumerate().filter(|(_, path)| path.is_bound() && joins(path));
    let mut all: Vec<_> = named.map(|(index, path)| (Route::Named(index), path.links.clone())).collect();
    let same = |one: &[LinkIndex], other: &[LinkIndex]| one.iter().collect::<BTreeSet<_>>() == other.iter().collect();
    let usual = Route::Usual(a.min(b), a.max(b));
    if let Some(links) = known.links(network, usual)
        && !all.iter().any(|(_, of)| same(of, &links))
    {
        all.push((usual, links));
    }
    all
}

/// What is on the links when sessions get their paths.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Sessions.
    pub(super) on: BTreeMap<LinkIndex, u64>,
    /// Limits from outside on ways of links, b/s.
    pub(super) limits: BTreeMap<(LinkIndex, Way), u64>,
}

impl Load {
    /// What one more session that way would have of a link, b/s.
    fn room(&self, network: &Network, link: LinkIndex, way: Way) -> u128 {
        let link_of = &network.links[link];
        let least = [&link_of.forward, &link_of.backward].into_iter().filter_map(|way| way.rate).min();
        let full = u128::from(link_of.high_water_ppm.unwrap_or(1_000_000));
        let most = least.map_or(u128::MAX, |rate| u128::from(rate.bps()) * full / 1_000_000);
        let limit = self.limits.get(&(link, way)).map_or(u128::MAX, |bps| u128::from(*bps));
        most.min(limit) / u128::from(self.on.get(&link).copied().unwrap_or(0) + 1)
    }

    /// Adds a limit from outside: on both ways of a link, or only on one.
    pub(super) fn limit(&mut self, link: LinkIndex, only: Option<Way>, bps: u64) {
        for way in Way::of(only) {
            self.limits.entry((link, way)).and_modify(|is| *is = bps.min(*is)).or_insert(bps);
        }
    }

    fn add(&mut self, links: Vec<LinkIndex>) {
        links.into_iter().for_each(|link| *self.on.entry(link).or_default() += 1);
    }
}

/// Puts paths into the order in which a session from a host likes them: first that on which it would have most, then those that share least with it:
/// links, and risks. At most [`SESSION_ROUTES_MAX`].
pub(super) fn rank(network: &Network, all: Vec<(Route, Vec<LinkIndex>)>, from: NodeIndex, load: &Load) -> Vec<Route> {
    let part = |links: &[LinkIndex]| {
        let ways = directed(network, links, from).unwrap_or_default();
        ways.into_iter().map(|(link, way)| load.room(network, link, way)).min().unwrap_or(0)
    };
    let cost = |links: &[LinkIndex]| links.iter().map(|link| u64::from(network.links[*link].cost)).sum::<u64>();
    let mut rest: Vec<_> =
        all.into_iter().map(|(route, links)| (u128::MAX - part(&links), cost(&links), route, links)).collect();
    rest.sort();
    let Some(first) = rest.first().map(|(.., links)| links.clone()) else { return Vec::new() };
    let risks: BTreeSet<&String> = first.iter().flat_map(|link| &network.links[*link].risks).collect();
    let common = |links: &[LinkIndex]| {
        let shares = |link: &&LinkIndex| {
            first.contains(link) || network.links[**link].risks.iter().any(|risk| risks.contains(risk))
        };
        links.iter().filter(shares).count()
    };
    rest[1..].sort_by_key(|(.., links)| common(links));
    rest.into_iter().take(SESSION_ROUTES_MAX).map(|(.., route, _)| route).collect()
}

/// The links of a path from one of its ends on, with the way that each is gone.
pub(super) fn directed(network: &Network, links: &[LinkIndex], from: NodeIndex) -> Option<Vec<(LinkIndex, Way)>> {
    let begins = |link: LinkIndex| [network.links[link].from, network.links[link].to].contains(&from);
    let mut links = links.to_vec();
    if links.first().is_some_and(|link| !begins(*link)) {
        links.reverse();
    }
    let mut at = from;
    let step = |link: LinkIndex| {
        let ends = &network.links[link];
        let way = match at {
            _ if at == ends.from => Way::Forward,
            _ if at == ends.to => Way::Backward,
            _ => return None,
        };
        at = network.far_end(link, at);
        Some((link, way))
    };
    links.into_iter().map(step).collect()
}

impl Core {
    /// Whether a path may be used.
    pub(super) fn health(&mut self, world: &World, route: Route) -> Health {
        let state = self.probing.state(route);
        if state == Some(PathState::Suspect) {
            return Health::Dead;
        }
        let Some(links) = self.known.links(&world.network, route) else { return Health::Dead };
        let troubles = links.iter().filter_map(|link| self.state.links.get(&world.network.links[*link].name));
        let worst = troubles
            .filter(|trouble| !trouble.usable)
            .map(|trouble| if trouble.up.is_none() { Health::Dead } else { Health::Held })
            .max();
        let held = self.probing.is_held(route).then_some(Health::Held);
        let mute = (state == Some(PathState::Silent)).then_some(Health::Mute);
        worst.into_iter().chain(held).chain(mute).max().unwrap_or(Health::Good)
    }

    /// Chooses the path of each session anew; drivers are told of those that change.
    pub(super) fn choose_routes(&mut self) {
        let Some(world) = self.world.clone() else { return };
        self.list_routes(&world);
        let mut health: BTreeMap<Route, Health> = BTreeMap::new();
        let routes: BTreeSet<Route> = self.live.values().flat_map(|live| live.routes.iter().copied()).collect();
        for route in routes {
            health.insert(route, self.health(&world, route));
        }
        let now = self.now();
        let mut told: BTreeMap<(TransferId, Route, Route), Vec<Why>> = BTreeMap::new();
        let mut changed = Vec::new();
        for (id, live) in &mut self.live {
            // Of those that are as good the one that is liked best.
            let Some(best) = live.routes.iter().copied().min_by_key(|route| health[route]) else { continue };
            let better = live.better.take();
            let Some(before) = live.route.replace(best).filter(|before| *before != best) else { continue };
            let why = match better {
                _ if health.get(&before) == Some(&Health::Dead) => Why::Cut,
                Some(better) => Why::More(better),
                None => Why::Back,
            };
            live.moved = Some(Moved { at: now, from: before, why });
            changed.push((*id, why == Why::Cut));
            if let Some(session) = self.state.sessions.get(id) {
                told.entry((session.transfer, before, best)).or_default().push(why);
            }
        }
        for (id, is_cut) in changed {
            self.planned.dirty();
            self.tell_route(&world, id, is_cut);
        }
        for ((transfer, before, best), whys) in told {
            let Some(why) = whys.first() else { continue };
            let sessions =
                if whys.len() == 1 { "a session goes".into() } else { format!("{} sessions go", whys.len()) };
            let [best, before] = [best, before].map(|route| route.name(&world.network));
            let text = format!("{sessions} over {best} now: {}", why.told(&before));
            self.shared.events.publish(Time::from_unix_ms(now.0), "transfer_path", &transfer.to_string(), text);
        }
    }

    /// Lists the paths of sessions that have none yet.
    fn list_routes(&mut self, world: &World) {
        let network = &world.network;
        let new: Vec<SessionId> =
            self.live.iter().filter(|(_, live)| live.routes.is_empty()).map(|(id, _)| *id).collect();
        if new.is_empty() {
            return;
        }
        let mut load = Load::default();
        for (resource, limit) in &self.state.limits {
            let (name, only) = match resource {
                Resource::Link(name) => (name, None),
                Resource::Way { link, forward } => (link, Some(if *forward { Way::Forward } else { Way::Backward })),
                Resource::Mark(_) | Resource::Host(_) | Resource::Class(_) => continue,
            };
            network.link(name).into_iter().for_each(|link| load.limit(link, only, limit.rate_bps));
        }
        let in_use: Vec<Route> = self.live.values().filter_map(|live| live.route).collect();
        for route in in_use {
            load.add(self.known.links(network, route).unwrap_or_default());
        }
        for id in new {
            let Some(ends) = self.ends_of(world, id) else { continue };
            let all = between(&mut self.known, network, ends);
            let routes = rank(network, all, ends[0], &load);
            let first = routes.first().and_then(|route| self.known.links(network, *route)).unwrap_or_default();
            load.add(first);
            if let Some(live) = self.live.get_mut(&id) {
                live.routes = routes;
            }
            self.probing.touch();
        }
    }

    /// The hosts of a session in the network: who sends, who receives.
    pub(super) fn ends_of(&self, world: &World, id: SessionId) -> Option<[NodeIndex; 2]> {
        let session = self.state.sessions.get(&id)?;
        let node = |agent: &str| world.network.node(machine(agent)).ok();
        let ends = [node(&session.from)?, node(&session.to)?];
        (ends[0] != ends[1]).then_some(ends)
    }

    /// The addresses of a path at two hosts; `None` if one of them has no agent here, or no address of its own for it.
    pub(super) fn addresses(&self, world: &World, route: Route, [a, b]: [NodeIndex; 2]) -> Option<[IpAddr; 2]> {
        let named = match route {
            Route::Named(index) => Some(world.network.paths.get(index)?),
            Route::Usual(..) => None,
        };
        if let Some(addresses) = named.and_then(|path| path.addresses_from(a)) {
            return Some(addresses);
        }
        let inventory = |node: NodeIndex| {
            let (_, connected) = self.agent_at(&world.network.nodes.get(node)?.name)?;
            Some(&connected.inventory)
        };
        let (a, b) = (inventory(a)?, inventory(b)?);
        let far = |near: IpAddr| self.known.own(b).find(|far| far.is_ipv4() == near.is_ipv4());
        let is_labelled = named.is_some_and(|path| path.marks.flow_label.is_some());
        self.known.own(a).filter(|near| near.is_ipv6() || !is_labelled).find_map(|near| Some([near, far(near)?]))
    }

    /// The addresses that packets of a named path have in the network in force, at two hosts; `None` as [`Core::addresses`].
    pub(crate) fn path_addresses(&self, index: usize, ends: [NodeIndex; 2]) -> Option<[IpAddr; 2]> {
        self.addresses(self.world.as_ref()?, Route::Named(index), ends)
    }

    /// An agent that is connected at a host of the network: the one that is called as the host is, else the first of those that share it. Which of them says
    /// what the host's addresses are, and asks over its paths, is all the same.
    pub(super) fn agent_at(&self, host: &str) -> Option<(&String, &Connected)> {
        let shares = || self.connected.iter().find(|(agent, _)| machine(agent) == host);
        self.connected.get_key_value(host).or_else(shares)
    }

    /// The paths of a session as its driver knows them, the one in use first. `None` if no named one is among them: then all
    /// addresses are used.
    pub(super) fn session_paths(&self, id: SessionId) -> Option<Vec<SessionPath>> {
        let (world, live) = (self.world.as_ref()?, self.live.get(&id).filter(|live| live.is_bound())?);
        let rest = live.routes.iter().copied().filter(|route| Some(*route) != live.route);
        let all = live.route.into_iter().chain(rest);
        let paths: Vec<_> = all.filter_map(|route| self.session_path(world, id, route)).collect();
        (!paths.is_empty()).then_some(paths)
    }

    fn session_path(&self, world: &World, id: SessionId, route: Route) -> Option<SessionPath> {
        let session = self.state.sessions.get(&id)?;
        let [from, to] = self.ends_of(world, id)?;
        let (ends, other) = match session.driver {
            End::Source => ([from, to], &session.to),
            End::Destination => ([to, from], &session.from),
        };
        let [here, there] = self.addresses(world, route, ends)?;
        let inventory = &self.connected.get(other)?.inventory;
        let port = inventory.addresses.iter().find(|to| to.ip() == there).or(inventory.addresses.first())?.port();
        let (to, marks) = (SocketAddr::new(there, port), route.marks(&world.network));
        Some(SessionPath { session: id.0, to, from: Some(here), marks, is_cut: false })
    }

    /// A driver is here again: a session of it may go over another path than it was told, if the controller was away meanwhile. One that uses all
    /// addresses is not led to one of them by that.
    pub(super) fn tell_routes(&mut self, host: &str) {
        let Some(world) = self.world.clone() else { return };
        self.choose_routes();
        let driven = |id: &SessionId| self.state.sessions.get(id).is_some_and(|session| session.driver_host() == host);
        let bound = self.live.iter().filter(|(_, live)| live.is_bound());
        let driven: Vec<SessionId> = bound.map(|(id, _)| *id).filter(driven).collect();
        for id in driven {
            self.tell_route(&world, id, false);
        }
    }

    fn tell_route(&mut self, world: &World, id: SessionId, is_cut: bool) {
        let is_running = self.live.get(&id).is_some_and(|live| live.step == Step::Running);
        let Some(route) = self.live.get(&id).and_then(|live| live.route).filter(|_| is_running) else { return };
        let Some(path) = self.session_path(world, id, route) else { return };
        let Some(driver) = self.state.sessions.get(&id).map(|session| session.driver_host().to_owned()) else { return };
        self.tell(&driver, ToAgent::Path(SessionPath { is_cut, ..path }));
    }

    /// What the planner is to know of a session's path: its links from the sender on. `None` for the cheapest that works.
    pub(super) fn asked_path(&mut self, world: &World, id: SessionId) -> Option<Vec<(LinkIndex, Way)>> {
        let live = self.live.get(&id)?;
        let route = live.route?;
        if !live.is_bound() && self.health(world, route) != Health::Held {
            return None;
        }
        let [from, _] = self.ends_of(world, id)?;
        let links = self.known.links(&world.network, route)?;
        directed(&world.network, &links, from)
    }

    /// Which path a session goes over, and since when if it began with another one. Nothing where there is one only.
    pub(crate) fn told_route(&self, id: SessionId) -> Option<String> {
        let (world, live) = (self.world.as_ref()?, self.live.get(&id).filter(|live| live.routes.len() > 1)?);
        let name = |route: Route| route.name(&world.network);
        let mut text = format!("goes over {}", name(live.route?));
        if let Some(Moved { at, from, why }) = &live.moved {
            let why = match why {
                Why::Cut => "nothing came back over that".to_owned(),
                Why::Back => "it may be used again".to_owned(),
                more @ Why::More(_) => more.told("that"),
            };
            text += &format!(" since {at}, before over {}: {why}", name(*from));
        }
        Some(text)
    }

    /// The transfers with sessions that left a link, or the path that they liked better over it, for another one.
    pub(crate) fn moved_from(&mut self, link: &str) -> BTreeSet<TransferId> {
        let Some(world) = self.world.clone() else { return BTreeSet::new() };
        let Ok(link) = world.network.link(link) else { return BTreeSet::new() };
        let mut over = |route| self.known.links(&world.network, route).is_some_and(|links| links.contains(&link));
        let moved = self.live.iter().filter(|(_, live)| {
            live.moved.as_ref().is_some_and(|moved| moved.why == Why::Cut && over(moved.from))
                && !live.route.is_some_and(&mut over)
        });
        moved.filter_map(|(id, _)| Some(self.state.sessions.get(id)?.transfer)).collect()
    }

    /// The network is another one: what was known of paths is not true any more.
    pub(super) fn forget_routes(&mut self) {
        self.known = self.world.as_ref().map(|world| Known::of(&world.network)).unwrap_or_default();
        self.probing.forget_all();
        for live in self.live.values_mut() {
            (live.routes, live.route, live.moved) = (Vec::new(), None, None);
        }
    }
}

#[cfg(test)]
mod tests;
