//! Questions over paths: who asks whom, what became of it, and which links follow from that.
//!
//! Every path of a session is asked over, in use or not, and so are paths over links that are in trouble, until those may be used again. The
//! first end asks, the other answers. What agents tell counts only while both ends of a path are connected: an agent that has gone is no
//! cut. A path that becomes suspect is left at once; links are named [`SETTLE`] later, when all that go over the same link have had time
//! to become suspect too.

mod measured;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::agent::{PROBES_MAX, PathNews, PathState, Probe, ToAgent};
use ledger::cuts::{Asked, Inference, Standing};
use ledger::machine;
use model::network::{LinkIndex, Network};
use tokio::time::Instant;
use units::Marks;

use measured::Measured;

use super::routes::Route;
use super::{Core, World};

/// Paths that are asked over at once, of all agents.
const ROUTES_MAX: usize = 16_384;
/// How long a path is asked over after its last session.
const LINGER: Duration = Duration::from_secs(30);
/// Between two looks at which paths are to be asked over, besides when sessions come.
const LIST_EACH: Duration = Duration::from_secs(1);
/// From the first suspect until links are named, beside what paths differ in round trips: agents ask each 100 ms, and look each 20.
const SETTLE: Duration = Duration::from_millis(150);
/// Round trips that are waited for more than that of the suspect, at most.
const SETTLE_MORE: Duration = Duration::from_millis(300);
/// Paths over a link in trouble that are asked over, beside those of sessions.
const WATCHED_EACH: usize = 8;
/// Hosts whose usual paths are looked through for one over a link in trouble.
const WATCHED_HOSTS: usize = 32;
/// Paths that evidence names.
const TOLD_MAX: usize = 4;

/// A path that is asked over.
#[derive(Debug)]
struct Asking {
    id: u64,
    key: String,
    /// Who asks, and who answers.
    hosts: [String; 2],
    /// From where to where.
    addresses: [SocketAddr; 2],
    /// What questions and answers carry.
    marks: Marks,
    /// The links that it takes, from who asks on.
    links: Vec<LinkIndex>,
    state: Option<PathState>,
    news: Option<PathNews>,
    measured: Measured,
    /// When it was last of use.
    used: Instant,
    /// It was suspect, and is held down by itself until then.
    held_until: Option<Instant>,
}

/// All that is asked.
#[derive(Debug)]
pub(super) struct Probing {
    routes: BTreeMap<Route, Asking>,
    by_id: BTreeMap<u64, Route>,
    /// What each host was told.
    told: BTreeMap<String, Vec<Probe>>,
    next_id: u64,
    listed: Option<Instant>,
    /// Since when there are suspects that were not looked at.
    suspect_since: Option<Instant>,
    /// When links are to be named.
    name_at: Option<Instant>,
    /// The first hold-down.
    hold: Duration,
}

impl Default for Probing {
    fn default() -> Probing {
        Probing {
            routes: BTreeMap::new(),
            by_id: BTreeMap::new(),
            told: BTreeMap::new(),
            next_id: 1,
            listed: None,
            suspect_since: None,
            name_at: None,
            hold: Duration::from_millis(ledger::limits::HOLD_MS),
        }
    }
}

impl Probing {
    /// What questions over a path say of it.
    pub(super) fn state(&self, route: Route) -> Option<PathState> {
        self.routes.get(&route)?.state
    }

    /// Whether a path was suspect of late without a link that would explain it.
    pub(super) fn is_held(&self, route: Route) -> bool {
        let until = self.routes.get(&route).and_then(|asking| asking.held_until);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Which paths are asked over is to be looked at anew.
    pub(super) fn touch(&mut self) {
        self.listed = None;
    }

    /// How long a link is held down the first time.
    pub(super) fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// The network is another one.
    pub(super) fn forget_all(&mut self) {
        self.routes.clear();
        self.by_id.clear();
        (self.name_at, self.suspect_since, self.listed) = (None, None, None);
    }

    /// An agent came or went: what was known of its paths is not known any more, and answers to old questions are none.
    pub(super) fn forget_host(&mut self, host: &str) {
        self.routes.retain(|_, asking| asking.hosts.iter().all(|of| of != host));
        self.by_id.retain(|_, route| self.routes.contains_key(route));
        self.told.remove(host);
        self.touch();
    }

    /// When links are to be named, if they are.
    pub(super) fn name_at(&self) -> Option<Instant> {
        self.name_at
    }

    /// Smoothed round trip of a path, if it is known.
    fn rtt(&self, route: Route) -> Option<Duration> {
        let news = self.routes.get(&route)?.news?;
        (news.rtt_us > 0).then(|| Duration::from_micros(news.rtt_us))
    }

    /// All paths with how they are.
    fn standing(&self) -> impl Iterator<Item = (Route, Standing)> + '_ {
        self.routes.iter().map(|(route, asking)| (*route, asking.standing()))
    }
}

impl Asking {
    fn standing(&self) -> Standing {
        match self.state {
            Some(PathState::Answering) => Standing::Answering,
            Some(PathState::Suspect) => Standing::Suspect,
            Some(PathState::Silent) | None => Standing::Unknown,
        }
    }
}

impl Core {
    /// What an agent tells of the paths that it asks over.
    pub(super) fn paths_told(&mut self, host: &str, paths: &[PathNews]) {
        let mut changed = false;
        for news in paths.iter().take(PROBES_MAX) {
            let Some(route) = self.probing.by_id.get(&news.path).copied() else { continue };
            let Some(asking) = self.probing.routes.get_mut(&route).filter(|asking| asking.hosts[0] == host) else {
                continue;
            };
            asking.news = Some(*news);
            asking.measured.take(news, Instant::now());
            let before = asking.state.replace(news.state);
            if before == Some(news.state) {
                continue;
            }
            changed = true;
            tracing::info!(?route, from = asking.hosts[0], to = asking.hosts[1], ?before, now = ?news.state, rtt_us = news.rtt_us, "a path has changed");
            if news.state == PathState::Suspect {
                let since = *self.probing.suspect_since.get_or_insert_with(Instant::now);
                self.probing.name_at.get_or_insert(since + SETTLE);
            } else if before == Some(PathState::Suspect) {
                asking.held_until = Some(Instant::now() + self.probing.hold);
            }
        }
        if changed {
            self.links_up();
            self.choose_routes();
        }
    }

    /// Looks at what has become due, each tick.
    pub(super) fn look_at_paths(&mut self) {
        let is_due = self.probing.listed.is_none_or(|last| last.elapsed() >= LIST_EACH);
        if is_due {
            self.list_probes();
            self.choose_routes();
        }
    }

    /// Names what suspects have in common, if it is time to.
    pub(super) fn name_due(&mut self) {
        if self.refused_until.is_none_or(|until| Instant::now() >= until)
            && self.probing.name_at.is_some_and(|at| Instant::now() >= at)
        {
            self.name_cuts();
        }
    }

    /// Names the links that suspects have in common, unless some path over the same links may not have been heard of yet.
    fn name_cuts(&mut self) {
        let Some(world) = self.world.clone() else { return };
        let Some(since) = self.probing.suspect_since else { return };
        let all: Vec<(Route, Standing)> = self.probing.standing().collect();
        let links: Vec<Vec<LinkIndex>> = self.probing.routes.values().map(|asking| asking.links.clone()).collect();
        let more = self.slower(&all, &links);
        if since.elapsed() < SETTLE + more {
            self.probing.name_at = Some(since + SETTLE + more);
            return;
        }
        self.probing.suspect_since = None;
        self.probing.name_at = None;
        let asked: Vec<Asked<'_>> =
            all.iter().zip(&links).map(|((_, standing), links)| Asked { links, standing: *standing }).collect();
        let found = Inference::of(&asked);
        for cut in &found.cuts {
            let names: Vec<&str> = cut.links.iter().map(|link| world.network.links[*link].name.as_str()).collect();
            // A link that is known to be down explains it.
            if names.iter().any(|name| self.state.links.get(*name).is_some_and(|trouble| trouble.up.is_none())) {
                continue;
            }
            let paths: Vec<Route> = cut.paths.iter().map(|path| all[*path].0).collect();
            let evidence = self.evidence(&world.network, &names, &paths);
            for name in names {
                self.link_is_down(name, &evidence);
            }
        }
        for path in found.unexplained {
            let route = all[path].0;
            tracing::warn!(
                path = route.name(&world.network),
                "nothing comes back over a path whose links all work: it is avoided"
            );
        }
        self.choose_routes();
    }

    /// By how much the slowest path over a link of a suspect is slower than the fastest suspect: so much later it may become suspect.
    fn slower(&self, all: &[(Route, Standing)], links: &[Vec<LinkIndex>]) -> Duration {
        let suspects: BTreeSet<LinkIndex> = all
            .iter()
            .zip(links)
            .filter(|((_, standing), _)| *standing == Standing::Suspect)
            .flat_map(|(_, links)| links.iter().copied())
            .collect();
        let rtt = |standing: Standing| {
            let of = all.iter().zip(links).filter(move |((_, is), _)| *is == standing);
            let over = of.filter(|(_, links)| links.iter().any(|link| suspects.contains(link)));
            over.filter_map(|((route, _), _)| self.probing.rtt(*route)).collect::<Vec<_>>()
        };
        let fastest = rtt(Standing::Suspect).into_iter().min().unwrap_or_default();
        let slowest = rtt(Standing::Answering).into_iter().max().unwrap_or_default();
        slowest.saturating_sub(fastest).min(SETTLE_MORE)
    }

    /// In words: what is not answered, and since when.
    fn evidence(&self, network: &Network, links: &[&str], paths: &[Route]) -> String {
        let mut told: Vec<String> = Vec::new();
        for route in paths.iter().take(TOLD_MAX) {
            let Some(asking) = self.probing.routes.get(route) else { continue };
            let [from, to] = &asking.hosts;
            told.push(format!("{} from `{from}` to `{to}`", route.name(network)));
        }
        if paths.len() > TOLD_MAX {
            told.push(format!("{} more", paths.len() - TOLD_MAX));
        }
        let one_of = match links {
            [_] => String::new(),
            several => {
                let named: Vec<String> = several.iter().take(2 * TOLD_MAX).map(|link| format!("`{link}`")).collect();
                format!("one of {} is down, and no path tells them apart: ", named.join(", "))
            }
        };
        format!(
            "{one_of}three questions in a row were not answered over {}; nothing that is answered goes over it",
            told.join(", ")
        )
    }

    fn link_is_down(&mut self, link: &str, evidence: &str) {
        let hold_ms = u64::try_from(self.probing.hold.as_millis()).unwrap_or(u64::MAX);
        match ledger::wish::link_down(&self.state, link, evidence, hold_ms) {
            Ok(events) => {
                for event in events {
                    self.record_own(event);
                }
                self.probing.touch();
            }
            Err(refusal) => tracing::error!(%refusal, link, "a link that is down cannot be noted"),
        }
    }

    /// Links that are known to be down and are answered over are up.
    fn links_up(&mut self) {
        if self.state.links.values().all(|trouble| trouble.up.is_some()) {
            return;
        }
        let Some(world) = self.world.clone() else { return };
        let answering: Vec<Route> = self
            .probing
            .standing()
            .filter(|(_, standing)| *standing == Standing::Answering)
            .map(|(route, _)| route)
            .collect();
        let mut working = BTreeSet::new();
        for route in answering {
            working.extend(self.known.links(&world.network, route).unwrap_or_default());
        }
        for link in working {
            for event in ledger::wish::link_up(&self.state, &world.network.links[link].name) {
                self.record_own(event);
                self.planned.dirty();
            }
        }
    }

    /// Looks which paths are to be asked over, and tells agents what has changed for them.
    fn list_probes(&mut self) {
        let now = Instant::now();
        self.probing.listed = Some(now);
        let Some(world) = self.world.clone() else { return };
        let mut wanted: BTreeSet<Route> = self.live.values().flat_map(|live| live.routes.iter().copied()).collect();
        wanted.extend(self.watched(&world));
        for route in wanted {
            self.ask_over(&world, route, now);
        }
        let keep = |asking: &Asking| now.duration_since(asking.used) < LINGER;
        self.probing.routes.retain(|_, asking| keep(asking));
        let routes = &self.probing.routes;
        self.probing.by_id.retain(|_, route| routes.contains_key(route));
        self.tell_probes();
    }

    /// Paths over links in trouble.
    fn watched(&mut self, world: &World) -> BTreeSet<Route> {
        let network = &world.network;
        let in_trouble: Vec<LinkIndex> = self
            .state
            .links
            .iter()
            .filter(|(_, trouble)| !trouble.usable)
            .filter_map(|(name, _)| network.link(name).ok())
            .collect();
        let mut found = BTreeSet::new();
        for link in in_trouble {
            let known: Vec<Route> = self.probing.routes.keys().copied().collect();
            let over = known
                .into_iter()
                .filter(|route| self.known.links(network, *route).is_some_and(|links| links.contains(&link)));
            let before = over.take(WATCHED_EACH).collect::<Vec<_>>();
            let named = network.paths.iter().enumerate().filter(|(_, path)| {
                let here = |node: usize| self.agent_at(&network.nodes[node].name).is_some();
                path.is_bound() && path.links.contains(&link) && here(path.from) && here(path.to)
            });
            let named: Vec<Route> = named.map(|(index, _)| Route::Named(index)).take(WATCHED_EACH).collect();
            if before.is_empty() && named.is_empty() {
                found.extend(self.usual_over(network, link));
            }
            found.extend(before.into_iter().chain(named));
        }
        found
    }

    /// Usual paths over a link, of hosts that are connected.
    fn usual_over(&mut self, network: &Network, link: LinkIndex) -> Vec<Route> {
        let nodes: BTreeSet<usize> =
            self.connected.keys().filter_map(|agent| network.node(machine(agent)).ok()).collect();
        let hosts: Vec<usize> = nodes.into_iter().take(WATCHED_HOSTS).collect();
        let mut found = Vec::new();
        for (n, a) in hosts.iter().enumerate() {
            for b in &hosts[n + 1..] {
                let route = Route::Usual(*a.min(b), *a.max(b));
                if found.len() < WATCHED_EACH
                    && self.known.links(network, route).is_some_and(|links| links.contains(&link))
                {
                    found.push(route);
                }
            }
        }
        found
    }

    /// Asks over a path from now on, if both its hosts can.
    fn ask_over(&mut self, world: &World, route: Route, now: Instant) {
        let ends = route.ends(&world.network);
        let Some(ips) = self.addresses(world, route, ends) else { return };
        let [Some(near), Some(far)] = ends.map(|end| self.agent_at(&world.network.nodes[end].name)) else { return };
        let hosts = [near, far].map(|(agent, _)| agent.clone());
        let [Some(near), Some(far)] = [near, far].map(|(_, connected)| connected.inventory.probe_port) else { return };
        let addresses = [SocketAddr::new(ips[0], near), SocketAddr::new(ips[1], far)];
        if let Some(asking) = self.probing.routes.get_mut(&route).filter(|asking| asking.addresses == addresses) {
            asking.used = now;
            return;
        }
        if self.probing.routes.len() >= ROUTES_MAX {
            return;
        }
        let mut key = [0; 32];
        if let Err(error) = sys::random::fill(&mut key) {
            tracing::warn!(%error, "no random bytes: a path is not asked over");
            return;
        }
        let id = self.probing.next_id;
        self.probing.next_id += 1;
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let links = self.known.links(&world.network, route).unwrap_or_default();
        let (marks, measured) = (route.marks(&world.network), Measured::since(now));
        let asking = Asking {
            id,
            key,
            hosts,
            addresses,
            marks,
            links,
            state: None,
            news: None,
            measured,
            used: now,
            held_until: None,
        };
        self.probing.routes.insert(route, asking);
        self.probing.by_id.insert(id, route);
        let routes = &self.probing.routes;
        self.probing.by_id.retain(|id, route| routes.get(route).is_some_and(|asking| asking.id == *id));
    }

    /// Tells each agent its paths, if they are others than those that it was told last.
    fn tell_probes(&mut self) {
        let mut lists: BTreeMap<String, Vec<Probe>> =
            self.connected.keys().map(|host| (host.clone(), Vec::new())).collect();
        for asking in self.probing.routes.values() {
            let room = |host: &String| lists.get(host).is_some_and(|list| list.len() < PROBES_MAX);
            if !asking.hosts.iter().all(room) {
                continue;
            }
            for (end, host) in asking.hosts.iter().enumerate() {
                let (here, there): (IpAddr, SocketAddr) = (asking.addresses[end].ip(), asking.addresses[1 - end]);
                let (key, marks) = (asking.key.clone(), asking.marks);
                let probe = Probe { path: asking.id, key, here, there, asks: end == 0, marks };
                lists.entry(host.clone()).or_default().push(probe);
            }
        }
        self.probing.told.retain(|host, _| lists.contains_key(host));
        for (host, list) in lists {
            if self.probing.told.get(&host).map_or(&[][..], Vec::as_slice) != list {
                self.probing.told.insert(host.clone(), list.clone());
                self.tell(&host, ToAgent::Probes { probes: list });
            }
        }
    }
}
