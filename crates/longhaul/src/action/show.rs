//! Which forms of output a copy or test has.

use std::path::PathBuf;

use anyhow::Result;
use mover::request::Steer;
use tokio::sync::mpsc;

use crate::args::groups::OutputArgs;
use crate::args::value::ProgressWhen;
use crate::environment::Environment;
use crate::output::Outputs;
use crate::output::human::{Human, Quiet};
use crate::output::json::Json;
use crate::output::report::Report;
use crate::output::summary::Kind;
use crate::session::Control;
use crate::session::place::Place;
use crate::session::wire::Status;

/// What is shown, and what `longhaul session` may ask.
pub(super) struct Show {
    json: bool,
    quiet: bool,
    progress: ProgressWhen,
    report: Option<PathBuf>,
    kind: Kind,
    output_is_data: bool,
    status: Status,
    place: Place,
}

impl Show {
    /// From the options; `status` says what this is.
    pub(super) fn new(
        args: OutputArgs,
        kind: Kind,
        output_is_data: bool,
        status: Status,
        environment: &Environment,
    ) -> Show {
        Show {
            json: args.json,
            quiet: args.quiet,
            progress: args.progress,
            report: args.report,
            kind,
            output_is_data,
            status: Status { pid: std::process::id(), ..status },
            place: Place::of(environment),
        }
    }

    /// True if only errors are to be printed.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Opens all forms. `steer` is for the control socket.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn outputs(&self, steer: mpsc::Sender<Steer>) -> Result<Outputs> {
        let mut outputs = Outputs::default();
        if let Some(path) = &self.report {
            outputs.add(Report::create(path)?);
        }
        outputs.add(Control::new(self.place.clone(), self.status.clone(), steer));
        match (self.json, self.quiet) {
            (true, quiet) => outputs.add(Json { summary_only: quiet }),
            (false, true) => outputs.add(Quiet),
            (false, false) => outputs.add(Human::new(self.progress, self.kind, self.output_is_data)),
        }
        Ok(outputs)
    }
}
