//! `longhaul door`.

use std::path::PathBuf;

use clap::Args;

use super::value::LogFormat;

const EXAMPLES: &str = "\
Each connection is handed to the agent whose fingerprint its first bytes name. The door reads nothing
else, and holds no key. The agents run with --door SOCKET, each as the user whose files it serves.
What is given here counts before what the configuration says.

Examples:
  longhaul door --config /etc/longhaul/door.toml
  longhaul door --config /etc/longhaul/door.toml --check
  longhaul door --instance cms=/run/longhaul-door/cms/door.sock,sha256:3f1c… --default cms";

/// Share one port among agents that run as different users
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoorArgs {
    /// Address and port for all of them; port 0 takes a free one; else port 4810 of all addresses
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    /// Agent behind the door: its name here, its socket, its fingerprint; may be given several times
    #[arg(long, value_name = "NAME=SOCKET,FINGERPRINT")]
    pub(crate) instance: Vec<String>,

    /// Instance that gets connections that name none; without it they are closed
    #[arg(long, value_name = "NAME")]
    pub(crate) default: Option<String>,

    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write the address to this file, as JSON, once connections are accepted
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Address and port for Prometheus metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<String>,

    /// Check the configuration and end
    #[arg(long)]
    pub(crate) check: bool,

    /// How the log is written to standard error
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log: Option<LogFormat>,
}
