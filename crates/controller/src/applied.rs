//! Which files of the configuration were applied last. A file that has not changed since does not undo at a start what was set by API
//! meanwhile, and acknowledged.

use serde::{Deserialize, Serialize};
use service::{PrivateDir, StateError};

use crate::config::{Config, Text};

/// In the state directory.
const FILE: &str = "applied.json";

/// BLAKE3 digests of what was applied, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Applied {
    network: Option<String>,
    shares: Option<String>,
    bookings: Option<String>,
}

impl Applied {
    /// What was kept; nothing if there is no file, or none that can be read: then all files count as changed.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    pub(crate) fn load(dir: &PrivateDir) -> Result<Applied, StateError> {
        let bytes = dir.read(FILE)?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Keeps it.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub(crate) fn keep(&self, dir: &PrivateDir) -> Result<(), StateError> {
        if Applied::load(dir)? == *self {
            return Ok(());
        }
        let text = serde_json::to_string(self).expect("texts are JSON");
        dir.replace(FILE, format!("{text}\n").as_bytes())
    }

    /// What it is when all files of the configuration are applied. Of a file that is not named any more what was applied stays known.
    pub(crate) fn with(&self, config: &Config) -> Applied {
        let of = |text: &Option<Text>, before: &Option<String>| text.as_ref().map(digest).or_else(|| before.clone());
        Applied {
            network: of(&config.network, &self.network),
            shares: of(&config.shares, &self.shares),
            bookings: of(&config.bookings, &self.bookings),
        }
    }

    /// The file of the network, if it is to be applied in place of what is in force.
    pub(crate) fn network<'a>(&self, config: &'a Config, known: Option<&str>) -> Option<&'a Text> {
        changed(config.network.as_ref(), self.network.as_ref(), known, "network")
    }

    /// The same of classes and marks.
    pub(crate) fn shares<'a>(&self, config: &'a Config, known: Option<&str>) -> Option<&'a Text> {
        changed(config.shares.as_ref(), self.shares.as_ref(), known, "shares")
    }

    /// The same of what others have booked.
    pub(crate) fn bookings<'a>(&self, config: &'a Config, known: Option<&str>) -> Option<&'a Text> {
        changed(config.bookings.as_ref(), self.bookings.as_ref(), known, "bookings")
    }
}

fn changed<'a>(file: Option<&'a Text>, applied: Option<&String>, known: Option<&str>, what: &str) -> Option<&'a Text> {
    let file = file.filter(|file| known != Some(&file.text))?;
    if known.is_some() && applied == Some(&digest(file)) {
        tracing::warn!(
            what,
            file = %file.path.display(),
            "what was set by API since this file was applied is in force; change the file, or set it by API, to have it again"
        );
        return None;
    }
    Some(file)
}

fn digest(text: &Text) -> String {
    blake3::hash(text.text.as_bytes()).to_hex().to_string()
}
