//! What went wrong: `application/problem+json` (RFC 9457).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Wrong;

/// Media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{detail}{}", fix.as_ref().map(|fix| format!(": {fix}")).unwrap_or_default())]
pub struct Problem {
    /// A word that stays the same: programs look at this.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// What kind of problem that is, for people.
    pub title: Box<str>,
    /// The HTTP status that it came with.
    pub status: u16,
    /// What went wrong this time.
    pub detail: String,
    /// The way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The field of the request that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Box<str>>,
    /// What stands in the way: a resource, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<str>>,
    /// When to try again, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_seconds: Option<u64>,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request cannot be read.
    Malformed,
    /// The request can be read but not be meant.
    Invalid,
    /// No token, or none that is known.
    Unauthenticated,
    /// The token is not for this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path is there, the method is not.
    MethodNotAllowed,
    /// The thing is in another state than it would have to be.
    Conflict,
    /// The idempotency key was used for something else.
    KeyReused,
    /// There is no room for it in the network: marks, limits, capacities.
    NoCapacity,
    /// The request is too large.
    TooLarge,
    /// The body is of another media type.
    UnsupportedMedia,
    /// The request took too long to arrive.
    Timeout,
    /// Too much at once; later there is room.
    TooMany,
    /// The controller cannot write any more: its disk is full, or failed.
    StoreFull,
    /// The controller cannot do that now.
    Unavailable,
    /// A mistake of the controller.
    Internal,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 16] = [
        Kind::Malformed,
        Kind::Invalid,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::MethodNotAllowed,
        Kind::Conflict,
        Kind::KeyReused,
        Kind::NoCapacity,
        Kind::TooLarge,
        Kind::UnsupportedMedia,
        Kind::Timeout,
        Kind::TooMany,
        Kind::StoreFull,
        Kind::Unavailable,
        Kind::Internal,
    ];

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Kind::Malformed => 400,
            Kind::Invalid | Kind::KeyReused => 422,
            Kind::Unauthenticated => 401,
            Kind::Forbidden => 403,
            Kind::NotFound => 404,
            Kind::MethodNotAllowed => 405,
            Kind::Timeout => 408,
            Kind::Conflict | Kind::NoCapacity => 409,
            Kind::TooLarge => 413,
            Kind::UnsupportedMedia => 415,
            Kind::TooMany => 429,
            Kind::Internal => 500,
            Kind::Unavailable => 503,
            Kind::StoreFull => 507,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::Malformed => "the request cannot be read",
            Kind::Invalid => "the request cannot be meant",
            Kind::Unauthenticated => "no token that is known",
            Kind::Forbidden => "the token is not for this",
            Kind::NotFound => "there is no such thing",
            Kind::MethodNotAllowed => "not with this method",
            Kind::Conflict => "not in this state",
            Kind::KeyReused => "the idempotency key was used for something else",
            Kind::NoCapacity => "no capacity",
            Kind::TooLarge => "too large",
            Kind::UnsupportedMedia => "another media type",
            Kind::Timeout => "too slow",
            Kind::TooMany => "too much at once",
            Kind::StoreFull => "the store cannot be written",
            Kind::Unavailable => "not now",
            Kind::Internal => "a mistake of the controller",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Problem {
    /// A problem of this kind; `detail` is lower case, names the operation and the thing, and has no full stop.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            title: kind.title().into(),
            status: kind.status(),
            detail: detail.into(),
            fix: None,
            field: None,
            resource: None,
            again_seconds: None,
        }
    }

    /// With the way out.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Problem {
        Problem { fix: Some(fix.into()), ..self }
    }

    /// With the resource that stands in the way.
    #[must_use]
    pub fn resource(self, resource: impl Into<String>) -> Problem {
        Problem { resource: Some(resource.into().into_boxed_str()), ..self }
    }

    /// With when to try again.
    #[must_use]
    pub fn again(self, seconds: u64) -> Problem {
        Problem { again_seconds: Some(seconds), ..self }
    }

    /// There is no such thing, such as `transfer t17`.
    #[must_use]
    pub fn not_found(thing: impl fmt::Display) -> Problem {
        Problem::new(Kind::NotFound, format!("there is no {thing}"))
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Problem {
        Problem { field: Some(wrong.field.as_str().into()), ..Problem::new(Kind::Invalid, wrong.to_string()) }
    }
}
