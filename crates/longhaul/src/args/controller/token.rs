//! `longhaul controller token`.

use clap::{Args, Subcommand, ValueEnum};
use units::Span;

use super::ReachArgs;

/// Tokens with which people and programs ask a controller that runs: make, list, revoke
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Only an admin's token may. Tokens of agents and of copies are others: `longhaul agent token`, `longhaul token`.\n\nExample:\n  longhaul controller token new alice --role submitter --collaboration cms > alice.token"
)]
pub(crate) struct ApiTokenArgs {
    #[command(subcommand)]
    pub(crate) what: ApiTokenWhat,
}

/// What is done with tokens of the API.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ApiTokenWhat {
    New(NewArgs),
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  longhaul controller token ls")]
    Ls {
        #[command(flatten)]
        reach: ReachArgs,
    },
    /// Take tokens back; nobody is let in with them from now on
    #[command(after_help = "Example:\n  longhaul controller token revoke alice")]
    Revoke {
        /// Names, as in `longhaul controller token ls`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,

        #[command(flatten)]
        reach: ReachArgs,
    },
}

/// Make a token and print it; it is shown this once
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul controller token new dashboard --role viewer --expires 365d")]
pub(crate) struct NewArgs {
    /// What it is called: in lists, in logs, and as who did something
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What its holder may do; each may do what those before it may
    #[arg(long, value_enum)]
    pub(crate) role: RoleName,

    /// Whose transfers a submitter submits and steers
    #[arg(long, value_name = "NAME", required_if_eq("role", "submitter"))]
    pub(crate) collaboration: Option<String>,

    /// How long it is good, such as 30d; without this for ever
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Span>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Look at everything
    Viewer,
    /// Submit transfers of one collaboration, and steer those
    Submitter,
    /// Steer all transfers; endpoints, limits, bookings, modes of agents, counters
    Operator,
    /// Everything: network, classes, agents, tokens
    Admin,
}
