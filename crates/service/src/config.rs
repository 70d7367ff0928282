//! Configuration files: what is wrong with one, where, and what to do about it.

use std::fmt;
use std::io;
use std::ops::Range;
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
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Line and column; `None` when it is about the file as a whole.
    pub at: Option<(usize, usize)>,
}

impl ConfigError {
    /// About a key, at a place if it stands in a file.
    #[must_use]
    pub fn new(place: Option<Place>, key: impl Into<String>, text: impl Into<String>) -> ConfigError {
        ConfigError { place, key: key.into(), text: text.into(), source: None }
    }

    /// With what lies behind it.
    #[must_use]
    pub fn with_source(mut self, source: Option<io::Error>) -> ConfigError {
        self.source = source;
        self
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, source: io::Error) -> ConfigError {
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

/// The text that spans point into.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a>(Option<(&'a Path, &'a str)>);

impl<'a> Source<'a> {
    /// There is no file.
    #[must_use]
    pub fn none() -> Source<'a> {
        Source(None)
    }

    /// This text of this file.
    #[must_use]
    pub fn of(path: &'a Path, text: &'a str) -> Source<'a> {
        Source(Some((path, text)))
    }

    /// Where a span begins; `None` if there is no file.
    #[must_use]
    pub fn place(&self, span: Option<Range<usize>>) -> Option<Place> {
        let (path, text) = self.0?;
        let at = span.map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
        });
        Some(Place { file: path.to_owned(), at })
    }

    /// What the parser says, on one line.
    #[must_use]
    pub fn syntax(&self, mut error: toml::de::Error) -> ConfigError {
        let text = error.message().lines().collect::<Vec<_>>().join(", ");
        let place = self.place(error.span());
        // Without its input it prints the key instead of the line.
        error.set_input(None);
        let shown = error.to_string();
        let key = shown.lines().last().and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'));
        ConfigError::new(place, key.unwrap_or_default(), text)
    }

    /// What is wrong with a key.
    #[must_use]
    pub fn error(&self, key: &str, span: Range<usize>, text: impl Into<String>) -> ConfigError {
        ConfigError::new(self.place(Some(span)), key, text)
    }
}
