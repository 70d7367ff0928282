//! Copies within this host: what a tree must not be copied into.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::action::end::End;
use crate::exit::usage;

/// Nothing leaves this host.
pub(super) fn both(source: &End, destination: &End) -> bool {
    matches!((source, destination), (End::Local(_), End::Local(_)))
}

/// Refuses a copy onto itself, and one into what is being copied, which would find its own files without end.
///
/// # Errors
/// When it is one. What cannot be looked at is left to the copy to tell.
pub(super) fn check(source: &End, destination: &End) -> Result<()> {
    let (End::Local(sources), End::Local(to)) = (source, destination) else { return Ok(()) };
    let Some(to) = to.first() else { return Ok(()) };
    let Ok(real_to) = real(to) else { return Ok(()) };
    for from in sources {
        let Ok(real_from) = std::fs::canonicalize(from) else { continue };
        let contents_only = matches!(from.as_os_str().as_bytes(), [.., b'/'] | [.., b'/', b'.'] | b".");
        let lands = match real_from.file_name().filter(|_| !contents_only && real_to.is_dir()) {
            Some(name) => real_to.join(name),
            None => real_to.clone(),
        };
        if lands == real_from {
            return Err(usage(format!("{} and {} are the same: nothing to copy", from.display(), to.display())));
        }
        if real_from.is_dir() && lands.starts_with(&real_from) {
            return Err(usage(format!(
                "{} lies within {}, which is to be copied into it: name another place",
                to.display(),
                from.display()
            )));
        }
    }
    Ok(())
}

/// The path without links in what exists of it.
fn real(path: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(e)?;
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Ok(real(parent)?.join(name))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(dir: &Path, from: &str, to: &str) -> bool {
        let end = |name: &str| End::Local(vec![dir.join(name)]);
        check(&end(from), &end(to)).is_err()
    }

    #[test]
    fn onto_itself_or_into_itself() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::fs::write(dir.join("a/file"), b"x").unwrap();
        std::fs::create_dir(dir.join("ab")).unwrap();
        std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
        for (from, to) in [("a/", "a"), ("a", "a"), ("a", "a/b"), ("a", "a/new/deep"), ("a", "."), ("a/file", "a")] {
            assert!(refused(dir, from, to), "{from} -> {to}");
        }
        assert!(refused(dir, "a", "link/b"), "through a link");
        for (from, to) in [("a", "ab"), ("a/", "c"), ("a/b", "a/c"), ("a/file", "a/copy"), ("a/file", "ab")] {
            assert!(!refused(dir, from, to), "{from} -> {to}");
        }
    }
}
