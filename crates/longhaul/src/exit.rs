//! Exit codes, and the one place that says why a command failed.

use std::io::Write;
use std::process::ExitCode;

use agent::controller::host::AskError;
use agent::{AgentError, ConfigError, TokenError};
use mover::request::MoveError;

/// Everything that was asked for is done.
pub(crate) const DONE: u8 = 0;
/// It failed.
pub(crate) const FAILED: u8 = 1;
/// The command line or a configuration cannot be used; nothing was begun.
pub(crate) const USAGE: u8 = 2;
/// What was asked for is not free; the output says what binds and what there is instead.
pub(crate) const REFUSED: u8 = 4;
/// What arrived was corrupt and could not be repaired; none of it was published.
pub(crate) const CORRUPT: u8 = 5;
/// Part of it is done; the report says what is missing.
pub(crate) const PARTLY: u8 = 6;
/// Not now: somebody else holds the place, or a limit is reached, or the connection was lost.
pub(crate) const AGAIN: u8 = 75;
/// Ended at once by the second interrupt: 128 and SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// The codes as `--help` and the manual tell them.
pub(crate) const TABLE: &[(u8, &str)] = &[
    (DONE, "done"),
    (FAILED, "failed"),
    (USAGE, "the command line or a configuration cannot be used"),
    (REFUSED, "refused for lack of capacity; the output says what there is instead"),
    (CORRUPT, "integrity mismatch that could not be repaired; nothing corrupt was published"),
    (PARTLY, "partly done; the report says what is missing"),
    (AGAIN, "try again later: the place is taken, a limit is reached, or the connection was lost"),
    (INTERRUPTED, "interrupted twice"),
];

/// An error with the exit code it stands for, where that is not [`FAILED`].
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Coded {
    code: u8,
    text: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Standard output was closed by its reader, which is no failure.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(crate) struct OutputClosed;

/// What was asked cannot be done: the text names the option and the way out.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Coded { code: USAGE, text: text.into(), source: None }.into()
}

/// The same for an error that has its text already.
pub(crate) fn as_usage(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    Coded { code: USAGE, text, source: Some(error.into()) }.into()
}

/// What has a code of its own.
pub(crate) fn coded(code: u8, text: impl Into<String>) -> anyhow::Error {
    Coded { code, text: text.into(), source: None }.into()
}

/// It was ended at once; the user knows why.
pub(crate) fn interrupted() -> anyhow::Error {
    Coded { code: INTERRUPTED, text: "interrupted".into(), source: None }.into()
}

/// The exit code of an error: the first along its chain that has one.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    let known = error.chain().find_map(|cause| {
        let coded = cause.downcast_ref::<Coded>().map(|coded| coded.code);
        let moved = || cause.downcast_ref::<MoveError>().map(|error| error.exit_code);
        let served = || cause.downcast_ref::<AgentError>().map(AgentError::exit_code);
        let tokens = || cause.downcast_ref::<TokenError>().map(TokenError::exit_code);
        let asked = || match cause.downcast_ref::<AskError>() {
            Some(AskError::Nobody { .. }) => Some(USAGE),
            _ => None,
        };
        let configured = || cause.downcast_ref::<ConfigError>().map(|_| USAGE);
        let world = || match cause.downcast_ref::<controller::ControllerError>() {
            Some(controller::ControllerError::World { .. }) => Some(USAGE),
            _ => None,
        };
        let wished = || cause.downcast_ref::<driver::WishError>().map(|_| USAGE);
        let working = || match cause.downcast_ref::<driver::LockError>() {
            Some(driver::LockError::Held { .. }) => Some(AGAIN),
            _ => None,
        };
        let lost = || cause.downcast_ref::<crate::action::Lost>().map(|_| AGAIN);
        let closed = || cause.downcast_ref::<OutputClosed>().map(|_| DONE);
        let own = coded.or_else(moved).or_else(served).or_else(tokens).or_else(asked);
        own.or_else(configured).or_else(wished).or_else(working).or_else(world).or_else(lost).or_else(closed)
    });
    known.unwrap_or(FAILED)
}

/// The error and its causes on one line, none of them twice.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some libraries repeat the cause in their own text.
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Ends the program: prints what went wrong, if anything did, and gives the exit code.
pub(crate) fn report(result: anyhow::Result<u8>) -> ExitCode {
    let code = result.unwrap_or_else(|error| {
        let code = code_of(&error);
        if code != DONE {
            // Nobody is left to tell when standard error is closed too.
            let _ = writeln!(std::io::stderr(), "longhaul: {}", one_line(&error));
        }
        code
    });
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_first_code_along_the_chain_counts() {
        let moved = MoveError {
            exit_code: AGAIN,
            text: "the place is taken".into(),
            source: None,
            again: false,
            why: mover::request::Why::Busy,
        };
        let cases = [
            (anyhow::anyhow!("plain"), FAILED),
            (usage("no"), USAGE),
            (Err::<(), _>(usage("no")).context("reading").unwrap_err(), USAGE),
            (moved.into(), AGAIN),
            (OutputClosed.into(), DONE),
        ];
        for (error, code) in cases {
            assert_eq!(code_of(&error), code, "{error:#}");
        }
    }

    #[test]
    fn no_cause_is_printed_twice() {
        let cause = std::io::Error::other("disk on fire");
        let repeats = Err::<(), _>(cause).context("opening /x: disk on fire").unwrap_err();
        assert_eq!(one_line(&repeats), "opening /x: disk on fire");
        let plain = Err::<(), _>(std::io::Error::other("disk on fire")).context("opening /x").unwrap_err();
        assert_eq!(one_line(&plain), "opening /x: disk on fire");
    }

    #[test]
    fn the_reference_has_the_same_codes() {
        let reference = include_str!("../../../docs/cli.md");
        let (_, codes) = reference.split_once("## Exit codes").unwrap();
        let rows: Vec<&str> =
            codes.lines().filter(|line| line.starts_with('|') && line.contains(char::is_numeric)).collect();
        let expected: Vec<String> = TABLE.iter().map(|(code, meaning)| format!("| {code} | {meaning} |")).collect();
        assert_eq!(rows, expected);
    }
}
