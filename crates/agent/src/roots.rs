//! The directories that are served. Whatever is not beneath one of them does not exist for a peer.

use std::io;
use std::path::Path;

use sys::file::Dir;

use crate::path::{AbsPath, show};

/// Roots of one agent at most.
pub const ROOTS_MAX: usize = 1000;
/// Roots that a message lists.
const LISTED_MAX: usize = 8;

/// One directory that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Without symbolic links.
    path: AbsPath,
    /// As the operator wrote it; peers may write it either way.
    written: AbsPath,
    write: bool,
}

/// Why a directory cannot be a root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Its path cannot be one.
    #[error(transparent)]
    Path(#[from] crate::path::PathError),
    /// It cannot be reached.
    #[error("cannot open the root {path}{}", if source.kind() == io::ErrorKind::NotFound { ": make it first, or mend the path" } else { "" })]
    Open {
        /// As it was written.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is a file.
    #[error("the root {0} is no directory: name the directory that it is in")]
    NotADirectory(String),
    /// It was there already.
    #[error("the root {0} is given twice: leave one")]
    Twice(String),
    /// A read-only directory in a writable one could be written to through that one.
    #[error(
        "the root {inner} is read-only, but lies in {outer}, which is writable, so it could be written to all the same: make both writable, or serve other directories of {outer}"
    )]
    ReadOnlyInWritable {
        /// The root meant to be read-only.
        inner: String,
        /// The writable root around it.
        outer: String,
    },
    /// Too many.
    #[error("more than {ROOTS_MAX} roots: serve a directory that holds several of them")]
    TooMany,
}

impl Root {
    /// Checks a directory; its path must be absolute.
    ///
    /// # Errors
    /// When it is not there or is no directory.
    pub fn new(written: &Path, write: bool) -> Result<Root, RootError> {
        use std::os::unix::ffi::OsStrExt;
        let shown = || show(written.as_os_str().as_bytes());
        let open = |source| RootError::Open { path: shown(), source };
        let path = std::fs::canonicalize(written).map_err(open)?;
        if !std::fs::metadata(&path).map_err(open)?.is_dir() {
            return Err(RootError::NotADirectory(shown()));
        }
        let path = AbsPath::new(path.as_os_str().as_bytes())?;
        // With `..` in it there is only one safe reading: what it leads to now.
        let written = AbsPath::new(written.as_os_str().as_bytes()).unwrap_or_else(|_| path.clone());
        Ok(Root { path, written, write })
    }

    /// Where it is, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// As the operator wrote it.
    #[must_use]
    pub fn written(&self) -> &AbsPath {
        &self.written
    }

    /// May it be written to?
    #[must_use]
    pub fn write(&self) -> bool {
        self.write
    }

    /// Opens it as it is now: a file system may have been mounted since the start.
    pub(crate) fn open(&self) -> io::Result<Dir> {
        Dir::open(self.path.as_path())
    }
}

/// All that is served; none lies so in another that it would be less protected than it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<Root>);

/// A path found beneath a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// The innermost root that holds it.
    pub root: &'a Root,
    /// The path with the root's own path, not an alias, in front.
    pub path: AbsPath,
}

impl Roots {
    /// Adds one.
    ///
    /// # Errors
    /// When it is there already, or contradicts one that is.
    pub fn add(&mut self, root: Root) -> Result<(), RootError> {
        if self.0.len() >= ROOTS_MAX {
            return Err(RootError::TooMany);
        }
        for other in &self.0 {
            if other.path == root.path {
                return Err(RootError::Twice(root.written.to_string()));
            }
            let (inner, outer) = if root.path.beneath(&other.path).is_some() { (&root, other) } else { (other, &root) };
            if inner.path.beneath(&outer.path).is_some() && outer.write && !inner.write {
                return Err(RootError::ReadOnlyInWritable {
                    inner: inner.written.to_string(),
                    outer: outer.written.to_string(),
                });
            }
        }
        self.0.push(root);
        Ok(())
    }

    /// The innermost root that holds `path`.
    #[must_use]
    pub fn find(&self, path: &AbsPath) -> Option<Found<'_>> {
        let names = self.0.iter().flat_map(|root| [(root, &root.path), (root, &root.written)]);
        let holding = names.filter_map(|(root, name)| Some((name.as_bytes().len(), root, path.beneath(name)?)));
        let (_, root, rel) = holding.max_by_key(|(length, ..)| *length)?;
        Some(Found { root, path: root.path.join(&rel) })
    }

    /// In the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.0.iter()
    }

    /// True if nothing is served.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Directories for a message: `/a, /b and 3 more`.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a AbsPath>) -> String {
    let paths: Vec<String> = paths.map(ToString::to_string).collect();
    let shown = paths.iter().take(LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
