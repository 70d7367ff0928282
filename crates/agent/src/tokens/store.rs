//! The files, and the copy of them that a running agent compares with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use service::private::{PrivateDir, Stamp, StateError};
use sys::file::{Lock, LockMode, lock};

use super::{
    Access, Issued, NAME_CHARS_MAX, NewToken, SCOPE_MAX, Scope, TOKENS_MAX, Token, TokenError, Unfit, file,
    find_constant_time, new_text, sha256,
};
use crate::path::{AbsPath, show};
use crate::roots::{Roots, listed};
use crate::run::ELSEWHERE;

/// The main token, as text.
pub const MAIN_FILE: &str = "token";
/// The scoped tokens.
pub const TOKENS_FILE: &str = "tokens.toml";
/// Held by whoever changes one of the two.
const LOCK_FILE: &str = "tokens.lock";

/// How often, and how far apart, a command tries to get the lock: five seconds in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// A file changed less than this ago may change again without its time showing it.
const SETTLED: Duration = Duration::from_secs(2);
/// A shorter main token is no secret.
const MAIN_CHARS_MIN: usize = 32;
/// What `revoke` calls the main token.
const MAIN_ID: &str = "main";

/// The tokens of one agent.
#[derive(Debug)]
pub struct TokenStore {
    dir: PrivateDir,
    /// Nobody gets a scope that holds the keys.
    state_dir: AbsPath,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    main: Option<[u8; 32]>,
    scoped: Vec<Arc<Token>>,
    /// The files as they were when they were read; `None` if that was too soon after a change.
    stamps: Option<Stamps>,
}

type Stamps = [Option<Stamp>; 2];

impl TokenStore {
    /// Opens the store of a state directory; makes the main token if there is none.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be used, or others can read it.
    pub fn open(state_dir: &Path) -> Result<TokenStore, TokenError> {
        let dir = PrivateDir::open(state_dir, ELSEWHERE)?;
        let real = std::fs::canonicalize(state_dir).map_err(|source| StateError::Io {
            what: "find the state directory",
            path: state_dir.to_owned(),
            fix: None,
            source,
        })?;
        let store = TokenStore { dir, state_dir: abs(&real)?, cache: Mutex::default() };
        if store.dir.read(MAIN_FILE)?.is_none() {
            let text = new_text()?;
            // If another agent was quicker, its token is as good.
            store.dir.create(MAIN_FILE, format!("{text}\n").as_bytes())?;
        }
        store.read_main()?;
        store.read_scoped()?;
        Ok(store)
    }

    /// Opens the store of an agent that ran before; makes nothing.
    ///
    /// # Errors
    /// When there is none, or as [`TokenStore::open`].
    pub fn open_existing(state_dir: &Path) -> Result<TokenStore, TokenError> {
        // What cannot be looked at is there for `open` to complain of.
        if !state_dir.join(MAIN_FILE).try_exists().unwrap_or(true) {
            return Err(TokenError::NoStore(state_dir.to_owned()));
        }
        TokenStore::open(state_dir)
    }

    /// The text of the main token.
    ///
    /// # Errors
    /// When its file cannot be used.
    pub fn main_token(&self) -> Result<String, TokenError> {
        self.read_main()?.ok_or_else(|| self.damaged(MAIN_FILE, "it is gone".into()))
    }

    /// The state directory, without symbolic links.
    #[must_use]
    pub fn state_dir(&self) -> &AbsPath {
        &self.state_dir
    }

    /// Where the main token is.
    #[must_use]
    pub fn main_file(&self) -> PathBuf {
        self.dir.path_of(MAIN_FILE)
    }

    /// Says what a token may do.
    ///
    /// # Errors
    /// When it is not one of ours (any more).
    pub fn check(&self, text: &str, now: SystemTime) -> Result<Access, Unfit> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut cache, now);
        let main = cache.main.map(|digest| (digest, Access::All));
        let scoped = cache.scoped.iter().map(|token| (token.sha256, Access::Scoped(token.clone())));
        match find_constant_time(&sha256(text), main.into_iter().chain(scoped)) {
            None => Err(Unfit::Unknown),
            Some(Access::Scoped(token)) if token.is_expired(now) => Err(Unfit::Expired(token.name.clone())),
            Some(access) => Ok(access),
        }
    }

    /// Reads the files again if they changed. What cannot be read lets nobody in.
    fn refresh(&self, cache: &mut Cache, now: SystemTime) {
        let stamps = [MAIN_FILE, TOKENS_FILE].map(|name| self.dir.stamp(name).ok().flatten());
        if cache.stamps == Some(stamps) {
            return;
        }
        let complain = |error: TokenError| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "tokens cannot be read: they are refused until this is mended"
            )
        };
        let main = self.read_main().map_err(complain).ok().flatten();
        cache.main = main.as_deref().map(sha256);
        cache.scoped = self.read_scoped().map_err(complain).unwrap_or_default().into_iter().map(Arc::new).collect();
        cache.stamps = settled(&stamps, now).then_some(stamps);
    }

    fn read_main(&self) -> Result<Option<String>, TokenError> {
        let Some(bytes) = self.dir.read(MAIN_FILE)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).unwrap_or_default();
        let text = text.trim();
        if text.chars().count() < MAIN_CHARS_MIN || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let why = format!("a token is one line of at least {MAIN_CHARS_MIN} characters without spaces");
            return Err(self.damaged(MAIN_FILE, why));
        }
        Ok(Some(text.to_owned()))
    }

    fn read_scoped(&self) -> Result<Vec<Token>, TokenError> {
        let Some(bytes) = self.dir.read(TOKENS_FILE)? else {
            return Ok(Vec::new());
        };
        file::read(&bytes).map_err(|why| self.damaged(TOKENS_FILE, why))
    }

    fn damaged(&self, name: &str, why: String) -> TokenError {
        StateError::Damaged { path: self.dir.path_of(name), why, fix: "mend or remove it, and make its tokens anew" }
            .into()
    }

    /// Makes a scoped token. With the agent's `roots` at hand, a scope outside of them is refused here and now;
    /// without, such a token is made, but opens nothing.
    ///
    /// # Errors
    /// When a path is not there or not beneath a root, the name is taken, or the store is full or in use.
    pub fn issue(&self, new: &NewToken, roots: Option<&Roots>, now: SystemTime) -> Result<Issued, TokenError> {
        let scope = self.scope(new, roots)?;
        let expires = new.expires.map(|span| expiry(span, now)).transpose()?;
        let text = new_text()?;
        let sha256 = sha256(&text);
        let id = file::id(&sha256);
        let name = new.name.clone().unwrap_or_else(|| id.clone());
        check_name(&name)?;
        let _lock = self.lock()?;
        let mut tokens = self.read_scoped()?;
        if tokens.len() >= TOKENS_MAX {
            tokens.retain(|token| !token.is_expired(now));
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(TokenError::Usage(format!(
                "there are {TOKENS_MAX} tokens already: revoke some (`longhaul token ls`)"
            )));
        }
        if tokens.iter().any(|token| token.name == name || token.id == name || token.id == id) {
            return Err(TokenError::Usage(format!(
                "there is a token `{name}` already: choose another --name, or revoke it first"
            )));
        }
        // Whole seconds, as they will be read back.
        let token = Token { id, name, scope, created: whole_seconds(now), expires, sha256 };
        tokens.push(token.clone());
        self.dir.replace(TOKENS_FILE, file::write(&tokens).as_bytes())?;
        Ok(Issued { text, token })
    }

    fn scope(&self, new: &NewToken, roots: Option<&Roots>) -> Result<Scope, TokenError> {
        let usage = |text: String| Err(TokenError::Usage(text));
        if new.read.len() + new.write.len() > SCOPE_MAX {
            return usage(format!("a token is for at most {SCOPE_MAX} directories: make several tokens"));
        }
        if new.read.is_empty() && new.write.is_empty() && !new.test && !new.relay {
            return usage("the token would be good for nothing: give it --read DIR or --write DIR".into());
        }
        let mut scope = Scope { test: new.test, relay: new.relay, ..Scope::default() };
        for (paths, write) in [(&new.read, false), (&new.write, true)] {
            for path in paths {
                let checked = self.scope_path(path, write, roots)?;
                if write { scope.write.push(checked) } else { scope.read.push(checked) }
            }
        }
        Ok(scope)
    }

    fn scope_path(&self, written: &Path, write: bool, roots: Option<&Roots>) -> Result<AbsPath, TokenError> {
        let usage = |text: String| Err(TokenError::Usage(text));
        let path = canonical(written, if write { "--write " } else { "--read " })?;
        if std::str::from_utf8(path.as_bytes()).is_err() {
            return usage(format!("{path} is not UTF-8: make the token for the directory above it"));
        }
        if write && !path.as_path().is_dir() {
            return usage(format!("{path} is no directory: --write takes the directory that may be written beneath"));
        }
        if path.beneath(&self.state_dir).is_some() || self.state_dir.beneath(&path).is_some() {
            return usage(format!(
                "{path} would hand out this agent's own keys, which are in {}: choose another directory",
                self.state_dir
            ));
        }
        let Some(roots) = roots else { return Ok(path) };
        match roots.find(&path) {
            Some(found) if found.root.write() || !write => Ok(path),
            Some(found) => usage(format!(
                "{path} cannot be written: the root {0} is read-only (serve it with --root {0})",
                found.root.written()
            )),
            None => usage(format!(
                "{path} is beneath no root of this agent, so the token would open nothing; its roots: {}",
                listed(roots.iter().map(|r| r.written()))
            )),
        }
    }

    /// The scoped tokens, expired ones too, in the order they were made.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn list(&self) -> Result<Vec<Token>, TokenError> {
        self.read_scoped()
    }

    /// Takes a token back, by its identity or name: nobody comes in with it from now on. Sessions that run go
    /// on. `main` is replaced by a new one, for there is always one. Returns the name of what was revoked.
    ///
    /// # Errors
    /// When there is none of that name, or the store cannot be used.
    pub fn revoke(&self, id: &str) -> Result<String, TokenError> {
        let _lock = self.lock()?;
        if id == MAIN_ID {
            self.dir.replace(MAIN_FILE, format!("{}\n", new_text()?).as_bytes())?;
            return Ok(MAIN_ID.to_owned());
        }
        let mut tokens = self.read_scoped()?;
        let Some(at) = tokens.iter().position(|token| token.id == id || token.name == id) else {
            let id = show(id.as_bytes());
            return Err(TokenError::Usage(format!("there is no token `{id}`: `longhaul token ls` lists them")));
        };
        let token = tokens.remove(at);
        self.dir.replace(TOKENS_FILE, file::write(&tokens).as_bytes())?;
        Ok(token.name)
    }

    fn lock(&self) -> Result<std::fs::File, TokenError> {
        let file = self.dir.lock_file(LOCK_FILE)?;
        for _ in 0..LOCK_TRIES {
            match lock(&file, LockMode::Exclusive) {
                Ok(Lock::Taken) => return Ok(file),
                Ok(Lock::Held { .. }) => std::thread::sleep(LOCK_PAUSE),
                Err(source) => {
                    let path = self.dir.path_of(LOCK_FILE);
                    return Err(StateError::Io { what: "lock", path, fix: None, source }.into());
                }
            }
        }
        Err(TokenError::Busy)
    }
}

/// True if no file is so fresh that it could change again unnoticed.
fn settled(stamps: &Stamps, now: SystemTime) -> bool {
    let now_ns = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
    let limit = now_ns - SETTLED.as_nanos() as i128;
    stamps.iter().flatten().all(|stamp| stamp.ctime_ns < limit)
}

fn canonical(path: &Path, option: &str) -> Result<AbsPath, TokenError> {
    use std::os::unix::ffi::OsStrExt;
    let error = |source| TokenError::Path { path: format!("{option}{}", show(path.as_os_str().as_bytes())), source };
    abs(&std::fs::canonicalize(path).map_err(error)?)
}

fn abs(path: &Path) -> Result<AbsPath, TokenError> {
    use std::os::unix::ffi::OsStrExt;
    AbsPath::new(path.as_os_str().as_bytes()).map_err(|e| TokenError::Usage(e.to_string()))
}

fn check_name(name: &str) -> Result<(), TokenError> {
    let plain = |c: char| !c.is_control() && !c.is_whitespace();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(plain) || name == MAIN_ID {
        let name = show(name.as_bytes());
        return Err(TokenError::Usage(format!(
            "`{name}` cannot name a token: it takes 1 to {NAME_CHARS_MAX} characters without spaces, and not `{MAIN_ID}`"
        )));
    }
    Ok(())
}

fn expiry(span: units::Span, now: SystemTime) -> Result<SystemTime, TokenError> {
    if span.get() < Duration::from_secs(1) {
        return Err(TokenError::Usage(format!(
            "a token that expires in {span} is of no use: say for example `--expires 2d`"
        )));
    }
    // 292 billion years fit into the time; its whole seconds are what the file keeps.
    let expires = now.checked_add(span.get()).map(whole_seconds);
    expires.ok_or_else(|| {
        TokenError::Usage(format!("{span} is too long: leave --expires out for a token that lasts until it is revoked"))
    })
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    super::from_unix_s(super::unix_s(time)).unwrap_or(time)
}
