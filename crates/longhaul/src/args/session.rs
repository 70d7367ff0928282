//! `longhaul session`.

use clap::{Args, Subcommand};

use super::value::{STREAMS_MAX, SetPoint};

/// Copies and tests that run on this host: list, change, stop
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul session ls")]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) what: SessionWhat,
}

/// What is done with sessions.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SessionWhat {
    /// List the sessions of this user
    #[command(after_help = "Example:\n  longhaul session ls --json")]
    Ls {
        /// One JSON object on standard output
        #[arg(long)]
        json: bool,
    },
    Set(SetArgs),
    /// Stop a session; what is in flight is finished, and the same command continues later
    #[command(after_help = "Example:\n  longhaul session stop 3f2a")]
    Stop {
        /// The session; the beginning of its id is enough
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Change a running session
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul session set 3f2a --rate 2Gb/s")]
pub(crate) struct SetArgs {
    /// The session; the beginning of its id is enough
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// New greatest rate; off for none
    #[arg(long, value_name = "RATE|off", required_unless_present = "streams")]
    pub(crate) rate: Option<SetPoint>,

    /// New number of streams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS_MAX)))]
    pub(crate) streams: Option<u16>,
}
