//! `tokens.toml`: a raw form that serde reads, and its way to and from [`Token`].

use serde::{Deserialize, Serialize};

use super::{Scope, TOKENS_MAX, Token, from_unix_s, hex, unix_s};
use crate::path::AbsPath;

const HEADER: &str =
    "# Scoped tokens of this agent; made by `longhaul token new`. Of a token only its SHA-256 is kept.\n\n";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    token: Vec<RawToken>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    name: String,
    sha256: String,
    read: Vec<String>,
    write: Vec<String>,
    test: bool,
    relay: bool,
    created_unix_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_unix_s: Option<u64>,
}

/// Reads the file; the error is one line.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Token>, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let raw: Raw = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    if raw.token.len() > TOKENS_MAX {
        return Err(format!("it has more than {TOKENS_MAX} tokens"));
    }
    raw.token.into_iter().map(check).collect()
}

fn check(raw: RawToken) -> Result<Token, String> {
    let wrong = |what: &str| format!("token `{}` has {what}", raw.name.escape_debug());
    let digest: mover::request::Fingerprint = raw.sha256.parse().map_err(|_| wrong("no SHA-256"))?;
    let paths = |texts: &[String]| -> Result<Vec<AbsPath>, String> {
        texts.iter().map(|text| AbsPath::new(text.as_bytes()).map_err(|_| wrong("a path that cannot be one"))).collect()
    };
    let scope = Scope { read: paths(&raw.read)?, write: paths(&raw.write)?, test: raw.test, relay: raw.relay };
    let time = |seconds| from_unix_s(seconds).ok_or_else(|| wrong("a time out of range"));
    Ok(Token {
        id: id(&digest.0),
        scope,
        created: time(raw.created_unix_s)?,
        expires: raw.expires_unix_s.map(time).transpose()?,
        sha256: digest.0,
        name: raw.name,
    })
}

/// The text of the file.
pub(super) fn write(tokens: &[Token]) -> String {
    let paths = |paths: &[AbsPath]| paths.iter().map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned()).collect();
    let raw = |token: &Token| RawToken {
        name: token.name.clone(),
        sha256: hex(&token.sha256),
        read: paths(&token.scope.read),
        write: paths(&token.scope.write),
        test: token.scope.test,
        relay: token.scope.relay,
        created_unix_s: unix_s(token.created),
        expires_unix_s: token.expires.map(unix_s),
    };
    let raw = Raw { token: tokens.iter().map(raw).collect() };
    format!("{HEADER}{}", toml::to_string(&raw).expect("plain tables of text and numbers"))
}

/// How people call a token.
pub(super) fn id(sha256: &[u8; 32]) -> String {
    hex(&sha256[..4])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = AbsPath> {
        "(/[a-zé \"\\\\]{1,6}){1,3}".prop_map(|text| AbsPath::new(text.as_bytes()).expect("it is absolute"))
    }

    fn token() -> impl Strategy<Value = Token> {
        let paths = || prop::collection::vec(path(), 0..3);
        let scope = (paths(), paths(), any::<(bool, bool)>()).prop_map(|(read, write, (test, relay))| Scope {
            read,
            write,
            test,
            relay,
        });
        let times = (0..1u64 << 40, proptest::option::of(0..1u64 << 40));
        ("\\PC{1,20}", any::<[u8; 32]>(), scope, times).prop_map(|(name, sha256, scope, (created, expires))| {
            let time = |seconds| from_unix_s(seconds).expect("it is in range");
            Token { id: id(&sha256), name, sha256, scope, created: time(created), expires: expires.map(time) }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tokens_come_back_as_they_were(tokens in prop::collection::vec(token(), 0..4)) {
            prop_assert_eq!(read(write(&tokens).as_bytes()), Ok(tokens));
        }

        #[test]
        fn a_damaged_file_is_refused_or_read(
            tokens in prop::collection::vec(token(), 1..3),
            at in any::<prop::sample::Index>(),
            to: u8,
        ) {
            let mut bytes = write(&tokens).into_bytes();
            let place = at.index(bytes.len());
            bytes[place] = to;
            // What is read can be written, and says the same.
            if let Ok(tokens) = read(&bytes) {
                prop_assert_eq!(read(write(&tokens).as_bytes()), Ok(tokens));
            }
        }
    }
}
