//! `longhaul controller`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::controller::token::ApiTokenArgs;
use super::value::LogFormat;

const EXAMPLES: &str = "\
The controller plans transfers, gives rates to agents as leases, and says why. On its first start it
makes its key, its certificate and an admin's token in the state directory. What is given here counts
before what the configuration says.

Examples:
  longhaul controller --network network.toml --shares shares.toml
  longhaul controller --config /etc/longhaul/controller.toml --check
  longhaul controller --listen 127.0.0.1:0 --state-dir /tmp/c --ready-file ready.json
  longhaul controller backup --config /etc/longhaul/controller.toml /backup/today";

/// Run the controller: plans transfers, leases rates to agents
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct RunControllerArgs {
    #[command(subcommand)]
    pub(crate) what: Option<ControllerWhat>,

    /// Address and port for agents and clients; port 0 takes a free one; else port 4811 of all addresses
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Network (TOML); set at a start if the file is new or has changed since it was set from it
    #[arg(long, value_name = "FILE")]
    pub(crate) network: Option<PathBuf>,

    /// Classes and marks (TOML); set at a start if the file is new or has changed since
    #[arg(long, value_name = "FILE")]
    pub(crate) shares: Option<PathBuf>,

    /// What others have booked (TOML); set at a start if the file is new or has changed since
    #[arg(long, value_name = "FILE")]
    pub(crate) bookings: Option<PathBuf>,

    /// Write address, admin's token and fingerprint to this file, as JSON, once connections are accepted
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Check the configuration and end
    #[arg(long)]
    pub(crate) check: bool,

    /// How the log is written to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "human")]
    pub(crate) log: LogFormat,
}

/// Where a controller keeps what it knows.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where the log, the file ledger and the archive are: a directory, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "PLACE")]
    pub(crate) store: Option<String>,

    /// Where identity and the admin's token are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// What is done with a controller, or with the store of one.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ControllerWhat {
    Token(ApiTokenArgs),
    /// Copy the store, while the controller runs or not, into a directory that is empty or not there
    Backup {
        #[command(flatten)]
        place: PlaceArgs,
        /// The directory
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Put a backup in place of a store that is empty
    Restore {
        #[command(flatten)]
        place: PlaceArgs,
        /// The directory of the backup
        #[arg(value_name = "DIR")]
        from: PathBuf,
    },
    /// Replay the whole log, and print the digest of the state that it comes to
    Replay {
        #[command(flatten)]
        place: PlaceArgs,
        /// Also check every page of files and every snapshot, and ask the planner again what is kept of plannings
        #[arg(long)]
        verify: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
