//! The face of the controller: HTTPS and the agents' stream on one port.
//!
//! ```text
//! accept ─▶ handshake (bounded) ─┬─ longhaul-agent/1 ─▶ what the caller of `serve` gave
//!                                └─ http/1.1 ─▶ route ─▶ token ─▶ rate ─▶ rights ─▶ body ─▶ App
//! ```
//!
//! The routes are one table ([`routes`]): the router, the rights and the OpenAPI document ([`openapi`]) are made of it. A handler
//! calls one method of [`crate::app::App`].

mod answer;
mod auth;
mod bounds;
mod dispatch;
mod listen;
mod numbers;
pub mod openapi;
mod patient;
mod places;
mod port;
mod rate;
mod request;
pub mod rights;
pub mod routes;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub use auth::{find_constant_time, token_digest};
pub use bounds::Bounds;
pub use bounds::{
    AGENTS_MAX, BODIES_LARGE_MAX, BODY_TIME, CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, HANDSHAKE_TIME,
    HANDSHAKES_MAX, HEADER_BYTES_MAX, HEADER_TIME, HEADERS_MAX, LISTENERS_MAX, REQUESTS_BURST, REQUESTS_PER_SECOND,
    STOP_GRACE, STRANGERS_BURST, STRANGERS_PER_SECOND, WRITE_TIME,
};
pub use port::{Port, serve};

use numbers::Numbers;
use rate::Rates;

/// How the face behaves.
#[derive(Clone, Debug, Default)]
pub struct FaceOptions {
    /// What clients may use.
    pub bounds: Bounds,
    /// Metrics are for everybody, without a token.
    pub open_metrics: bool,
}

/// What all requests share.
struct Face<A> {
    app: Arc<A>,
    options: FaceOptions,
    rates: Rates,
    listeners: Arc<Semaphore>,
    large_bodies: Semaphore,
    numbers: Arc<Numbers>,
}

impl<A> Face<A> {
    fn new(app: Arc<A>, options: FaceOptions) -> Face<A> {
        Face {
            app,
            rates: Rates::default(),
            listeners: Arc::new(Semaphore::new(options.bounds.listeners)),
            large_bodies: Semaphore::new(options.bounds.large_bodies),
            numbers: Arc::default(),
            options,
        }
    }
}
