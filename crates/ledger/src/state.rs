//! The fold of all events so far.

mod check;
mod hosts;
mod moving;
mod site;
mod transfers;
mod unfinished;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::event::versioned;
use crate::index::Index;
use crate::{
    Agent, ApiToken, Aside, BookingsKnown, DecodeError, Digest, Endpoint, Enrolment, Event, Limit, LinkTrouble, Moment,
    NetworkKnown, Resource, Session, SessionId, SharesKnown, Transfer, TransferId, UrgentUsed, Usage,
};

/// The version of the encoding: the first byte.
const VERSION: u8 = 2;
/// Of a state in which nothing urgent moved.
const VERSION_PLAIN: u8 = 1;

/// What is known, as events say. Only [`State::apply`] changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The network in force.
    pub network: Option<NetworkKnown>,
    /// Who shares it.
    pub shares: Option<SharesKnown>,
    /// By name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// By host.
    pub agents: BTreeMap<String, Agent>,
    /// By the digest of the token.
    pub enrolments: BTreeMap<Digest, Enrolment>,
    /// By name.
    pub tokens: BTreeMap<String, ApiToken>,
    /// By number; those that ended of late too.
    pub transfers: BTreeMap<TransferId, Transfer>,
    /// Those that run.
    pub sessions: BTreeMap<SessionId, Session>,
    /// What sessions named that ended early, and no other has taken up; the oldest first.
    pub unfinished: VecDeque<Unfinished>,
    /// Hosts on which sessions failed of late.
    pub asides: BTreeMap<String, Aside>,
    /// Limits from outside.
    pub limits: BTreeMap<Resource, Limit>,
    /// Links that are down, or were of late.
    pub links: BTreeMap<String, LinkTrouble>,
    /// Generations below this may be used by who reserved them.
    pub generations_below: u64,
    /// What was submitted with an idempotency key, by token and key.
    pub keys: BTreeMap<(String, String), Keyed>,
    /// What classes have used.
    pub usage: BTreeMap<String, Usage>,
    /// The number of the next transfer.
    pub next_transfer: TransferId,
    /// The least number of the next session.
    pub next_session: SessionId,
    /// What others have booked.
    pub bookings: Option<BookingsKnown>,
    /// What urgent transfers of classes used of late; behind all else in the bytes of a state.
    #[serde(skip)]
    pub urgent: BTreeMap<String, UrgentUsed>,
    /// What follows from all that, so that nothing is searched.
    #[serde(skip)]
    pub(crate) index: Index,
}

pub use unfinished::Unfinished;

/// A request that had an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyed {
    /// The transfer that it made.
    pub transfer: TransferId,
    /// Of the request.
    pub request: Digest,
    /// When.
    pub at: Moment,
}

/// An event that contradicts the state. The state is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("apply {event}: {why}")]
pub struct Rejected {
    /// The kind of the event.
    pub event: &'static str,
    /// What contradicts it.
    pub why: String,
}

impl State {
    /// Takes an event that happened at that time.
    ///
    /// # Errors
    /// If it contradicts the state, which is not changed then. One that was accepted once is accepted by the same state always.
    pub fn apply(&mut self, at: Moment, event: &Event) -> Result<(), Rejected> {
        self.take(at, event).map_err(|why| Rejected { event: event.kind(), why })
    }

    /// All of it in bytes: the same state gives the same bytes. [`crate::due`] and all else here depends on nothing but them.
    ///
    /// # Panics
    /// Never: a state is plain data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.urgent.is_empty() { VERSION_PLAIN } else { VERSION };
        let bytes = postcard::to_extend(self, vec![version]).expect("a state is plain data");
        match version {
            VERSION_PLAIN => bytes,
            _ => postcard::to_extend(&self.urgent, bytes).expect("a map of plain data"),
        }
    }

    /// The state of these bytes.
    ///
    /// # Errors
    /// If they are no state, of a later version, or a state that no events lead to.
    pub fn decode(bytes: &[u8]) -> Result<State, DecodeError> {
        let mut state: State = match bytes.first() {
            Some(&VERSION) => {
                let (state, urgent) = versioned("a state", VERSION, bytes)?;
                State { urgent, ..state }
            }
            _ => versioned("a state", VERSION_PLAIN, bytes)?,
        };
        state.check().map_err(|problem| DecodeError::Damaged { what: "a state", problem })?;
        state.index = Index::of(&state);
        Ok(state)
    }
}

/// What contradicts an event.
type Fit = Result<(), String>;

impl State {
    fn take(&mut self, at: Moment, event: &Event) -> Fit {
        match event {
            Event::NetworkSet { .. }
            | Event::SharesSet { .. }
            | Event::EndpointSet { .. }
            | Event::EndpointRemoved { .. }
            | Event::TokenMade { .. }
            | Event::TokenGone { .. }
            | Event::LimitSet { .. }
            | Event::LimitLifted { .. }
            | Event::LinkDown { .. }
            | Event::LinkHeld { .. }
            | Event::LinkUp { .. }
            | Event::LinkUsable { .. }
            | Event::LinkForgotten { .. }
            | Event::GenerationsReserved { .. }
            | Event::BookingsSet { .. }
            | Event::Restored {} => self.take_site(at, event),
            Event::EnrolmentMade { .. }
            | Event::EnrolmentExpired { .. }
            | Event::Enrolled { .. }
            | Event::AgentBack { .. }
            | Event::AgentAway { .. }
            | Event::AgentDecided { .. }
            | Event::AgentForgotten { .. } => self.take_host(at, event),
            Event::SessionStarted { .. }
            | Event::FilesSettled { .. }
            | Event::SessionUsed { .. }
            | Event::SessionEnded { .. } => self.take_session(at, event),
            _ => self.take_transfer(at, event),
        }
    }
}

/// That this holds, or what contradicts the event.
fn need(holds: bool, why: impl FnOnce() -> String) -> Fit {
    if holds { Ok(()) } else { Err(why()) }
}
