//! `longhaul copy`, checked and run.

mod here;
pub(super) mod names;

use std::path::{Path, PathBuf};

use anyhow::Result;
use mover::event::Summary;
use mover::request::{CopyRequest, Hooks, Limits};
use proto::RelPath;
use proto::control::{CopyOptions, Overwrite, Settings};

use super::end::{Access, End};
use super::settings::{limits, settings};
use super::show::Show;
use super::{block_on, log_to_stderr};
use crate::args::copy::{ChoiceArgs, CopyArgs, HookArgs};
use crate::args::location::Location;
use crate::args::value::{Checksum, Preserve, Replace};
use crate::drive::{self, WhenClosed, drive};
use crate::environment::Environment;
use crate::exit::usage;
use crate::output::Outputs;
use crate::output::digests::Digests;
use crate::output::name::words;
use crate::output::summary::Kind;
use crate::reach::address::Families;
use crate::reach::reach;
use crate::session::wire::Status;

/// A copy that can be begun.
pub(crate) struct Copy {
    source: End,
    destination: End,
    names: Vec<RelPath>,
    options: CopyOptions,
    settings: Settings,
    hooks: Hooks,
    limits: Limits,
    digests: DigestsTo,
    show: Show,
}

/// Where whole-file digests go.
#[derive(Debug, PartialEq, Eq)]
enum DigestsTo {
    /// Nobody asked for them, or they are among the JSON events.
    Nowhere,
    /// Onto standard output.
    Output,
    /// Into this file.
    File(PathBuf),
}

impl Copy {
    /// Checks what was written.
    ///
    /// # Errors
    /// When options contradict each other, or something they name cannot be used.
    pub(crate) fn of(args: CopyArgs, environment: &Environment) -> Result<Copy> {
        let what = what(&args.sources, &args.destination);
        check_places(&args)?;
        let access = Access::new(&args.access, environment);
        let source = access.end(args.sources.clone(), None)?;
        let destination = access.end(vec![args.destination.clone()], args.destination_token_file.as_deref())?;
        access.check_use(&[&source, &destination])?;
        here::check(&source, &destination)?;
        let kind = if args.choice.dry_run { Kind::DryRun } else { Kind::Copy };
        let status =
            Status { kind: "copy".into(), what, set_point_bps: args.transport.rate.bps(), ..Status::default() };
        let output_is_data = matches!(destination, End::Pipe);
        Ok(Copy {
            options: options(&args.choice)?,
            names: args
                .choice
                .files_from
                .as_deref()
                .map(|from| names::read(from, args.choice.null))
                .transpose()?
                .unwrap_or_default(),
            settings: settings(&args.transport, here::both(&source, &destination))?,
            hooks: hooks(args.hooks),
            limits: limits(&args.transport, environment)?,
            digests: digests(&args.choice, args.output.report.as_deref(), args.output.json, output_is_data)?,
            show: Show::new(args.output, kind, output_is_data, status, environment),
            source,
            destination,
        })
    }

    /// Copies.
    ///
    /// # Errors
    /// When it could not begin or ended early.
    pub(crate) fn run(self) -> Result<u8> {
        log_to_stderr("off");
        block_on(async move {
            let (lines, ends) = drive::lines();
            let mut outputs = self.show.outputs(lines.steer.clone())?;
            match &self.digests {
                DigestsTo::Nowhere => {}
                DigestsTo::Output => outputs.add(Digests::printed()),
                DigestsTo::File(path) => outputs.add(Digests::create(path)?),
            }
            let result = self.go(lines, ends, &mut outputs).await;
            outputs.end(result)
        })
    }

    async fn go(self, lines: drive::Lines, ends: drive::Ends, outputs: &mut Outputs) -> Result<Summary> {
        let families = Families::of(&self.limits.bind);
        let here = here::both(&self.source, &self.destination);
        let source = reach(self.source, families, self.show.is_quiet()).await?;
        let destination = match reach(self.destination, families, self.show.is_quiet()).await {
            Ok(destination) => destination,
            Err(error) => {
                source.end().await;
                return Err(error);
            }
        };
        let destination = if here { destination.served_here(&self.limits)? } else { destination };
        let request = CopyRequest {
            source: source.place.clone(),
            destination: destination.place.clone(),
            names: self.names,
            every_file: self.options.dry_run,
            options: self.options,
            settings: self.settings,
            hooks: self.hooks,
            limits: self.limits,
            digests_file: match self.digests {
                DigestsTo::File(path) => Some(path),
                DigestsTo::Nowhere | DigestsTo::Output => None,
            },
        };
        let result = drive(mover::copy(request, ends.events, ends.steer), lines, outputs, WhenClosed::GoOn).await;
        source.end().await;
        destination.end().await;
        result
    }
}

/// For people, and for `longhaul session ls`.
fn what(sources: &[Location], destination: &Location) -> String {
    let first = sources.first().map(ToString::to_string).unwrap_or_default();
    let more = if sources.len() > 1 { format!(" and {} more", sources.len() - 1) } else { String::new() };
    format!("{first}{more} -> {destination}")
}

/// What the places alone rule out.
fn check_places(args: &CopyArgs) -> Result<()> {
    let is_pipe = |place: &Location| matches!(place, Location::Pipe);
    let from_pipe = args.sources.iter().any(is_pipe);
    let is_agent = |place: &Location| matches!(place, Location::Agent(..));
    let is_ssh = |place: &Location| matches!(place, Location::Ssh(..));
    let is_remote = |place: &Location| is_agent(place) || is_ssh(place);
    let both = |is: &dyn Fn(&Location) -> bool| args.sources.iter().any(is) && is(&args.destination);
    let choice = &args.choice;
    let reads_input = choice.files_from.as_deref() == Some(Path::new("-"));
    let rules = [
        (
            from_pipe && is_pipe(&args.destination),
            "from standard input to standard output there is nothing to move: one end must be a place",
        ),
        (from_pipe && reads_input, "standard input cannot be both the data and the list of --files-from"),
        (
            from_pipe && choice.files_from.is_some(),
            "--files-from names files beneath a directory, and standard input is none",
        ),
        (
            from_pipe && (choice.sync || choice.delete),
            "--sync and --delete compare directories, and standard input is none",
        ),
        (
            (from_pipe || is_pipe(&args.destination)) && args.hooks.is_some(),
            "hooks are run for what has a place, and standard input and output have none: run the program in the pipe",
        ),
        (is_pipe(&args.destination) && args.sources.len() > 1, "standard output takes one source"),
        (
            is_pipe(&args.destination) && args.output.json,
            "standard output takes the data, so --json has no place there: use --report FILE",
        ),
        (
            both(&is_remote) && !both(&is_agent),
            "between two other hosts both must be agents (lh://host/path): one that is started over ssh ends with its login",
        ),
        (
            args.destination_token_file.is_some() && !both(&is_agent),
            "--destination-token-file is for agents at both ends: use --token-file",
        ),
        (
            both(&is_agent) && args.hooks.is_some(),
            "with agents at both ends no hook can run at this side: each agent runs those of its own configuration",
        ),
        (
            choice.files_from.is_some() && args.sources.len() > 1,
            "--files-from names files beneath one source: give one SRC",
        ),
    ];
    refuse(&rules)
}

fn refuse(rules: &[(bool, &str)]) -> Result<()> {
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, text)) => Err(usage(*text)),
        None => Ok(()),
    }
}

fn options(choice: &ChoiceArgs) -> Result<CopyOptions> {
    let replaces_equal = choice.overwrite != Some(Replace::Changed) && !choice.sync;
    refuse(&[
        (
            choice.sync && choice.overwrite == Some(Replace::Always),
            "--sync skips what is equal, --overwrite always copies it again: leave one of them",
        ),
        (
            choice.sync && choice.overwrite == Some(Replace::Never),
            "--sync replaces what differs, --overwrite never keeps it: leave one of them",
        ),
        (
            choice.by_checksum && replaces_equal,
            "--by-checksum says how to find what is equal: add --sync or --overwrite changed",
        ),
        (
            choice.delete && choice.files_from.is_some(),
            "--delete with --files-from would remove all that the list does not name: leave one of them",
        ),
        (
            choice.dry_run && choice.checksum.is_some(),
            "--dry-run reads no file, so there is no digest for --checksum: leave one of them",
        ),
    ])?;
    let default = if choice.sync { Overwrite::Changed } else { Overwrite::Always };
    Ok(CopyOptions {
        overwrite: choice.overwrite.map_or(default, Overwrite::from),
        by_checksum: choice.by_checksum,
        delete: choice.delete,
        dry_run: choice.dry_run,
        preserve_all: choice.preserve == Some(Preserve::All),
        filters: choice.filters.clone(),
        digest: choice.checksum.map(Into::into),
    })
}

fn digests(choice: &ChoiceArgs, report: Option<&Path>, json: bool, output_is_data: bool) -> Result<DigestsTo> {
    let Some(kind) = choice.checksum else {
        return Ok(DigestsTo::Nowhere);
    };
    match (&choice.digests, report) {
        (Some(path), _) => Ok(DigestsTo::File(path.clone())),
        (None, Some(report)) => Ok(DigestsTo::File(beside(report, kind))),
        (None, None) if json => Ok(DigestsTo::Nowhere),
        (None, None) if output_is_data => {
            Err(usage("standard output takes the data: say with --digests FILE where the digest goes"))
        }
        (None, None) => Ok(DigestsTo::Output),
    }
}

/// `report.json` becomes `report.json.sha256`.
fn beside(report: &Path, kind: Checksum) -> PathBuf {
    let mut name = report.as_os_str().to_owned();
    name.push(".");
    name.push(words(&proto::control::DigestKind::from(kind)));
    PathBuf::from(name)
}

fn hooks(args: HookArgs) -> Hooks {
    Hooks {
        before_file: args.hook_before_file,
        after_file: args.hook_after_file,
        before_dataset: args.hook_before_dataset,
        after_dataset: args.hook_after_dataset,
    }
}

#[cfg(test)]
mod tests;
