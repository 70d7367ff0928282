//! The agent from outside: configuration, tokens, policy, start and end.

mod config;
mod controller;
mod endpoint;
mod files;
mod oneshot;
mod policy;
mod run;
mod tokens;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::Environment;

/// A directory with `data`, `data/x`, `data/y`, `in` and (not yet made) `state` in it.
pub(crate) struct Site {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in ["data/x", "data/y", "in"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        Site { _dir: dir, top }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// What goes into messages and differs from run to run, taken out.
    pub(crate) fn plain(&self, text: impl ToString) -> String {
        text.to_string().replace(&self.top.display().to_string(), "TOP")
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment { xdg_state_home: Some(self.path("xdg").into()), ..Environment::default() }
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A moment of the tests' own; nothing depends on when they run.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

pub(crate) fn peer() -> SocketAddr {
    "192.0.2.7:50000".parse().unwrap()
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
