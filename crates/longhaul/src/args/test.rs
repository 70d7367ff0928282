//! `longhaul test`.

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use units::Span;

use super::groups::{AccessArgs, OutputArgs, TransportArgs};
use super::location::Location;

const EXAMPLES: &str = "\
HOST is host[:port] or lh://host[:port] for an agent, [user@]host: for a host reached over ssh.

Examples:
  longhaul test throughput dtn.example.org
  longhaul test throughput dtn.example.org --reverse --duration 30s --json
  longhaul test throughput user@dtn.example.org: --sweep";

/// Measure the path to another host
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul test throughput dtn.example.org --sweep")]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    pub(crate) what: TestWhat,
}

/// What is measured.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TestWhat {
    Throughput(Box<ThroughputArgs>),
}

/// Throughput from memory to memory, through the same engine as a copy
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ThroughputArgs {
    /// The far end
    #[arg(value_name = "HOST", value_parser = OsStringValueParser::new().try_map(Location::parse_host))]
    pub(crate) host: Location,

    /// How long; with --sweep, how long per step
    #[arg(long, short = 't', value_name = "SPAN", default_value = "10s")]
    pub(crate) duration: Span,

    /// Between two lines of output
    #[arg(long, short = 'i', value_name = "SPAN", default_value = "1s")]
    pub(crate) interval: Span,

    /// The far end sends
    #[arg(long, conflicts_with = "bidirectional")]
    pub(crate) reverse: bool,

    /// Both ends send at once
    #[arg(long)]
    pub(crate) bidirectional: bool,

    /// Raise the number of streams until throughput stops rising, and name the knee
    #[arg(long, conflicts_with = "bidirectional")]
    pub(crate) sweep: bool,

    #[command(flatten)]
    pub(crate) transport: TransportArgs,

    #[command(flatten)]
    pub(crate) access: AccessArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
