//! `longhaul serve`.

use std::path::PathBuf;

use clap::Args;

use super::value::{LogFormat, Ports};

const EXAMPLES: &str = "\
What is given here counts before what the configuration says. On its first start the agent makes its
key, its certificate and an access token in the state directory.

Examples:
  longhaul serve --root /data:ro --root /incoming
  longhaul serve --config /etc/longhaul/serve.toml --check
  longhaul serve --listen 127.0.0.1:0 --root /tmp/in --ready-file ready.json
  longhaul serve --config serve.toml --controller c.example.org:4811 --enrol-token-file token

What a controller may ask for is said by [[grant]] in the configuration.";

/// Serve directories of this host to others: the agent
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Address and port for control and data; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    /// Directory that is served; with :ro it can only be read; may be given several times
    #[arg(long, value_name = "DIR[:ro]")]
    pub(crate) root: Vec<PathBuf>,

    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where identity and tokens are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Write address, token and fingerprint to this file, as JSON, once connections are accepted
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Address and port for Prometheus metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<String>,

    /// Socket at which a door hands over what comes to the port; --listen says where it listens then
    #[arg(long, value_name = "SOCKET")]
    pub(crate) door: Option<PathBuf>,

    /// User that the door runs as, name or number; default longhaul-door
    #[arg(long, value_name = "USER")]
    pub(crate) door_user: Option<String>,

    /// Controller that this agent works for: https://HOST, https://HOST:PORT or HOST:PORT, each with #FINGERPRINT behind it; without
    /// a fingerprint whoever answers first is pinned
    #[arg(long, value_name = "URL")]
    pub(crate) controller: Option<String>,

    /// File with the one-time token by which the controller takes this agent
    #[arg(long, value_name = "FILE")]
    pub(crate) enrol_token_file: Option<PathBuf>,

    /// Check the configuration and end
    #[arg(long)]
    pub(crate) check: bool,

    /// How the log is written to standard error
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log: Option<LogFormat>,

    /// The far end of host:/path: one session, told by a line on standard input.
    #[arg(long, hide = true, conflicts_with_all = ["listen", "root", "config", "state_dir", "ready_file", "metrics", "door", "door_user", "controller", "enrol_token_file", "check", "log"])]
    pub(crate) oneshot: bool,

    /// Ports that the far end may listen on.
    #[arg(long, hide = true, requires = "oneshot", value_name = "LOW-HIGH")]
    pub(crate) ports: Option<Ports>,
}
