//! The service that plans transfers and leases rates to agents.
//!
//! ```text
//! clients ── http ── app ──▶ core ──▶ store: log · file ledger · archive
//! agents ─── hub ──────────▶  │
//!                             └─ ledger: state, what is due, rates, leases ─ plan
//! ```

#![forbid(unsafe_code)]

pub mod app;
mod applied;
mod cause;
pub mod config;
mod core;
pub mod events;
pub mod http;
pub mod hub;
mod planning;
mod replay;
mod run;
pub mod store;
mod views;

pub use crate::core::StartError;
pub use config::{Config, Overrides};
pub use replay::{Replayed, replay};
pub use run::{ADMIN_TOKEN_FILE, ControllerError, restore, run};
