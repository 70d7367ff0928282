//! Names: what they may be, and which one was meant.

use std::fmt;

use super::error::quoted;
use super::limits::NAME_MAX;

/// No thing of that kind has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    kind: &'static str,
    name: String,
    meant: Option<String>,
    /// If none was meant: all there are, if they are few.
    known: Vec<String>,
}

/// How many names a message lists.
const LISTED_MAX: usize = 8;

impl Unknown {
    pub(crate) fn new<'a>(kind: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> Unknown {
        let known: Vec<&str> = known.collect();
        let meant = meant(name, known.iter().copied());
        let listed = if meant.is_none() && known.len() <= LISTED_MAX { known } else { Vec::new() };
        Unknown { kind, name: quoted(name), meant, known: listed.into_iter().map(str::to_owned).collect() }
    }
}

impl std::error::Error for Unknown {}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.kind, self.name)?;
        match &self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None if self.known.is_empty() => Ok(()),
            None => write!(f, "; there are: {}", self.known.join(", ")),
        }
    }
}

/// Whether this may be a name: 1 to [`NAME_MAX`] of `A-Z a-z 0-9 _ . -`, a letter or digit first, so that none looks
/// like an option or a directory.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let shown = quoted(name);
    if name.is_empty() {
        return Err(format!("a name is empty: write 1 to {NAME_MAX} characters"));
    }
    if let Some(bad) = name.chars().find(|&c| !fits(c)) {
        let bad = bad.escape_debug();
        return Err(format!("`{shown}` is no name: `{bad}` is not among letters, digits, `_`, `.` and `-`"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(format!("`{shown}` is no name: begin with a letter or a digit"));
    }
    if name.len() > NAME_MAX {
        return Err(format!("`{shown}` is too long for a name: write at most {NAME_MAX} characters"));
    }
    Ok(())
}

/// Longest name that a suggestion is looked for: the search takes time by its square.
const SUGGEST_MAX: usize = 64;

/// The known name that was probably meant: the same but for case, or one that few slips of the hand lead to.
pub(crate) fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    if name.len() > SUGGEST_MAX {
        return None;
    }
    let wanted = name.to_lowercase();
    let slips = 1 + wanted.chars().count() / 4;
    let near = known.map(|known| (distance(&wanted, &known.to_lowercase()), known));
    near.filter(|(far, known)| *far <= slips && *far < known.chars().count()).min().map(|(_, known)| known.to_owned())
}

/// Letters to change, add, leave out or swap with their neighbour (Damerau 1964, without edits inside a swap).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{check, meant};

    #[test]
    fn names_fit_namespaces() {
        for good in ["a", "fermilab-1", "R2_d2.x", &"x".repeat(32)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, says) in [
            ("", "a name is empty"),
            ("a b", "` ` is not among"),
            ("zürich", "`ü` is not among"),
            ("..", "begin with a letter"),
            ("-v", "begin with a letter"),
            (&"x".repeat(33), "too long for a name"),
        ] {
            assert!(check(bad).is_err_and(|problem| problem.contains(says)), "{bad}");
        }
    }

    #[test]
    fn slips_are_recognised_and_nothing_else() {
        let known = || ["cern", "caltech", "fermilab", "r1", "r2"].into_iter();
        for (name, expected) in [
            ("cerm", Some("cern")),
            ("CERN", Some("cern")),
            ("fremilab", Some("fermilab")),
            ("calteh", Some("caltech")),
            ("r3", Some("r1")),
            ("x", None),
            ("chicago", None),
        ] {
            assert_eq!(meant(name, known()).as_deref(), expected, "{name}");
        }
        assert_eq!(meant(&"c".repeat(100_000), known()), None);
    }
}
