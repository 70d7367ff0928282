//! Why a description or a scenario is refused.

use std::fmt;

/// Why a file does not describe a network: `pair.toml:12: link `ab`: unknown node `c`; did you mean `a`?`.
///
/// The message is one line: file, line, thing, what is wrong and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError {
    file: String,
    line: Option<usize>,
    thing: Option<String>,
    problem: String,
}

impl NetworkError {
    pub(crate) fn new(file: &str, line: Option<usize>, fault: Fault) -> NetworkError {
        NetworkError { file: file.to_owned(), line, thing: fault.thing, problem: fault.problem }
    }

    /// The file, as it was named to the reader.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; `None` where the format or the fault has none.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// What it is about, such as ``link `ab` ``.
    #[must_use]
    pub fn thing(&self) -> Option<&str> {
        self.thing.as_deref()
    }

    /// What is wrong with it, and the way out.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl std::error::Error for NetworkError {}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(thing) = &self.thing {
            write!(f, ": {thing}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// What is wrong, before it is known where it stands.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) thing: Option<String>,
    pub(crate) problem: String,
}

impl From<String> for Fault {
    fn from(problem: String) -> Fault {
        Fault { thing: None, problem }
    }
}

/// ``link `ab` ``, for messages.
pub(crate) fn thing(kind: &str, name: &str) -> String {
    format!("{kind} `{}`", quoted(name))
}

/// Characters of a text that a message shows.
const MAX_QUOTED: usize = 40;

/// `text` as a message may show it: on one line and short, whatever came in.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}
