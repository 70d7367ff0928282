//! What is said over a control socket: one JSON object a line.

use mover::event::{Interval, Progress};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Request {
    /// How is it going?
    Status,
    /// A new set point: `"8 Gb/s"` or `"off"`.
    Rate {
        /// With its unit.
        rate: String,
    },
    /// Another number of streams.
    Streams {
        /// How many.
        n: u16,
    },
    /// Finish what is in flight and end.
    Stop,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// True if it was done.
    pub(crate) ok: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// How it is going.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
}

/// How a session is going.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// Its id.
    pub(crate) session: String,
    /// Process that drives it.
    pub(crate) pid: u32,
    /// `copy` or `test`.
    pub(crate) kind: String,
    /// What it does, as the user wrote it.
    pub(crate) what: String,
    /// Seconds since the start.
    pub(crate) seconds: f64,
    /// Bytes in place; of a test, bytes that arrived.
    pub(crate) bytes_done: u64,
    /// Bytes of the dataset known so far.
    pub(crate) bytes_total: u64,
    /// Files done.
    pub(crate) files_done: u64,
    /// Files known so far.
    pub(crate) files_total: u64,
    /// Files that failed.
    pub(crate) files_failed: u64,
    /// Goodput of the last second, b/s.
    pub(crate) rate_bps: u64,
    /// Goodput since the start, b/s.
    pub(crate) mean_rate_bps: u64,
    /// Seconds to go.
    pub(crate) eta_s: Option<u64>,
    /// Data streams.
    pub(crate) streams: u16,
    /// What limited the last second.
    pub(crate) limit: Option<String>,
    /// Greatest rate, b/s of IP packets.
    pub(crate) set_point_bps: Option<u64>,
}

impl Reply {
    /// It was done, or asked for.
    pub(crate) fn status(status: Status) -> Reply {
        Reply { ok: true, error: None, status: Some(status) }
    }

    /// It was not done.
    pub(crate) fn no(error: String) -> Reply {
        Reply { ok: false, error: Some(error), status: None }
    }
}

impl Status {
    /// Takes over what a copy tells.
    pub(crate) fn progress(&mut self, state: &Progress) {
        *self = Status {
            seconds: state.seconds,
            bytes_done: state.bytes_done,
            bytes_total: state.bytes_total,
            files_done: state.files_done,
            files_total: state.files_total,
            files_failed: state.files_failed,
            rate_bps: state.rate_bps,
            mean_rate_bps: state.mean_rate_bps,
            eta_s: state.eta_s,
            streams: state.streams,
            limit: Some(crate::output::name::words(&state.limit)),
            ..std::mem::take(self)
        };
    }

    /// Takes over what a test tells.
    pub(crate) fn interval(&mut self, state: &Interval) {
        self.seconds = state.to_s;
        self.bytes_done = self.bytes_done.saturating_add(state.bytes);
        self.rate_bps = state.rate_bps;
        self.streams = state.streams;
        self.limit = Some(crate::output::name::words(&state.limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_documented() {
        let cases = [
            (r#"{"op":"status"}"#, Request::Status),
            (r#"{"op":"rate","rate":"8 Gb/s"}"#, Request::Rate { rate: "8 Gb/s".into() }),
            (r#"{"op":"rate","rate":"off"}"#, Request::Rate { rate: "off".into() }),
            (r#"{"op":"streams","n":4}"#, Request::Streams { n: 4 }),
            (r#"{"op":"stop"}"#, Request::Stop),
        ];
        for (text, request) in cases {
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
        }
        for bad in [
            "",
            "{}",
            r#"{"op":"halt"}"#,
            r#"{"op":"streams","n":-1}"#,
            r#"{"op":"rate"}"#,
            r#"{"op":"rate","rate":8}"#,
        ] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
