//! What each session may send now: sessions as flows of `plan::allot`, and its answer by session.
//!
//! A leg counts once beside the legs of its class, by however many sessions it runs: several are put into a class of their own inside it.
//! Limits from outside lower what the network and its shares allow, and so do bookings for their time ([`Booked`]); hosts with a limit are
//! resources beside links.

mod balance;
mod booked;
mod demand;
mod shortfall;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use model::bookings::Resource as Beside;
use model::network::{LinkIndex, Network, NodeIndex};
use model::scenario::Way;
use model::shares::{Class, Flow, Most, Paths, Shares, Split};
use plan::allot::{AllotError, Outcome, Snapshot};
use plan::usage::{URGENT, budget_left};
use units::{Bytes, Rate};

pub use balance::{Better, Links, better};
pub use booked::{Booked, Hold, LEAD_NS, Left};
pub use demand::{Demand, Measured};
pub use shortfall::{SHORT_AFTER, Shortfall, Watch};

/// A session that is to have a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The session.
    pub session: u64,
    /// What it is a part of: all sessions of one leg count once.
    pub leg: (u64, u32),
    /// Its class of the shares.
    pub class: usize,
    /// The host that sends.
    pub from: NodeIndex,
    /// The host that receives: another one.
    pub to: NodeIndex,
    /// Draws on the budget of its class for urgent work.
    pub urgent: bool,
    /// What it could use at most, b/s of IP packets; `None` if that is not known.
    pub most_bps: Option<u64>,
    /// Bytes that are left.
    pub bytes: Option<u64>,
    /// The path that its addresses are routed over; `None` for the cheapest.
    pub path: Option<Vec<(LinkIndex, Way)>>,
}

/// What a limit from outside is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limited {
    /// Each way of a link.
    Link(LinkIndex),
    /// One way of a link.
    Way(LinkIndex, Way),
    /// A mark: index in [`Shares::marks`].
    Mark(usize),
    /// A class: index in [`Shares::classes`].
    Class(usize),
    /// What leaves a host, and what enters it.
    Host(NodeIndex),
    /// What leaves and enters a host together: its processors do both.
    Cores(NodeIndex),
}

/// All that rates follow from.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The network.
    pub network: &'a Network,
    /// Who shares it; its flows are left aside.
    pub shares: &'a Shares,
    /// Links that carry nothing.
    pub down: &'a BTreeSet<LinkIndex>,
    /// Limits from outside, at most one on each thing; of those on a link and on one way of it the lower counts.
    pub limits: &'a [(Limited, Rate)],
    /// What bookings leave; a link of which they leave nothing carries nothing.
    pub booked: &'a [Left],
    /// In any order, each session once.
    pub sessions: &'a [Asked],
}

/// The rate of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rated {
    /// In b/s of IP packets; 0 if no path leads there.
    pub rate_bps: u64,
    /// What it may have with nobody in charge, b/s of IP packets: no more than that, and no more than is left of what comes meanwhile
    /// (see [`Rates::alone`]).
    pub alone_bps: u64,
    /// The names of the resources that it draws on.
    pub uses: Vec<Arc<str>>,
    /// The links of its path.
    pub links: Vec<(LinkIndex, Way)>,
}

/// Who gets what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// By session.
    pub sessions: BTreeMap<u64, Rated>,
    /// How far each resource may be filled, in b/s, by its name.
    pub capacities: BTreeMap<Arc<str>, u64>,
}

impl Situation<'_> {
    /// As a question of the planner. The flows are the sessions, in order.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut shares = self.shares.clone();
        for (of, rate) in self.limits {
            lower(self.network, &mut shares, *of, *rate);
        }
        shares.resources.extend(self.booked.iter().map(|left| Beside {
            name: left.name.clone(),
            ways: left.ways.clone(),
            rate: left.rate,
            grain: Rate::from_bps(1),
        }));
        shares.flows = self.flows(&mut shares);
        let down = self.down.union(&booked::closed(self.booked)).copied().collect();
        Snapshot { network: self.network.clone(), shares, down }
    }

    fn flows(&self, shares: &mut Shares) -> Vec<Flow> {
        let mut count: BTreeMap<(u64, u32), usize> = BTreeMap::new();
        self.sessions.iter().for_each(|asked| *count.entry(asked.leg).or_default() += 1);
        let mut of_leg: BTreeMap<(u64, u32), usize> = BTreeMap::new();
        let mut flow = |asked: &Asked| {
            let class = match count[&asked.leg] {
                1 => asked.class,
                _ => *of_leg.entry(asked.leg).or_insert_with(|| {
                    shares.classes.push(leg_class(shares, asked));
                    shares.classes.len() - 1
                }),
            };
            Flow {
                name: format!("session {}", asked.session),
                class: Some(class),
                from: asked.from,
                to: asked.to,
                weight: NonZeroU32::MIN,
                floor: Rate::ZERO,
                cap: asked.most_bps.map(Rate::from_bps),
                bytes: asked.bytes.map(Bytes::new),
                urgent: asked.urgent && class == asked.class,
                paths: asked.path.as_ref().map_or(Paths::Cheapest(1), |path| Paths::Given(vec![path.clone()])),
                split: Split::Ordered,
            }
        };
        self.sessions.iter().map(&mut flow).collect()
    }
}

/// The class of a leg with several sessions.
fn leg_class(shares: &Shares, asked: &Asked) -> Class {
    let parent = &shares.classes[asked.class];
    let left = parent.urgent.filter(|_| asked.urgent).map_or(0, |urgent| {
        let elapsed = urgent.as_of.zip(shares.now).map_or(0, |(as_of, now)| now.saturating_sub(as_of));
        let elapsed = Duration::from_nanos(u64::try_from(elapsed).unwrap_or(0));
        budget_left(urgent.budget.get(), urgent.used.get(), elapsed)
    });
    let weight = if left > 0 { URGENT } else { 1 };
    Class {
        name: format!("transfer {} leg {}", asked.leg.0, asked.leg.1),
        parent: Some(asked.class),
        tier: parent.tier,
        weight: NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN),
        floor: Rate::ZERO,
        cap: None,
        used: None,
        urgent: None,
    }
}

/// What the planner calls limits from outside that lower a direction of a link: that on the link, for this way, and that on this way alone. They are
/// beside the link's mark, and each is a resource of its own, so that what is to be raised is told by its name: the lowest of them counts.
#[must_use]
pub fn limits_on(link: &str, way: Way) -> [String; 2] {
    let way = way.name();
    [format!("limit on {link} ({way})"), format!("limit on {link}:{way}")]
}

/// What the planner calls all that leaves a host that is limited.
#[must_use]
pub fn left_by(host: &str) -> String {
    format!("what leaves {host}")
}

/// What the planner calls all that enters a host that is limited.
#[must_use]
pub fn entered(host: &str) -> String {
    format!("what enters {host}")
}

/// Lowers what is there to a limit; it raises nothing.
fn lower(network: &Network, shares: &mut Shares, of: Limited, rate: Rate) {
    match of {
        Limited::Link(link) => {
            for way in [Way::Forward, Way::Backward] {
                let [name, _] = limits_on(&network.links[link].name, way);
                shares.resources.push(Beside { name, ways: vec![(link, way)], rate, grain: Rate::from_bps(1) });
            }
        }
        Limited::Way(link, way) => {
            let [_, name] = limits_on(&network.links[link].name, way);
            shares.resources.push(Beside { name, ways: vec![(link, way)], rate, grain: Rate::from_bps(1) });
        }
        Limited::Mark(mark) => match &mut shares.marks[mark].most {
            Most::Rate(is) => *is = rate.min(*is),
            Most::Flexible(flexible) => {
                flexible.most = Some(flexible.most.map_or(rate, |is| is.min(rate)));
                flexible.least = flexible.least.min(rate);
            }
            Most::Share(_) => lower_share(network, shares, mark, rate),
        },
        Limited::Class(class) => {
            let class = &mut shares.classes[class];
            class.cap = Some(class.cap.map_or(rate, |is| is.min(rate)));
            class.floor = class.floor.min(rate);
        }
        Limited::Host(host) => {
            let called = &network.nodes[host].name;
            for (name, out) in [(left_by(called), true), (entered(called), false)] {
                let ways = ways_of(network, host, out);
                shares.resources.push(Beside { name, ways, rate, grain: Rate::from_bps(1) });
            }
        }
        Limited::Cores(host) => {
            let name = format!("what the processors of {} move", network.nodes[host].name);
            let ways = [true, false].into_iter().flat_map(|out| ways_of(network, host, out)).collect();
            shares.resources.push(Beside { name, ways, rate, grain: Rate::from_bps(1) });
        }
    }
}

/// A mark that is a share, lowered: where it is on several ways it becomes a mark for each, so that no share is raised.
fn lower_share(network: &Network, shares: &mut Shares, mark: usize, rate: Rate) {
    let of = shares.marks[mark].clone();
    let Most::Share(ppm) = of.most else { return };
    let rate_of = |(link, way): &(LinkIndex, Way)| {
        let link = &network.links[*link];
        let direction = if way.index() == 0 { &link.forward } else { &link.backward };
        direction.rate.map(|rate| rate.bps())
    };
    if of.together {
        let all = of.ways.iter().filter_map(rate_of).fold(0, u64::saturating_add);
        let share = Rate::from_bps(model::shares::share_of(all, ppm));
        shares.marks[mark].most = Most::Rate(share.min(rate));
        return;
    }
    let alone = of.ways.iter().map(|way| {
        let share = rate_of(way).map_or(rate, |all| Rate::from_bps(model::shares::share_of(all, ppm)));
        model::shares::Mark { ways: vec![*way], most: Most::Rate(share.min(rate)), ..of.clone() }
    });
    let mut alone = alone.collect::<Vec<_>>().into_iter();
    if let Some(first) = alone.next() {
        shares.marks[mark] = first;
    }
    shares.marks.extend(alone);
}

/// The ways of the links at a host that leave it, or enter it.
fn ways_of(network: &Network, host: NodeIndex, out: bool) -> Vec<(LinkIndex, Way)> {
    let mut ways = Vec::new();
    for (index, link) in network.links.iter().enumerate() {
        if link.from == host {
            ways.push((index, if out { Way::Forward } else { Way::Backward }));
        }
        if link.to == host {
            ways.push((index, if out { Way::Backward } else { Way::Forward }));
        }
    }
    ways
}

impl Rates {
    /// Divides the network among the sessions of a situation.
    ///
    /// # Errors
    /// If it makes no problem: a session that nothing limits, too much of it.
    pub fn of(situation: &Situation<'_>) -> Result<Rates, AllotError> {
        let snapshot = situation.snapshot();
        let outcome = snapshot.allot()?;
        Ok(Rates::from_outcome(&outcome, situation.sessions))
    }

    /// What an outcome of [`Situation::snapshot`] says of its sessions.
    #[must_use]
    pub fn from_outcome(outcome: &Outcome<'_>, sessions: &[Asked]) -> Rates {
        let setup = &outcome.setup;
        // One text for all sessions on a resource.
        let names: Vec<Arc<str>> = setup.resources.iter().map(|of| of.name.as_str().into()).collect();
        let rated = |flow: usize| {
            let Some(number) = setup.number(flow) else { return Rated::default() };
            let tunnel = setup.problem.tunnels_of(number).start;
            let uses = setup.problem.uses(tunnel).iter();
            let links = setup.paths[flow].first().map_or(&[][..], |path| &path.edges);
            let way = |edge: &usize| (edge / 2, if edge.is_multiple_of(2) { Way::Forward } else { Way::Backward });
            Rated {
                rate_bps: outcome.rate(flow),
                alone_bps: outcome.rate(flow),
                uses: uses.map(|of| names[*of as usize].clone()).collect(),
                links: links.iter().map(way).collect(),
            }
        };
        let by_session = sessions.iter().enumerate().map(|(flow, asked)| (asked.session, rated(flow)));
        let capacities = setup.resources.iter().map(|of| of.capacity);
        Rates { sessions: by_session.collect(), capacities: names.iter().cloned().zip(capacities).collect() }
    }

    /// Sessions that nobody is in charge of have no more than in those rates, of a situation that is worse: one with all that is booked for
    /// some time ahead, and with flexible marks where they are when nobody counts.
    #[must_use]
    pub fn alone(mut self, worse: &Rates) -> Rates {
        for (id, rated) in &mut self.sessions {
            rated.alone_bps = worse.sessions.get(id).map_or(0, |worse| worse.rate_bps).min(rated.rate_bps);
        }
        self
    }
}

#[cfg(test)]
mod tests;
