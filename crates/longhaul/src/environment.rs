//! What the environment tells, read in one place.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use mover::request::IoChoice;

use crate::exit::usage;

/// The variables that change what a command does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// `LONGHAUL_TOKEN`: access token.
    pub(crate) token: Option<String>,
    /// `LONGHAUL_CONTROLLER`: where the controller is.
    pub(crate) controller: Option<String>,
    /// `LONGHAUL_IO`: which storage I/O may be used.
    pub(crate) io: IoChoice,
    /// Directory of the user's state: `XDG_STATE_HOME`, else beneath `HOME`.
    pub(crate) state_home: Option<PathBuf>,
    /// Directory for sockets: `XDG_RUNTIME_DIR`.
    pub(crate) runtime_dir: Option<PathBuf>,
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// When a variable of ours has a value that means nothing.
    pub(crate) fn of_process() -> Result<Environment> {
        Environment::read(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Environment> {
        let token = match variable("LONGHAUL_TOKEN").map(OsString::into_string).transpose() {
            Ok(token) => token.map(|token| token.trim().to_owned()),
            Err(_) => return Err(usage("LONGHAUL_TOKEN is not a token: it is not text")),
        };
        let io = match variable("LONGHAUL_IO") {
            None => IoChoice::Measure,
            Some(value) if value == "threads" => IoChoice::Threads,
            Some(value) if value == "posix" => IoChoice::Posix,
            Some(value) if value == "posix-old" => IoChoice::PosixOld,
            Some(value) => {
                return Err(usage(format!(
                    "LONGHAUL_IO is {}: it may be `threads`, `posix` or `posix-old`",
                    value.display()
                )));
            }
        };
        let controller = match variable("LONGHAUL_CONTROLLER").map(OsString::into_string).transpose() {
            Ok(controller) => controller,
            Err(_) => return Err(usage("LONGHAUL_CONTROLLER is no address: it is not text")),
        };
        // The XDG specification ignores paths that are not absolute.
        let directory = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || directory("HOME").map(|home| home.join(".local/state"));
        Ok(Environment {
            token,
            controller,
            io,
            state_home: directory("XDG_STATE_HOME").or_else(home),
            runtime_dir: directory("XDG_RUNTIME_DIR"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment> {
        Environment::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn directories() {
        let both = read(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h"), ("XDG_RUNTIME_DIR", "run")]).unwrap();
        assert_eq!(both.state_home, Some("/s".into()));
        assert_eq!(both.runtime_dir, None, "a relative path is ignored");
        assert_eq!(read(&[("HOME", "/h")]).unwrap().state_home, Some("/h/.local/state".into()));
        assert_eq!(read(&[]).unwrap().state_home, None);
    }

    #[test]
    fn values_that_mean_nothing_are_refused() {
        assert_eq!(read(&[("LONGHAUL_IO", "threads")]).unwrap().io, IoChoice::Threads);
        assert_eq!(read(&[("LONGHAUL_IO", "posix")]).unwrap().io, IoChoice::Posix);
        assert_eq!(read(&[("LONGHAUL_IO", "posix-old")]).unwrap().io, IoChoice::PosixOld);
        assert!(read(&[("LONGHAUL_IO", "fast")]).unwrap_err().to_string().contains("`posix`"));
        assert_eq!(read(&[("LONGHAUL_TOKEN", " t\n")]).unwrap().token.as_deref(), Some("t"));
    }
}
