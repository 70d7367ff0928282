//! `longhaul agent`, `class`, `topology`, `booking`, `endpoint`, `limit`, `event`, `explain`, `history`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use units::{Rate, Span};

use super::ReachArgs;
use crate::args::token::StateArgs;

/// Classes of work that share the network: list, set
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul class ls")]
pub(crate) struct ClassArgs {
    #[command(subcommand)]
    pub(crate) what: ClassWhat,
}

/// What is done with classes.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ClassWhat {
    /// List classes with what they have now
    #[command(after_help = "Example:\n  longhaul class ls")]
    Ls(AllArgs),
    /// Give the controller a file of classes and marks (TOML); it is in force within a second
    #[command(after_help = "Example:\n  longhaul class set shares.toml")]
    Set(FileArgs),
}

/// The controller's network: show, set, see its links and paths
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul topology links")]
pub(crate) struct TopologyArgs {
    #[command(subcommand)]
    pub(crate) what: TopologyWhat,
}

/// What is done with the network.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TopologyWhat {
    /// Print the file of the network (TOML)
    #[command(after_help = "Example:\n  longhaul topology show > network.toml")]
    Show(AllArgs),
    /// Give the controller a file of the network (TOML)
    #[command(after_help = "Example:\n  longhaul topology set network.toml")]
    Set(FileArgs),
    /// List the directions of links with marks and loads
    #[command(after_help = "Example:\n  longhaul topology links")]
    Links(AllArgs),
    /// List the directions of named paths, and others that agents ask each other over, with round trips and losses
    #[command(after_help = "Example:\n  longhaul topology paths --json")]
    Paths(AllArgs),
}

/// What others have booked of the network, which is not given out for its time: show, set
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul booking set bookings.toml")]
pub(crate) struct BookingArgs {
    #[command(subcommand)]
    pub(crate) what: BookingWhat,
}

/// What is done with bookings.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BookingWhat {
    /// Print the file of what is booked (TOML), as `longhaul plan` reads it
    #[command(after_help = "Example:\n  longhaul booking show > bookings.toml")]
    Show(AllArgs),
    /// Give the controller a file of what is booked (TOML), in place of all that was booked before
    #[command(after_help = "Example:\n  longhaul booking set bookings.toml")]
    Set(FileArgs),
}

/// Agents: those of a controller, and the one on this host
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Without a HOST, drain, pause and resume are for the agent on this host, and work also while its
controller cannot be reached; with one the controller is asked.

Examples:
  longhaul agent token dtn1.example.org > dtn1.token
  longhaul agent status
  longhaul agent drain --reason \"new disks on Monday\"")]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) what: AgentWhat,
}

/// What is done with agents.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AgentWhat {
    /// List agents
    #[command(after_help = "Example:\n  longhaul agent ls")]
    Ls(AllArgs),
    Token(EnrolArgs),
    /// Throw an agent out; it must be enrolled anew
    #[command(after_help = "Example:\n  longhaul agent rm dtn1")]
    Rm(HostArgs),
    /// How the agent on this host stands with its controller, and the sessions that it drives
    #[command(after_help = "Example:\n  longhaul agent status --json")]
    Status {
        /// One JSON object on standard output
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        state: StateArgs,
    },
    /// Let what runs end, and take nothing new; that lasts until resume, over restarts too
    #[command(
        after_help = "Examples:\n  longhaul agent drain --reason 'new disks'     this host\n  longhaul agent drain dtn1 --reason 'new disks'   by the controller"
    )]
    Drain(HostModeArgs),
    /// Let what runs stand still, and take nothing new; that lasts until resume, over restarts too
    #[command(after_help = "Example:\n  longhaul agent pause --reason \"the site network is needed\"")]
    Pause(HostModeArgs),
    /// Take part again after drain or pause
    #[command(after_help = "Example:\n  longhaul agent resume dtn1")]
    Resume(HostModeArgs),
    /// Drop the controller of this host's agent: its sessions end, its tokens open nothing
    #[command(
        after_help = "The agent does not connect again before there is a new token in its --enrol-token-file.\n\nExample:\n  longhaul agent forget"
    )]
    Forget {
        #[command(flatten)]
        state: StateArgs,
    },
}

/// Endpoints, storages with the agents that see them: list, set, remove
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul endpoint set cern --host dtn1 --host dtn2 --root /eos")]
pub(crate) struct EndpointArgs {
    #[command(subcommand)]
    pub(crate) what: EndpointWhat,
}

/// What is done with endpoints.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EndpointWhat {
    /// List endpoints
    #[command(after_help = "Example:\n  longhaul endpoint ls")]
    Ls(AllArgs),
    Set(EndpointSetArgs),
    /// Remove an endpoint
    #[command(after_help = "Example:\n  longhaul endpoint rm cern")]
    Rm(NameArgs),
}

/// Limits imposed on links, marks and hosts: list, set, lift
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul limit set ana:forward --rate 40Gb/s --for 2h --why maintenance")]
pub(crate) struct LimitArgs {
    #[command(subcommand)]
    pub(crate) what: LimitWhat,
}

/// What is done with limits.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LimitWhat {
    /// List limits
    #[command(after_help = "Example:\n  longhaul limit ls")]
    Ls(AllArgs),
    Set(LimitSetArgs),
    /// Lift the limit of a resource before its time
    #[command(after_help = "Example:\n  longhaul limit lift ana:forward")]
    Lift(NameArgs),
}

/// Follow what happens
///
/// Goes on by itself after a lost connection, and misses nothing that the controller still has.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul event --since 4711 --json")]
pub(crate) struct EventArgs {
    /// Also what came after the event of this number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) since: Option<u64>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Say why something is as it is, and what would change it
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  longhaul explain transfer t17\n  longhaul explain link ana:forward")]
pub(crate) struct ExplainArgs {
    /// What is asked about
    #[arg(value_name = "WHAT", value_enum)]
    pub(crate) what: Asked,

    /// Which one
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Show what links, classes and paths did
///
/// Of 10 minutes the controller has each second, of a week 10 s, of a year 5 minutes. Without a SERIES: which series there are, with their last values.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  longhaul history\n  longhaul history link:ana:forward/measured_bps --since 6h --points 72"
)]
pub(crate) struct HistoryArgs {
    /// The series, such as link:ana:forward/measured_bps
    #[arg(value_name = "SERIES")]
    pub(crate) series: Option<String>,

    /// How long ago it begins, such as 6h
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub(crate) since: Span,

    /// How many points at most
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    pub(crate) points: u32,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// What can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Asked {
    /// A transfer, such as t17
    Transfer,
    /// A leg of one, such as t17.1
    Leg,
    /// A direction of a link, such as ana:forward
    Link,
    /// A class
    Class,
    /// A refusal, by its number
    Refusal,
}

/// Nothing but the controller.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// A file.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// The name of something.
#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// A host.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostArgs {
    /// The host, as the network calls it
    #[arg(value_name = "HOST")]
    pub(crate) host: String,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// A host, and why.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostModeArgs {
    /// The host, as the network calls it: the controller is asked; without one it is this host
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) state: StateArgs,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Make a token with which an agent comes in once; it is shown this once
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul agent token dtn1 --expires 2h > dtn1.token")]
pub(crate) struct EnrolArgs {
    /// The host, as the network calls it
    #[arg(value_name = "HOST")]
    pub(crate) host: String,

    /// How long it is good, such as 2h; else 1h
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Span>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Make an endpoint, or change it
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul endpoint set cern --host dtn1 --host dtn2 --root /eos")]
pub(crate) struct EndpointSetArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// A host whose agent sees the storage; may be given several times
    #[arg(long, value_name = "HOST", required = true)]
    pub(crate) host: Vec<String>,

    /// Beneath which directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Limit what Longhaul uses of a resource, for a time
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul limit set ana:forward --rate 40Gb/s --for 2h --why maintenance")]
pub(crate) struct LimitSetArgs {
    /// A link (both ways), a direction of one, a mark, a host, or a class
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,

    /// The most that may be used, counted in IP packets; 0b/s stops it
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Rate,

    /// For how long, such as 2h
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) span: Span,

    /// Why, for whoever is slowed down by it
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
