//! The command line as it is written: what clap reads, before it is checked.

pub(crate) mod controller;
pub(crate) mod copy;
pub(crate) mod door;
pub(crate) mod driver;
pub(crate) mod groups;
pub(crate) mod location;
pub(crate) mod plan;
pub(crate) mod run_controller;
pub(crate) mod scitag;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod test;
pub(crate) mod token;
pub(crate) mod twin;
pub(crate) mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit;

/// Columns of help texts and manual pages.
const HELP_COLUMNS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  longhaul serve --root /data                           on one host
  longhaul copy /data/run7 lh://dtn.example.org/data/   on another
  longhaul test throughput dtn.example.org              how fast is the path?";

/// What the environment changes, for long help texts.
pub(crate) const ENVIRONMENT_HELP: &str = "\
Environment:
  LONGHAUL_TOKEN   access token, where no --token-file is given
  LONGHAUL_CONTROLLER
                   address of the controller, where no --controller is given
  LONGHAUL_IO      threads: no io_uring; posix: no O_DIRECT either; posix-old: that, as
                   before Linux 6.16; else what measures best is used
  LONGHAUL_LOG     what is logged to standard error, such as debug or mover=trace
  XDG_STATE_HOME   holds longhaul/known_hosts; default ~/.local/state
  XDG_RUNTIME_DIR  holds the control sockets of running sessions; default /tmp/longhaul-UID";

/// Moves datasets over long-distance networks: as fast as disks and path allow, verified, resumable
#[derive(Debug, Clone, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = HELP_COLUMNS,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{ENVIRONMENT_HELP}\n\n{}", exit_help()),
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One per command.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    Copy(Box<copy::CopyArgs>),
    Serve(serve::ServeArgs),
    Door(door::DoorArgs),
    Token(token::TokenArgs),
    #[command(name = "controller")]
    RunController(Box<run_controller::RunControllerArgs>),
    Session(session::SessionArgs),
    Test(test::TestArgs),
    Twin(twin::TwinArgs),
    Driver(driver::DriverArgs),
    Plan(plan::PlanArgs),
    #[command(flatten)]
    Controller(controller::ControllerCommand),
    /// Print the completions of a shell
    #[command(
        after_help = "Example:\n  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages into a directory
    #[command(after_help = "Example:\n  longhaul man ~/.local/share/man/man1")]
    Man {
        /// The directory; it is made if it is not there
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// The exit codes, for long help texts.
pub(crate) fn exit_help() -> String {
    let lines = exit::TABLE.iter().map(|(code, meaning)| format!("\n  {code:<4}{meaning}"));
    format!("Exit codes:{}\n  A closed standard output (as by head) is no failure.", lines.collect::<String>())
}

/// The whole command as clap knows it.
pub(crate) fn command() -> clap::Command {
    Args::command()
}

/// Reads a command line.
///
/// # Errors
/// What clap says, `--help` and `--version` included.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let matches = command().try_get_matches_from(words)?;
    let mut args = Args::from_arg_matches(&matches)?;
    if let (Command::Copy(copy), Some(("copy", matches))) = (&mut args.command, matches.subcommand()) {
        copy.complete(matches).map_err(incomplete)?;
    }
    Ok(args)
}

/// The error of a copy without all its places, with the usage of that command.
fn incomplete(text: &str) -> clap::Error {
    let mut root = command();
    root.build();
    let copy = root.find_subcommand_mut("copy").expect("there is a command `copy`");
    copy.error(ErrorKind::MissingRequiredArgument, text)
}

#[cfg(test)]
mod tests;
