//! Who may do what at this agent: tokens, their scopes, and the roots behind them.
//!
//! A path that a peer names is brought into normal form ([`AbsPath`]), found beneath a root, held against
//! the scope of the token, and answered with an open directory: the root, or the directory of the scope if
//! that is narrower. From there `sys::file::Dir` lets nothing lead out, so neither `..` nor a symbolic link
//! gets a scoped token to its neighbour's files. What is not allowed in so many words is refused, and the
//! refusal lists what the token could have asked for, nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use mover::request::Hooks;
use mover::server::{Grant, Policy};
use proto::RelPath;
use proto::control::{Code, Direction, Refusal};
use sys::file::Dir;

use crate::controller::tokens::SessionTokens;
use crate::path::{AbsPath, show};
use crate::roots::{Root, Roots, listed};
use crate::tokens::{Access, TokenStore};

/// What the configuration allows to the main token; every other one may do less.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// What is served.
    pub roots: Roots,
    /// Throughput tests.
    pub tests: bool,
    /// Third-party copies that this agent drives.
    pub relay: bool,
    /// Programs around files and datasets.
    pub hooks: Hooks,
}

/// The policy of `longhaul serve`.
#[derive(Debug)]
pub struct AgentPolicy {
    tokens: TokenStore,
    terms: Arc<Terms>,
    clock: fn() -> SystemTime,
    sessions: Option<Arc<SessionTokens>>,
}

impl AgentPolicy {
    /// Lets in who holds a token of `tokens`, within `terms`; expiry goes by `clock`.
    #[must_use]
    pub fn new(tokens: TokenStore, terms: Terms, clock: fn() -> SystemTime) -> AgentPolicy {
        AgentPolicy { tokens, terms: Arc::new(terms), clock, sessions: None }
    }

    /// The same, with the tokens of sessions that a controller asked for.
    #[must_use]
    pub fn with_sessions(self, sessions: Arc<SessionTokens>) -> AgentPolicy {
        AgentPolicy { sessions: Some(sessions), ..self }
    }

    /// Decides about a token at a given time.
    ///
    /// # Errors
    /// A refusal that is the same for unknown, expired and revoked tokens.
    pub fn admit_at(&self, token: &str, from: SocketAddr, now: SystemTime) -> Result<Arc<dyn Grant>, Refusal> {
        match self.tokens.check(token, now) {
            Ok(access) => {
                let state_dir = self.tokens.state_dir().clone();
                Ok(Arc::new(TokenGrant { terms: self.terms.clone(), access, state_dir }))
            }
            Err(why) => {
                tracing::warn!(%from, %why, "refused a connection");
                let text = "the agent does not take this token: it is wrong, expired or revoked; ask the agent's operator for another";
                Err(Refusal { code: Code::Denied, text: text.into() })
            }
        }
    }
}

impl Policy for AgentPolicy {
    fn admit(&self, token: &str, from: SocketAddr) -> Result<Arc<dyn Grant>, Refusal> {
        let session = self.sessions.as_ref().and_then(|tokens| tokens.check(token, sys::clock::since_boot()));
        match session {
            Some(grant) => Ok(grant),
            None => self.admit_at(token, from, (self.clock)()),
        }
    }
}

struct TokenGrant {
    terms: Arc<Terms>,
    access: Access,
    state_dir: AbsPath,
}

/// What a path is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Read,
    Write,
}

impl Need {
    fn of(direction: Direction) -> Need {
        match direction {
            // The driver is the destination, so this agent is the source.
            Direction::Pull => Need::Read,
            Direction::Push => Need::Write,
        }
    }
}

/// A path that may be used, and the directory it is resolved beneath.
struct Allowed<'a> {
    root: &'a Root,
    scope: Option<&'a AbsPath>,
    path: AbsPath,
}

impl TokenGrant {
    /// The directories of the scope; `None` for the main token, which has all roots.
    fn scope(&self, need: Need) -> Option<&[AbsPath]> {
        match (&self.access, need) {
            (Access::All, _) => None,
            (Access::Scoped(token), Need::Read) => Some(&token.scope.read),
            (Access::Scoped(token), Need::Write) => Some(&token.scope.write),
        }
    }

    fn allowed(&self, need: Need, path: &AbsPath) -> Option<Allowed<'_>> {
        let found = self.terms.roots.find(path)?;
        if need == Need::Write && !found.root.write() {
            return None;
        }
        // Whatever is served: the agent's own keys are not.
        if found.path.beneath(&self.state_dir).is_some() {
            return None;
        }
        let scope = match self.scope(need) {
            None => None,
            Some(scope) => {
                let covering = scope
                    .iter()
                    .filter(|top| found.path.beneath(top).is_some() && self.state_dir.beneath(top).is_none());
                // Of several the widest, so that links between its parts resolve.
                Some(covering.min_by_key(|top| top.as_bytes().len())?)
            }
        };
        Some(Allowed { root: found.root, scope, path: found.path })
    }

    /// What could have been asked for.
    fn places(&self, need: Need) -> Vec<&AbsPath> {
        let roots = || self.terms.roots.iter().filter(|root| need == Need::Read || root.write());
        let Some(scope) = self.scope(need) else {
            return roots().map(Root::written).collect();
        };
        let mut places: Vec<&AbsPath> = Vec::new();
        for (root, top) in roots().flat_map(|root| scope.iter().map(move |top| (root, top))) {
            let narrower = if top.beneath(root.path()).is_some() {
                top
            } else if root.path().beneath(top).is_some() {
                root.written()
            } else {
                continue;
            };
            if !places.contains(&narrower) {
                places.push(narrower);
            }
        }
        places
    }

    fn refuse(&self, need: Need, path: &AbsPath) -> Refusal {
        let verb = if need == Need::Read { "read" } else { "written" };
        let places = self.places(need);
        let readable = need == Need::Write && self.allowed(Need::Read, path).is_some();
        let but = if readable { ", only read" } else { "" };
        let way_out = match (places.is_empty(), &self.access) {
            (false, _) => format!("what can be {verb} with this token is beneath {}", listed(places.into_iter())),
            (true, Access::Scoped(_)) => {
                format!("nothing can be {verb} with this token; ask the agent's operator for one that can")
            }
            (true, Access::All) if need == Need::Write => {
                "nothing can be; the agent's operator opens a directory with `--root DIR`".into()
            }
            (true, Access::All) => "nothing can be; the agent's operator opens a directory with `--root DIR`".into(),
        };
        let code = if matches!(self.access, Access::All) { Code::Path } else { Code::Denied };
        Refusal { code, text: format!("{path} cannot be {verb} at this agent{but}: {way_out}") }
    }
}

impl Grant for TokenGrant {
    fn resolve(&self, direction: Direction, path: &[u8]) -> Result<(Dir, RelPath), Refusal> {
        let need = Need::of(direction);
        let path = AbsPath::new(path).map_err(|e| Refusal { code: Code::Path, text: e.to_string() })?;
        let allowed = self.allowed(need, &path).ok_or_else(|| self.refuse(need, &path))?;
        open(&allowed, need).map_err(|source| {
            let place = allowed.scope.unwrap_or(allowed.root.path());
            tracing::warn!(%place, error = %source, "cannot open a directory that is served");
            let text = format!("{path} cannot be reached at this agent: it cannot open {place} ({source})");
            Refusal { code: Code::Path, text }
        })
    }

    fn may_test(&self) -> bool {
        self.terms.tests && self.scoped(|scope| scope.test)
    }

    fn may_relay(&self) -> bool {
        self.terms.relay && self.scoped(|scope| scope.relay)
    }

    fn hooks(&self) -> Hooks {
        self.terms.hooks.clone()
    }

    fn name(&self) -> String {
        match &self.access {
            Access::All => "main".into(),
            Access::Scoped(token) => show(token.name.as_bytes()),
        }
    }
}

impl TokenGrant {
    fn scoped(&self, ask: impl Fn(&crate::tokens::Scope) -> bool) -> bool {
        match &self.access {
            Access::All => true,
            Access::Scoped(token) => ask(&token.scope),
        }
    }
}

fn open(allowed: &Allowed<'_>, need: Need) -> io::Result<(Dir, RelPath)> {
    let Allowed { root, scope, path } = allowed;
    let outside = || io::Error::from(io::ErrorKind::NotFound);
    let top = root.open()?;
    let narrower = scope.and_then(|scope| Some((scope, scope.beneath(root.path())?)));
    let Some((scope, within)) = narrower else {
        return Ok((top, path.beneath(root.path()).ok_or_else(outside)?));
    };
    match top.open_dir(within.as_bytes()) {
        Ok(dir) => Ok((dir, path.beneath(scope).ok_or_else(outside)?)),
        // The scope is one file: its directory, but no other name in it.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory && need == Need::Read && *path == *scope => {
            let (dir, name) = top.parent(within.as_bytes())?;
            Ok((dir, RelPath::new(name).map_err(|_| outside())?))
        }
        Err(e) => Err(e),
    }
}
