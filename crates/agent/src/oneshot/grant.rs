//! The one key of an ssh login, and what it opens: all that the user may.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mover::request::Hooks;
use mover::server::{Grant, Policy};
use proto::RelPath;
use proto::control::{Code, Direction, Refusal};
use sys::file::Dir;

use crate::path::show;
use crate::tokens::{find_constant_time, sha256};

/// Lets in whoever holds the key.
pub(super) struct OneKey {
    digest: [u8; 32],
    grant: Arc<Login>,
}

impl OneKey {
    pub(super) fn new(key: &str, start: PathBuf) -> OneKey {
        OneKey { digest: sha256(key), grant: Arc::new(Login { start }) }
    }
}

impl Policy for OneKey {
    fn admit(&self, token: &str, _from: SocketAddr) -> Result<Arc<dyn Grant>, Refusal> {
        match find_constant_time(&sha256(token), [(self.digest, ())].into_iter()) {
            Some(()) => Ok(self.grant.clone()),
            None => Err(Refusal { code: Code::Denied, text: "this is not the key of this login".into() }),
        }
    }
}

/// What the user may do, with the user's own rights.
struct Login {
    start: PathBuf,
}

impl Grant for Login {
    /// As the user's shell would find it: symbolic links and `..` on the way to what is named are followed,
    /// absolute ones too, which nothing beneath it then is.
    fn resolve(&self, direction: Direction, path: &[u8]) -> Result<(Dir, RelPath), Refusal> {
        let failed = |e: io::Error| Refusal { code: Code::Path, text: format!("{}: {e}", show(path)) };
        if path.contains(&0) {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in a path")));
        }
        let real =
            real_path(&self.start.join(OsStr::from_bytes(path)), follows_last(direction, path)).map_err(failed)?;
        let rel = real.strip_prefix("/").unwrap_or(&real).as_os_str().as_bytes();
        let rel = RelPath::new(rel).map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
        Ok((Dir::open("/").map_err(failed)?, rel))
    }

    fn may_test(&self) -> bool {
        true
    }

    fn may_relay(&self) -> bool {
        true
    }

    fn hooks(&self) -> Hooks {
        Hooks::default()
    }

    fn name(&self) -> String {
        "ssh".into()
    }
}

/// As rsync: a destination that is a link to a directory is that directory, and so is a source with a slash
/// behind it; any other source that is a link is the link itself.
fn follows_last(direction: Direction, path: &[u8]) -> bool {
    direction == Direction::Push || path.ends_with(b"/")
}

/// The path without links in what exists of it; what does not exist yet is left as it is.
fn real_path(path: &Path, follow_last: bool) -> io::Result<PathBuf> {
    if follow_last {
        match std::fs::canonicalize(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
    }
    let Some(name) = path.file_name() else {
        // It is `/`, or ends in `..`, which only what exists can answer.
        return std::fs::canonicalize(path);
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok(real_path(parent, true)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rel(login: &Login, direction: Direction, path: &Path) -> Result<PathBuf, Refusal> {
        let (_, rel) = login.resolve(direction, path.as_os_str().as_bytes())?;
        Ok(Path::new("/").join(OsStr::from_bytes(rel.as_bytes())))
    }

    #[test]
    fn a_login_finds_paths_as_its_shell_does() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("disk/data")).unwrap();
        std::os::unix::fs::symlink(top.join("disk/data"), top.join("data")).unwrap();
        std::os::unix::fs::symlink("nowhere", top.join("dangling")).unwrap();
        let login = Login { start: top.clone() };
        let real = top.join("disk/data");
        use Direction::{Pull, Push};

        assert_eq!(rel(&login, Pull, &top.join("data/x")).unwrap(), real.join("x"), "an absolute link on the way");
        assert_eq!(rel(&login, Pull, &top.join("data")).unwrap(), top.join("data"), "the link itself");
        assert_eq!(rel(&login, Pull, &top.join("data/")).unwrap(), real, "what it leads to");
        assert_eq!(rel(&login, Push, &top.join("data")).unwrap(), real);
        assert_eq!(rel(&login, Push, &top.join("data/new/deep")).unwrap(), real.join("new/deep"));
        assert_eq!(rel(&login, Push, Path::new("data/x")).unwrap(), real.join("x"), "from the login's directory");
        assert_eq!(rel(&login, Push, &top.join("data/../y")).unwrap(), top.join("disk/y"), "as the kernel climbs");
        assert_eq!(rel(&login, Push, &top.join("dangling")).unwrap(), top.join("dangling"));
        assert_eq!(rel(&login, Pull, Path::new("/")).unwrap(), Path::new("/"));
        assert_eq!(rel(&login, Pull, &top.join("none/../x")).unwrap_err().code, Code::Path);
        assert_eq!(rel(&login, Pull, Path::new("a\0b")).unwrap_err().code, Code::Path);
    }

    #[test]
    fn only_the_key_opens() {
        let policy = OneKey::new("correct horse battery", "/".into());
        let from = "127.0.0.1:1".parse().unwrap();
        assert_eq!(policy.admit("correct horse battery", from).map(|g| g.name()).ok().as_deref(), Some("ssh"));
        for wrong in ["", "correct horse batter", "correct horse battery "] {
            assert_eq!(policy.admit(wrong, from).err().map(|e| e.code), Some(Code::Denied));
        }
    }
}
