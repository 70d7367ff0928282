//! Plannings that are kept to be asked again: what the planner was asked beside what the log has, and what it answered.
//!
//! Rates are no events, so the log alone does not say what they were. Of a planning in each [`KEPT_EACH`] the archive keeps what is in no
//! event: the sessions as they were asked for, what classes had used, links that were down, limits. Network, classes and bookings are those of
//! the log at that event. [`Planning::again`] asks the planner of this program once more, has its answer certified, and compares.

use std::collections::BTreeSet;
use std::time::Duration;

use ledger::State;
use ledger::rates::{Asked, Booked, Limited, Rates, Situation};
use model::bookings::Bookings;
use model::network::Network;
use model::scenario::Way;
use model::shares::{Most, Shares, Used};
use serde::{Deserialize, Serialize};
use units::{Bytes, Moment, Rate};

/// A planning in so long a time is kept.
pub(crate) const KEPT_EACH: Duration = Duration::from_secs(10);
/// Sessions of a planning that is kept: some MB.
const SESSIONS_MAX: usize = 20_000;
/// Sessions that are told of a planning that gives another answer.
const TOLD_MAX: usize = 4;

/// A planning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planning {
    /// The number of the last event before it.
    pub(crate) after: u64,
    /// When, ns of Unix time.
    now: Moment,
    /// By class: bytes, and as of when.
    used: Vec<Option<(u64, Option<Moment>)>>,
    /// The same of its budget for urgent work; empty of plannings that followed the file there.
    #[serde(default)]
    urgent: Vec<Option<(u64, Option<Moment>)>>,
    down: BTreeSet<usize>,
    limits: Vec<(On, usize, u64)>,
    sessions: Vec<Session>,
    /// What each session got, b/s of IP packets.
    rates: Vec<u64>,
}

/// What a limit is on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum On {
    Link,
    Mark,
    Class,
    Host,
    Cores,
    Forward,
    Backward,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Session {
    session: u64,
    leg: (u64, u32),
    class: usize,
    ends: (usize, usize),
    urgent: bool,
    most_bps: Option<u64>,
    bytes: Option<u64>,
    /// Links, and whether each is taken backward.
    path: Option<Vec<(usize, bool)>>,
}

impl Planning {
    /// A planning with its answer. `None` if it cannot be asked again: flexible marks follow counters that nobody keeps, or it is too big.
    pub(crate) fn of(after: u64, now: Moment, set: &Shares, asked: &Situation<'_>, rates: &Rates) -> Option<Planning> {
        let is_flexible = set.marks.iter().any(|mark| matches!(mark.most, Most::Flexible(_)));
        if is_flexible || asked.sessions.len() > SESSIONS_MAX {
            return None;
        }
        let used = |class: &model::shares::Class| class.used.map(|used| (used.bytes.get(), used.as_of));
        let urgent = |class: &model::shares::Class| class.urgent.map(|of| (of.used.get(), of.as_of));
        let limit = |(of, rate): &(Limited, Rate)| match of {
            Limited::Link(link) => (On::Link, *link, rate.bps()),
            Limited::Way(link, Way::Forward) => (On::Forward, *link, rate.bps()),
            Limited::Way(link, Way::Backward) => (On::Backward, *link, rate.bps()),
            Limited::Mark(mark) => (On::Mark, *mark, rate.bps()),
            Limited::Class(class) => (On::Class, *class, rate.bps()),
            Limited::Host(host) => (On::Host, *host, rate.bps()),
            Limited::Cores(host) => (On::Cores, *host, rate.bps()),
        };
        let rate = |of: &Asked| rates.sessions.get(&of.session).map_or(0, |rated| rated.rate_bps);
        Some(Planning {
            after,
            now,
            used: asked.shares.classes.iter().map(used).collect(),
            urgent: asked.shares.classes.iter().map(urgent).collect(),
            down: asked.down.clone(),
            limits: asked.limits.iter().map(limit).collect(),
            sessions: asked.sessions.iter().map(Session::of).collect(),
            rates: asked.sessions.iter().map(rate).collect(),
        })
    }

    /// Asks again, in the state after its event; `None` if the answer is the same, else what differs.
    pub(crate) fn again(&self, state: &State) -> Option<String> {
        match self.rates_again(state) {
            Err(why) => Some(format!("the planning after event {} cannot be made again: {why}", self.after)),
            Ok(rates) => self.difference(&rates),
        }
    }

    fn rates_again(&self, state: &State) -> Result<Vec<u64>, String> {
        let (Some(network), Some(shares)) = (&state.network, &state.shares) else {
            return Err("there was no network, or no classes".to_owned());
        };
        let read = Network::from_toml(&network.text, "the network").and_then(|network| {
            let shares = Shares::from_toml(&shares.text, "the shares", &network)?;
            let bookings = state.bookings.as_ref().map_or("", |bookings| &bookings.text);
            Ok((Bookings::from_toml(bookings, "the bookings", &network)?, shares, network))
        });
        let (bookings, mut shares, network) = read.map_err(|error| error.to_string())?;
        let booked = Booked::of(&network, &shares, &bookings).at(self.now);
        shares.now = Some(self.now);
        for (class, used) in shares.classes.iter_mut().zip(&self.used) {
            class.used = used.map(|(bytes, as_of)| Used { bytes: Bytes::new(bytes), as_of });
        }
        for (class, used) in shares.classes.iter_mut().zip(&self.urgent) {
            if let Some((of, (bytes, as_of))) = class.urgent.as_mut().zip(*used) {
                (of.used, of.as_of) = (Bytes::new(bytes), as_of);
            }
        }
        let limit = |(on, index, bps): &(On, usize, u64)| {
            let of = match on {
                On::Link => Limited::Link(*index),
                On::Forward => Limited::Way(*index, Way::Forward),
                On::Backward => Limited::Way(*index, Way::Backward),
                On::Mark => Limited::Mark(*index),
                On::Class => Limited::Class(*index),
                On::Host => Limited::Host(*index),
                On::Cores => Limited::Cores(*index),
            };
            (of, Rate::from_bps(*bps))
        };
        let limits: Vec<(Limited, Rate)> = self.limits.iter().map(limit).collect();
        let sessions: Vec<Asked> = self.sessions.iter().map(Session::asked).collect();
        self.check(&network, &shares)?;
        let situation = Situation {
            network: &network,
            shares: &shares,
            down: &self.down,
            limits: &limits,
            booked: &booked,
            sessions: &sessions,
        };
        let snapshot = situation.snapshot();
        let outcome = snapshot.allot().map_err(|error| error.to_string())?;
        plan::certificate::check(&outcome.setup.problem, &outcome.allocation)
            .map_err(|broken| format!("the answer is not certified: {broken}"))?;
        let rates = Rates::from_outcome(&outcome, &sessions);
        Ok(sessions.iter().map(|of| rates.sessions.get(&of.session).map_or(0, |rated| rated.rate_bps)).collect())
    }

    /// That all it speaks of is there: the archive may be damaged.
    fn check(&self, network: &Network, shares: &Shares) -> Result<(), String> {
        let (links, nodes, classes) = (network.links.len(), network.nodes.len(), shares.classes.len());
        let is_limit = |(on, index, _): &(On, usize, u64)| {
            let count = match on {
                On::Link | On::Forward | On::Backward => links,
                On::Mark => shares.marks.len(),
                On::Class => classes,
                On::Host | On::Cores => nodes,
            };
            *index < count
        };
        let is_session = |of: &Session| {
            let on_path = |(link, _): &(usize, bool)| *link < links;
            of.class < classes && of.ends.0 < nodes && of.ends.1 < nodes && of.path.iter().flatten().all(on_path)
        };
        let fits = self.used.len() == classes
            && (self.urgent.is_empty() || self.urgent.len() == classes)
            && self.rates.len() == self.sessions.len()
            && self.down.iter().all(|link| *link < links)
            && self.limits.iter().all(is_limit)
            && self.sessions.iter().all(is_session);
        if fits { Ok(()) } else { Err("it is of another network than the log has there".to_owned()) }
    }

    fn difference(&self, rates: &[u64]) -> Option<String> {
        let differ = self.sessions.iter().zip(&self.rates).zip(rates).filter(|((_, was), is)| was != is);
        let told = differ.map(|((of, was), is)| format!("session {} got {was} b/s and would get {is} b/s", of.session));
        let told: Vec<String> = told.collect();
        let more = if told.len() > TOLD_MAX { format!("; and {} more", told.len() - TOLD_MAX) } else { String::new() };
        let first: Vec<String> = told.iter().take(TOLD_MAX).cloned().collect();
        (!told.is_empty()).then(|| format!("the planning after event {}: {}{more}", self.after, first.join("; ")))
    }
}

impl Session {
    fn of(of: &Asked) -> Session {
        let path = of.path.as_ref().map(|path| path.iter().map(|(link, way)| (*link, *way == Way::Backward)).collect());
        Session {
            session: of.session,
            leg: of.leg,
            class: of.class,
            ends: (of.from, of.to),
            urgent: of.urgent,
            most_bps: of.most_bps,
            bytes: of.bytes,
            path,
        }
    }

    fn asked(&self) -> Asked {
        let way = |backward: bool| if backward { Way::Backward } else { Way::Forward };
        let path = self.path.as_ref().map(|path| path.iter().map(|(link, back)| (*link, way(*back))).collect());
        Asked {
            session: self.session,
            leg: self.leg,
            class: self.class,
            from: self.ends.0,
            to: self.ends.1,
            urgent: self.urgent,
            most_bps: self.most_bps,
            bytes: self.bytes,
            path,
        }
    }
}
