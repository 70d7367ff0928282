//! Things that are one word on the wire: places, numbers of transfers, moments, names.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::{Moment, Utc};

use super::{NAME_MAX, PATH_MAX, Wrong};
use crate::Name;

/// Gives a type that is text its serde and its schema.
macro_rules! as_text {
    ($type:ty, $name:literal, $schema:tt) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<$type, D::Error> {
                Cow::<str>::deserialize(input)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// A place at an endpoint: `endpoint:/absolute/path`, escaped as [`Name`] is. A source with a slash at its end means what
/// is in it, as in rsync; a destination with one is a directory to put things in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Where, beneath the endpoint's root or not, as its agents see it; absolute.
    pub path: Name,
}

as_text!(Location, "Location", {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*:/",
    "description": "`endpoint:/absolute/path`; bytes that are no UTF-8, control characters and `%` are `%` and two hexadecimal digits. A slash at the end counts as rsync's."
});

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.endpoint, self.path)
    }
}

impl FromStr for Location {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Location, Wrong> {
        let wrong = |why: String| Wrong::new(shown(text), why);
        let form = || wrong("a place is written `endpoint:/absolute/path`".to_owned());
        let (endpoint, path) = text.split_once(':').ok_or_else(form)?;
        checked_name("endpoint", endpoint).map_err(|e| wrong(format!("the endpoint: {}", e.why)))?;
        let path: Name = path.parse().map_err(|e: crate::name::NameError| wrong(e.to_string()))?;
        if !path.0.starts_with(b"/") {
            return Err(form());
        }
        checked_path(&path.0).map_err(wrong)?;
        Ok(Location { endpoint: endpoint.to_owned(), path })
    }
}

/// No system could open others, and none of ours would.
pub(super) fn checked_path(path: &[u8]) -> Result<(), String> {
    if path.len() > PATH_MAX {
        return Err(format!("the path has {} bytes, {PATH_MAX} are the most", path.len()));
    }
    if path.contains(&0) {
        return Err("the path has a zero byte, which no file system takes".to_owned());
    }
    if path.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return Err("the path has `..`: write where it leads to".to_owned());
    }
    Ok(())
}

/// Checks the name of an agent: that of its host, or, where several share a host, `instance@host`.
///
/// # Errors
/// When it is none.
pub fn checked_agent(field: &str, agent: &str) -> Result<(), Wrong> {
    let (instance, host) = agent.split_once('@').map_or((None, agent), |(instance, host)| (Some(instance), host));
    instance.map_or(Ok(()), |instance| checked_name(field, instance))?;
    checked_name(field, host)
}

/// Checks the name of a host, endpoint, class, link, token, or collaboration: letters, digits, `.`, `_`, `-`, at most
/// [`NAME_MAX`] of them, the first a letter or digit.
///
/// # Errors
/// When it is none.
pub fn checked_name(field: &str, name: &str) -> Result<(), Wrong> {
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let all = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if begins && all && name.len() <= NAME_MAX {
        return Ok(());
    }
    let name = shown(name);
    Err(Wrong::new(
        field,
        format!("`{name}` is no name: 1 to {NAME_MAX} letters, digits, `.`, `_` or `-`, the first a letter or digit"),
    ))
}

/// What somebody wrote, safe to be told again.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}

/// Number of a transfer, written `t17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

as_text!(TransferId, "TransferId", {"type": "string", "pattern": "^t[0-9]+$", "description": "Number of a transfer."});

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl FromStr for TransferId {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<TransferId, Wrong> {
        let digits = text.strip_prefix('t').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        let why = || Wrong::new("id", format!("`{}` is no transfer: one is written `t17`", shown(text)));
        number.map(TransferId).ok_or_else(why)
    }
}

/// A moment: nanoseconds of Unix time, on the wire RFC 3339 as `2026-03-01T06:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Moment);

as_text!(Time, "Time", {"type": "string", "format": "date-time"});

impl Time {
    /// From milliseconds of Unix time; what is later than can be written is the latest that can.
    #[must_use]
    pub fn from_unix_ms(ms: u64) -> Time {
        let latest = units::Window::LATEST;
        Time(i64::try_from(ms).ok().and_then(|ms| ms.checked_mul(1_000_000)).map_or(latest, |ns| ns.min(latest)))
    }

    /// Milliseconds of Unix time; none before 1970.
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        u64::try_from(self.0 / 1_000_000).unwrap_or(0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Utc(self.0).fmt(f)
    }
}

impl FromStr for Time {
    type Err = units::UtcError;

    fn from_str(text: &str) -> Result<Time, units::UtcError> {
        Ok(Time(text.parse::<Utc>()?.0))
    }
}
