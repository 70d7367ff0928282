//! Rates: planned when something changed, sent as leases.
//!
//! The planner works on a thread of its own, with a copy of what it needs, so that thousands of sessions hold up nobody; what changes
//! meanwhile is planned next. It rests as long as it worked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ledger::lease::Leases;
use ledger::rates::{Asked, LEAD_NS, Left, Limited, Rates, Situation};
use ledger::{Event, LinkTrouble, Mode, Resource, Session, SessionId, State, machine};
use model::scenario::Way;
use model::shares::{Shares, Used};
use plan::allot::Snapshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use units::{Bytes, Rate};

use super::live::Step;
use super::{Core, World};
use crate::planning::{KEPT_EACH, Planning};

/// What changes is put together for so long before it is planned.
const GATHER: Duration = Duration::from_millis(50);
/// Planned anew after so long in any case: what classes used changes weights.
const ANEW: Duration = Duration::from_secs(10);
/// Between two looks at which leases are to be sent: acknowledgements come one by one.
const STEP: Duration = Duration::from_millis(10);
/// Bookings and marks that hold with nobody in charge: what is booked for so long ahead, ns. Agents that hear of nobody for longer than that
/// know nothing of what is booked later.
const ALONE_NS: i64 = 600 * 1_000_000_000;
/// Where nothing is to come.
const LONG: Duration = Duration::from_secs(3600);

/// A question to the planner, with its sessions in the order of its flows.
pub(crate) type Question = (Snapshot, Vec<Asked>);

/// What the planner made of a question.
pub(crate) struct Made {
    question: Question,
    booked: Vec<Left>,
    rates: Result<Rates, String>,
    /// To be kept, if it is time.
    keep: Option<Planning>,
}

/// The last planning, and the leases on their way to it.
#[derive(Default)]
pub(crate) struct Planned {
    /// Leases of all sessions.
    pub(crate) leases: Leases,
    /// The last question that was answered.
    pub(crate) question: Option<Arc<Question>>,
    /// Its answer.
    pub(crate) rates: Rates,
    /// What bookings left then.
    pub(crate) booked: Vec<Left>,
    /// When they leave something else.
    booked_until: Option<units::Moment>,
    /// To be kept when this turn is durable.
    to_keep: Option<Planning>,
    /// What the planner is at rests on what is in the log.
    keeps: bool,
    /// When one was kept last.
    kept: Option<Instant>,
    /// Since when something has changed.
    changed: Option<Instant>,
    last: Option<Instant>,
    /// The planner at work.
    working: Option<JoinHandle<Made>>,
    /// Until when it rests.
    rests: Option<Instant>,
    /// Something has changed that leases follow from.
    stirred: bool,
    stepped: Option<Instant>,
    /// The network or its shares are to be read again.
    world_changed: bool,
}

impl Planned {
    /// Something has changed that rates follow from.
    pub(crate) fn dirty(&mut self) {
        self.changed.get_or_insert_with(Instant::now);
    }

    /// Leases may be due that were not.
    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// The log did not take what this turn recorded, which the planner may have been asked with.
    pub(super) fn keep_none(&mut self) {
        (self.to_keep, self.keeps) = (None, false);
    }

    /// What the planner says; for ever where it is not asked. It may be given up and waited for again.
    pub(super) async fn answer(&mut self) -> Result<Made, JoinError> {
        match &mut self.working {
            Some(working) => working.await,
            None => std::future::pending().await,
        }
    }

    /// A session is over.
    pub(super) fn end(&mut self, id: SessionId) {
        self.leases.end(id.0);
        self.dirty();
        self.stir();
    }

    /// Notes what an event changes.
    pub(super) fn touch(&mut self, event: &Event) {
        match event {
            Event::NetworkSet { .. } | Event::SharesSet { .. } | Event::BookingsSet { .. } => {
                self.world_changed = true;
                self.dirty();
            }
            Event::LimitSet { .. }
            | Event::LimitLifted { .. }
            | Event::LinkDown { .. }
            | Event::LinkUp { .. }
            | Event::LinkUsable { .. }
            | Event::LinkForgotten { .. }
            | Event::AgentDecided { .. }
            | Event::Reclassed { .. }
            | Event::UrgencySet { .. } => self.dirty(),
            _ => {}
        }
    }
}

impl Core {
    /// When rates are to be looked at again, if nothing else happens before.
    pub(super) fn rates_due(&self) -> Instant {
        let planned = &self.planned;
        let step = planned.stepped.filter(|_| planned.stirred && !self.live.is_empty()).map(|at| at + STEP);
        [self.plan_due(), step].into_iter().flatten().min().unwrap_or_else(|| Instant::now() + LONG)
    }

    /// When it is to be planned; `None` while the planner works, or nothing asks for it.
    fn plan_due(&self) -> Option<Instant> {
        let planned = &self.planned;
        if planned.working.is_some() {
            return None;
        }
        if planned.booked_until.is_some_and(|until| until <= nanos(self.now())) {
            return Some(Instant::now());
        }
        let anew = || planned.last.map_or_else(Instant::now, |last| last + ANEW);
        let anew = (!self.live.is_empty()).then(anew);
        let changed = planned.changed.map(|since| since + GATHER).into_iter().chain(anew).min()?;
        Some(planned.rests.map_or(changed, |rests| rests.max(changed)))
    }

    /// Plans if something changed or a booking begins or ends, and sends what leases are due.
    pub(super) fn lease(&mut self, is_tick: bool) {
        if std::mem::take(&mut self.planned.world_changed) {
            self.read_world();
        }
        if self.plan_due().is_some_and(|at| at <= Instant::now()) {
            self.plan();
        }
        let is_due = self.planned.stirred && self.planned.stepped.is_none_or(|at| at.elapsed() >= STEP);
        if self.live.is_empty() || !(is_tick || is_due) {
            return;
        }
        (self.planned.stirred, self.planned.stepped) = (false, Some(Instant::now()));
        let now = self.clock.steady_ms();
        if self.generations.1.saturating_sub(self.generations.0) < self.live.len() as u64 * 4 + 1024 {
            self.reserve_generations();
        }
        let (state, connected) = (&self.state, &self.connected);
        let reached = |id: u64| {
            let driver = state.sessions.get(&SessionId(id)).map(Session::driver_host);
            driver.is_some_and(|host| connected.contains_key(host))
        };
        let (next, below) = &mut self.generations;
        let grants = self.planned.leases.step(now, reached, || {
            // There are always more than one step can use.
            *next = (*next + 1).min(*below);
            *next - 1
        });
        for grant in grants {
            self.send_lease(&grant);
        }
    }

    /// A session that is ready begins when there is something for it; that it waits is no silence of its agents.
    pub(super) fn hear_of_waiting(&mut self) {
        let is_ready = |live: &super::live::Live| matches!(live.step, Step::Ready { .. });
        let waiting = self.live.iter().filter(|(_, live)| is_ready(live)).map(|(id, _)| *id);
        for id in waiting.collect::<Vec<_>>() {
            self.heard_of(id);
        }
    }

    fn reserve_generations(&mut self) {
        let (range, events) = ledger::wish::reserve_generations(&self.state);
        if events.into_iter().all(|event| self.record_own(event)) {
            // Of numbers that the log did not take some may have been used here, though no agent has seen them.
            self.generations = (range.start.max(self.generations.0), range.end.max(self.generations.0));
        }
    }

    /// Asks the planner who gets what.
    fn plan(&mut self) {
        self.planned.changed = None;
        self.planned.last = Some(Instant::now());
        self.planned.booked_until = None;
        let Some(world) = self.world.clone() else { return };
        let now = nanos(self.now());
        let booked = world.booked.at(now);
        self.planned.booked_until = world.booked.change_after(now);
        self.choose_routes();
        let mut asked = self.asked(&world);
        for session in &mut asked {
            session.path = self.asked_path(&world, SessionId(session.session));
        }
        let down = self.down(&world, &asked);
        let limits = self.limits(&world);
        let mut shares = used_shares(&world.shares, &self.state, now);
        let alone = self.alone(&world, &shares, now);
        self.fix_flexible(&world, &mut shares);
        let is_due = !asked.is_empty() && self.planned.kept.is_none_or(|kept| kept.elapsed() >= KEPT_EACH);
        // What this turn recorded so far is part of the question.
        let after = is_due.then(|| self.stores.log.next() - 1 + self.batch.len() as u64);
        self.planned.keeps = is_due;
        self.planned.working = Some(tokio::task::spawn_blocking(move || {
            let situation = Situation {
                network: &world.network,
                shares: &shares,
                down: &down,
                limits: &limits,
                booked: &booked,
                sessions: &asked,
            };
            let snapshot = situation.snapshot();
            let rates = snapshot.allot().map(|outcome| Rates::from_outcome(&outcome, &asked));
            let rates = rates.map_err(|error| error.to_string());
            let rates = rates.and_then(|rates| match &alone {
                None => Ok(rates),
                Some((booked, shares)) => {
                    let worse = Situation { shares, booked, ..situation };
                    let worse = Rates::of(&worse).map_err(|error| error.to_string())?;
                    Ok(rates.alone(&worse))
                }
            });
            let keep = after.zip(rates.as_ref().ok());
            let keep = keep.and_then(|(after, rates)| Planning::of(after, now, &world.shares, &situation, rates));
            Made { question: (snapshot, asked), booked, rates, keep }
        }));
    }

    /// What is to hold with nobody in charge, where that is less than now: all that is booked within [`ALONE_NS`], and flexible marks at their
    /// least, for nobody says what others send then.
    fn alone(&self, world: &World, shares: &Shares, now: units::Moment) -> Option<(Vec<Left>, Shares)> {
        let soon = self.planned.booked_until.is_some_and(|at| at <= now.saturating_add(ALONE_NS));
        let flexible = |mark: &model::shares::Mark| matches!(mark.most, model::shares::Most::Flexible(_));
        if !soon && !shares.marks.iter().any(flexible) {
            return None;
        }
        let mut shares = shares.clone();
        for mark in &mut shares.marks {
            if let model::shares::Most::Flexible(flexible) = mark.most {
                mark.most = model::shares::Most::Rate(flexible.least);
            }
        }
        Some((world.booked.ahead(now, ALONE_NS), shares))
    }

    /// The planner has answered.
    pub(super) fn take_plan(&mut self, made: Result<Made, JoinError>) {
        self.planned.working = None;
        let took = self.planned.last.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.planned.rests = Some(Instant::now() + took);
        let made = made.map_err(|error| error.to_string());
        match made.and_then(|Made { question, booked, rates, keep }| Ok((question, booked, rates?, keep))) {
            Ok((question, booked, rates, keep)) => {
                tracing::debug!(sessions = question.1.len(), ?took, "planned");
                self.planned.leases.aim(&rates);
                let (steady, now) = (self.clock.steady_ms(), nanos(self.now()));
                let less_at = self.planned.booked_until.map(|at| {
                    // With somebody in charge the new rates are there by then.
                    let ahead = at.saturating_add(LEAD_NS).saturating_sub(now).max(0).unsigned_abs() / 1_000_000;
                    steady.saturating_add(ahead)
                });
                self.planned.leases.foresee(less_at);
                (self.planned.rates, self.planned.booked) = (rates, booked);
                self.planned.question = Some(Arc::new(question));
                self.planned.to_keep = keep.filter(|_| self.planned.keeps);
                self.planned.stir();
                self.balance.ask();
            }
            Err(error) => {
                tracing::error!(error, "the planner cannot divide the network: rates stay as they are");
            }
        }
    }

    /// Keeps the planning of this turn, for `replay --verify`; what it rests on is in the log now.
    pub(super) fn keep_planning(&mut self) {
        let Some(planning) = self.planned.to_keep.take() else { return };
        self.planned.kept = Some(Instant::now());
        let bytes = serde_json::to_vec(&planning).expect("it is plain data");
        self.stores.archive.keep_planning(planning.after, bytes);
    }

    /// The sessions that are to have a rate.
    fn asked(&self, world: &World) -> Vec<Asked> {
        let node = |agent: &str| world.network.nodes.iter().position(|node| node.name == machine(agent));
        let nodes: BTreeMap<&str, usize> =
            self.state.agents.keys().filter_map(|host| Some((host.as_str(), node(host)?))).collect();
        let class = |name: &str| world.shares.classes.iter().position(|class| class.name == name);
        let ask = |(id, live): (&SessionId, &super::live::Live)| {
            if live.step == Step::Preparing {
                return None;
            }
            let session = self.state.sessions.get(id)?;
            let transfer = self.state.transfers.get(&session.transfer)?;
            let (from, to) = (*nodes.get(session.from.as_str())?, *nodes.get(session.to.as_str())?);
            Some(Asked {
                session: id.0,
                leg: (session.transfer.0, session.leg.into()),
                class: class(&transfer.class)?,
                from,
                to,
                urgent: transfer.urgency > 0,
                most_bps: self.most_bps(session, live),
                bytes: None,
                path: None,
            })
        };
        self.live.iter().filter_map(ask).filter(|asked| asked.from != asked.to).collect()
    }

    /// What a session could use at most.
    fn most_bps(&self, session: &Session, live: &super::live::Live) -> Option<u64> {
        let is_paused = |host: &String| self.state.agents.get(host).is_some_and(|agent| agent.mode() == Mode::Paused);
        if is_paused(&session.from) || is_paused(&session.to) {
            return Some(0);
        }
        let of_host = |host: &String| {
            let inventory = &self.connected.get(host)?.inventory;
            let transfer = self.state.transfers.get(&session.transfer)?;
            let grants = inventory
                .grants
                .iter()
                .filter(|grant| grant.collaboration == "*" || grant.collaboration == transfer.collaboration);
            let granted = grants.map(|grant| grant.rate_bps).try_fold(0, |most: u64, rate| Some(most.max(rate?)));
            inventory.rate_bps.into_iter().chain(granted.filter(|rate| *rate > 0)).min()
        };
        let bounds = [of_host(&session.from), of_host(&session.to), live.demand.estimate().map(|could| could.high)];
        bounds.into_iter().flatten().min()
    }

    /// Links that are down, and those held down but for what sessions have no other path than over them.
    fn down(&self, world: &World, asked: &[Asked]) -> BTreeSet<usize> {
        let used: BTreeSet<&str> = asked
            .iter()
            .flat_map(|asked| asked.path.iter().flatten())
            .map(|(link, _)| world.network.links[*link].name.as_str())
            .collect();
        let works = |name: &str, link: &LinkTrouble| link.usable || (link.up.is_some() && used.contains(name));
        let down = self.state.links.iter().filter(|(name, link)| !works(name, link));
        down.filter_map(|(name, _)| world.network.links.iter().position(|link| link.name == *name)).collect()
    }

    /// Limits from outside that are on something that is there, and what hosts have for all their sessions.
    fn limits(&self, world: &World) -> Vec<(Limited, Rate)> {
        let node = |host: &str| world.network.nodes.iter().position(|node| node.name == host);
        let link = |name: &str| world.network.links.iter().position(|link| link.name == *name);
        let of = |resource: &Resource| match resource {
            Resource::Link(name) => link(name).map(Limited::Link),
            Resource::Way { link: name, forward } => {
                let way = if *forward { Way::Forward } else { Way::Backward };
                link(name).map(|link| Limited::Way(link, way))
            }
            Resource::Mark(name) => world.shares.marks.iter().position(|mark| mark.name == *name).map(Limited::Mark),
            Resource::Host(name) => node(name).map(Limited::Host),
            Resource::Class(name) => {
                world.shares.classes.iter().position(|class| class.name == *name).map(Limited::Class)
            }
        };
        let limits = self.state.limits.iter();
        let mut least: BTreeMap<Limited, u64> = BTreeMap::new();
        let mut lower = |of: Option<Limited>, bps: Option<u64>| {
            let Some((of, bps)) = of.zip(bps) else { return };
            least.entry(of).and_modify(|is| *is = bps.min(*is)).or_insert(bps);
        };
        limits.for_each(|(resource, limit)| lower(of(resource), Some(limit.rate_bps)));
        for (host, connected) in &self.connected {
            let Some(node) = node(machine(host)) else { continue };
            lower(Some(Limited::Host(node)), connected.inventory.each_way_bps());
            lower(Some(Limited::Cores(node)), connected.inventory.cores_bps);
        }
        least.into_iter().map(|(of, bps)| (of, Rate::from_bps(bps))).collect()
    }
}

/// The shares with what classes have used by now. Of all that they moved only if the file says after which time that counts half: weights are what
/// the file says else. Of budgets for urgent work what their urgent transfers drew.
fn used_shares(shares: &Shares, state: &State, now: units::Moment) -> Shares {
    let mut shares = shares.clone();
    shares.now = Some(now);
    for class in &mut shares.classes {
        if let Some(usage) = state.usage.get(&class.name).filter(|_| shares.half_life_said) {
            let as_of = Some(nanos(usage.as_of));
            class.used = Some(Used { bytes: Bytes::new(usage.recent_bytes), as_of });
        }
        if let Some(urgent) = &mut class.urgent
            && let Some((used, as_of)) = state.urgent.get(&class.name).and_then(|used| used.of(urgent.budget.get()))
        {
            (urgent.used, urgent.as_of) = (Bytes::new(used), Some(nanos(as_of)));
        }
    }
    shares
}

/// A moment as networks and bookings have it, in ns of Unix time.
fn nanos(at: ledger::Moment) -> units::Moment {
    units::Moment::try_from(at.0).unwrap_or(units::Moment::MAX).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests;
