//! `longhaul token`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use units::Span;

/// Access tokens of the agent on this host
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul token new --read /data/run7 --expires 2d")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) what: TokenWhat,
}

/// What is done with tokens.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenWhat {
    New(NewArgs),
    /// List the tokens, without their secrets
    Ls(ListArgs),
    /// Take tokens back; nobody comes in with them from now on
    Revoke(RevokeArgs),
}

/// Which agent's.
#[derive(Debug, Clone, Args)]
pub(crate) struct StateArgs {
    /// State directory of the agent
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Configuration file of the agent (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Make a token and print it; it is shown this once
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul token new --read /data/run7 --expires 2d --name alice > alice.token")]
pub(crate) struct NewArgs {
    /// May read beneath this directory; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,

    /// May write beneath this directory; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,

    /// May run throughput tests
    #[arg(long)]
    pub(crate) test: bool,

    /// May have this agent drive a copy with another agent
    #[arg(long)]
    pub(crate) relay: bool,

    /// How long it lasts, such as 2d; without this for ever
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Span>,

    /// What it is called in lists and logs
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Listing.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul token ls --json")]
pub(crate) struct ListArgs {
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Revoking.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Sessions that run go on. `main` is replaced by a new one.\n\nExample:\n  longhaul token revoke alice"
)]
pub(crate) struct RevokeArgs {
    /// Names or ids, as in `longhaul token ls`; main for the main token
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}
