//! What the faces of the controller ask of it: one method for each route of `/api/v1`.
//!
//! HTTP ([`crate::http`]) has checked before a method is called: who the caller is, that its role may do this
//! ([`crate::http::rights`]), that a submitter acts for its own collaboration only, and that the request can be meant
//! ([`api::rest::Check`]). An implementation checks what only its state knows, and answers with what is durable.

use std::future::Future;

use api::agent::Mode;
use api::rest::{
    About, Accepted, Agent, ApiToken, Class, Counters, Endpoint, EndpointRequest, EnrolMade, EnrolRequest, Explanation,
    File, FilesQuery, History, HistoryQuery, Limit, LimitRequest, Link, Page, PatchRequest, Path, Problem, Role,
    Series, Submitted, TokenMade, TokenRequest, Transfer, TransferId, TransferQuery, TransferRequest,
};

use crate::events::EventHub;

/// What a method answers.
pub type Answer<T> = Result<T, Problem>;

/// SHA-256 of a token's text: all that is kept of it.
pub type TokenDigest = [u8; 32];

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the token.
    pub name: String,
    /// What it is for.
    pub role: Role,
}

/// What a caller sent so that a request that is sent again is not done again: at most [`api::rest::KEY_MAX`] printable
/// characters. Two callers with the same key have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdempotencyKey(pub String);

/// What is done to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Its sessions end in good order, nothing new begins.
    Pause,
    /// It goes on.
    Resume,
    /// It ends; what is in place stays.
    Cancel,
}

/// The controller as its faces see it. All futures can be dropped at any point: a client went away.
pub trait App: Send + Sync + 'static {
    /// Whose token this is, if it is one that is good now. Compares with all there are, each in constant time
    /// ([`crate::http::find_constant_time`]).
    fn caller(&self, digest: &TokenDigest) -> Option<Caller>;

    /// What happened and happens.
    fn events(&self) -> &EventHub;

    /// `GET /health`: an error if it cannot do its work, such as when its store is full.
    fn health(&self) -> Answer<()>;

    /// `GET /metrics`: numbers in the OpenMetrics text format, with or without the `# EOF` at its end.
    fn metrics(&self) -> impl Future<Output = Answer<String>> + Send;

    /// `POST /transfers`. `collaboration` is always there. With a key that this caller has used for an equal request the
    /// answer is that of the first; for another request [`api::rest::Kind::KeyReused`].
    fn submit(
        &self,
        caller: &Caller,
        request: TransferRequest,
        key: Option<IdempotencyKey>,
    ) -> impl Future<Output = Answer<Submitted>> + Send;

    /// `GET /transfers`, the newest first.
    fn transfers(&self, caller: &Caller, query: TransferQuery) -> impl Future<Output = Answer<Page<Transfer>>> + Send;

    /// `GET /transfers/{id}`.
    fn transfer(&self, caller: &Caller, id: TransferId) -> impl Future<Output = Answer<Transfer>> + Send;

    /// `GET /transfers/{id}/files`.
    fn files(
        &self,
        caller: &Caller,
        id: TransferId,
        query: FilesQuery,
    ) -> impl Future<Output = Answer<Page<File>>> + Send;

    /// `POST /transfers/{id}/pause`, `resume` and `cancel`. Doing it again changes nothing and is no problem.
    fn steer(
        &self,
        caller: &Caller,
        id: TransferId,
        how: Steer,
        reason: String,
    ) -> impl Future<Output = Answer<Transfer>> + Send;

    /// `PATCH /transfers/{id}`.
    fn patch(
        &self,
        caller: &Caller,
        id: TransferId,
        request: PatchRequest,
    ) -> impl Future<Output = Answer<Transfer>> + Send;

    /// `GET /network`: the TOML as it was accepted.
    fn network(&self, caller: &Caller) -> impl Future<Output = Answer<String>> + Send;

    /// `PUT /network`: a whole file.
    fn set_network(&self, caller: &Caller, toml: String) -> impl Future<Output = Answer<Accepted>> + Send;

    /// `GET /shares`: the TOML of classes and marks as it was accepted.
    fn shares(&self, caller: &Caller) -> impl Future<Output = Answer<String>> + Send;

    /// `PUT /shares`: a whole file.
    fn set_shares(&self, caller: &Caller, toml: String) -> impl Future<Output = Answer<Accepted>> + Send;

    /// `GET /bookings`: the TOML of what others have booked as it was accepted; empty before.
    fn bookings(&self, caller: &Caller) -> impl Future<Output = Answer<String>> + Send;

    /// `PUT /bookings`: a whole file.
    fn set_bookings(&self, caller: &Caller, toml: String) -> impl Future<Output = Answer<Accepted>> + Send;

    /// `GET /classes`.
    fn classes(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Class>>> + Send;

    /// `GET /links`.
    fn links(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Link>>> + Send;

    /// `GET /links/{id}`.
    fn link(&self, caller: &Caller, id: &str) -> impl Future<Output = Answer<Link>> + Send;

    /// `GET /paths`.
    fn paths(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Path>>> + Send;

    /// `GET /paths/{id}`.
    fn path(&self, caller: &Caller, id: &str) -> impl Future<Output = Answer<Path>> + Send;

    /// `GET /endpoints`.
    fn endpoints(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Endpoint>>> + Send;

    /// `GET /endpoints/{name}`.
    fn endpoint(&self, caller: &Caller, name: &str) -> impl Future<Output = Answer<Endpoint>> + Send;

    /// `PUT /endpoints/{name}`: makes it, or puts this in place of what it was.
    fn set_endpoint(
        &self,
        caller: &Caller,
        name: &str,
        request: EndpointRequest,
    ) -> impl Future<Output = Answer<Endpoint>> + Send;

    /// `DELETE /endpoints/{name}`.
    fn remove_endpoint(&self, caller: &Caller, name: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `GET /agents`.
    fn agents(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Agent>>> + Send;

    /// `POST /agents/tokens`.
    fn enrol(&self, caller: &Caller, request: EnrolRequest) -> impl Future<Output = Answer<EnrolMade>> + Send;

    /// `DELETE /agents/{host}`: it must be enrolled anew.
    fn remove_agent(&self, caller: &Caller, host: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `POST /agents/{host}/drain`, `pause` and `resume`. Doing it again changes nothing and is no problem.
    fn set_mode(
        &self,
        caller: &Caller,
        host: &str,
        mode: Mode,
        reason: String,
    ) -> impl Future<Output = Answer<Agent>> + Send;

    /// `GET /limits`.
    fn limits(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Limit>>> + Send;

    /// `GET /limits/{resource}`.
    fn limit(&self, caller: &Caller, resource: &str) -> impl Future<Output = Answer<Limit>> + Send;

    /// `PUT /limits/{resource}`: makes it, or puts this in place of what it was.
    fn set_limit(
        &self,
        caller: &Caller,
        resource: &str,
        request: LimitRequest,
    ) -> impl Future<Output = Answer<Limit>> + Send;

    /// `DELETE /limits/{resource}`.
    fn lift_limit(&self, caller: &Caller, resource: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `POST /counters`.
    fn count(&self, caller: &Caller, counters: Counters) -> impl Future<Output = Answer<()>> + Send;

    /// `GET /history`.
    fn history(&self, caller: &Caller, query: HistoryQuery) -> impl Future<Output = Answer<History>> + Send;

    /// `GET /history/series`.
    fn series(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<Series>>> + Send;

    /// `GET /explain/{kind}/{id}`.
    fn explain(&self, caller: &Caller, about: About, id: &str) -> impl Future<Output = Answer<Explanation>> + Send;

    /// `GET /tokens`.
    fn tokens(&self, caller: &Caller) -> impl Future<Output = Answer<Vec<ApiToken>>> + Send;

    /// `POST /tokens`.
    fn make_token(&self, caller: &Caller, request: TokenRequest) -> impl Future<Output = Answer<TokenMade>> + Send;

    /// `DELETE /tokens/{name}`.
    fn remove_token(&self, caller: &Caller, name: &str) -> impl Future<Output = Answer<()>> + Send;
}
