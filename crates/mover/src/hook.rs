//! Hooks: programs that are run before and after each file and each dataset.
//!
//! A hook is words separated by white space: a program and its arguments, run without a shell. It reads nothing,
//! leads a process group of its own, and is told by its environment what it is run for ([`Occasion`]). Status 0 means
//! go on; [`STATUS_LEAVE_OUT`] of a hook before a file means that the file is left out; anything else is a failure,
//! told with the last line that the hook wrote. One that takes longer than it may, or whose session ends, is killed
//! with its group.
//!
//! Programs are spawned, not forked: the buffers of the session are neither copied nor shared with them.

pub mod dataset;
pub mod owed;
pub mod pool;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::RelPath;

use crate::request::Hooks;
use owed::Owed;

/// How long a hook may take: time enough for a tape to be fetched and read.
pub const TIME_MAX: Duration = Duration::from_secs(3600);
/// Exit status of a hook before a file that leaves the file out.
pub const STATUS_LEAVE_OUT: i32 = 10;
/// Bytes of a hook's output that are kept: the last ones.
const OUTPUT_BYTES_MAX: usize = 4 << 10;
/// Reads of what is left in a pipe after its writer ended: a pipe holds 64 KiB, and others may still write.
const DRAIN_READS_MAX: usize = 16;
/// Characters of the line that goes into a message.
const LINE_CHARS_MAX: usize = 300;
/// Between two looks at the clock and at whether the session ends.
const LOOK: Duration = Duration::from_millis(50);
/// First pause for a hook that has closed its output and is about to end; doubled up to [`LOOK`].
const PAUSE_MIN: Duration = Duration::from_micros(100);
/// How long a killed hook may take to be gone: one that hangs in the kernel is left to it.
const KILL_TIME_MAX: Duration = Duration::from_secs(1);

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before a file that is wanted is read, or written.
    BeforeFile,
    /// After a file that was wanted is in place.
    AfterFile,
    /// Before anything is scanned or written.
    BeforeDataset,
    /// When all is done, or failed.
    AfterDataset,
}

impl Moment {
    /// The name in configuration, environment and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Moment::BeforeFile => "before_file",
            Moment::AfterFile => "after_file",
            Moment::BeforeDataset => "before_dataset",
            Moment::AfterDataset => "after_dataset",
        }
    }
}

impl Hooks {
    /// The hook of a moment.
    #[must_use]
    pub fn of(&self, moment: Moment) -> Option<&str> {
        match moment {
            Moment::BeforeFile => self.before_file.as_deref(),
            Moment::AfterFile => self.after_file.as_deref(),
            Moment::BeforeDataset => self.before_dataset.as_deref(),
            Moment::AfterDataset => self.after_dataset.as_deref(),
        }
    }

    /// Checks what can be known of hooks before they are run.
    ///
    /// # Errors
    /// When one names no program.
    pub fn check(&self) -> Result<(), HookError> {
        for moment in [Moment::BeforeFile, Moment::AfterFile, Moment::BeforeDataset, Moment::AfterDataset] {
            if self.of(moment).is_some_and(|hook| hook.split_ascii_whitespace().next().is_none()) {
                return Err(HookError { moment, hook: String::new(), why: Why::NoProgram, said: None });
            }
        }
        Ok(())
    }
}

/// Where hooks are run, the same for all of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// `source` or `destination`.
    pub role: &'static str,
    /// The session, as hexadecimal digits.
    pub session: String,
    /// The directory that files are told relative to, as this end knows it.
    pub root: PathBuf,
}

/// What a hook is run for. What does not apply is not in its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occasion {
    /// The file, relative to the site's directory, any bytes.
    pub path: Option<Vec<u8>>,
    /// Bytes of the file, where they are known.
    pub size: Option<u64>,
    /// What came of it.
    pub outcome: Option<&'static str>,
    /// Files of the dataset.
    pub files: Option<u64>,
    /// Bytes of the dataset.
    pub bytes: Option<u64>,
}

/// What a hook says by ending well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    GoOn,
    /// Leave this file out.
    LeaveOut,
}

/// A hook that did not end well: one line for the user.
#[derive(Debug, thiserror::Error)]
#[error("hook {} {}{why}{}", moment.name(), quoted(hook), said.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
pub struct HookError {
    moment: Moment,
    hook: String,
    why: Why,
    said: Option<String>,
}

impl HookError {
    /// True if it was killed because its session ends, which says nothing of what it was run for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.why, Why::Stopped)
    }
}

fn quoted(hook: &str) -> String {
    if hook.is_empty() { String::new() } else { format!("`{}` ", hook.escape_debug()) }
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("names no program: give the path of one, and its arguments")]
    NoProgram,
    #[error("cannot be run ({0}): name a program that this user may run")]
    NotRun(io::Error),
    #[error("is lost ({0})")]
    Lost(io::Error),
    #[error("ended with status {0}")]
    Status(i32),
    #[error("was ended by signal {0}")]
    Signal(i32),
    #[error("took more than {} s and was killed", .0.as_secs())]
    Late(Duration),
    #[error("was killed, for the session ends")]
    Stopped,
}

/// Runs the hook of a moment to its end, on this thread; no hook is a hook that says go on.
///
/// # Errors
/// When it cannot be run, ends with another status than it may, takes longer than `time_max`, or `stop` turns true.
pub fn run(
    hooks: &Hooks,
    moment: Moment,
    (site, occasion): (&Site, &Occasion),
    stop: &AtomicBool,
    time_max: Duration,
) -> Result<Verdict, HookError> {
    let Some(hook) = hooks.of(moment) else { return Ok(Verdict::GoOn) };
    let mut tail = Tail::default();
    let ended = start(hook, moment, site, occasion)
        .and_then(|(mut child, output)| watch(&mut child, output, &mut tail, stop, time_max));
    let why = match ended {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(Verdict::GoOn),
            (Some(STATUS_LEAVE_OUT), _) if moment == Moment::BeforeFile => return Ok(Verdict::LeaveOut),
            (Some(code), _) => Why::Status(code),
            (None, signal) => Why::Signal(signal.unwrap_or_default()),
        },
        Err(why) => why,
    };
    let error = HookError { moment, hook: hook.to_owned(), why, said: tail.last_line() };
    if !error.is_stopped() {
        tracing::info!(%error, path = occasion.path.as_deref().map(|p| p.escape_ascii().to_string()), "a hook failed");
    }
    Err(error)
}

fn start(hook: &str, moment: Moment, site: &Site, occasion: &Occasion) -> Result<(Child, PipeReader), Why> {
    let mut words = hook.split_ascii_whitespace();
    let mut command = Command::new(words.next().ok_or(Why::NoProgram)?);
    command.args(words).process_group(0).stdin(Stdio::null());
    // What is ours in the environment is for this program; a token is nothing to hand on.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LONGHAUL_")) {
        command.env_remove(name);
    }
    command.env("LONGHAUL_HOOK", moment.name()).env("LONGHAUL_ROLE", site.role);
    command.env("LONGHAUL_SESSION", &site.session).env("LONGHAUL_ROOT", &site.root);
    if let Some(path) = &occasion.path {
        command.env("LONGHAUL_PATH", OsString::from_vec(path.clone()));
    }
    let numbers =
        [("LONGHAUL_SIZE", occasion.size), ("LONGHAUL_FILES", occasion.files), ("LONGHAUL_BYTES", occasion.bytes)];
    for (name, number) in numbers {
        command.envs(number.map(|number| (name, number.to_string())));
    }
    command.envs(occasion.outcome.map(|outcome| ("LONGHAUL_OUTCOME", outcome)));
    let (output, writer) = io::pipe().map_err(Why::NotRun)?;
    command.stdout(writer.try_clone().map_err(Why::NotRun)?).stderr(writer);
    // The command holds this end's writers: they must be closed, or the output has no end.
    let child = command.spawn().map_err(Why::NotRun);
    drop(command);
    Ok((child?, output))
}

/// Waits for the end of a hook and keeps the last of what it writes. A process that it leaves behind may hold its
/// output open: nobody waits for that one.
fn watch(
    child: &mut Child,
    mut output: PipeReader,
    tail: &mut Tail,
    stop: &AtomicBool,
    time_max: Duration,
) -> Result<ExitStatus, Why> {
    let begin = Instant::now();
    let (mut open, mut pause) = (true, PAUSE_MIN);
    loop {
        if !open {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        } else if sys::poll::readable(&output, LOOK).map_err(Why::Lost)? {
            open = tail.take(&mut output);
        }
        if let Some(status) = child.try_wait().map_err(Why::Lost)? {
            let more = |open: bool| open && sys::poll::readable(&output, Duration::ZERO).unwrap_or(false);
            for _ in 0..DRAIN_READS_MAX {
                if !more(open) {
                    break;
                }
                open = tail.take(&mut &output);
            }
            return Ok(status);
        }
        let stopped = stop.load(Ordering::Relaxed);
        if stopped || begin.elapsed() >= time_max {
            kill(child);
            return Err(if stopped { Why::Stopped } else { Why::Late(time_max) });
        }
    }
}

/// Ends a hook and all that it started in its group.
fn kill(child: &mut Child) {
    if let Err(error) = sys::process::kill_group(child.id()) {
        tracing::debug!(%error, "killing a hook's group");
    }
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < KILL_TIME_MAX {
        std::thread::sleep(PAUSE_MIN);
    }
}

/// The last bytes of an output.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    /// Reads once; false at the end.
    fn take(&mut self, from: &mut impl Read) -> bool {
        let mut buf = [0; OUTPUT_BYTES_MAX];
        let n = from.read(&mut buf).unwrap_or(0);
        self.0.extend_from_slice(&buf[..n]);
        let surplus = self.0.len().saturating_sub(OUTPUT_BYTES_MAX);
        self.0.drain(..surplus);
        n > 0
    }

    /// The last line that is not empty, fit to be shown.
    fn last_line(&self) -> Option<String> {
        let line = self.0.rsplit(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
        let shown = String::from_utf8_lossy(line);
        Some(shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(LINE_CHARS_MAX).collect())
    }
}

/// The hooks of one command or session, whether its dataset has begun, and which hooks it still owes. A command that
/// connects again gives the same to its next session: the hook before the dataset is not run twice, and what was put
/// in place just before the connection was lost gets its hook.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// What is run.
    pub hooks: Hooks,
    /// Files whose hook after them has not begun.
    pub owed: Arc<Mutex<Owed>>,
    begun: Arc<Mutex<Option<Site>>>,
}

impl Programs {
    /// Hooks that were not run yet; none for a dry run, which changes nothing.
    #[must_use]
    pub fn new(hooks: Hooks, dry_run: bool) -> Programs {
        Programs { hooks: if dry_run { Hooks::default() } else { hooks }, begun: Arc::default(), owed: Arc::default() }
    }

    /// The same, for a session that goes on where another one of its copy has ended.
    #[must_use]
    pub fn going_on(hooks: Hooks, dry_run: bool, owed: Arc<Mutex<Owed>>) -> Programs {
        Programs { owed, ..Programs::new(hooks, dry_run) }
    }

    /// Keeps in mind that a file may be in place whose hook has not begun.
    pub fn owe(&self, path: &RelPath) {
        self.owed.lock().expect("no panic under the lock").add(path);
    }

    /// True, once, if the hook after a file is owed by an earlier session.
    #[must_use]
    pub fn take_owed(&self, path: &RelPath) -> bool {
        self.owed.lock().expect("no panic under the lock").take(path)
    }

    /// True if nothing is to be run before the dataset may be read or written.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // A session that goes on with what an earlier one of the same command began has nothing to run before it.
        self.begun().is_some() || self.hooks.of(Moment::BeforeDataset).is_none()
    }

    /// The dataset may be read or written: what is to be run before it has said so.
    pub fn begin(&self, site: Site) {
        *self.begun.lock().expect("no panic under the lock") = Some(site);
    }

    /// Where the dataset was begun, if it was.
    #[must_use]
    pub fn begun(&self) -> Option<Site> {
        self.begun.lock().expect("no panic under the lock").clone()
    }
}
