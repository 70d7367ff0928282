//! What is left out: `--exclude` and `--include` in the syntax of gitignore.
//!
//! Rules are in order and the last one that matches decides; what none matches is copied. A directory that
//! is left out is not looked into, so nothing beneath it can be included again.
//!
//! Both ends apply the same rules: the source leaves out what matches, and the destination does not delete
//! what matches. So paths are those beneath the destination, which both ends know, and a glob with a slash
//! in it is anchored there: `/run1/*.tmp` for a source `run1`, `/*.tmp` for a source `run1/`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use proto::RelPath;
use proto::control::FilterRule;

/// Rules that a filter may have. They may come from the far end, and each costs time per name.
pub const RULES_MAX: usize = 10_000;

/// Decides what is left out. Clones share the compiled rules.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Option<Gitignore>,
}

/// A rule that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A glob has no meaning.
    #[error("bad glob `{glob}`: {why}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// More than [`RULES_MAX`] rules.
    #[error("{0} filter rules are more than {RULES_MAX}")]
    Many(usize),
}

impl Filter {
    /// Compiles rules. None of them leave nothing out.
    ///
    /// # Errors
    /// When a glob is malformed or empty, or there are too many.
    pub fn new(rules: &[FilterRule]) -> Result<Filter, FilterError> {
        if rules.is_empty() {
            return Ok(Filter::default());
        }
        if rules.len() > RULES_MAX {
            return Err(FilterError::Many(rules.len()));
        }
        let mut builder = GitignoreBuilder::new("");
        // git lets an unclosed bracket match nothing; somebody who types one wants to know.
        builder.allow_unclosed_class(false);
        for rule in rules {
            let bad = |why: String| FilterError::Glob { glob: rule.glob.clone(), why };
            builder.add_line(None, &line(rule).map_err(|why| bad(why.to_owned()))?).map_err(|e| bad(reason(e)))?;
        }
        let all = || rules.iter().map(|r| r.glob.as_str()).collect::<Vec<_>>().join(", ");
        let rules = builder.build().map_err(|e| FilterError::Glob { glob: all(), why: reason(e) })?;
        Ok(Filter { rules: Some(rules) })
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_none()
    }

    /// True if `path`, beneath the destination, is left out. The place itself never is.
    ///
    /// What is beneath a directory that is left out is left out too, but not found so here: walk from the top.
    #[must_use]
    pub fn matches(&self, path: &RelPath, is_dir: bool) -> bool {
        let Some(rules) = self.rules.as_ref().filter(|_| !path.is_root()) else { return false };
        rules.matched(Path::new(OsStr::from_bytes(path.as_bytes())), is_dir).is_ignore()
    }
}

/// A rule as a line of a gitignore file, where a leading `!` includes and `#` begins a comment.
fn line(rule: &FilterRule) -> Result<String, &'static str> {
    let glob = rule.glob.as_str();
    if glob.trim().trim_matches('/').is_empty() {
        return Err("it names nothing");
    }
    Ok(match (rule.include, glob.chars().next()) {
        (_, Some('!')) => {
            return Err("include and exclude are two options; for a name that begins with `!` write `\\!`");
        }
        (true, _) => format!("!{glob}"),
        (false, Some('#')) => format!("\\{glob}"),
        (false, _) => glob.to_owned(),
    })
}

fn reason(error: ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[&str]) -> Filter {
        let rule = |r: &&str| FilterRule { include: r.starts_with('+'), glob: r[1..].to_owned() };
        Filter::new(&rules.iter().map(rule).collect::<Vec<_>>()).unwrap()
    }

    fn out(filter: &Filter, path: impl Into<Vec<u8>>, is_dir: bool) -> bool {
        filter.matches(&RelPath::new(path).unwrap(), is_dir)
    }

    #[test]
    fn nothing_is_left_out_by_default() {
        let none = filter(&[]);
        assert!(none.is_empty() && !out(&none, "a", false));
        assert!(!out(&filter(&["-*.tmp"]), "a.dat", false));
        assert!(!filter(&["-*"]).matches(&RelPath::root(), true), "the place itself stays");
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        let f = filter(&["-*.tmp", "+keep.tmp"]);
        assert!(out(&f, "a.tmp", false) && out(&f, "deep/er/a.tmp", false));
        assert!(!out(&f, "keep.tmp", false) && !out(&f, "deep/keep.tmp", false));
        assert!(out(&filter(&["+keep.tmp", "-*.tmp"]), "keep.tmp", false));
    }

    #[test]
    fn slashes_anchor_and_mean_directories() {
        let f = filter(&["-/top", "-raw/*.bin", "-cache/", "-**/deep/x"]);
        assert!(out(&f, "top", false) && !out(&f, "a/top", false));
        assert!(out(&f, "raw/1.bin", false) && !out(&f, "a/raw/1.bin", false) && !out(&f, "raw/a/1.bin", false));
        assert!(out(&f, "a/cache", true) && !out(&f, "a/cache", false));
        assert!(out(&f, "a/deep/x", false) && out(&f, "deep/x", false));
    }

    #[test]
    fn names_are_bytes() {
        let f = filter(&["-*.tmp", "-a?c", "-[x-z]q"]);
        assert!(out(&f, b"\xff\xfe.tmp".to_vec(), false));
        assert!(out(&f, b"two\nlines.tmp".to_vec(), false));
        assert!(out(&f, b"a\nc".to_vec(), false) && out(&f, b"a\xffc".to_vec(), false));
        assert!(out(&f, "yq", false) && !out(&f, "aq", false));
        assert!(out(&filter(&["-Grüße*"]), "Grüße an alle", false));
    }

    #[test]
    fn first_characters_that_gitignore_reserves() {
        assert!(out(&filter(&["-#draft#"]), "#draft#", false));
        assert!(!out(&filter(&["-*", "+#draft#"]), "#draft#", false));
        assert!(out(&filter(&["-\\!x"]), "!x", false));
        assert!(!out(&filter(&["-*", "+\\!x"]), "!x", false));
    }

    #[test]
    fn bad_globs_are_named() {
        let error = |include, glob: &str| {
            Filter::new(&[FilterRule { include, glob: glob.to_owned() }]).unwrap_err().to_string()
        };
        assert_eq!(error(false, "a[b"), "bad glob `a[b`: unclosed character class; missing ']'");
        assert!(error(true, "a{b").starts_with("bad glob `a{b`: "), "{}", error(true, "a{b"));
        assert_eq!(error(false, " "), "bad glob ` `: it names nothing");
        assert_eq!(error(true, "/"), "bad glob `/`: it names nothing");
        assert!(error(false, "!x").contains("two options"));
        let many = vec![FilterRule { include: false, glob: "a".to_owned() }; RULES_MAX + 1];
        assert_eq!(Filter::new(&many).unwrap_err(), FilterError::Many(RULES_MAX + 1));
    }
}
