//! Where a store is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::StoreError;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory of SQLite files.
    Directory(PathBuf),
    /// A database of a PostgreSQL server, `postgres://user:password@host/database`. It has a password perhaps: not shown.
    Postgres(String),
}

impl FromStr for Place {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Place, StoreError> {
        let wrong = || StoreError::Place { text: without_password(text) };
        match text.split_once("://") {
            Some(("postgres" | "postgresql", rest)) if !rest.is_empty() => Ok(Place::Postgres(text.to_owned())),
            Some(_) => Err(wrong()),
            None if text.is_empty() => Err(wrong()),
            None => Ok(Place::Directory(text.into())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

/// A URL as it may be shown: no password, no options (they may hold one).
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let shown = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split_once(':').map_or(user, |(name, _)| name)),
        None => authority.to_owned(),
    };
    format!("{scheme}://{shown}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_and_shown_without_passwords() {
        assert_eq!("/var/lib/longhaul".parse::<Place>().unwrap(), Place::Directory("/var/lib/longhaul".into()));
        let url: Place = "postgres://me:se:cr@et@db.example:5432/long?password=x".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://me@db.example:5432/long");
        assert_eq!(format!("{url:?}"), "Place(postgres://me@db.example:5432/long)");
        for bad in ["", "mysql://u:secret@h/d", "postgres://"] {
            let error = bad.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains("give a directory or postgres://") && !error.contains("secret"), "{error}");
        }
    }
}
