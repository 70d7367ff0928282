//! Absolute paths as a peer writes them: bytes, brought into one form before anything is decided by them.

use proto::limits::{NAME_MAX, PATH_MAX};
use proto::path::RelPath;

/// An absolute path in normal form: no `//`, no `.`, no `..`, no slash at the end (the root directory is `/`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsPath(Vec<u8>);

/// Why bytes are no path that may be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin at the root.
    #[error("`{0}` is not absolute: write the whole path, beginning with `/`")]
    Relative(String),
    /// It climbs.
    #[error("`{0}` has a `..` in it: write the path without")]
    Climbs(String),
    /// It holds a zero byte.
    #[error("`{0}` holds a zero byte, which no path can")]
    Nul(String),
    /// It, or a name in it, is longer than Linux allows.
    #[error("`{0}` is too long: at most {PATH_MAX} bytes, and {NAME_MAX} for each name")]
    Long(String),
}

impl AbsPath {
    /// Normalises by text alone; symbolic links are not looked at.
    ///
    /// # Errors
    /// For what is relative, climbs, holds a zero byte or is too long.
    pub fn new(bytes: &[u8]) -> Result<AbsPath, PathError> {
        if bytes.len() > PATH_MAX {
            return Err(PathError::Long(show(bytes)));
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul(show(bytes)));
        }
        if bytes.first() != Some(&b'/') {
            return Err(PathError::Relative(show(bytes)));
        }
        let mut path = Vec::with_capacity(bytes.len());
        for name in bytes.split(|&b| b == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(PathError::Climbs(show(bytes))),
                _ if name.len() > NAME_MAX => return Err(PathError::Long(show(bytes))),
                _ => {
                    path.push(b'/');
                    path.extend_from_slice(name);
                }
            }
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(AbsPath(path))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the operating system wants it.
    #[must_use]
    pub fn as_path(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt;
        std::path::Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }

    /// The path of what lies at `rel` beneath this one.
    #[must_use]
    pub fn join(&self, rel: &RelPath) -> AbsPath {
        let mut path = if self.0 == b"/" { Vec::new() } else { self.0.clone() };
        if !rel.is_root() || path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(rel.as_bytes());
        AbsPath(path)
    }

    /// What is left of this path beneath `top`; empty if they are the same, `None` if it lies elsewhere.
    #[must_use]
    pub fn beneath(&self, top: &AbsPath) -> Option<RelPath> {
        let rest = match top.0.as_slice() {
            b"/" => &self.0[1..],
            top => match self.0.strip_prefix(top)? {
                [] => &[],
                [b'/', rest @ ..] => rest,
                // `/data2` is not beneath `/data`.
                _ => return None,
            },
        };
        RelPath::new(rest).ok()
    }
}

impl std::fmt::Display for AbsPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&show(&self.0))
    }
}

impl std::fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Longest part of a path that a message repeats.
const SHOWN_CHARS_MAX: usize = 300;

/// A path for people: what is not printable is escaped, so that a name cannot forge a line of output.
#[must_use]
pub fn show(path: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
        chunk.invalid().iter().for_each(|b| shown += &format!("\\x{b:02x}"));
        if shown.len() > SHOWN_CHARS_MAX * 4 {
            break;
        }
    }
    if let Some((cut, _)) = shown.char_indices().nth(SHOWN_CHARS_MAX) {
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brings_a_path_into_one_form() {
        for (given, normal) in [
            ("/", "/"),
            ("//", "/"),
            ("/.", "/"),
            ("/data", "/data"),
            ("/data/", "/data"),
            ("//data///x/./y/.", "/data/x/y"),
            ("/data/...", "/data/..."),
            ("/data/..x", "/data/..x"),
        ] {
            assert_eq!(AbsPath::new(given.as_bytes()).unwrap().as_bytes(), normal.as_bytes(), "{given}");
        }
    }

    #[test]
    fn refuses_what_climbs_or_cannot_be() {
        let error = |bytes: &[u8]| AbsPath::new(bytes).unwrap_err();
        for bad in ["/..", "/data/..", "/data/../data", "/data/x/../../etc", "/../data"] {
            assert!(matches!(error(bad.as_bytes()), PathError::Climbs(_)), "{bad}");
        }
        for bad in ["", "data", "./data", "~/data"] {
            assert!(matches!(error(bad.as_bytes()), PathError::Relative(_)), "{bad}");
        }
        assert_eq!(error(b"/a\0b"), PathError::Nul("/a\\u{0}b".into()));
        assert!(matches!(error(&[b'/'; PATH_MAX + 1]), PathError::Long(_)));
        assert!(matches!(error(&[b"/", &[b'x'; NAME_MAX + 1][..]].concat()), PathError::Long(_)));
    }

    #[test]
    fn beneath_goes_by_whole_names() {
        let path = |text: &str| AbsPath::new(text.as_bytes()).unwrap();
        let rest = |a: &str, b: &str| path(a).beneath(&path(b)).map(|r| r.as_bytes().to_vec());
        assert_eq!(rest("/data/x/y", "/data"), Some(b"x/y".to_vec()));
        assert_eq!(rest("/data", "/data"), Some(vec![]));
        assert_eq!(rest("/data", "/"), Some(b"data".to_vec()));
        assert_eq!(rest("/", "/"), Some(vec![]));
        assert_eq!(rest("/data2", "/data"), None);
        assert_eq!(rest("/", "/data"), None);

        let join = |a: &str, b: &str| path(a).join(&RelPath::new(b).unwrap()).to_string();
        assert_eq!(join("/", ""), "/");
        assert_eq!(join("/", "a/b"), "/a/b");
        assert_eq!(join("/data", ""), "/data");
        assert_eq!(join("/data", "a"), "/data/a");
    }

    #[test]
    fn what_is_shown_is_one_short_line() {
        assert_eq!(show(b"/a\nb\xff\\\x1b[0m"), "/a\\nb\\xff\\\\\\u{1b}[0m");
        assert_eq!(show(&[b'x'; 5000]).chars().count(), SHOWN_CHARS_MAX + 1);
        assert_eq!(show(&[0xff; 5000]).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
