//! The text of the file, read and added to.

use mover::request::Fingerprint;

/// What a text says of the fingerprint of an agent. Lines are counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The agent is not there.
    Nothing,
    /// It is pinned with this one.
    Same,
    /// It is pinned with another one.
    Other {
        /// The one that is pinned.
        pinned: Fingerprint,
        /// Where.
        line: usize,
    },
    /// A line that means nothing, before the agent was met.
    Damaged {
        /// Which.
        line: usize,
    },
}

/// Looks an agent up.
pub(super) fn look_up(text: &str, name: &str, found: &Fingerprint) -> Said {
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = content.split_whitespace();
        let (known, pinned) = match (words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some(word), ..) if word.starts_with('#') => continue,
            (Some(known), Some(pinned), None) => (known, pinned),
            _ => return Said::Damaged { line },
        };
        let Ok(pinned) = pinned.parse() else { return Said::Damaged { line } };
        if known == name {
            return if pinned == *found { Said::Same } else { Said::Other { pinned, line } };
        }
    }
    Said::Nothing
}

/// The fingerprint that is pinned for an agent.
pub(super) fn pinned(text: &str, name: &str) -> Option<Fingerprint> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten())
}

/// The text with one agent more.
pub(super) fn with(text: &str, name: &str, found: &Fingerprint) -> String {
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{separator}{name} {found}\n")
}
