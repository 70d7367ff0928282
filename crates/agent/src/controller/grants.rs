//! What a controller may ask of this host: `[[grant]]` of the configuration. Whatever it sends, nothing goes beyond.

use std::io;
use std::path::PathBuf;

use api::Name;
use api::agent::{Granted, Role};
use mover::request::{Fingerprint, Hooks};
use mover::server::{Grant, Standing};
use proto::RelPath;
use proto::control::{Code, Direction, Refusal};
use sys::file::Dir;
use tokio::sync::watch;

use crate::path::{AbsPath, show};
use crate::roots::{Root, listed};

/// Grants of one agent at most.
pub const GRANTS_MAX: usize = 100;
/// Characters of the name of a collaboration at most.
pub const COLLABORATION_CHARS_MAX: usize = 64;

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteGrant {
    /// Which controller; `None` for any.
    pub controller: Option<Fingerprint>,
    /// For whose transfers; `*` for all.
    pub collaboration: String,
    /// Beneath which directory.
    pub root: Root,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// Greatest rate of a session, b/s of IP packets.
    pub rate_bps: Option<u64>,
    /// Whether the hooks of the configuration run around its files.
    pub hooks: bool,
}

/// All grants of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(Vec<SiteGrant>);

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The controller that is connected.
    pub controller: Fingerprint,
    /// For whose transfer.
    pub collaboration: &'a str,
}

impl SiteGrant {
    fn is_for(&self, asker: Asker<'_>) -> bool {
        self.controller.is_none_or(|controller| controller == asker.controller)
            && (self.collaboration == "*" || self.collaboration == asker.collaboration)
    }

    fn allows(&self, role: Role) -> bool {
        match role {
            Role::Source => self.read,
            Role::Destination => self.write,
        }
    }

    /// The path with the root's own path, not an alias, in front.
    fn holds(&self, path: &AbsPath) -> Option<AbsPath> {
        let names = [self.root.path(), self.root.written()];
        names.into_iter().find_map(|name| Some(self.root.path().join(&path.beneath(name)?)))
    }
}

impl Grants {
    /// Those that the configuration has.
    #[must_use]
    pub fn new(grants: Vec<SiteGrant>) -> Grants {
        Grants(grants)
    }

    /// In the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &SiteGrant> {
        self.0.iter()
    }

    /// Finds what covers a path: of several grants the one of the innermost root, and of these the one that names the
    /// collaboration.
    ///
    /// # Errors
    /// A text that says what could have been asked for, and nothing else.
    pub fn find(&self, asker: Asker<'_>, role: Role, path: &[u8], hooks: &Hooks) -> Result<PathGrant, String> {
        let path = AbsPath::new(path).map_err(|error| error.to_string())?;
        let fitting = self.0.iter().filter(|grant| grant.is_for(asker) && grant.allows(role));
        let holding = fitting.filter_map(|grant| Some((grant, grant.holds(&path)?)));
        let best = holding.max_by_key(|(grant, _)| (grant.root.path().as_bytes().len(), grant.collaboration != "*"));
        let Some((grant, path)) = best else { return Err(self.refusal(asker, role, &path)) };
        Ok(PathGrant {
            root: grant.root.clone(),
            path,
            role,
            rate_bps: grant.rate_bps,
            hooks: if grant.hooks { hooks.clone() } else { Hooks::default() },
            name: format!("controller/{}", show(asker.collaboration.as_bytes())),
            standing: None,
        })
    }

    fn refusal(&self, asker: Asker<'_>, role: Role, path: &AbsPath) -> String {
        let verb = if role == Role::Source { "read" } else { "written" };
        let mut places: Vec<&AbsPath> =
            self.0.iter().filter(|grant| grant.is_for(asker) && grant.allows(role)).map(|g| g.root.written()).collect();
        places.dedup();
        let collaboration = show(asker.collaboration.as_bytes());
        let way_out = match places.is_empty() {
            true => format!("nothing can be {verb} for {collaboration}; the host's operator adds a [[grant]]"),
            false => format!("what can be {verb} for {collaboration} is beneath {}", listed(places.into_iter())),
        };
        format!("{path} cannot be {verb} at this host: {way_out}")
    }

    /// What a controller is told that it may ask for.
    #[must_use]
    pub fn granted(&self, controller: Option<Fingerprint>) -> Vec<Granted> {
        let fitting = self.0.iter().filter(|grant| grant.controller.is_none_or(|only| Some(only) == controller));
        let told = |grant: &SiteGrant| Granted {
            collaboration: grant.collaboration.clone(),
            root: Name(grant.root.written().as_bytes().to_vec()),
            read: grant.read,
            write: grant.write,
            rate_bps: grant.rate_bps,
            free_bytes: grant.root.open().and_then(sys::file::statfs).ok().map(|space| space.available_bytes),
        };
        fitting.map(told).collect()
    }

    /// The first root that holds `dir`, or lies in it.
    #[must_use]
    pub fn touching(&self, dir: &AbsPath) -> Option<&AbsPath> {
        let touches = |root: &AbsPath| dir.beneath(root).is_some() || root.beneath(dir).is_some();
        self.0.iter().map(|grant| grant.root.path()).find(|root| touches(root))
    }
}

/// One path that may be used in one direction, and nothing else.
#[derive(Debug, Clone)]
pub struct PathGrant {
    root: Root,
    path: AbsPath,
    role: Role,
    rate_bps: Option<u64>,
    hooks: Hooks,
    name: String,
    /// What the host's operator says of sessions that others drive with it.
    standing: Option<watch::Sender<Standing>>,
}

impl PathGrant {
    /// The same, whose sessions do what the operator says.
    #[must_use]
    pub(super) fn obeying(self, standing: watch::Sender<Standing>) -> PathGrant {
        PathGrant { standing: Some(standing), ..self }
    }

    /// Greatest rate, b/s of IP packets.
    #[must_use]
    pub fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// The direction.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Programs that run at this host.
    #[must_use]
    pub fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    /// The path, in the form that is compared.
    #[must_use]
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// For messages.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        self.path.as_path().to_owned()
    }

    /// The root opened, and the path beneath it. From there nothing leads out.
    ///
    /// # Errors
    /// What the system says of the root.
    pub fn open(&self) -> io::Result<(Dir, RelPath)> {
        let rel = self.path.beneath(self.root.path()).ok_or(io::ErrorKind::NotFound)?;
        Ok((self.root.open()?, rel))
    }
}

impl Grant for PathGrant {
    fn resolve(&self, direction: Direction, path: &[u8]) -> Result<(Dir, RelPath), Refusal> {
        let other = || Refusal {
            code: Code::Denied,
            text: "this token is for another path or direction: ask the controller for one for this session".into(),
        };
        // A driver that pulls has this agent read.
        let role = if direction == Direction::Pull { Role::Source } else { Role::Destination };
        let asked = AbsPath::new(path).map_err(|error| Refusal { code: Code::Path, text: error.to_string() })?;
        let names = [self.root.path(), self.root.written()];
        let is_it =
            names.iter().any(|name| asked.beneath(name).is_some_and(|rel| self.root.path().join(&rel) == self.path));
        if role != self.role || !is_it {
            return Err(other());
        }
        self.open().map_err(|error| {
            let text = format!("{} cannot be reached at this agent: {error}", self.path);
            Refusal { code: Code::Path, text }
        })
    }

    fn may_test(&self) -> bool {
        false
    }

    fn may_relay(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn standing(&self) -> Option<watch::Receiver<Standing>> {
        self.standing.as_ref().map(watch::Sender::subscribe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Fingerprint = Fingerprint([1; 32]);
    const TWO: Fingerprint = Fingerprint([2; 32]);

    fn site() -> (tempfile::TempDir, Grants) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["atlas/raw", "cms", "both"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let grant = |controller, collaboration: &str, root: &str, read, write, rate_bps| SiteGrant {
            controller,
            collaboration: collaboration.into(),
            root: Root::new(&dir.path().join(root), write).unwrap(),
            read,
            write,
            rate_bps,
            hooks: root == "cms",
        };
        let grants = Grants::new(vec![
            grant(Some(ONE), "atlas", "atlas", true, true, Some(10)),
            grant(Some(ONE), "atlas", "atlas/raw", true, false, Some(5)),
            grant(None, "cms", "cms", true, false, None),
            grant(None, "*", "both", false, true, None),
        ]);
        (dir, grants)
    }

    #[test]
    fn nothing_goes_beyond_the_grants() {
        let (dir, grants) = site();
        let hooks = Hooks { before_file: Some("/bin/true".into()), ..Hooks::default() };
        let find = |controller, collaboration, role, path: &str| {
            let path = dir.path().join(path);
            grants.find(Asker { controller, collaboration }, role, path.as_os_str().as_encoded_bytes(), &hooks)
        };
        use Role::{Destination, Source};
        assert_eq!(find(ONE, "atlas", Source, "atlas/x").unwrap().rate_bps(), Some(10));
        assert_eq!(find(ONE, "atlas", Source, "atlas/raw/x").unwrap().rate_bps(), Some(5), "the innermost counts");
        assert_eq!(find(ONE, "atlas", Destination, "atlas/raw/x").unwrap().rate_bps(), Some(10));
        assert_eq!(find(TWO, "cms", Source, "cms").unwrap().hooks(), hooks);
        assert_eq!(find(TWO, "anybody", Destination, "both/x").unwrap().hooks(), Hooks::default());
        for (controller, collaboration, role, path) in [
            (TWO, "atlas", Source, "atlas/x"),
            (ONE, "cms", Source, "atlas/x"),
            (ONE, "*", Source, "atlas/x"),
            (TWO, "cms", Destination, "cms/x"),
            (ONE, "atlas", Source, "both"),
            (ONE, "atlas", Source, "atlas2"),
            (ONE, "atlas", Source, "."),
            (ONE, "atlas", Source, "atlas/../cms"),
        ] {
            assert!(find(controller, collaboration, role, path).is_err(), "{collaboration} {path}");
        }
        let text = find(ONE, "atlas", Source, "cms/x").unwrap_err();
        assert!(text.contains("beneath") && text.contains("atlas/raw") && !text.contains("both"), "{text}");
        let text = find(TWO, "atlas", Source, "atlas").unwrap_err();
        assert!(text.contains("[[grant]]"), "{text}");
        let told: Vec<String> = grants.granted(Some(TWO)).into_iter().map(|granted| granted.collaboration).collect();
        assert_eq!(told, ["cms", "*"]);
    }

    #[test]
    fn a_session_has_one_path_and_one_direction() {
        let (dir, grants) = site();
        let path = |name: &str| dir.path().join(name).into_os_string().into_encoded_bytes();
        let asker = Asker { controller: ONE, collaboration: "atlas" };
        let grant = grants.find(asker, Role::Source, &path("atlas/raw"), &Hooks::default()).unwrap();
        assert!(grant.resolve(Direction::Pull, &path("atlas/raw")).is_ok());
        assert!(grant.resolve(Direction::Pull, &path("atlas/raw/")).is_ok());
        for (direction, other) in [
            (Direction::Push, "atlas/raw"),
            (Direction::Pull, "atlas"),
            (Direction::Pull, "atlas/raw/x"),
            (Direction::Pull, "cms"),
        ] {
            assert_eq!(grant.resolve(direction, &path(other)).unwrap_err().code, Code::Denied, "{other}");
        }
        assert!(!grant.may_test() && !grant.may_relay() && grant.is_shared());
    }
}
