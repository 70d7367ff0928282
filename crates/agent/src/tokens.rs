//! Access tokens: who may come in, to do what, until when.
//!
//! The **main token** may do all that the agent's configuration allows. It is made at the first start and
//! kept as text in `token`, for its owner to hand over. **Scoped tokens** (`longhaul token new`) may read or
//! write some directories, until they expire; of them `tokens.toml` keeps only the SHA-256, so that whoever
//! reads it gains nothing. A scope never opens more than the roots do: it is intersected with them each time.
//!
//! A running agent sees changes at the next connection. A token is compared with all candidates, each in
//! constant time, so the time of an answer does not tell how much of a guess was right.

mod file;
mod store;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use service::StateError;

use crate::path::AbsPath;

pub use store::{MAIN_FILE, TOKENS_FILE, TokenStore};

/// Scoped tokens at most; expired ones make room for new ones.
pub const TOKENS_MAX: usize = 1000;
/// Directories in one scope at most.
pub const SCOPE_MAX: usize = 100;
/// Characters of a token's name at most.
pub const NAME_CHARS_MAX: usize = 64;
/// What every token begins with, so that leaked ones can be found by searching for it.
const PREFIX: &str = "lh1_";

/// What a scoped token is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Beneath these one may read (files too, not only directories).
    pub read: Vec<AbsPath>,
    /// Beneath these one may write.
    pub write: Vec<AbsPath>,
    /// Throughput tests.
    pub test: bool,
    /// Third-party copies that this agent drives.
    pub relay: bool,
}

/// A scoped token as the store knows it: without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The first eight digits of its SHA-256; what `longhaul token revoke` takes.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it is for.
    pub scope: Scope,
    /// When it was made.
    pub created: SystemTime,
    /// From when on it is refused.
    pub expires: Option<SystemTime>,
    sha256: [u8; 32],
}

impl Token {
    /// True from the moment of expiry on.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

/// What is asked of [`TokenStore::issue`].
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// For people; the identity if there is none.
    pub name: Option<String>,
    /// Directories or files that may be read.
    pub read: Vec<std::path::PathBuf>,
    /// Directories that may be written.
    pub write: Vec<std::path::PathBuf>,
    /// How long it lasts; for ever if nothing is said.
    pub expires: Option<units::Span>,
    /// Throughput tests.
    pub test: bool,
    /// Third-party copies.
    pub relay: bool,
}

/// A token just made. Its text is nowhere else: show it once.
pub struct Issued {
    /// What one gives to `--token-file` or `LONGHAUL_TOKEN`.
    pub text: String,
    /// The rest of it.
    pub token: Token,
}

/// What a token that was let in may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The main token: all that the configuration allows.
    All,
    /// A scoped one.
    Scoped(std::sync::Arc<Token>),
}

/// Why a token was not let in; for the log, not for the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is none of ours, or was revoked.
    #[error("unknown token")]
    Unknown,
    /// It was good once.
    #[error("token `{0}` has expired")]
    Expired(String),
}

/// Why a token could not be made, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The store cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// No agent ran with this state directory.
    #[error("there are no tokens of an agent in {}: name its state directory with --state-dir, or its file with --config", .0.display())]
    NoStore(PathBuf),
    /// Something about the request.
    #[error("{0}")]
    Usage(String),
    /// A path of the scope cannot be used.
    #[error("cannot make a token for {path}")]
    Path {
        /// As it was written.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Another command has the store.
    #[error("another command is changing the tokens: try again")]
    Busy,
    /// No random bytes.
    #[error("cannot get random bytes")]
    Random(#[source] std::io::Error),
}

impl TokenError {
    /// Exit code of a command that ends with this.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            TokenError::State(_) | TokenError::Random(_) => 1,
            TokenError::NoStore(_) | TokenError::Usage(_) | TokenError::Path { .. } => 2,
            TokenError::Busy => 75,
        }
    }
}

/// Text of a new token: the prefix and 32 random bytes in URL-safe base64.
pub(crate) fn new_text() -> Result<String, TokenError> {
    let mut secret = [0; 32];
    sys::random::fill(&mut secret).map_err(TokenError::Random)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret)))
}

pub(crate) fn sha256(text: &str) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// The candidate that equals `digest`. All are compared, each in constant time, whichever it is.
pub(crate) fn find_constant_time<T>(digest: &[u8; 32], candidates: impl Iterator<Item = ([u8; 32], T)>) -> Option<T> {
    let mut found = None;
    for (candidate, value) in candidates {
        if aws_lc_rs::constant_time::verify_slices_are_equal(&candidate, digest).is_ok() {
            found = Some(value);
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn from_unix_s(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_long_random_and_safe_in_a_url() {
        let (a, b) = (new_text().unwrap(), new_text().unwrap());
        assert_ne!(a, b);
        for text in [a, b] {
            let rest = text.strip_prefix("lh1_").unwrap();
            assert_eq!(rest.len(), 43);
            assert!(rest.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'), "{rest}");
        }
    }

    #[test]
    fn every_candidate_is_looked_at_wherever_the_match_is() {
        let texts = ["a", "b", "c", "d"];
        for wanted in ["a", "d", "none"] {
            let mut seen = 0;
            let candidates = texts.iter().inspect(|_| seen += 1).map(|t| (sha256(t), *t));
            let found = find_constant_time(&sha256(wanted), candidates);
            assert_eq!(found, texts.iter().copied().find(|t| *t == wanted));
            assert_eq!(seen, texts.len());
        }
    }
}
