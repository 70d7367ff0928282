//! What a copy or test tells, in each form it can be told in: one file per form.
//!
//! | form | module | where |
//! |---|---|---|
//! | a line that is rewritten, and a table at the end | [`human`] | standard error, standard output |
//! | JSON Lines | [`json`] | standard output |
//! | report | [`report`] | a file: summary and every failed file |
//! | digests | [`digests`] | a file as `sha256sum` writes it |

pub(crate) mod digests;
pub(crate) mod human;
pub(crate) mod interval;
pub(crate) mod json;
pub(crate) mod name;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod summary;

use std::io::{self, Write};

use anyhow::{Context, Result};
use mover::event::{Event, Progress, Summary};

use crate::exit::{self, OutputClosed};

/// Columns of everything printed for people.
pub(crate) const COLUMNS_MAX: usize = 100;

/// The end of a copy or test.
pub(crate) struct End<'a> {
    /// What came of it.
    pub(crate) summary: &'a Summary,
    /// Why it could not begin or ended early, on one line.
    pub(crate) error: Option<&'a str>,
}

/// One form of output.
pub(crate) trait Exporter {
    /// Tells an event; never the summary.
    fn event(&mut self, event: &Event) -> Result<()>;

    /// Tells the end. Called once, last.
    fn end(&mut self, end: &End<'_>) -> Result<()>;
}

/// All forms that were asked for.
#[derive(Default)]
pub(crate) struct Outputs {
    exporters: Vec<Box<dyn Exporter>>,
    /// The first that failed, except by a reader that went away.
    failure: Option<anyhow::Error>,
    closed: bool,
    progress: Progress,
    /// What a work that ended early came to.
    so_far: Summary,
}

impl Outputs {
    /// One form more.
    pub(crate) fn add(&mut self, exporter: impl Exporter + 'static) {
        self.exporters.push(Box::new(exporter));
    }

    /// Tells an event. A form that fails is given up; the work goes on, and [`Outputs::end`] says so.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Event::Progress(state) = event {
            self.progress = state.clone();
        }
        match event {
            Event::Summary(summary) => self.so_far = (**summary).clone(),
            _ => self.tell(|exporter| exporter.event(event)),
        }
    }

    /// True once the reader of standard output went away.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Tells the end: the exit code, or why there is none. An error of the work counts before one of output.
    pub(crate) fn end(mut self, result: Result<Summary>) -> Result<u8> {
        match result {
            Ok(summary) => {
                self.tell(|exporter| exporter.end(&End { summary: &summary, error: None }));
                match self.failure {
                    Some(failure) if summary.ok => Err(failure.context("all is in place, but not all was told")),
                    _ => Ok(summary.exit_code),
                }
            }
            Err(error) => {
                let (summary, text) = (self.unfinished(&error), exit::one_line(&error));
                self.tell(|exporter| exporter.end(&End { summary: &summary, error: Some(&text) }));
                Err(error)
            }
        }
    }

    /// What is known when no summary came.
    fn unfinished(&self, error: &anyhow::Error) -> Summary {
        Summary {
            ok: false,
            exit_code: exit::code_of(error),
            bytes: self.progress.bytes_total,
            bytes_text: self.progress.bytes_total.to_string(),
            files: self.progress.files_total,
            files_failed: self.progress.files_failed,
            seconds: self.progress.seconds,
            rate_bps: self.progress.mean_rate_bps,
            streams: self.progress.streams,
            ..self.so_far.clone()
        }
    }

    fn tell(&mut self, mut what: impl FnMut(&mut dyn Exporter) -> Result<()>) {
        self.exporters.retain_mut(|exporter| match what(exporter.as_mut()) {
            Ok(()) => true,
            Err(error) if error.is::<OutputClosed>() => {
                self.closed = true;
                false
            }
            Err(error) => {
                self.failure.get_or_insert(error);
                false
            }
        });
    }
}

/// Writes to standard output; a reader that went away is told apart from other failures.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error; nobody is left to tell when that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "longhaul: {text}");
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Fails as it is told, and remembers what it heard.
    struct Fake {
        heard: Rc<RefCell<Vec<String>>>,
        fails: fn() -> Option<anyhow::Error>,
    }

    impl Exporter for Fake {
        fn event(&mut self, event: &Event) -> Result<()> {
            self.heard.borrow_mut().push(name::words(&serde_json::to_value(event)?["event"]));
            (self.fails)().map_or(Ok(()), Err)
        }

        fn end(&mut self, end: &End<'_>) -> Result<()> {
            self.heard.borrow_mut().push(format!("end {} {:?}", end.summary.exit_code, end.error));
            Ok(())
        }
    }

    fn outputs(fails: fn() -> Option<anyhow::Error>) -> (Outputs, Rc<RefCell<Vec<String>>>) {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let mut outputs = Outputs::default();
        outputs.add(Fake { heard: heard.clone(), fails });
        (outputs, heard)
    }

    fn warning() -> Event {
        Event::Warning { text: "x".into() }
    }

    fn done() -> Summary {
        Summary { ok: true, ..Summary::default() }
    }

    #[test]
    fn the_summary_is_told_once_and_last() {
        let (mut outputs, heard) = outputs(|| None);
        outputs.event(&warning());
        outputs.event(&Event::Summary(Box::new(done())));
        assert_eq!(outputs.end(Ok(done())).unwrap(), exit::DONE);
        assert_eq!(*heard.borrow(), ["warning", "end 0 None"]);
    }

    #[test]
    fn an_early_end_has_a_summary_too() {
        let (mut outputs, heard) = outputs(|| None);
        outputs.event(&Event::Progress(Progress { bytes_total: 9, ..Progress::default() }));
        let error = outputs.end(Err(exit::usage("no such thing"))).unwrap_err();
        assert_eq!(exit::code_of(&error), exit::USAGE);
        assert_eq!(*heard.borrow(), ["progress", "end 2 Some(\"no such thing\")"]);
    }

    #[test]
    fn a_reader_that_goes_away_does_not_end_the_work() {
        let (mut outputs, heard) = outputs(|| Some(OutputClosed.into()));
        outputs.event(&warning());
        outputs.event(&warning());
        assert!(outputs.is_closed());
        assert_eq!(outputs.end(Ok(done())).unwrap(), exit::DONE);
        assert_eq!(*heard.borrow(), ["warning"], "it is told nothing more");
    }

    #[test]
    fn output_that_fails_is_told_at_the_end_unless_the_work_failed() {
        let fails = || Some(anyhow::anyhow!("disk full"));
        let (mut first, _) = outputs(fails);
        first.event(&warning());
        assert!(exit::one_line(&first.end(Ok(done())).unwrap_err()).ends_with("disk full"));
        let (mut second, _) = outputs(fails);
        second.event(&warning());
        let partly = Summary { exit_code: exit::PARTLY, ..Summary::default() };
        assert_eq!(second.end(Ok(partly)).unwrap(), exit::PARTLY);
    }
}
