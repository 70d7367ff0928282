//! The daemon of a data transfer node: identity, tokens, roots, sessions, metrics.
//!
//! `longhaul serve` is [`run`] with a checked [`Config`]; the far end of an ssh start is [`oneshot()`];
//! `longhaul token` works on a [`TokenStore`]. With a controller the agent connects out to it and drives sessions for it
//! ([`controller`]). The bytes themselves are moved by `mover`: this crate
//! says who may do what ([`policy`]), with which identity, within which bounds, and counts it.
//!
//! ```text
//! serve.toml ┐                       ┌─ identity.pem, token, tokens.toml (state directory)
//! overrides  ┴▶ Config ─▶ run ─▶ mover::serve(listener, policy, bounds, counters)
//!                          └───▶ metrics                          ▲
//!                                                        who may do what: policy
//! ```
//!
//! Time and environment come in as arguments everywhere but in three places at the edge:
//! [`Environment::of_process`], the clock that [`policy`] checks expiry against, and [`signals`].

#![forbid(unsafe_code)]

pub mod behind;
pub mod config;
pub mod controller;
pub mod door;
pub mod error;
pub mod metrics;
pub mod oneshot;
pub mod path;
pub mod policy;
mod probe_port;
mod ready;
pub mod roots;
mod run;
pub mod tokens;

pub use config::{Config, ConfigError, ControllerAddress, Environment, Log, Overrides};
pub use error::AgentError;
pub use oneshot::{LocalAgent, OneshotOptions, oneshot};
pub use roots::{Root, Roots};
pub use run::{STOP_GRACE, run};
pub use service::StateError;
pub use service::stop::{Stop, signals};
pub use tokens::{TokenError, TokenStore};
