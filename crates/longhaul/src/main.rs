//! One program for people who move petabytes between far-apart sites.
//!
//! ```text
//! words ──▶ args::Args ──▶ action::Action ──▶ mover, agent
//!           as written      checked             │ events
//!                                               ▼
//!                                       output: line, table, JSON, report
//! ```

#![forbid(unsafe_code)]

mod action;
mod args;
mod drive;
mod environment;
mod exit;
mod known_hosts;
mod output;
mod reach;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    exit::report(action::Action::of(args).and_then(action::Action::run))
}
