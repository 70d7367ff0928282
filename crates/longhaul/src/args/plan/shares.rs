//! The options of the questions about shares.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use units::Rate;

/// Which network, and who shares it.
#[derive(Debug, Clone, Args)]
pub(crate) struct SharedBy {
    /// Who shares the network, as TOML: classes, marks, flows (docs/plan.md)
    #[arg(value_name = "SHARES")]
    pub(crate) shares: PathBuf,

    /// A network description, or the name of one that comes with Longhaul
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who gets what rate now: by tiers, weights, floors, caps and marks
///
/// Weighted max-min fairness over the paths of each flow.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  longhaul plan share shares.toml --topology transatlantic
  longhaul plan share shares.toml --topology transatlantic --svg - > shares.svg")]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) by: SharedBy,

    /// What is in force, as `--json` printed it: also say which rates change, in which order
    #[arg(long, value_name = "FILE")]
    pub(crate) last: Option<PathBuf>,

    /// Draw how far links and marks are filled, and by whom, as SVG; to standard output alone with `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Check the result from the definition of fairness, by code that shares nothing with the solver
    #[arg(long)]
    pub(crate) check: bool,
}

/// What holds flows back, level by level, and what more of it would bring to all
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul plan bottlenecks shares.toml --topology transatlantic --top 3")]
pub(crate) struct BottlenecksArgs {
    #[command(flatten)]
    pub(crate) by: SharedBy,

    /// So many upgrades, and flows of each bottleneck, in the table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top: u16,
}

/// What changes if links are cut or upgraded, or flows shaped
///
/// Paths are chosen anew after a cut.
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "longhaul plan whatif [OPTIONS] --topology <FILE> <--cut <LINK>|--upgrade <LINK=RATE>|\\\n         \
                      --shape <FLOW=RATE>> <SHARES>",
    group = clap::ArgGroup::new("change").required(true).multiple(true),
    after_help = "Examples:
  longhaul plan whatif shares.toml --topology transatlantic --cut dunant
  longhaul plan whatif shares.toml --topology transatlantic --upgrade ana=400Gb/s \\
    --shape images=50Gb/s"
)]
pub(crate) struct WhatifArgs {
    #[command(flatten)]
    pub(crate) by: SharedBy,

    /// This link, or bundle, carries nothing; again for more
    #[arg(long, group = "change", value_name = "LINK")]
    pub(crate) cut: Vec<String>,

    /// This link, or each member of a bundle, has this rate, both ways; again for more
    #[arg(long, group = "change", value_name = "LINK=RATE")]
    pub(crate) upgrade: Vec<Upgrade>,

    /// This flow has no more than this rate; again for more
    #[arg(long, group = "change", value_name = "FLOW=RATE")]
    pub(crate) shape: Vec<Shape>,
}

/// Why a flow has its rate, and what would give it more
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul plan explain cms-caltech shares.toml --topology transatlantic")]
pub(crate) struct ExplainArgs {
    /// Its name
    #[arg(value_name = "FLOW")]
    pub(crate) flow: String,

    #[command(flatten)]
    pub(crate) by: SharedBy,
}

/// A link, or a bundle, and its rate.
#[derive(Debug, Clone)]
pub(crate) struct Upgrade {
    pub(crate) link: String,
    pub(crate) rate: Rate,
}

/// A flow, and the most that it may have.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) flow: String,
    pub(crate) rate: Rate,
}

impl FromStr for Upgrade {
    type Err = String;

    fn from_str(text: &str) -> Result<Upgrade, String> {
        let (link, rate) = named(text, "dunant=800Gb/s")?;
        Ok(Upgrade { link, rate })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let (flow, rate) = named(text, "images=50Gb/s")?;
        Ok(Shape { flow, rate })
    }
}

fn named(text: &str, example: &str) -> Result<(String, Rate), String> {
    let (name, rate) = text.split_once('=').ok_or_else(|| format!("write a name and a rate, such as `{example}`"))?;
    let rate = rate.parse().map_err(|error: units::ParseError| error.to_string())?;
    Ok((name.to_owned(), rate))
}
