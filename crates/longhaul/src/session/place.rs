//! The directory of control sockets: only its owner may go in.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::environment::Environment;

/// What the names of sockets end in.
const SUFFIX: &str = ".sock";
/// Sessions that are listed; more do not run on one host.
const SESSIONS_MAX: usize = 10_000;

/// The directory of this user's control sockets.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    dir: PathBuf,
}

impl Place {
    /// `$XDG_RUNTIME_DIR/longhaul`, or `/tmp/longhaul-UID` where there is none.
    pub(crate) fn of(environment: &Environment) -> Place {
        let dir = match &environment.runtime_dir {
            Some(runtime) => runtime.join("longhaul"),
            None => PathBuf::from(format!("/tmp/longhaul-{}", sys::process::euid())),
        };
        Place { dir }
    }

    /// At a directory of one's own, for tests.
    #[cfg(test)]
    pub(crate) fn at(dir: PathBuf) -> Place {
        Place { dir }
    }

    /// The socket of a session.
    ///
    /// # Errors
    /// When the id is none that a file can be called after.
    pub(crate) fn socket(&self, session: &str) -> Result<PathBuf> {
        let plain = !session.is_empty() && session.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        ensure!(plain, "`{}` is no session id", session.escape_debug());
        Ok(self.dir.join(format!("{session}{SUFFIX}")))
    }

    /// Makes the directory if it is not there, and checks that nobody else may use it.
    ///
    /// # Errors
    /// When it cannot be made, or is somebody else's or open to others.
    pub(crate) fn make(&self) -> Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot make {}", self.dir.display()))
            }
            _ => self.check(),
        }
    }

    fn check(&self) -> Result<()> {
        let meta = fs::symlink_metadata(&self.dir).with_context(|| format!("cannot look at {}", self.dir.display()))?;
        let dir = self.dir.display();
        if !meta.is_dir() || meta.uid() != sys::process::euid() {
            bail!(
                "{dir} is not a directory of this user: somebody else may have put it there; remove it, or set XDG_RUNTIME_DIR"
            );
        }
        ensure!(meta.mode() & 0o077 == 0, "{dir} is open to others: run chmod 700 {dir}");
        Ok(())
    }

    /// The sessions whose sockets are there, by id; dead ones too.
    ///
    /// # Errors
    /// When the directory cannot be read, or is not ours alone.
    pub(crate) fn sockets(&self) -> Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("cannot read {}", self.dir.display()))?,
        };
        self.check()?;
        let mut sockets: Vec<(String, PathBuf)> =
            entries.take(SESSIONS_MAX).flatten().filter_map(|entry| named(&entry.path())).collect();
        sockets.sort();
        Ok(sockets)
    }
}

fn named(path: &Path) -> Option<(String, PathBuf)> {
    let id = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    Some((id.to_owned(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_its_owner_may_go_in() {
        let top = tempfile::tempdir().unwrap();
        let place = Place::at(top.path().join("longhaul"));
        assert!(place.sockets().unwrap().is_empty(), "none is there yet");
        place.make().unwrap();
        place.make().unwrap();
        let mode = |mode| fs::set_permissions(&place.dir, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o750);
        let text = place.make().unwrap_err().to_string();
        assert!(text.contains("chmod 700"), "{text}");
        mode(0o700);
        let link = Place::at(top.path().join("link"));
        symlink(&place.dir, &link.dir).unwrap();
        assert!(link.make().is_err() && link.sockets().is_err(), "a link may lead anywhere");
    }

    #[test]
    fn ids_do_not_lead_out() {
        let place = Place::at("/run/x".into());
        assert_eq!(place.socket("3f2a").unwrap(), Path::new("/run/x/3f2a.sock"));
        assert!(["", "../a", "a/b", "ä"].iter().all(|bad| place.socket(bad).is_err()));
    }
}
