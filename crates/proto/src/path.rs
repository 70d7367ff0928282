//! Relative paths: bytes that cannot climb out of the place they are resolved beneath.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{NAME_MAX, PATH_MAX};

/// A relative path of one or more names, separated by single slashes.
///
/// Any bytes but NUL and `/` may stand in a name, so names that are not UTF-8 or contain newlines are
/// carried as they are. The empty path names the place itself. `.` and `..` cannot occur.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct RelPath(Vec<u8>);

/// Why bytes are not a [`RelPath`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Longer than [`PATH_MAX`].
    #[error("path of {0} bytes is longer than {PATH_MAX}")]
    Long(usize),
    /// A name is longer than [`NAME_MAX`].
    #[error("name of {0} bytes is longer than {NAME_MAX}")]
    LongName(usize),
    /// A name is empty (leading, trailing or double slash), `.` or `..`, or holds a NUL.
    #[error("path holds a name that may not occur: {0:?}")]
    Name(String),
}

impl RelPath {
    /// The place itself.
    #[must_use]
    pub const fn root() -> RelPath {
        RelPath(Vec::new())
    }

    /// Checks the bytes of a path.
    ///
    /// # Errors
    /// When the path is too long or a name is empty, `.`, `..`, too long or holds a NUL.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<RelPath, PathError> {
        let bytes = bytes.into();
        if bytes.len() > PATH_MAX {
            return Err(PathError::Long(bytes.len()));
        }
        if !bytes.is_empty() {
            bytes.split(|b| *b == b'/').try_for_each(check_name)?;
        }
        Ok(RelPath(bytes))
    }

    /// This path with one more name.
    ///
    /// # Errors
    /// When the name may not occur or the path gets too long.
    pub fn join(&self, name: &[u8]) -> Result<RelPath, PathError> {
        check_name(name)?;
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        if bytes.len() > PATH_MAX {
            return Err(PathError::Long(bytes.len()));
        }
        Ok(RelPath(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True for the place itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory that holds this path (the root for a single name, `None` for the root).
    #[must_use]
    pub fn parent(&self) -> Option<RelPath> {
        if self.is_root() {
            return None;
        }
        let cut = self.0.iter().rposition(|b| *b == b'/').unwrap_or(0);
        Some(RelPath(self.0[..cut].to_vec()))
    }

    /// The last name (empty for the root).
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|b| *b == b'/').next().unwrap_or(&[])
    }

    /// The names from the top.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|n| !n.is_empty())
    }
}

fn check_name(name: &[u8]) -> Result<(), PathError> {
    if name.len() > NAME_MAX {
        return Err(PathError::LongName(name.len()));
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&0) || name.contains(&b'/') {
        return Err(PathError::Name(String::from_utf8_lossy(name).into_owned()));
    }
    Ok(())
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = PathError;
    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        RelPath::new(bytes)
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Vec<u8> {
        path.0
    }
}

impl fmt::Display for RelPath {
    /// For people: bytes that are not printable are escaped, so that a name cannot forge a line of output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() || c == '\\' { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            chunk.invalid().iter().try_for_each(|b| write!(f, "\\x{b:02x}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_climbs() {
        for bad in ["/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0b"] {
            assert!(RelPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(RelPath::new(vec![b'x'; 256]).is_err());
        assert!(RelPath::new(vec![b'x'; 255]).is_ok());
    }

    #[test]
    fn display_cannot_forge_a_line() {
        assert_eq!(RelPath::new(b"a\nb\xff\\".to_vec()).unwrap().to_string(), "a\\nb\\xff\\\\");
    }

    proptest! {
        #[test]
        fn parent_and_name_rejoin(names in prop::collection::vec("[a-z.]{1,3}x", 1..5)) {
            let path = RelPath::new(names.join("/")).unwrap();
            let again = path.parent().unwrap().join(path.name()).unwrap();
            prop_assert_eq!(&path, &again);
            prop_assert_eq!(path.names().count(), names.len());
        }
    }
}
