//! `longhaul plan`.

mod shares;
mod slots;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) use shares::{BottlenecksArgs, ExplainArgs, ShareArgs, SharedBy, WhatifArgs};
pub(crate) use slots::{Bookings, CalendarArgs, HighestArgs, ReserveArgs, SlotsArgs, VolumeArgs, Way};

const EXAMPLE: &str = "\
Examples:
  longhaul plan path caltech cern --topology transatlantic --k 3
  longhaul plan reserve caltech cern --topology transatlantic --bookings week.toml \\
    --rate 100Gb/s --start 2026-03-01T06:00:00Z --for 6h
  longhaul plan share shares.toml --topology transatlantic
  longhaul plan requirements";

/// The planner offline, on files: paths through a network, what is free and when, who gets what rate, what links must carry
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
    Slots(SlotsArgs),
    Highest(HighestArgs),
    Volume(VolumeArgs),
    Reserve(ReserveArgs),
    Calendar(CalendarArgs),
    Share(ShareArgs),
    Bottlenecks(BottlenecksArgs),
    Whatif(WhatifArgs),
    Explain(ExplainArgs),
    Requirements(RequirementsArgs),
    /// Answer a file of questions: the same file with the answers filled in
    #[command(after_help = "Example:\n  longhaul plan answer questions.json")]
    Answer {
        /// The questions, as JSON; what kind they are of is told by their keys
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Paths through a network, the best first
///
/// Without an option: the cheapest. Of equal paths those of fewer hops come first, then names decide. Hosts do not forward.
#[derive(Debug, Clone, Args)]
#[command(
    group = clap::ArgGroup::new("question"),
    after_help = "Examples:
  longhaul plan path caltech cern --topology transatlantic --k 3
  longhaul plan path caltech cern --topology transatlantic --disjoint risk"
)]
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
    #[arg(long, group = "question", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: Option<u32>,

    /// The one whose narrowest link is widest, then with fewest hops
    #[arg(long, group = "question")]
    pub(crate) widest: bool,

    /// The cheapest of those whose narrowest link is widest
    #[arg(long, group = "question")]
    pub(crate) shortest_widest: bool,

    /// The widest of the cheapest ones
    #[arg(long, group = "question", conflicts_with = "include")]
    pub(crate) widest_shortest: bool,

    /// The cheapest with at most this one-way delay
    #[arg(long, group = "question", value_name = "SPAN")]
    pub(crate) max_delay: Option<units::Span>,

    /// The cheapest two that share nothing of that kind, else those that share least
    #[arg(long, group = "question", value_enum, value_name = "KIND", conflicts_with = "include")]
    pub(crate) disjoint: Option<Kind>,

    /// One of the cheapest that only names tell apart, told by a text such as that of a flow
    #[arg(long, group = "question", value_name = "TEXT", conflicts_with = "include")]
    pub(crate) spread: Option<String>,

    /// Only paths by this node, link, bundle or risk; again for the next one on the way
    #[arg(long, value_name = "NAME")]
    pub(crate) include: Vec<String>,

    /// No path by this node, link, bundle or risk; again for more
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What two paths are not to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Links
    Link,
    /// Nodes between their ends, and links
    Node,
    /// Risks (SRLG), and links
    Risk,
}

/// What links must carry, from what experiments take
///
/// Without a file: the requirements of the High-Luminosity LHC, as published. The format is described in docs/plan.md.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul plan requirements my.toml --json")]
pub(crate) struct RequirementsArgs {
    /// Experiments, factors and targets, as TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
