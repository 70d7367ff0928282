//! History: samples that the controller keeps, as points.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Check, Time, Wrong};

/// Points of one answer at most.
pub const POINTS_MAX: u32 = 10_000;
/// Points of one answer, if nobody says.
pub const POINTS_DEFAULT: u32 = 360;
/// How long before `to` the points begin, if nobody says, s.
pub const HISTORY_SECONDS: u64 = 3_600;
/// How long they may be, s: nothing is kept for longer.
pub const HISTORY_SECONDS_MAX: u64 = 366 * 86_400;
/// Bytes of the name of a series.
pub const SERIES_NAME_MAX: usize = 256;

/// `GET /history`: of what, from when to when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// The series, such as `link:ana:forward/measured_bps`.
    pub series: String,
    /// From when on; or `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// How long before `to` it begins; an hour if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Until when; now if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// How many points at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<u32>,
}

impl HistoryQuery {
    /// From when to when, as of now.
    ///
    /// # Errors
    /// When that is no time.
    pub fn window(&self, now: Time) -> Result<[Time; 2], Wrong> {
        let to = self.to.unwrap_or(now);
        let before = self.seconds.unwrap_or(HISTORY_SECONDS).saturating_mul(1_000);
        let from = self.from.unwrap_or_else(|| Time::from_unix_ms(to.unix_ms().saturating_sub(before)));
        if from < to { Ok([from, to]) } else { Err(Wrong::new("from", format!("{from} is not before {to}"))) }
    }
}

impl Check for HistoryQuery {
    fn check(&self) -> Result<(), Wrong> {
        let name = &self.series;
        if name.is_empty() || name.len() > SERIES_NAME_MAX || name.contains(char::is_control) {
            return Err(Wrong::new("series", "it names no series: look at GET /api/v1/history/series"));
        }
        if self.from.is_some() && self.seconds.is_some() {
            return Err(Wrong::new("seconds", "give either `from` or `seconds`"));
        }
        super::checked_seconds("seconds", self.seconds, HISTORY_SECONDS_MAX)?;
        match self.points {
            Some(points) if !(1..=POINTS_MAX).contains(&points) => {
                Err(Wrong::new("points", format!("{points} is not from 1 to {POINTS_MAX}")))
            }
            _ => Ok(()),
        }
    }
}

/// A series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// `kind:thing/what`, with the unit of its values at its end.
    pub name: String,
    /// When the last value came; not there if none came since the controller began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The last value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// Points of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Its name.
    pub series: String,
    /// From when on.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// How long a point is, ms: as fine as what is kept of all that time, or as the number of points allows.
    pub grain_ms: u64,
    /// In order; where no values came there is none.
    pub points: Vec<Point>,
}

/// The values of a time of `grain_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// When it begins.
    pub at: Time,
    /// Their mean.
    pub mean: f64,
    /// The greatest of them.
    pub max: f64,
    /// How many there were: one in a second.
    pub count: u32,
}
