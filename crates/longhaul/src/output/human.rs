//! Output for people: a progress line on standard error, a table at the end.

use std::io::IsTerminal;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mover::event::{Event, FileEvent, Started};

use super::summary::{Kind, table};
use super::{COLUMNS_MAX, End, Exporter, interval, note, print, progress};
use crate::args::value::ProgressWhen;

/// Characters of a session's id that are shown; a unique beginning is enough for `longhaul session`.
pub(crate) const ID_SHOWN: usize = 8;

/// How progress is shown.
enum Line {
    /// Rewritten in place.
    Terminal(ProgressBar),
    /// One after the other.
    Plain,
    /// Not at all.
    Hidden,
}

/// What people see.
pub(crate) struct Human {
    line: Line,
    kind: Kind,
    /// Standard output holds the data, so the table goes to standard error.
    output_is_data: bool,
    header_shown: bool,
}

impl Human {
    /// For a command of that kind; `output_is_data` when its data go to standard output.
    pub(crate) fn new(when: ProgressWhen, kind: Kind, output_is_data: bool) -> Human {
        let terminal = std::io::stderr().is_terminal();
        let line = match (when, terminal) {
            _ if kind != Kind::Copy => Line::Hidden,
            (ProgressWhen::Never, _) | (ProgressWhen::Auto, false) => Line::Hidden,
            (ProgressWhen::Always, false) => Line::Plain,
            (ProgressWhen::Auto | ProgressWhen::Always, true) => Line::Terminal(bar()),
        };
        Human { line, kind, output_is_data, header_shown: false }
    }

    /// A line on standard error above the progress line.
    fn say(&self, text: &str) {
        match &self.line {
            Line::Terminal(bar) => bar.suspend(|| note(text)),
            Line::Plain | Line::Hidden => note(text),
        }
    }

    /// A line of results.
    fn result(&self, text: &str) -> Result<()> {
        if self.output_is_data {
            eprint(text);
            return Ok(());
        }
        match &self.line {
            Line::Terminal(bar) => bar.suspend(|| print(text)),
            Line::Plain | Line::Hidden => print(text),
        }
    }

    fn progress(&self, state: &mover::event::Progress) {
        let line = progress::line(state, COLUMNS_MAX);
        match &self.line {
            Line::Terminal(bar) => bar.set_message(line),
            Line::Plain => eprint(&(line + "\n")),
            Line::Hidden => {}
        }
    }

    fn file(&self, file: &FileEvent) -> Result<()> {
        match file.outcome {
            "would" => self.result(&format!("would copy {}\n", file.path)),
            "deleted" if self.kind == Kind::DryRun => self.result(&format!("would delete {}\n", file.path)),
            _ => Ok(()),
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is well formed");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

fn eprint(text: &str) {
    use std::io::Write;
    // Nobody is left to tell when standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// `session 3f2a9c01: private, cubic (why)`.
fn started(started: &Started) -> String {
    let id: String = started.session.chars().take(ID_SHOWN).collect();
    let mut text = format!("session {id}: {}", super::name::words(&started.protection));
    if let Some(congestion) = &started.congestion {
        text.push_str(&format!(", {congestion}"));
    }
    if let Some(reason) = &started.congestion_reason {
        text.push_str(&format!(" ({reason})"));
    }
    text
}

impl Exporter for Human {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Started(state) => self.say(&started(state)),
            Event::Progress(state) => self.progress(state),
            Event::Interval(state) => {
                if !std::mem::replace(&mut self.header_shown, true) {
                    self.result(&format!("{}\n", interval::HEADER))?;
                }
                self.result(&(interval::line(state) + "\n"))?;
            }
            Event::File(file) => self.file(file)?,
            Event::Warning { text } => self.say(text),
            Event::Reconnect { attempt, of, why } => self.say(&format!("{why}; attempt {attempt} of {of}")),
            Event::Summary(_) => {}
        }
        Ok(())
    }

    fn end(&mut self, end: &End<'_>) -> Result<()> {
        if let Line::Terminal(bar) = &self.line {
            bar.finish_and_clear();
        }
        // Whoever prints the error says all there is to say.
        if end.error.is_some() { Ok(()) } else { self.result(&table(end.summary, self.kind)) }
    }
}

/// Output for people who want to hear of trouble only.
pub(crate) struct Quiet;

impl Exporter for Quiet {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::File(file) if ["failed", "changed", "corrupt"].contains(&file.outcome) => {
                note(&format!("{}: {}", file.path, file.why.as_deref().unwrap_or(file.outcome)));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, end: &End<'_>) -> Result<()> {
        if end.error.is_none() && !end.summary.ok {
            note(&format!("not all is in place: {} of {} files failed", end.summary.files_failed, end.summary.files));
        }
        Ok(())
    }
}
