//! `longhaul plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLE: &str = "\
Example:
  longhaul plan path caltech cern --topology transatlantic --k 3";

/// The planner offline, on files: paths through a network
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) what: PlanWhat,
}

/// What is asked.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PlanWhat {
    Path(PathArgs),
    /// Answer a file of questions: the same file with the answers filled in
    #[command(after_help = "Example:\n  longhaul plan answer questions.json")]
    Answer {
        /// The questions, as JSON; what kind they are of is told by their keys
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Paths through a network, the best first
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul plan path caltech cern --topology transatlantic --k 3")]
pub(crate) struct PathArgs {
    /// Where it begins: a host or router
    #[arg(value_name = "FROM")]
    pub(crate) from: String,

    /// Where it ends
    #[arg(value_name = "TO")]
    pub(crate) to: String,

    /// A network description, or the name of one that comes with Longhaul
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,

    /// The N cheapest loop-free paths
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: u32,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
