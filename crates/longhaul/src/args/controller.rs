//! Commands that ask a controller.

pub(crate) mod fleet;
pub(crate) mod token;
pub(crate) mod transfer;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mover::request::Fingerprint;

/// One per kind of thing that a controller knows.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ControllerCommand {
    Transfer(transfer::TransferArgs),
    Class(fleet::ClassArgs),
    Topology(fleet::TopologyArgs),
    Agent(fleet::AgentArgs),
    Booking(fleet::BookingArgs),
    Endpoint(fleet::EndpointArgs),
    Limit(fleet::LimitArgs),
    Event(fleet::EventArgs),
    Explain(fleet::ExplainArgs),
    History(fleet::HistoryArgs),
}

/// Which controller, and what lets us in.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct ReachArgs {
    /// Where it is: https://HOST or https://HOST:PORT, without one port 4811; else the environment's LONGHAUL_CONTROLLER
    #[arg(long, value_name = "URL")]
    pub(crate) controller: Option<String>,

    /// File with the API token; else the environment's LONGHAUL_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Fingerprint that it must have, sha256:HEX; nothing is pinned then
    #[arg(long, value_name = "SHA256")]
    pub(crate) fingerprint: Option<Fingerprint>,

    /// File of pinned fingerprints; default $XDG_STATE_HOME/longhaul/known_hosts
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
