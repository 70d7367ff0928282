//! The routes: one table, from which the router, the rights and the OpenAPI document are made.

mod table;

use std::sync::Arc;

use api::rest::{Kind, Problem};
use axum::Router;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::{Request, Uri};
use axum::routing::{MethodFilter, on};
use schemars::{Schema, SchemaGenerator};

use super::rights::Deed;
use super::{Face, answer, request};
use crate::app::App;

pub use table::ROUTES;

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `GET`, `PUT`, `POST`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// With `{name}` for what is filled in.
    pub path: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What of the app it calls.
    pub call: Call,
    /// What is done by it; `None` may be done without a token.
    pub deed: Option<Deed>,
    /// Media type of its body, if it takes one.
    pub takes: Option<Media>,
    /// Its body may be [`api::rest::BODY_LARGE_MAX`] long, else [`api::rest::BODY_MAX`].
    pub large: bool,
    /// Whether it heeds an `Idempotency-Key`.
    pub keyed: bool,
    /// The fields of its query.
    pub query: Option<Describe>,
    /// Its body.
    pub body: Option<Describe>,
    /// What it answers.
    pub answer: Option<Describe>,
    /// Media type of what it answers, if it answers something.
    pub gives: &'static str,
    /// Status of its answer.
    pub status: u16,
}

/// Gives the schema of a type.
pub type Describe = fn(&mut SchemaGenerator) -> Schema;

/// Media types of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/toml`, or plain text.
    Toml,
}

impl Media {
    /// What it may be called; the first is what it is.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Media::Json => &["application/json"],
            Media::Toml => &["application/toml", "text/plain", "text/x-toml"],
        }
    }
}

/// What a route calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of `App` of that name, or a page of this face")]
pub enum Call {
    Submit,
    Transfers,
    Transfer,
    Files,
    Pause,
    Resume,
    Cancel,
    Patch,
    Network,
    SetNetwork,
    Shares,
    SetShares,
    Bookings,
    SetBookings,
    Classes,
    Links,
    Link,
    Paths,
    Path,
    Endpoints,
    Endpoint,
    SetEndpoint,
    RemoveEndpoint,
    Agents,
    Enrol,
    RemoveAgent,
    DrainAgent,
    PauseAgent,
    ResumeAgent,
    Limits,
    Limit,
    SetLimit,
    LiftLimit,
    Count,
    History,
    Series,
    Explain,
    Events,
    Tokens,
    MakeToken,
    RemoveToken,
    Metrics,
    OpenApi,
    Health,
}

/// All routes.
pub(super) fn router<A: App>(face: Arc<Face<A>>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let face = face.clone();
        let handler = move |params: RawPathParams, request: Request<Body>| request::run(route, face, params, request);
        router = router.route(route.path, on(filter(route.method), handler));
    }
    let unknown = face.clone();
    router
        .method_not_allowed_fallback(async move |request: Request<Body>| {
            let problem = not_allowed(request.method().as_str(), request.uri());
            face.numbers.answered(problem.status);
            answer::problem(&problem)
        })
        .fallback(async move |uri: Uri| {
            unknown.numbers.answered(Kind::NotFound.status());
            answer::problem(&Problem::not_found(format!("path `{}`", short(&uri))).fix("see GET /api/v1/openapi.json"))
        })
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "GET" => MethodFilter::GET,
        "PUT" => MethodFilter::PUT,
        "POST" => MethodFilter::POST,
        "PATCH" => MethodFilter::PATCH,
        "DELETE" => MethodFilter::DELETE,
        other => unreachable!("no route has the method {other}"),
    }
}

fn not_allowed(method: &str, uri: &Uri) -> Problem {
    let problem = Problem::new(Kind::MethodNotAllowed, format!("`{}` does not take {method}", short(uri)));
    problem.fix("see GET /api/v1/openapi.json")
}

fn short(uri: &Uri) -> String {
    uri.path().chars().take(80).collect()
}
