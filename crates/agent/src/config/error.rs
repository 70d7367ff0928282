//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no configuration. One line: the place, the key, the matter, the way out.
#[derive(Debug)]
pub struct ConfigError {
    place: Option<Place>,
    key: String,
    text: String,
    source: Option<io::Error>,
}

/// A place in a file, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    /// `None` when it is about the file as a whole.
    pub(super) at: Option<(usize, usize)>,
}

impl ConfigError {
    pub(super) fn new(place: Option<Place>, key: impl Into<String>, text: impl Into<String>) -> ConfigError {
        ConfigError { place, key: key.into(), text: text.into(), source: None }
    }

    pub(super) fn with_source(mut self, source: Option<io::Error>) -> ConfigError {
        self.source = source;
        self
    }

    pub(super) fn unreadable(path: &Path, source: io::Error) -> ConfigError {
        let fix = match source.kind() {
            io::ErrorKind::NotFound => ": name another with --config, or leave that out",
            io::ErrorKind::InvalidData => ": it must be TOML in UTF-8",
            _ => "",
        };
        let place = Place { file: path.to_owned(), at: None };
        ConfigError::new(Some(place), "", format!("cannot read this file{fix}")).with_source(Some(source))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { file, at }) = &self.place {
            write!(f, "{}:", file.display())?;
            if let Some((line, column)) = at {
                write!(f, "{line}:{column}:")?;
            }
            f.write_str(" ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
