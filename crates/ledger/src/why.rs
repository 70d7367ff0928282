//! Why a transfer is in its phase: reckoned when asked, from the state and what is seen.

use std::collections::BTreeMap;

use crate::due::{Loads, side};
use crate::limits::{HOST_LISTINGS_MAX, LEGS_AT_ONCE};
use crate::{Leg, Location, Mode, Moment, Phase, Reason, Retry, Seen, State, Thing, Transfer, TransferId, What};

/// The phase of a transfer, and why it is in it: what it waits for, on whom, until when. `None` if there is no such transfer.
#[must_use]
pub fn standing(state: &State, seen: &Seen, now: Moment, id: TransferId) -> Option<(Phase, Reason)> {
    Standings::new(state, seen, now).of(id)
}

/// Where transfers stand, of one state: what is reckoned for one of them and is the same for others is kept.
#[derive(Debug)]
pub struct Standings<'a> {
    state: &'a State,
    seen: &'a Seen,
    now: Moment,
    loads: Option<Loads<'a>>,
    /// Legs that can run, by class and endpoint that they go to.
    ahead: Option<BTreeMap<(&'a str, &'a str), usize>>,
}

impl<'a> Standings<'a> {
    /// Of what is known now.
    #[must_use]
    pub fn new(state: &'a State, seen: &'a Seen, now: Moment) -> Standings<'a> {
        Standings { state, seen, now, loads: None, ahead: None }
    }

    /// As [`standing`].
    pub fn of(&mut self, id: TransferId) -> Option<(Phase, Reason)> {
        let transfer = self.state.transfers.get(&id)?;
        let phase = transfer.phase();
        let reason = match phase {
            Phase::Done | Phase::Partly | Phase::Failed | Phase::Cancelled => {
                transfer.ended.as_ref().map(|ended| ended.reason.clone())
            }
            Phase::Paused => transfer.paused.clone(),
            Phase::Waiting => {
                transfer.after.first().map(|other| Reason::new(What::Dependency).about(Thing::Transfer(*other)))
            }
            Phase::Listing => Some(self.listing(id, transfer)),
            Phase::Moving => Some(moving(self.state, self.seen, transfer)),
            Phase::Retrying => retrying(transfer),
            Phase::Queued => Some(self.queued(transfer)),
        };
        Some((phase, reason.unwrap_or(Reason::new(What::Next))))
    }

    fn listing(&self, id: TransferId, transfer: &Transfer) -> Reason {
        let seen = self.seen;
        if let Some(host) = seen.listings.get(&id) {
            return Reason::new(What::Listing).about(Thing::Host(host.clone()));
        }
        let hosts = match self.source_hosts(transfer, transfer.listing.spent) {
            Ok(hosts) => hosts,
            Err(reason) => return reason,
        };
        let lists = |host: &&str| seen.listings.values().filter(|other| other == host).count();
        let full = hosts.iter().all(|host| lists(host) >= HOST_LISTINGS_MAX);
        let about = Thing::Endpoint(transfer.sources[0].endpoint.clone());
        Reason::new(if full { What::Full } else { What::Next }).about(about)
    }

    fn queued(&mut self, transfer: &Transfer) -> Reason {
        let open = |leg: &&Leg| leg.given_up.is_none() && leg.open(&transfer.listing) > 0;
        let reasons = transfer.legs.iter().filter(open).map(|leg| self.leg_waits(transfer, leg));
        // A leg that is next says the least.
        let reasons: Vec<Reason> = reasons.collect();
        let telling = reasons.iter().find(|reason| reason.what != What::Next).or(reasons.first());
        telling.cloned().unwrap_or(Reason::new(What::Next))
    }

    fn leg_waits(&mut self, transfer: &Transfer, leg: &Leg) -> Reason {
        let (state, seen, now) = (self.state, self.seen, self.now);
        let from = match self.source_hosts(transfer, leg.spent) {
            Ok(from) => from,
            Err(reason) => return reason,
        };
        let to = match side(state, seen, now, transfer, &leg.to, true) {
            Ok(to) => to,
            Err(reason) => return reason,
        };
        let full = |endpoint: &str| Reason::new(What::Full).about(Thing::Endpoint(endpoint.to_owned()));
        let loads = self.loads.get_or_insert_with(|| Loads::of(state, seen));
        let no_room = |hosts: &[&str]| hosts.iter().all(|host| loads.room(host) == 0);
        if no_room(&from) {
            return full(&transfer.sources[0].endpoint);
        }
        if no_room(&to) {
            return full(&leg.to.endpoint);
        }
        let mut pages = (0..).zip(&leg.pages).filter(|(page, _)| leg.open_of(&transfer.listing, *page) > 0);
        let waits = |page: u32| leg.page_retries.get(&page).filter(|row| row.until > now);
        if let Some(row) = pages.next().and_then(|(page, _)| waits(page))
            && pages.all(|(page, _)| waits(page).is_some())
        {
            return Reason::new(What::Failed(row.cause))
                .about(Thing::Endpoint(leg.to.endpoint.clone()))
                .until(row.until);
        }
        let ahead = self.ahead.get_or_insert_with(|| ahead(state));
        match ahead.get(&(transfer.class.as_str(), leg.to.endpoint.as_str())) {
            Some(ahead) if *ahead > LEGS_AT_ONCE => {
                Reason::new(What::Behind).about(Thing::Class(transfer.class.clone()))
            }
            _ => Reason::new(What::Next).about(Thing::Class(transfer.class.clone())),
        }
    }

    /// The hosts of all sources that may serve; or why there are none, by the first source.
    fn source_hosts(&self, transfer: &Transfer, spent: u16) -> Result<Vec<&'a str>, Reason> {
        let sources = (0..).zip(&transfer.sources).filter(|(number, _)| spent & 1_u16 << number == 0);
        let mut first = None;
        let mut hosts = Vec::new();
        for (_, source) in sources {
            match side(self.state, self.seen, self.now, transfer, source, false) {
                Ok(more) => hosts.extend(more),
                Err(reason) => drop(first.get_or_insert(reason)),
            }
        }
        match first {
            Some(reason) if hosts.is_empty() => Err(reason),
            _ => Ok(hosts),
        }
    }
}

fn ahead(state: &State) -> BTreeMap<(&str, &str), usize> {
    let mut ahead = BTreeMap::new();
    for (lane, legs) in &state.index.runnable {
        *ahead.entry((lane.class.as_str(), lane.to.as_str())).or_default() += legs.len();
    }
    ahead
}

fn moving(state: &State, seen: &Seen, transfer: &Transfer) -> Reason {
    let sessions = || transfer.legs.iter().flat_map(|leg| &leg.sessions).filter_map(|id| state.sessions.get(id));
    let paused = |host: &&String| state.agents.get(*host).is_some_and(|agent| agent.mode() == Mode::Paused);
    let away = |host: &&String| !seen.agents.contains_key(*host);
    let stands = |of: &dyn Fn(&&String) -> bool| {
        let hosts = sessions().map(|session| [&session.from, &session.to].into_iter().find(of));
        // One session that moves is enough to move.
        hosts.collect::<Option<Vec<&String>>>().and_then(|hosts| hosts.first().map(|host| Thing::Host((*host).clone())))
    };
    if let Some(host) = stands(&paused) {
        return Reason::new(What::HostPaused).about(host);
    }
    if let Some(host) = stands(&away) {
        return Reason::new(What::HostAway).about(host);
    }
    Reason::new(What::Moving).saying(&match sessions().count() {
        1 => "one".to_owned(),
        many => format!("{many} of them"),
    })
}

fn retrying(transfer: &Transfer) -> Option<Reason> {
    let again = |row: &Retry, at: &Location| {
        let reason = Reason::new(What::Failed(row.cause)).about(Thing::Endpoint(at.endpoint.clone()));
        let words = if row.text.is_empty() { String::new() } else { format!(": {}", row.text) };
        reason.until(row.until).saying(&format!("attempt {}{words}", row.attempts))
    };
    if !transfer.listing.complete {
        return transfer.listing.retry.as_ref().map(|row| again(row, &transfer.sources[0]));
    }
    let asleep = |leg: &Leg| leg.retry.as_ref().filter(|row| row.asleep).map(|row| (row.until, again(row, &leg.to)));
    transfer.legs.iter().filter_map(asleep).min_by_key(|(until, _)| *until).map(|(_, reason)| reason)
}
