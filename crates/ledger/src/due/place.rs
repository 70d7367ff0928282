//! Which sessions start, and between which hosts.
//!
//! Classes take turns, by their sessions over their weights; legs of a class go by their rank, and those of one class between the same endpoints
//! (a **lane**) only some at once. A leg gets as many sessions as the side with more hosts has hosts, each between the hosts with least to do,
//! so that many hosts fill together what no pair can. A session gets half of its part of what is open: the last ones end together, and
//! what a host that dies had is little.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Lane, LegId, Rank};
use crate::limits::{
    LEG_SESSIONS_MAX, LEGS_AT_ONCE, SESSION_BYTES_LEAST, SESSION_BYTES_MAX, SESSION_FILES_LEAST, SESSION_FILES_UNSIZED,
    SESSIONS_MAX, STARTS_MAX,
};
use crate::{Action, Do, Files, Leg, Moment, Reason, Seen, SessionId, Start, State, Thing, Transfer, What};

use super::{Loads, sessions_by_class, side};

/// A session with less than this part of its bytes left does not keep the next from beginning: 1/this.
const NEARLY: u64 = 10;
/// Weights and sessions are compared in these parts.
const PARTS: u64 = 1 << 32;

pub(super) fn starts(state: &State, seen: &Seen, now: Moment, found: &mut Vec<Action>) {
    let loads = Loads::of(state, seen);
    let with_room = with_room(state, &loads);
    if with_room.is_empty() {
        return;
    }
    let next = state.next_session.0;
    let most = STARTS_MAX.min(SESSIONS_MAX.saturating_sub(state.sessions.len()));
    let mut placing = Placing { state, seen, now, loads, next, extra: BTreeMap::new() };
    let mut classes = Classes::of(state, &with_room);
    let mut started = 0;
    while started < most {
        let Some((class, number)) = classes.next() else { return };
        let lane = &mut classes.lanes[number];
        let Some((_, leg)) = lane.candidate() else { continue };
        match placing.place(leg, lane) {
            Placed::Start(start) => {
                let reason = Reason::new(What::Chosen).about(Thing::Host(start.from.clone()));
                found.push(Action { what: Do::Start(start), reason });
                started += 1;
                classes.put_back(class, number, true);
            }
            Placed::Enough => {
                lane.pass();
                classes.put_back(class, number, false);
            }
            // The hosts of the lane have no room: nothing else in it can start either.
            Placed::Full => {}
        }
    }
}

/// The endpoints of which some host has room. Where many lanes wait for few hosts nearly all are passed over by this alone.
fn with_room<'a>(state: &'a State, loads: &Loads<'_>) -> BTreeSet<&'a str> {
    let has_room = |hosts: &BTreeSet<String>| hosts.iter().any(|host| loads.room(host) > 0);
    let endpoints = state.endpoints.iter().filter(|(_, endpoint)| has_room(&endpoint.hosts));
    endpoints.map(|(name, _)| name.as_str()).collect()
}

/// What came of an attempt to start a session for a leg.
enum Placed {
    Start(Start),
    /// This leg gets no more now; another of its lane may.
    Enough,
    /// No leg of its lane gets any.
    Full,
}

/// The classes with something to do, in turn.
struct Classes<'a> {
    lanes: Vec<Runs<'a>>,
    /// By turn; then tier, name.
    turns: BTreeSet<(u64, u8, &'a str)>,
    of: BTreeMap<&'a str, Turn>,
}

struct Turn {
    sessions: u64,
    weight: u64,
    tier: u8,
    /// Lanes by their first leg.
    lanes: BTreeSet<(Rank, LegId, usize)>,
}

/// The legs of a lane, from the first on.
struct Runs<'a> {
    legs: std::iter::Peekable<std::collections::btree_set::Iter<'a, (Rank, LegId)>>,
    /// Legs that have sessions, of those passed.
    moving: usize,
}

impl Runs<'_> {
    fn candidate(&mut self) -> Option<(Rank, LegId)> {
        self.legs.peek().map(|entry| **entry)
    }

    fn pass(&mut self) {
        self.legs.next();
    }
}

impl Turn {
    fn key<'a>(&self, class: &'a str) -> (u64, u8, &'a str) {
        (self.sessions.saturating_mul(PARTS) / self.weight, self.tier, class)
    }
}

impl<'a> Classes<'a> {
    /// Those with lanes of which both ends have room.
    fn of(state: &'a State, with_room: &BTreeSet<&str>) -> Classes<'a> {
        let sessions = sessions_by_class(state);
        let mut classes = Classes { lanes: Vec::new(), turns: BTreeSet::new(), of: BTreeMap::new() };
        let has_room = |endpoint: &String| with_room.contains(endpoint.as_str());
        // Lanes from the same endpoints follow each other: where hosts are full most are passed over by one comparison.
        let mut last: Option<(&[String], bool)> = None;
        for (Lane { class, from, to }, legs) in &state.index.runnable {
            let known = last.filter(|(before, _)| before == from);
            let (_, may_leave) = *last.insert(known.unwrap_or_else(|| (from, from.iter().any(has_room))));
            if !may_leave || !has_room(to) {
                continue;
            }
            let known = state.shares.as_ref().and_then(|shares| shares.classes.get(class));
            let (weight, tier) = known.map_or((1, 0), |class| (u64::from(class.weight.max(1)), class.tier));
            let number = classes.lanes.len();
            classes.lanes.push(Runs { legs: legs.iter().peekable(), moving: 0 });
            if let Entry::Vacant(place) = classes.of.entry(class) {
                let sessions = sessions.get(class.as_str()).copied().unwrap_or(0);
                place.insert(Turn { sessions, weight, tier, lanes: BTreeSet::new() });
            }
            classes.put_back(class, number, false);
        }
        classes
    }

    /// The class whose turn it is, with the lane of its first leg; both are taken out.
    fn next(&mut self) -> Option<(&'a str, usize)> {
        loop {
            let (_, _, class) = self.turns.pop_first()?;
            let turn = self.of.get_mut(class)?;
            if let Some((_, _, number)) = turn.lanes.pop_first() {
                if !turn.lanes.is_empty() {
                    self.turns.insert(turn.key(class));
                }
                return Some((class, number));
            }
        }
    }

    /// Puts back a lane that has legs left, with a session more or not.
    fn put_back(&mut self, class: &'a str, number: usize, started: bool) {
        let Some(turn) = self.of.get_mut(class) else { return };
        self.turns.remove(&turn.key(class));
        turn.sessions += u64::from(started);
        if let Some((rank, leg)) = self.lanes[number].candidate() {
            turn.lanes.insert((rank, leg, number));
        }
        if !turn.lanes.is_empty() {
            self.turns.insert(turn.key(class));
        }
    }
}

struct Placing<'a> {
    state: &'a State,
    seen: &'a Seen,
    now: Moment,
    loads: Loads<'a>,
    next: u64,
    /// What was started in this call, by leg.
    extra: BTreeMap<LegId, Extra<'a>>,
}

/// The sessions of a leg that are not in the state yet.
#[derive(Default)]
struct Extra<'a> {
    sessions: usize,
    given: BTreeMap<u32, u32>,
    hosts: BTreeMap<&'a str, u32>,
}

impl<'a> Placing<'a> {
    fn place(&mut self, id: LegId, lane: &mut Runs<'_>) -> Placed {
        let state = self.state;
        let transfer = &state.transfers[&id.0];
        let leg = &transfer.legs[usize::from(id.1)];
        let begun = !leg.sessions.is_empty() || self.extra.contains_key(&id);
        if !begun && lane.moving >= LEGS_AT_ONCE {
            return Placed::Full;
        }
        let outcome = self.attempt(id, transfer, leg);
        // Passed once and for all when it gets no more.
        if matches!(outcome, Placed::Enough) && (begun || self.extra.contains_key(&id)) {
            lane.moving += 1;
        }
        outcome
    }

    fn attempt(&mut self, id: LegId, transfer: &'a Transfer, leg: &'a Leg) -> Placed {
        let to = match side(self.state, self.seen, self.now, transfer, &leg.to, true) {
            Ok(to) => to,
            Err(reason) => return without_hosts(leg, &reason),
        };
        let mut why = None;
        let from: Vec<(u8, &'a str)> = (0_u8..)
            .zip(&transfer.sources)
            .filter(|(number, _)| leg.spent & 1 << number == 0)
            .flat_map(|(number, source)| {
                let hosts = side(self.state, self.seen, self.now, transfer, source, false);
                let hosts = hosts.unwrap_or_else(|reason| {
                    // A missing grant says the most: it is of this transfer alone.
                    if why.is_none() || reason.what == What::NoGrant {
                        why = Some(reason);
                    }
                    Vec::new()
                });
                hosts.into_iter().map(move |host| (number, host))
            })
            .collect();
        if from.is_empty() {
            return why.map_or(Placed::Enough, |reason| without_hosts(leg, &reason));
        }
        let readers: BTreeSet<&str> = from.iter().map(|(_, host)| *host).collect();
        let width = readers.len().max(to.len()).min(LEG_SESSIONS_MAX);
        let extra = self.extra.entry(id).or_default();
        let running = leg.sessions.iter().filter(|session| !nearly_done(self.state, self.seen, **session)).count();
        let before = extra.sessions;
        if running + before >= width || leg.sessions.len() + before >= LEG_SESSIONS_MAX {
            self.drop_unused(id);
            return Placed::Enough;
        }
        let Some((to, from)) = self.rooms(id, leg, &to, &from) else {
            self.drop_unused(id);
            return if leg.spent == 0 { Placed::Full } else { Placed::Enough };
        };
        let outcome =
            self.page(id, transfer, leg, width, &from).map_or(Placed::Enough, |(page, source, host, files)| {
                Placed::Start(self.start(id, transfer, page, (source, host, to), files))
            });
        self.drop_unused(id);
        outcome
    }

    fn drop_unused(&mut self, id: LegId) {
        if self.extra.get(&id).is_some_and(|extra| extra.sessions == 0) {
            self.extra.remove(&id);
        }
    }

    /// The best destination with room, and the sources with room, best first; `None` if either side has none.
    fn rooms(
        &self,
        id: LegId,
        leg: &Leg,
        to: &[&'a str],
        from: &[(u8, &'a str)],
    ) -> Option<(&'a str, Vec<(u8, &'a str)>)> {
        let of_leg = |host: &str| {
            let sessions = leg.sessions.iter().filter(|session| self.state.sessions[session].is_at(host)).count();
            let extra = self.extra.get(&id).and_then(|extra| extra.hosts.get(host)).copied().unwrap_or(0);
            sessions as u64 + u64::from(extra)
        };
        let key = |host: &str| (of_leg(host), self.loads.fullness(host));
        let to = to.iter().copied().filter(|host| self.loads.room(host) > 0).min_by_key(|host| (key(host), *host))?;
        // A session within one host takes two places of it.
        let room = |host: &str| self.loads.room(host) > u32::from(host == to);
        let mut from: Vec<(u8, &'a str)> = from.iter().copied().filter(|(_, host)| room(host)).collect();
        from.sort_by_key(|(number, host)| (*host == to, key(host), *number, *host));
        (!from.is_empty()).then_some((to, from))
    }

    /// The first page with open files that one of the sources can serve now: with that source, its host, and how many files.
    fn page(
        &self,
        id: LegId,
        transfer: &Transfer,
        leg: &Leg,
        width: usize,
        from: &[(u8, &'a str)],
    ) -> Option<(u32, u8, &'a str, u32)> {
        let listing = &transfer.listing;
        let extra = self.extra.get(&id);
        let taken = |page: u32| extra.and_then(|extra| extra.given.get(&page)).copied().unwrap_or(0);
        let all_taken: u64 = extra.map_or(0, |extra| extra.given.values().map(|files| u64::from(*files)).sum());
        for page in 0..u32::try_from(leg.pages.len()).unwrap_or(u32::MAX) {
            let open = leg.open_of(listing, page).saturating_sub(taken(page));
            let waits = |row: &crate::Retry| row.is_spent() || row.until > self.now;
            if open == 0 || leg.page_retries.get(&page).is_some_and(waits) {
                continue;
            }
            let missing = leg.pages[page as usize].missing;
            if let Some((source, host)) = from.iter().find(|(number, _)| missing & 1 << number == 0) {
                let open_all = leg.open(listing).saturating_sub(all_taken);
                return Some((page, *source, host, part(transfer, page, open, open_all, width as u64)));
            }
        }
        None
    }

    fn start(
        &mut self,
        id: LegId,
        transfer: &Transfer,
        page: u32,
        (source, from, to): (u8, &'a str, &'a str),
        files: u32,
    ) -> Start {
        let wished = match transfer.how.streams {
            0 => u32::MAX,
            streams => u32::from(streams),
        };
        let streams = self.loads.streams(from).min(self.loads.streams(to)).min(wished);
        self.loads.add(from, to, streams);
        let extra = self.extra.entry(id).or_default();
        extra.sessions += 1;
        *extra.given.entry(page).or_default() += files;
        for host in [from, to] {
            *extra.hosts.entry(host).or_default() += 1;
        }
        let session = SessionId(self.next);
        self.next = self.next.saturating_add(1);
        let (from, to) = (from.to_owned(), to.to_owned());
        Start {
            session,
            transfer: id.0,
            leg: id.1,
            page,
            source,
            from,
            to,
            files,
            bytes_max: SESSION_BYTES_MAX,
            streams,
        }
    }
}

/// What a leg without hosts means for those behind it: grants and sources that cannot serve are its own matter, all else is its lane's.
fn without_hosts(leg: &Leg, reason: &Reason) -> Placed {
    if reason.what == What::NoGrant || leg.spent != 0 { Placed::Enough } else { Placed::Full }
}

/// How many of the open files of a page a session gets, when so many do the leg.
fn part(transfer: &Transfer, page: u32, open: u32, open_all: u64, width: u64) -> u32 {
    let fair = if width == 1 { u64::from(open) } else { open_all.div_ceil(2 * width) };
    if transfer.files == (Files::List { sized: false }) {
        // Whatever they weigh, a list of a few files is dealt out evenly, and one of many not in crumbs.
        let least = SESSION_FILES_LEAST.min(open_all.div_ceil(width));
        return fair.max(least).clamp(1, u64::from(open.min(SESSION_FILES_UNSIZED))) as u32;
    }
    let known = &transfer.listing.pages[page as usize];
    let mean = (known.bytes / u64::from(known.files.max(1))).max(1);
    let least = SESSION_BYTES_LEAST.div_ceil(mean);
    let most = (SESSION_BYTES_MAX / mean).clamp(1, u64::from(open));
    fair.max(least).clamp(1, most) as u32
}

fn nearly_done(state: &State, seen: &Seen, id: SessionId) -> bool {
    let (Some(session), Some(known)) = (state.sessions.get(&id), seen.sessions.get(&id)) else { return false };
    session.bytes > 0 && session.bytes.saturating_sub(known.bytes_done) < session.bytes / NEARLY
}
