//! `longhaul copy`.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgMatches, Args};
use proto::control::FilterRule;

use super::groups::{AccessArgs, OutputArgs, TransportArgs};
use super::location::Location;
use super::value::{Checksum, Preserve, Replace};

const LOCATIONS: &str = "\
Locations:
  /path, ./name           this host; ./a:b for a name with a colon
  lh://host[:port]/path   an agent (longhaul serve) at port 4810 or another; the path is its own.
                          Further addresses of the same agent stand after commas:
                          lh://a:4810,b/path. With its fingerprint: lh://sha256:<hex>@host/path
  [user@]host:/path       starts longhaul there over ssh; the data go over direct TCP
  -                       standard input or output

  IPv6 addresses stand in brackets. All sources are on one host. A source with a slash at its
  end means what is in it, as in rsync. Directories that several sources have are merged; of a
  file that several have, the first source wins, and the others are skipped with a warning.
  With an agent at both ends this command only steers.

Examples:
  longhaul copy /data/run7 lh://dtn.example.org/archive/
  longhaul copy --sync --delete lh://dtn.example.org/archive/run7/ /data/run7/
  longhaul copy --rate 8Gb/s --checksum sha256 /data/run7 user@dtn.example.org:/archive/
  tar c run7 | longhaul copy - lh://dtn.example.org/archive/run7.tar

Interrupted in any way, the same command continues where it was.";

/// Copy files and directories to or from another host, verified and resumable
#[derive(Debug, Clone, Args)]
#[command(override_usage = "longhaul copy [OPTIONS] SRC... DST")]
#[command(after_help = LOCATIONS, after_long_help = format!("{LOCATIONS}\n\n{}\n\n{}", super::ENVIRONMENT_HELP, super::exit_help()))]
pub(crate) struct CopyArgs {
    /// What is copied, one or more, and then where it goes
    // One list: clap's own "many and one" would not let options stand between them.
    #[arg(required = true, value_name = "PLACE", value_parser = OsStringValueParser::new().try_map(Location::parse))]
    places: Vec<Location>,

    /// What is copied.
    #[arg(skip)]
    pub(crate) sources: Vec<Location>,

    /// Where it goes.
    #[arg(skip = Location::Pipe)]
    pub(crate) destination: Location,

    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

    #[command(flatten)]
    pub(crate) hooks: HookArgs,

    #[command(flatten)]
    pub(crate) transport: TransportArgs,

    #[command(flatten)]
    pub(crate) access: AccessArgs,

    /// File with the token of the destination, when both ends are agents and it is another one
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub(crate) destination_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is copied, and what of what is there is replaced.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is copied")]
pub(crate) struct ChoiceArgs {
    /// Copy only the names listed in this file (- for standard input), relative to the one SRC
    #[arg(long, value_name = "FILE|-")]
    pub(crate) files_from: Option<PathBuf>,

    /// Names in --files-from end with a NUL instead of a newline
    #[arg(long, short = '0', requires = "files_from")]
    pub(crate) null: bool,

    /// Copy what an earlier --exclude leaves out; gitignore syntax, the last rule that fits counts
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,

    /// Leave out what fits; gitignore syntax
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// `--include` and `--exclude` in the order they were given.
    #[arg(skip)]
    pub(crate) filters: Vec<FilterRule>,

    /// Skip what is there already and equal by size and time
    #[arg(long)]
    pub(crate) sync: bool,

    /// Equal means equal content, compared by digest
    #[arg(long)]
    pub(crate) by_checksum: bool,

    /// Delete from the destination what none of the sources has
    #[arg(long)]
    pub(crate) delete: bool,

    /// Say what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace what is at the destination; default always, with --sync changed
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(crate) overwrite: Option<Replace>,

    /// Keep more than modes, times, symlinks, empty directories and holes
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) preserve: Option<Preserve>,

    /// Digest of every whole file, computed in the same pass
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) checksum: Option<Checksum>,

    /// Where the digests go, as sha256sum writes them; else to REPORT.KIND beside --report, or printed
    #[arg(long, value_name = "FILE", requires = "checksum")]
    pub(crate) digests: Option<PathBuf>,
}

/// Programs run at this side.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Hooks (run at this side; an agent runs only those of its own configuration)")]
pub(crate) struct HookArgs {
    /// Run before each file that is copied is read or written; status 10 leaves the file out
    #[arg(long, value_name = "CMD")]
    pub(crate) hook_before_file: Option<String>,

    /// Run after each file that was copied is in place; at most once, so not for the last ones before a kill
    #[arg(long, value_name = "CMD")]
    pub(crate) hook_after_file: Option<String>,

    /// Run before anything is scanned or written; a status other than 0 ends the copy
    #[arg(long, value_name = "CMD")]
    pub(crate) hook_before_dataset: Option<String>,

    /// Run when all is done, or has failed
    #[arg(long, value_name = "CMD")]
    pub(crate) hook_after_dataset: Option<String>,
}

impl CopyArgs {
    /// Takes over what clap's derived form cannot say: which place is the destination, and the order of filters.
    ///
    /// # Errors
    /// When there is no destination.
    pub(super) fn complete(&mut self, matches: &ArgMatches) -> Result<(), &'static str> {
        self.choice.take_order(matches);
        self.sources = std::mem::take(&mut self.places);
        match self.sources.pop() {
            Some(last) if !self.sources.is_empty() => self.destination = last,
            _ => return Err("a destination is missing"),
        }
        Ok(())
    }
}

impl HookArgs {
    /// True if there is one.
    pub(crate) fn is_some(&self) -> bool {
        [&self.hook_before_file, &self.hook_after_file, &self.hook_before_dataset, &self.hook_after_dataset]
            .iter()
            .any(|hook| hook.is_some())
    }
}

impl ChoiceArgs {
    /// Takes over the order between `--include` and `--exclude`, which only the matches know.
    fn take_order(&mut self, matches: &ArgMatches) {
        let indexed = |name: &str, include: bool, globs: &[String]| {
            let at = matches.indices_of(name).into_iter().flatten();
            at.zip(globs.to_vec()).map(|(at, glob)| (at, FilterRule { include, glob })).collect::<Vec<_>>()
        };
        let mut all = indexed("include", true, &self.include);
        all.extend(indexed("exclude", false, &self.exclude));
        all.sort_by_key(|(at, _)| *at);
        self.filters = all.into_iter().map(|(_, rule)| rule).collect();
    }
}
