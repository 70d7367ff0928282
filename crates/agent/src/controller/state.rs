//! What the agent keeps of its controller over a restart: who it is, and what the operator of the host decided.

use std::path::Path;

use api::agent::Mode;
use mover::request::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::tokens::sha256;
use service::{PrivateDir, StateError};

/// The file in the state directory.
pub const STATE_FILE: &str = "controller.json";

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The controller's fingerprint, as it was when it first took this agent.
    pub fingerprint: Option<String>,
    /// SHA-256 of the enrolment token that was used, hexadecimal: it is of no use a second time.
    pub enrolled_with: Option<String>,
    /// What the operator decided.
    pub mode: Mode,
    /// In the operator's words.
    pub reason: String,
    /// The operator dropped the controller: only a new enrolment token brings one back.
    pub forgotten: bool,
}

/// The file and what it says.
#[derive(Debug)]
pub struct StateFile {
    dir: PrivateDir,
    kept: Kept,
}

impl StateFile {
    /// Reads it; without one there is nothing to know.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense.
    pub fn open(state_dir: &Path) -> Result<StateFile, StateError> {
        let dir = PrivateDir::open(state_dir, crate::run::ELSEWHERE)?;
        let kept = match dir.read(STATE_FILE)? {
            None => Kept::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| StateError::Damaged {
                path: dir.path_of(STATE_FILE),
                why: error.to_string(),
                fix: "restore it from a backup, or remove it and enrol again",
            })?,
        };
        Ok(StateFile { dir, kept })
    }

    /// What it says.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The fingerprint that is pinned, if any is.
    ///
    /// # Errors
    /// When what is there is none.
    pub fn pinned(&self) -> Result<Option<Fingerprint>, String> {
        let parse = |text: &String| text.parse().map_err(|error| format!("{}: {error}", self.path().display()));
        self.kept.fingerprint.as_ref().map(parse).transpose()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path_of(STATE_FILE)
    }

    /// Changes it, durably; nothing is changed if that cannot be.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn change(&mut self, change: impl FnOnce(&mut Kept)) -> Result<(), StateError> {
        let mut kept = self.kept.clone();
        change(&mut kept);
        if kept != self.kept {
            let bytes = serde_json::to_vec_pretty(&kept).expect("plain fields");
            self.dir.replace(STATE_FILE, &bytes)?;
            self.kept = kept;
        }
        Ok(())
    }
}

/// What is kept of an enrolment token that was used.
#[must_use]
pub fn used(token: &str) -> String {
    sha256(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let mut state = StateFile::open(&path).unwrap();
        assert_eq!((state.kept(), state.pinned()), (&Kept::default(), Ok(None)));
        let pin = Fingerprint([7; 32]);
        state
            .change(|kept| {
                (kept.mode, kept.reason) = (Mode::Draining, "disk".into());
                kept.fingerprint = Some(pin.to_string());
            })
            .unwrap();
        let again = StateFile::open(&path).unwrap();
        assert_eq!((again.kept(), again.pinned()), (state.kept(), Ok(Some(pin))));
        assert_eq!(again.kept().mode, Mode::Draining);
        std::fs::write(state.path(), "{").unwrap();
        let error = StateFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains("enrol again"), "{error}");
    }
}
