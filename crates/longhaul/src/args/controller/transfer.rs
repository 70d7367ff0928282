//! `longhaul transfer`.

use std::path::PathBuf;

use api::rest::{Location, Time, TransferId, URGENCY_MAX};
use clap::{Args, Subcommand, ValueEnum};
use units::Span;

use super::ReachArgs;
use crate::args::value::{Checksum, Protect};

/// Transfers that a controller plans: submit, list, follow, change
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul transfer submit caltech:/data/run7 cern:/archive/ --class cms --wait")]
pub(crate) struct TransferArgs {
    #[command(subcommand)]
    pub(crate) what: TransferWhat,
}

/// What is done with transfers.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TransferWhat {
    Submit(Box<SubmitArgs>),
    Ls(ListArgs),
    /// Show a transfer, its legs and sessions
    #[command(after_help = "Example:\n  longhaul transfer show t17")]
    Show(OneArgs),
    Wait(WaitArgs),
    /// Let transfers stand still
    #[command(after_help = "Example:\n  longhaul transfer pause t17 --reason 'until the tape is back'")]
    Pause(SteerArgs),
    /// Let paused transfers go on
    #[command(after_help = "Example:\n  longhaul transfer resume t17")]
    Resume(SteerArgs),
    /// End transfers; what is in place stays
    #[command(after_help = "Example:\n  longhaul transfer cancel t17")]
    Cancel(SteerArgs),
    Set(SetArgs),
    Files(FilesArgs),
}

/// Submit a transfer; its number is printed
///
/// A place is ENDPOINT:/absolute/path; in a path, % and bytes that are no UTF-8 are written as % and two hexadecimal digits.
/// A source with a slash at its end means what is in it, as in rsync. Several sources are the same files at several
/// places; any of them may serve. A submission whose answer was lost is sent again and not done twice.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "longhaul transfer submit [OPTIONS] --class <CLASS> <SRC>... <DST>")]
#[command(after_help = "\
Examples:
  longhaul transfer submit caltech:/data/run7 cern:/archive/ --class cms
  longhaul transfer submit caltech:/data/ cern:/archive/ --class cms --files-from list --urgent 2
  longhaul transfer submit fnal:/d/x caltech:/d/x cern:/d/ --also-to ral:/d/ --class cms --wait")]
pub(crate) struct SubmitArgs {
    /// Where the files are, and last where they go to
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub(crate) places: Vec<Location>,

    /// A further destination; may be given several times
    #[arg(long, value_name = "DST")]
    pub(crate) also_to: Vec<Location>,

    /// Class of work
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: String,

    /// Only these names beneath the source, one a line; - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,

    /// Names in the list end with NUL
    #[arg(short = '0', long, requires = "files_from")]
    pub(crate) null: bool,

    /// What it is called in lists
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// For whom, if the token does not say so [default: that called like the class]
    #[arg(long, value_name = "NAME")]
    pub(crate) collaboration: Option<String>,

    /// Goes before others of its class: 0 to 9
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(URGENCY_MAX)))]
    pub(crate) urgent: u8,

    /// When it should be done, such as 2026-03-01T06:00:00Z; nothing is promised
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Time>,

    /// Digest of every file, kept by the controller
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) checksum: Option<Checksum>,

    /// What the data are protected against on their way
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) protect: Option<Protect>,

    /// Replace what is at the destination
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(crate) overwrite: Option<Replacing>,

    /// Congestion control by name, such as cubic or bbr
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,

    /// Data streams of a session at most
    #[arg(long, value_name = "N")]
    pub(crate) streams: Option<u16>,

    /// Begin when this transfer is done; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) after: Vec<TransferId>,

    /// Wait until it has ended, as `longhaul transfer wait` does
    #[arg(long)]
    pub(crate) wait: bool,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// When a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replacing {
    /// Never
    Never,
    /// If it is another
    Changed,
    /// Always
    Always,
}

/// List transfers, the newest first
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul transfer ls --state moving --class cms")]
pub(crate) struct ListArgs {
    /// Only those that stand there, such as queued, moving, failed
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,

    /// Only those of this class
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// One transfer.
#[derive(Debug, Clone, Args)]
pub(crate) struct OneArgs {
    /// The transfer, such as t17
    #[arg(value_name = "ID")]
    pub(crate) id: TransferId,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Wait until transfers have ended
///
/// The exit code is 0 if all files are in place, 6 if some are not, 1 if a transfer failed or was cancelled, 75 if the
/// time is over.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul transfer wait t17 t18 --timeout 2h")]
pub(crate) struct WaitArgs {
    /// The transfers
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<TransferId>,

    /// How long to wait at most, such as 2h
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<Span>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// What is done to transfers.
#[derive(Debug, Clone, Args)]
pub(crate) struct SteerArgs {
    /// The transfers
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<TransferId>,

    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Change class or urgency of a transfer
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul transfer set t17 --urgent 5")]
pub(crate) struct SetArgs {
    /// The transfer
    #[arg(value_name = "ID")]
    pub(crate) id: TransferId,

    /// Its new class
    #[arg(long, value_name = "CLASS", required_unless_present = "urgent")]
    pub(crate) class: Option<String>,

    /// Its new urgency: 0 to 9
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=i64::from(URGENCY_MAX)))]
    pub(crate) urgent: Option<u8>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// List the files of a transfer
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  longhaul transfer files t17 --state failed")]
pub(crate) struct FilesArgs {
    /// The transfer
    #[arg(value_name = "ID")]
    pub(crate) id: TransferId,

    /// Only those that stand there: open, given, done or failed
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
