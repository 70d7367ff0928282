//! The way to new rates: leases that agents hold, and when a session may have more.
//!
//! Of each session it is known what it **may be sending at most**: the rate of the lease that its agent acknowledged, or its fall-back
//! once that lease has run out, or any rate of a lease that was sent and is not acknowledged yet. A decrease is sent at once. An
//! increase on a resource is sent when what all sessions may be sending leaves room for it: so it waits for the acknowledgements, or
//! the ends of the leases, of the decreases on the same resources, and for no others. Whatever is lost on the way, no resource is
//! ever given out twice; where it carries more than it should from the begin (a mark was lowered), it only gets less.
//!
//! Pure: time is an argument, in ms of a clock that does not go back.

mod resources;

use std::collections::BTreeMap;

use crate::rates::Rates;
use resources::{Number, Resources};

/// How long a lease lasts, ms.
pub const LENGTH_MS: u64 = 30_000;
/// How long after it was sent it is renewed, ms: two renewals may be lost.
pub const RENEW_MS: u64 = 10_000;
/// Leases of a session that are sent and not acknowledged; further changes wait.
pub const UNDERWAY_MAX: usize = 4;
/// A part of an increase that is worth a lease of its own, in percent of the rate that it is to come to.
pub const PART_PERCENT: u64 = 5;
/// Changes of less than this wait for the next renewal, in thousandths of the higher rate: what a mover keeps to is not sharper, and where
/// many sessions share much, each that comes or goes changes the rates of all by as little.
pub const SMALL_PERMILLE: u64 = 5;

/// A lease as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// To the agent that drives this session.
    pub session: u64,
    /// Rises with each lease of any session.
    pub generation: u64,
    /// In b/s of IP packets.
    pub rate_bps: u64,
    /// How long, ms.
    pub length_ms: u64,
    /// What holds after that, b/s of IP packets.
    pub fall_back_bps: u64,
    /// After so long, ms, the fall-back holds already: what is booked begins.
    pub falls_after_ms: Option<u64>,
}

/// A lease that an agent has, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    generation: u64,
    rate: u64,
    fall_back: u64,
    /// When it was sent.
    sent: u64,
    /// When it has run out, at the latest: counted from the acknowledgement.
    ends: u64,
}

impl Lease {
    fn at(&self, now: u64) -> u64 {
        if now < self.ends { self.rate } else { self.fall_back }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Session {
    /// What it draws on, of the planning before and of the last.
    uses: Vec<Number>,
    /// What it drew on before, as long as it may still send over that.
    left: Vec<Number>,
    /// What it is to have.
    target: u64,
    /// What it may have with nobody in charge.
    alone: u64,
    acknowledged: Option<Lease>,
    underway: Vec<Lease>,
}

impl Session {
    /// What it may be sending at most.
    fn held(&self, now: u64) -> u64 {
        let acknowledged = self.acknowledged.map_or(0, |lease| lease.at(now));
        // When these arrive is not known.
        let underway = self.underway.iter().map(|lease| lease.rate.max(lease.fall_back));
        underway.fold(acknowledged, u64::max)
    }

    /// All that it may be sending over, each once.
    fn draws_on(&self) -> impl Iterator<Item = Number> {
        self.uses.iter().chain(self.left.iter().filter(|of| !self.uses.contains(of))).copied()
    }

    /// The lease that it was told last.
    fn told(&self) -> Option<&Lease> {
        self.underway.last().or(self.acknowledged.as_ref())
    }
}

/// All leases of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    sessions: BTreeMap<u64, Session>,
    resources: Resources,
    /// When less is left than now, by the clock of `now` everywhere here.
    less_at: Option<u64>,
}

impl Leases {
    /// A session begins; the first lease goes along with the request to run it. One that is known stays as it is.
    pub fn begin(&mut self, session: u64) {
        self.sessions.entry(session).or_default();
    }

    /// An agent says what it has in force of a session, at its connection. What was underway did not arrive, or is counted in this.
    pub fn found(&mut self, session: u64, generation: u64, rate_bps: u64, now: u64) {
        let of = self.sessions.entry(session).or_default();
        let lease = Lease { generation, rate: rate_bps, fall_back: rate_bps, sent: now, ends: now };
        of.underway.clear();
        of.acknowledged = Some(lease);
    }

    /// A session is over: its agent, or the other one, said so.
    pub fn end(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// An agent acknowledged a lease. It may do less than that (its site allows no more, or it is paused), but could do it any time.
    pub fn acknowledged(&mut self, session: u64, generation: u64, now: u64) {
        let Some(of) = self.sessions.get_mut(&session) else { return };
        let Some(lease) = of.underway.iter().find(|lease| lease.generation == generation).copied() else { return };
        // The agent never goes back, so what was sent before is over.
        of.underway.retain(|lease| lease.generation > generation);
        of.acknowledged = Some(Lease { ends: now.saturating_add(LENGTH_MS), ..lease });
        if of.underway.is_empty() && of.held(now) <= of.target {
            of.left.clear();
        }
    }

    /// Takes new rates. Sessions that they do not name are to have nothing.
    pub fn aim(&mut self, rates: &Rates) {
        let mut carried = self.resources.renew(&rates.capacities);
        for (id, of) in &mut self.sessions {
            of.uses.iter_mut().chain(&mut of.left).for_each(|number| *number = carried.number(*number));
            let Some(rated) = rates.sessions.get(id) else {
                (of.target, of.alone) = (0, 0);
                continue;
            };
            (of.target, of.alone) = (rated.rate_bps, rated.alone_bps);
            let uses: Vec<Number> = rated.uses.iter().map(|name| carried.of(name)).collect();
            if of.uses != uses {
                of.left.append(&mut of.uses);
                of.left.sort_unstable();
                of.left.dedup();
                of.uses = uses;
            }
        }
    }

    /// From then on something is booked of what the last rates were: leases that last longer say so.
    pub fn foresee(&mut self, less_at: Option<u64>) {
        self.less_at = less_at;
    }

    /// What a session may be sending at most, b/s of IP packets.
    #[must_use]
    pub fn held_bps(&self, session: u64, now: u64) -> u64 {
        self.sessions.get(&session).map_or(0, |of| of.held(now))
    }

    /// The rate that an agent acknowledged and that is in force, b/s of IP packets; `None` before the first.
    #[must_use]
    pub fn in_force_bps(&self, session: u64, now: u64) -> Option<u64> {
        Some(self.sessions.get(&session)?.acknowledged?.at(now))
    }

    /// What a session is to have, b/s of IP packets.
    #[must_use]
    pub fn target_bps(&self, session: u64) -> u64 {
        self.sessions.get(&session).map_or(0, |of| of.target)
    }

    /// Whether all sessions have what they are to have, as far as their agents said.
    #[must_use]
    pub fn is_settled(&self, now: u64) -> bool {
        let settled = |of: &Session| of.underway.is_empty() && !differs(of.target, of.held(now));
        self.sessions.values().all(settled)
    }

    /// The leases that are to be sent now. `reached` says of a session whether its agent is connected; `generation` gives the next number.
    /// What is returned counts as sent. The first lease of a session is of more than nothing: until there is something for it, it waits.
    pub fn step(&mut self, now: u64, reached: impl Fn(u64) -> bool, mut generation: impl FnMut() -> u64) -> Vec<Grant> {
        let mut grants = Vec::new();
        let mut rises = Vec::new();
        for (id, of) in &mut self.sessions {
            if of.underway.len() >= UNDERWAY_MAX {
                continue;
            }
            if of.held(now) == 0 {
                of.left.clear();
            }
            let told = of.told().copied();
            if told.is_none() && of.target == 0 {
                // It waits: a lease of nothing would begin nothing.
                continue;
            }
            let rate = told.map_or(0, |lease| lease.rate);
            // One that moved tells with its acknowledgement that it has left what it drew on before.
            let moved = !of.left.is_empty() && of.underway.is_empty();
            let is_due = moved || told.is_none_or(|lease| now.saturating_sub(lease.sent) >= RENEW_MS);
            if !(is_due || differs(of.target, rate)) || !reached(*id) {
                continue;
            }
            if of.target > rate {
                rises.push((*id, rate, is_due));
            } else {
                grants.push(of.send(*id, of.target, (now, self.less_at), &mut generation));
            }
        }
        if rises.is_empty() {
            return grants;
        }
        // Those with least of what they are to have come first.
        rises
            .sort_by_key(|(id, rate, _)| (u128::from(*rate) * 1000 / u128::from(self.sessions[id].target.max(1)), *id));
        let mut used = self.used(now);
        for (id, rate, is_due) in rises {
            let of = &self.sessions[&id];
            let held = of.held(now);
            let free = of.draws_on().map(|number| {
                self.resources.capacity(number).saturating_sub(used[number.index()].saturating_sub(held))
            });
            let may = free.fold(of.target, u64::min);
            let is_worth_it = may == of.target || may > rate.saturating_add(of.target / 100 * PART_PERCENT);
            if may <= rate || !is_worth_it {
                if is_due && of.told().is_some() {
                    let of = self.sessions.get_mut(&id).expect("it is one of them");
                    grants.push(of.send(id, rate, (now, self.less_at), &mut generation));
                }
                continue;
            }
            for number in of.draws_on() {
                let of = &mut used[number.index()];
                *of = of.saturating_sub(held).saturating_add(may.max(held));
            }
            let of = self.sessions.get_mut(&id).expect("it is one of them");
            grants.push(of.send(id, may, (now, self.less_at), &mut generation));
        }
        grants
    }

    /// What may be sent at most over each resource.
    fn used(&self, now: u64) -> Vec<u64> {
        let mut used = vec![0_u64; self.resources.len()];
        for of in self.sessions.values() {
            let held = of.held(now);
            for number in of.draws_on() {
                let used = &mut used[number.index()];
                *used = used.saturating_add(held);
            }
        }
        used
    }

    /// What may be sent at most over a resource, b/s of IP packets.
    #[must_use]
    pub fn used_bps(&self, resource: &str, now: u64) -> u64 {
        self.resources.find(resource).map_or(0, |number| self.used(now)[number.index()])
    }
}

impl Session {
    fn send(
        &mut self,
        session: u64,
        rate: u64,
        (now, less_at): (u64, Option<u64>),
        generation: &mut impl FnMut() -> u64,
    ) -> Grant {
        let fall_back = rate.min(self.alone);
        let lease = Lease { generation: generation(), rate, fall_back, sent: now, ends: u64::MAX };
        self.underway.push(lease);
        let falls = less_at.map(|at| at.saturating_sub(now)).filter(|after| *after < LENGTH_MS && fall_back < rate);
        Grant {
            session,
            generation: lease.generation,
            rate_bps: rate,
            length_ms: LENGTH_MS,
            fall_back_bps: lease.fall_back,
            falls_after_ms: falls,
        }
    }
}

/// Whether a change is worth a lease of its own. To begin and to end is.
fn differs(a: u64, b: u64) -> bool {
    let (low, high) = (a.min(b), a.max(b));
    (low == 0) != (high == 0) || (high - low).saturating_mul(1000) > high.saturating_mul(SMALL_PERMILLE)
}

#[cfg(test)]
mod tests;
