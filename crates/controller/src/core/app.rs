//! The controller as its faces see it: [`App`] over the core's thread.
//!
//! Each method sends a closure to the core. What may change something is answered when its turn is durable; what only looks is answered between
//! turns, when all of the state is. So a client never hears of something that a crash could undo. A full disk stops what changes the state;
//! what only looks is answered still.

mod announce;
mod counters;
mod explain;
mod history;
mod refusals;
mod site;
mod steer;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use api::agent::Mode;
use api::rest::{
    About, Accepted, Agent, ApiToken, Class, Counters, Endpoint, EndpointRequest, EnrolMade, EnrolRequest, Explanation,
    File, FilesQuery, History, HistoryQuery, Kind, Limit, LimitRequest, Link, Page, PatchRequest, Path, Problem,
    Series, Submitted, TokenMade, TokenRequest, Transfer, TransferId, TransferQuery, TransferRequest,
};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{Ask, Clock, Core, Doors, Shared};
use crate::app::{Answer, App, Caller, IdempotencyKey, Steer, TokenDigest};
use crate::events::EventHub;
use crate::views;

pub(crate) use super::paths::absolute;
pub(crate) use counters::{Counting, Trusted};
use refusals::Refusals;
pub(crate) use site::random_token;
use submit::Prepared;

/// After so long a client that found the core busy, or the disk full, may try again, s.
const AGAIN_SECONDS: u64 = 1;
/// Names of a submission that are not worth another thread.
const NAMES_AT_ONCE: usize = 500;
/// Explanations that are worked out at once, beside the core's thread.
const EXPLAINS_MAX: usize = 2;

/// What the core keeps for its faces, in memory only.
#[derive(Default)]
pub(crate) struct Desk {
    refusals: Refusals,
    /// What was counted on links.
    pub(crate) counting: Counting,
    /// When the first session of a transfer began, of those that this run of the controller saw.
    pub(crate) started: BTreeMap<ledger::TransferId, ledger::Moment>,
    /// Of which transfer a session is: when its end is told, the state has it no more.
    sessions: BTreeMap<ledger::SessionId, ledger::TransferId>,
}

/// The face's side of the core.
pub(crate) struct Face {
    looks: mpsc::Sender<Ask>,
    asks: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
    /// Of the controller's certificate, for agents to pin.
    fingerprint: String,
    explains: Semaphore,
    histories: Arc<Semaphore>,
}

impl Face {
    /// A face of the core behind these doors.
    pub(crate) fn new(doors: Doors, shared: Arc<Shared>, fingerprint: String) -> Face {
        let Doors { looks, asks, heard: _ } = doors;
        Face {
            looks,
            asks,
            shared,
            fingerprint,
            explains: Semaphore::new(EXPLAINS_MAX),
            histories: Arc::new(Semaphore::new(history::HISTORIES_MAX)),
        }
    }

    /// Has the core do something. If it fails with a problem it must have recorded nothing.
    pub(crate) async fn ask<T, F>(&self, f: F) -> Answer<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Core) -> Answer<T> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let ask: Ask = Box::new(move |core| {
            let answer = f(core);
            // Also of what others recorded in this turn: the answer may rest on it.
            let rests_on_turn = !core.batch.is_empty();
            core.reply(move |durable| {
                // An error: the client went away.
                let _ = tell.send(match durable {
                    Err(why) if rests_on_turn => Err(store_full(why)),
                    _ => answer,
                });
            });
        });
        send(&self.asks, ask)?;
        told.await.map_err(|_| stopping())?
    }

    /// Looks at something that is durable, and changes nothing. It waits for no `fsync` but that of the turn before.
    pub(crate) async fn look<T, F>(&self, f: F) -> Answer<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Core) -> Answer<T> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        send(&self.looks, Box::new(move |core| drop(tell.send(f(core)))))?;
        told.await.map_err(|_| stopping())?
    }
}

fn send(to: &mpsc::Sender<Ask>, ask: Ask) -> Answer<()> {
    to.try_send(ask).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => {
            let detail = "the controller has more requests waiting than it takes";
            Problem::new(Kind::TooMany, detail).fix("try again a little later").again(AGAIN_SECONDS)
        }
        mpsc::error::TrySendError::Closed(_) => stopping(),
    })
}

fn stopping() -> Problem {
    Problem::new(Kind::Unavailable, "the controller is stopping").fix("try again when it runs").again(AGAIN_SECONDS)
}

/// Nothing can be written. `why` says what the store said, with the way out.
fn store_full(why: &str) -> Problem {
    Problem::new(Kind::StoreFull, format!("the controller cannot write its store, nothing was changed: {why}"))
        .again(AGAIN_SECONDS)
}

/// A mistake of ours, not of the client.
fn internal(error: &dyn std::error::Error) -> Problem {
    Problem::new(Kind::Internal, format!("the controller made a mistake: {}", mover::session::chain(error)))
        .fix("look at the controller's log, and report it")
}

impl App for Face {
    fn caller(&self, digest: &TokenDigest) -> Option<Caller> {
        let tokens = self.shared.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let known = crate::http::find_constant_time(digest, tokens.iter().map(|token| (&token.digest, token)))?;
        let now = Clock::new().now();
        known.until.is_none_or(|until| until > now).then(|| known.caller.clone())
    }

    fn events(&self) -> &EventHub {
        &self.shared.events
    }

    fn health(&self) -> Answer<()> {
        if self.asks.is_closed() {
            return Err(stopping());
        }
        match &*self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(store_full(why)),
            None => Ok(()),
        }
    }

    async fn metrics(&self) -> Answer<String> {
        self.look(|core| views::metrics(core).map_err(|error| internal(&error))).await
    }

    async fn submit(
        &self,
        caller: &Caller,
        request: TransferRequest,
        key: Option<IdempotencyKey>,
    ) -> Answer<Submitted> {
        let by = caller.name.clone();
        let prepared = match request.files.len() {
            0..=NAMES_AT_ONCE => Prepared::of(request, key),
            _ => {
                let preparing = tokio::task::spawn_blocking(move || Prepared::of(request, key));
                preparing.await.map_err(|error| internal(&error))?
            }
        };
        self.ask(move |core| submit::submit(core, &by, prepared)).await
    }

    async fn transfers(&self, _: &Caller, query: TransferQuery) -> Answer<Page<Transfer>> {
        self.look(move |core| views::transfers(core, &query)).await
    }

    async fn transfer(&self, _: &Caller, id: TransferId) -> Answer<Transfer> {
        self.look(move |core| views::transfer(core, id)).await
    }

    async fn files(&self, _: &Caller, id: TransferId, query: FilesQuery) -> Answer<Page<File>> {
        self.look(move |core| views::files(core, id, &query)).await
    }

    async fn steer(&self, caller: &Caller, id: TransferId, how: Steer, reason: String) -> Answer<Transfer> {
        let by = caller.name.clone();
        self.ask(move |core| steer::steer(core, &by, id, how, &reason)).await
    }

    async fn patch(&self, _: &Caller, id: TransferId, request: PatchRequest) -> Answer<Transfer> {
        self.ask(move |core| steer::patch(core, id, request)).await
    }

    async fn network(&self, _: &Caller) -> Answer<String> {
        self.look(|core| {
            let none = || Problem::not_found("network yet").fix("set one with PUT /network");
            core.state.network.as_ref().map(|network| network.text.clone()).ok_or_else(none)
        })
        .await
    }

    async fn set_network(&self, caller: &Caller, toml: String) -> Answer<Accepted> {
        let by = caller.name.clone();
        self.ask(move |core| site::set_network(core, &by, &toml)).await
    }

    async fn shares(&self, _: &Caller) -> Answer<String> {
        self.look(|core| {
            let none = || Problem::not_found("classes and marks yet").fix("set some with PUT /shares");
            core.state.shares.as_ref().map(|shares| shares.text.clone()).ok_or_else(none)
        })
        .await
    }

    async fn set_shares(&self, caller: &Caller, toml: String) -> Answer<Accepted> {
        let by = caller.name.clone();
        self.ask(move |core| site::set_shares(core, &by, &toml)).await
    }

    async fn bookings(&self, _: &Caller) -> Answer<String> {
        self.look(|core| Ok(core.state.bookings.as_ref().map_or_else(String::new, |bookings| bookings.text.clone())))
            .await
    }

    async fn set_bookings(&self, caller: &Caller, toml: String) -> Answer<Accepted> {
        let by = caller.name.clone();
        self.ask(move |core| site::set_bookings(core, &by, &toml)).await
    }

    async fn classes(&self, _: &Caller) -> Answer<Vec<Class>> {
        self.look(|core| Ok(views::classes(core))).await
    }

    async fn links(&self, _: &Caller) -> Answer<Vec<Link>> {
        self.look(|core| Ok(views::links(core))).await
    }

    async fn link(&self, _: &Caller, id: &str) -> Answer<Link> {
        let id = id.to_owned();
        self.look(move |core| views::link(core, &id)).await
    }

    async fn paths(&self, _: &Caller) -> Answer<Vec<Path>> {
        self.look(|core| Ok(views::paths(core))).await
    }

    async fn path(&self, _: &Caller, id: &str) -> Answer<Path> {
        let id = id.to_owned();
        self.look(move |core| views::path(core, &id)).await
    }

    async fn endpoints(&self, _: &Caller) -> Answer<Vec<Endpoint>> {
        self.look(|core| Ok(views::endpoints(core))).await
    }

    async fn endpoint(&self, _: &Caller, name: &str) -> Answer<Endpoint> {
        let name = name.to_owned();
        self.look(move |core| views::endpoint(core, &name)).await
    }

    async fn set_endpoint(&self, _: &Caller, name: &str, request: EndpointRequest) -> Answer<Endpoint> {
        let name = name.to_owned();
        self.ask(move |core| site::set_endpoint(core, &name, request)).await
    }

    async fn remove_endpoint(&self, _: &Caller, name: &str) -> Answer<()> {
        let name = name.to_owned();
        self.ask(move |core| site::remove_endpoint(core, name)).await
    }

    async fn agents(&self, _: &Caller) -> Answer<Vec<Agent>> {
        self.look(|core| Ok(views::agents(core))).await
    }

    async fn enrol(&self, caller: &Caller, request: EnrolRequest) -> Answer<EnrolMade> {
        let (by, token, fingerprint) = (caller.name.clone(), site::token("lhe_")?, self.fingerprint.clone());
        self.ask(move |core| site::enrol(core, &by, request, token, fingerprint)).await
    }

    async fn remove_agent(&self, _: &Caller, host: &str) -> Answer<()> {
        let host = host.to_owned();
        self.ask(move |core| site::remove_agent(core, host)).await
    }

    async fn set_mode(&self, _: &Caller, host: &str, mode: Mode, reason: String) -> Answer<Agent> {
        let host = host.to_owned();
        self.ask(move |core| site::set_mode(core, host, mode, reason)).await
    }

    async fn limits(&self, _: &Caller) -> Answer<Vec<Limit>> {
        self.look(|core| Ok(views::limits(core))).await
    }

    async fn limit(&self, _: &Caller, resource: &str) -> Answer<Limit> {
        let resource = resource.to_owned();
        self.look(move |core| {
            let resource = site::resource(core, &resource)?;
            views::limit(core, &resource)
        })
        .await
    }

    async fn set_limit(&self, caller: &Caller, resource: &str, request: LimitRequest) -> Answer<Limit> {
        let (by, resource) = (caller.name.clone(), resource.to_owned());
        self.ask(move |core| site::set_limit(core, &by, &resource, request)).await
    }

    async fn lift_limit(&self, _: &Caller, resource: &str) -> Answer<()> {
        let resource = resource.to_owned();
        self.ask(move |core| site::lift_limit(core, &resource)).await
    }

    async fn count(&self, _: &Caller, counters: Counters) -> Answer<()> {
        self.ask(move |core| counters::count(core, &counters)).await
    }

    async fn history(&self, _: &Caller, query: HistoryQuery) -> Answer<History> {
        history::points(self, query).await
    }

    async fn series(&self, _: &Caller) -> Answer<Vec<Series>> {
        history::series(self).await
    }

    async fn explain(&self, _: &Caller, about: About, id: &str) -> Answer<Explanation> {
        let id = id.to_owned();
        let asked = self.look(move |core| explain::facts(core, about, &id)).await?;
        // The planner is asked again, which takes long for many sessions: not on the core's thread.
        let Ok(_place) = self.explains.acquire().await else { return Err(stopping()) };
        tokio::task::spawn_blocking(move || asked.answer()).await.map_err(|error| internal(&error))
    }

    async fn tokens(&self, _: &Caller) -> Answer<Vec<ApiToken>> {
        self.look(|core| Ok(views::tokens(core))).await
    }

    async fn make_token(&self, caller: &Caller, request: TokenRequest) -> Answer<TokenMade> {
        let (by, token) = (caller.name.clone(), site::token("lhc_")?);
        self.ask(move |core| site::make_token(core, &by, request, token)).await
    }

    async fn remove_token(&self, _: &Caller, name: &str) -> Answer<()> {
        let name = name.to_owned();
        self.ask(move |core| site::remove_token(core, name)).await
    }
}
