//! Where state is kept when nobody says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The state directory of the service.
const SERVICE_DIR: &str = "/var/lib/longhaul";

/// What defaults depend on.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `STATE_DIRECTORY`: systemd's, one or several separated by colons.
    pub state_directory: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
    /// Whether the effective user is root.
    pub is_root: bool,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Environment {
        Environment {
            state_directory: std::env::var_os("STATE_DIRECTORY"),
            xdg_state_home: std::env::var_os("XDG_STATE_HOME"),
            home: std::env::var_os("HOME"),
            is_root: sys::process::euid() == 0,
        }
    }

    /// The state directory when neither command line nor file name one: systemd's, the user's
    /// (`$XDG_STATE_HOME/longhaul`), for root that of the service, else `~/.local/state/longhaul`.
    #[must_use]
    pub fn state_dir(&self) -> Option<PathBuf> {
        // Relative ones are to be ignored, says the XDG base directory specification.
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let variable = |text: &Option<OsString>| text.as_ref().map(PathBuf::from).and_then(absolute);
        let systemd = self.state_directory.as_ref().map(first).and_then(absolute);
        systemd
            .or_else(|| variable(&self.xdg_state_home).map(|path| path.join("longhaul")))
            .or_else(|| self.is_root.then(|| SERVICE_DIR.into()))
            .or_else(|| variable(&self.home).map(|path| path.join(".local/state/longhaul")))
    }
}

/// The first of several directories that are separated by colons.
fn first(all: &OsString) -> PathBuf {
    let first = all.as_bytes().split(|&b| b == b':').next().unwrap_or_default();
    OsStr::from_bytes(first).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_place_wins() {
        let all = Environment {
            state_directory: Some("/srv/one:/srv/two".into()),
            xdg_state_home: Some("/xdg".into()),
            home: Some("/home/u".into()),
            is_root: true,
        };
        let dir = |e: &Environment| e.state_dir().map(|p| p.display().to_string());
        assert_eq!(dir(&all).as_deref(), Some("/srv/one"));
        let user = Environment { state_directory: None, ..all };
        assert_eq!(dir(&user).as_deref(), Some("/xdg/longhaul"));
        let root = Environment { xdg_state_home: Some("relative".into()), ..user };
        assert_eq!(dir(&root).as_deref(), Some("/var/lib/longhaul"));
        let plain = Environment { is_root: false, ..root };
        assert_eq!(dir(&plain).as_deref(), Some("/home/u/.local/state/longhaul"));
        assert_eq!(dir(&Environment { home: None, ..plain }), None);
    }
}
