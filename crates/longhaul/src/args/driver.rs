//! `longhaul driver`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use units::Span;

use super::controller::ReachArgs;

const EXAMPLES: &str = "\
It needs CAP_NET_ADMIN. Only what it made itself is ever changed or removed: a root qdisc with the
handle 4c48:, rules and routes of protocol 241 in the tables 24101 to 24355.

Examples:
  longhaul driver plan /etc/longhaul/driver.toml     what would be done; nothing is
  longhaul driver apply /etc/longhaul/driver.toml    all of it, or nothing
  longhaul driver show                               what is there, and what went through it
  longhaul driver undo                               everything back to what it was";

/// Shape traffic and route it by policy, on this host or router (Linux)
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DriverArgs {
    #[command(subcommand)]
    pub(crate) what: DriverWhat,
}

/// What is done.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DriverWhat {
    /// Show the steps from what is there to what is wished; do none
    #[command(after_help = "Example:\n  longhaul driver plan driver.toml --json")]
    Plan(WishArgs),
    /// Do these steps, read back, and take all of them back if anything fails
    #[command(after_help = "Example:\n  longhaul driver apply driver.toml")]
    Apply(WishArgs),
    Follow(FollowArgs),
    /// Show what is there of the driver's, and what went through it
    #[command(after_help = "Example:\n  longhaul driver show --json")]
    Show {
        /// JSON on standard output
        #[arg(long)]
        json: bool,
    },
    /// Remove what the driver made
    #[command(after_help = "Example:\n  longhaul driver undo --interface eth1")]
    Undo {
        /// Only classes of this interface, and no routes; may be given several times
        #[arg(long, value_name = "NAME")]
        interface: Vec<String>,
        /// JSON on standard output
        #[arg(long)]
        json: bool,
    },
}

/// A wish, and whom to ask about its links and paths.
#[derive(Debug, Clone, Args)]
pub(crate) struct WishArgs {
    /// What is wished (TOML)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Keep to what a controller says, until stopped
///
/// The file is read once. Where an interface names a link, its rate and mark are asked for again and again, and applied when they changed; without
/// the controller what is there stays. A route that names a path is for the packets that the controller says, likewise. It tells the controller what the link carried, and that it is enforced. When it ends, what is there stays too.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul driver follow driver.toml --controller https://c.example.org")]
pub(crate) struct FollowArgs {
    #[command(flatten)]
    pub(crate) wish: WishArgs,

    /// How often to ask
    #[arg(long, value_name = "SPAN", default_value = "2s")]
    pub(crate) every: Span,
}
