//! A program on a host: a process group of its own, and the last of what it writes.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::scenario::Program;
use sys::netns::Namespace;
use units::Span;

use super::Stopper;
use crate::place::Place;
use crate::plan::NodePlan;

/// How much is kept of what a program writes to each of its outputs: the last of it.
const KEPT_MAX: usize = 64 << 10;
/// How long the last of it may take to come when the program has ended: what it started may hold the pipe open.
const SETTLE_MAX: Duration = Duration::from_millis(200);
/// How much is read at once.
const READ_BYTES: usize = 8 << 10;

/// A program that runs.
pub(super) struct Running {
    /// Index in the scenario's programs.
    pub(super) index: usize,
    child: Child,
    begin: Instant,
    /// Why it does not end by itself.
    ended_by: Option<EndedBy>,
    /// How and when it ended: the last of its output may still be on the way.
    exited: Option<(ExitStatus, Instant)>,
    stdout: Tail,
    stderr: Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    Timeout,
    /// The end of the scenario.
    End,
}

/// How a program ended.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    /// As shells count.
    pub(super) code: Option<u8>,
    /// The end of the scenario ended it.
    pub(super) stopped: bool,
    /// What it did not do of what is asked of it.
    pub(super) failure: Option<String>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Running {
    pub(super) fn start(
        index: usize,
        program: &Program,
        node: &NodePlan,
        place: &Place,
        stopper: Stopper,
    ) -> Result<Running> {
        let mut command = Command::new(&program.command[0]);
        command.args(&program.command[1..]).env("LONGHAUL_TWIN", place.name());
        // Ctrl-C is for the run, which then ends its programs.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Namespace::named(&node.namespace)?
            .start_in(&mut command, Some(&place.file("hosts")))
            .with_context(|| format!("cannot enter {}", node.namespace))?;
        let mut child = command.spawn().with_context(|| format!("cannot run `{}`", program.command[0]))?;
        let stdout = child.stdout.take().expect("it was piped");
        let stderr = child.stderr.take().expect("it was piped");
        let (stdout, stderr) = (Tail::of(stdout, stopper.clone()), Tail::of(stderr, stopper));
        Ok(Running {
            index,
            child,
            begin: Instant::now(),
            ended_by: None,
            exited: None,
            stdout: stdout?,
            stderr: stderr?,
        })
    }

    /// How it ended, if it has and its output is here. Kills it if it takes too long.
    pub(super) fn poll(&mut self, program: &Program) -> Option<End> {
        if self.exited.is_none() {
            match self.child.try_wait() {
                Ok(status) => self.exited = status.map(|status| (status, Instant::now())),
                Err(error) => return Some(lost(&error)),
            }
        }
        if let Some((status, at)) = self.exited {
            let settled = !(self.stdout.is_open() || self.stderr.is_open()) || at.elapsed() >= SETTLE_MAX;
            return settled.then(|| self.end(program, status));
        }
        let late = program.timeout.is_some_and(|timeout| self.begin.elapsed() >= timeout);
        if late && self.ended_by.is_none() {
            self.ended_by = Some(EndedBy::Timeout);
            self.kill_group();
        }
        None
    }

    /// SIGTERM, for the end of the scenario.
    pub(super) fn ask_to_end(&mut self) {
        if self.exited.is_none() && matches!(self.child.try_wait(), Ok(None)) {
            self.ended_by.get_or_insert(EndedBy::End);
            // Fails only if it has just ended, and then it is found to have.
            let _ = sys::process::terminate(self.child.id());
        }
    }

    /// SIGKILL to all of its group.
    pub(super) fn kill(&mut self, program: &Program) -> End {
        if self.exited.is_none() {
            self.kill_group();
        }
        match self.child.wait() {
            Ok(status) => self.end(program, status),
            Err(error) => lost(&error),
        }
    }

    fn kill_group(&self) {
        // It was not waited for yet: its id is still its own. Fails only if all are gone.
        let _ = sys::process::kill_group(self.child.id());
    }

    fn end(&self, program: &Program, status: ExitStatus) -> End {
        let (stdout, code) = (self.stdout.bytes(), code(status));
        let failure = self.failure(program, code, &stdout);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stopped = self.ended_by == Some(EndedBy::End);
        End { code: Some(code), stopped, failure, stdout: text(&stdout), stderr: text(&self.stderr.bytes()) }
    }

    fn failure(&self, program: &Program, code: u8, stdout: &[u8]) -> Option<String> {
        match self.ended_by {
            Some(EndedBy::Timeout) => {
                return Some(format!("it took longer than {:#}", Span::new(program.timeout.unwrap_or_default())));
            }
            Some(EndedBy::End) if !program.background => return Some("it still ran at the end".to_owned()),
            // Killed by us: its code says nothing.
            Some(EndedBy::End) => {}
            None => {
                if let Some(wanted) = program.exit_code.filter(|wanted| *wanted != code) {
                    return Some(format!("it ended with {code}, not {wanted}"));
                }
            }
        }
        let wanted = program.stdout_contains.as_deref()?;
        let found = wanted.is_empty() || stdout.windows(wanted.len()).any(|part| part == wanted.as_bytes());
        (!found).then(|| format!("its output lacks `{}`", wanted.escape_debug()))
    }
}

/// It is a child that nobody else waits for: only a fault of the system leads here.
fn lost(error: &std::io::Error) -> End {
    End { failure: Some(format!("it is lost: {error}")), ..End::default() }
}

/// As shells count.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The last of what is read from a pipe, by a thread of its own.
#[derive(Clone)]
struct Tail(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    is_over: bool,
}

impl Tail {
    /// Wakes the run when there is no more.
    fn of(mut pipe: impl Read + Send + 'static, stopper: Stopper) -> Result<Tail> {
        let tail = Tail(Arc::default());
        let kept = tail.clone();
        // Nobody waits for it: it ends with the last that holds the pipe open, at the latest when the twin is down.
        thread::Builder::new().name("lh-output".to_owned()).spawn(move || {
            let mut buffer = [0; READ_BYTES];
            loop {
                match pipe.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => break,
                    Ok(length) => kept.locked().keep(&buffer[..length]),
                }
            }
            kept.locked().is_over = true;
            stopper.wake();
        })?;
        Ok(tail)
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        !self.locked().is_over
    }

    fn bytes(&self) -> Vec<u8> {
        self.locked().bytes.iter().copied().collect()
    }
}

impl Kept {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let surplus = self.bytes.len().saturating_sub(KEPT_MAX);
        self.bytes.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Mailbox;

    #[test]
    fn the_last_of_an_output_is_kept() {
        let written: Vec<u8> = (0..3 * KEPT_MAX).map(|n| n as u8 ^ (n >> 8) as u8).collect();
        let tail = Tail::of(std::io::Cursor::new(written.clone()), Mailbox::default().stopper()).unwrap();
        while tail.is_open() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(tail.bytes(), written[2 * KEPT_MAX..]);
    }

    #[test]
    fn codes_are_those_of_shells() {
        assert_eq!((code(ExitStatus::from_raw(3 << 8)), code(ExitStatus::from_raw(9))), (3, 137));
    }
}
