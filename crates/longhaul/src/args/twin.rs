//! `longhaul twin`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use model::scenario::{self, Driver};
use mover::request::Fingerprint;

use super::controller::ReachArgs;

const EXAMPLE: &str = "\
Example:
  longhaul twin up pair
  longhaul twin exec a -- ping -c 3 b
  longhaul twin link ab --loss 0.01%
  longhaul twin down pair";

/// A long-distance network on this machine: hosts are namespaces, links cross oceans
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TwinArgs {
    #[command(subcommand)]
    pub(crate) what: TwinWhat,
}

/// What is done with twins.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TwinWhat {
    Up(UpArgs),
    /// Take twins down, and the programs on their hosts with them
    #[command(after_help = "Example:\n  longhaul twin down pair")]
    Down {
        /// The twins
        #[arg(value_name = "TWIN", required_unless_present = "all")]
        names: Vec<String>,
        /// All there are, and what is left of others
        #[arg(long)]
        all: bool,
        /// With --all: only those whose names begin so
        #[arg(long, value_name = "TEXT", requires = "all", default_value = "", hide = true)]
        begin: String,
    },
    /// List twins with their hosts and links
    #[command(after_help = "Example:\n  longhaul twin ls --json")]
    Ls {
        /// One JSON object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Run a program on a host
    #[command(after_help = "Example:\n  longhaul twin exec a -- iperf3 -c b")]
    Exec {
        #[command(flatten)]
        which: Which,
        /// The host, or router
        #[arg(value_name = "HOST")]
        host: String,
        /// The program and its arguments
        #[arg(value_name = "CMD", required = true, last = true)]
        command: Vec<OsString>,
    },
    /// A shell on a host
    #[command(after_help = "Example:\n  longhaul twin shell a")]
    Shell {
        #[command(flatten)]
        which: Which,
        /// The host, or router
        #[arg(value_name = "HOST")]
        host: String,
    },
    Link(LinkArgs),
    Stats(StatsArgs),
    /// The network of a twin with the addresses of its named paths, for `longhaul controller --network`
    #[command(after_help = "Example:\n  longhaul twin topology > network.toml")]
    Topology {
        #[command(flatten)]
        which: Which,
    },
    Run(RunArgs),
    /// Write a network in another format: .toml, .clab.yml (containerlab), .graphml or .json (TopoHub)
    #[command(after_help = "Example:\n  longhaul twin convert lab.clab.yml lab.toml")]
    Convert {
        /// A network description, or the name of one that comes with Longhaul
        #[arg(value_name = "IN")]
        from: PathBuf,
        /// The file to be made
        #[arg(value_name = "OUT")]
        to: PathBuf,
    },
    /// Emulate the links of a twin that `up` has made
    #[command(hide = true)]
    Emulate {
        /// The twin
        name: String,
    },
}

/// What happened on the links
///
/// With --to it goes on until interrupted, and tells a controller each second what the links of its network carry here, so that flexible marks
/// follow the twin.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  longhaul twin stats ab --watch\n  longhaul twin stats --to https://controller.example.org --token-file operator.token"
)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Only this link
    #[arg(value_name = "LINK")]
    pub(crate) link: Option<String>,

    /// JSON on standard output: one object; with --watch one each second
    #[arg(long)]
    pub(crate) json: bool,

    /// Each second, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,

    /// Tell a controller what all links carry: https://HOST or https://HOST:PORT; without URL the environment's LONGHAUL_CONTROLLER
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        default_missing_value = "",
        group = "controller_url",
        conflicts_with_all = ["link", "json", "watch"]
    )]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) reach: UrlArgs,
}

/// Which twin is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Which {
    /// The twin, where there are several
    #[arg(long, visible_alias = "name", value_name = "TWIN", env = "LONGHAUL_TWIN")]
    pub(crate) twin: Option<String>,
}

/// Bring a network up
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  longhaul twin up transatlantic --scale 1/100\n  longhaul twin up --from https://controller.example.org --scale 1/1000"
)]
pub(crate) struct UpArgs {
    /// A network description, or the name of one that comes with Longhaul
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    pub(crate) network: Option<PathBuf>,

    /// The network of a controller as it is now, with its loads, cuts and bookings: https://HOST or https://HOST:PORT; without URL the environment's LONGHAUL_CONTROLLER
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", group = "controller_url")]
    pub(crate) from: Option<String>,

    /// With --from: which loads are taken off the rates of links
    #[arg(long, value_enum, default_value_t = Loads::All, requires = "from")]
    pub(crate) loads: Loads,

    /// Name of the twin; default: that of the network
    #[arg(long, visible_alias = "twin", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Multiply rates, and queues in bytes or packets
    #[arg(long, value_name = "RATIO", default_value = "1")]
    pub(crate) scale: String,

    /// What is random follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// What carries the packets
    #[arg(long, value_enum, default_value_t = DriverName::Own)]
    pub(crate) driver: DriverName,

    /// The twin as `ls --json` prints it
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) reach: UrlArgs,
}

/// How the controller of `twin up --from` or `twin stats --to` is reached: an option of the group `controller_url` names it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct UrlArgs {
    /// File with the API token; else the environment's LONGHAUL_TOKEN
    #[arg(long, value_name = "FILE", requires = "controller_url")]
    pub(crate) token_file: Option<PathBuf>,

    /// Fingerprint that it must have, sha256:HEX; nothing is pinned then
    #[arg(long, value_name = "SHA256", requires = "controller_url")]
    pub(crate) fingerprint: Option<Fingerprint>,

    /// File of pinned fingerprints; default $XDG_STATE_HOME/longhaul/known_hosts
    #[arg(long, value_name = "FILE", requires = "controller_url")]
    pub(crate) known_hosts: Option<PathBuf>,
}

impl UrlArgs {
    /// As other commands that ask a controller have it; an empty `url` is that of the environment.
    pub(crate) fn reach(&self, url: &str, json: bool) -> ReachArgs {
        ReachArgs {
            controller: (!url.is_empty()).then(|| url.to_owned()),
            token_file: self.token_file.clone(),
            fingerprint: self.fingerprint,
            known_hosts: self.known_hosts.clone(),
            json,
        }
    }
}

/// Which loads a twin of a live network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Loads {
    /// All that links carry, as counters say, or else as Longhaul's sessions measure
    All,
    /// What links carry beside Longhaul's sessions; needs counters
    Others,
    /// None
    None,
}

/// Run a scenario in a twin of its own: events, programs on hosts, assertions
///
/// Brings the scenario's network up, does everything on time, judges, and takes the twin down, also after a
/// failure or an interrupt. Ends with 0 if everything held, else with 1.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul twin run scenarios/cut.toml")]
pub(crate) struct RunArgs {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Name of the twin; default: one of its own for each run
    #[arg(long, visible_alias = "twin", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What carries the packets; default: what the scenario says
    #[arg(long, value_enum)]
    pub(crate) driver: Option<DriverName>,

    /// One JSON object a line on standard output, the summary last
    #[arg(long)]
    pub(crate) json: bool,
}

/// `own` or `netem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverName {
    /// Longhaul's own emulator
    Own,
    /// The kernel's netem, where it has one
    Netem,
}

impl DriverName {
    /// What it names.
    pub(crate) fn driver(self) -> Driver {
        match self {
            DriverName::Own => Driver::Own,
            DriverName::Netem => Driver::Netem,
        }
    }
}

/// Change a link while traffic runs
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  longhaul twin link ab --cut\n  longhaul twin link ab --heal --rate 500Mb/s --delay 20ms"
)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    pub(crate) which: Which,

    /// The link, or a bundle of parallel links
    #[arg(value_name = "LINK")]
    pub(crate) link: String,

    /// Let nothing through; what is on the way is lost
    #[arg(long, conflicts_with = "heal")]
    pub(crate) cut: bool,

    /// Let packets through again
    #[arg(long)]
    pub(crate) heal: bool,

    /// Lose the next N packets, whatever else is set
    #[arg(long, value_name = "N")]
    pub(crate) drop: Option<u32>,

    /// Only this way (of what is changed, not of a cut)
    #[arg(long, value_enum)]
    pub(crate) way: Option<Way>,

    /// Rate, counted in IP packets with their headers
    #[arg(long, value_name = "RATE|none")]
    pub(crate) rate: Option<String>,

    /// One-way delay
    #[arg(long, value_name = "SPAN")]
    pub(crate) delay: Option<String>,

    /// Variation added to the delay, from 0 to this
    #[arg(long, value_name = "SPAN")]
    pub(crate) jitter: Option<String>,

    /// Whether packets may overtake each other
    #[arg(long, value_name = "true|false")]
    pub(crate) reorder: Option<String>,

    /// Share of packets lost, such as 0.01% or 1e-4
    #[arg(long, value_name = "SHARE")]
    pub(crate) loss: Option<String>,

    /// What may wait: bytes, packets or time
    #[arg(long, value_name = "LIMIT")]
    pub(crate) queue: Option<String>,

    /// Mark packets (ECN) above this queue
    #[arg(long, value_name = "LIMIT|none")]
    pub(crate) ecn: Option<String>,

    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE")]
    pub(crate) duplicate: Option<String>,

    /// Share of packets that arrive with a bit changed
    #[arg(long, value_name = "SHARE")]
    pub(crate) corrupt: Option<String>,
}

impl LinkArgs {
    /// What is to be changed, by the keys of the network description.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("rate", &self.rate),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("reorder", &self.reorder),
            ("loss", &self.loss),
            ("queue", &self.queue),
            ("ecn", &self.ecn),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
        ]
        .into_iter()
        .filter_map(|(key, text)| text.as_deref().map(|text| (key, text)))
    }
}

/// A way along a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// From the first end in the description to the second
    Forward,
    /// Back
    Backward,
}

impl Way {
    /// What it names.
    pub(crate) fn meant(self) -> scenario::Way {
        match self {
            Way::Forward => scenario::Way::Forward,
            Way::Backward => scenario::Way::Backward,
        }
    }
}
