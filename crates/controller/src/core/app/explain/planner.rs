//! The last question to the planner, asked again for its reasons. Pure: no core, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::rest::{self, Assurance, Explanation, Holder};
use ledger::rates::{Asked, Hold, Left, entered, left_by, limits_on};
use ledger::{Limit, Resource, SessionId};
use model::scenario::Way;
use plan::allot::{Held, Of, Outcome, Remedy, Snapshot};
use plan::share::{RATE_MAX, ResourceId};
use plan::usage::FACTOR_ONE;

use crate::core::{Core, Question};
use crate::views::{self, Enforced};

/// Different reasons that are told of the sessions of a transfer; remedies are sought for each.
const REASONS_MAX: usize = 4;
/// Holders of a resource that are told.
const HOLDERS_MAX: usize = 100;
/// Other resources that would do as well, told of a remedy.
const ALSO_TOLD_MAX: usize = 4;

/// What is to be found out.
pub(super) enum Asks {
    /// Of these sessions.
    Sessions(Vec<SessionId>),
    /// Of a class and those in it.
    Class(String),
}

/// A question with what it is about.
pub(super) struct Planner {
    question: Arc<Question>,
    booked: Vec<Left>,
    /// Limits from outside that are in force.
    limits: BTreeMap<Resource, Limit>,
    enforced: Enforced,
    asks: Asks,
}

impl Planner {
    /// The last question; `None` if there was none.
    pub(super) fn of(core: &Core, asks: Asks) -> Option<Planner> {
        let question = core.planned.question.clone()?;
        let (booked, limits) = (core.planned.booked.clone(), core.state.limits.clone());
        Some(Planner { question, booked, limits, enforced: Enforced::now(core), asks })
    }

    fn snapshot(&self) -> &Snapshot {
        &self.question.0
    }

    fn asked(&self) -> &[Asked] {
        &self.question.1
    }

    /// Adds what the planner says.
    pub(super) fn complete(self, mut told: Explanation) -> Explanation {
        match self.snapshot().allot() {
            Ok(outcome) => match &self.asks {
                Asks::Sessions(sessions) => self.sessions(&outcome, sessions, &mut told),
                Asks::Class(name) => self.class(&outcome, name, &mut told),
            },
            Err(error) => told.text += &format!("; the planner cannot say more: {error}"),
        }
        told
    }

    fn sessions(&self, outcome: &Outcome<'_>, sessions: &[SessionId], told: &mut Explanation) {
        let of = |(flow, asked): (usize, &Asked)| sessions.contains(&SessionId(asked.session)).then_some(flow);
        let flows: Vec<usize> = self.asked().iter().enumerate().filter_map(of).collect();
        if flows.is_empty() {
            told.text += "; its sessions have no rate yet: they begin";
            return;
        }
        // Sessions that the same holds back are told together.
        let mut alike: Vec<(Held, Vec<usize>)> = Vec::new();
        for flow in flows {
            let held = outcome.held(flow);
            match alike.iter_mut().find(|(other, _)| *other == held) {
                Some((_, flows)) => flows.push(flow),
                None => alike.push((held, vec![flow])),
            }
        }
        alike.sort_by_key(|(_, flows)| std::cmp::Reverse(flows.iter().map(|flow| outcome.rate(*flow)).sum::<u64>()));
        for (held, flows) in alike.iter().take(REASONS_MAX) {
            self.held(outcome, held, flows, told);
        }
        if alike.len() > REASONS_MAX {
            told.text += &format!("; other things hold back the sessions of {} more groups", alike.len() - REASONS_MAX);
        }
    }

    /// Why sessions that are held back alike have no more.
    fn held(&self, outcome: &Outcome<'_>, held: &Held, flows: &[usize], told: &mut Explanation) {
        let rate: u64 = flows.iter().map(|flow| outcome.rate(*flow)).sum();
        let who = match flows {
            [flow] => format!("session {}", SessionId(self.asked()[*flow].session)),
            many => format!("{} sessions", many.len()),
        };
        let rate = views::rate(rate);
        told.text += &match held {
            Held::HasAll => format!("; {who}: {rate}, all that hosts, grants and what was measured let it ask for"),
            Held::NoPath => format!("; {who}: no path that is up leads there{}", self.closed()),
            Held::Back(by) => {
                let mut names: Vec<String> = by.iter().flatten().map(|of| self.named(outcome, *of).0).collect();
                names.dedup();
                format!("; {who}: {rate}, as {} has no more", names.join(" and "))
            }
        };
        if let Held::Back(by) = held
            && let Some(first) = by.iter().flatten().next()
            && told.resource.is_none()
        {
            self.holds(outcome, *first, told);
            for left in self.booked_of(outcome, *first) {
                told.text +=
                    &left.holds.iter().map(|hold| format!("; {} of it", views::hold(hold))).collect::<String>();
            }
        }
        let Some(first) = flows.first() else { return };
        for (text, rate_bps) in self.remedies(outcome, *first) {
            if !told.remedies.iter().any(|other| other.text == text) {
                told.remedies.push(rest::Remedy { text, rate_bps });
            }
        }
    }

    /// What would give a flow more, and what it would have then; without a bound that is known there is no rate to tell.
    fn remedies(&self, outcome: &Outcome<'_>, flow: usize) -> Vec<(String, Option<u64>)> {
        let told = |remedy: &Remedy| (self.remedy(outcome, remedy), (!is_unbounded(remedy)).then(|| remedy.rate()));
        outcome.why(flow).remedies.iter().map(told).collect()
    }

    fn remedy(&self, outcome: &Outcome<'_>, remedy: &Remedy) -> String {
        match remedy {
            Remedy::Cap { rate } => {
                let what = "let the session have more than it asks for (the agents' greatest rate, or what limits it)";
                match is_unbounded(remedy) {
                    true => what.to_owned(),
                    false => format!("{what}: up to {}", views::rate(*rate)),
                }
            }
            Remedy::Raise { raise, also, .. } => {
                let one = |(of, to): &(ResourceId, u64)| match self.named(outcome, *of) {
                    (name, "booked") if *to >= RATE_MAX => format!("have less of {name} booked"),
                    (name, "booked") => format!("have less booked, so that {name} is {}", views::rate(*to)),
                    (name, _) if *to >= RATE_MAX => format!("raise {name}: no other bound is known"),
                    (name, _) => format!("raise {name} to {}", views::rate(*to)),
                };
                let mut text = raise.iter().map(one).collect::<Vec<_>>().join(" and ");
                if !also.is_empty() {
                    let names = also.iter().take(ALSO_TOLD_MAX).map(|of| self.named(outcome, *of).0);
                    text += &format!("; or as much more of {}", names.collect::<Vec<_>>().join(" or "));
                }
                text
            }
        }
    }

    /// The name of a resource, and its kind.
    fn named(&self, outcome: &Outcome<'_>, of: ResourceId) -> (String, &'static str) {
        let resource = &outcome.setup.resources[of as usize];
        match resource.of {
            Of::Link(edge) => {
                let way = if edge % 2 == 0 { Way::Forward } else { Way::Backward };
                let link = self.snapshot().network.links.get(edge / 2);
                (link.map_or_else(|| resource.name.clone(), |link| views::way_id(&link.name, way)), "link")
            }
            Of::Mark(..) => (resource.name.clone(), "mark"),
            Of::Class(_) => (resource.name.clone(), "class"),
            Of::Beside(_) => {
                let is_booked = self.booked.iter().any(|left| left.name == resource.name && !left.holds.is_empty());
                (resource.name.clone(), if is_booked { "booked" } else { "limit" })
            }
            Of::Flow(_) => (resource.name.clone(), "session"),
        }
    }

    /// A resource with its holders.
    fn holds(&self, outcome: &Outcome<'_>, of: ResourceId, told: &mut Explanation) {
        let (name, kind) = self.named(outcome, of);
        told.resource = Some(rest::Resource {
            name,
            kind: kind.to_owned(),
            capacity_bps: Some(outcome.setup.resources[of as usize].capacity),
            allocated_bps: Some(outcome.used(of).used),
        });
        let shares = &self.snapshot().shares;
        told.holders = by_transfer(outcome.holders(of).into_iter().filter_map(|(flow, rate)| {
            let asked = self.asked().get(flow)?;
            Some((asked.leg.0, shares.classes.get(asked.class)?.name.clone(), rate, self.assurance(outcome, flow)))
        }));
        for hold in self.booked_of(outcome, of).flat_map(|left| &left.holds) {
            told.holders.push(holder(hold));
            let ends = rest::Time(hold.window.end());
            told.until = Some(told.until.map_or(ends, |until| until.min(ends)));
        }
        if let Some(limit) = self.limit_of(outcome, of) {
            told.text += &format!("; that is {}", super::limited(limit));
            told.until = told.until.into_iter().chain(limit.until.map(views::time)).min();
        }
    }

    /// How sure the rate of a session is.
    fn assurance(&self, outcome: &Outcome<'_>, flow: usize) -> Assurance {
        let links = &self.snapshot().network.links;
        let name = |edge: &usize| {
            let way = if edge.is_multiple_of(2) { Way::Forward } else { Way::Backward };
            Some(views::way_id(&links.get(edge / 2)?.name, way))
        };
        let path = outcome.setup.paths.get(flow).and_then(|paths| paths.first());
        self.enforced.over(path.iter().flat_map(|path| &path.edges).filter_map(name))
    }

    /// The limit from outside that says how much of this there is.
    fn limit_of(&self, outcome: &Outcome<'_>, of: ResourceId) -> Option<&Limit> {
        let resource = &outcome.setup.resources[of as usize];
        let shares = &self.snapshot().shares;
        let is_it = |on: &Resource| match (resource.of, on) {
            (Of::Mark(mark, _), Resource::Mark(name)) => shares.marks.get(mark).is_some_and(|mark| mark.name == *name),
            (Of::Class(class), Resource::Class(name)) => {
                shares.classes.get(class).is_some_and(|class| class.name == *name)
            }
            (Of::Beside(_), Resource::Link(link)) => {
                [Way::Forward, Way::Backward].iter().any(|way| limits_on(link, *way)[0] == resource.name)
            }
            (Of::Beside(_), Resource::Way { link, forward }) => {
                limits_on(link, if *forward { Way::Forward } else { Way::Backward })[1] == resource.name
            }
            (Of::Beside(_), Resource::Host(host)) => [left_by(host), entered(host)].contains(&resource.name),
            _ => false,
        };
        // A host or a mark may also have less than its limit for another reason.
        let found = self.limits.iter().find(|(on, _)| is_it(on)).map(|(_, limit)| limit);
        found.filter(|limit| limit.rate_bps == resource.capacity)
    }

    /// What bookings left, if this is that.
    fn booked_of(&self, outcome: &Outcome<'_>, of: ResourceId) -> impl Iterator<Item = &Left> {
        let name = &outcome.setup.resources[of as usize].name;
        self.booked.iter().filter(move |left| left.name == *name)
    }

    /// The bookings that have all of a link.
    fn closed(&self) -> String {
        let all = self.booked.iter().filter(|left| left.rate.is_zero() && left.way.is_some());
        let mut told: Vec<String> = all.flat_map(|left| &left.holds).map(views::hold).collect();
        told.sort();
        told.dedup();
        told.iter().take(REASONS_MAX).map(|hold| format!("; {hold}")).collect()
    }

    fn class(&self, outcome: &Outcome<'_>, name: &str, told: &mut Explanation) {
        let shares = &self.snapshot().shares;
        let Some(class) = shares.classes.iter().position(|class| class.name == name) else { return };
        let Some(part) = outcome.classes().get(class).copied() else { return };
        let [has, due, asks] = [part.has, part.due, part.asks].map(views::rate);
        told.text += &format!("; it has {has}, its weight gives it {due}, it could use {asks}");
        told.rate_bps = Some(part.has);
        let factor = outcome.setup.usage_factor(class);
        if factor != FACTOR_ONE {
            let times = f64::from(factor) / f64::from(FACTOR_ONE);
            told.text += &format!("; its weight counts {times:.2} times, for what it used of late");
        }
        let is_in = |flow: &usize| shares.up(shares.flows[*flow].class).any(|of| of == class);
        let flows: Vec<usize> = (0..self.asked().len()).filter(is_in).collect();
        if flows.is_empty() {
            told.text += "; nothing of it moves";
            told.remedies.push(idle(name));
            return;
        }
        let sure: Vec<Assurance> = flows.iter().map(|flow| self.assurance(outcome, *flow)).collect();
        if sure.iter().all(|of| *of == Assurance::Enforced) {
            told.assurance = Assurance::Enforced;
        }
        let mut stops: BTreeMap<ResourceId, Vec<usize>> = BTreeMap::new();
        let mut cut = Vec::new();
        for flow in &flows {
            match outcome.held(*flow) {
                Held::Back(by) => by.into_iter().flatten().for_each(|of| stops.entry(of).or_default().push(*flow)),
                Held::NoPath => cut.push(*flow),
                Held::HasAll => {}
            }
        }
        if !cut.is_empty() {
            told.text += &format!("; of {} sessions no path that is up leads there{}", cut.len(), self.closed());
        }
        let mut stops: Vec<(ResourceId, Vec<usize>)> = stops.into_iter().collect();
        stops.sort_by_key(|(of, held)| (std::cmp::Reverse(held.len()), *of));
        if let Some((first, _)) = stops.first() {
            let told_of = |(of, held): &(ResourceId, Vec<usize>)| {
                format!("{} (sessions: {})", self.named(outcome, *of).0, held.len())
            };
            let names: Vec<String> = stops.iter().take(REASONS_MAX).map(told_of).collect();
            told.text += &format!("; held back by {}", names.join(", "));
            self.holds(outcome, *first, told);
        } else if cut.is_empty() {
            told.text += "; nothing holds it back: it has all that its sessions ask for";
        }
        // For the session that has least of those that what stops most holds back.
        let held = stops.first().map_or(&flows, |(_, held)| held);
        let Some(least) = held.iter().copied().min_by_key(|flow| outcome.rate(*flow)) else { return };
        let of = format!("session {} of t{}", SessionId(self.asked()[least].session), self.asked()[least].leg.0);
        for (text, rate_bps) in self.remedies(outcome, least) {
            let then = rate_bps.map(|bps| format!(": {of} has {} then", views::rate(bps))).unwrap_or_default();
            // The rate is not one of the class.
            told.remedies.push(rest::Remedy { text: format!("{text}{then}"), rate_bps: None });
        }
    }
}

/// What would change that nothing of a class moves.
pub(super) fn idle(class: &str) -> rest::Remedy {
    let text = format!("submit a transfer of it (`--class {class}`), or ask what those that are there wait for");
    rest::Remedy { text, rate_bps: None }
}

/// A booking beside the transfers that share a resource.
pub(super) fn holder(hold: &Hold) -> Holder {
    Holder {
        holder: format!("booking `{}`", hold.name),
        class: Some(hold.class.clone()),
        rate_bps: hold.rate_bps,
        assurance: Assurance::Edge,
    }
}

/// Rates of sessions by transfer, those who have most first, at most [`HOLDERS_MAX`].
pub(super) fn by_transfer(rated: impl IntoIterator<Item = (u64, String, u64, Assurance)>) -> Vec<Holder> {
    let mut all: BTreeMap<(u64, String), (u64, Assurance)> = BTreeMap::new();
    for (transfer, class, rate, assurance) in rated {
        let (sum, is) = all.entry((transfer, class)).or_insert((0, assurance));
        *sum = sum.saturating_add(rate);
        // As sure as the least of its sessions.
        *is = if *is == assurance { assurance } else { Assurance::Edge };
    }
    let holder = |((id, class), (rate_bps, assurance))| {
        let holder = format!("t{id}");
        Holder { holder, class: Some(class), rate_bps, assurance }
    };
    let mut holders: Vec<Holder> = all.into_iter().map(holder).collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.rate_bps));
    holders.truncate(HOLDERS_MAX);
    holders
}

/// Whether something is to be raised without a bound that is known.
fn is_unbounded(remedy: &Remedy) -> bool {
    match remedy {
        Remedy::Raise { raise, .. } => raise.iter().any(|(_, to)| *to >= RATE_MAX),
        Remedy::Cap { rate } => *rate >= RATE_MAX,
    }
}
