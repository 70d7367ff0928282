//! Load balance: a session that would have clearly more over another path of its own goes over to it.
//!
//! Which would is asked of the planner ([`ledger::rates::better`]) on a thread beside the core, 2 s after the last look at the earliest. Who is found in two looks in a
//! row moves; who moved stays for 30 s. So a limit from outside, a mark that falls or a crowd on one path is answered within some 5 s, and
//! nothing goes back and forth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::agent::PathState;
use ledger::SessionId;
use ledger::rates::{Better, Links, better};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::live::{Live, Step};
use super::routes::{Health, Route, directed};
use super::{Core, World};

/// From one look to the next.
const EACH: Duration = Duration::from_secs(2);
/// The planner may work on looks for one part in so many of the time.
const PARTS: u32 = 5;
/// A session that has run for less is not looked at: what it has is not settled.
const SETTLED: Duration = Duration::from_secs(3);
/// A session that moved stays for so long, unless its path is cut.
const STAYS: Duration = Duration::from_secs(30);

/// Who would have more, with the path.
type Found = Vec<(Better, Route)>;

/// The looks at who would be better off elsewhere.
#[derive(Default)]
pub(super) struct Balance {
    /// The planner at work.
    working: Option<JoinHandle<Found>>,
    last: Option<Instant>,
    /// How long the last took.
    took: Duration,
    /// There is a new planning, or a finding to be confirmed.
    is_asked: bool,
    /// Found in the last look.
    found: BTreeSet<(SessionId, Route)>,
}

impl Balance {
    /// There is a new planning.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    /// When it is to be looked; `None` if nothing asks for it.
    pub(super) fn due(&self) -> Option<Instant> {
        let asked = self.is_asked && self.working.is_none();
        asked.then(|| self.last.map_or_else(Instant::now, |last| last + EACH.max(self.took * PARTS)))
    }

    /// What the planner found; for ever where it is not asked. It may be given up and waited for again.
    pub(super) async fn answer(&mut self) -> Result<Found, JoinError> {
        match &mut self.working {
            Some(working) => working.await,
            None => std::future::pending().await,
        }
    }
}

/// Whether a session has run for long enough, and not moved of late.
fn is_settled(live: &Live) -> bool {
    let stays = live.balanced.is_some_and(|at| at.elapsed() < STAYS);
    live.step == Step::Running && live.since.elapsed() >= SETTLED && !stays
}

impl Core {
    /// Looks if it is time.
    pub(super) fn look_for_better(&mut self) {
        if self.balance.due().is_none_or(|at| at > Instant::now()) {
            return;
        }
        (self.balance.is_asked, self.balance.last) = (false, Some(Instant::now()));
        let Some((world, question)) = self.world.clone().zip(self.planned.question.clone()) else { return };
        let routes = self.other_routes(&world);
        // Those that have only just begun are looked at later.
        self.balance.is_asked = self.live.values().any(|live| live.routes.len() > 1 && !is_settled(live));
        if routes.is_empty() {
            self.balance.found.clear();
            return;
        }
        let rates = self.planned.rates.clone();
        self.balance.working = Some(tokio::task::spawn_blocking(move || {
            let (snapshot, asked) = &*question;
            let links = |of: &Vec<(Route, Links)>| of.iter().map(|(_, links)| links.clone()).collect();
            let others = routes.iter().map(|(session, of)| (*session, links(of))).collect();
            let found = better(snapshot, asked, &rates, &others);
            found.into_iter().map(|better| (better, routes[&better.session][better.path].0)).collect()
        }));
    }

    /// The planner has found some, or none.
    pub(super) fn take_better(&mut self, found: Result<Found, JoinError>) {
        self.balance.working = None;
        self.balance.took = self.balance.last.map_or(Duration::ZERO, |begun| begun.elapsed());
        let found = found.unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "nobody looks for better paths this time");
            Vec::new()
        });
        let before = std::mem::take(&mut self.balance.found);
        for (better, route) in found {
            let id = SessionId(better.session);
            if !before.contains(&(id, route)) {
                self.balance.found.insert((id, route));
                self.balance.is_asked = true;
                continue;
            }
            let Some(live) = self.live.get_mut(&id) else { continue };
            if let Some(at) = live.routes.iter().position(|of| *of == route) {
                live.routes[..=at].rotate_right(1);
                (live.better, live.balanced) = (Some(better), Some(Instant::now()));
                self.planned.dirty();
            }
        }
    }

    /// The paths that sessions do not use and could: answered over, nothing on them in trouble.
    fn other_routes(&mut self, world: &World) -> BTreeMap<u64, Vec<(Route, Links)>> {
        let settled = self.live.iter().filter(|(_, live)| live.routes.len() > 1 && is_settled(live));
        let settled: Vec<_> = settled.filter_map(|(id, live)| Some((*id, live.route?, live.routes.clone()))).collect();
        let mut health: BTreeMap<Route, bool> = BTreeMap::new();
        let mut others = BTreeMap::new();
        for (id, in_use, routes) in settled {
            let Some([from, _]) = self.ends_of(world, id) else { continue };
            let mut of = Vec::new();
            for route in routes.into_iter().filter(|route| *route != in_use) {
                let works = *health.entry(route).or_insert_with(|| {
                    self.probing.state(route) == Some(PathState::Answering) && self.health(world, route) == Health::Good
                });
                let links = self.known.links(&world.network, route).filter(|_| works);
                of.extend(links.and_then(|links| directed(&world.network, &links, from)).map(|links| (route, links)));
            }
            if !of.is_empty() {
                others.insert(id.0, of);
            }
        }
        others
    }
}
